"""Draws results/bench/growth.svg from growth.json, the same bytes every time: `python -m bench.growth_plot`.

Three columns, one for each thing that grows: tokens above, seconds below, on linear axes from 0. The drawing
brings its own light ground, so that it can be read on any page. It measures nothing.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bench.growth import RESULTS

WIDTH, HEIGHT = 960, 426
TITLES = {"items": "Items", "options": "Options an item", "stem": "Tokens a stem"}
COLUMN, LEFT, ROOM = 312, 66, 224
"""Pixels from column to column, before the first axis, and that an axis is long."""
TOKENS_TOP, TOKENS_TALL = 88, 160
SECONDS_TOP, SECONDS_TALL = 304, 84
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1c2430}
.title{font-weight:600}.soft{fill:#55606e}.tick{font-size:11px;fill:#55606e}.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:#dde1e6;stroke-width:1}.axis{stroke:#8b95a1;stroke-width:1}
.naive{stroke:#a8501c;fill:#a8501c}.ours{stroke:#17579f;fill:#17579f}
path.naive,path.ours{fill:none;stroke-width:2}path.naive{stroke-dasharray:6 3}
text.naive,text.ours{stroke:#fcfcfa;stroke-width:4px;stroke-linejoin:round;paint-order:stroke;font-size:12px}
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where one small plot stands in pixels, and up to which values its axes go."""

    left: float
    top: float
    tall: float
    most_x: float
    ticks: tuple[float, ...]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a value in pixels."""
        return self.left + x / self.most_x * ROOM, self.top + self.tall * (1 - y / self.ticks[-1])


def write(results: Path = RESULTS) -> Path:
    """The drawing of these results, beside them."""
    path = results.with_suffix(".svg")
    path.write_text(svg(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")
    return path


def svg(measured: dict[str, Any]) -> str:
    """The whole drawing."""
    grouped = {name: [p for p in measured["points"] if p["series"] == name] for name in TITLES}
    parts = [_column(LEFT + i * COLUMN, name, found) for i, (name, found) in enumerate(grouped.items())]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-labelledby="growth-title growth-desc">\n'
        '<title id="growth-title">How cost grows with items, options and stem length</title>\n'
        f'<desc id="growth-desc">{escape(described(measured["points"]))}</desc>\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6" fill="#fcfcfa" stroke="#dde1e6"/>\n'
        + _key()
        + "".join(parts)
        + "</svg>\n"
    )


def described(points: Sequence[dict[str, Any]]) -> str:
    """The drawing in words, for those who do not see it."""
    said = [
        f"{TITLES[p['series']]} {p['x']:,}: {p['planned']:,} tokens planned, {p['naive']:,} naive, {p['seconds']:.1f} s."
        for p in points
    ]
    return " ".join(said)


def ticks(most: float, steps: int) -> tuple[float, ...]:
    """From 0 to just above `most` in at most so many round steps."""
    size = 10.0 ** math.floor(math.log10(most / steps))
    step = next(size * s for s in _STEPS if size * s * steps >= most * (1 - 1e-9))
    return tuple(i * step for i in range(math.ceil(most / step - 1e-9) + 1))


def short(value: float) -> str:
    """A tick in few letters: thousands as k."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _key() -> str:
    return (
        f'<path class="naive" d="M{LEFT} 24h30"/>{_dot("naive", LEFT + 15, 24)}'
        f'<text x="{LEFT + 38}" y="28.5">tokens when every request is run alone (naive)</text>\n'
        f'<path class="ours" d="M{LEFT + 390} 24h30"/>{_dot("ours", LEFT + 405, 24)}'
        f'<text x="{LEFT + 428}" y="28.5">tokens planned, and the seconds they take</text>\n'
    )


def _column(left: float, name: str, found: Sequence[dict[str, Any]]) -> str:
    xs = [float(p["x"]) for p in found]
    above = Frame(left, TOKENS_TOP, TOKENS_TALL, max(xs), ticks(max(p["naive"] for p in found), 4))
    below = Frame(left, SECONDS_TOP, SECONDS_TALL, max(xs), ticks(max(p["seconds"] for p in found), 3))
    last = found[-1]
    each = "" if name == "items" else f" ({last['items']} items)"
    return (
        f'<text class="title" x="{left}" y="64">{TITLES[name]}<tspan class="soft" font-weight="400">{each}</tspan></text>\n'
        f'<text class="tick" x="{left}" y="80">tokens</text>\n'
        + _axes(above, xs)
        + _line("naive", above, xs, [p["naive"] for p in found], f"naive {last['naive']:,}")
        + _line("ours", above, xs, [p["planned"] for p in found], f"planned {last['planned']:,}")
        + f'<text class="tick" x="{left}" y="{SECONDS_TOP - 8}">seconds</text>\n'
        + _axes(below, xs)
        + _line("ours", below, xs, [p["seconds"] for p in found], f"{last['seconds']:.1f} s")
    )


def _axes(frame: Frame, xs: Sequence[float]) -> str:
    out = []
    for tick in frame.ticks:
        x, y = frame.at(0, tick)
        kind = "grid" if tick else "axis"
        out.append(
            f'<path class="{kind}" d="M{x:.1f} {y:.1f}h{ROOM}"/>'
            f'<text class="tick end" x="{x - 7:.1f}" y="{y + 4:.1f}">{short(tick)}</text>\n'
        )
    for value in xs:
        x, y = frame.at(value, 0)
        out.append(
            f'<path class="axis" d="M{x:.1f} {y:.1f}v4"/>'
            f'<text class="tick mid" x="{x:.1f}" y="{y + 17:.1f}">{value:,.0f}</text>\n'
        )
    return "".join(out)


def _line(kind: str, frame: Frame, xs: Sequence[float], ys: Sequence[float], label: str) -> str:
    places = [frame.at(x, y) for x, y in zip(xs, ys, strict=True)]
    d = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    x, y = places[-1]
    # Lines rise to the right: above the last point's left there is room.
    return (
        f'<path class="{kind}" d="M{d}"/>'
        + "".join(_dot(kind, *place) for place in places)
        + f'<text class="{kind} end" x="{x - 2:.1f}" y="{y - 9:.1f}">{label}</text>\n'
    )


def _dot(kind: str, x: float, y: float) -> str:
    if kind == "naive":
        return f'<rect class="naive" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
    return f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'


if __name__ == "__main__":
    if not RESULTS.is_file():
        sys.exit("results/bench/growth.json is absent; run `python -m bench.growth` first")
    print(write().relative_to(RESULTS.parent.parent.parent))
