"""Are shortcuts left in what was kept? No filter certifies itself.

Auditors answer the kept items without their questions. Selection alone moves what they get right, so each is compared
with what the selection leaves to chance; and for each it is measured which known cues it could have seen.
"""

from collections.abc import Sequence

import numpy as np

from robustify.answers import Answers
from robustify.judge.audit.auditor import AuditorRates
from robustify.judge.audit.auditors import left_out, non_voters, on_vectors, rules_of_thumb
from robustify.judge.audit.fresh import FreshProbe, kept_by
from robustify.judge.audit.recall import Followers, of_probe
from robustify.judge.audit.verdict import judged
from robustify.screen.consensus import ROBUST, outcome
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FDR, ScreenRules
from robustify.screen.votes import Votes
from robustify.summary import result as entries
from robustify.summary.reason import AuditorKind, Plain
from robustify.summary.result import Residual


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
