"""The parts of a drawing made by hand: a light ground of its own, axes, lines, dots with their intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1c2430}
.title{font-weight:600}.soft{fill:#55606e}.tick{font-size:11px;fill:#55606e}.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:#dde1e6;stroke-width:1}.axis{stroke:#8b95a1;stroke-width:1}.band{fill:#e3ecd9}
.truth{stroke:#1c2430;stroke-dasharray:2 3}
path.s0{stroke:#17579f}path.s1{stroke:#a8501c}path.s2{stroke:#3f7a35}path.s3{stroke:#7a3f8f}path.s4{stroke:#8a6d00}
.s0,.s1,.s2,.s3,.s4{fill:none;stroke-width:2}
.f0{fill:#17579f}.f1{fill:#a8501c}.f2{fill:#3f7a35}.f3{fill:#7a3f8f}.f4{fill:#8a6d00}
.around{stroke-width:1.5;opacity:.65}.out{fill:#b3261e}path.out{stroke:#b3261e;fill:none}.wide{opacity:.14}
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a plot stands in pixels, and how values become places on it (0 to 1 along each axis)."""

    left: float
    top: float
    wide: float
    tall: float
    x: Callable[[float], float]
    y: Callable[[float], float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a value in pixels; what lies beyond an axis is drawn at its end."""
        along, up = (min(1.0, max(0.0, share)) for share in (self.x(x), self.y(y)))
        return self.left + along * self.wide, self.top + self.tall * (1 - up)


def linear(low: float, high: float) -> Callable[[float], float]:
    """Values to shares of an axis."""
    return lambda value: (value - low) / (high - low)


def drawing(name: str, title: str, described: str, width: int, height: int, body: str) -> str:
    """The whole file; `described` says it in words for those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="{name}-title {name}-desc">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-desc">{escape(described)}</desc>\n'
        f"<style>{STYLE}</style>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="#fcfcfa" stroke="#dde1e6"/>\n'
        f"{body}</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """One line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{_class(kind)}>{escape(words)}</text>\n'


def path(d: str, kind: str) -> str:
    """One path."""
    return f'<path class="{kind}" d="{d}"/>\n'


def across(frame: Frame, values: Sequence[float], named: Callable[[float], str], *, low: float) -> str:
    """Lines across the plot at values of y, named on the left; `low` is the least x."""
    out = []
    for value in values:
        x, y = frame.at(low, value)
        out.append(path(f"M{x:.1f} {y:.1f}h{frame.wide:.0f}", "grid"))
        out.append(text(x - 7, y + 4, named(value), "tick end"))
    return "".join(out)


def below(frame: Frame, values: Sequence[float], named: Callable[[float], str]) -> str:
    """The axis at the bottom with its ticks."""
    bottom = frame.top + frame.tall
    out = [path(f"M{frame.left:.1f} {bottom:.1f}h{frame.wide:.0f}", "axis")]
    for value in values:
        x = frame.left + frame.x(value) * frame.wide
        out.append(path(f"M{x:.1f} {bottom:.1f}v4", "axis"))
        out.append(text(x, bottom + 17, named(value), "tick mid"))
    return "".join(out)


def line(frame: Frame, points: Sequence[tuple[float, float]], kind: int) -> str:
    """A line with dots."""
    places = [frame.at(x, y) for x, y in points]
    d = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return path(f"M{d}", f"s{kind}") + "".join(dot(x, y, f"f{kind}") for x, y in places)


def ribbon(frame: Frame, points: Sequence[tuple[float, float, float]], kind: int) -> str:
    """What lies between two lines: (x, low, high)."""
    there = [frame.at(x, high) for x, _, high in points]
    back = [frame.at(x, low) for x, low, _ in reversed(points)]
    d = "L".join(f"{x:.1f} {y:.1f}" for x, y in (*there, *back))
    return path(f"M{d}Z", f"f{kind} wide")


def upright(frame: Frame, x: float, low: float, high: float, kind: int) -> str:
    """An interval of y at one x."""
    (x0, y0), (_, y1) = frame.at(x, low), frame.at(x, high)
    return path(f"M{x0:.1f} {y0:.1f}V{y1:.1f}", f"s{kind} around")


def dot(x: float, y: float, kind: str) -> str:
    """One dot at a place in pixels."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>\n'


def key(x: float, y: float, names: Sequence[str], step: float, *, first: int = 0) -> str:
    """The key: a short line and a name for each kind."""
    out = []
    for i, name in enumerate(names):
        out.append(path(f"M{x + i * step:.1f} {y}h22", f"s{first + i}"))
        out.append(dot(x + i * step + 11, y, f"f{first + i}"))
        out.append(text(x + i * step + 29, y + 4.5, name))
    return "".join(out)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
