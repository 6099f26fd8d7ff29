"""Compare our scoring with lm-eval's on the same work in one run: writes results/bench/scoring.json.

Runs alternate (A B A B): lm-eval's `hf` at its best batch size of 8, 16 and 32, then our engine without a score cache. Both
use the same float32 weights in memory and include tokenisation. Ratios compare neighbouring runs, so that a change in
machine speed affects both sides.

`python -m bench.scoring [CASE...]` measures only these cases and keeps the others in the file. The `size_*` cases are
Llama-shaped models with random weights; their ratio must not fall with size.
"""

import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.cases import CASES, Case, arc, asked
from bench.matrix import matrix_rate
from bench.warm import warm
from robustify.items.views import Request
from robustify.models.downloads import cache_folder, locate
from robustify.models.engines.local.engine import HF
from robustify.models.engines.settings import HFModel

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "scoring.json"
MODEL = "smollm2-135m"
PAIRS = 3
BATCH_SIZES = (8, 16, 32)
TRIED_ON = 40
"""Requests, spread over a case, used to compare lm-eval's batch sizes."""
SIZES = {"135m": (576, 1536, 30, 9, 3), "500m": (1280, 3584, 24, 20, 5), "1b": (2048, 8192, 16, 32, 8)}
"""Width, MLP width, layers, heads and key heads; the vocabulary is SmolLM2's 49,152 tokens."""
SIZED = replace(CASES[0], items=4, goal=1.0, requests=lambda: asked(arc(4), ("full", "cloze")))


def main(wanted: Sequence[str]) -> int:
    """Measure the named cases, or all cases."""
    result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    todo: dict[str, Callable[[], dict[str, Any]]] = {"matrix_rate": lambda: matrix_rate(MODEL)}
    todo |= {case.name: lambda case=case: _measured(case) for case in CASES}
    todo |= {"warm": lambda: warm(MODEL)}
    todo |= {f"size_{size}": lambda size=size: _sized(size) for size in SIZES}
    if unknown := set(wanted) - set(todo):
        print(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(todo)}", file=sys.stderr)
        return 2
    for name, measure in todo.items():
        if wanted and name not in wanted:
            continue
        load = round(os.getloadavg()[0], 2)
        result[name] = {**measure(), "load_before": load}
        result["machine"] = _machine()
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print(name, json.dumps(result[name]), flush=True)
        gc.collect()
    return 0


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": platform.machine(),
        "model": MODEL,
        "dtype": "float32",
        **{package.replace("-", "_"): version(package) for package in ("torch", "transformers", "lm-eval")},
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _sized(size: str) -> dict[str, Any]:
    """Yield a temporary model of this size with random weights and SmolLM2's tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

    width, mlp, layers, heads, keys = SIZES[size]
    config = LlamaConfig(
        vocab_size=49152, hidden_size=width, intermediate_size=mlp, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=keys, tie_word_embeddings=True,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        AutoTokenizer.from_pretrained(locate(MODEL, cache_folder())).save_pretrained(folder)
        model = AutoModelForCausalLM.from_config(config)
        n = sum(weight.numel() for weight in model.parameters())
        model.save_pretrained(folder)
        del model
        return {"parameters": n, **_measured(SIZED, Path(folder))}


def _measured(case: Case, folder: Path | None = None) -> dict[str, Any]:
    from lm_eval.models.huggingface import HFLM

    requests = case.requests()
    folder = folder or locate(MODEL, cache_folder())
    peer = HFLM(str(folder), device="cpu", dtype="float32", batch_size=BATCH_SIZES[0])
    with HF(HFModel(name=MODEL), folder) as engine:
        sizes = _best_batch_size(peer, requests)
        engine.loglikelihoods(requests[:: max(1, len(requests) // TRIED_ON)])
        pairs = []
        for _ in range(PAIRS):
            theirs, seconds_peer = _timed(lambda: _peer(peer, requests))
            ours, seconds_ours = _timed(lambda: [s.total for s in engine.loglikelihoods(requests)])
            pairs.append((seconds_peer, seconds_ours))
            print(f"  {case.name}: {seconds_peer:.1f} s against {seconds_ours:.1f} s", flush=True)
        assert engine.path == "trees"
    return {
        **_compared(case, requests, pairs, ours, theirs),
        "batch_size": min(sizes, key=lambda n: sizes[n]),
        "batch_size_trial_seconds": {str(n): round(seconds, 1) for n, seconds in sizes.items()},
    }


def _compared(
    case: Case,
    requests: Sequence[Request],
    pairs: Sequence[tuple[float, float]],
    ours: Sequence[float],
    theirs: Sequence[float],
) -> dict[str, Any]:
    """Return the ratios of neighbouring runs, and the largest difference between the numbers of both sides."""
    ratios = [peer / our for peer, our in pairs]
    return {
        "says": f"{case.says}, {case.items} items",
        "requests": len(requests),
        "ratio_median": round(statistics.median(ratios), 2),
        "ratio_range": [round(min(ratios), 2), round(max(ratios), 2)],
        "goal": case.goal,
        "pairs": len(pairs),
        "seconds_ours": round(statistics.median(our for _, our in pairs), 2),
        "seconds_peer": round(statistics.median(peer for peer, _ in pairs), 2),
        "max_abs_diff": float(f"{max(abs(a - b) for a, b in zip(ours, theirs, strict=True)):.2g}"),
        "picks_that_differ": _other_picks(requests, ours, theirs),
    }


def _best_batch_size(peer: Any, requests: Sequence[Request]) -> dict[int, float]:
    part = requests[:: max(1, len(requests) // TRIED_ON)]
    _peer(peer, part[:8])
    seconds = {}
    for size in BATCH_SIZES:
        peer.batch_size_per_gpu = size
        _, seconds[size] = _timed(lambda: _peer(peer, part))
    peer.batch_size_per_gpu = min(seconds, key=lambda size: seconds[size])
    return seconds


def _peer(peer: Any, requests: Sequence[Request]) -> list[float]:
    from lm_eval.api.instance import Instance

    instances = [
        Instance("loglikelihood", {}, (request.context, request.continuation), i)
        for i, request in enumerate(requests)
    ]
    return [total for total, _ in peer.loglikelihood(instances, disable_tqdm=True)]


def _timed(work: Callable[[], list[float]]) -> tuple[list[float], float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start


def _other_picks(requests: Sequence[Request], ours: Sequence[float], theirs: Sequence[float]) -> int:
    # The options of one question are adjacent and share their context.
    other = 0
    for _, places in groupby(range(len(requests)), key=lambda i: requests[i].context):
        numbers = list(places)
        picks = {max(numbers, key=lambda i: side[i]) for side in (ours, theirs)}
        other += len(picks) > 1
    return other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
