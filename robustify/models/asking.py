"""Questions to a model: planning them for each item and view, scoring them, and recording one answer row each.

All requests to a model are planned first and scored in one call, so that the engine can sort them.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, field_validator, model_validator

from robustify.base.arrays import tied_best
from robustify.base.errors import DataError, RequestError, UnaskableError
from robustify.base.redaction import muted
from robustify.base.settings_files import Settings
from robustify.items import orders
from robustify.items.answers import Answer, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.items.orders import Order
from robustify.items.scoring import FULL_OF, Mode, per_character
from robustify.items.views import Request, Template, View, template
from robustify.models.engines.protocols import NO_LETTER, Logprob, Progress, Scorer, no_progress

DEFAULT_VIEWS: tuple[View, ...] = ("choices_only", "choices_only_text", "full", "cloze")


class Asking(Settings):
    """Settings for how items are asked: views, templates, and orders of the choices.

    `mode` decides whether the full question is answered by `letter` (view `full`) or scored by the `text` of each option
    (`full_text`). `rotations` is `all` for all cyclic orders of the screen, or `one` as in Deep Ignorance D.4. `orders`
    counts the orders of the full view, the original one first, and `full_rotations` adds its rotations. With `order_items`,
    only that many items, drawn by a hash of their IDs, get more than one order. `shots` is the number of other items before
    each question.
    """

    mode: Mode = "letter"
    letter_templates: tuple[str, ...] = ("d4-like-v1",)
    text_template: str = "answer-v1"
    full_template: str = "mmlu-v1"
    full_text_template: str = "qa-v1"
    cloze_template: str = "qa-v1"
    views: tuple[View, ...] = DEFAULT_VIEWS
    rotations: Literal["all", "one"] = "all"
    orders: int = Field(default=5, ge=1, le=24, strict=True)
    full_rotations: bool = True
    order_items: int | None = Field(default=None, ge=0, strict=True)
    shots: int = Field(default=0, ge=0, le=32, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _full_view_of_the_mode(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("mode") == "text" and "views" not in given:
            views = [FULL_OF["text"] if view == FULL_OF["letter"] else view for view in DEFAULT_VIEWS]
            return {**given, "views": views}
        return given

    @field_validator("views", "letter_templates")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a name is listed twice; list each name only once")
        return names

    def templates(self) -> tuple[Template, ...]:
        """Return the prompt templates of all views, in the order in which they are used."""
        named: dict[View, tuple[str, ...]] = {
            "choices_only": self.letter_templates,
            "choices_only_text": (self.text_template,),
            "full": (self.full_template,),
            "full_text": (self.full_text_template,),
            "cloze": (self.cloze_template,),
        }
        return tuple(template(view, name) for view in self.views for name in named[view])


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
    several = _asked_in_several_orders(items, asking)
    return [
        _planned(items, item, words, order, asking.shots)
        for words in asking.templates()
        for item in items
        for order in _orders(item, words.view, asking, item.id in several)
    ]


def ask(planned: Sequence[Planned], scorer: Scorer, progress: Progress = no_progress) -> Iterator[Answer]:
    """Yield one answer row per planned question, in the order of the plan. Raise `UnaskableError` with items and views if
    prompts do not fit into the model, and `ModelError` if it returned values that are not log-probabilities."""
    try:
        # Engines run third-party code, which could print item text.
        with muted():
            scored = iter(scorer.loglikelihoods([r for p in planned for r in p.requests], progress))
    except RequestError as error:
        raise _unaskable(planned, error, scorer.name) from None
    for p in planned:
        yield _row(p, scorer.name, [next(scored) for _ in p.requests])


def _unaskable(planned: Sequence[Planned], error: RequestError, model: str) -> UnaskableError:
    """Return an error that names the first fault of each item under each template. Its `counted` line has no IDs or
    lengths, because a length can identify an item of a restricted set."""
    owners = [p for p in planned for _ in p.requests]
    first: dict[str, str] = {}
    items: dict[str, set[str]] = {}
    for position, fault in error.faults.items():
        item, words = owners[position].item, owners[position].template
        first.setdefault(f"item {item.id}, {words.view} ({words.name})", fault)
        items.setdefault(words.view, set()).add(item.id)
    lines = DataError.gather([f"{name}: {fault}" for name, fault in first.items()] or error.lines).lines
    counts = ", ".join(f"{len(ids):,} in the view {view}" for view, ids in items.items()) or "some"
    return UnaskableError(
        *lines,
        counted=f"{model}: some items are too long for the model or have no tokens: {counts}. Use a model with a longer "
        "context, or fewer shots.",
    )


def _asked_in_several_orders(items: Sequence[Item], asking: Asking) -> set[str]:
    if asking.orders == 1:
        return set()
    # Select items by a hash of the ID, because the first items of a file often have the same topic.
    drawn = sorted(
        items, key=lambda item: hashlib.sha256(f"orders/{item.id}".encode("utf-8", "surrogatepass")).digest()
    )
    return {item.id for item in drawn[: asking.order_items]}


def _orders(item: Item, view: View, asking: Asking, several: bool) -> tuple[Order, ...]:
    match view:
        case "choices_only":
            base = orders.base(item.id, item.k)
            return orders.rotations(base) if asking.rotations == "all" else (base,)
        case "full" | "full_text" if several:
            orders_of = orders.spread_and_turned if asking.full_rotations else orders.spread
            return orders_of(item.id, item.k, asking.orders)
        case "cloze" if several:
            # The same requests are repeated, so the engine computes nothing new. If the rows differ, choices were
            # put back incorrectly, or the engine answers by position instead of by request.
            return orders.own(item.k), orders.own(item.k)[::-1]
        case _:
            return (orders.own(item.k),)


def _planned(items: Sequence[Item], item: Item, words: Template, order: Order, shots: int) -> Planned:
    if not words.can_ask(item):
        return Planned(item, words, order, (), refusal="no_passage")
    if not words.by_letter and not all(c.strip() for c in item.choices):
        return Planned(item, words, order, (), refusal="empty_choice")
    # Nearly all items share the first others as a header, which an engine can thus compute once.
    others = [other for other in items[: shots + 1] if other.id != item.id][:shots]
    return Planned(item, words, order, words.requests(item, order, others))


def _row(p: Planned, model: str, scored: Sequence[Logprob]) -> Answer:
    asked = Asked(p.item.id, p.template.view, model, p.order, p.template.name, p.item.key)
    if p.refusal is not None:
        return unanswered(asked, p.refusal)
    shown = [s.total for s in scored if s.n_tokens]
    at_most = max((s.total for s in scored if not s.n_tokens), default=None)
    why = "no_letter_in_replies" if NO_LETTER in scored else None
    # If one shown letter is more likely than any letter not shown can be, it is the pick.
    if at_most is not None and (not shown or tied_best([max(shown), at_most]) != (0,)):
        why = "letter_not_shown"
    if why is not None:
        return unanswered(asked, why)
    back = sorted(range(p.item.k), key=p.order.__getitem__)
    totals = [scored[j].total if scored[j].n_tokens else -math.inf for j in back]
    n_chars = [len(c) for c in p.item.choices]
    per_char = None if p.template.by_letter else per_character(totals, n_chars)
    return answer(
        asked,
        [math.nan if total == -math.inf else total for total in totals],
        ranked_by=totals if per_char is None else per_char,
        n_chars=n_chars,
        n_bytes=[len(c.encode("utf-8", "surrogatepass")) for c in p.item.choices],
        n_tokens=[scored[j].n_tokens for j in back],
        draws=scored[0].draws or None,
        at_most=at_most,
    )
