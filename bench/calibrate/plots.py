"""Draw the two plots of results/calibration from its JSON files with matplotlib, the same bytes every time.

`python -m bench.calibrate.plots` draws them again without measuring anything.
"""

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.calibrate.arms import BAND, coverage_verdict

RESULTS = Path(__file__).parent.parent.parent / "results" / "calibration"
LEVELS = ("low", "high")
COLOURS = ("#17579f", "#a8501c", "#3f7a35", "#7a3f8f", "#8a6d00")
OUT = "#b3261e"
STYLE = {
    "svg.hashsalt": "robustify", "svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.color": "#dde1e6",
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8b95a1", "axes.axisbelow": True,
    "axes.titlesize": 9, "axes.titlelocation": "left", "lines.markersize": 4.5, "legend.frameon": False,
}  # fmt: skip


def draw_all(folder: Path = RESULTS) -> None:
    """All plots whose results are there."""
    for name, (source, drawn) in PLOTS.items():
        path = folder / f"{source}.json"
        if path.is_file():
            (folder / f"{name}.svg").write_text(drawn(json.loads(path.read_text("utf-8"))), encoding="utf-8")


def coverage(found: dict[str, Any]) -> str:
    """A dot an estimator, with its Monte Carlo interval, on the band that is the goal."""
    rows = found["coverage_detail"]

    def draw(axes: Sequence[Any]) -> None:
        (ax,) = axes
        ax.axvspan(*BAND, color="#e3ecd9")
        ax.axvline(0.95, color="#8b95a1", linewidth=1)
        for i, row in enumerate(rows.values()):
            colour = OUT if coverage_verdict(row["ci"]) in ("wide", "narrow") else COLOURS[0]
            ax.plot(row["ci"], (i, i), color=colour, alpha=0.65)
            ax.plot(row["share"], i, "o", color=colour)
            ax.text(1.004, i, f"{100 * row['share']:.1f}", va="center", fontsize=8, clip_on=False)
        ax.set_yticks(range(len(rows)), [name.replace("_", " ") for name in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlim(0.88, 1)
        ax.xaxis.set_major_formatter(_percent)

    words = "; ".join(f"{name} {100 * row['share']:.1f} %" for name, row in rows.items())
    title = "Share of 95 % intervals that hold the true value"
    return _svg(title, words, (10, 1.2 + 0.21 * len(rows)), 1, draw)


def power(found: dict[str, Any]) -> str:
    """How often a set's shortcuts are significant, by its size and rate."""
    points = found["points"]
    rates = sorted({p["shortcut_rate"] for p in points})

    def draw(axes: Sequence[Any]) -> None:
        for ax, level in zip(axes, LEVELS, strict=True):
            for s, colour in zip(rates, COLOURS, strict=False):
                here = _along(points, "items", shortcut_rate=s, correlation=level)
                share = [p["significant"]["share"] for p in here]
                label = f"{100 * s:g} % shortcuts"
                ax.plot([p["items"] for p in here], share, "o-", color=colour, label=label)
            _by_items(ax, points)
            ax.set(title=f"{level} correlation of the voters' errors", ylim=(-0.03, 1.03))
            ax.yaxis.set_major_formatter(_percent)

    words = "; ".join(
        f"{p['items']} items, {100 * p['shortcut_rate']:g} %, {p['correlation']}: "
        f"{100 * p['significant']['share']:.0f} %"
        for p in points
    )
    return _svg("How often the excess that the screen finds is significant", words, (10, 3.9), 2, draw)


def _svg(
    title: str, described: str, size: tuple[float, float], columns: int, draw: Callable[[Sequence[Any]], None]
) -> str:
    """The file; `described` says it in words for those who do not see it."""
    import matplotlib  # a dependency of development, absent where only the tests of the package run
    from matplotlib.figure import Figure

    out = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", facecolor="#fcfcfa")
        axes = list(figure.subplots(1, columns, squeeze=False, sharey=True)[0])
        draw(axes)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        handles, labels = axes[0].get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside lower left", ncols=len(labels))
        figure.savefig(out, format="svg", metadata={"Date": None, "Title": title, "Description": described})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _along(rows: Sequence[dict[str, Any]], by: str, **wanted: object) -> list[dict[str, Any]]:
    """The rows with these values, in the order of `by`."""
    return sorted((r for r in rows if all(r[n] == v for n, v in wanted.items())), key=lambda r: r[by])


def _by_items(ax: Any, rows: Sequence[dict[str, Any]]) -> None:
    sizes = sorted({r["items"] for r in rows})
    ax.set_xscale("log")
    ax.set_xticks(sizes, [f"{n:,.0f}" for n in sizes])
    ax.minorticks_off()
    ax.set_xlabel("items")


def _percent(share: float, _: int) -> str:
    return f"{100 * share:.0f} %"


PLOTS = {
    "coverage": ("calibration", coverage),
    "power": ("power", power),
}


if __name__ == "__main__":
    if not (RESULTS / "calibration.json").is_file():
        sys.exit("results/calibration/calibration.json is absent; run `make calibrate` first")
    draw_all()
