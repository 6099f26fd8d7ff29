"""Draws the four plots of results/calibration from its JSON files, the same bytes every time.

`python -m bench.calibrate.plots` draws them again without measuring anything.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

from bench.calibrate import svg
from bench.calibrate.estimands import BAND

RESULTS = Path(__file__).parent.parent.parent / "results" / "calibration"
LEVELS = ("low", "high")


def draw_all(folder: Path = RESULTS) -> None:
    """All plots whose results are there."""
    for name, (source, drawn) in PLOTS.items():
        path = folder / f"{source}.json"
        if path.is_file():
            (folder / f"{name}.svg").write_text(drawn(json.loads(path.read_text("utf-8"))), encoding="utf-8")


def coverage(found: dict[str, Any]) -> str:
    """A dot an estimator, with its Monte Carlo interval, on the band that is the goal."""
    rows = found["coverage_detail"]
    wide, tall, least = 960, 78 + 20 * len(rows), 0.88
    frame = svg.Frame(330, 48, 560, 20 * len(rows), svg.linear(least, 1), lambda y: 1 - y / len(rows))
    left, right = (frame.left + frame.x(b) * frame.wide for b in BAND)
    body = [
        svg.text(24, 28, "Share of 95 % intervals that hold the true value", "title"),
        svg.text(24, 28, "", ""),
        f'<rect class="band" x="{left:.1f}" y="{frame.top}" width="{right - left:.1f}" height="{frame.tall}"/>\n',
        svg.below(frame, [0.88, 0.9, 0.93, 0.95, 0.97, 1.0], lambda x: f"{100 * x:.0f} %"),
        svg.path(f"M{frame.left + frame.x(0.95) * frame.wide:.1f} {frame.top}v{frame.tall}", "grid"),
    ]
    for i, (name, row) in enumerate(rows.items()):
        x, y = frame.at(row["share"], i + 0.5)
        kind = "f0" if row["in_band"] else "out"
        (low, _), (high, _) = frame.at(row["ci"][0], 0), frame.at(row["ci"][1], 0)
        body += [
            svg.text(frame.left - 12, y + 4, name.replace("_", " "), "end tick"),
            svg.path(f"M{low:.1f} {y:.1f}H{high:.1f}", "s0 around" if row["in_band"] else "out around"),
            svg.dot(x, y, kind),
            svg.text(frame.left + frame.wide + 12, y + 4, f"{100 * row['share']:.1f}", "tick"),
        ]
    said = "; ".join(f"{name} {100 * row['share']:.1f} %" for name, row in rows.items())
    return svg.drawing("coverage", "Coverage of 95 % intervals", said, wide, tall, "".join(body))


def power(found: dict[str, Any]) -> str:
    """How often the shortcuts of a set are told from luck, by its size and rate."""
    points = found["points"]
    sizes = sorted({p["items"] for p in points})
    rates = sorted({p["shortcut_rate"] for p in points})
    body = [
        svg.text(24, 28, "How often the screen tells a set's shortcuts from luck", "title"),
        svg.key(24, 52, [f"{100 * s:g} % shortcuts" for s in rates], 150),
    ]
    scale = svg.linear(math.log(sizes[0]), math.log(sizes[-1]))
    for column, level in enumerate(LEVELS):
        frame = svg.Frame(66 + column * 460, 100, 390, 220, lambda x: scale(math.log(x)), svg.linear(0, 1))
        body += [
            svg.text(frame.left, 86, f"{level} correlation of the voters' errors", "soft"),
            svg.across(frame, [0, 0.25, 0.5, 0.8, 1], lambda y: f"{100 * y:.0f} %", low=sizes[0]),
            svg.below(frame, sizes, lambda x: f"{x:,.0f}"),
        ]
        for i, s in enumerate(rates):
            here = [p for p in points if p["shortcut_rate"] == s and p["correlation"] == level]
            here.sort(key=lambda p: p["items"])
            body.append(svg.line(frame, [(p["items"], p["told_from_luck"]["share"]) for p in here], i))
        body.append(svg.text(frame.left + frame.wide / 2, 356, "items", "tick mid"))
    said = "; ".join(
        f"{p['items']} items, {100 * p['shortcut_rate']:g} %, {p['correlation']}: "
        f"{100 * p['told_from_luck']['share']:.0f} %"
        for p in points
    )
    return svg.drawing("power", "Power of the screen", said, 960, 374, "".join(body))


def bias(found: dict[str, Any]) -> str:
    """The mean error of the latent rate by size, for each true rate and correlation."""
    rows = found["latent"]
    rates, sizes = sorted({r["shortcut_rate"] for r in rows}), sorted({r["items"] for r in rows})
    most = max(0.02, max(abs(x) for r in rows for x in r["bias_ci"]) * 1.1)
    scale = svg.linear(math.log(sizes[0] / 1.6), math.log(sizes[-1] * 1.6))
    body = [
        svg.text(24, 28, "Mean error of the latent shortcut rate, with its Monte Carlo interval", "title"),
        svg.key(24, 52, [f"{level} correlation" for level in LEVELS], 160),
    ]
    for column, s in enumerate(rates):
        frame = svg.Frame(
            76 + column * 302, 100, 240, 200, lambda x: scale(math.log(x)), svg.linear(-most, most)
        )
        ticks = [-0.02, -0.01, 0, 0.01, 0.02]
        body += [
            svg.text(frame.left, 86, f"true rate {100 * s:g} %", "soft"),
            svg.across(frame, ticks, lambda y: f"{100 * y:+g} pp" if y else "0", low=sizes[0] / 1.6),
            svg.below(frame, sizes, lambda x: f"{x:,.0f}"),
            svg.text(frame.left + frame.wide / 2, 336, "items", "tick mid"),
        ]
        for i, level in enumerate(LEVELS):
            here = [r for r in rows if r["shortcut_rate"] == s and r["correlation"] == level]
            here.sort(key=lambda r: r["items"])
            moved = [(r["items"] * (0.93, 1.075)[i], r) for r in here]
            body += [svg.upright(frame, x, r["bias_ci"][0], r["bias_ci"][1], i) for x, r in moved]
            body.append(svg.line(frame, [(x, r["bias"]) for x, r in moved], i))
    said = "; ".join(
        f"{r['items']} items, {100 * r['shortcut_rate']:g} %, {r['correlation']}: {100 * r['bias']:+.2f} points"
        for r in rows
    )
    return svg.drawing("bias", "Bias of the latent shortcut rate", said, 960, 354, "".join(body))


def correlated(found: dict[str, Any]) -> str:
    """The latent rate as voters err alike: exchangeable keys beside the product of accuracies."""
    points = found["points"]
    voters = sorted({p["voters"] for p in points})
    most = max(
        p[name]["mean"] + p[name]["sd"] for p in points for name in ("latent", "latent_by_independence")
    )
    names = ("keys drawn anew (this judge)", "as if voters erred independently")
    body = [
        svg.text(
            24, 28, "Latent shortcut rate found (mean, and one standard deviation), 1,000 items", "title"
        ),
        svg.key(24, 52, names, 250),
        svg.path("M524 52h22", "truth"),
        svg.text(553, 56.5, "true rate"),
    ]
    for column, m in enumerate(voters):
        frame = svg.Frame(76 + column * 302, 100, 240, 200, svg.linear(0, 1), svg.linear(0, most * 1.05))
        here = sorted((p for p in points if p["voters"] == m), key=lambda p: p["correlation"])
        ticks = [0.1 * i for i in range(int(most * 10.5) + 1)]
        body += [
            svg.text(frame.left, 86, f"{m} voters, unanimous", "soft"),
            svg.across(frame, ticks, lambda y: f"{100 * y:.0f} %", low=0),
            svg.below(frame, [0, 0.2, 0.4, 0.6, 0.8, 1], lambda x: f"{x:g}"),
            svg.text(frame.left + frame.wide / 2, 336, "correlation of their guesses", "tick mid"),
        ]
        for i, name in enumerate(("latent", "latent_by_independence")):
            around = [
                (p["correlation"], p[name]["mean"] - p[name]["sd"], p[name]["mean"] + p[name]["sd"])
                for p in here
            ]
            body.append(svg.ribbon(frame, around, i))
            body.append(svg.line(frame, [(p["correlation"], p[name]["mean"]) for p in here], i))
        x, y = frame.at(0, here[0]["shortcut_rate"])
        body.append(svg.path(f"M{x:.1f} {y:.1f}h{frame.wide}", "truth"))
    said = "; ".join(
        f"{p['voters']} voters, correlation {p['correlation']}: {100 * p['latent']['mean']:.1f} % against "
        f"{100 * p['latent_by_independence']['mean']:.1f} % by independence" for p in points
    )  # fmt: skip
    return svg.drawing("correlated", "Latent rate under correlated errors", said, 960, 354, "".join(body))


PLOTS = {
    "coverage": ("calibration", coverage),
    "power": ("power", power),
    "latent_bias": ("calibration", bias),
    "correlated": ("correlated", correlated),
}


if __name__ == "__main__":
    if not (RESULTS / "calibration.json").is_file():
        sys.exit("results/calibration/calibration.json is absent; run `make calibrate` first")
    draw_all()
