"""Where the engine's time goes on the zero-shot case, by part: writes results/bench/profile.json."""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.cases import CASES
from robustify.engines.local import engine as local
from robustify.engines.local import layout, paths, tree
from robustify.engines.local.engine import HF
from robustify.models import cache_folder, locate

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "profile.json"
MODEL = "smollm2-135m"


def main() -> int:
    """Measure the parts."""
    requests = next(case for case in CASES if case.name == "zero_shot").requests()
    result: dict[str, Any] = {"says": "cloze + full, ARC-Challenge, 100 items, zero-shot", "model": MODEL}
    with HF(MODEL, locate(MODEL, cache_folder())) as engine:
        engine.loglikelihoods(requests[:50])
        with _watched(engine) as seconds:
            start = time.perf_counter()
            engine.loglikelihoods(requests)
            total = time.perf_counter() - start
    seconds["norms, gates, rotary positions, residuals, the interpreter"] = total - sum(seconds.values())
    result["total_seconds"] = round(total, 2)
    result["parts"] = [
        {"name": name, "share": round(spent / total, 3)}
        for name, spent in sorted(seconds.items(), key=lambda part: -part[1])
    ]
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(RESULT.read_text(encoding="utf-8"))
    return 0


@contextmanager
def _watched(engine: HF) -> Iterator[dict[str, float]]:
    """Seconds spent by part, from here on."""
    import torch

    seconds: dict[str, float] = defaultdict(float)

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def spent(*args: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return work(*args, **named)
            finally:
                seconds[name] += time.perf_counter() - start

        return spent

    places: list[tuple[Any, str, str]] = [
        (local, "encode", "tokenisation"),
        (paths, "plan_batches", "planning"),
        (tree, "laid_out", "layout of the batches"),
        (layout.Layout, "attend", "attention over the blocks"),
        (tree.Head, "logprobs", "output head"),
    ]
    began: list[float] = []
    with ExitStack() as put_back:
        for home, attribute, name in places:
            before = getattr(home, attribute)
            setattr(home, attribute, timed(name, before))
            put_back.callback(setattr, home, attribute, before)
        for layer in engine.opened().model.get_decoder().modules():
            if isinstance(layer, torch.nn.Linear):
                put_back.callback(
                    layer.register_forward_pre_hook(lambda *_: began.append(time.perf_counter())).remove
                )
                put_back.callback(layer.register_forward_hook(lambda *_: _add(seconds, began)).remove)
        yield seconds


def _add(seconds: dict[str, float], began: list[float]) -> None:
    seconds["linear layers"] += time.perf_counter() - began.pop()


if __name__ == "__main__":
    sys.exit(main())
