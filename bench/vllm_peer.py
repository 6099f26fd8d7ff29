"""Run the requests of a case through vLLM's CPU build: the peer of `python -m bench.scoring vllm`.

`ROBUSTIFY_BENCH_VLLM_PYTHON` names the interpreter of an environment with vLLM. This file also runs there, with the model's
folder as its argument. It reads one JSON list of `[tokens, scored]` per line and writes one list of sums.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PYTHON = "ROBUSTIFY_BENCH_VLLM_PYTHON"
READY = "ready"


class Peer:
    """vLLM in a separate process: float32, with prefix caching and its own batching."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        quiet = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
        }
        self._process = subprocess.Popen(
            [os.environ[PYTHON], "-I", __file__, str(folder)],
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            | quiet
            # By default, it leaves one core idle; we use all cores.
            | {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = self._answer(READY)

    def tokens(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], int]]:
        """Return the tokens of each context and continuation, and how many of the last ones are scored."""
        found = []
        for context, continuation in pairs:
            whole = self._tokenizer(context + continuation)["input_ids"]
            found.append((whole, len(whole) - len(self._tokenizer(context)["input_ids"])))
        return found

    def sums(self, work: Sequence[tuple[list[int], int]]) -> list[float]:
        """Return the log-probability of each scored continuation in nats."""
        assert self._process.stdin
        print(json.dumps(work), file=self._process.stdin, flush=True)
        return [float(total) for total in json.loads(self._answer("sums"))]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _answer(self, kind: str) -> str:
        # vLLM and its libraries also print; our lines begin with their type.
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(kind + " "):
                return line.removeprefix(kind + " ").strip()
        raise SystemExit(
            f"vLLM ended without an answer. To see why, run `{os.environ[PYTHON]} -I {__file__} MODEL-FOLDER`."
        )


def serve(folder: str) -> None:
    """Score the input lines in vLLM's environment until the input ends."""
    import vllm

    engine: Any = vllm.LLM(
        folder,
        dtype="float32",
        enable_prefix_caching=True,
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=32,
    )
    asked = vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    print(READY, vllm.__version__, flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        done = engine.generate([{"prompt_token_ids": tokens} for tokens, _ in work], asked, use_tqdm=False)
        sums = [
            sum(
                place[token].logprob
                for token, place in list(zip(tokens, out.prompt_logprobs, strict=True))[-scored:]
            )
            for (tokens, scored), out in zip(work, done, strict=True)
        ]
        print("sums", json.dumps(sums), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
