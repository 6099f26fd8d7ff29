"""What must hold before a split is handed on: pure checks of a summary, each with its limit and a reason.

A check says no; it repairs nothing. What cannot be judged because it was not asked, or because nothing was
kept, is said to be so and stops nobody: the certificate, not a guardrail, refuses to vouch for what is unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel, ConfigDict, Field

from robustify.judge.topics import TAKEN
from robustify.stats.intervals import clopper_pearson

Tree = Mapping[str, object]


class Limits(BaseModel):
    """Where the guardrails stand. Shares and rates are from 0 to 1, the divergence is in nats.

    `min_topic_n`: smaller topics warn only. `topic_loss`: the share of a topic that may be lost.
    `min_robust`: items that must be left. `max_unanswered`: share of the items left open by missing
    answers, or without an answer of some voter.
    `max_ties`: share of a voter's answers that are ties. `max_undecided`: share of the items without a
    verdict. `residual_margin`: how far above chance an outside auditor may stand. `max_kl`, `kl_p`: a drift of the
    topics must exceed the first and be rarer than the second under random removal. `excess_p`: the level at
    which an excess is told from luck.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_topic_n: int = Field(default=10, ge=1)
    topic_loss: float = Field(default=0.5, gt=0, lt=1)
    min_robust: int = Field(default=30, ge=1)
    max_unanswered: float = Field(default=0.02, ge=0, le=1)
    max_ties: float = Field(default=0.02, ge=0, le=1)
    max_undecided: float = Field(default=0.02, ge=0, le=1)
    residual_margin: float = Field(default=0.05, gt=0, lt=1)
    max_kl: float = Field(default=0.02, ge=0)
    kl_p: float = Field(default=0.01, gt=0, lt=1)
    excess_p: float = Field(default=0.05, gt=0, lt=1)


@dataclass(frozen=True, slots=True)
class Check:
    """One guardrail's finding. `halts_export`: nothing is exported while this one says no."""

    name: str
    passed: bool
    value: float | str | None
    limit: float | str | None
    reason: str
    halts_export: bool = False

    def json(self) -> dict[str, object]:
        """The check as it stands in summary.json."""
        return {
            "name": self.name,
            "passed": self.passed,
            "value": self.value,
            "limit": self.limit,
            "reason": self.reason,
            "halts_export": self.halts_export,
        }


def guardrails(summary: Tree, limits: Limits) -> list[Check]:
    """All checks of a summary (the tree of summary.json), in a fixed order."""
    return [
        topic_collapse(summary, limits),
        topic_drift(summary, limits),
        enough_robust_items(summary, limits),
        unanswered_share(summary, limits),
        ties_share(summary, limits),
        undecided_share(summary, limits),
        excess_above_chance(summary, limits),
        residual_shortcuts(summary, limits),
    ]


def topic_collapse(summary: Tree, limits: Limits) -> Check:
    """No topic of `min_topic_n` items or more may have lost more than `topic_loss`, its interval says so.

    The upper Clopper-Pearson bound decides: of 21 items, half are lost by chance more often than one thinks.
    """
    topics = _tree(summary, "topics")
    if topics is None or _screened(summary) == 0:
        return _unjudged("topic_collapse", limits.topic_loss, "no screen was asked", halts=True)
    if _nothing_kept(summary):
        return _unjudged("topic_collapse", limits.topic_loss, "nothing was kept", halts=True)
    floor = 1 - limits.topic_loss
    low = [(name, b, a) for name, b, a in _counts(topics) if a / b < floor]
    fallen = [
        (name, b, a) for name, b, a in low if b >= limits.min_topic_n and clopper_pearson(a, b)[1] < floor
    ]
    said = [f"{name} kept {a} of {b}" for name, b, a in fallen or low]
    worst = min((a / b for _, b, a in _counts(topics)), default=None)
    if fallen:
        reason = "; ".join(said)
    elif low:
        reason = f"too few items to judge by: {'; '.join(said)}"
    else:
        reason = f"every topic kept at least {floor:.0%} of its items"
    return Check("topic_collapse", not fallen, worst, floor, reason, halts_export=True)


def topic_drift(summary: Tree, limits: Limits) -> Check:
    """The mix of topics may not move further than `max_kl` nats unless random removal does so too."""
    topics = _tree(summary, "topics") or {}
    kl, null, p = (_number(topics, name) for name in TAKEN)
    if kl is None or null is None or p is None:
        return _unjudged("topic_drift", limits.max_kl, "no topics before and after", halts=True)
    drifted = kl > limits.max_kl and p < limits.kl_p
    reason = f"KL {kl:.4f} nats, {null:.4f} expected of random removal (p = {p:.3g})"
    return Check("topic_drift", not drifted, kl, limits.max_kl, reason, halts_export=True)


def enough_robust_items(summary: Tree, limits: Limits) -> Check:
    """The robust split must hold `min_robust` items."""
    n = _number(_tree(summary, "splits") or {}, "robust")
    if n is None or _screened(summary) == 0:
        return _unjudged("enough_robust_items", limits.min_robust, "no screen was asked", halts=True)
    enough = n >= limits.min_robust
    reason = f"{n:.0f} robust items; expected at least {limits.min_robust}"
    return Check("enough_robust_items", enough, n, limits.min_robust, reason, halts_export=True)


def unanswered_share(summary: Tree, limits: Limits) -> Check:
    """At most `max_unanswered` of the items may be left open by missing answers, or lack those of one voter.

    The worst decides. A dead voter leaves no item open where the others disagree, and everything is kept.
    """
    asked = _screened(summary)
    if asked == 0:
        return _unjudged("unanswered_share", limits.max_unanswered, "no item was screened")
    screen = _tree(summary, "screen") or {}
    hanging = _number(screen, "unanswered") or 0.0
    silent = [
        (_number(row, "unanswered") or 0.0, name)
        for name, row in (_tree(screen, "voters") or {}).items()
        if isinstance(row, Mapping)
    ]
    missing, worst = max(silent, key=lambda s: s[0], default=(0.0, ""))
    reason = f"{hanging:.0f} of {asked:.0f} items left open by missing answers"
    if missing:
        reason += f"; {worst} has no readable answer to {missing:.0f}"
    share = max(hanging, missing) / asked
    return Check("unanswered_share", share <= limits.max_unanswered, share, limits.max_unanswered, reason)


def ties_share(summary: Tree, limits: Limits) -> Check:
    """No voter may share its best score among choices in more than `max_ties` of its answers; the worst decides.

    Many ties mean coarse arithmetic: in public bfloat16 logs one answer in seven was a tie. A tie is no vote.
    """
    voters = _tree(_tree(summary, "screen") or {}, "voters") or {}
    counted = [(_tied(row), name) for name, row in voters.items() if isinstance(row, Mapping)]
    found = [(ties / n, name, ties, n) for (ties, n), name in counted if ties is not None and n]
    if not found:
        return _unjudged("ties_share", limits.max_ties, "no voter's ties were counted")
    share, name, ties, n = max(found, key=lambda f: f[0])
    reason = f"{name}: {ties:.0f} of {n:.0f} answers are ties" if ties else "no voter's answer is a tie"
    return Check("ties_share", share <= limits.max_ties, share, limits.max_ties, reason)


def undecided_share(summary: Tree, limits: Limits) -> Check:
    """At most `max_undecided` of the items may be left without a verdict: they are in neither split."""
    splits = _tree(summary, "splits") or {}
    undecided, n = _number(splits, "undecided"), _number(splits, "all")
    if _screened(summary) == 0 or undecided is None or not n:
        return _unjudged("undecided_share", limits.max_undecided, "no item was screened")
    share = undecided / n
    reason = f"{undecided:.0f} of {n:.0f} items undecided"
    return Check("undecided_share", share <= limits.max_undecided, share, limits.max_undecided, reason)


def excess_above_chance(summary: Tree, limits: Limits) -> Check:
    """What the screen flagged must be more than luck alone flags: p at most `excess_p`, interval above zero."""
    screen = _tree(summary, "screen") or {}
    # Luck that knows where the keys stand decides wherever a voter could see places.
    deciding = _tree(screen, "by_place") or screen
    excess = _tree(deciding, "excess_over_chance") or {}
    value, p = _number(excess, "value"), _number(excess, "p")
    if value is None or p is None:
        return _unjudged("excess_above_chance", limits.excess_p, "no screen was asked")
    low = _lower(excess)
    passed = p <= limits.excess_p and low is not None and low > 0
    found = f"{value:.1%} of the items above what luck flags (p = {p:.3g}, at most {limits.excess_p:g})"
    doubt = "no interval, too few items or groups of them" if low is None else "cannot be told from luck"
    return Check("excess_above_chance", passed, p, limits.excess_p, found if passed else f"{doubt}: {found}")


def residual_shortcuts(summary: Tree, limits: Limits) -> Check:
    """No outside auditor may find shortcuts in what was kept; an inconclusive audit is said, not failed."""
    residual = _tree(summary, "residual") or {}
    verdict, reasons = residual.get("verdict"), residual.get("reasons")
    if not isinstance(verdict, str):
        return _unjudged("residual_shortcuts", limits.residual_margin, "no audit of the robust split")
    if _nothing_kept(summary):
        return _unjudged("residual_shortcuts", limits.residual_margin, "nothing was kept")
    said = "; ".join(map(str, reasons)) if isinstance(reasons, list | tuple) and reasons else verdict
    passed = verdict != "not certified"
    reason = f"the audit is {verdict}: {said}" if said != verdict else f"the audit is {verdict}"
    return Check("residual_shortcuts", passed, verdict, limits.residual_margin, reason)


def _unjudged(name: str, limit: float, why: str, *, halts: bool = False) -> Check:
    return Check(name, True, None, limit, f"not judged: {why}", halts)


def _counts(topics: Tree) -> Iterator[tuple[str, int, int]]:
    for name, row in topics.items():
        if isinstance(row, Mapping) and row.get("before"):
            yield name, int(row["before"]), int(row["after"])


def _tied(voter: Tree) -> tuple[float | None, float | None]:
    return _number(voter, "ties"), _number(_tree(voter, "choices_only_accuracy") or {}, "n")


def _nothing_kept(summary: Tree) -> bool:
    return _number(_tree(summary, "splits") or {}, "robust") == 0


def _screened(summary: Tree) -> float:
    return _number(_tree(summary, "screen") or {}, "asked") or 0.0


def _tree(parent: Tree, name: str) -> Tree | None:
    child = parent.get(name)
    return cast(Tree, child) if isinstance(child, Mapping) else None


def _number(parent: Tree, name: str) -> float | None:
    value = parent.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _lower(excess: Tree) -> float | None:
    interval = excess.get("ci")
    return float(interval[0]) if isinstance(interval, list | tuple) and len(interval) == 2 else None
