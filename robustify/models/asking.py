"""Ask a model: plan requests for each item and view, score the requests, and record one answer row for each plan.

All requests to a model are planned first and scored in one call, so that the engine can sort them.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from robustify.base.arrays import tied_best
from robustify.base.errors import DataError, Notice, RequestError, UnaskableError, notice_code
from robustify.base.redaction import muted
from robustify.items import orders
from robustify.items.answers import Answer, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.items.orders import Order
from robustify.items.scoring import per_character
from robustify.items.views import Asking, Request, Template, View
from robustify.models.engines.protocols import NO_LETTER, Logprob, Progress, Scorer, no_progress


@dataclass(frozen=True, slots=True)
class Planned:
    """Planned question about an item: one request per choice shown, or the reason why the item cannot be asked."""

    item: Item
    template: Template
    order: Order
    requests: tuple[Request, ...]
    refusal: str | None = None


def plan(items: Sequence[Item], asking: Asking) -> list[Planned]:
    """Return all planned questions, view by view. The plan depends only on the items and the settings."""
    reordered_ids = _reordered_ids(items, asking)
    return [
        _plan_question(items, item, prompt, order, asking.shots)
        for prompt in asking.templates()
        for item in items
        for order in _orders(item, prompt.view, asking, item.id in reordered_ids)
    ]


def ask(planned: Sequence[Planned], scorer: Scorer, progress: Progress = no_progress) -> Iterator[Answer]:
    """Yield one answer row per planned question, in the order of the plan. Raise `UnaskableError` with items and views if
    prompts do not fit into the model, and `ModelError` if the model returns values that are not log-probabilities."""
    requests = [request for question in planned for request in question.requests]
    try:
        # Engines run third-party code, which could print item text.
        with muted():
            scores = iter(scorer.loglikelihoods(requests, progress))
    except RequestError as error:
        raise _unaskable_error(planned, error, scorer.name) from None
    for question in planned:
        yield _answer_row(question, scorer.name, [next(scores) for _ in question.requests])


def _unaskable_error(planned: Sequence[Planned], error: RequestError, model: str) -> UnaskableError:
    """Return an error that names the first fault of each item under each template. Its line `counted` has no IDs or
    lengths, because a length can identify an item of a restricted set."""
    owners = [question for question in planned for _ in question.requests]
    first_faults: dict[str, str] = {}
    ids_by_view: dict[str, set[str]] = {}
    for position, fault in error.faults.items():
        item, prompt = owners[position].item, owners[position].template
        first_faults.setdefault(f"item {item.id}, {prompt.view} ({prompt.name})", fault)
        ids_by_view.setdefault(prompt.view, set()).add(item.id)
    faults = [
        Notice(f"{asking}: {fault}", code=notice_code(fault) or "unaskable-item")
        for asking, fault in first_faults.items()
    ]
    lines = DataError.gather(faults or error.lines).lines
    counts = ", ".join(f"{len(ids):,} in the view {view}" for view, ids in ids_by_view.items()) or "some"
    return UnaskableError(
        *lines,
        counted=f"{model}: some items are too long for the model or have no tokens: {counts}. Use a model with a longer "
        "context, or fewer shots.",
        code="unaskable-items",
    )


def _reordered_ids(items: Sequence[Item], asking: Asking) -> set[str]:
    if asking.orders == 1:
        return set()
    # Select items by a hash of the ID, because the first items of a file often have the same topic.
    drawn = sorted(
        items, key=lambda item: hashlib.sha256(f"orders/{item.id}".encode("utf-8", "surrogatepass")).digest()
    )
    return {item.id for item in drawn[: asking.order_items]}


def _orders(item: Item, view: View, asking: Asking, is_reordered: bool) -> tuple[Order, ...]:
    match view:
        case "choices_only":
            base = orders.base(item.id, item.k)
            return orders.rotations(base) if asking.rotations == "all" else (base,)
        case "full" | "full_text" if is_reordered:
            orders_of = orders.spread_and_turned if asking.full_rotations else orders.spread
            return orders_of(item.id, item.k, asking.orders)
        case "cloze" if is_reordered:
            # The same requests are repeated, so the engine computes nothing new. If the rows differ, choices were
            # put back incorrectly, or the engine answers by position instead of by request.
            return orders.own(item.k), orders.own(item.k)[::-1]
        case _:
            return (orders.own(item.k),)


def _plan_question(items: Sequence[Item], item: Item, prompt: Template, order: Order, shots: int) -> Planned:
    if not prompt.can_ask(item):
        return Planned(item, prompt, order, (), refusal="no_passage")
    if not prompt.by_letter and not all(choice.strip() for choice in item.choices):
        return Planned(item, prompt, order, (), refusal="empty_choice")
    # Nearly all items share the first others as a header, which an engine can thus compute once.
    others = [other for other in items[: shots + 1] if other.id != item.id][:shots]
    return Planned(item, prompt, order, prompt.requests(item, order, others))


def _answer_row(question: Planned, model: str, scores: Sequence[Logprob]) -> Answer:
    item, prompt = question.item, question.template
    asking = Asked(item.id, prompt.view, model, question.order, prompt.name, item.key)
    if question.refusal is not None:
        return unanswered(asking, question.refusal)
    shown = [score.total for score in scores if score.n_tokens]
    at_most = max((score.total for score in scores if not score.n_tokens), default=None)
    reason = "no_letter_in_replies" if NO_LETTER in scores else None
    # If one shown letter is more likely than any letter not shown can be, it is the pick.
    if at_most is not None and (not shown or tied_best([max(shown), at_most]) != (0,)):
        reason = "letter_not_shown"
    if reason is not None:
        return unanswered(asking, reason)
    back = sorted(range(item.k), key=question.order.__getitem__)
    totals = [scores[place].total if scores[place].n_tokens else -math.inf for place in back]
    n_chars = [len(choice) for choice in item.choices]
    per_char = None if prompt.by_letter else per_character(totals, n_chars)
    return answer(
        asking,
        [math.nan if total == -math.inf else total for total in totals],
        ranked_by=totals if per_char is None else per_char,
        n_chars=n_chars,
        n_bytes=[len(choice.encode("utf-8", "surrogatepass")) for choice in item.choices],
        n_tokens=[scores[place].n_tokens for place in back],
        draws=scores[0].draws or None,
        at_most=at_most,
    )
