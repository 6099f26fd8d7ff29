"""What every engine promises, held to all of them: the same requests, the same rules, the same numbers.

`local` is the engine hf. An engine joins by one line in `OPENED`: how it is opened on a folder with a model and a
folder for its cache.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from robustify.base.errors import RequestError
from robustify.items.item import Item
from robustify.items.views import Asking, Request
from robustify.models.asking import ask, plan
from robustify.models.engines import open_scorer
from robustify.models.engines import ray_workers as ray_remote
from robustify.models.engines.protocols import Logprob, Scorer, Writer
from robustify.models.model_settings import HFModel, OpenAIModel, RayModel
from tests.support.cases import contents
from tests.support.fake_ray import FakeRay
from tests.support.model_cache import REQUESTS, tiny_llama

pytest.importorskip("torch", reason="the tiny model needs torch: the hf extra is not installed")
pytest.importorskip("openai", reason="the openai extra is not installed")

from tests.support.openai_stub import Loaded, stub

MODEL_LENGTH = 256


Opened = Callable[..., AbstractContextManager[Scorer]]
"""How an engine is opened: the folder of a model, one for its cache, and a seal."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"), chat=True, max_position_embeddings=MODEL_LENGTH)


def local(folder: Path, cache: Path, seal: bytes | None = None) -> AbstractContextManager[Scorer]:
    return open_scorer(HFModel(name="tiny", model=str(folder)), cache, seal)


@contextmanager
def shared_out(folder: Path, cache: Path, seal: bytes | None = None) -> Iterator[Scorer]:
    """The engine ray, with workers that live in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(ray_remote, "require_ray", lambda _: None)
        patch.setattr(ray_remote, "cluster", lambda _: nullcontext(FakeRay()))
        with open_scorer(RayModel(name="tiny", engine="ray", model=str(folder)), cache, seal) as scorer:
            yield scorer


def served(**manner: object) -> Opened:
    """The same model behind a server."""

    @contextmanager
    def opened(folder: Path, cache: Path, seal: bytes | None = None) -> Iterator[Scorer]:
        with stub(Loaded(folder), served="tiny", max_length=MODEL_LENGTH, **manner) as server:
            model = OpenAIModel(name="tiny", engine="openai", base_url=server.url, retries=1)
            with open_scorer(model, cache, seal) as scorer:
                yield scorer

    return opened


OPENED: dict[str, Opened] = {
    "local": local,
    "ray": shared_out,
    "openai, echo": served(),
    "openai, prompt_logprobs": served(prompt_logprobs=True),
}


@pytest.fixture(scope="module")
def reference(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Logprob]:
    with local(folder, tmp_path_factory.mktemp("reference")) as engine:
        return engine.loglikelihoods(REQUESTS)


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
class TestEveryEngine:
    def test_gives_the_numbers_of_the_local_engine_in_the_order_of_the_requests(
        self, opened: Opened, folder: Path, tmp_path: Path, reference: list[Logprob]
    ) -> None:
        done: list[int] = []
        with opened(folder, tmp_path) as engine:
            assert engine.name == "tiny"
            found = engine.loglikelihoods(REQUESTS * 2, done.append)
            assert engine.loglikelihoods(REQUESTS[::-1], done.append) == found[: len(REQUESTS)][::-1]
            assert engine.loglikelihoods([REQUESTS[0]] * 3) == [found[0]] * 3
            assert engine.loglikelihoods([]) == []
        assert [s.total for s in found] == pytest.approx([s.total for s in reference * 2], abs=1e-3)
        assert [s.n_tokens for s in found] == [s.n_tokens for s in reference * 2]
        assert sum(done) == 3 * len(REQUESTS)

    def test_a_warm_run_has_the_same_bits_and_the_same_fingerprint(
        self, opened: Opened, folder: Path, tmp_path: Path
    ) -> None:
        with opened(folder, tmp_path) as engine:
            first, told = engine.loglikelihoods(REQUESTS), engine.fingerprint()
        with opened(folder, tmp_path) as engine:
            assert engine.loglikelihoods(REQUESTS) == first
            assert engine.fingerprint() == told

    def test_the_fingerprint_is_of_text_and_says_which_model_it_is(
        self, opened: Opened, folder: Path, tmp_path: Path
    ) -> None:
        from robustify.judging.screen.screen_rules import model_identity

        with opened(folder, tmp_path) as engine:
            told = engine.fingerprint()
        assert all(isinstance(value, str) and value for value in told.values())
        assert "weights" in told
        assert model_identity(told)
        assert "127.0.0.1" not in str(told)

    def test_a_request_that_does_not_fit_is_named_by_its_place_and_never_by_its_text(
        self, opened: Opened, folder: Path, tmp_path: Path
    ) -> None:
        long = [Request("the cat " * MODEL_LENGTH, " sat"), Request("the", " mat" * 2 * MODEL_LENGTH)]
        with opened(folder, tmp_path) as engine, pytest.raises(RequestError) as raised:
            engine.loglikelihoods([REQUESTS[0], long[0], REQUESTS[1], long[1]])
        assert list(raised.value.faults) == [1, 3]
        assert "cat" not in str(raised.value)

    @pytest.mark.slow
    def test_every_asking_of_an_item_is_an_answer(
        self, opened: Opened, folder: Path, tmp_path: Path, toys: list[Item]
    ) -> None:
        planned = plan(toys[:2], Asking(orders=2, order_items=1))
        with opened(folder, tmp_path) as engine:
            rows = list(ask(planned, engine))
        with local(folder, tmp_path / "local") as engine:
            assert [r.pick for r in rows] == [r.pick for r in ask(planned, engine)]
        assert len(rows) == len(planned)
        assert all(row.pick is not None and len(row.scores) == 4 for row in rows)

    def test_writes_one_reply_for_each_prompt(self, opened: Opened, folder: Path, tmp_path: Path) -> None:
        with opened(folder, tmp_path) as engine:
            assert isinstance(engine, Writer)
            replies = engine.write(["the cat", "the right mat"], max_tokens=4)
        assert len(replies) == 2
        assert all(isinstance(reply, str) for reply in replies)

    def test_a_seal_keeps_its_scores_apart(self, opened: Opened, folder: Path, tmp_path: Path) -> None:
        from robustify.models.engines.cache import FILE, SEALED_FILE, Cache

        with opened(folder, tmp_path, b"k" * 32) as engine:
            engine.loglikelihoods(REQUESTS)
        assert not (tmp_path / FILE).exists()
        assert (tmp_path / SEALED_FILE).is_file()
        with Cache(tmp_path, b"k" * 32) as scores:
            assert scores.info()["rows"] == len(REQUESTS)
        with opened(folder, tmp_path) as engine:
            engine.loglikelihoods(REQUESTS[:3])
        with Cache(tmp_path) as scores:
            assert scores.info()["rows"] == 3


def test_prompts_for_this_machine_stay_on_it_and_others_are_named() -> None:
    def hosts(url: str) -> tuple[str, ...]:
        return OpenAIModel(name="m", engine="openai", base_url=url).hosts

    assert HFModel(name="m").hosts == ()
    for local in contents("models")["addresses"]["of this machine"]:
        assert hosts(f"http://{local}/v1") == ()
    for name in contents("models")["addresses"]["of others"]:
        assert hosts(f"https://{name}:8000/v1") == (f"https://{name}:8000/v1",)
