"""A multiple-choice item as a question without options: which kind of answer it wants, or why it cannot be asked so.

The route is the length of the key's text, which tells whether people find a question answerable far better than its
wording does. What cannot be asked is kept with its reason and counted by topic; nothing is dropped in silence.
"""

from collections.abc import Iterable
from typing import Any

from robustify.freeform.grade.quantities import whole_quantity
from robustify.freeform.schema import FreeItem, Kind
from robustify.item import Item
from robustify.judge.cloze import exclusion

SHORT, MIDDLE = 5, 12
"""Words of a key that make a short text; up to `MIDDLE` it is asked and flagged `check_unique`."""
SMALL_COUNT = 20
"""Whole numbers below this are often counts, for which a relative tolerance is lax."""
_OTHER = "another text"


def convert_item(
    item: Item, *, explanations: bool = False, restricted: bool = False, adapter: str = ""
) -> FreeItem:
    """The question of an item, with its kind, its reference and, where it cannot be asked, the reason.

    `explanations` also asks items whose key is longer than 12 words; without it they are excluded as `long_answer`,
    because a long text is neither right nor wrong by comparison.
    """
    reference = " ".join(item.choices[item.key].split())
    kind, flags = route(reference)
    return FreeItem(
        id=item.id,
        question=item.stem,
        kind=kind,
        reference=reference,
        options=item.choices,
        correct=item.key,
        topic=item.topic,
        group=item.group,
        restricted=restricted,
        flags=flags,
        excluded_reason=_reason(item, kind, explanations),
        adapter=adapter,
    )


def route(reference: str) -> tuple[Kind, tuple[str, ...]]:
    """The kind of answer that a key's text wants, and what a person should look at."""
    quantity = whole_quantity(reference)
    words = len(reference.split())
    if quantity is not None:
        if quantity.value == 0:
            return "numeric", ("zero_reference_needs_abs",)
        whole = quantity.value == quantity.value.to_integral_value()
        return "numeric", ("small_count",) if whole and abs(quantity.value) < SMALL_COUNT else ()
    if words <= SHORT:
        return "short_text", ()
    if words <= MIDDLE:
        return "short_text", ("check_unique",)
    return "explanation", ()


def _reason(item: Item, kind: Kind, explanations: bool) -> str:
    # The reasons are those of the strict cloze profile, but only the key's own words can spoil a free answer.
    alone = Item(item.id, item.stem, (item.choices[item.key], _OTHER), 0, item.topic, item.group)
    reason = exclusion(alone, "strict")
    if reason not in (None, "long_answer"):
        return str(reason)
    return "long_answer" if kind == "explanation" and not explanations else ""


def excluded(items: Iterable[FreeItem]) -> dict[str, Any]:
    """How many items each reason took, in all and by topic, and how many are left to ask.

    `{"n", "asked", "kinds": {KIND: n}, "excluded": {REASON: n}, "topics": {TOPIC: {"n", "asked", REASON: n}}}`
    """
    told: dict[str, Any] = {"n": 0, "asked": 0, "kinds": {}, "excluded": {}, "topics": {}}
    for item in items:
        topic: dict[str, int] = told["topics"].setdefault(item.topic, {"n": 0, "asked": 0})
        for counts in (told, topic):
            counts["n"] += 1
            if not item.excluded_reason:
                counts["asked"] += 1
        if item.excluded_reason:
            for counts in (told["excluded"], topic):
                counts[item.excluded_reason] = counts.get(item.excluded_reason, 0) + 1
        else:
            told["kinds"][item.kind] = told["kinds"].get(item.kind, 0) + 1
    return told
