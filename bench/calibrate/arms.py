"""Which made-up benchmarks are judged, and when a share of their intervals is as it should be.

The grid, the power curves and violated assumptions. Fixed before anybody
looked at a result. A world that an estimator does not survive stays in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from bench.simulate.parameters import Simulation
from robustify.stats.intervals import wilson

Depth = Literal["screen", "whole", "worded"]
"""What is judged: the screen alone; everything that needs no text; everything."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One world of an arm, what makes it different, and how many benchmarks are made of it."""

    arm: str
    depth: Depth
    labels: Mapping[str, Any]
    sim: Simulation
    repeats: int


ITEMS = (100, 300, 1000)
RATES = (0.0, 0.1, 0.3)
OPTIONS = {"4": (4,), "3 to 5": (3, 4, 5)}
VOTERS = (2, 3, 5)
CORRELATION = {"low": 0.2, "high": 0.8}
PLACES: tuple[Literal["uniform", "skewed"], ...] = ("uniform", "skewed")
REPEATS: dict[Depth, int] = {"screen": 15, "whole": 4, "worded": 1}


def grid() -> Iterator[Cell]:
    """All cells of the grid, judged three times to different depths."""
    for n, s, k, m, c, places in product(ITEMS, RATES, OPTIONS, VOTERS, CORRELATION, PLACES):
        labels = {
            "items": n,
            "shortcut_rate": s,
            "options": k,
            "voters": m,
            "correlation": c,
            "places": places,
        }
        sim = Simulation(
            items=n, shortcut_rate=s, options=OPTIONS[k], voters=m, correlation=CORRELATION[c], places=places
        )
        alone = sim.model_copy(update={"outside": 0, "tested": 0})
        yield Cell("grid", "screen", labels, alone, REPEATS["screen"])
        yield Cell("grid", "whole", labels, sim, REPEATS["whole"])
        yield Cell("grid", "worded", labels, sim, REPEATS["worded"])


def power() -> Iterator[Cell]:
    """How large a set must be before the excess of its shortcuts is significant."""
    sizes, rates = (50, 100, 200, 300, 500, 1000, 2000), (0.02, 0.05, 0.1, 0.2, 0.3)
    for n, s, c in product(sizes, rates, CORRELATION):
        sim = Simulation(items=n, shortcut_rate=s, correlation=CORRELATION[c], outside=0, tested=0)
        yield Cell("power", "screen", {"items": n, "shortcut_rate": s, "correlation": c}, sim, 30)


STRESS: dict[str, tuple[Depth, dict[str, Any]]] = {
    "each voter sees four in five shortcuts": ("screen", {"sight": 0.8}),
    "each voter knows the key of one clean item in ten": ("screen", {"knowing": 0.1}),
    "the shared favourite is always a wrong option": ("screen", {"distractors": 1.0}),
    "the shared favourite is always a wrong option, no shortcut": ("screen", {"distractors": 1.0, "shortcut_rate": 0.0}),
    "5 % of the votes missing": ("screen", {"unanswered": 0.05}),
    "10 % of the votes are ties": ("screen", {"ties": 0.1}),
    "passages of 5 items share their kind": ("whole", {"passage": 5}),
    "passages of 20 items share their kind": ("whole", {"passage": 20}),
    "40 items": ("screen", {"items": 40}),
    "nearly all voters alike: correlation 0.98": ("screen", {"correlation": 0.98}),
    "nine in ten items are shortcuts": ("screen", {"shortcut_rate": 0.9}),
    "2 options": ("screen", {"options": (2,)}),
    "10 options": ("screen", {"options": (10,)}),
    "a very good model under test: 97 %": ("whole", {"accuracy": (0.97, 0.99)}),
    "the letter decides 80 % of single askings": ("screen", {"letter_bias": 0.8}),
    "logs in the own order, keys uniform, no shortcut": (
        "screen", {"asked": "own", "letter_bias": 0.3, "shortcut_rate": 0.0},
    ),
    "logs in the own order, keys skewed, no shortcut": (
        "screen", {"asked": "own", "letter_bias": 0.3, "shortcut_rate": 0.0, "places": "skewed"},
    ),
    "logs in the own order, keys skewed, shortcuts": (
        "screen", {"asked": "own", "letter_bias": 0.3, "places": "skewed"},
    ),
    "one item in ten is seen by outside models only": ("whole", {"hidden_rate": 0.1}),
    "one item in five is seen by outside models only": ("whole", {"hidden_rate": 0.2}),
    "two outside models": ("whole", {"outside": 2, "shortcut_rate": 0.0}),
}  # fmt: skip


def stress() -> Iterator[Cell]:
    """Benchmarks that violate what the estimators assume, one thing at a time, at two sizes."""
    for (says, (depth, changed)), n in product(STRESS.items(), (300, 1000)):
        settings = {"items": n, **({} if depth == "whole" else {"outside": 0, "tested": 0}), **changed}
        if n == 300 or "items" not in changed:
            yield Cell(
                "stress", depth, {"says": says, "items": settings["items"]}, Simulation(**settings), 40
            )


def all_cells(scale: float = 1.0) -> list[Cell]:
    """Every cell; `scale` multiplies the number of benchmarks: at least one each, of those with text only some cells."""
    cells = [*grid(), *power(), *stress()]
    every = max(1, round(1 / scale))
    worded = [c for c in cells if c.depth == "worded"][::every]
    return [
        Cell(c.arm, c.depth, c.labels, c.sim, max(1, round(scale * c.repeats)))
        for c in cells
        if c.depth != "worded" or c in worded
    ]


# When a share is as it should be

BAND = (0.93, 0.97)
"""The goal: a 95 % interval covers between these shares."""
ALARM = 0.05


def coverage_verdict(ci: Sequence[float]) -> str:
    """By the Monte Carlo interval of a coverage, never by its point: within 93 to 97 %, outside it, or not decided."""
    if BAND[0] <= ci[0] and ci[1] <= BAND[1]:
        return "yes"
    return "wide" if ci[0] > BAND[1] else "narrow" if ci[1] < BAND[0] else "not excluded"


def alarm_verdict(ci: Sequence[float], level: float = ALARM) -> str:
    """The same of a share of false alarms: at most the level, above it, or not decided."""
    return "yes" if ci[1] <= level else "no" if ci[0] > level else "not excluded"


def rounded(value: float) -> float:
    """A number as it is written."""
    return round(value, 4)


def share_of(said: Sequence[bool]) -> dict[str, Any]:
    """How often something was said, with its Monte Carlo interval."""
    share = sum(said) / len(said)
    return {"share": rounded(share), "ci": [rounded(x) for x in wilson(sum(said), len(said))], "n": len(said)}
