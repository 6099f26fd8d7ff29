"""The demo's own check: which planted shortcuts were removed, and which clean items with them.

The kinds of the planted items are in a file that the pipeline never reads; only this module does, after the run. The
planted cues and the probe's features have one author, so this measures the pipeline and not its recall on natural
shortcuts.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustify.config import parse, shipped
from robustify.errors import DataError, RobustifyError
from robustify.judge.sensitivity import name
from robustify.run import Run, open_run
from robustify.screen.consensus import SHORTCUT, outcome, screen_chance
from robustify.screen.decoy_filter import DecoyFilter
from robustify.screen.item_index import item_index
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import cast_votes
from robustify.stats.intervals import Rate, rate
from robustify.writers.public import rules

CLEAN = "clean"


def kinds(path: Path | None = None) -> dict[str, str]:
    """The recorded kind of every demo item, `clean` for those without a planted cue."""
    where = path or shipped() / "data" / "benign_demo_planted.jsonl"
    rows = [json.loads(line) for line in where.read_text(encoding="utf-8").split("\n") if line]
    return {row["id"]: row["kind"] for row in rows}


@dataclass(frozen=True)
class Removed:
    """What a rule removes: the share `of` each kind of item, and of what it removes the share that is clean, in truth
    and as the rule's decoys estimate it without knowing the kinds.
    """

    of: dict[str, Rate]
    false_share: Rate
    estimated: Rate


def removed(run: Run, screen: ScreenRules, kind: Mapping[str, str]) -> Removed:
    """What this rule removes of each kind and of all planted items together.

    Raises:
        DataError: an item of the run has no recorded kind, or the run has no texts.
    """
    items = run.items
    if items is None:
        raise DataError(f"{run.folder}: has no texts of items; expected a run of the demo set")
    unknown = [item.id for item in items if item.id not in kind]
    if unknown:
        raise DataError(
            f"{run.folder}: {len(unknown)} items have no recorded kind; expected a run of the demo set"
        )
    config = parse(run.manifest["config"], "run.json config")
    index = item_index(run.answers, [item.id for item in items])
    by_rank = DecoyFilter(run.answers, index, screen, items, config.probe, {})
    votes = by_rank.ranked(cast_votes(run.answers, screen, index))
    flagged = (outcome(votes, screen) == SHORTCUT).astype(float)
    of = np.array([kind[item.id] for item in items])
    shares = {"planted": rate(flagged[of != CLEAN])}
    shares |= {one: rate(flagged[of == one]) for one in sorted(set(of.tolist()))}
    clean = (of == CLEAN)[flagged > 0].astype(float)
    return Removed(shares, rate(clean), screen_chance(votes, screen).deciding.false_share)


def compared(run: Run) -> list[str]:
    """The closing lines: planted and clean items removed by every rule of the run, and its share of false removals."""
    rules_of_run = rules(parse(run.manifest["config"], "run.json config"))
    kind = kinds()
    lines = ["planted items removed, and clean ones with them (share, n, 95 % interval):"]
    for screen in (rules_of_run.screen, *rules_of_run.alternatives):
        done = removed(run, screen, kind)
        lines.append(f"  {name(screen)}")
        lines += [f"    {label:26} {_worded(r)}" for label, r in _ordered(done.of)]
        lines.append(f"    {'of the removed, clean':26} {_worded(done.false_share)}")
        lines.append(f"    {'  as estimated by decoys':26} {_worded(done.estimated)}")
    lines.append(
        "The cues and the probe's features have the same authors: this measures the pipeline, not recall in the wild."
    )
    return lines


def main(arguments: Sequence[str]) -> int:
    """`python -m tools.planted RUN`."""
    try:
        for folder in arguments:
            print("\n".join(compared(open_run(Path(folder)))))
    except RobustifyError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.exit_code
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
