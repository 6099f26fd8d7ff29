"""A simulated benchmark judged, and the judge's estimates beside the true values.

The judge is the one of every run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.simulate.drawing import Drawn
from bench.simulate.parameters import Simulation
from robustify.answers import Answers
from robustify.item import Item
from robustify.judging.context import Rules
from robustify.judging.judgement import Judgement, judge
from robustify.screen.screen_rules import ScreenRules


@dataclass(frozen=True, slots=True)
class Estimate:
    """One interval of a summary beside its true value."""

    path: str
    truth: float
    value: float
    low: float
    high: float
    n: int | None

    @property
    def inside(self) -> bool:
        """Whether the interval holds the truth; a rounding error does not put it out."""
        return self.low - 1e-12 <= self.truth <= self.high + 1e-12


def estimates_beside(known: Mapping[str, float], summary: Mapping[str, object]) -> list[Estimate]:
    """Each interval of a summary whose true value is known; what the summary lacks is left out."""
    found = ((path, truth, *_shown(summary, path)) for path, truth in known.items())
    return [
        Estimate(path, truth, float(value), float(ci[0]), float(ci[1]), n)
        for path, truth, value, ci, n in found
        if value is not None and ci is not None
    ]


def _shown(summary: Mapping[str, object], path: str) -> tuple[Any, Any, Any]:
    """A value, its interval and its n: of a rate, or of a number whose interval is under NAME_ci."""
    node = value_at(summary, path)
    if isinstance(node, Mapping):
        return node.get("value"), node.get("ci"), node.get("n")
    return node, value_at(summary, f"{path}_ci"), None


def value_at(tree: object, path: str) -> object:
    """The value at a path (names and list places joined by `/`); None where there is none."""
    for name in path.split("/"):
        match tree:
            case Mapping():
                tree = tree.get(name)
            case list() if name.isdigit() and int(name) < len(tree):
                tree = tree[int(name)]
            case _:
                return None
    return tree


def rules(sim: Simulation) -> Rules:
    """Unanimity of the voters; majority is an alternative."""
    own = ScreenRules(criterion="unanimous", voters=sim.voter_names)
    majority = own.model_copy(update={"criterion": "majority"})
    return Rules(own, under_test=sim.tested_names, alternatives=(majority,))


def judged(drawn: Drawn, answers: Answers, items: Sequence[Item] | None) -> Judgement:
    """The judgement of a simulated benchmark; without `items` what needs text is left out."""
    return judge(answers, drawn.facts, rules(drawn.sim), items)
