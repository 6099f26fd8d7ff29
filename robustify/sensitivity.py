"""What would other rules have removed? The rule of the run first, then its alternatives.

A filter whose removed set changes with a template or a mode is a fact about the filter. Nothing here chooses
among the rules: the run's own was fixed before anybody looked.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from robustify.answers import Answers
from robustify.ballot import Ballot, Roll, ScreenRules, cast_votes
from robustify.consensus import SHORTCUT, measured, outcome
from robustify.residual import FreshProbe
from robustify.summary import excess, expected, flagged_rate

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def sensitivity(
    answers: Answers,
    held: Roll,
    rules: Sequence[ScreenRules],
    own: Ballot,
    probe: FreshProbe,
    groups: Ints | None = None,
) -> list[dict[str, object]]:
    """One row a rule, the run's own (`rules[0]`, with its ballot `own`) first; a rule whose voters were not
    asked has nulls. `groups` (n,): items that are resampled together.
    """
    removed = outcome(own, rules[0]) == SHORTCUT
    out = [{"name": "this run", **_row(own, rules[0], removed, probe, groups)}]
    for rule in rules[1:]:
        votes = cast_votes(answers, rule, held)
        out.append({"name": name(rule), **_row(votes, rule, removed, probe, groups)})
    return out


def jaccard(a: Bools, b: Bools) -> float | None:
    """Items in both over items in either, (n,) each; None where both are empty."""
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else None


def name(rule: ScreenRules) -> str:
    """A rule in a few words."""
    probe = "" if rule.probe_vote == "none" else f", probe {rule.probe_vote}"
    return f"{rule.criterion} {rule.mode}{probe}"


def _row(
    votes: Ballot, rule: ScreenRules, removed: Bools, probe: FreshProbe, groups: Ints | None
) -> dict[str, object]:
    luck = measured(votes, rule, groups)
    left = probe.audit(votes, rule)
    return {
        "criterion": rule.criterion,
        "mode": rule.mode,
        "template": votes.template,
        "probe_vote": rule.probe_vote,
        "flagged": flagged_rate(luck).json(),
        "expected": expected(luck),
        "excess": excess(luck),
        "residual_probe": None if left is None else left.json(),
        "jaccard": jaccard(removed, outcome(votes, rule) == SHORTCUT) if luck.n else None,
    }
