"""Conversion of answer keys to zero-based indices, and removal of prompt words and labels from stems and choices.

Prompt words and choice labels are removed only if every row of the file has them, because robustify writes its own
prompts. An ambiguous key is read as the other rows of the file are, or refused. It is never guessed, because a wrong key
looks like a hard item.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from string import ascii_uppercase

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.loaded import KeyKind
from robustify.loaders.rows import RawItem, json_kind, require_text, whole
from robustify.texts import is_blank, undressed, unspaced

_LEAD, _TAIL = "Question: ", "\nAnswer:"
_LABEL = re.compile(
    r"\s*(?:\(([a-z]|[0-9]{1,2})\)|([a-z]|[0-9]{1,2})[.):](?=\s)|([a-z])\)|([a-z])[.:](?=\w\w))\s?",
    re.IGNORECASE,
)
"""Match `(A)`, `A) `, or `1. `. Only a letter needs no space after it: `1.5` is a number and `A.D.` is a date."""
_LABELS = [*zip(ascii_uppercase, map(str, range(26)), map(str, range(1, 27)), strict=True)]


def bare_stems(raws: Sequence[RawItem]) -> tuple[RawItem, ...]:
    """Remove `Question: ` and `Answer:` from the stems if all stems have them."""
    lead = _LEAD if all(raw.stem.startswith(_LEAD) for raw in raws) else ""
    stems = [raw.stem.removeprefix(lead) for raw in raws]
    tail = _TAIL if all(stem.endswith(_TAIL) for stem in stems) else ""
    if not lead and not tail:
        return tuple(raws)
    return tuple(replace(raw, stem=stem.removesuffix(tail)) for raw, stem in zip(raws, stems, strict=True))


def own_labels(choices: Sequence[str]) -> tuple[str, ...]:
    """Return the labels inside the choices, in upper case, if they form a series such as A, B, C. Otherwise, return ()."""
    first = _LABEL.match(choices[0]) if choices else None
    if first is None:
        return ()
    labels = [(mark[mark.lastindex or 1]).upper() for c in choices if (mark := _LABEL.match(c))]
    wanted = [sorted(kind) for kind in zip(*_LABELS[: len(choices)], strict=True)]
    return tuple(labels) if sorted(labels) in wanted else ()


def bare_choices(raws: Sequence[RawItem]) -> tuple[RawItem, ...]:
    """Remove the label from each choice, such as "(A) red", if every choice of the file has one. A key that is a label
    names the choice with this label, even if the labels are not in order."""
    found: list[tuple[str, ...]] = []
    for raw in raws:
        if not (labels := own_labels(raw.choices)):
            return tuple(raws)
        found.append(labels)
    return tuple(_bare(raw, labels) for raw, labels in zip(raws, found, strict=True))


def _bare(raw: RawItem, labels: tuple[str, ...]) -> RawItem:
    texts = undressed([_LABEL.sub("", choice, count=1) for choice in raw.choices])
    if any(map(is_blank, texts)):
        # A choice that is only "A." keeps it as its text.
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


_DIGITS = re.compile(r"(-?[0-9]{1,9})(?:\.0)?")
_LETTER = re.compile(r"\(?([A-Za-z])[.):]?")
_FORMS = {"index": "number from 0", "number": "number from 1"}
NUMBERED = "numbered label"
"""Name of the key form in which choices are labelled with numbers."""
ROWS_THAT_TELL = 50
ALMOST_NEVER = 1e-4
Readings = dict[KeyKind, tuple[int, ...]]
"""Indices that a key can mean, by form. Identical choices give a form several indices."""


@dataclass(frozen=True, slots=True)
class ReadKey:
    """Zero-based index of the correct choice and the form of its key, or the reason why the key cannot be read."""

    index: int = -1
    form: str = ""
    fault: str = ""


def read_key(raw: RawItem, found: Readings | None = None) -> ReadKey:
    """Read the key of a row.

    With `key_is="auto"`, a key may be a label, a zero-based index, a letter, or the text of exactly one choice. The text
    may start with the label of the choice, and its case may differ. All possible readings must agree on one choice. Raise
    `ItemError` if the key is missing, ambiguous, out of range, or of another type, or if the number of choices is
    invalid."""
    k = len(raw.choices)
    if not FEWEST <= k <= MOST:
        raise ItemError(f"expected {FEWEST} to {MOST} choices, found {k}")
    key = _written(raw)
    if raw.key_is == "auto":
        return _only_reading(raw, key, readings(raw, key) if found is None else found)
    positions = _all_readings(raw, key).get(raw.key_is, ())
    if len(positions) == 1:
        return _found(positions[0], raw.key_is)
    raise ItemError(_why_unmatched(raw, key, len(positions)))


def read_keys(raws: Sequence[RawItem]) -> list[ReadKey]:
    """Read the key of each row in a file. A row without a valid key gets the fault instead. An ambiguous key is read in
    the form that fits all unambiguous keys of the file."""
    out: list[ReadKey] = []
    unclear: dict[int, Readings] = {}
    forms: list[KeyKind] | None = None
    for at, raw in enumerate(raws):
        one = _readings_or_none(raw)
        if len(_positions(one)) == 1:
            forms = [form for form in (one if forms is None else forms) if form in one]
            out.append(_key_or_fault(raw, one))
        else:
            unclear[at] = one
            out.append(_UNREAD)
    for at, one in unclear.items():
        fits = {form: one[form] for form in forms or () if form in one}
        out[at] = _key_or_fault(raws[at], fits if len(_positions(fits)) == 1 else one)
    return out


_UNREAD = ReadKey()


def _key_or_fault(raw: RawItem, found: Readings) -> ReadKey:
    try:
        return read_key(raw, found)
    except ItemError as error:
        return ReadKey(fault=str(error))


@cache
def _found(index: int, form: str) -> ReadKey:
    return ReadKey(index, _FORMS.get(form, form))


def positions(raw: RawItem) -> set[int]:
    """Return the indices of all choices that a key could mean, with numbers counted from 0 or from 1. Return an empty
    set if the key is unreadable."""
    number = _DIGITS.fullmatch(str(raw.key).strip())
    counted = {int(number[1]), int(number[1]) - 1} if number else set()
    return _positions(_readings_or_none(raw)) | (counted & {*range(len(raw.choices))})


def _numbered(labels: Sequence[str]) -> bool:
    return bool(labels) and all(map(_DIGITS.fullmatch, labels))


def _readings_or_none(raw: RawItem) -> Readings:
    try:
        return readings(raw, _written(raw)) if raw.key_is == "auto" else {}
    except ItemError:
        return {}


def readings(raw: RawItem, key: str) -> Readings:
    """Map each form of key, such as `letter`, to the choices that the key would mean. Try loose text matches last."""
    found = _all_readings(raw, key)
    labels = [name.casefold() for name in raw.labels]
    found.pop("number", None)
    # In ARC, the key "1" is the label "1". A letter is an index unless the labels are letters in another order.
    if _numbered(labels):
        found.pop("index", None)
    in_order = labels == [*ascii_uppercase[: len(labels)].casefold()]
    if not in_order and any(letter_index(name) is not None for name in labels):
        found.pop("letter", None)
    if not found and (mark := _LABEL.match(key)) and (equal := _equal(key[mark.end() :], raw.choices)):
        # In "B) blue", label and text must name the same choice.
        named = _all_readings(raw, mark[mark.lastindex or 1])
        named.pop("text", None)
        if named:
            found = {"text": equal} if set(equal) & _positions(named) else {**named, "text": equal}
    return found


def _all_readings(raw: RawItem, key: str) -> Readings:
    k, letter, match = len(raw.choices), letter_index(key), _DIGITS.fullmatch(key)
    folded = match[1] if match else key.casefold()
    found: Readings = {"label": tuple(at for at, name in enumerate(raw.labels) if name.casefold() == folded)}
    if match:
        number = int(match[1])
        found |= {"index": (number,) * (0 <= number < k), "number": (number - 1,) * (1 <= number <= k)}
    if letter is not None and letter < k:
        found["letter"] = (letter,)
    found["text"] = _equal(key, raw.choices, loosely=not any(found.values()))
    return {form: positions for form, positions in found.items() if positions}


def _positions(found: Readings) -> set[int]:
    return {at for positions in found.values() for at in positions}


def count_from_one(raws: Iterable[RawItem]) -> bool:
    """Return whether whole-number keys appear to count from 1, judging by their values.

    At least 50 keys must be between 1 and the number of choices. Either one key equals the number of choices, or random
    keys would avoid 0 with a probability (product of 1 - 1/k) below 1 in 10,000."""
    n, reached, log_chance = 0, False, 0.0
    for raw in raws:
        if (number := _ambiguous_number(raw)) is None:
            continue
        k = len(raw.choices)
        if not 1 <= number <= k:
            return False
        n, reached = n + 1, reached or number == k
        log_chance += math.log1p(-1 / k) if k > 1 else -math.inf
    return n >= ROWS_THAT_TELL and (reached or log_chance < math.log(ALMOST_NEVER))


def _ambiguous_number(raw: RawItem) -> int | None:
    """Return a numeric key that does not tell whether keys count from 0 or 1. Return None for any other key."""
    plain = raw.key_is == "auto" and isinstance(raw.key, int | float | str) and not isinstance(raw.key, bool)
    match = _DIGITS.fullmatch(str(raw.key).strip()) if plain and raw.choices else None
    return None if match is None or {"label", "text"} & set(_readings_or_none(raw)) else int(match[1])


def _written(raw: RawItem) -> str:
    """Return the key as a string. Raise `ItemError` if it is empty, or neither a number nor text."""
    key: object = raw.key
    if (number := whole(key)) is not None:
        return str(number) if abs(number) < 10**9 else "with more than 9 digits"
    if isinstance(key, float) and math.isfinite(key):
        return repr(key)
    if not isinstance(key, str):
        raise ItemError(f"the key is {json_kind(key)}; expected {_expected(raw)}")
    if not (text := require_text(key, "key").strip()):
        raise ItemError(f"the key is empty; expected {_expected(raw)}")
    return text


def _only_reading(raw: RawItem, key: str, found: Readings) -> ReadKey:
    positions = _positions(found)
    if len(positions) == 1:
        form = next(iter(found))
        counts = form == "label" and _numbered(raw.labels) and _DIGITS.fullmatch(key)
        return _found(positions.pop(), NUMBERED if counts else form)
    equal = found.get("text", ())
    if positions - set(equal):
        ways = ", ".join(f"choice {at[0] + 1} as {form}" for form, at in found.items())
        forms = " or ".join(f"`--map key_is={form}`" for form in found)
        raise ItemError(
            f"the key is ambiguous ({ways}), and no other row resolves it. Choose a form with {forms}, or set "
            "`fields: {key_is: FORM}` in the config."
        )
    raise ItemError(_why_unmatched(raw, key, len(equal)))


def _why_unmatched(raw: RawItem, key: str, n: int) -> str:
    """Return why a key matches no choice, or why its text matches `n` identical choices."""
    k, letter, number = len(raw.choices), letter_index(key), _DIGITS.fullmatch(key)
    counted = raw.key_is in ("index", "number")
    first = int(raw.key_is == "number")
    if n > 1:
        return f"the key is the text of {n} identical choices. Give its index or letter, or make the choices differ."
    if raw.key_is in ("auto", "letter") and letter is not None:
        return f"the key is {ascii_uppercase[letter]}, but there are only {k} choices (A to {ascii_uppercase[k - 1]})"
    if raw.key_is == "auto" and number and _numbered(raw.labels):
        return f"the key is not one of the {k} labels. If keys count from 0, add `--map key_is=index`."
    if number and (counted or (raw.key_is == "auto" and abs(int(number[1])) <= MOST)):
        hint = (
            ". If keys count from 1, set `fields: {key_is: number}`."
            if (number[1], first) == (str(k), 0)
            else ""
        )
        return f"the key is {number[1]}, but there are only {k} choices ({first} to {first + k - 1}){hint}"
    strange = len(key.strip("().:")) == 1 and not key.isascii()
    what = "a letter or digit of another script" if strange else json_kind(raw.key)
    unnamed = "" if counted or raw.key_is == "letter" else " that matches no choice"
    return f"the key is {what}{unnamed}; expected {_expected(raw)}"


def _equal(key: str, choices: Sequence[str], *, loosely: bool = True) -> tuple[int, ...]:
    """Return the indices of the choices with this text. If no choice matches exactly and `loosely` is set, ignore white
    space, then also case."""
    bare = unspaced(key)
    for same in (str.strip, unspaced, lambda text: unspaced(text).casefold())[: None if loosely else 1]:
        wanted = same(key)
        if bare and (found := tuple(at for at, choice in enumerate(choices) if same(choice) == wanted)):
            return found
    return ()


def letter_index(key: str) -> int | None:
    """Return the zero-based index of a single letter, with or without brackets. Return None for any other text."""
    match = _LETTER.fullmatch(key)
    return ascii_uppercase.index(match[1].upper()) if match else None


def _expected(raw: RawItem) -> str:
    k = len(raw.choices)
    expected: dict[KeyKind, str] = {
        "auto": f"an index from 0 to {k - 1}, a letter, a label, or the text of one choice",
        "index": f"a whole number from 0 to {k - 1}",
        "number": f"a whole number from 1 to {k}",
        "letter": f"a letter from A to {ascii_uppercase[k - 1]}",
        "label": "the label of one choice",
        "text": "the text of exactly one choice",
    }
    return expected[raw.key_is]
