"""The engine ray: units on workers give the bits of a local run, whichever is lost, and in whatever order they come."""

import shutil
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robustify.items.views import Request
from robustify.models.engines import ray_workers as ray_remote
from robustify.models.engines.cache import Cache
from robustify.models.engines.local.engine import HF
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob
from robustify.models.model_settings import RayModel
from tests.support.cases import refuses
from tests.support.fake_ray import FakeRay
from tests.support.model_cache import hf, spoil_config, tiny, tiny_llama

REQUESTS = [
    Request(f"Question: the cat sat {n % 7} on {n}\nAnswer:", f" {w}")
    for n in range(110)
    for w in ("red", "blue mat", "A")
]
LONG = [
    *(Request("the cat " * 40 + "sat", " on the mat" * n) for n in (1, 8, 20, 40)),
    # Longer than two sections of two batches of 64 tokens: its pieces come from several workers.
    Request("the", " cat sat on the mat" * 45),
]


torch = pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """The cluster that models find."""
    ray = FakeRay(seed=5)
    monkeypatch.setattr(ray_remote, "cluster", lambda _: nullcontext(ray))
    return ray


def model_at(folder: Path, **changes: Any) -> RayModel:
    told = {"name": "tiny", "engine": "ray", "model": str(folder), "section": 2, "max_batch_tokens": 64}
    return RayModel(**{**told, **changes})


def locally(folder: Path, requests: list[Request], cache: Cache | None = None) -> tuple[list[Logprob], str]:
    with hf(folder, cache, max_batch_tokens=64, section=2) as engine:
        return engine.loglikelihoods(requests), engine.path


def opened(model: RayModel, cache: Cache | None = None) -> HF:
    folder = Path(model.model)
    return HF(model, folder, cache, elsewhere=partial(ray_remote.Remote, model, folder))


def remotely(model: RayModel, requests: list[Request], cache: Cache | None = None) -> Any:
    with opened(model, cache) as engine:
        return engine.loglikelihoods(requests), engine.path


@pytest.mark.parametrize(
    ("make", "path", "workers", "seed"),
    [
        (tiny_llama, "trees", 1, 0),
        (tiny_llama, "trees", 3, 1),
        (tiny_llama, "trees", 3, 2),
        (lambda folder: tiny("mamba", folder), "rows", 2, 3),
        (lambda folder: tiny("gemma", folder, sliding_window=16), "trees", 2, 4),
    ],
)
def test_units_on_workers_give_the_bits_and_the_path_of_a_local_run(
    make: Any, path: str, workers: int, seed: int, joined: FakeRay, tmp_path: Path
) -> None:
    joined._random.seed(seed)
    folder, requests = make(tmp_path), [*REQUESTS[:60], *LONG]
    found = remotely(model_at(folder, workers=workers), requests)
    assert found == locally(folder, requests)
    assert found[1] == path
    assert joined.calls.count("section" if path == "trees" else "rows") > 1


def test_results_come_in_the_order_of_the_plan_whichever_unit_is_done_first(
    llama: Path, joined: FakeRay
) -> None:
    with opened(model_at(llama, workers=3)) as engine:
        work, requests = engine.open_model(), [Encoded((1, n), (2,)) for n in range(12)]
        one_by_one = work.alone(requests)
        found = [next(iter(one.values())) for one in work.rows(iter([((r.row, (r,)),) for r in requests]))]
    assert found == one_by_one
    assert len(set(found)) > 1


def test_a_unit_that_loses_one_worker_after_the_other_ends_the_run(llama: Path, joined: FakeRay) -> None:
    joined.dies = lambda method, given: method == "section" and given[0] == 3
    with refuses("lost-workers"):
        remotely(model_at(llama), REQUESTS)
    joined.dies = lambda method, _: method == "hello"
    with refuses("lost-workers"):
        remotely(model_at(llama), REQUESTS)
    assert not any(actor.alive for actor in joined.actors)


@pytest.mark.parametrize("room", [0, 1])
def test_workers_without_room_are_done_without_unless_none_begins(
    llama: Path, joined: FakeRay, room: int
) -> None:
    joined.room = room
    if room:
        assert remotely(model_at(llama), REQUESTS) == locally(llama, REQUESTS)
    else:
        with refuses("no-ready-worker"):
            remotely(model_at(llama), REQUESTS)


def test_a_section_of_the_usual_length_is_not_named(llama: Path) -> None:
    # Scores that were cached before sections could be chosen stay known.
    with hf(llama) as usual, hf(llama, section=2) as short:
        assert "section" not in usual.fingerprint()
        assert short.fingerprint()["section"] == "2"


@pytest.mark.parametrize("after", [100, 300])
def test_a_run_that_ends_early_goes_on_to_the_same_bits(
    llama: Path, joined: FakeRay, tmp_path: Path, after: int
) -> None:
    class Killed(BaseException):
        pass

    seen = 0

    def progress(n: int) -> None:
        nonlocal seen
        seen += n
        if seen >= after:
            raise Killed

    model = model_at(llama)
    with Cache(tmp_path) as cache:
        with pytest.raises(Killed), opened(model, cache) as engine:
            engine.loglikelihoods(REQUESTS, progress)
        assert 0 < cache.info()["rows"] < len(REQUESTS)
        before = joined.calls.count("section")
        assert remotely(model, REQUESTS, cache) == locally(llama, REQUESTS)
    again = joined.calls.count("section") - before
    joined.calls.clear()
    remotely(model, REQUESTS)
    assert again < joined.calls.count("section")


def test_a_lost_worker_s_units_are_run_again(llama: Path, joined: FakeRay) -> None:
    doomed = [2, 5, 6]
    count = 0

    def dies(method: str, _: tuple[Any, ...]) -> bool:
        nonlocal count
        count += method == "section"
        return method == "section" and count in doomed

    joined.dies = dies
    assert remotely(model_at(llama), REQUESTS) == locally(llama, REQUESTS)
    assert len(joined.actors) == 2
    assert joined.restarts == len(doomed)


# what a worker refuses


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda folder: folder.rename(folder.with_name("elsewhere")), "missing-worker-folder"),
        (lambda folder: spoil_config(folder, rms_norm_eps=0.5), "differing-worker"),
    ],
)
def test_a_worker_with_other_files_refuses(
    llama: Path, joined: FakeRay, tmp_path: Path, change: Any, code: str
) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    with opened(model_at(folder)) as engine:
        assert engine.speller
        change(folder)
        with refuses(code):
            engine.loglikelihoods(REQUESTS)


def test_no_worker_imports_from_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ray adds the folder in which it is started to the import path of every worker."""
    started: list[Path] = []
    fake = SimpleNamespace(is_initialized=lambda: False, shutdown=lambda: None)
    fake.init = lambda **_: started.append(Path.cwd())
    monkeypatch.setattr(ray_remote, "require_ray", lambda _: fake)
    monkeypatch.chdir(tmp_path)
    with ray_remote.cluster(model_at(tmp_path)):
        assert Path.cwd() == tmp_path
        assert started[0] != tmp_path
        assert list(started[0].iterdir()) == []
