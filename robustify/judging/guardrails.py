"""Guardrails: checks of a summary before its split is published, each with a limit and a reason.

A check that is not evaluated says why, and does not lower the state of the run.
"""

from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.stats.intervals import clopper_pearson
from robustify.judging.stats.tests import significantly_positive
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import AUDIT, Guardrail, Residual, State, Summary


class Limits(BaseModel):
    """Limits of the guardrails. Shares are from 0 to 1, and divergences are in nats.

    A run with fewer than `min_items` items is a trial. `max_one_place` limits the share of a voter's letters at one
    position. `residual_margin` is how far above chance an independent auditor may be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_items: int = Field(default=30, ge=1)
    max_one_place: float = Field(default=0.9, ge=0.5, lt=1)
    min_topic_n: int = Field(default=10, ge=1)
    topic_loss: float = Field(default=0.5, gt=0, lt=1)
    min_kept: int = Field(default=30, ge=1)
    max_unanswered: float = Field(default=0.02, ge=0, le=1)
    max_ties: float = Field(default=0.02, ge=0, le=1)
    max_undecided: float = Field(default=0.02, ge=0, le=1)
    residual_margin: float = Field(default=0.05, gt=0, lt=1)
    max_kl: float = Field(default=0.02, ge=0)
    kl_p: float = Field(default=0.01, gt=0, lt=1)
    excess_p: float = Field(default=0.05, gt=0, lt=1)


_Result = tuple[bool | None, float | str | None, float, Reason] | str
"""Whether the check passed or None, its value, its limit and its reason, or the code of why it is not evaluated."""


def guardrails(summary: Summary, limits: Limits) -> tuple[Guardrail, ...]:
    """Return the results of all guardrails in a fixed order."""
    out = []
    for name, (check, limit, halts) in GUARDRAILS.items():
        found = check(summary, limits)
        if isinstance(found, str):
            found = None, None, getattr(limits, limit), Reason.of("not_judged", why=found)
        passed, value, at, reason = found
        state: State = "not evaluated" if passed is None else "passed" if passed else "failed"
        out.append(
            Guardrail(name=name, state=state, value=value, limit=at, reason=reason, halts_export=halts)
        )
    return tuple(out)


def topic_collapse(summary: Summary, limits: Limits) -> _Result:
    """Check that no topic of at least `min_topic_n` items lost significantly more than `topic_loss` of its items.

    The upper Clopper-Pearson bound decides, because small topics often lose half of their items by chance. Clustered items
    count by their effective number. Not evaluated with one topic, and if the topics that lost more have too few items.
    """
    limit = 1 - limits.topic_loss
    if summary.topics is None:
        return "no_topics" if _screened(summary) else "no_screen"
    if not summary.splits.kept:
        return "nothing_kept"
    rows = {name: row for name, row in summary.topics.by_topic.items() if row.before}
    if len(rows) < 2:
        return "one_topic"
    low = {name: row for name, row in rows.items() if row.after / row.before < limit}
    lost = {
        name: row
        for name, row in low.items()
        if row.before >= limits.min_topic_n
        and clopper_pearson(row.after / row.before * (n := row.units or row.before), n)[1] < limit
    }
    worst = min((row.after / row.before for row in rows.values()), default=None)
    if not low:
        return True, worst, limit, Reason.of("topics_kept", share=limit)
    named = tuple(
        Reason.of("topic_count", name=name, before=row.before, after=row.after)
        for name, row in (lost or low).items()
    )
    reason = Reason.of("topics_lost" if lost else "topics_small", topics=named)
    return False if lost else None, worst, limit, reason


def topic_drift(summary: Summary, limits: Limits) -> _Result:
    """Check that the topic mix shifted by at most `max_kl` nats, unless random removal often shifts it as far."""
    topics = summary.topics
    if topics is None or topics.kl_nats is None or topics.p is None:
        return "no_topics"
    if sum(row.before > 0 for row in topics.by_topic.values()) < 2:
        return "one_topic"
    drifted = topics.kl_nats > limits.max_kl and topics.p < limits.kl_p
    reason = Reason.of("topic_drift", kl=topics.kl_nats, null=topics.kl_null, p=topics.p)
    return not drifted, topics.kl_nats, limits.max_kl, reason


def enough_kept_items(summary: Summary, limits: Limits) -> _Result:
    """Check that the kept split has at least `min_kept` items."""
    n, least = summary.splits.kept, limits.min_kept
    if not _screened(summary):
        return "no_screen"
    return n >= least, float(n), least, Reason.of("kept_items", n=n, least=least)


def unanswered_share(summary: Summary, limits: Limits) -> _Result:
    """Check that missing answers affect at most `max_unanswered` of the items.

    The larger of two shares decides: items left undecided by missing answers, and items that one voter did not answer.
    """
    screen, limit = summary.screen, limits.max_unanswered
    if screen is None or not screen.asked:
        return "no_item_screened"
    counts = [(voter.unanswered, name) for name, voter in screen.voters.items()]
    missing, voter = max(counts, key=lambda one: one[0], default=(0, ""))
    open_, asked = screen.unanswered, screen.asked
    share = max(open_, missing) / asked
    reason = Reason.of("unanswered", open=open_, asked=asked, voter=voter, missing=missing)
    return share <= limit, share, limit, reason


def ties_share(summary: Summary, limits: Limits) -> _Result:
    """Check that no voter has tied best choices in more than `max_ties` of its answers, as with coarse arithmetic."""
    counted = [
        (voter.ties / n, Reason.of("ties", voter=name, ties=voter.ties, n=n))
        for name, voter in ({} if summary.screen is None else summary.screen.voters).items()
        if (n := voter.answered)
    ]
    if not counted:
        return "no_ties_counted"
    share, reason = max(counted, key=lambda one: one[0])
    return share <= limits.max_ties, share, limits.max_ties, reason


def voters_by_position(summary: Summary, limits: Limits) -> _Result:
    """Check that no voter always picks the same position, unless letters are forced.

    A voter fails if the lower bound of its share at a position is above `max_one_place`, and that of its excess over the
    keys' share above 0, because a voter that is always right must not fail.
    """
    screen, limit = summary.screen, limits.max_one_place
    if screen is None or not screen.asked or screen.mode != "letter":
        return "no_letters"
    forced, found = screen.force_letters, []
    for name, voter in screen.voters.items():
        if (at := voter.favoured) is None:
            continue
        picked, excess = at.picked.ci, at.excess.ci
        if picked and excess and picked[0] > limit and excess[0] > 0:
            share = {"picked": at.picked.value, "n": at.picked.n, "low": picked[0], "keys": at.keys}
            reason = Reason.of("one_position", voter=name, position=at.position, **share, forced=forced)
            found.append((picked[0], reason))
    worst = max((low for low, _ in found), default=None)
    voters = Reason.of("voters_by_position", voters=tuple(one for _, one in found))
    return forced or not found, worst, limit, voters


def undecided_share(summary: Summary, limits: Limits) -> _Result:
    """Check that at most `max_undecided` of the items are undecided. It also fails if nobody voted and the items with known
    text are too few to rank, and is not evaluated if items depend on each other."""
    undecided, n, limit = summary.splits.undecided, summary.splits.all, limits.max_undecided
    if summary.screen is None and summary.splits.cloze is not None and n < FEWEST_ITEMS:
        return False, 1.0, limit, Reason.of("too_few", n=n, least=FEWEST_ITEMS)
    if (groups := _dependent(summary)) is not None:
        return None, None, limit, Reason.of("dependent", groups=groups, n=summary.benchmark.parallel_items)
    if not _screened(summary) or not n:
        return "no_item_screened"
    return undecided / n <= limit, undecided / n, limit, Reason.of("undecided", n=undecided, of=n)


def excess_above_chance(summary: Summary, limits: Limits) -> _Result:
    """Check that the flagged items are significantly more than expected by chance. Not evaluated if none is flagged.

    The p-value must be at most `excess_p`, and the interval above zero. Under `criterion: fdr`, any flag passes, because
    without shortcuts something is flagged with probability at most q.
    """
    screen = summary.screen
    if screen is not None and screen.asked and not summary.splits.flagged:
        return "nothing_flagged"
    if screen is not None and screen.cut is not None:
        q = screen.cut.q
        return True, None, q, Reason.of("bounded_false_flags", hits=summary.splits.flagged, q=q)
    # If a voter could see positions, the null that knows the key positions decides.
    excess = None if screen is None else (screen.by_position or screen).excess_over_chance
    if excess is None or excess.value is None or excess.p is None:
        return "no_screen"
    passed = None if excess.ci is None else significantly_positive(excess.p, excess.ci, limits.excess_p)
    doubt = "no_interval" if passed is None else None if passed else "not_significant"
    reason = Reason.of("excess", value=excess.value, p=excess.p, level=limits.excess_p, doubt=doubt)
    return passed, excess.p, limits.excess_p, reason


def residual_shortcuts(summary: Summary, limits: Limits) -> _Result:
    """Check that the residual audit found no shortcuts. It has the state of the audit, and its reasons."""
    audit = summary.residual
    if audit is None or not summary.splits.kept:
        return "no_audit" if audit is None else "nothing_kept"
    reason = Reason.of("audit", state=audit.state, reasons=audit.reasons)
    passed = None if audit.state == "not evaluated" else audit.state == "passed"
    return passed, audit.state, limits.residual_margin, reason


GUARDRAILS: dict[str, tuple[Callable[[Summary, Limits], _Result], str, bool]] = {
    "topic_collapse": (topic_collapse, "topic_loss", True),
    "topic_drift": (topic_drift, "max_kl", True),
    "enough_kept_items": (enough_kept_items, "min_kept", True),
    "unanswered_share": (unanswered_share, "max_unanswered", False),
    "ties_share": (ties_share, "max_ties", False),
    "voters_by_position": (voters_by_position, "max_one_place", True),
    "undecided_share": (undecided_share, "max_undecided", False),
    "excess_above_chance": (excess_above_chance, "excess_p", False),
    AUDIT: (residual_shortcuts, "residual_margin", False),
}
"""Check of each guardrail, its limit if it was not evaluated, and whether a failure stops every export."""


def trial_run(summary: Summary, limits: Limits, *, part: bool) -> Reason | None:
    """Return why the run is only a trial (too few items, or only `part` of a benchmark), or None if it is not a trial."""
    n = summary.splits.all
    few = n < limits.min_items
    return Reason.of("trial_run", n=n, least=limits.min_items, part=part) if few or part else None


def run_state(
    audit: Residual | None,
    checks: Sequence[Guardrail],
    voters_under_test: Sequence[str],
    trial: Reason | None = None,
) -> tuple[State, tuple[Reason, ...]]:
    """Return the state of a run (the audit's, lowered if guardrails failed), and its reasons, the deciding ones first.

    A trial run is not evaluated. Neither is a screen whose voters pick one position, unless letters are forced.
    """
    few = [c.reason for c in checks if c.reason.code in ("too_few", "dependent")]
    if audit is None or few:
        return "not evaluated", tuple(few) or (Reason.of("no_screen"),)
    placed = [v for c in checks if c.name == "voters_by_position" for v in c.reason.nested("voters")]
    under_test = [Reason.of("voter_under_test", name=name) for name in voters_under_test]
    if trial is not None or any(not voter.params["forced"] for voter in placed):
        first = [] if trial is None else [trial]
        return "not evaluated", (*first, *placed, *under_test)
    failed = [c for c in checks if c.state == "failed" and c.name != AUDIT]
    by_guardrails = [Reason.of("guardrail_failed", name=c.name, reason=c.reason) for c in failed]
    halted = any(c.halts_export for c in failed)
    state, reasons = audit.state, [*audit.reasons, *by_guardrails]
    if state != "failed" and (halted or (failed and state == "passed")):
        state = "failed" if halted else "not evaluated"
        reasons = [*by_guardrails, *audit.reasons]
    return state, (*reasons, *placed, *under_test)


def _screened(summary: Summary) -> int:
    return 0 if summary.screen is None or _dependent(summary) is not None else summary.screen.asked


def _dependent(summary: Summary) -> int | None:
    """Return the number of independent groups if they are too few for the filter, or None."""
    return None if summary.screen is None or summary.screen.cut is None else summary.screen.cut.groups
