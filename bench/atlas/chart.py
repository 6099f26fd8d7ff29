"""Chart of docs/findings.md: each set's latent shortcut rate and residual after the filter."""

import io
import json
from pathlib import Path
from typing import Any

from robustify.base.files import write_text

COLOUR, WORST = "#17579f", "#b3261e"
STYLE = {
    "svg.hashsalt": "robustify", "svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.color": "#dde1e6",
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8b95a1", "axes.axisbelow": True,
    "axes.titlesize": 9, "axes.titlelocation": "left", "lines.markersize": 4.5, "legend.frameon": False,
}  # fmt: skip
TITLE = "How much of each set shows its key without its question"


def chart(results: Path, place: Path) -> None:
    """Draw the sets of index.json from worst to best; equal numbers give equal bytes."""
    import matplotlib  # a development dependency
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    sets: dict[str, Any] = json.loads((results / "index.json").read_text(encoding="utf-8"))["sets"]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 1.5 + 0.31 * len(sets)), layout="constrained", facecolor="#fcfcfa")
        left, right = figure.subplots(1, 2, sharey=True)
        for at, row in enumerate(sets.values()):
            worst = WORST if at < 3 else COLOUR
            for axis, part, shift in ((left, "latent", -0.14), (right, "residual", 0.0)):
                axis.plot(
                    [100 * end for end in row[part]["ci"]], (at + shift, at + shift), color=worst, alpha=0.65
                )
                axis.plot(100 * row[part]["value"], at + shift, "o", color=worst)
            both = None if row["models"] is None else row["models"]["both_right"]["latent"]
            if both is not None and both["value"] is not None and both["ci"] is not None:
                left.plot(
                    [100 * end for end in both["ci"]], (at + 0.2, at + 0.2), color="#8b95a1", linewidth=1
                )
                left.plot(
                    100 * both["value"],
                    at + 0.2,
                    "s",
                    color="#fcfcfa",
                    markeredgecolor="#5c6670",
                    markersize=4,
                )
        left.set_yticks(range(len(sets)), [f"{name} ({row['n']:,})" for name, row in sets.items()])
        left.set_ylim(len(sets) - 0.5, -0.5)
        left.set_title(
            "Latent shortcut rate, 95 % intervals\n● scorer without models   □ two models, 200 items"
        )
        right.set_title("Fresh probe on what the filter leaves,\npoints above chance, 95 % intervals")
        for axis in (left, right):
            axis.axvline(0, color="#8b95a1", linewidth=1)
        left.xaxis.set_major_formatter(PercentFormatter(decimals=0))
        figure.suptitle(TITLE, x=0.01, ha="left", fontweight="bold")
        out = io.StringIO()
        words = "; ".join(f"{name} {100 * row['latent']['value']:.0f} %" for name, row in sets.items())
        figure.savefig(out, format="svg", metadata={"Date": None, "Title": TITLE, "Description": words})
    write_text(place, "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n")
