"""Our share of the machine's float32 matrix rate, with both rates measured in one run."""

import statistics
import time
from typing import Any

from bench.cases import CASES
from robustify.models.downloads import cache_folder, locate
from robustify.models.engines.local.engine import HF
from robustify.models.engines.plan import plan_batches
from robustify.models.engines.settings import HFModel
from robustify.models.engines.tokens import encode

SIDE = 2048
RUNS = 5
PRODUCTS = 8
"""Products after every batch, so that both measurements see the same machine speed."""
GOAL = 0.75


def matrix_rate(model: str) -> dict[str, Any]:
    """Return our share of the matrix rate, counted in distinct prefix tokens.

    The count includes the linear layers once per token and the output head once per scored position, but not attention. The
    matrix rate is that of one large float32 product, timed after every batch and outside our time.
    """
    import torch

    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    out = torch.mm(a, b)
    flops_each = 2 * SIDE**3
    requests = next(case for case in CASES if case.name == "zero_shot").requests()
    with HF(HFModel(name=model), locate(model, cache_folder())) as engine:
        flops, tokens = _needed(engine, requests)
        engine.loglikelihoods(requests[:50])
        shares, used, measured = [], [], []
        for _ in range(RUNS):
            products: list[float] = []

            def product(_: int, products: list[float] = products) -> None:
                for _ in range(PRODUCTS):
                    start = time.perf_counter()
                    torch.mm(a, b, out=out)
                    products.append(time.perf_counter() - start)

            start = time.perf_counter()
            engine.loglikelihoods(requests, product)
            seconds = time.perf_counter() - start - sum(products)
            used.append(flops / seconds / 1e9)
            measured.append(flops_each * len(products) / sum(products) / 1e9)
            shares.append(used[-1] / measured[-1])
    return {
        "share": round(statistics.median(shares), 3),
        "share_range": [round(min(shares), 3), round(max(shares), 3)],
        "goal": GOAL,
        "runs": RUNS,
        "gflops_measured": round(statistics.median(measured)),
        "gflops_used": round(statistics.median(used)),
        "distinct_tokens": tokens,
        "says": "cloze + full, ARC-Challenge, 100 items",
    }


def _needed(engine: HF, requests: Any) -> tuple[float, int]:
    import torch

    model = engine.opened().model
    encoded = list(dict.fromkeys(encode(engine.speller, requests)))
    batches = [batch for section in plan_batches(encoded, section=len(encoded)) for batch in section]
    scored = {(i, want.node) for i, batch in enumerate(batches) for want in batch.wants}
    tokens = sum(len(batch.tokens) for batch in batches)
    layers = [m for m in model.get_decoder().modules() if isinstance(m, torch.nn.Linear)]
    per_token = 2 * sum(layer.weight.numel() for layer in layers)
    per_position = 2 * model.get_output_embeddings().weight.numel()
    return float(per_token * tokens + per_position * len(scored)), tokens
