"""Guardrails that check a summary, and the state of a run, which is derived from the guardrails and the audit.

Guardrails check a summary before its split is published. One that is not evaluated says why, and lowers no state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.context import Limits, Rules
from robustify.judging.stats.intervals import clopper_pearson
from robustify.judging.stats.tests import significantly_positive
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import AUDIT, Guardrail, Residual, State, Summary


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one guardrail: whether it passed (None if it was not evaluated), its value, its limit, and the reason."""

    passed: bool | None
    value: float | str | None
    limit: float
    reason: Reason

    @property
    def state(self) -> State:
        """State that the summary shows."""
        return "not evaluated" if self.passed is None else "passed" if self.passed else "failed"


def _not_judged(code: str, limit: float) -> CheckResult:
    """Return the result of a check without data to check. `code` names the reason."""
    return CheckResult(None, None, limit, Reason.of("not_judged", why=code))


def topic_collapse(summary: Summary, limits: Limits) -> CheckResult:
    """Check that no topic of at least `min_topic_n` items lost significantly more than `topic_loss` of its items. The
    upper Clopper-Pearson bound decides, because small topics often lose half by chance. Clustered items count by their
    effective number. Not evaluated with one topic, and if the topics that lost more have too few items."""
    limit = 1 - limits.topic_loss
    if summary.topics is None:
        return _not_judged("no_topics" if _screened(summary) else "no_screen", limits.topic_loss)
    if not summary.splits.kept:
        return _not_judged("nothing_kept", limits.topic_loss)
    rows = {name: row for name, row in summary.topics.by_topic.items() if row.before}
    if len(rows) < 2:
        return _not_judged("one_topic", limits.topic_loss)
    low = {name: row for name, row in rows.items() if row.after / row.before < limit}
    lost = {
        name: row
        for name, row in low.items()
        if row.before >= limits.min_topic_n
        and clopper_pearson(row.after / row.before * (n := row.units or row.before), n)[1] < limit
    }
    worst = min((row.after / row.before for row in rows.values()), default=None)
    if not low:
        return CheckResult(True, worst, limit, Reason.of("topics_kept", share=limit))
    named = tuple(
        Reason.of("topic_count", name=name, before=row.before, after=row.after)
        for name, row in (lost or low).items()
    )
    reason = Reason.of("topics_lost" if lost else "topics_small", topics=named)
    return CheckResult(False if lost else None, worst, limit, reason)


def topic_drift(summary: Summary, limits: Limits) -> CheckResult:
    """Check that the topic mix shifted by at most `max_kl` nats, or by no more than random removal often shifts it."""
    topics = summary.topics
    if topics is None or topics.kl_nats is None or topics.p is None:
        return _not_judged("no_topics", limits.max_kl)
    if sum(row.before > 0 for row in topics.by_topic.values()) < 2:
        return _not_judged("one_topic", limits.max_kl)
    drifted = topics.kl_nats > limits.max_kl and topics.p < limits.kl_p
    reason = Reason.of("topic_drift", kl=topics.kl_nats, null=topics.kl_null, p=topics.p)
    return CheckResult(not drifted, topics.kl_nats, limits.max_kl, reason)


def enough_kept_items(summary: Summary, limits: Limits) -> CheckResult:
    """Check that the kept split has at least `min_kept` items."""
    n, least = summary.splits.kept, limits.min_kept
    if not _screened(summary):
        return _not_judged("no_screen", limits.min_kept)
    return CheckResult(n >= least, float(n), least, Reason.of("kept_items", n=n, least=least))


def unanswered_share(summary: Summary, limits: Limits) -> CheckResult:
    """Check that missing answers affect at most `max_unanswered` of the items. The share is the larger of two shares:
    items left undecided by missing answers, and items that a single voter did not answer."""
    screen, limit = summary.screen, limits.max_unanswered
    if screen is None or not screen.asked:
        return _not_judged("no_item_screened", limits.max_unanswered)
    counts = [(voter.unanswered, name) for name, voter in screen.voters.items()]
    missing, voter = max(counts, key=lambda entry: entry[0], default=(0, ""))
    n_open, n_items = screen.unanswered, screen.asked
    share = max(n_open, missing) / n_items
    reason = Reason.of("unanswered", open=n_open, asked=n_items, voter=voter, missing=missing)
    return CheckResult(share <= limit, share, limit, reason)


def ties_share(summary: Summary, limits: Limits) -> CheckResult:
    """Check that no voter has tied best choices in more than `max_ties` of its answers. Coarse arithmetic causes ties."""
    counted = [
        (voter.ties / n, Reason.of("ties", voter=name, ties=voter.ties, n=n))
        for name, voter in ({} if summary.screen is None else summary.screen.voters).items()
        if (n := voter.answered)
    ]
    if not counted:
        return _not_judged("no_ties_counted", limits.max_ties)
    share, reason = max(counted, key=lambda entry: entry[0])
    return CheckResult(share <= limits.max_ties, share, limits.max_ties, reason)


def voters_by_position(summary: Summary, limits: Limits) -> CheckResult:
    """Check that no voter always picks the same position. If letters are forced, the check always passes. A voter fails
    if the lower bound of its share at a position is above `max_one_place`, and that of its excess over the keys' share
    above 0, because a voter that is always right must not fail."""
    screen, limit = summary.screen, limits.max_one_place
    if screen is None or not screen.asked or screen.mode != "letter":
        return _not_judged("no_letters", limits.max_one_place)
    forced, failing = screen.force_letters, []
    for name, voter in screen.voters.items():
        if (favoured := voter.favoured) is None:
            continue
        picked, excess = favoured.picked.ci, favoured.excess.ci
        if picked and excess and picked[0] > limit and excess[0] > 0:
            share = {
                "picked": favoured.picked.value,
                "n": favoured.picked.n,
                "low": picked[0],
                "keys": favoured.keys,
            }
            reason = Reason.of("one_position", voter=name, position=favoured.position, **share, forced=forced)
            failing.append((picked[0], reason))
    worst = max((low for low, _ in failing), default=None)
    voters = Reason.of("voters_by_position", voters=tuple(reason for _, reason in failing))
    return CheckResult(forced or not failing, worst, limit, voters)


def undecided_share(summary: Summary, limits: Limits) -> CheckResult:
    """Check that at most `max_undecided` of the items are undecided. Not evaluated if nobody voted and the items with known
    text are too few to rank, or if items depend on each other."""
    undecided, n, limit = summary.splits.undecided, summary.splits.all, limits.max_undecided
    if summary.screen is None and summary.splits.cloze is not None and n < FEWEST_ITEMS:
        return CheckResult(None, None, limit, Reason.of("too_few", n=n, least=FEWEST_ITEMS))
    if (groups := _dependent(summary)) is not None:
        return CheckResult(
            None, None, limit, Reason.of("dependent", groups=groups, n=summary.benchmark.parallel_items)
        )
    if not _screened(summary) or not n:
        return _not_judged("no_item_screened", limits.max_undecided)
    return CheckResult(
        undecided / n <= limit, undecided / n, limit, Reason.of("undecided", n=undecided, of=n)
    )


def excess_above_chance(summary: Summary, limits: Limits) -> CheckResult:
    """Check that significantly more items are flagged than by chance. The p-value must be at most `excess_p`, and the
    interval above zero. Otherwise, chance may explain the flags, which is no fault: the check is then not evaluated,
    as if none is flagged. Under `criterion: fdr`, any flag passes, because without
    shortcuts something is flagged with probability at most q."""
    screen = summary.screen
    if screen is not None and screen.asked and not summary.splits.flagged:
        return _not_judged("nothing_flagged", limits.excess_p)
    if screen is not None and screen.cut is not None:
        q = screen.cut.q
        return CheckResult(True, None, q, Reason.of("bounded_false_flags", hits=summary.splits.flagged, q=q))
    # If a voter could see positions, the null that knows the key positions decides.
    excess = None if screen is None else (screen.by_position or screen).excess_over_chance
    if excess is None or excess.value is None or excess.p is None:
        return _not_judged("no_screen", limits.excess_p)
    passed = excess.ci is not None and significantly_positive(excess.p, excess.ci, limits.excess_p)
    doubt = "no_interval" if excess.ci is None else None if passed else "not_significant"
    reason = Reason.of("excess", value=excess.value, p=excess.p, level=limits.excess_p, doubt=doubt)
    return CheckResult(passed or None, excess.p, limits.excess_p, reason)


def residual_shortcuts(summary: Summary, limits: Limits) -> CheckResult:
    """Check that the residual audit found no shortcuts. The result has the audit's state and reasons."""
    audit = summary.residual
    if audit is None or not summary.splits.kept:
        return _not_judged("no_audit" if audit is None else "nothing_kept", limits.residual_margin)
    reason = Reason.of("audit", state=audit.state, reasons=audit.reasons)
    passed = None if audit.state == "not evaluated" else audit.state == "passed"
    return CheckResult(passed, audit.state, limits.residual_margin, reason)


GUARDRAILS: Mapping[str, Callable[[Summary, Limits], CheckResult]] = {
    "topic_collapse": topic_collapse,
    "topic_drift": topic_drift,
    "enough_kept_items": enough_kept_items,
    "unanswered_share": unanswered_share,
    "ties_share": ties_share,
    "voters_by_position": voters_by_position,
    "undecided_share": undecided_share,
    "excess_above_chance": excess_above_chance,
    AUDIT: residual_shortcuts,
}
"""Guardrails by name, in the order of the report."""


def guardrails(summary: Summary, limits: Limits) -> tuple[Guardrail, ...]:
    """Return the results of all guardrails in a fixed order."""
    checks = {name: check(summary, limits) for name, check in GUARDRAILS.items()}
    return tuple(
        Guardrail(name=name, state=check.state, value=check.value, limit=check.limit, reason=check.reason)
        for name, check in checks.items()
    )


def with_state(summary: Summary, rules: Rules, voters: Sequence[str]) -> Summary:
    """Check a summary, and return it with its guardrails, its state and the reasons."""
    limits = rules.limits
    checks, trial = guardrails(summary, limits), trial_run(summary, limits, part=rules.part)
    by_position = any(check.name == "voters_by_position" and check.state == "failed" for check in checks)
    if summary.residual and (trial or by_position):
        # The audit of a run that is not evaluated is not evaluated either.
        halted = summary.residual.model_copy(update={"state": "not evaluated"})
        summary = summary.model_copy(update={"residual": halted})
        checks = guardrails(summary, limits)
    under_test = [name for name in rules.under_test if name in voters and summary.screen is not None]
    state, reasons = run_state(summary.residual, checks, under_test, trial)
    return summary.model_copy(update={"guardrails": checks, "state": state, "reasons": reasons})


def trial_run(summary: Summary, limits: Limits, *, part: bool) -> Reason | None:
    """Return the reason why the run is only a trial: too few items, or `part` of a benchmark. Otherwise, return None."""
    n = summary.splits.all
    few = n < limits.min_items
    return Reason.of("trial_run", n=n, least=limits.min_items, part=part) if few or part else None


def run_state(
    audit: Residual | None,
    checks: Sequence[Guardrail],
    voters_under_test: Sequence[str],
    trial: Reason | None = None,
) -> tuple[State, tuple[Reason, ...]]:
    """Return the state of a run and its reasons, starting with the reasons that decide. A failed audit or guardrail fails
    the run. Otherwise the run has the state of its audit. Nothing is evaluated in a trial, without a screen, with too few
    or dependent items, or if voters pick one position and letters are not forced: failed guardrails are then only notes."""
    too_few = tuple(c.reason for c in checks if c.reason.code in ("too_few", "dependent"))
    by_position = [v for c in checks if c.name == "voters_by_position" for v in c.reason.nested("voters")]
    # The audit and these reasons are listed by themselves.
    listed = ("audit", "too_few", "dependent", "voters_by_position")
    failed = [c for c in checks if c.state == "failed" and c.reason.code not in listed]
    notes = [Reason.of("guardrail_failed", name=c.name, reason=c.reason) for c in failed]
    under_test = [Reason.of("voter_under_test", name=name) for name in voters_under_test]
    if audit is None or too_few:
        return "not evaluated", (*(too_few or (Reason.of("no_screen"),)), *notes)
    if trial is not None or any(not voter.params["forced"] for voter in by_position):
        return "not evaluated", (*([] if trial is None else [trial]), *by_position, *notes, *under_test)
    state: State = "failed" if failed else audit.state
    reasons = [*audit.reasons, *notes] if audit.state == "failed" else [*notes, *audit.reasons]
    return state, (*reasons, *by_position, *under_test)


def _screened(summary: Summary) -> int:
    return 0 if summary.screen is None or _dependent(summary) is not None else summary.screen.asked


def _dependent(summary: Summary) -> int | None:
    """Return the number of independent groups if it is too small for the filter, and otherwise None."""
    return None if summary.screen is None or summary.screen.cut is None else summary.screen.cut.groups
