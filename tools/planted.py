"""Compare the items that the demo removed with the planted items: `python -m tools.planted RUN`.

The pipeline never reads the file with the types of the planted items. Only this module reads it, after the run. The planted
cues and the features of the probe have the same authors, so the comparison measures the pipeline, not its recall on natural
shortcuts.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustify.base.errors import DataError, RobustifyError
from robustify.judging.stats.intervals import Rate, rate
from robustify.pipeline.config import shipped
from robustify.pipeline.steps import rejudge
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD

CLEAN = "clean"
RULES = {"the run's own rule": None, "unanimous": "unanimous"}


def kinds() -> dict[str, str]:
    """Return the recorded type of every demo item: `clean` for items without a planted cue."""
    rows = (shipped() / "data" / "benign_demo_planted.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row["kind"] for row in map(json.loads, rows)}


@dataclass(frozen=True)
class Removed:
    """The share that a rule removes `of` each type, and the share of clean items among the removed items."""

    of: Mapping[str, Rate]
    false_share: Rate


def removed(run: Run) -> Removed:
    """Return the shares that the rule of a run removed. Raise `DataError` if an item has no recorded type."""
    known, verdicts = kinds(), run.verdicts
    if unknown := set(verdicts) - set(known):
        raise DataError(f"{run.folder}: {len(unknown)} items have no recorded kind; expected the demo's")
    kind = np.array([known[item] for item in verdicts])
    flagged = np.array([verdict == "flagged" for verdict in verdicts.values()], dtype=float)
    masks = {"planted": kind != CLEAN} | {one: kind == one for one in sorted(set(kind.tolist()))}
    shares = {one: rate(flagged[mask]) for one, mask in masks.items()}
    return Removed(shares, rate((kind == CLEAN)[flagged > 0].astype(float)))


def by_rule(run: Run) -> Iterator[tuple[str, Removed]]:
    """Yield the removed shares of each rule in RULES, the rule of the run first."""
    for name, criterion in RULES.items():
        if criterion is None:
            yield name, removed(run)
            continue
        with tempfile.TemporaryDirectory() as folder:
            yield name, removed(rejudge(run, {"screen.criterion": criterion}, Path(folder) / "run"))


def lines(run: Run) -> Iterator[str]:
    """Yield the lines of the table: one per rule and type."""
    yield "planted items removed, and clean items with them (share, n, 95 % interval):"
    for name, found in by_rule(run):
        yield f"  {name}"
        first = [kind for kind in ("planted", CLEAN) if kind in found.of]
        for kind in (*first, *(kind for kind in found.of if kind not in first)):
            indent = "    " if kind in first else "      "
            yield f"{indent}{kind:26} {_words(found.of[kind])}"
        yield f"    {'clean, of the removed':26} {_words(found.false_share)}"


def _words(found: Rate) -> str:
    if found.value is None or found.ci is None:
        return "none"
    low, high = found.ci
    return f"{found.value:6.1%} (n = {found.n}, {low:.1%} to {high:.1%})"


def main(arguments: Sequence[str]) -> int:
    """Print the table of each given run."""
    try:
        for folder in arguments:
            print("\n".join(lines(open_run(Path(folder), GUARD))))
    except RobustifyError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
