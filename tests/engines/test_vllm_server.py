"""The engine openai against a real vLLM server, which runs in an interpreter of its own.

ROBUSTIFY_TEST_VLLM_PYTHON names that interpreter (the CPU build will do); without it the test is skipped.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustify.ask import Asking, plan
from robustify.engines import open_scorer
from robustify.engines.protocols import Logprob, Writer
from robustify.engines.settings import OpenAIModel
from robustify.item import Item
from robustify.loaders import Source, load_many
from robustify.views import Request
from tests.support.model_cache import hf, model_folder

PYTHON = os.environ.get("ROBUSTIFY_TEST_VLLM_PYTHON", "")
ROOT = Path(__file__).parents[2]
N_ITEMS = 20

pytestmark = [
    pytest.mark.proof,
    pytest.mark.model,
    pytest.mark.skipif(not PYTHON, reason="ROBUSTIFY_TEST_VLLM_PYTHON names no interpreter that has vLLM"),
]


@pytest.fixture(scope="module")
def items(data: Path) -> tuple[Item, ...]:
    return load_many([Source(path=str(data / "arc" / "ARC-Challenge-Test.jsonl"))]).items[:N_ITEMS]


@pytest.fixture(scope="module")
def requests(items: tuple[Item, ...]) -> list[Request]:
    return [r for p in plan(items, Asking(orders=2)) for r in p.requests]


@pytest.fixture(scope="module")
def reference(requests: list[Request]) -> list[Logprob]:

    with hf(model_folder("smollm2-135m"), name="smollm2-135m") as engine:
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


def test_a_server_gives_the_numbers_of_the_local_engine(
    url: str, tmp_path: Path, requests: list[Request], reference: list[Logprob]
) -> None:
    model = OpenAIModel(name="smollm2", engine="openai", base_url=url, concurrency=8)
    with open_scorer(model, tmp_path) as engine:
        found, told = engine.loglikelihoods(requests), engine.fingerprint()
        assert isinstance(engine, Writer)
        assert all(engine.write(["Say hello.", "Say it again."], max_tokens=8))
    assert [s.n_tokens for s in found] == [s.n_tokens for s in reference]
    assert max(abs(a.total - b.total) for a, b in zip(found, reference, strict=True)) <= 1e-3
    assert (told["scores"], told["model"]) == ("prompt_logprobs", "smollm2-135m")
