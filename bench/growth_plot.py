"""Draws results/bench/growth.svg from growth.json with matplotlib: `python -m bench.growth_plot`. The bytes do not vary.

Three columns, one for each thing that grows: tokens above, seconds below, on linear axes from 0. It measures nothing.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.growth import RESULTS

TITLES = {"items": "Items", "options": "Options an item", "stem": "Tokens a stem"}
NAIVE: dict[str, Any] = {"color": "#a8501c", "marker": "s", "linestyle": "--"}
OURS: dict[str, Any] = {"color": "#17579f", "marker": "o"}
# Ids and dates would differ from one drawing to the next; text stays text.
FIXED = {"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9}


def write(results: Path = RESULTS) -> Path:
    """The drawing of these results, beside them; a description in words is in its metadata."""
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
    """The drawing in words, for those who do not see it."""
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


if __name__ == "__main__":
    if not RESULTS.is_file():
        sys.exit("results/bench/growth.json is absent; run `python -m bench.growth` first")
    print(write().relative_to(RESULTS.parent.parent.parent))
