"""A made-up benchmark judged, and what the judge finds laid beside the truth.

The judge is the one of every run and is told nothing. What is written has no `run.json`, so that nobody takes a
made-up benchmark for a run.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from robustify.answers import Answers
from robustify.errors import ResourceError
from robustify.files import write_json
from robustify.item import Item
from robustify.judge.judgement import Judgement, Rules, judge
from robustify.run import write_items
from robustify.screen.screen_rules import ScreenRules
from robustify.simulate.drawing import Drawn, truth
from robustify.simulate.parameters import SimulationParameters
from robustify.simulate.truth import Estimate, estimates_beside, true_values, value_at

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


def rules(world: SimulationParameters) -> Rules:
    """Unanimity of the world's voters; majority stands beside it as an alternative."""
    own = ScreenRules(voters=world.voter_names)
    majority = own.model_copy(update={"criterion": "majority"})
    return Rules(own, under_test=world.tested_names, alternatives=(majority,))


def judged(drawn: Drawn, answers: Answers, items: Sequence[Item] | None) -> Judgement:
    """The judgement of a made-up benchmark; without `items` what needs text is left out."""
    return judge(answers, drawn.facts, rules(drawn.world), items)


def write(folder: Path, drawn: Drawn) -> tuple[Judgement, list[Estimate]]:
    """Write items.jsonl, answers.parquet and truth.json, judge them, and compare.

    Raises:
        ResourceError: the folder holds something else, or cannot be written.
    """
    held = sorted(p.name for p in folder.iterdir() if p.name not in FILES) if folder.is_dir() else []
    if held:
        raise ResourceError(
            f"{folder}: holds {len(held)} other files; expected an empty folder or an earlier simulation (-o DIR)"
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
    return found, estimates_beside(true_values(drawn.world), found.summary)


def report(folder: Path, drawn: Drawn, found: Judgement, estimates: Sequence[Estimate]) -> dict[str, object]:
    """What `robustify simulate --json` prints."""
    return {
        "folder": str(folder),
        "world": drawn.world.model_dump(mode="json"),
        "shortcut_rate": truth(drawn)["shortcut_rate"],
        "certificate": value_at(found.summary, "certificate/verdict"),
        "sentence": value_at(found.summary, "screen/sentence"),
        "intervals": len(estimates),
        "inside": sum(e.inside for e in estimates),
        "estimates": [
            {"path": e.path, "truth": e.truth, "value": e.value, "ci": [e.low, e.high], "n": e.n, "inside": e.inside}
            for e in estimates
        ],
    }  # fmt: skip


def lines(told: Mapping[str, object], estimates: Sequence[Estimate]) -> list[str]:
    """The same for people: what is asked most often, then how many of all intervals hold the truth."""
    shown = [e for e in estimates if e.path.startswith(_SHOWN)]
    width = max((len(e.path) for e in shown), default=0)
    rates = cast(Mapping[str, float], told["shortcut_rate"])
    made = (
        f"Made: {rates['of_these_items']:.1%} of the items hold a shortcut; the world they are drawn from has "
        f"{rates['of_the_world']:.1%}, and that is the truth below."
    )
    head = f"{'':{width}}   truth   found   95 % interval"
    rows = [
        f"{e.path:{width}}  {e.truth:6.1%}  {e.value:6.1%}  {e.low:6.1%} to {e.high:6.1%}{'' if e.inside else '  outside'}"
        for e in shown
    ]
    return [
        made,
        "",
        head,
        *rows,
        "",
        f"{told['inside']} of {told['intervals']} intervals hold the true value; about 95 % of them should.",
        f"{told['sentence']}",
        f"Certificate: {told['certificate']}.",
        f"written: {told['folder']}",
    ]
