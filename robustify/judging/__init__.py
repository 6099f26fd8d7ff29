"""Judging of answers, in this order: votes, verdicts, audit, numbers, and state.

A judgment is a pure function of answers and rules, and needs no model. What was not asked is null in the summary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robustify.items.answers import Answers
    from robustify.items.item import Item
    from robustify.judging.audit.item_analysis import AnalysedItems
    from robustify.judging.context import Rules
    from robustify.judging.evidence import ItemEvidence
    from robustify.judging.looks.estimate import Estimate
    from robustify.judging.response_data import Facts
    from robustify.judging.screen.consensus import Verdicts
    from robustify.judging.summary.result import Summary


@dataclass(frozen=True)
class Judgement:
    """Result of judging a run. `cloze_excluded` gives the reason for each item excluded from cloze, by ID. `looks`
    are by model. `analysed` needs five models."""

    verdicts: "Verdicts"
    cloze_excluded: Mapping[str, str]
    summary: "Summary"
    evidence: "ItemEvidence | None" = None
    looks: Mapping[str, "Estimate"] = field(default_factory=dict)
    analysed: "AnalysedItems | None" = None


def judge(
    answers: "Answers", facts: "Facts", rules: "Rules", items: "Sequence[Item] | None" = None
) -> Judgement:
    """Judge the answers of a run, and return its verdicts and its summary. Without `items`, as for an
    imported log, results that need text are null. Raise `UsageError` if the rules name voters or a template
    that the answers do not contain, and `DataError` if rows contradict each other or the items."""
    # Imported on use, because linting and names of engines need only small parts of this room.
    from robustify.judging.audit.residual import residual
    from robustify.judging.context import context
    from robustify.judging.guardrails import with_state
    from robustify.judging.run_numbers import run_numbers

    ctx = context(answers, facts, rules, items)  # votes -> verdicts
    # The audit takes the most memory, so it comes before what the other parts keep.
    audit = residual(ctx) if ctx.screen.was_done else None
    ctx.screen.ranker.forget_answers()
    judgement = run_numbers(ctx, audit)
    return replace(judgement, summary=with_state(judgement.summary, rules, ctx.screen.voters))
