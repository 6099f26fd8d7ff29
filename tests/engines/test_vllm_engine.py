"""vLLM for real, in an interpreter of its own: without a server, and as a server for the engine openai.

ROBUSTIFY_TEST_VLLM_PYTHON names that interpreter (the CPU build will do); without it these tests are skipped.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify.ask import Asking, ask, plan
from robustify.engines import check_model, open_scorer
from robustify.engines.protocols import Logprob, Writer
from robustify.engines.settings import OpenAIModel, VLLMModel
from robustify.errors import ModelError
from robustify.item import Item
from robustify.loaders import Source, load_many
from robustify.views import Request
from tests.support.model_cache import model_folder
from tests.support.vllm_driver import MARK

PYTHON = os.environ.get("ROBUSTIFY_TEST_VLLM_PYTHON", "")
ROOT = Path(__file__).parents[2]
N_ITEMS = 20

real = [
    pytest.mark.proof,
    pytest.mark.model,
    pytest.mark.skipif(not PYTHON, reason="ROBUSTIFY_TEST_VLLM_PYTHON names no interpreter that has vLLM"),
]


def test_without_vllm_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    model = VLLMModel(name="big", engine="vllm", model=str(tmp_path))
    with pytest.raises(
        ModelError, match=r"big: engine vllm needs vLLM: pip install 'robustcbrn-eval\[vllm\]'"
    ):
        check_model(model, tmp_path)


# one server and one set of reference numbers for all of them


@pytest.fixture(scope="module")
def items(data: Path) -> tuple[Item, ...]:
    return load_many([Source(path=str(data / "arc" / "ARC-Challenge-Test.jsonl"))]).items[:N_ITEMS]


@pytest.fixture(scope="module")
def requests(items: tuple[Item, ...]) -> list[Request]:
    return [r for p in plan(items, Asking(orders=2)) for r in p.requests]


@pytest.fixture(scope="module")
def reference(requests: list[Request]) -> list[Logprob]:
    from robustify.engines.local.engine import HF

    with HF("smollm2-135m", model_folder("smollm2-135m")) as engine:
        return engine.loglikelihoods(requests)


def environment() -> dict[str, str]:
    on = ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "VLLM_CPU_KVCACHE_SPACE")
    return {**os.environ, **dict.fromkeys(on, "1"), "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def serving(tmp: Path, name: str = "smollm2") -> Iterator[str]:
    """The address of a vLLM server on 127.0.0.1, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = (
        f"-m vllm.entrypoints.openai.api_server --enforce-eager --served-model-name {name} --host 127.0.0.1"
    )
    words += f" --port {port} --max-model-len 2048 --dtype float32 --max-num-seqs 8 --model"
    command = [PYTHON, *words.split(), str(model_folder("smollm2-135m"))]
    with open(tmp / "server.log", "w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment(), start_new_session=True, cwd=tmp
        )
    try:
        _until_up(server, port, tmp / "server.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        # Its workers are processes of the same group.
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _until_up(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    end = time.monotonic() + 400
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
            return
        time.sleep(1)
    raise AssertionError(f"no server after 400 s: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("vllm")) as address:
        yield address


def entry(url: str, **changes: Any) -> dict[str, Any]:
    return {"name": "smollm2", "engine": "openai", "base_url": url, "concurrency": 8, **changes}


def held(found: list[Logprob], reference: list[Logprob], items: tuple[Item, ...]) -> None:
    """The same numbers within a thousandth of a nat, and the same pick in every asking."""
    assert [s.n_tokens for s in found] == [s.n_tokens for s in reference]
    assert max(abs(a.total - b.total) for a, b in zip(found, reference, strict=True)) <= 1e-3

    class Known:
        name = "known"

        def __init__(self, scores: list[Logprob]) -> None:
            self.scores = scores

        def loglikelihoods(self, asked: Any, progress: Any = None) -> list[Logprob]:
            assert len(asked) == len(self.scores)
            return self.scores

        def fingerprint(self) -> dict[str, str]:
            return {}

    planned = plan(items, Asking(orders=2))
    ours, theirs = ([a.pick for a in ask(planned, Known(scores))] for scores in (found, reference))
    assert len(ours) >= 20
    assert None not in ours
    assert ours == theirs


class TestAServer:
    pytestmark = real

    @pytest.mark.parametrize("tokenizer", ["smollm2-135m", ""], ids=["tokens", "text"])
    def test_gives_the_numbers_and_picks_of_the_local_engine(
        self,
        url: str,
        tokenizer: str,
        tmp_path: Path,
        items: tuple[Item, ...],
        requests: list[Request],
        reference: list[Logprob],
    ) -> None:
        folder = str(model_folder("smollm2-135m")) if tokenizer else ""
        model = OpenAIModel(**entry(url, tokenizer=folder))
        with open_scorer(model, tmp_path) as engine:
            held(engine.loglikelihoods(requests), reference, items)
            told = engine.fingerprint()
            assert isinstance(engine, Writer)
            assert all(engine.write(["Say hello.", "Say it again."], max_tokens=8))
        assert told["scores"] == "prompt_logprobs"
        assert told["model"] == "smollm2-135m"


class TestOffline:
    pytestmark = real

    def run(
        self, tmp_path: Path, rounds: list[list[Request]], again: list[Request], **settings: Any
    ) -> dict[str, Any]:
        told = {
            "rounds": [[[r.context, r.continuation] for r in requests] for requests in rounds],
            "again": [[r.context, r.continuation] for r in again],
            "prompts": ["Say hello."],
            "settings": settings,
        }
        driver = ROOT / "tests" / "support" / "vllm_driver.py"
        done = subprocess.run(
            [PYTHON, str(driver), str(model_folder("smollm2-135m")), str(tmp_path)],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            env=environment(),
            timeout=590,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
        assert lines, done.stderr[-3000:]
        return dict(json.loads(lines[-1].removeprefix(MARK)))

    def test_keeps_the_contract_and_gives_the_numbers_and_picks_of_the_local_engine(
        self, tmp_path: Path, items: tuple[Item, ...], requests: list[Request], reference: list[Logprob]
    ) -> None:
        long = [requests[0], Request("the cat " * 400, " sat")]
        found = self.run(tmp_path, [requests, long], requests[::-1], max_model_len=256)
        first, refused, backwards = found["scores"]
        held([Logprob(total, n) for total, n in first], reference, items)
        # Another engine on the same cache: the same bits, in the order of the requests, and no model in memory.
        assert backwards == first[::-1]
        assert not found["imported_again"]
        assert found["progress"][0] == found["progress"][2] == len(requests)
        assert found["fingerprints"][0] == found["fingerprints"][2]
        assert found["fingerprints"][0]["vllm"].startswith("vllm")
        assert refused["kind"] == "RequestError"
        assert refused["lines"][0].startswith("request 1: 8")
        assert "cat" not in str(refused)
        assert len(found["replies"]) == 1
        assert found["replies"][0]
