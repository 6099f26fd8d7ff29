"""The engine ray: units on workers give the bits of a local run, whichever is lost, and in whatever order they come."""

import itertools
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify import config as configs
from robustify.engines import check_model, remote_host
from robustify.engines.cache import Cache
from robustify.engines.local.paths import Sums
from robustify.engines.plan import Encoded
from robustify.engines.protocols import Logprob
from robustify.engines.ray import engine as ray_remote
from robustify.engines.ray.workers import MOST, RESTARTS, Pool
from robustify.engines.settings import RayModel
from robustify.errors import ModelError, ResourceError, UsageError
from robustify.views import Request
from tests.support.fake_ray import FakeRay
from tests.support.model_cache import spoil_config, tiny_bloom, tiny_gemma, tiny_llama, tiny_mamba

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


# handing out, without a model


class Adder:
    def hello(self) -> str:
        return "hello"

    def add(self, a: int, b: int) -> int:
        return a + b


def pool_of(ray: FakeRay, n: int) -> Pool:
    kind = ray.remote(**RESTARTS)(Adder)
    return Pool(ray, [kind.remote() for _ in range(n)], lambda ready: None, "m", 9.0)


@settings(max_examples=60, deadline=None)
@given(
    n_tasks=st.integers(0, 12),
    n_workers=st.integers(1, 4),
    seed=st.integers(0, 99),
    deadly=st.sets(st.tuples(st.integers(0, 11), st.integers(0, MOST - 2))),
)
def test_every_task_gives_one_result_however_workers_die(
    n_tasks: int, n_workers: int, seed: int, deadly: set[tuple[int, int]]
) -> None:
    tried = dict.fromkeys(range(12), -1)

    def dies(method: str, given: tuple[Any, ...]) -> bool:
        if method != "add":
            return False
        tried[given[0]] += 1
        return (given[0], tried[given[0]]) in deadly

    ray = FakeRay(seed, dies)
    pool = pool_of(ray, n_workers)
    results = list(pool.run([("add", (i, 100)) for i in range(n_tasks)]))
    assert sorted(results) == [(i, i + 100) for i in range(n_tasks)]


def test_a_task_that_loses_one_worker_after_the_other_is_refused() -> None:
    ray = FakeRay(dies=lambda method, given: given == (3, 100))
    pool = pool_of(ray, 2)
    with pytest.raises(ModelError, match=rf"m: unit 4 of 8 has lost {MOST} workers"):
        list(pool.run([("add", (i, 100)) for i in range(8)]))


def test_workers_that_die_before_they_are_ready_are_not_started_for_ever() -> None:
    ray = FakeRay(dies=lambda method, _: method == "hello")
    with pytest.raises(ModelError, match=f"{MOST} workers were lost while they opened the model"):
        pool_of(ray, 2).ready()


def test_a_worker_that_never_begins_is_a_resource_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    pool = pool_of(ray, 2)
    monkeypatch.setattr(ray, "wait", lambda refs, **_: ([], refs))
    with pytest.raises(ResourceError, match="no worker was ready after 9 s"):
        pool.ready()


def test_one_may_be_called_between_two_results() -> None:
    pool = pool_of(FakeRay(seed=3), 2)
    seen = [
        (result, pool.call(("add", (result, 1))))
        for _, result in pool.run([("add", (i, 0)) for i in range(6)])
    ]
    assert sorted(seen) == [(i, i + 1) for i in range(6)]


def test_work_that_is_broken_off_leaves_its_workers_to_others() -> None:
    pool = pool_of(FakeRay(seed=1), 2)
    for _ in range(5):
        running = pool.run([("add", (i, 0)) for i in range(6)])
        next(running)
        running.close()
    assert sorted(pool.run([("add", (i, 0)) for i in range(6)])) == [(i, i) for i in range(6)]
    ray = pool._ray
    pool.close()
    assert not any(actor.alive for actor in ray.actors)


# the settings


def test_a_config_names_the_engine() -> None:
    def parsed(**changes: object) -> configs.Config:
        entry = {"name": "m", "engine": "ray", **changes}
        tree = {"name": "x", "sensitivity": "public", "data": "items.jsonl", "models": [entry]}
        return configs.parse(tree, "c.yaml")

    (model,) = parsed(workers=4, address="auto").models
    assert isinstance(model, RayModel)
    assert (model.workers, model.threads, model.section, model.reference) == (4, 1, 4, "m")
    with pytest.raises(UsageError, match=r"models\[0\].wrokers: unknown key \(did you mean workers\?\)"):
        parsed(wrokers=4)


def test_only_a_cluster_of_our_own_keeps_requests_here() -> None:
    for address in (None, "local"):
        assert remote_host(RayModel(name="m", engine="ray", address=address)) is None
    for address in ("auto", "10.0.0.7:6379", "ray://head:10001"):
        assert remote_host(RayModel(name="m", engine="ray", address=address)) == address


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ModelError, match=r"m: the engine ray needs .* pip install 'robustcbrn-eval\[hf,ray\]'"
    ):
        check_model(RayModel(name="m", engine="ray"), tmp_path)


# a model on workers in this process

torch = pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

from robustify.engines.local import tree  # noqa: E402
from robustify.engines.local.engine import HF  # noqa: E402


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """The cluster that models find."""
    ray = FakeRay(seed=5)

    @contextmanager
    def cluster(_: RayModel) -> Iterator[FakeRay]:
        yield ray

    monkeypatch.setattr(ray_remote, "cluster", cluster)
    return ray


def model_at(folder: Path, **changes: Any) -> RayModel:
    told = {"name": "tiny", "engine": "ray", "model": str(folder), "section": 2, "max_batch_tokens": 64}
    return RayModel(**{**told, **changes})


def locally(folder: Path, requests: list[Request], cache: Cache | None = None) -> tuple[list[Logprob], str]:
    with HF("tiny", folder, max_batch_tokens=64, section=2, cache=cache) as engine:
        return engine.loglikelihoods(requests), engine.path


def remotely(model: RayModel, folder: Path, requests: list[Request], cache: Cache | None = None) -> Any:
    with ray_remote.open_remote(model, folder, cache) as engine:
        return engine.loglikelihoods(requests), engine.path


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("workers", [1, 3])
def test_units_on_workers_give_the_bits_of_a_local_run(
    llama: Path, joined: FakeRay, seed: int, workers: int
) -> None:
    joined._random.seed(seed)
    requests = [*REQUESTS, *LONG]
    assert remotely(model_at(llama, workers=workers), llama, requests) == locally(llama, requests)
    assert joined.calls.count("section") > 5


def test_a_total_is_summed_in_the_order_of_the_walk_whichever_section_comes_first() -> None:
    request = Encoded((1,), (2, 3, 4))
    # Added in another order these are 0 or 2.
    pieces = [(0, [(0, 1e16)]), (1, [(0, 1.0)]), (2, [(0, -1e16)])]
    wanted = {request: (1e16 + 1.0) - 1e16}
    for order in itertools.permutations(pieces):
        sums = Sums([request])
        assert [sums.completed_by(one) for one in order] == [{}, {}, wanted]
    assert wanted[request] != (1e16 - 1e16) + 1.0


@pytest.mark.parametrize(
    ("make", "path"),
    [(tiny_bloom, "prefixes"), (tiny_mamba, "rows"), (lambda folder: tiny_gemma(folder, window=16), "trees")],
)
def test_every_path_is_that_of_a_local_run(tmp_path: Path, joined: FakeRay, make: Any, path: str) -> None:
    folder = make(tmp_path)
    requests = [*REQUESTS[:30], *LONG[:2]]
    found = remotely(model_at(folder), folder, requests)
    assert found == locally(folder, requests)
    assert found[1] == path


def refusing(*_: Any) -> Any:
    raise ValueError("a mask of four dimensions is not supported")


def test_a_refusal_on_a_worker_leads_to_the_next_path(
    llama: Path, joined: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, _ = locally(llama, REQUESTS)
    monkeypatch.setattr(tree.Trees, "_pass", refusing)
    found, path = remotely(model_at(llama), llama, REQUESTS)
    assert path == "prefixes"
    assert [f.total for f in found] == pytest.approx([r.total for r in right], abs=1e-4)


def test_a_batch_that_does_not_fit_on_a_worker_is_halved(
    llama: Path, joined: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = tree.Trees._pass

    def small_only(self: Any, batch: Any, trunk: Any) -> Any:
        if len(batch.tokens) > 70:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return passed(self, batch, trunk)

    monkeypatch.setattr(tree.Trees, "_pass", small_only)
    model = model_at(llama, max_batch_tokens=256)
    with ray_remote.open_remote(model, llama, None) as engine:
        found = engine.loglikelihoods(REQUESTS)
        assert engine.fingerprint()["max_batch_tokens"] == "64"
    assert found == locally(llama, REQUESTS)[0]


def test_workers_and_a_local_run_share_one_cache(llama: Path, joined: FakeRay, tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        first = locally(llama, REQUESTS, cache)
        assert remotely(model_at(llama), llama, REQUESTS, cache) == first
        assert joined.actors == []
        with HF("tiny", llama, max_batch_tokens=64, section=2) as engine:
            here = engine.fingerprint()
        with ray_remote.open_remote(model_at(llama), llama, cache) as engine:
            there = engine.fingerprint()
    assert {k: v for k, v in here.items() if k != "path"} == {k: v for k, v in there.items() if k != "path"}


def test_another_section_or_number_of_threads_is_another_recipe(llama: Path, joined: FakeRay) -> None:
    def recipe(**changes: Any) -> dict[str, str]:
        with ray_remote.open_remote(model_at(llama, **changes), llama, None) as engine:
            return engine.fingerprint()

    plain = recipe()
    changed = [recipe(**c) for c in ({"section": 3}, {"threads": 2}, {"workers": 5})]
    assert [{k for k in plain if plain[k] != c[k]} for c in changed] == [{"section"}, {"threads"}, set()]


def test_a_section_of_the_usual_length_is_not_named(llama: Path) -> None:
    # Scores that were cached before sections could be chosen stay known.
    with HF("tiny", llama) as usual, HF("tiny", llama, section=2) as short:
        assert "section" not in usual.fingerprint()
        assert short.fingerprint()["section"] == "2"


@pytest.mark.parametrize("after", [100, 200, 300])
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
        with pytest.raises(Killed), ray_remote.open_remote(model, llama, cache) as engine:
            engine.loglikelihoods(REQUESTS, progress)
        assert 0 < cache.info().rows < len(REQUESTS)
        before = joined.calls.count("section")
        assert remotely(model, llama, REQUESTS, cache) == locally(llama, REQUESTS)
    again = joined.calls.count("section") - before
    joined.calls.clear()
    remotely(model, llama, REQUESTS)
    assert again < joined.calls.count("section")


def test_a_lost_worker_s_units_are_run_again(llama: Path, joined: FakeRay) -> None:
    doomed = [2, 5, 6]
    count = 0

    def dies(method: str, _: tuple[Any, ...]) -> bool:
        nonlocal count
        count += method == "section"
        return method == "section" and count in doomed

    joined.dies = dies
    assert remotely(model_at(llama), llama, REQUESTS) == locally(llama, REQUESTS)
    assert len(joined.actors) == 2
    assert joined.restarts == len(doomed)


def test_replies_come_in_the_order_of_their_prompts(llama: Path, joined: FakeRay) -> None:
    prompts = [f"the cat {n}" for n in range(7)]
    with ray_remote.open_remote(model_at(llama), llama, None) as engine, HF("tiny", llama) as here:
        assert engine.write(prompts, max_tokens=5) == here.write(prompts, max_tokens=5)


# what a worker refuses


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda folder: folder.rename(folder.with_name("elsewhere")),
            r"has no folder .*; expected the model",
        ),
        (lambda folder: spoil_config(folder, rms_norm_eps=0.5), "differs in config; expected the same files"),
    ],
)
def test_a_worker_with_other_files_refuses(
    llama: Path, joined: FakeRay, tmp_path: Path, change: Any, says: str
) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    with ray_remote.open_remote(model_at(folder), folder, None) as engine:
        change(folder)
        with pytest.raises(ModelError, match=f"tiny: worker on .*: {says}"):
            engine.loglikelihoods(REQUESTS)


def test_a_worker_with_another_robustify_refuses(
    llama: Path, joined: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    import robustify

    with ray_remote.open_remote(model_at(llama), llama, None) as engine:
        monkeypatch.setattr(robustify, "__version__", "0.0.1")
        with pytest.raises(ModelError, match=r"has robustify 0.0.1; expected .*: install the same"):
            engine.loglikelihoods(REQUESTS)
