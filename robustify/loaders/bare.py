"""What a file writes around its stems and choices that belongs to somebody's prompt: ours has its own.

It is taken off where every row of a file has it, and never from some rows alone.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from robustify.loaders.rows import RawItem

_LEAD, _TAIL = "Question: ", "\nAnswer:"
_LABEL = re.compile(
    r"\s*(?:\(([a-z]|[0-9]{1,2})\)|([a-z]|[0-9]{1,2})[.):](?=\s)|([a-z])\)|([a-z])[.:](?=\w\w))\s*",
    re.IGNORECASE,
)
"""`(A)`, `A) `, `1. `; without a blank a letter alone, for `1.5` is a number and `A.D.` a date."""
_LABELS = [*zip(ascii_uppercase, map(str, range(26)), map(str, range(1, 27)), strict=True)]


def bare_stems(raws: Sequence[RawItem]) -> tuple[RawItem, ...]:
    """The same without `Question: ` before or `Answer:` after the stem, where every stem of the file has it."""
    lead = _LEAD if all(raw.stem.startswith(_LEAD) for raw in raws) else ""
    stems = [raw.stem.removeprefix(lead) for raw in raws]
    tail = _TAIL if all(stem.endswith(_TAIL) for stem in stems) else ""
    if not lead and not tail:
        return tuple(raws)
    return tuple(replace(raw, stem=stem.removesuffix(tail)) for raw, stem in zip(raws, stems, strict=True))


def own_labels(choices: Sequence[str]) -> tuple[str, ...]:
    """The labels inside all of these choices, A, B ... or numbers from 0 or 1, once each in any order; else ()."""
    first = _LABEL.match(choices[0]) if choices else None
    if first is None:
        return ()
    labels = [(mark[mark.lastindex or 1]).upper() for c in choices if (mark := _LABEL.match(c))]
    wanted = [sorted(kind) for kind in zip(*_LABELS[: len(choices)], strict=True)]
    return tuple(labels) if sorted(labels) in wanted else ()


def bare_choices(raws: Sequence[RawItem]) -> tuple[RawItem, ...]:
    """The same without the label inside each choice ("(A) red"), where every choice of the file has one.

    A key that is a label means the choice that has it, wherever that stands: the labels win over the order.
    """
    found: list[tuple[str, ...]] = []
    for raw in raws:
        if not (labels := own_labels(raw.choices)):
            return tuple(raws)
        found.append(labels)
    return tuple(_bare(raw, labels) for raw, labels in zip(raws, found, strict=True))


def _bare(raw: RawItem, labels: tuple[str, ...]) -> RawItem:
    texts = tuple(_LABEL.sub("", choice, count=1).strip() for choice in raw.choices)
    if not all(texts):
        # "A." alone is the text of this choice.
        return raw
    if isinstance(raw.key, str) and raw.key_is in ("auto", "text") and raw.key in raw.choices:
        at = raw.choices.index(raw.key)
        once = texts.count(texts[at]) == 1
        return replace(
            raw, choices=texts, key=texts[at] if once else at, key_is=raw.key_is if once else "index"
        )
    in_order = labels in {*zip(*_LABELS[: len(labels)], strict=True)}
    named = str(raw.key).strip(" ().:").upper()
    if in_order or raw.labels or raw.key_is not in ("auto", "letter") or named not in labels:
        return replace(raw, choices=texts)
    return replace(raw, choices=texts, labels=labels, key=named, key_is="label")
