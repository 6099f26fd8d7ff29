"""Residual audit, which decides whether auditors still find shortcuts in the kept items.

Auditors answer the kept items without their questions, because a filter cannot certify itself. Selection alone changes
their accuracy, so each is compared with chance given the selection.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from robustify.base.arrays import Bools
from robustify.items.scoring import VIEW_OF, best
from robustify.judging.audit.auditor import (
    POWER,
    AuditorRates,
    AuditRate,
    FreshProbe,
    Kept,
    all_answered,
    audit_rate,
    kept_by,
)
from robustify.judging.baselines.heuristics import SEES_STEM, heuristic_scores
from robustify.judging.baselines.heuristics import VIEW as HEURISTIC
from robustify.judging.context import Context
from robustify.judging.readers.reader_rows import MEANING
from robustify.judging.screen.screen_rules import FDR
from robustify.judging.screen.votes import KEPT, cast_votes, first_template, models_asked
from robustify.judging.stats.intervals import Rate
from robustify.judging.stats.tests import LEVEL
from robustify.judging.summary.quantity import AuditorKind, Reason, ReasonValue, Score
from robustify.judging.summary.result import AuditorResult, Residual, State


@dataclass(frozen=True)
class AuditTask:
    """Kept items for the auditors to answer, and the probe that is fitted on their texts. If a `fitted`
    scorer decided which items to keep, fitted probes and rules are not independent."""

    kept: Kept
    probe: FreshProbe
    fitted: bool


Auditor = Callable[[Context, AuditTask], Iterable[AuditorRates]]
"""Function that answers the kept items without their questions in some ways, and returns their rates."""


def leave_one_out(ctx: Context, _: AuditTask) -> Iterator[AuditorRates]:
    """Yield the accuracy of each voter on the items that the other voters keep."""
    for m, name in enumerate(ctx.screen.votes.voters):
        others = ctx.screen.votes.without(name)
        if others.voters:
            kept_by_others = kept_by(ctx.screen.by_rule(others, ctx.rules.screen))
            yield _rates(ctx, "leave_one_out", name, ctx.screen.votes.best[:, m], kept_by_others)
            del others, kept_by_others


def non_voters(ctx: Context, task: AuditTask) -> Iterator[AuditorRates]:
    """Yield the accuracy on kept items of each model that answered the screen without voting."""
    votes, rules = ctx.screen.votes, ctx.rules.screen
    models = models_asked(ctx.responses.answers, VIEW_OF[rules.mode], votes.template)
    names = tuple(model for model in models if model not in votes.voters)
    if names and votes.template is not None:
        changes = {"criterion": "unanimous", "voters": names, "template": votes.template}
        best = cast_votes(ctx.responses.answers, rules.model_copy(update=changes), ctx.responses.index).best
        for m, name in enumerate(names):
            yield _rates(ctx, "non_voter", name, best[:, m], task.kept)


def sentence_encoder(ctx: Context, task: AuditTask) -> Iterator[AuditorRates]:
    """Yield the accuracy of the sentence encoder on the kept items. Items that it did not see are unanswered."""
    for name in models_asked(ctx.responses.answers, MEANING):
        rows = ctx.responses.answers.block(MEANING, name).first()
        rows = rows.where(ctx.responses.index.index_of[rows.item] >= 0)
        shared = best(rows.scores, rows.k)[:, : ctx.responses.index.width]
        picked = np.zeros((len(ctx.responses.index), ctx.responses.index.width), dtype=bool)
        picked[ctx.responses.index.index_of[rows.item], : shared.shape[1]] = shared
        yield _rates(ctx, "encoder", name, picked, task.kept)


def _rates(ctx: Context, kind: AuditorKind, name: str, best: Bools, kept: Kept) -> AuditorRates:
    every = all_answered(ctx.responses.index)
    after, before = (
        audit_rate(best[part.mask], part, ctx.parts.groups_of(part.mask)) for part in (kept, every)
    )
    return AuditorRates(kind, name, after, kind in ("non_voter", "encoder"), before=before)


def best_heuristic(ctx: Context, task: AuditTask) -> Iterator[AuditorRates]:
    """Yield the heuristic with the lowest Holm-corrected p-value on the kept items, if there is any."""
    kept, probe = task.kept, task.probe
    if first_template(ctx.responses.answers, HEURISTIC) is None or not len(kept.key):
        return
    # Copies of an item are not independent evidence.
    representatives = np.zeros_like(kept.mask)
    representatives[np.flatnonzero(kept.mask)[probe.first(kept)]] = True
    possible_keys = np.zeros((len(representatives), kept.open.shape[1]), dtype=bool)
    possible_keys[kept.mask] = kept.open
    scores = heuristic_scores(
        ctx.responses.answers,
        ctx.responses.in_table(representatives),
        ctx.responses.in_table(possible_keys),
        ctx.responses.table_groups,
    )
    rows = {
        name: Score.model_validate(row) for name, row in scores.items() if row["n"] and name not in SEES_STEM
    }
    if not rows:
        return
    name, row = min(rows.items(), key=lambda entry: (entry[1].p_holm or 0.0, entry[1].p or 0.0))
    result = AuditRate(Rate(row.value, row.n or 0, row.ci), row.expected, row.chance, p=row.p_holm)
    yield AuditorRates("heuristic", name, result, not task.fitted)


def fresh_probe(ctx: Context, task: AuditTask) -> Iterator[AuditorRates]:
    """Yield the accuracy of a probe fitted on the kept items alone, if there are enough of them."""
    fresh = task.probe.audit(task.kept)
    if fresh is not None:
        yield AuditorRates("probe", "probe", fresh, not task.fitted)


AUDITORS: dict[str, Auditor] = {
    "leave_one_out": leave_one_out,
    "non_voter": non_voters,
    "encoder": sentence_encoder,
    "heuristic": best_heuristic,
    "probe": fresh_probe,
}
"""Auditors by the kind of their rates, in the order in which they are listed."""


def residual(ctx: Context) -> Residual:
    """Return the residual audit of the items that the run's rule keeps."""
    index, margin = ctx.responses.index, ctx.rules.limits.residual_margin
    fitted = ctx.rules.screen.criterion == FDR
    task = AuditTask(kept_by(ctx.screen.result), FreshProbe(ctx.responses.items, ctx.rules.probe), fitted)
    auditors = [rates for auditor in AUDITORS.values() for rates in auditor(ctx, task)]
    kept = (ctx.screen.result.outcome == KEPT) & (index.k > 0)
    chance = float(np.mean(1 / index.k[kept])) if kept.any() else None
    state, reasons = audit_state(auditors, chance, margin)
    if fitted:
        reasons.append(Reason.of("probe_voted"))
    entries: dict[str, dict[str, AuditorResult]] = {}
    for rates in auditors:
        kind = rates.kind if rates.kind in get_args(AuditorKind) else "others"
        entries.setdefault(kind, {})[rates.name] = rates.entry(_level(auditors))
    return Residual(
        leave_one_out=entries.get("leave_one_out", {}),
        non_voters=entries.get("non_voter", {}),
        heuristics=entries.get("heuristic"),
        probe=next(iter(entries.get("probe", {}).values()), None),
        encoder=next(iter(entries.get("encoder", {}).values()), None),
        others=entries.get("others"),
        probe_voted=fitted,
        chance=chance,
        margin=margin,
        state=state,
        reasons=tuple(reasons),
    )


def audit_state(
    auditors: Sequence[AuditorRates], chance: float | None, margin: float
) -> tuple[State, list[Reason]]:
    """Return whether the audit is passed, failed or not evaluated, with the reasons. Auditors without answers do not count.

    The audit is passed if every auditor's upper bound is below its chance level plus `margin`, no heuristic is above
    chance, and an independent auditor had the power to reveal a shortcut. Bounds are at 95 %, because all of them must be
    met. Alarms share a level of 5 % (Bonferroni).
    """
    answered = [a for a in auditors if a.audit.rate.n]
    if chance is None or not answered:
        return "not evaluated", [Reason.of("no_item_kept" if chance is None else "no_auditor")]
    preventing = [a for a in answered if _prevents_passing(a, chance, margin)]
    independent = [a for a in answered if a.independent and a.kind != "heuristic"]
    # An auditor below chance would not reveal a shortcut: it learnt to avoid the keys.
    vouching = [
        a for a in independent if a.audit.bounds()[1] >= a.audit.limit(chance) and a.audit.could_see(margin)
    ]
    if vouching and not preventing:
        largest = max(a.audit.bounds()[1] - a.audit.limit(chance) for a in answered if a.kind != "heuristic")
        below = Reason.of(
            "below_margin", auditors=len(answered), margin=margin, most=math.ceil(1000 * largest) / 1000
        )
        power = (
            Reason.of(
                "power",
                auditor=a.name,
                kind=a.kind,
                n=a.audit.rate.n,
                rate=a.audit.noticeable(_level(auditors)),
                power=POWER,
            )
            for a in vouching
        )
        return "passed", [below, *power]
    level = _level(auditors)
    if alarms := [a for a in answered if a.audit.alarm(chance, level)]:
        alarms.sort(key=lambda a: a.audit.limit(chance) - a.audit.bounds(1 - level)[0])
        return "failed", [_above_chance(a, chance, level) for a in alarms]
    reasons = []
    for a in preventing:
        limit = a.audit.limit(chance) + (0 if a.kind == "heuristic" else margin)
        measured = {"high": a.audit.bounds()[1], "limit": limit, "p": a.audit.p}
        reasons.append(Reason.of("not_below_margin", **a.reason(), **measured))
    if not independent:
        return "not evaluated", [Reason.of("no_independent_auditor"), *reasons]
    blind = [a for a in independent if not vouching and a not in preventing]
    unseen = [Reason.of("could_not_see", **a.reason(), free=a.audit.free) for a in blind]
    return "not evaluated", reasons + unseen


def _level(auditors: Sequence[AuditorRates]) -> float:
    """Return the significance level of each auditor's alarm."""
    return LEVEL / max(1, sum(a.audit.rate.n > 0 for a in auditors))


def _prevents_passing(a: AuditorRates, chance: float, margin: float) -> bool:
    # Heuristics are judged by p-value, others by upper bound.
    if a.kind == "heuristic":
        return a.audit.p is not None and a.audit.p <= LEVEL
    return a.audit.bounds()[1] >= a.audit.limit(chance) + margin


def _above_chance(a: AuditorRates, chance: float, level: float) -> Reason:
    audit = a.audit
    params: dict[str, ReasonValue] = {
        "low": audit.bounds(1 - level)[0],
        "limit": audit.limit(chance),
        "even": chance if audit.even is None else audit.even,
        "expected": audit.chance,
        "p": audit.p,
        "refits": audit.refits,
    }
    return Reason.of("above_chance", **a.reason(), **params)
