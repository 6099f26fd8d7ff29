"""A simulated benchmark judged, and the judge's estimates beside the true values.

The judge is the one of every run. What is written has no `run.json`, so that nobody takes a simulated benchmark for a
run.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from robustify.answers import Answers
from robustify.errors import ResourceError
from robustify.files import write_json
from robustify.item import Item
from robustify.judge.judgement import Judgement, Rules, judge
from robustify.report.reasons import screen_sentence
from robustify.run import write_items
from robustify.screen.screen_rules import ScreenRules
from robustify.simulate.drawing import Drawn, truth
from robustify.simulate.parameters import Simulation
from robustify.simulate.truth import true_values

ITEMS, ANSWERS, TRUTH = "items.jsonl", "answers.parquet", "truth.json"
FILES = (ITEMS, ANSWERS, TRUTH)
_SHOWN = (
    "screen/",
    "accuracy/",
    "residual/",
    "permutation/",
    "heuristics/all/longest_answer",
    "heuristics/all/most_hedges",
)


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


def write(folder: Path, drawn: Drawn) -> tuple[Judgement, list[Estimate]]:
    """Write items.jsonl, answers.parquet and truth.json, judge them, and compare.

    Raises:
        ResourceError: the folder holds something else, or cannot be written.
    """
    others = [p for p in folder.iterdir() if p.name not in FILES] if folder.is_dir() else []
    if others:
        raise ResourceError(
            f"{folder}: holds {len(others)} other files; expected an empty folder or an earlier simulation (-o DIR)"
        )
    items = drawn.items()
    answers = drawn.answers(items)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".staging-", dir=folder) as name:
            staging = Path(name)
            write_items(staging / ITEMS, items)
            answers.write(staging / ANSWERS)
            write_json(staging / TRUTH, truth(drawn))
            for file in FILES:
                os.replace(staging / file, folder / file)
    except OSError as error:
        raise ResourceError(
            f"{folder}: cannot be written ({error.strerror}); expected a folder of yours with space (-o DIR)"
        ) from None
    found = judged(drawn, answers, items)
    return found, estimates_beside(true_values(drawn.sim), found.summary.tree())


def report(folder: Path, drawn: Drawn, found: Judgement, estimates: Sequence[Estimate]) -> dict[str, object]:
    """What `robustify simulate --json` prints."""
    return {
        "folder": str(folder),
        "world": drawn.sim.model_dump(mode="json"),
        "shortcut_rate": truth(drawn)["shortcut_rate"],
        "certificate": None if found.summary.certificate is None else found.summary.certificate.verdict,
        "sentence": None if found.summary.screen is None else screen_sentence(found.summary.screen),
        "intervals": len(estimates),
        "inside": sum(e.inside for e in estimates),
        "estimates": [
            {"path": e.path, "truth": e.truth, "value": e.value, "ci": [e.low, e.high], "n": e.n, "inside": e.inside}
            for e in estimates
        ],
    }  # fmt: skip


def lines(reported: Mapping[str, object], estimates: Sequence[Estimate]) -> list[str]:
    """The same for people: what is asked most often, then how many of all intervals hold the truth."""
    shown = [e for e in estimates if e.path.startswith(_SHOWN)]
    width = max((len(e.path) for e in shown), default=0)
    rates = cast(Mapping[str, float], reported["shortcut_rate"])
    drawn_from = (
        f"Made: {rates['of_these_items']:.1%} of the items hold a shortcut; the world they are drawn from has "
        f"{rates['of_the_world']:.1%}, and that is the truth below."
    )
    head = f"{'':{width}}   truth   found   95 % interval"
    rows = [
        f"{e.path:{width}}  {e.truth:6.1%}  {e.value:6.1%}  {e.low:6.1%} to {e.high:6.1%}{'' if e.inside else '  outside'}"
        for e in shown
    ]
    return [
        drawn_from,
        "",
        head,
        *rows,
        "",
        f"{reported['inside']} of {reported['intervals']} intervals hold the true value; about 95 % of them should.",
        f"{reported['sentence']}",
        f"Certificate: {reported['certificate']}.",
        f"written: {reported['folder']}",
    ]
