"""Compare our scoring with lm-eval's on the same work in one run: writes results/bench/scoring.json.

Runs alternate (A B A B): lm-eval's `hf` at its best batch size of 8, 16 and 32, then our engine without a score cache. Both
use the same float32 weights in memory and include tokenization. Ratios compare neighbouring runs, so that a change in
machine speed affects both sides. `warm` times a run of 1,000 items and its repeats, each in a separate process.

`python -m bench.scoring [CASE...]` measures only these cases and keeps the others in the file. The `size_*` cases are
Llama-shaped models with random weights; their ratio must not fall with size.
"""

import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.cases import CASES, Case, arc, asked
from bench.results import RESULTS, Tree, machine, measure
from robustify.base.files import cache_folder
from robustify.items.views import Asking, Request
from robustify.models.asking import ask, plan
from robustify.models.downloads import locate
from robustify.models.engines import open_scorer
from robustify.models.engines.local.engine import HF
from robustify.models.engines.local.freed_memory import give_back, keep_freed
from robustify.models.engines.plan import encode, plan_batches
from robustify.models.model_settings import HFModel

MODEL = "smollm2-135m"
PAIRS = 3
BATCH_SIZES = (8, 16, 32)
TRIED_ON = 40
"""Requests, spread over a case, used to compare lm-eval's batch sizes."""
SIZES = {"135m": (576, 1536, 30, 9, 3), "500m": (1280, 3584, 24, 20, 5), "1b": (2048, 8192, 16, 32, 8)}
"""Width, MLP width, layers, heads and key heads; the vocabulary is SmolLM2's 49,152 tokens."""
SIZED = replace(CASES[0], items=4, goal=1.0, requests=lambda: asked(arc(4), ("full", "cloze")))
WARM_ITEMS = 1000
SIDE, PRODUCTS = 2048, 8
"""Side of the matrices, and number of products after every batch, so that both rates see the same machine speed."""


def main(wanted: Sequence[str]) -> int:
    """Measure the named cases, or all cases."""
    todo: dict[str, Callable[[], Tree]] = {
        "matrix_rate": matrix_rate,
        **{case.name: partial(_measured, case) for case in CASES},
        "warm": warm,
        **{f"size_{size}": partial(_sized, size) for size in SIZES},
    }
    parts = {name: partial(_loaded, part) for name, part in todo.items()}
    return measure(RESULTS / "bench" / "scoring.json", parts, wanted, _machine)


def _loaded(part: Callable[[], Tree]) -> Tree:
    gc.collect()
    load = round(os.getloadavg()[0], 2)
    return {**part(), "load_before": load}


def _machine() -> Tree:
    packages = {name.replace("-", "_"): version(name) for name in ("torch", "transformers", "lm-eval")}
    return {
        "machine": {**machine(), "cpu": platform.machine(), "model": MODEL, "dtype": "float32", **packages}
    }


def _sized(size: str) -> Tree:
    """Measure a temporary model of this size with random weights and SmolLM2's tokenizer."""
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


def _measured(case: Case, folder: Path | None = None) -> Tree:
    """Return the ratios of neighbouring runs, and the largest difference between the numbers of both sides."""
    from lm_eval.models.huggingface import HFLM

    requests = case.requests()
    folder = folder or locate(MODEL, cache_folder())
    peer = HFLM(str(folder), device="cpu", dtype="float32", batch_size=BATCH_SIZES[0])
    with HF(HFModel(name=MODEL), folder) as engine:
        sizes = _best_batch_size(peer, requests)
        engine.loglikelihoods(requests[:: max(1, len(requests) // TRIED_ON)])
        pairs = []
        for _ in range(PAIRS):
            # What our engine sets in this process must not help the other side.
            give_back()
            theirs, seconds_peer = _timed(lambda: _peer(peer, requests))
            keep_freed()
            ours, seconds_ours = _timed(lambda: [s.total for s in engine.loglikelihoods(requests)])
            pairs.append((seconds_peer, seconds_ours))
            print(f"  {case.name}: {seconds_peer:.1f} s against {seconds_ours:.1f} s", flush=True)
        assert engine.path == "trees"
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
        "batch_size": min(sizes, key=lambda n: sizes[n]),
        "batch_size_trial_seconds": {str(n): round(seconds, 1) for n, seconds in sizes.items()},
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

    texts = [(request.context, request.continuation) for request in requests]
    instances = [Instance("loglikelihood", {}, text, i) for i, text in enumerate(texts)]
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


def warm() -> Tree:
    """Measure a cold run and three repeats, from the start of the process to the last answer row."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(cache_folder() / "models")
        command = [sys.executable, "-m", "bench.scoring", "--warm", folder]
        runs = [_timed(lambda: list(json.loads(subprocess.check_output(command)))) for _ in range(4)]
    (first, cold), *repeats = runs
    seconds = [each for _, each in repeats]
    return {
        "says": f"warm repeat of a run of {WARM_ITEMS} items (choices only in all rotations, full, cloze)",
        "ratio_median": round(cold / statistics.median(seconds), 1),
        "ratio_range": [round(cold / max(seconds), 1), round(cold / min(seconds), 1)],
        "goal": 100.0,
        "goal_seconds": 5.0,
        "pairs": len(repeats),
        "seconds_ours": round(statistics.median(seconds), 2),
        "seconds_peer": round(cold, 2),
        "max_abs_diff": max(abs(a - b) for again, _ in repeats for a, b in zip(first, again, strict=True)),
    }


def run(folder: str) -> int:
    """Run the model with the score cache in `folder`, and print every total."""
    planned = plan(arc(WARM_ITEMS), Asking(views=("choices_only", "full", "cloze"), orders=1))
    with open_scorer(HFModel(name=MODEL), Path(folder)) as scorer:
        print(json.dumps([total for row in ask(planned, scorer) for total in row.scores or ()]))
    return 0


def matrix_rate() -> Tree:
    """Return our share of the machine's float32 matrix rate, counted in distinct prefix tokens.

    The count includes the linear layers once per token and the output head once per scored position, but not attention. The
    matrix rate is that of one large float32 product, timed after every batch and outside our time.
    """
    import torch

    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    out = torch.mm(a, b)
    requests = next(case for case in CASES if case.name == "zero_shot").requests()
    products: list[float] = []

    def product(_: int) -> None:
        for _ in range(PRODUCTS):
            start = time.perf_counter()
            torch.mm(a, b, out=out)
            products.append(time.perf_counter() - start)

    with HF(HFModel(name=MODEL), locate(MODEL, cache_folder())) as engine:
        flops, tokens = _needed(engine, requests)
        engine.loglikelihoods(requests[:50])
        used, measured = [], []
        for _ in range(5):
            products.clear()
            start = time.perf_counter()
            engine.loglikelihoods(requests, product)
            used.append(flops / (time.perf_counter() - start - sum(products)) / 1e9)
            measured.append(2 * SIDE**3 * len(products) / sum(products) / 1e9)
    shares = [ours / all_ for ours, all_ in zip(used, measured, strict=True)]
    return {
        "share": round(statistics.median(shares), 3),
        "share_range": [round(min(shares), 3), round(max(shares), 3)],
        "goal": 0.75,
        "runs": len(shares),
        "gflops_measured": round(statistics.median(measured)),
        "gflops_used": round(statistics.median(used)),
        "distinct_tokens": tokens,
        "says": "cloze + full, ARC-Challenge, 100 items",
    }


def _needed(engine: HF, requests: Any) -> tuple[float, int]:
    """Return the floating-point operations and distinct tokens that the requests need."""
    import torch

    local: Any = engine.open_model()
    encoded = list(dict.fromkeys(encode(engine.speller, requests)))
    batches = [batch for section in plan_batches(encoded, section=len(encoded)) for batch in section]
    scored = {(i, want.node) for i, batch in enumerate(batches) for want in batch.wants}
    tokens = sum(len(batch.tokens) for batch in batches)
    layers = [m for m in local.model.get_decoder().modules() if isinstance(m, torch.nn.Linear)]
    per_token = 2 * sum(layer.weight.numel() for layer in layers)
    per_position = 2 * local.model.get_output_embeddings().weight.numel()
    return float(per_token * tokens + per_position * len(scored)), tokens


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--warm", place]:
            sys.exit(run(place))
        case words:
            sys.exit(main(words))
