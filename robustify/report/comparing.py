"""Finished runs beside one another: what each removed and found, and where two runs of one benchmark part.

It reads folders and asks nobody. Items are compared by id only where both runs hold the same text of them, or were made
from the same file; of a restricted run nothing is compared item by item.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from robustify.run import Run, open_run
from robustify.stats.intervals import rate

Tree = dict[str, Any]
TABLE = "verdicts.csv"
SHOWN = ("full", "choices_only", "cloze_chars", "free")


def compared(folders: Sequence[Path]) -> Tree:
    """`runs` (one tree each, in the order given) and `pairs` (one for every two of them, by their places from 0).

    Raises:
        UsageError: a folder that is no run.
        DataError: a file that is not as its run left it.
    """
    runs = [open_run(folder) for folder in folders]
    for run in runs:
        run.require_unchanged("summary.json", *([TABLE] if TABLE in run.manifest["files"] else []))
    return {
        "runs": [_told(run) for run in runs],
        "pairs": [_pair(i, j, runs) for i, j in combinations(range(len(runs)), 2)],
    }


def _told(run: Run) -> Tree:
    summary = run.summary
    screen, residual = summary.get("screen") or {}, summary.get("residual") or {}
    certificate = summary.get("certificate") or {}
    names = (
        "criterion",
        "mode",
        "flagged",
        "expected_false_flags",
        "excess_over_chance",
        "latent_shortcut_rate",
    )
    return {
        "run": str(run.folder),
        "signature": run.manifest["signature"],
        "n_items": run.manifest["data"].get("n_items"),
        "splits": summary.get("splits"),
        "screen": {name: screen.get(name) for name in names},
        "probe": residual.get("probe"),
        "certificate": certificate.get("verdict"),
        "accuracy": {
            model: {view: told[view] for view in SHOWN if told.get(view)} | {"is_voter": told.get("is_voter")}
            for model, told in (summary.get("accuracy") or {}).items()
        },
    }


def _pair(i: int, j: int, runs: Sequence[Run]) -> Tree:
    """How two runs judged the items that both hold; `why_not` where items cannot be compared."""
    named, one, two = {"runs": [i, j]}, runs[i], runs[j]
    why_not = _apart(one, two)
    if why_not is not None:
        return {**named, "why_not": why_not}
    first, second = one.verdicts, two.verdicts
    common = _same_items(one, two, first, second)
    if not common:
        return {**named, "why_not": "no item is in both"}
    removed = [(first[item] == "shortcut", second[item] == "shortcut") for item in common]
    either = np.array([a and b for a, b in removed if a or b], dtype=np.float64)
    moved = Counter(f"{first[item]} -> {second[item]}" for item in common if first[item] != second[item])
    return {
        **named,
        "n_common": len(common),
        "n_only": [len(first) - len(common), len(second) - len(common)],
        "removed": [sum(a for a, _ in removed), sum(b for _, b in removed)],
        "jaccard": rate(either).json(),
        "moved": dict(sorted(moved.items())),
        "why_not": None,
    }


def _apart(one: Run, two: Run) -> str | None:
    if any(run.manifest.get("sensitivity") == "restricted" for run in (one, two)):
        return "a restricted run holds no verdict of any item"
    if any(TABLE not in run.manifest["files"] for run in (one, two)):
        return "a run without verdicts.csv"
    return None


def _same_items(one: Run, two: Run, first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    both = [item for item in first if item in second]
    if one.manifest["data"].get("sha256") == two.manifest["data"].get("sha256"):
        return both
    texts = [{i.id: (i.stem, i.choices, i.key) for i in run.items or ()} for run in (one, two)]
    return [i for i in both if i in texts[0] and texts[0][i] == texts[1].get(i)]
