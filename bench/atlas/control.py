"""Two checks of the filter: split by a voter that cannot have met a set, and labels of people.

A voter whose knowledge ends before a set was published cannot remember it (`configs/models/before_2024.yaml`). All sets
here are older than both embedded models. In the place of such a voter stands the scorer without any: it was fitted on
other items of the set and has read nothing else, so that no flag of its own is memory.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.atlas.fitted import Entry
from robustify.config import parse
from robustify.item import Item
from robustify.judge.audit.people import agreement_with_people
from robustify.pipeline import robustify
from robustify.report.comparing import compared
from robustify.report.explaining import evidence_of
from robustify.run import MANIFEST, open_run
from robustify.stats.intervals import rate
from tools.planted import CLEAN, kinds

_DENIES = re.compile(r"\bnot\b|n['\u2019]t\b|\bcannot\b")
ROOT = Path(__file__).parents[2]


def before_and_after(names: Sequence[str], work: Path) -> Entry:
    """By set, of the sample that models were asked: what `robustify compare` says of the split without voters (first) and
    of that with both models' votes and vectors (second).
    """
    return {name: _compared(name, work) for name in names if (work / f"run-{name}" / MANIFEST).is_file()}


def _compared(name: str, work: Path) -> Entry:
    sample = work / "sample" / f"{name}.jsonl"
    config = parse({"name": name, "sensitivity": "public", "data": str(sample), "explore": False}, name)
    alone = robustify(config, work / f"control-{name}", work / "cache")
    pair = compared([alone.folder, work / f"run-{name}"]).tree()["pairs"][0]
    return {field: pair[field] for field in ("n_common", "removed", "jaccard", "moved", "why_not")}


def negation(items: Sequence[Item]) -> Entry:
    """Of items of which one option alone denies (not, n't, cannot): their share `there`, and how often it is the key."""
    denies = [[bool(_DENIES.search(choice.casefold())) for choice in item.choices] for item in items]
    alone = np.array([sum(one) == 1 for one in denies])
    right = np.array([one[item.key] for one, item in zip(denies, items, strict=True)], dtype=np.float64)
    return {"there": rate(alone.astype(np.float64)).json(), "right": rate(right[alone]).json()}


def planted_labels() -> Entry:
    """The demo's planted items as if people had labelled them: nobody has labelled the items of a public set here."""
    labels = {item: kind != CLEAN for item, kind in kinds().items()}
    return agreement_with_people(evidence_of(open_run(ROOT / "results" / "benign_demo")), labels)
