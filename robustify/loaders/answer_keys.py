"""The labels inside choices, which are taken off, and what a file says about the right choice as its index from 0.

What a file writes around its stems and choices belongs to somebody's prompt: ours has its own. It is taken off where every
row of a file has it, and never from some rows alone. A key that can be read in two ways is refused, rather than guessed:
a wrong key looks like a hard item.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.loaded import KeyKind
from robustify.loaders.rows import RawItem, json_kind, require_text

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


_DIGITS = re.compile(r"-?[0-9]{1,9}")
_LETTER = re.compile(r"\(?([A-Za-z])[.):]?")
ROWS_THAT_TELL = 50
ALMOST_NEVER = 1e-4


def key_index(raw: RawItem) -> int:
    """The index of the right choice, from 0.

    With `key_is="auto"` a label wins (an ARC key "1" is the label "1"); a whole number is an index from 0; a
    text is a letter, a written index or the text of exactly one choice, and must not be two of these at once.
    Raises `ItemError`: too few or many choices; no key, another type, out of range, or readable in two
    ways."""
    if not FEWEST <= len(raw.choices) <= MOST:
        n = len(raw.choices)
        raise ItemError(f"{n} choice{'s' if n != 1 else ''}; expected {FEWEST} to {MOST}")
    match raw.key:
        case bool() | float() | None:
            kind = json_kind(raw.key)
            if isinstance(raw.key, float):
                kind = "not a number (NaN)" if math.isnan(raw.key) else "a number with a decimal point"
            raise ItemError(f"key is {kind}; expected {_expected(raw)}")
        case int():
            return _from_number(raw, raw.key)
        case str():
            return _from_text(raw, require_text(raw.key, "key").strip())
        case _:
            raise ItemError(f"key is {json_kind(raw.key)}; expected {_expected(raw)}")


def key_form(raw: RawItem) -> str:
    """In which form the file gives a key that `key_index` has read: for people, who know what to expect."""
    key = raw.key.strip() if isinstance(raw.key, str) else raw.key
    match raw.key_is:
        case "index":
            return "number from 0"
        case "number":
            return "number from 1"
        case "letter" | "label" | "text":
            return raw.key_is
        case "auto" if str(key).casefold() in [name.casefold() for name in raw.labels]:
            return "label"
        case "auto" if isinstance(key, int) or _DIGITS.fullmatch(str(key)):
            return "number from 0"
        case _:
            return "letter" if letter_index(str(key)) is not None and key not in raw.choices else "text"


def count_from_one(raws: Sequence[RawItem]) -> bool:
    """Return whether the whole-number keys of a file look counted from 1, if only their values can say it.

    They run from 1, never 0, in at least 50 rows, and reach the number of choices, or the probability that keys drawn at
    random never are 0 (product of 1 - 1/k) is below 1 in 10,000.
    """
    found = [(n, len(raw.choices)) for raw in raws if raw.choices and (n := _bare_number(raw)) is not None]
    if len(found) < ROWS_THAT_TELL or not all(1 <= number <= k for number, k in found):
        return False
    log_chance = sum(math.log1p(-1 / k) if k > 1 else -math.inf for _, k in found)
    return any(number == k for number, k in found) or log_chance < math.log(ALMOST_NEVER)


def _bare_number(raw: RawItem) -> int | None:
    """The key as a number, where nothing but its value could say what it counts from."""
    if raw.key_is != "auto":
        return None
    match raw.key:
        case bool():
            return None
        case int():
            return raw.key if _written(raw.key) not in raw.labels else None
        case str() if _DIGITS.fullmatch(key := raw.key.strip()):
            return int(key) if key not in raw.labels and key not in raw.choices else None
        case _:
            return None


def _written(number: int) -> str:
    return str(number) if abs(number) < 10**9 else "with more than 9 digits"


def _from_number(raw: RawItem, number: int) -> int:
    match raw.key_is:
        case "number":
            return _ranged(number, len(raw.choices), first=1)
        case "label":
            return _labelled(raw, _written(number))
        case "auto" if raw.labels and all(_DIGITS.fullmatch(name) for name in raw.labels):
            return _labelled(raw, _written(number))
        case "auto" | "index":
            return _ranged(number, len(raw.choices), first=0)
        case "letter" | "text":
            raise ItemError(f"key is a number; expected {_expected(raw)}")


def _from_text(raw: RawItem, key: str) -> int:
    if not key:
        raise ItemError(f"key is empty; expected {_expected(raw)}")
    match raw.key_is:
        case "label":
            return _labelled(raw, key)
        case "index" | "number" if _DIGITS.fullmatch(key):
            return _ranged(int(key), len(raw.choices), first=1 if raw.key_is == "number" else 0)
        case "index" | "number":
            raise ItemError(f"key is text; expected {_expected(raw)}")
        case "letter":
            if (at := letter_index(key)) is None:
                raise ItemError(f"key is no letter; expected {_expected(raw)}")
            return _in_letters(at, len(raw.choices))
        case "text":
            equal = _equal(key, raw.choices)
            if len(equal) != 1:
                raise ItemError(f"key is the text of {len(equal)} choices; expected {_expected(raw)}")
            return equal[0]
        case "auto":
            return _guessed(raw, key)


def _guessed(raw: RawItem, key: str) -> int:
    if [name.casefold() for name in raw.labels].count(key.casefold()) == 1:
        return _labelled(raw, key)
    k = len(raw.choices)
    number = int(key) if _DIGITS.fullmatch(key) else None
    # A letter that is no label still names a position where no label is a letter, or they are A, B, C ... themselves.
    in_order = [name.upper() for name in raw.labels] == list(ascii_uppercase[: len(raw.labels)])
    lettered = any(letter_index(name) is not None for name in raw.labels)
    letter = letter_index(key) if in_order or not lettered else None
    readings = {at for at in (number, letter) if at is not None and 0 <= at < k}
    equal = _equal(key, raw.choices)
    if len(equal) > 1 and readings <= set(equal):
        raise ItemError(
            f"key is the text of {len(equal)} identical choices; expected its position or letter, or choices that differ"
        )
    readings |= set(equal)
    if len(readings) == 1:
        return readings.pop()
    if len(readings) > 1:
        raise ItemError(
            "key can be read in two ways (a position or letter, and the text of a choice, or of several); "
            "expected one: say which with `fields: {key_is: index|number|letter|text}`"
        )
    if letter is not None:
        return _in_letters(letter, k)
    if number is not None and abs(number) <= MOST:
        return _ranged(number, k, first=0)
    raise ItemError(
        f"key is neither an index, nor a letter, nor the text of a choice; expected {_expected(raw)}"
    )


def _labelled(raw: RawItem, key: str) -> int:
    names = [name.casefold() for name in raw.labels]
    if names.count(key.casefold()) != 1:
        raise ItemError(f"key is none of the {len(names)} labels; expected {_expected(raw)}")
    return names.index(key.casefold())


def _equal(key: str, choices: Sequence[str]) -> list[int]:
    return [at for at, choice in enumerate(choices) if choice.strip() == key]


def letter_index(key: str) -> int | None:
    """The position from 0 of a text that is one letter, in whatever brackets; else None."""
    match = _LETTER.fullmatch(key)
    return ascii_uppercase.index(match[1].upper()) if match else None


def _in_letters(at: int, k: int) -> int:
    if at >= k:
        raise ItemError(f"key {ascii_uppercase[at]}, but only {k} choices (A to {ascii_uppercase[k - 1]})")
    return at


def _ranged(number: int, k: int, *, first: int) -> int:
    if not first <= number < first + k:
        hint = "; counted from 1? say `fields: {key_is: number}`" if (number, first) == (k, 0) else ""
        raise ItemError(f"key {_written(number)}, but only {k} choices ({first} to {first + k - 1}){hint}")
    return number - first


def _expected(raw: RawItem) -> str:
    k = len(raw.choices)
    expected: dict[KeyKind, str] = {
        "auto": f"an index from 0 to {k - 1}, a letter, a label or the text of one choice",
        "index": f"a whole number from 0 to {k - 1}",
        "number": f"a whole number from 1 to {k}",
        "letter": f"a letter from A to {ascii_uppercase[k - 1]}",
        "label": "the label of one choice",
        "text": "the text of exactly one choice",
    }
    return expected[raw.key_is]
