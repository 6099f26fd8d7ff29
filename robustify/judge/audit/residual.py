"""Are shortcuts left in what was kept? No filter certifies itself.

Auditors answer the kept items without their questions. Selection alone moves what they get right, so each is compared
with what the selection leaves to chance; and for each it is measured which known cues it could have seen. They come to
a verdict: certified, not certified or inconclusive, and why.
"""

from collections.abc import Sequence

import numpy as np

from robustify.answers import Answers
from robustify.judge.audit.auditor import AuditorRates
from robustify.judge.audit.auditors import left_out, non_voters, on_vectors, rules_of_thumb
from robustify.judge.audit.fresh import FreshProbe, kept_by
from robustify.judge.audit.recall import Followers, of_probe
from robustify.judge.audit.spiked_cues import CUES, Cue
from robustify.screen.consensus import ROBUST, outcome
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FDR, ScreenRules
from robustify.screen.votes import Votes
from robustify.stats.tests import LEVEL
from robustify.summary import result as entries
from robustify.summary.reason import (
    AboveChance,
    AuditorKind,
    AuditReason,
    BelowMargin,
    CouldNotSee,
    NotBelowMargin,
    Plain,
    UnseenKinds,
)
from robustify.summary.result import Residual, Verdict


def residual(
    answers: Answers,
    index: ItemIndex,
    votes: Votes,
    rules: ScreenRules,
    probe: FreshProbe,
    margin: float,
) -> Residual:
    """The audit of the items that `rules` keep; `margin`: what may be left above chance.

    The verdict is that of `judged`. The audit's `chance` is mean(1/k) of the items kept. Fitted probes and rules on
    surface features are independent where no fitted scorer decided what was kept.
    """
    ranked = rules.criterion == FDR
    fitted = ranked or rules.probe_vote != "none"
    kept = kept_by(votes, rules)
    known = tuple(probe.place) == index.items
    followers = Followers(probe.items, index.key) if known else None
    auditors = [
        *left_out(index, votes, rules, followers),
        *non_voters(answers, index, votes, rules, kept, followers),
        *on_vectors(answers, index, kept, probe, followers, independent=not ranked),
        *rules_of_thumb(answers, index, kept, probe, independent=not fitted),
    ]
    fresh = probe.of(kept)
    if fresh is not None:
        before = probe.of_all(index)
        auditors.append(
            AuditorRates("probe", "probe", fresh, not fitted, before=before, sees_from=of_probe(probe, kept))
        )
    robust = (outcome(votes, rules) == ROBUST) & (index.k > 0)
    chance = float(np.mean(1 / index.k[robust])) if robust.any() else None
    verdict, reasons = judged(auditors, chance, margin)
    if fitted:
        reasons = [*reasons, Plain(code="probe_voted")]
    return Residual(
        leave_one_out=_of_kind("leave_one_out", auditors),
        non_voters=_of_kind("non_voter", auditors),
        heads={a.name: a.head_entry() for a in auditors if a.kind == "head"},
        heuristics=_of_kind("heuristic", auditors) or None,
        probe=next(iter(_of_kind("probe", auditors).values()), None),
        probe_voted=fitted,
        chance=chance,
        margin=margin,
        verdict=verdict,
        reasons=tuple(reasons),
    )


def _of_kind(kind: AuditorKind, auditors: Sequence[AuditorRates]) -> dict[str, entries.Auditor]:
    return {a.name: a.entry() for a in auditors if a.kind == kind}


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
