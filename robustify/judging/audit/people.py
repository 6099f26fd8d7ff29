"""How far the filter sees what people see: labels of items ("shortcut" or "not") against W, each cue and the verdicts.

An item that can be answered without its question is not always a flawed one: a solver may infer the question from the
options (Balepur et al. 2024). So agreement with what the options show on their surface, and with what models make of
them (votes and vectors, which may know the subject), are counted apart.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from robustify.arrays import Bools, Floats
from robustify.errors import DataError
from robustify.files import text_lines
from robustify.judging.evidence import TEXTUAL
from robustify.stats.agreement import agreement
from robustify.stats.intervals import Interval, rate

LABELS = ("not", "shortcut")
_Z = 1.959963984540054
Row = Mapping[str, Any]


def labels_of_people(path: Path) -> dict[str, bool | None]:
    """By item whether most people call it a shortcut, None where they are even: lines `ITEM,shortcut` or `ITEM,not`.

    One line for each person's word; a first line `item,label` is a heading.

    Raises:
        UsageError: there is no such file.
        DataError: lines that are no such labels, all of them named.
    """
    said: dict[str, Counter[bool]] = {}
    faults = []
    for number, line in enumerate(text_lines(path, "labels, a line ITEM,shortcut or ITEM,not each"), start=1):
        item, _, label = (part.strip().strip('"') for part in line.rpartition(","))
        if not line.strip() or (number == 1 and (item, label) == ("item", "label")):
            continue
        if item and label in LABELS:
            said.setdefault(item, Counter())[label == "shortcut"] += 1
        else:
            faults.append(f"{path}:{number}: no label; expected ITEM,shortcut or ITEM,not")
    if faults:
        raise DataError.gather(faults)
    return {item: None if n[True] == n[False] else n[True] > n[False] for item, n in said.items()}


def agreement_with_people(rows: Iterable[Row], labels: Mapping[str, bool | None]) -> dict[str, Any]:
    """Return how evidence.jsonl agrees with labels of people: kappa of the verdicts, AUROC of rankings.

    Ranked are `W`, `p_key`, what all cues in the text (`surface`) or all models add to the key's logit, each cue by itself,
    and how unlike the real question the inferred ones are: who infers it may know the answer.

    Raises:
        DataError: none of the labels is of an item of the run, or all say the same.
    """
    by_item = {row["item"]: row for row in rows}
    known = {item: label for item, label in labels.items() if item in by_item and label is not None}
    if len(set(known.values())) < 2:
        raise DataError(
            f"labels: {len(known)} of {len(labels)} are of items of this run, with {len(set(known.values()))} kinds of "
            "label; expected both"
        )
    there = [by_item[item] for item in known]
    people = np.array(list(known.values()))
    decided = [
        (row["verdict"], label)
        for row, label in zip(there, people.tolist(), strict=True)
        if row["verdict"] != "undecided"
    ]
    adds = [row.get("adds", {}) if _hit(row) else {} for row in there]
    cues = sorted({cue for row in adds for cue in row})
    surface = [cue for cue in cues if cue in TEXTUAL]
    columns = {
        "W": np.array([row.get("weight") or 0.0 if _hit(row) else 0.0 for row in there]),
        "surface": _sums(adds, surface),
        "models": _sums(adds, [cue for cue in cues if cue not in surface]),
        "p_key": _column([row.get("p_key") for row in there]),
    }
    kinds = sorted({kind for row in there for kind in row.get("likeness", ())})
    unlike = {
        f"not_inferred_by_{kind}": 1 - _column([row["likeness"][kind] for row in there]) for kind in kinds
    }
    return {
        "n": len(there),
        "people": rate(people.astype(np.float64)).json(),
        "left_out": {
            "not_in_run": len(set(labels) - set(by_item)),
            "people_even": sum(label is None for label in labels.values()),
            "undecided": len(there) - len(decided),
        },
        "verdict": agreement(
            [LABELS[label] for _, label in decided], [LABELS[v == "shortcut"] for v, _ in decided], LABELS
        ).json(),
        "rankings": {
            **{name: _ranking(x, people) for name, x in (columns | unlike).items() if name == "W" or x.any()},
            **{cue: _ranking(_sums(adds, [cue]), people) for cue in cues},
        },
    }


def auroc(score: Floats, positive: Bools) -> tuple[float, Interval]:
    """The chance that one of the positives is above one of the others, (n,) each, ties half; with a 95 % interval.

    Newcombe (2006, method 5): score-like bounds with the variance of Hanley and McNeil (1982), no point at 0 or 1.
    """
    above, below = score[positive], np.sort(score[~positive])
    less, upto = np.searchsorted(below, above, "left"), np.searchsorted(below, above, "right")
    m, n = len(above), len(below)
    found = float((less + upto).sum()) / (2 * m * n)
    half = (m + n) / 2 - 1

    def beyond(theta: float) -> float:
        spread = (
            theta
            * (1 - theta)
            * (1 + half * (1 - theta) / (2 - theta) + half * theta / (1 + theta))
            / (m * n)
        )
        return abs(theta - found) - _Z * math.sqrt(max(spread, 0.0))

    def end(outside: float) -> float:
        if beyond(outside) <= 0:
            return outside
        # From just inside: at 0 and 1 nothing spreads, so that a perfect ranking would be its own root.
        return float(brentq(beyond, found + 1e-12 * (outside - found), outside, xtol=1e-15))

    return found, (end(0.0), end(1.0))


def _ranking(score: Floats, people: Bools) -> dict[str, Any]:
    there = ~np.isnan(score)
    if len(set(people[there].tolist())) < 2:
        return {"auroc": {"value": None, "n": int(there.sum()), "ci": None}}
    value, ci = auroc(score[there], people[there])
    return {"auroc": {"value": value, "n": int(there.sum()), "ci": list(ci)}}


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in values])


def _hit(row: Row) -> bool:
    # Of a pick that is not the key there is no such probability; a run without texts shows no key.
    return row.get("p_shortcut") is not None


def _sums(adds: Sequence[Mapping[str, float]], cues: Sequence[str]) -> Floats:
    return np.array([math.fsum(row.get(cue, 0.0) for cue in cues) for row in adds])
