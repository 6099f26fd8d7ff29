"""Runs that are broken on purpose: killed, interrupted, out of disk, with other weights or NaN, two at once.

Every run is a process of its own, as a user starts it. A run that was broken and repeated must leave the
folder, file by file and byte by byte, of a run that nobody disturbed.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from robustify.engines import score_file
from robustify.engines.cache import FILE, Cache
from robustify.item import Item
from robustify.run import OUTSIDE_THE_CLAIM, write_items
from tests.support.model_cache import tiny_llama

pytestmark = pytest.mark.slow

pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

REPOSITORY = Path(__file__).parent.parent
CONFIG = """\
name: tiny
sensitivity: public
data: items.jsonl
models: [{name: tiny, model: model, max_batch_tokens: 64}]
limits: {min_robust: 1}
"""
COLOURS = ("red", "green", "blue", "grey")
GIVE_UP = 1200.0
"""Seconds. Generous: other programs may take the machine."""
MOMENTS, IN_A_ROW = 30, 3


@dataclass(frozen=True, slots=True)
class Bench:
    """A config with its items and model in `home`, and what an undisturbed run of it leaves: `files`, by name,
    the number of scores it keeps, and when, in seconds from the start, the first is kept and the run ends."""

    home: Path
    files: Mapping[str, bytes]
    rows: int
    first: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process left behind."""

    code: int
    err: str


def command(out: Path, cache: Path) -> list[str]:
    return [
        sys.executable, "-m", "robustify", "run", "c.yaml",
        "--out", str(out), "--cache-dir", str(cache), "--no-progress",
    ]  # fmt: skip


def start(home: Path, arguments: list[str]) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "ROBUSTIFY_CACHE": str(home / "digests"),
        "HF_HUB_OFFLINE": "1",
        # One thread: two of these processes at once must not fight for the cores.
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        arguments,
        cwd=home,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_interrupts,
    )


def hears_interrupts() -> None:
    """A shell that runs the suite in the background has its children ignore Ctrl-C, and theirs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended(process: "subprocess.Popen[str]") -> Ended:
    try:
        _, err = process.communicate(timeout=GIVE_UP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Ended(process.returncode, err)


def run(home: Path, out: Path, cache: Path) -> Ended:
    return ended(start(home, command(out, cache)))


def finish(home: Path, out: Path, cache: Path) -> None:
    told = run(home, out, cache)
    assert told.code in (0, 7), told.err
    assert "Traceback" not in told.err


def held(out: Path) -> dict[str, bytes]:
    """Every file of a folder, also hidden ones, without those that the claim leaves out."""
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and p.name not in OUTSIDE_THE_CLAIM
    }


def assert_undisturbed(out: Path, bench: Bench) -> None:
    found = held(out)
    assert sorted(found) == sorted(bench.files)
    assert [name for name in found if found[name] != bench.files[name]] == []


def rows(cache: Path) -> int:
    """The scores that are kept, every one of them whole."""
    if not (cache / FILE).is_file():
        return 0
    with Cache(cache) as scores:
        told = scores.info(verify=True)
    assert told.damaged == 0
    assert not list(cache.glob("*.corrupt-*"))
    return told.rows


def kept_so_far(cache: Path) -> int:
    """The scores that another process has committed; 0 where it has not begun."""
    try:
        db = sqlite3.connect(f"file:{cache / FILE}?mode=ro", uri=True, timeout=5)
    except sqlite3.OperationalError:
        return 0
    try:
        return int(db.execute("SELECT count(*) FROM score").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        db.close()


def wait_until(true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    stop = time.monotonic() + GIVE_UP
    while not true():
        assert process.poll() is None, "the process ended before it could be disturbed"
        assert time.monotonic() < stop
        time.sleep(0.005)


def one_line(told: Ended) -> str:
    lines = told.err.strip().split("\n")
    assert len(lines) == 1, told.err
    assert "Traceback" not in told.err
    return lines[0]


def made_up() -> list[Item]:
    sums = [
        Item(f"sum{i}", f"What is {i} and {i + 3}?", tuple(str(2 * i + d) for d in (3, 4, 6, 9)), 0, "sums")
        for i in range(15)
    ]
    boxes = [
        Item(f"box{i}", f"Which colour has box {i}?", tuple(f"{c} {i}" for c in COLOURS), i % 4, "boxes")
        for i in range(15)
    ]
    return sums + boxes


def home_of(folder: Path) -> Path:
    """A config, its items and its model."""
    folder.mkdir()
    write_items(folder / "items.jsonl", made_up())
    (folder / "c.yaml").write_text(CONFIG)
    tiny_llama(folder / "model")
    return folder


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    home = home_of(tmp_path_factory.mktemp("faults") / "home")
    out, cache = home / "undisturbed", home / "undisturbed-cache"
    begun = time.monotonic()
    process = start(home, command(out, cache))
    wait_until(lambda: kept_so_far(cache) > 0, process)
    first = time.monotonic() - begun
    told = ended(process)
    seconds = time.monotonic() - begun
    assert told.code in (0, 7), told.err
    files = held(out)
    assert {"run.json", "summary.json", "answers.parquet", "report.html"} <= set(files)
    return Bench(home, files, rows(cache), first, seconds)


def killed_at(bench: Bench, moment: float, out: Path, cache: Path) -> bool:
    """Start a run and kill it after `moment` seconds; whether it was still running then."""
    process = start(bench.home, command(out, cache))
    try:
        told: Ended | None = Ended(*_waited(process, moment))
    except subprocess.TimeoutExpired:
        process.kill()
        assert ended(process).code == -signal.SIGKILL
        return True
    assert told is not None
    assert told.code in (0, 7), told.err
    return False


def _waited(process: "subprocess.Popen[str]", seconds: float) -> tuple[int, str]:
    _, err = process.communicate(timeout=seconds)
    return process.returncode, err


def test_the_undisturbed_run_keeps_its_scores_in_many_steps(bench: Bench) -> None:
    # Otherwise nothing below would break a run between two commits.
    assert bench.rows > 500
    assert bench.first < bench.seconds


def test_a_run_killed_twice_ends_with_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    for share in (0.2, 0.4):
        process = start(bench.home, command(out, cache))
        wait_until(lambda so_far=share * bench.rows: kept_so_far(cache) > so_far, process)
        process.kill()
        assert ended(process).code == -signal.SIGKILL
        assert not (out / "run.json").exists()
        assert 0 < rows(cache) < bench.rows
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)
    assert rows(cache) == bench.rows


@pytest.mark.proof
def test_a_run_killed_at_thirty_moments_ends_with_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    chance = random.Random(0)
    # Two of three moments fall between the first score and the end, where there is something to lose.
    moments = [chance.uniform(0, 1.1 * bench.seconds) for _ in range(MOMENTS // 3)]
    moments += [
        chance.uniform(0.95 * bench.first, 1.1 * bench.seconds) for _ in range(MOMENTS - len(moments))
    ]
    chance.shuffle(moments)
    n_killed = n_here = folder = 0
    for n, moment in enumerate(moments, start=1):
        out, cache = tmp_path / f"out-{folder}", tmp_path / f"cache-{folder}"
        killed = killed_at(bench, moment, out, cache)
        n_killed, n_here = n_killed + killed, n_here + killed
        assert rows(cache) <= bench.rows
        if killed and n_here < IN_A_ROW and n < len(moments):
            continue
        if killed:
            finish(bench.home, out, cache)
        assert_undisturbed(out, bench)
        assert rows(cache) == bench.rows
        folder, n_here = folder + 1, 0
    assert n_killed >= MOMENTS // 2


KILLED_WRITING = """\
import os, signal, sys
from robustify import cli
moves, replace = int(sys.argv.pop(1)), os.replace
def last(source, place):
    global moves
    if ".staging-" in str(source):
        moves -= 1
        if moves < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, place)
os.replace = last
cli.main()
"""


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "over an earlier run"])
@pytest.mark.parametrize(
    "moves",
    [
        pytest.param(0, id="before", marks=pytest.mark.proof),
        pytest.param(1, id="first", marks=pytest.mark.proof),
        pytest.param(7, id="middle"),
        pytest.param(-1, id="run.json"),
    ],
)
def test_a_run_killed_while_its_folder_is_written_can_be_repeated(
    bench: Bench, tmp_path: Path, moves: int, earlier: bool
) -> None:
    out, cache = tmp_path / "out", bench.home / "undisturbed-cache"
    if earlier:
        shutil.copytree(bench.home / "undisturbed", out)
    # The first move says whose the files are. All of them but run.json are in place where it is the next.
    done = str(moves if moves >= 0 else len(bench.files))
    told = ended(start(bench.home, [sys.executable, "-c", KILLED_WRITING, done, *command(out, cache)[3:]]))
    assert told.code == -signal.SIGKILL, told.err
    assert (out / "run.json").exists() == (earlier and moves == 0)
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)
    assert not list(out.glob(".staging-*"))
    assert not (out / ".run.writing").exists()


def test_an_interrupted_run_says_so_in_one_line_and_goes_on(bench: Bench, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    process = start(bench.home, command(out, cache))
    wait_until(lambda: kept_so_far(cache) > bench.rows // 4, process)
    process.send_signal(signal.SIGINT)
    told = ended(process)
    assert told.code == 130, told.err
    assert one_line(told) == "robustify: interrupted; run the same command again"
    assert not (out / "run.json").exists()
    assert 0 < rows(cache) < bench.rows
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)


FULL = """\
import sys
from robustify import cli
from robustify.engines import cache
connected, pages = cache._connected, sys.argv.pop(1)
def small(path, **how):
    db = connected(path, **how)
    db.execute(f"PRAGMA max_page_count={pages}")
    return db
cache._connected = small
cli.main()
"""


def test_a_full_disk_is_one_line_and_what_was_kept_stays(bench: Bench, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    # The command's own arguments follow the number of pages that the disk has room for.
    small = [sys.executable, "-c", FULL, "9", *command(out, cache)[3:]]
    told = ended(start(bench.home, small))
    assert told.code == 6, told.err
    line = one_line(told)
    assert str(cache / FILE) in line
    assert "full" in line
    assert not (out / "run.json").exists()
    kept = rows(cache)
    assert 0 < kept < bench.rows
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)
    assert rows(cache) == bench.rows


def test_a_call_that_fills_the_disk_keeps_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robustify.engines.protocols import Logprob
    from robustify.errors import ResourceError

    connected = score_file._connected

    def small(path: Path, *, private: bool) -> sqlite3.Connection:
        db = connected(path, private=private)
        db.execute("PRAGMA max_page_count=8")
        return db

    monkeypatch.setattr(score_file, "_connected", small)
    few = {n.to_bytes(32, "big"): Logprob(-1.0, 1) for n in range(20)}
    many = {n.to_bytes(32, "big"): Logprob(-2.0, 1) for n in range(20, 5000)}
    with Cache(tmp_path) as cache:
        cache.put(few, "m", 1e-3)
        with pytest.raises(ResourceError, match=r"scores\.sqlite: cannot be read or written \(.*full"):
            cache.put(many, "m", 1e-3)
        assert cache.get([*few, *many]) == few
        assert (cache.info().rows, cache.info(verify=True).damaged) == (20, 0)


def change_weights(folder: Path, change: "Callable[[object], object]") -> None:
    """Put another tensor into a model's file, in the same place and of the same shape."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.1.mlp.down_proj.weight"
    tensors[name] = change(tensors[name])
    save_file(tensors, path, metadata={"format": "pt"})


def copied(bench: Bench, folder: Path) -> Path:
    """The config, items and model in a place of their own, where they may be changed."""
    folder.mkdir()
    for name in ("c.yaml", "items.jsonl"):
        shutil.copyfile(bench.home / name, folder / name)
    shutil.copytree(bench.home / "model", folder / "model")
    return folder


def test_other_weights_in_the_same_folder_are_asked_anew(bench: Bench, tmp_path: Path) -> None:
    home = copied(bench, tmp_path / "home")
    cache = tmp_path / "cache"
    finish(home, tmp_path / "before", cache)
    assert rows(cache) == bench.rows
    change_weights(home / "model", lambda weight: weight + 0.5)
    finish(home, tmp_path / "after", cache)
    assert rows(cache) == 2 * bench.rows
    before, after = (json.loads((tmp_path / n / "run.json").read_bytes()) for n in ("before", "after"))
    assert before["models"]["tiny"]["weights"] != after["models"]["tiny"]["weights"]
    finish(home, tmp_path / "fresh", tmp_path / "fresh-cache")
    assert held(tmp_path / "after") == held(tmp_path / "fresh")
    assert held(tmp_path / "after")["answers.parquet"] != bench.files["answers.parquet"]
    assert held(tmp_path / "before") == bench.files


def test_weights_that_give_nan_are_one_line_that_names_the_model(bench: Bench, tmp_path: Path) -> None:
    home = copied(bench, tmp_path / "home")
    change_weights(home / "model", lambda weight: weight * float("nan"))
    told = run(home, tmp_path / "out", tmp_path / "cache")
    assert told.code == 5, told.err
    line = one_line(told)
    assert "robustify: tiny: " in line
    assert "NaN" in line
    assert rows(tmp_path / "cache") == 0
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_second_run_on_a_folder_is_refused_and_the_first_is_not_disturbed(
    bench: Bench, tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    first = start(bench.home, command(out, cache))
    try:
        wait_until(lambda: (out / ".run.lock").exists(), first)
        # Stopped, the first holds the folder for as long as the second needs to find out.
        first.send_signal(signal.SIGSTOP)
        second = run(bench.home, out, cache)
    finally:
        first.send_signal(signal.SIGCONT)
        told = ended(first)
    assert second.code == 6, second.err
    line = one_line(second)
    assert line.startswith(f"robustify: {out}: in use by another run")
    assert told.code in (0, 7), told.err
    assert_undisturbed(out, bench)


def test_two_runs_share_a_cache_and_end_with_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    both = [start(bench.home, command(tmp_path / name, cache)) for name in ("one", "two")]
    for told in [ended(process) for process in both]:
        assert told.code in (0, 7), told.err
        assert "Traceback" not in told.err
    for name in ("one", "two"):
        assert_undisturbed(tmp_path / name, bench)
    assert rows(cache) == bench.rows
