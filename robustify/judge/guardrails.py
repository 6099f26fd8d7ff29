"""What must be true before a split is handed on: pure checks of a summary, each with its limit and a reason.

A check repairs nothing. What cannot be judged because it was not asked, or because nothing was kept, passes and says so:
the certificate, not a guardrail, refuses what is unknown.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from robustify.stats.intervals import clopper_pearson
from robustify.stats.tests import significantly_positive
from robustify.summary import reason as r
from robustify.summary.result import Certificate, Guardrail, Residual, Summary, Verdict
from robustify.summary.screened import Topics


class Limits(BaseModel):
    """The limits of the guardrails. Shares and rates are from 0 to 1, the divergence is in nats.

    `min_items`: a run of fewer is a trial run, which is not judged. `max_one_place`: no voter's picks by letter may sit
    on one place, its lower bound above this and significantly above the share of keys there.
    `min_topic_n`: smaller topics warn only. `topic_loss`: the share of a topic that may be lost.
    `min_robust`: items that must be left. `max_unanswered`: share of the items left open by missing
    answers, or without an answer of some voter.
    `max_ties`: share of a voter's answers that are ties. `max_undecided`: share of the items without a
    verdict. `residual_margin`: how far above chance an outside auditor may be. `max_kl`, `kl_p`: a drift of the
    topics must exceed the first and be rarer than the second under random removal. `excess_p`: the level at
    which an excess over chance is significant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_items: int = Field(default=30, ge=1)
    max_one_place: float = Field(default=0.9, ge=0.5, lt=1)
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


def guardrails(summary: Summary, limits: Limits) -> tuple[Guardrail, ...]:
    """All checks of a summary, in a fixed order."""
    return (
        topic_collapse(summary, limits),
        topic_drift(summary, limits),
        enough_robust_items(summary, limits),
        unanswered_share(summary, limits),
        ties_share(summary, limits),
        voters_by_place(summary, limits),
        undecided_share(summary, limits),
        excess_above_chance(summary, limits),
        residual_shortcuts(summary, limits),
    )


def topic_collapse(summary: Summary, limits: Limits) -> Guardrail:
    """No topic of `min_topic_n` items or more may have lost more than `topic_loss`, its interval says so.

    The upper Clopper-Pearson bound decides: of 21 items, half are lost by chance more often than one thinks.
    """
    limit = 1 - limits.topic_loss
    if summary.topics is None or not _screened(summary):
        why: r.WhyNot = "no_topics" if _screened(summary) else "no_screen"
        return _not_judged("topic_collapse", limits.topic_loss, why, halts=True)
    if _nothing_kept(summary):
        return _not_judged("topic_collapse", limits.topic_loss, "nothing_kept", halts=True)
    counts = _counts(summary.topics)
    low = [c for c in counts if c.after / c.before < limit]
    lost = [
        c for c in low if c.before >= limits.min_topic_n and clopper_pearson(c.after, c.before)[1] < limit
    ]
    worst = min((c.after / c.before for c in counts), default=None)
    reason: r.TopicsLost | r.TopicsKept = r.TopicsKept(share=limit)
    if low:
        reason = r.TopicsLost(code="topics_lost" if lost else "topics_small", topics=tuple(lost or low))
    return _outcome("topic_collapse", not lost, worst, limit, reason, halts=True)


def topic_drift(summary: Summary, limits: Limits) -> Guardrail:
    """The mix of topics may not move further than `max_kl` nats unless random removal does so too."""
    topics = summary.topics or Topics()
    kl, null, p = topics.kl_nats, topics.kl_null, topics.p
    if kl is None or null is None or p is None:
        return _not_judged("topic_drift", limits.max_kl, "no_topics", halts=True)
    drifted = kl > limits.max_kl and p < limits.kl_p
    reason = r.TopicDrift(kl=kl, null=null, p=p)
    return _outcome("topic_drift", not drifted, kl, limits.max_kl, reason, halts=True)


def enough_robust_items(summary: Summary, limits: Limits) -> Guardrail:
    """The robust split must have `min_robust` items."""
    n = None if summary.splits is None else summary.splits.robust
    if n is None or not _screened(summary):
        return _not_judged("enough_robust_items", limits.min_robust, "no_screen", halts=True)
    reason = r.RobustItems(n=n, least=limits.min_robust)
    passed = n >= limits.min_robust
    return _outcome("enough_robust_items", passed, float(n), limits.min_robust, reason, halts=True)


def unanswered_share(summary: Summary, limits: Limits) -> Guardrail:
    """At most `max_unanswered` of the items may be left open by missing answers, or lack those of one voter.

    The worst decides. A dead voter leaves no item open where the others disagree, and everything is kept.
    """
    screen, asked = summary.screen, _screened(summary)
    if screen is None or not asked:
        return _not_judged("unanswered_share", limits.max_unanswered, "no_item_screened")
    counts = [(voter.unanswered or 0, name) for name, voter in (screen.voters or {}).items()]
    missing, voter = max(counts, key=lambda one: one[0], default=(0, ""))
    reason = r.Unanswered(open=screen.unanswered or 0, asked=asked, voter=voter, missing=missing)
    share = max(reason.open, missing) / asked
    return _outcome("unanswered_share", share <= limits.max_unanswered, share, limits.max_unanswered, reason)


def ties_share(summary: Summary, limits: Limits) -> Guardrail:
    """No voter may share its best score among choices in more than `max_ties` of its answers; the worst decides.

    Many ties mean coarse arithmetic: in public bfloat16 logs one answer in seven was a tie. A tie is no vote.
    """
    counted = []
    for name, voter in ((summary.screen.voters or {}) if summary.screen is not None else {}).items():
        n = None if voter.choices_only_accuracy is None else voter.choices_only_accuracy.n
        if voter.ties is not None and n:
            counted.append((voter.ties / n, r.Ties(voter=name, ties=voter.ties, n=n)))
    if not counted:
        return _not_judged("ties_share", limits.max_ties, "no_ties_counted")
    share, reason = max(counted, key=lambda one: one[0])
    return _outcome("ties_share", share <= limits.max_ties, share, limits.max_ties, reason)


def voters_by_place(summary: Summary, limits: Limits) -> Guardrail:
    """No voter's picks by letter may sit on one place, unless the screen is forced: such a voter sees no option.

    The lower bound of the share there must be above `max_one_place`, and that of its excess over the keys' share above
    0: a voter that is always right picks the place where all keys are.
    """
    screen, limit = summary.screen, limits.max_one_place
    favoured = {name: voter.favoured for name, voter in ((screen and screen.voters) or {}).items()}
    if screen is None or not _screened(summary) or screen.mode != "letter":
        return _not_judged("voters_by_place", limit, "no_letters", halts=True)
    found = []
    for name, at in favoured.items():
        picked, excess = (None, None) if at is None else (at.picked, at.excess)
        if at is None or picked is None or picked.ci is None or excess is None or excess.ci is None:
            continue
        if picked.ci[0] > limit and excess.ci[0] > 0:
            placed = r.OnePlace(voter=name, place=at.place or 0, picked=picked.value, n=picked.n, low=picked.ci[0],
                                keys=at.keys, forced=screen.force_letters is True)  # fmt: skip
            found.append(placed)
    worst = max((placed.low or 0.0 for placed in found), default=None)
    passed = screen.force_letters is True or not found
    reason = r.VotersByPlace(voters=tuple(found))
    return _outcome("voters_by_place", passed, worst, limit, reason, halts=True)


def undecided_share(summary: Summary, limits: Limits) -> Guardrail:
    """At most `max_undecided` of the items may be left without a verdict: they are in neither split."""
    undecided, n = (None, None) if summary.splits is None else (summary.splits.undecided, summary.splits.all)
    if not _screened(summary) or undecided is None or not n:
        return _not_judged("undecided_share", limits.max_undecided, "no_item_screened")
    share, limit = undecided / n, limits.max_undecided
    return _outcome("undecided_share", share <= limit, share, limit, r.Undecided(n=undecided, of=n))


def excess_above_chance(summary: Summary, limits: Limits) -> Guardrail:
    """What the screen flagged must be more than chance alone flags: p at most `excess_p`, interval above zero.

    Under `criterion: fdr` anything flagged is: without any shortcut, something is flagged with probability q at most.
    """
    screen = summary.screen
    if screen is not None and screen.cut is not None:
        hits, q = screen.cut.hits or 0, screen.cut.q or 0.0
        return _outcome("excess_above_chance", hits > 0, None, q, r.BoundedFalseFlags(hits=hits, q=q))
    # Chance that knows the key positions decides wherever a voter could see positions.
    excess = None if screen is None else (screen.by_place or screen).excess_over_chance
    if excess is None or excess.value is None or excess.p is None:
        return _not_judged("excess_above_chance", limits.excess_p, "no_screen")
    passed = significantly_positive(excess.p, excess.ci, limits.excess_p)
    reason = r.Excess(value=excess.value, p=excess.p, level=limits.excess_p)
    if not passed:
        doubt = "no_interval" if excess.ci is None else "not_significant"
        reason = reason.model_copy(update={"doubt": doubt})
    return _outcome("excess_above_chance", passed, excess.p, limits.excess_p, reason)


def residual_shortcuts(summary: Summary, limits: Limits) -> Guardrail:
    """No outside auditor may find shortcuts in what was kept; an inconclusive audit passes and is named."""
    audit, limit = summary.residual, limits.residual_margin
    if audit is None or audit.verdict is None:
        return _not_judged("residual_shortcuts", limit, "no_audit")
    if _nothing_kept(summary):
        return _not_judged("residual_shortcuts", limit, "nothing_kept")
    reason = r.AuditVerdict(verdict=audit.verdict, reasons=audit.reasons or ())
    return _outcome("residual_shortcuts", audit.verdict != "not certified", audit.verdict, limit, reason)


def trial_run(summary: Summary, limits: Limits, *, part: bool) -> r.TrialRun | None:
    """Why this run is not judged: too few items, or a `part` that a limit left; None where it is."""
    n = (summary.splits.all if summary.splits is not None else None) or 0
    few = n < limits.min_items
    return r.TrialRun(n=n, least=limits.min_items, part=part) if few or part else None


def certificate(
    audit: Residual | None,
    checks: Sequence[Guardrail],
    voters_under_test: Sequence[str],
    trial: r.TrialRun | None = None,
) -> Certificate:
    """The audit's verdict, which a failed guardrail can only lower; what decided comes first in the reasons.

    A trial run is not judged, nor is a screen whose voters pick one place unless it is forced; then these are named.
    """
    if audit is None or audit.verdict is None:
        return Certificate(verdict="inconclusive", reasons=(r.Plain(code="no_screen"),))
    placed = [v for c in checks if isinstance(c.reason, r.VotersByPlace) for v in c.reason.voters]
    under_test = [r.VoterUnderTest(name=name) for name in voters_under_test]
    if trial is not None or any(not voter.forced for voter in placed):
        first = [] if trial is None else [trial]
        return Certificate(verdict="not judged", reasons=(*first, *placed, *under_test))
    failed = [c for c in checks if not c.passed and c.name != "residual_shortcuts"]
    by_guardrails = [r.GuardrailFailed(name=c.name or "", reason=c.reason) for c in failed]
    halted = any(c.halts_export for c in failed)
    verdict: Verdict = audit.verdict
    reasons: list[r.CertificateReason] = [*(audit.reasons or ()), *by_guardrails]
    if verdict != "not certified" and (halted or (failed and verdict == "certified")):
        verdict = "not certified" if halted else "inconclusive"
        reasons = [*by_guardrails, *(audit.reasons or ())]
    return Certificate(verdict=verdict, reasons=(*reasons, *placed, *under_test))


def _outcome(
    name: str,
    passed: bool,
    value: float | str | None,
    limit: float,
    reason: r.GuardrailReason,
    *,
    halts: bool = False,
) -> Guardrail:
    return Guardrail(name=name, passed=passed, value=value, limit=limit, reason=reason, halts_export=halts)


def _not_judged(name: str, limit: float, why: r.WhyNot, *, halts: bool = False) -> Guardrail:
    return _outcome(name, True, None, limit, r.NotJudged(why=why), halts=halts)


def _counts(topics: Topics) -> list[r.TopicCount]:
    rows = (topics.by_topic or {}).items()
    return [
        r.TopicCount(name=name, before=row.before, after=row.after or 0) for name, row in rows if row.before
    ]


def _nothing_kept(summary: Summary) -> bool:
    return summary.splits is not None and summary.splits.robust == 0


def _screened(summary: Summary) -> int:
    return (0 if summary.screen is None else summary.screen.asked) or 0
