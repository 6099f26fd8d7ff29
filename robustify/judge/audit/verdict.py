"""What the auditors come to: certified, not certified or inconclusive, and why."""

from collections.abc import Sequence

from robustify.judge.audit.auditor import AuditorRates
from robustify.judge.audit.spiked_cues import CUES, Cue
from robustify.stats.tests import LEVEL
from robustify.summary.reason import (
    AboveChance,
    AuditReason,
    BelowMargin,
    CouldNotSee,
    NotBelowMargin,
    Plain,
    UnseenKinds,
)
from robustify.summary.result import Verdict

WITHIN = 2.0
"""A kind counts as one that an auditor could have seen if it does so from this many margins on, a share of the items."""


def judged(
    auditors: Sequence[AuditorRates], chance: float | None, margin: float
) -> tuple[Verdict, list[AuditReason]]:
    """The verdict and its reasons; auditors without an answer do not count.

    `certified` when every auditor's upper bound is below its chance plus `margin`, no rule without a model is above
    chance, and an independent auditor could have seen a cue of some known kind. Bounds are at 95 %, as all of them
    must hold; alarms share 5 % among the auditors (Bonferroni), as any may raise one. What stays within the margin
    is certified even where it is above chance. A certificate names the kinds that no independent auditor could have
    seen.
    """
    answered = [a for a in auditors if a.audit.rate.n]
    if chance is None or not answered:
        return "inconclusive", [Plain(code="no_item_kept" if chance is None else "no_auditor")]
    level = LEVEL / len(answered)
    open_ = [a for a in answered if _open(a, chance, margin)]
    outside = [a for a in answered if a.independent]
    free = [a for a in outside if a.audit.could_see(margin)]
    vouching = [a for a in free if a.kind != "heuristic" and seen([a], margin)]
    if vouching and not open_:
        eyes = seen([*free, *(a for a in outside if a.kind == "heuristic")], margin)
        unseen = [cue for cue in CUES if cue not in eyes]
        below = BelowMargin(auditors=len(answered), margin=margin)
        return "certified", [below, UnseenKinds(kinds=tuple(unseen), share=WITHIN * margin)]
    alarms = [a for a in answered if a.audit.alarm(chance, level)]
    if alarms:
        most_first = sorted(
            alarms, key=lambda a: a.audit.bounds(1 - level)[0] - a.audit.limit(chance), reverse=True
        )
        return "not certified", [_above_chance(a, chance, level) for a in most_first]
    reasons: list[AuditReason] = [_not_below_margin(a, chance, margin) for a in open_]
    if not any(a.kind != "heuristic" for a in outside):
        return "inconclusive", [Plain(code="no_independent_auditor"), *reasons]
    if not vouching:
        could_not = [a for a in outside if a.kind != "heuristic" and a not in (*open_, *free)]
        reasons += [CouldNotSee(**a.reason(), free=a.audit.free) for a in could_not]
        tried = any(a.sees_from for a in outside)
        reasons.append(Plain(code="no_kind_seen" if tried else "no_kind_tried"))
    return "inconclusive", reasons


def seen(auditors: Sequence[AuditorRates], margin: float) -> set[Cue]:
    """The kinds of cue that any of these would have seen on at most twice the margin of the items kept."""
    found = [(cue, share) for a in auditors for cue, share in a.sees_from.items()]
    return {cue for cue, share in found if share is not None and share <= WITHIN * margin + 1e-9}


def _open(a: AuditorRates, chance: float, margin: float) -> bool:
    """Whether it stands against a certificate: the best of many rules by its corrected p, others by their bound."""
    if a.kind == "heuristic":
        return a.audit.p is not None and a.audit.p <= LEVEL
    return a.audit.bounds()[1] >= a.audit.limit(chance) + margin


def _above_chance(a: AuditorRates, chance: float, level: float) -> AboveChance:
    even = chance if a.audit.even is None else a.audit.even
    low, limit = a.audit.bounds(1 - level)[0], a.audit.limit(chance)
    audit = a.audit
    return AboveChance(
        **a.reason(), low=low, limit=limit, even=even, expected=audit.chance, p=audit.p, refits=audit.refits
    )


def _not_below_margin(a: AuditorRates, chance: float, margin: float) -> NotBelowMargin:
    limit = a.audit.limit(chance) + (0 if a.kind == "heuristic" else margin)
    return NotBelowMargin(**a.reason(), high=a.audit.bounds()[1], limit=limit, p=a.audit.p)
