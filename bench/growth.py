"""Measure how cost grows with items, options and stem length: writes results/bench/growth.json and its plot.

`python -m bench.growth` measures every point in a separate process, so that each has its own memory peak. `--quick` uses 3
items per point and writes nothing. `--plot` draws results/bench/growth.svg from existing results. With the name of a point,
it measures only that point and prints one line. It fails if the numbers of a run differ from the plan.
"""

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.cases import arc, asked
from robustify.item import Item
from robustify.views import Request

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "growth.json"
MODEL = "smollm2-135m"
SERIES = {"items": (50, 200, 1000), "options": (4, 8, 10), "stem": (20, 200, 1000)}
"""The quantities that grow, with their values."""
ITEMS = {"options": 30, "stem": 20}
"""Items per point if the number of items does not grow."""
QUICK = 3
_WARM_UP = 8
"""Requests scored before the clock starts."""
TITLES = {"items": "Items", "options": "Options an item", "stem": "Tokens a stem"}
NAIVE: dict[str, Any] = {"color": "#a8501c", "marker": "s", "linestyle": "--"}
OURS: dict[str, Any] = {"color": "#17579f", "marker": "o"}
# IDs and dates would differ between drawings; text stays text.
FIXED = {"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9}
_FIRST = [
    "Amber", "Birch", "Cedar", "Delta", "Ember", "Fern", "Grove", "Hazel", "Iris", "Juniper", "Kelp", "Lotus", "Maple",
    "North", "Olive", "Pebble", "Quartz", "River", "Stone", "Thistle",
]  # fmt: skip
_FILLER = (
    "The library opens at nine and closes at six.", "A path leads from the gate to the old mill.",
    "In spring the gardeners plant beans along the wall.", "Two boats lie at the pier, one of them painted white.",
    "The baker counts the loaves and writes the number down.", "Most visitors come by train and walk the last mile.",
    "On Sundays the band plays in the small square.", "A clock on the tower strikes every quarter of an hour.",
)  # fmt: skip


def points() -> list[tuple[str, int]]:
    """Return every series with its values."""
    return [(series, x) for series, places in SERIES.items() for x in places]


def made(series: str, x: int, n: int, tokenizer: Any) -> list[Item]:
    """Return the items of a point: real items, with added options or made-up stems if these grow."""
    match series:
        case "items":
            return arc(n)
        case "options":
            return with_options(x, n)
        case _:
            return with_stems(x, n, tokenizer)


def with_options(k: int, n: int) -> list[Item]:
    """Return items of four choices, extended to k with choices of other items."""
    every = arc(1000)
    pool = list(dict.fromkeys(choice for item in every for choice in item.choices))
    out = []
    for item in [item for item in every if item.k == 4][:n]:
        others = random.Random(f"growth/{item.id}").sample(pool, k + item.k)
        more = [choice for choice in others if choice not in item.choices]
        out.append(replace(item, choices=(*item.choices, *more[: k - item.k])))
    return out


def with_stems(length: int, n: int, tokenizer: Any) -> list[Item]:
    """Return items of four choices under stems of about `length` tokens, each with a different first word."""
    items = [item for item in arc(200) if item.k == 4][:n]
    return [replace(item, stem=stem(i, length, tokenizer)) for i, item in enumerate(items)]


def stem(i: int, length: int, tokenizer: Any) -> str:
    words, sentence = _FIRST[i], 0
    while len(ids := tokenizer(words, add_special_tokens=False)["input_ids"]) < length:
        words += " " + _FILLER[(i + sentence) % len(_FILLER)]
        sentence += 1
    cut: str = tokenizer.decode(ids[:length])
    return cut.strip()


def measure(series: str, x: int, *, quick: bool) -> dict[str, Any]:
    """Measure a point in this process, with a warm model and without a score cache."""
    from transformers import AutoTokenizer

    from robustify.engines.local.engine import HF
    from robustify.engines.settings import HFModel
    from robustify.models import cache_folder, locate

    folder = locate(MODEL, cache_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    n = QUICK if quick else ITEMS.get(series, x)
    items = made(series, x, n, tokenizer)
    requests = asked(items, ("full", "cloze"))
    with HF(HFModel(name=MODEL), folder) as scorer:
        scorer.loglikelihoods(requests[:_WARM_UP])
        start = time.perf_counter()
        scorer.loglikelihoods(requests)
        seconds = time.perf_counter() - start
        said = scorer.fingerprint()
    if said["path"] != "trees":
        raise SystemExit(
            f"{MODEL} was scored by {said['path']}. Expected trees, because the plan counts them."
        )
    return {
        "series": series,
        "x": x,
        "items": len(items),
        "requests": len(requests),
        **_counted(requests, tokenizer, int(said["max_batch_tokens"])),
        "seconds": round(seconds, 3),
        # In kilobytes on Linux.
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
    }


def _counted(requests: list[Request], tokenizer: Any, budget: int) -> dict[str, int]:
    from robustify.engines.plan import plan_batches
    from robustify.engines.tokens import Speller, encode

    encoded = encode(Speller(tokenizer), requests)
    planned, distinct = (
        sum(len(batch.tokens) for section in sections for batch in section)
        for sections in (plan_batches(encoded, budget), plan_batches(encoded, budget, len(encoded)))
    )
    return {
        "planned": planned,
        "distinct": distinct,
        # lm-eval runs a context once for all continuations of one token, such as letters.
        "rows": sum(len(row) for row in {request.row for request in encoded}),
        "naive": sum(len(request.row) for request in encoded),
    }


def gathered(*, quick: bool) -> dict[str, Any]:
    """Measure all points, each in a separate process."""
    machine = {"cores": len(os.sched_getaffinity(0)), "load_before": round(os.getloadavg()[0], 2)}
    found = []
    for series, x in points():
        command = [sys.executable, "-m", "bench.growth", f"{series}-{x}", *(["--quick"] if quick else [])]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(found[-1]), flush=True)
    return {"machine": machine, "points": found}


def plotted(results: Path = RESULTS) -> Path:
    """Draw the results as three columns, one for each growing quantity.

    The same results give the same bytes. The metadata contains a description in words.
    """
    import matplotlib
    from matplotlib.figure import Figure

    points = json.loads(results.read_text(encoding="utf-8"))["points"]
    path = results.with_suffix(".svg")
    with matplotlib.rc_context(FIXED):
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        axes = figure.subplots(2, len(TITLES), sharex="col", height_ratios=(2, 1))
        for (tokens, seconds), name in zip(axes.T, TITLES, strict=True):
            _column(tokens, seconds, name, [p for p in points if p["series"] == name])
        axes[0][0].legend(frameon=False)
        metadata = {"Date": None, "Title": "How cost grows", "Description": described(points)}
        figure.savefig(path, metadata=metadata)
    return path


def described(points: Sequence[dict[str, Any]]) -> str:
    """Describe the drawing in words for people who cannot see it."""
    return " ".join(
        f"{TITLES[p['series']]} {p['x']:,}: {p['planned']:,} tokens planned, {p['naive']:,} naive, {p['seconds']:.1f} s."
        for p in points
    )


def _column(tokens: Any, seconds: Any, name: str, points: Sequence[dict[str, Any]]) -> None:
    xs = [p["x"] for p in points]
    tokens.plot(xs, [p["naive"] for p in points], label="every request alone", **NAIVE)
    tokens.plot(xs, [p["planned"] for p in points], label="planned", **OURS)
    seconds.plot(xs, [p["seconds"] for p in points], **OURS)
    each = "" if name == "items" else f" ({points[-1]['items']} items)"
    tokens.set_title(f"{TITLES[name]}{each}")
    for axis, what in ((tokens, "tokens"), (seconds, "seconds")):
        axis.set_ylabel(what)
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)


def main(words: list[str]) -> int:
    if words == ["--plot"]:
        print(plotted().relative_to(ROOT))
        return 0
    quick = "--quick" in words
    named = [word for word in words if word != "--quick"]
    if named:
        known = {f"{series}-{x}": (series, x) for series, x in points()}
        if len(named) > 1 or named[0] not in known:
            raise SystemExit(f"Unknown point {named[0]!r}. Expected one of {', '.join(known)}.")
        print(json.dumps(measure(*known[named[0]], quick=quick)))
        return 0
    measured = gathered(quick=quick)
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
        plotted()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
