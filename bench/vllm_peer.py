"""The requests of a case through vLLM's CPU build beside our engine, in one run: a side of `python -m bench.scoring vllm`.

`ROBUSTIFY_BENCH_VLLM_PYTHON` names the interpreter of an environment that has vLLM; this file is run there too, with the
model's folder as its argument: one JSON list of `[tokens, scored]` a line comes in, one list of sums goes out.
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
    """vLLM in a process of its own: float32, prefix caching on, its own batching."""

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
            # It would leave one core idle, and we use all of them.
            | {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = self._answer(READY)

    def tokens(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], int]]:
        """Of each context and continuation: the tokens of both, and how many of them are scored (the last ones)."""
        found = []
        for context, continuation in pairs:
            whole = self._tokenizer(context + continuation)["input_ids"]
            found.append((whole, len(whole) - len(self._tokenizer(context)["input_ids"])))
        return found

    def sums(self, work: Sequence[tuple[list[int], int]]) -> list[float]:
        """The log-probability of what is scored, for each, in nats."""
        assert self._process.stdin
        print(json.dumps(work), file=self._process.stdin, flush=True)
        return [float(total) for total in json.loads(self._answer("sums"))]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _answer(self, kind: str) -> str:
        # vLLM and its libraries print too; our lines begin with their kind.
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(kind + " "):
                return line.removeprefix(kind + " ").strip()
        raise SystemExit(
            f"vLLM ended without an answer; try: {os.environ[PYTHON]} -I {__file__} MODEL-FOLDER"
        )


def serve(folder: str) -> None:
    """In vLLM's environment: score what comes in until the input ends."""
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
