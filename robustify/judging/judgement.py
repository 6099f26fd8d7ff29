"""Judging of answers: verdicts, splits, numbers with intervals, guardrails and the state of the run.

A judgement is a pure function of answers and rules, and needs no model. Results without answers are null in the summary.
Guardrails check a summary before its split is published. One that is not evaluated says why, and lowers no state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.accuracy import calibrations, pairs
from robustify.judging.audit.item_analysis import AnalysedItems, item_analysis, label_noise
from robustify.judging.audit.residual import residual
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.context import Context, Facts, Limits, Rules, context
from robustify.judging.evidence import ItemEvidence, cue_counts, inference, item_evidence
from robustify.judging.looks.estimate import Estimate
from robustify.judging.measures import MeasureInput, measures
from robustify.judging.positions import permutation, position_bias
from robustify.judging.removal_effects import random_removal, topics
from robustify.judging.screen.consensus import Verdicts
from robustify.judging.screening import benchmark, other_rules, screen, split_sizes
from robustify.judging.stats.intervals import clopper_pearson
from robustify.judging.stats.tests import significantly_positive
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import AUDIT, Guardrail, Residual, State, Summary
from robustify.judging.summary.scored import Model
from robustify.judging.text_overlap import contamination


@dataclass(frozen=True)
class Judgement:
    """Result of judging a run. `cloze_excluded` gives the reasons of items excluded from cloze, by ID. `looks` are by
    model. `analysed` needs five models."""

    verdicts: Verdicts
    cloze_excluded: Mapping[str, str]
    summary: Summary
    evidence: ItemEvidence | None = None
    looks: Mapping[str, Estimate] = field(default_factory=dict)
    analysed: AnalysedItems | None = None


def judge(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Judgement:
    """Judge the answers of a run, and return its verdicts and its summary. Without `items`, as for an
    imported log, results that need text are null. Raise `UsageError` if the rules name voters or a template
    that the answers do not contain, and `DataError` if rows contradict each other or the items."""
    ctx = context(answers, facts, rules, items)
    # The audit takes the most memory, so it comes before what the other parts keep.
    audit = residual(ctx) if ctx.was_screened else None
    judged = MeasureInput.from_context(ctx)
    credits, found = judged.credits, item_evidence(ctx)
    analysed = item_analysis(ctx, credits)
    parts, voters, has_topics = ctx.parts, ctx.votes.voters, any(ctx.facts.topics.values())
    answered = {name: ctx.first_rows(ctx.full, name) for name in ctx.names}
    removals = {m: random_removal(credits[m], parts, is_voter=m in voters) for m in ctx.names}
    summary = Summary(
        benchmark=benchmark(ctx),
        screen=screen(ctx) if ctx.was_screened else None,
        splits=split_sizes(ctx),
        full_mode=ctx.mode,
        models={name: _model(name, ctx, judged) for name in credits},
        measures=measures(judged),
        pairs=pairs(ctx, credits, judged.looks),
        random_removal={name: row for name, row in removals.items() if row is not None} or None,
        permutation=permutation(ctx),
        position_bias={name: position_bias(of, ctx.row_groups(of)) for name, of in answered.items()} or None,
        calibration=calibrations(ctx),
        topics=topics(ctx.topic_of, parts.kept, parts.groups) if ctx.was_screened and has_topics else None,
        residual=audit,
        sensitivity=other_rules(ctx) if ctx.was_screened else (),
        evidence=None if found is None else cue_counts(found, ctx.parts, ctx.items),
        inference=None if found is None else inference(found, ctx.parts),
        label_noise=label_noise(ctx, credits, analysed),
        item_analysis=None if analysed is None else analysed.part,
        contamination=contamination(
            ctx.facts.overlap, ctx.index.items, parts.kept, parts.flagged, parts.groups
        ),
    )
    limits = ctx.rules.limits
    checks, trial = guardrails(summary, limits), trial_run(summary, limits, part=ctx.rules.part)
    placed = any(check.name == "voters_by_position" and check.state == "failed" for check in checks)
    if summary.residual and (trial or placed):
        # The audit of a run that is not evaluated is not evaluated either.
        halted = summary.residual.model_copy(update={"state": "not evaluated"})
        summary = summary.model_copy(update={"residual": halted})
        checks = guardrails(summary, limits)
    tested = [name for name in ctx.rules.under_test if name in voters and ctx.was_screened]
    state, reasons = run_state(summary.residual, checks, tested, trial)
    return Judgement(
        ctx.verdicts,
        ctx.cloze_excluded,
        summary.model_copy(update={"guardrails": checks, "state": state, "reasons": reasons}),
        found,
        judged.looks,
        analysed,
    )


def _model(name: str, ctx: Context, judged: MeasureInput) -> Model:
    return Model(
        is_voter=name in ctx.votes.voters,
        looks=looks.part if (looks := judged.looks.get(name)) else None,
        free=free.facts if (free := judged.free.get(name)) else None,
        logged=ctx.facts.logged.get(name),
    )


_Result = tuple[bool | None, float | str | None, float, Reason] | str
"""Whether the check passed or None, its value, its limit and its reason, or the code of why it is not evaluated."""


def guardrails(summary: Summary, limits: Limits) -> tuple[Guardrail, ...]:
    """Return the results of all guardrails in a fixed order."""
    out = []
    for name, (check, limit) in GUARDRAILS.items():
        result = check(summary, limits)
        if isinstance(result, str):
            result = None, None, getattr(limits, limit), Reason.of("not_judged", why=result)
        passed, value, limit_value, reason = result
        state: State = "not evaluated" if passed is None else "passed" if passed else "failed"
        out.append(Guardrail(name=name, state=state, value=value, limit=limit_value, reason=reason))
    return tuple(out)


def topic_collapse(summary: Summary, limits: Limits) -> _Result:
    """Check that no topic of at least `min_topic_n` items lost significantly more than `topic_loss` of its items. The
    upper Clopper-Pearson bound decides, because small topics often lose half by chance. Clustered items count by their
    effective number. Not evaluated with one topic, and if the topics that lost more have too few items."""
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
    """Check that missing answers affect at most `max_unanswered` of the items. The share checked is the larger of two:
    items left undecided by missing answers, and items that any one voter did not answer."""
    screen, limit = summary.screen, limits.max_unanswered
    if screen is None or not screen.asked:
        return "no_item_screened"
    counts = [(voter.unanswered, name) for name, voter in screen.voters.items()]
    missing, voter = max(counts, key=lambda entry: entry[0], default=(0, ""))
    n_open, n_items = screen.unanswered, screen.asked
    share = max(n_open, missing) / n_items
    reason = Reason.of("unanswered", open=n_open, asked=n_items, voter=voter, missing=missing)
    return share <= limit, share, limit, reason


def ties_share(summary: Summary, limits: Limits) -> _Result:
    """Check that no voter has tied best choices in more than `max_ties` of its answers. Coarse arithmetic causes ties."""
    counted = [
        (voter.ties / n, Reason.of("ties", voter=name, ties=voter.ties, n=n))
        for name, voter in ({} if summary.screen is None else summary.screen.voters).items()
        if (n := voter.answered)
    ]
    if not counted:
        return "no_ties_counted"
    share, reason = max(counted, key=lambda entry: entry[0])
    return share <= limits.max_ties, share, limits.max_ties, reason


def voters_by_position(summary: Summary, limits: Limits) -> _Result:
    """Check that no voter always picks the same position, unless letters are forced. A voter fails if the lower bound
    of its share at a position is above `max_one_place`, and that of its excess over the keys' share above 0, because a
    voter that is always right must not fail."""
    screen, limit = summary.screen, limits.max_one_place
    if screen is None or not screen.asked or screen.mode != "letter":
        return "no_letters"
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
    return forced or not failing, worst, limit, voters


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
    """Check that significantly more items are flagged than by chance. The p-value must be at most `excess_p`, and the
    interval above zero. Otherwise, chance may explain the flags, which is no fault: the check is then not evaluated,
    as if none is flagged. Under `criterion: fdr`, any flag passes, because without
    shortcuts something is flagged with probability at most q."""
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
    passed = excess.ci is not None and significantly_positive(excess.p, excess.ci, limits.excess_p)
    doubt = "no_interval" if excess.ci is None else None if passed else "not_significant"
    reason = Reason.of("excess", value=excess.value, p=excess.p, level=limits.excess_p, doubt=doubt)
    return passed or None, excess.p, limits.excess_p, reason


def residual_shortcuts(summary: Summary, limits: Limits) -> _Result:
    """Check that the residual audit found no shortcuts. It has the state of the audit, and its reasons."""
    audit = summary.residual
    if audit is None or not summary.splits.kept:
        return "no_audit" if audit is None else "nothing_kept"
    reason = Reason.of("audit", state=audit.state, reasons=audit.reasons)
    passed = None if audit.state == "not evaluated" else audit.state == "passed"
    return passed, audit.state, limits.residual_margin, reason


GUARDRAILS: dict[str, tuple[Callable[[Summary, Limits], _Result], str]] = {
    "topic_collapse": (topic_collapse, "topic_loss"),
    "topic_drift": (topic_drift, "max_kl"),
    "enough_kept_items": (enough_kept_items, "min_kept"),
    "unanswered_share": (unanswered_share, "max_unanswered"),
    "ties_share": (ties_share, "max_ties"),
    "voters_by_position": (voters_by_position, "max_one_place"),
    "undecided_share": (undecided_share, "max_undecided"),
    "excess_above_chance": (excess_above_chance, "excess_p"),
    AUDIT: (residual_shortcuts, "residual_margin"),
}
"""Check of each guardrail, and its limit if it was not evaluated."""


def trial_run(summary: Summary, limits: Limits, *, part: bool) -> Reason | None:
    """Return why the run is only a trial, or None if it is not. It has too few items, or only `part` of a benchmark."""
    n = summary.splits.all
    few = n < limits.min_items
    return Reason.of("trial_run", n=n, least=limits.min_items, part=part) if few or part else None


def run_state(
    audit: Residual | None,
    checks: Sequence[Guardrail],
    voters_under_test: Sequence[str],
    trial: Reason | None = None,
) -> tuple[State, tuple[Reason, ...]]:
    """Return the state of a run and its reasons, the deciding ones first. A failed audit or guardrail fails the run.
    Otherwise the run has the state of its audit. Nothing is evaluated in a trial, without a screen, with too few or
    dependent items, or if voters pick one position and letters are not forced: failed guardrails are then only notes."""
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
    """Return the number of independent groups if they are too few for the filter, otherwise None."""
    return None if summary.screen is None or summary.screen.cut is None else summary.screen.cut.groups
