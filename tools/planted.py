"""The demo's own check: which planted shortcuts were removed, and which clean items with them.

The kinds of the planted items are in a file that the pipeline never reads; only this module does, after the run. The
planted cues and the probe's features have one author, so this measures the pipeline and not its recall on natural
shortcuts.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from robustify.config import parse, shipped
from robustify.errors import DataError
from robustify.judge.sensitivity import name
from robustify.run import Run, open_run
from robustify.screen.consensus import SHORTCUT, outcome
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import collect_votes
from robustify.stats.intervals import Rate, rate
from robustify.writers.public import rules

CLEAN = "clean"


def kinds(path: Path | None = None) -> dict[str, str]:
    """The recorded kind of every demo item, `clean` for those without a planted cue."""
    where = path or shipped() / "data" / "benign_demo_planted.jsonl"
    rows = [json.loads(line) for line in where.read_text(encoding="utf-8").split("\n") if line]
    return {row["id"]: row["kind"] for row in rows}


def found(run: Run, screen: ScreenRules, kind: Mapping[str, str]) -> dict[str, Rate]:
    """The share of items that this rule flags, for each kind and for all planted items together.

    Raises:
        DataError: an item of the run has no recorded kind.
    """
    answers = run.answers
    items = answers.items
    unknown = [item for item in items if item not in kind]
    if unknown:
        raise DataError(
            f"{run.folder}: {len(unknown)} items have no recorded kind; expected a run of the demo set"
        )
    flagged = (outcome(collect_votes(answers, screen, items), screen) == SHORTCUT).astype(float)
    of = np.array([kind[item] for item in items])
    planted = {"planted": rate(flagged[of != CLEAN])}
    return planted | {one: rate(flagged[of == one]) for one in sorted(set(of.tolist()))}


def compared(run: Run) -> list[str]:
    """The closing lines: recall of planted items and false flags on clean ones, for every rule of the run."""
    rules_of_run = rules(parse(run.manifest["config"], "run.json config"))
    kind = kinds()
    lines = ["planted items removed, and clean ones with them (share, n, 95 % interval):"]
    for screen in (rules_of_run.screen, *rules_of_run.alternatives):
        shares = found(run, screen, kind)
        lines.append(f"  {name(screen)}")
        lines += [f"    {label:22} {_worded(r)}" for label, r in _ordered(shares)]
    lines.append(
        "The cues and the probe's features have the same authors: this measures the pipeline, not recall in the wild."
    )
    return lines


def main(arguments: Sequence[str]) -> int:
    """`python -m tools.planted RUN`."""
    for folder in arguments:
        print("\n".join(compared(open_run(Path(folder)))))
    return 0


def _ordered(shares: Mapping[str, Rate]) -> Iterator[tuple[str, Rate]]:
    yield from ((label, shares[label]) for label in ("planted", CLEAN) if label in shares)
    yield from ((f"  {label}", r) for label, r in shares.items() if label not in ("planted", CLEAN))


def _worded(r: Rate) -> str:
    if r.value is None or r.ci is None:
        return "none"
    return f"{r.value:6.1%} (n = {r.n}, {r.ci[0]:.1%} to {r.ci[1]:.1%})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
