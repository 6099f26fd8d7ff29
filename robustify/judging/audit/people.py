"""Agreement of the filter's verdicts, scores, and cues with human labels of shortcuts.

A solver may infer the question from the choices (Balepur et al. 2024), so an item that can be answered without its question
is not always flawed. Surface cues and models, which may know the subject, are therefore reported separately.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.errors import DataError, Notice
from robustify.base.files import text_lines
from robustify.judging.evidence import TEXTUAL
from robustify.judging.stats.intervals import Interval, Rate, agreement, design_effect, rate

LABELS = ("not", "shortcut")
_Z = 1.959963984540054
Row = Mapping[str, Any]


def labels_of_people(path: Path) -> dict[str, bool | None]:
    """Read people's labels, and return for each item ID whether most of its labels are `shortcut`. Tied labels give None.

    Each line is one person's label, `ITEM,shortcut` or `ITEM,not`, after a header `item,label` or none. Raise `UsageError`
    if the file does not exist, and `DataError`, naming the lines, if some are not labels.
    """
    votes: dict[str, Counter[bool]] = {}
    faults, lines = [], text_lines(path, "a file of labels with lines ITEM,shortcut or ITEM,not")
    for number, line in enumerate(lines, start=1):
        item, _, label = (part.strip().strip('"') for part in line.rpartition(","))
        if not line.strip() or (number == 1 and (item, label) == ("item", "label")):
            continue
        if item and label in LABELS:
            votes.setdefault(item, Counter())[label == "shortcut"] += 1
        else:
            faults.append(
                Notice(
                    f"{path}:{number}: not a label. Expected ITEM,shortcut or ITEM,not.", code="invalid-label"
                )
            )
    if faults:
        raise DataError.gather(faults)
    return {item: None if n[True] == n[False] else n[True] > n[False] for item, n in votes.items()}


def agreement_with_people(
    rows: Iterable[Row], labels: Mapping[str, bool | None], group_of: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the agreement of evidence.jsonl with human labels: kappa for the verdicts, and AUROC for the rankings.

    Items are ranked by `W`, by `p_key`, by each cue's contribution to the key's logit, by their sum over text (`surface`)
    and over models, and by the dissimilarity of inferred questions. Items that depend on each other have the same group
    (`group_of`, by item ID). Raise `DataError` if no label belongs to an item of
    the run, or all labels are equal.
    """
    by_item = {row["item"]: row for row in rows}
    usable = {item: label for item, label in labels.items() if item in by_item and label is not None}
    if len(set(usable.values())) < 2:
        raise DataError(
            f"labels: {len(usable)} of {len(labels)} labels are for items of this run, and they are not of both kinds. "
            "Label at least one item `shortcut` and one `not`.",
            code="labels-of-one-kind",
        )
    labelled = [by_item[item] for item in usable]
    is_shortcut = np.array(list(usable.values()))
    groups = None if group_of is None else np.array([group_of[item] for item in usable])
    verdicts = np.array([row["verdict"] for row in labelled])
    decided = verdicts != "undecided"
    people, filters = (
        [LABELS[is_one] for is_one in own[decided].tolist()] for own in (is_shortcut, verdicts == "flagged")
    )
    # Only a pick that is the key has a probability of a shortcut. A run without texts shows no key.
    hits = [row if row.get("p_shortcut") is not None else {} for row in labelled]
    cues = sorted({cue for row in hits for cue in row.get("adds", {})})
    adds = np.array([[row.get("adds", {}).get(cue, 0.0) for cue in cues] for row in hits])
    textual = np.array([cue in TEXTUAL for cue in cues], dtype=bool)
    columns = {
        "W": _column(row.get("p_pick") or 0.0 for row in hits),
        "surface": adds[:, textual].sum(axis=1),
        "models": adds[:, ~textual].sum(axis=1),
        "p_key": _column(row.get("p_key") for row in labelled),
    }
    for kind in sorted({kind for row in labelled for kind in row.get("likeness", ())}):
        columns[f"not_inferred_by_{kind}"] = 1 - _column(row["likeness"][kind] for row in labelled)
    return {
        "n": len(labelled),
        "people": rate(is_shortcut.astype(np.float64), groups).json(),
        "left_out": {
            "not_in_run": len(set(labels) - set(by_item)),
            "people_even": sum(label is None for label in labels.values()),
            "undecided": int(np.count_nonzero(~decided)),
        },
        "verdict": agreement(
            people, filters, LABELS, groups=None if groups is None else groups[decided]
        ).json(),
        "rankings": {
            **{
                name: _ranking(x, is_shortcut, groups)
                for name, x in columns.items()
                if name == "W" or x.any()
            },
            **{cue: _ranking(column, is_shortcut, groups) for cue, column in zip(cues, adds.T, strict=True)},
        },
    }


def auroc(score: Floats, positive: Bools, groups: Ints | None = None) -> tuple[float, Interval | None]:
    """Return the area under the ROC curve of a score, with a 95 % interval. Ties count half.

    Newcombe (2006, method 5): score-type bounds with the variance of Hanley and McNeil (1982), never of zero width. With
    `groups` (n,), the numbers of items are divided by the `design_effect`. Below 30 groups, there is no interval.
    """
    placement = np.empty(len(score))
    for kind in (positive, ~positive):
        others = np.sort(score[~kind])
        sides = (np.searchsorted(others, score[kind], side) for side in ("left", "right"))
        placement[kind] = sum(sides) / (2 * len(others))
    area = float(placement[positive].mean())
    effect = design_effect(_influence(placement, positive), groups)
    if effect is None:
        return area, None
    m, n = (np.count_nonzero(kind) / effect for kind in (positive, ~positive))
    half_n = (m + n) / 2 - 1

    def beyond(theta: float) -> float:
        unequal = half_n * (1 - theta) / (2 - theta) + half_n * theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + unequal) / (m * n)
        return abs(theta - area) - _Z * math.sqrt(max(variance, 0.0))

    def end(outside: float) -> float:
        if beyond(outside) <= 0:
            return outside
        # Start just inside, because the variance is 0 at 0 and 1 and a perfect ranking would be its own root.
        return float(brentq(beyond, area + 1e-12 * (outside - area), outside, xtol=1e-15))

    return area, (end(0.0), end(1.0))


def _influence(placement: Floats, positive: Bools) -> Floats:
    """Return each item's deviation from the area, over the number of its kind (n,). A `placement` is the share of items of
    the other kind with a smaller score (n,)."""
    own = np.where(positive, placement, -placement)
    for kind in (positive, ~positive):
        own[kind] = (own[kind] - own[kind].mean()) / np.count_nonzero(kind)
    return own


def _ranking(score: Floats, is_shortcut: Bools, groups: Ints | None) -> dict[str, Any]:
    scored = ~np.isnan(score)
    n = int(scored.sum())
    one_kind = len(set(is_shortcut[scored].tolist())) < 2
    value, ci = (
        (None, None)
        if one_kind
        else auroc(score[scored], is_shortcut[scored], None if groups is None else groups[scored])
    )
    return {"auroc": Rate(value, n, ci).json()}


def _column(values: Iterable[float | None]) -> Floats:
    return np.array(list(values), dtype=np.float64)
