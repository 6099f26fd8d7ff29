"""Finished runs compared: what each removed, what is left, and where two runs of one benchmark differ.

Folders are read and nothing is asked. Items are compared by id only where both runs have the same text of them, or were
made from the same file; of a restricted run nothing is compared item by item.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from robustify.report.format import count, counted, percent, plain, rate
from robustify.run import Run, open_run
from robustify.stats import intervals
from robustify.summary.quantity import Quantity
from robustify.summary.result import Residual
from robustify.summary.scored import Accuracy, AgainstChance, FreeRate, FreeScores, ViewScores
from robustify.summary.screened import Screen, Splits

Tree = dict[str, Any]
TABLE = "verdicts.csv"
VIEWS = {"full": "full", "choices_only": "choices only", "cloze_chars": "cloze", "free": "free"}
RULE = ("criterion", "mode", "flagged", "expected_flags", "excess_over_chance", "latent_shortcut_rate")


def compared(folders: Sequence[Path]) -> tuple[Tree, list[str]]:
    """The comparison as a tree for JSON and as lines for a terminal.

    The tree: `runs` (one each, in the order given) and `pairs` (one for every two of them, by their places from 0).

    Raises:
        UsageError: a folder that is no run.
        DataError: a file that is not as its run left it.
    """
    runs = [open_run(folder) for folder in folders]
    for run in runs:
        run.require_unchanged("summary.json", *([TABLE] if TABLE in run.manifest["files"] else []))
    pairs = [_pair(i, j, runs) for i, j in combinations(range(len(runs)), 2)]
    lines = [line for place, run in enumerate(runs, start=1) for line in _run_lines(place, run)]
    lines += [line for pair in pairs for line in _pair_lines(pair)]
    return {"runs": [_run(run) for run in runs], "pairs": pairs}, lines


def _run(run: Run) -> Tree:
    summary = run.summary
    screen, residual = summary.screen or Screen(), summary.residual or Residual()
    tree = screen.model_dump(mode="json", include=set(RULE))
    return {
        "run": str(run.folder),
        "signature": run.manifest["signature"],
        "n_items": run.manifest["data"].get("n_items"),
        "splits": summary.splits and summary.splits.model_dump(mode="json"),
        "screen": {name: tree[name] for name in RULE},
        "probe": residual.probe and residual.probe.model_dump(mode="json"),
        "certificate": summary.certificate and summary.certificate.verdict,
        "accuracy": {
            model: {view: measure.model_dump(mode="json") for view, measure in _views(entry)}
            | {"is_voter": entry.is_voter}
            for model, entry in (summary.accuracy or {}).items()
        },
    }


def _views(entry: Accuracy) -> Iterator[tuple[str, ViewScores | FreeScores]]:
    measures = (entry.full, entry.choices_only, entry.cloze_chars, entry.free)
    for view, measure in zip(VIEWS, measures, strict=True):
        if measure is not None:
            yield view, measure


def _pair(i: int, j: int, runs: Sequence[Run]) -> Tree:
    """How two runs judged the items that both have; `why_not` where items cannot be compared."""
    named, one, two = {"runs": [i, j]}, runs[i], runs[j]
    why_not = _incomparable(one, two)
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
        "jaccard": intervals.rate(either).json(),
        "moved": dict(sorted(moved.items())),
        "why_not": None,
    }


def _incomparable(one: Run, two: Run) -> str | None:
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


def _run_lines(place: int, run: Run) -> Iterator[str]:
    summary = run.summary
    screen, splits = summary.screen or Screen(), summary.splits or Splits()
    verdict = summary.certificate and summary.certificate.verdict
    yield f"[{place}] {plain(str(run.folder))}: {verdict or 'no verdict'}"
    yield f"    {plain(run.manifest['signature'], 500)}"
    rule = "/".join(word for word in (screen.criterion, screen.mode) if word) or "no screen"
    expected = None if screen.expected_flags is None else screen.expected_flags.value
    by_chance = "" if expected is None else f"; {counted(round(expected), 'item')} expected by chance alone"
    yield f"    removed by {rule}: {rate(screen.flagged)}{by_chance}"
    sizes = {"robust": splits.robust, "shortcut": splits.shortcut, "undecided": splits.undecided}
    shown = ", ".join(f"{name} {n}" for name, n in sizes.items() if n is not None)
    yield f"    splits: {shown or 'not shown'}"
    for model, entry in (summary.accuracy or {}).items():
        voter = " (voter)" if entry.is_voter else ""
        for view, measure in _views(entry):
            parts = f"{_part('all', measure.all)}, {_part('robust', measure.robust)}"
            yield f"    {plain(model)}{voter}, {VIEWS[view]}: {parts}"


def _part(name: str, q: AgainstChance | FreeRate | None) -> str:
    chance = q.chance if isinstance(q, AgainstChance) else None
    return f"{name} {rate(q)}" + ("" if chance is None else f", chance {percent(chance)}")


def _pair_lines(pair: Tree) -> Iterator[str]:
    first, second = (place + 1 for place in pair["runs"])
    yield ""
    if pair["why_not"] is not None:
        yield f"[{first}] and [{second}]: items are not compared ({pair['why_not']})"
        return
    one, two = pair["removed"]
    alone = sum(pair["n_only"])
    jaccard = Quantity.model_validate(pair["jaccard"])
    yield (
        f"[{first}] and [{second}]: of {pair['n_common']} items in both, {one} and {two} are removed; both remove "
        f"{rate(jaccard)} of what either removes"
        + (f"; {count(alone)} items are in one of them only" if alone else "")
    )
    yield from (f"  {n} {moved}" for moved, n in pair["moved"].items())
