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

from robustify.items.views import Asking
from robustify.models.asking import plan
from robustify.models.engines import open_scorer
from robustify.models.engines.protocols import Writer
from robustify.models.model_settings import OpenAIModel
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.support.model_cache import hf, model_folder

PYTHON = os.environ.get("ROBUSTIFY_TEST_VLLM_PYTHON", "")
SILENT = ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "VLLM_CPU_KVCACHE_SPACE")

pytestmark = [
    pytest.mark.proof,
    pytest.mark.model,
    pytest.mark.skipif(not PYTHON, reason="ROBUSTIFY_TEST_VLLM_PYTHON names no interpreter that has vLLM"),
]


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a vLLM server on 127.0.0.1, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = (
        f"-m vllm.entrypoints.openai.api_server --enforce-eager --served-model-name smollm2 --host 127.0.0.1 --port {port}"
        " --max-model-len 2048 --dtype float32 --max-num-seqs 8 --model"
    )
    command = [PYTHON, *words.split(), str(model_folder("smollm2-135m"))]
    environment = {**os.environ, **dict.fromkeys(SILENT, "1"), "PYTHONPATH": str(Path(__file__).parents[3])}
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=folder
        )
    try:
        end = time.monotonic() + 400
        while True:
            assert server.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, "no server after 400 s"
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        # Its workers are processes of the same group.
        os.killpg(server.pid, signal.SIGKILL)


def test_a_server_gives_the_numbers_of_the_local_engine(data: Path, tmp_path: Path) -> None:
    items = load(Source(path=str(data / "arc" / "ARC-Challenge-Test.jsonl")), UNGUARDED).items[:20]
    requests = [r for p in plan(items, Asking(orders=2)) for r in p.requests]
    with hf(model_folder("smollm2-135m"), name="smollm2-135m") as local:
        reference = local.loglikelihoods(requests)
    with serving(tmp_path) as url:
        model = OpenAIModel(name="smollm2", engine="openai", base_url=url, concurrency=8)
        with open_scorer(model, tmp_path / "cache") as engine:
            found, told = engine.loglikelihoods(requests), engine.fingerprint()
            assert isinstance(engine, Writer)
            assert all(engine.write(["Say hello.", "Say it again."], max_tokens=8))
    assert [s.n_tokens for s in found] == [s.n_tokens for s in reference]
    assert max(abs(a.total - b.total) for a, b in zip(found, reference, strict=True)) <= 1e-3
    assert (told["scores"], told["model"]) == ("prompt_logprobs", "smollm2-135m")
