"""The engine ray on a real cluster of two workers: undisturbed, with a worker killed, killed itself, interrupted."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from robustify.models.engines.ray_workers import cluster
from robustify.models.model_settings import RayModel
from robustify.runs.run import write_items
from tests.support.cases import refuses
from tests.support.fake_logs import boxes
from tests.support.model_cache import tiny_llama

pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")
pytest.importorskip("ray", reason="the ray extra is not installed")

from bench.torture.runs import command, ended, files_of, kept_so_far, rows, start, wait_until

REAL = """\
name: tiny
sensitivity: public
data: items.jsonl
models: [{name: tiny, model: model, max_batch_tokens: 64, section: 2, %s}]
limits: {min_kept: 1}
"""
WORKERS = "engine: ray, workers: 2, threads: 1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items, a model, and a config for the engine ray and for a local run."""
    folder = tmp_path_factory.mktemp("ray") / "home"
    folder.mkdir()
    write_items(folder / "items.jsonl", boxes(30))
    tiny_llama(folder / "model")
    (folder / "workers.yaml").write_text(REAL % WORKERS)
    (folder / "here.yaml").write_text(REAL % "engine: hf")
    return folder


@pytest.fixture(scope="module")
def undisturbed(home: Path) -> dict[str, dict[str, bytes]]:
    """What is left by a run on workers, and by a local run of one thread."""
    found = {}
    for name in ("workers", "here"):
        told = ended(start(home, command(home / name, home / f"{name}-cache", f"{name}.yaml")))
        assert told.code in (0, 7), told.err
        assert "Traceback" not in told.err
        found[name] = files_of(home / name)
    return found


@pytest.mark.proof
def test_a_run_on_workers_leaves_the_bytes_of_a_local_run(undisturbed: dict[str, dict[str, bytes]]) -> None:
    workers, here = undisturbed["workers"], undisturbed["here"]
    assert sorted(workers) == sorted(here)
    assert [name for name in here if workers[name] != here[name]] == ["run.json"]
    theirs, ours = (json.loads(side["run.json"]) for side in (workers, here))
    assert {k for k in ours if ours[k] != theirs[k]} == {"config"}


@pytest.mark.proof
def test_a_run_whose_worker_is_killed_leaves_the_same_bytes(
    home: Path, undisturbed: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    process = start(home, command(out, cache, "workers.yaml"))
    wait_until(lambda: kept_so_far(cache) > 100, process)
    victims = workers_of(process.pid)
    assert len(victims) == 2
    os.kill(victims[0], signal.SIGKILL)
    told = ended(process)
    assert told.code in (0, 7), told.err
    assert files_of(out) == undisturbed["workers"]


@pytest.mark.proof
def test_a_killed_run_leaves_no_workers_and_goes_on_to_the_same_bytes(
    home: Path, undisturbed: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    process = start(home, command(out, cache, "workers.yaml"))
    wait_until(lambda: kept_so_far(cache) > 100, process)
    workers = workers_of(process.pid)
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    assert not (out / "run.json").exists()
    stop = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < stop, "workers outlive the run"
        time.sleep(0.1)
    so_far = rows(cache)
    told = ended(start(home, command(out, cache, "workers.yaml")))
    assert told.code in (0, 7), told.err
    assert rows(cache) > so_far > 100
    assert files_of(out) == undisturbed["workers"]


@pytest.mark.proof
def test_no_cluster_at_an_address_is_a_resource_error(home: Path) -> None:
    with refuses("no-ray-cluster"), cluster(RayModel(name="m", engine="ray", address="127.0.0.1:1")):
        pass


def workers_of(driver: int) -> list[int]:
    """The processes of the actors below a driver, by what Ray calls them."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}

    def is_below(pid: int) -> bool:
        return pid == driver or (pid in parents and is_below(parents[pid]))

    return [int(pid) for pid, _, *words in rows if "ray::Worker" in "".join(words) and is_below(int(pid))]
