"""Conversion of a file's answer keys to zero-based indices, with one decision for the whole file.

A list of one key is that key. Labels, letters, and texts name a choice by themselves and may be mixed. Numbers are not
mixed with them, because they may count from 0 or 1. An ambiguous key is read in the form that fits all clear keys of the
file, or it is refused. It is never guessed, because a wrong key looks like a hard item.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import unescape
from string import ascii_uppercase

from robustify.base.errors import ItemError, Notice, counted, notice_code
from robustify.base.redaction import HoldsText
from robustify.base.texts import folded
from robustify.items.item import FEWEST, MOST, choice_count_fault
from robustify.reading.columns import label_of_mark
from robustify.reading.loaders.loaded import KeyKind
from robustify.reading.loaders.option_columns import right_count_error, truth, written_list
from robustify.reading.loaders.rows import RawItem, Raws, as_integer, changed, json_kind, require_text
from robustify.reading.marks.labelling import LETTERS, SERIES, Labelled, as_mark, bare_mark
from robustify.reading.marks.picks import NoPick, Picked, equal_options, read_pick

_DIGITS = re.compile(r"(-?\d{1,9})(?:\.0)?")
_BETWEEN = re.compile(r"\s*[,;/&+|、，]\s*(?:and\s+)?|\s+(?:and|or|und|et|y|e|ve)\s+", re.IGNORECASE)
NUMBERED, MARKED = "numbered label", "mark"
"""Names of the key forms in which choices are labeled with numbers, and the right one is marked or has its own column."""
FORMS = {"index": "number from 0", "number": "number from 1"}
"""Names of the key forms that count choices."""
_FORMS: tuple[KeyKind, ...] = ("index", "number", "letter", "label", "text")
LONGEST_MARK = 8
"""Number of characters from which a key is no mark."""
_WORD = re.compile(r"\w+")
_ARTICLES = {"an", "the", "of", "der", "die", "das", "el", "la", "le", "les"}
_MOST_WORDS = 0.5
"""Share of an option's words that a key must repeat to mean this option."""
Readings = dict[KeyKind, tuple[int, ...]]
"""Indices that a key can mean, by form. Identical choices give a form several indices."""


@dataclass(frozen=True, slots=True)
class ReadKey:
    """Index of the correct choice and the form of its key, or a fault (a `Notice`) with values of `key_is` that could
    repair the key."""

    index: int = -1
    form: str = ""
    fault: str = ""
    hints: tuple[KeyKind, ...] = ()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class WrittenKey(HoldsText):
    """Key of an item as written, with the choices that the key could mean in each form, or the key's fault. Rows whose keys
    read alike share one, whose `text` is a letter, a number, or "" for any other text. `kind` is the type of the key, and
    `places` are the choices that it could mean in any form. `other_text` is set if no option is the text after its mark."""

    text: str
    readings: Readings
    key_is: KeyKind
    labels: tuple[str, ...]
    k: int
    kind: str
    places: frozenset[int]
    fault: str = ""
    other_text: bool = False


class WrittenKeys(dict[tuple[object, ...], WrittenKey]):
    """Cache of written keys. Rows whose keys have the same form and meaning share an entry."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[tuple[object, ...], WrittenKey] = {}

    def read(self, raw: RawItem, inside: Labelled | None = None) -> WrittenKey:
        """Return the key of an item with every choice that it could mean, whether numbers count from 0 or from 1. `inside`
        are the labels that its options begin with."""
        # Nearly always, the key is a mark that an earlier row has, and the options neither have its text nor own labels.
        mark = (raw.key, raw.key_is, raw.labels, len(raw.choices)) if type(raw.key) is str else ()
        if (key := self._marks.get(mark)) is not None and not (
            inside or str(raw.key).strip() in map(str.strip, raw.choices)
        ):
            return key
        text, fault, readings, other_text = "", "", Readings(), False
        try:
            text = _key_text(raw)
            readings, other_text = _readings(raw, text, inside)
        except ItemError as error:
            text, fault = "", error.reason
        text = text if _letter(text) is not None or key_number(text) is not None else ""
        form = raw.key_is, raw.labels, len(raw.choices)
        same = text, *form, type(raw.key), fault, other_text, *readings.items()
        if (key := self.get(same)) is None:
            places = frozenset(places_of(readings))
            key = WrittenKey(text, readings, *form, json_kind(raw.key), places, fault, other_text)
            self[same] = key
        if mark and text and readings and "text" not in readings and str(raw.key).strip()[0] not in "[(":
            self._marks[mark] = key
        return key


def read_keys(written: Sequence[WrittenKey], key_is: KeyKind = "index") -> list[ReadKey]:
    """Read the key of each row in a file. A row without a valid key gets the fault instead. `key_is` is the form of the
    file's key column. If it is not "index", an index is the place of a marked option.

    With `key_is="auto"`, a key may be a label, an index, a letter, or the text of exactly one choice, and all possible
    readings must agree on one choice. A hint in a fault names only forms that read every other row."""
    rows = Counter(written)
    by_key = {key: _fitting(key) for key in rows}
    clear = {key: readings for key, readings in by_key.items() if len(places_of(readings)) == 1}
    forms = [form for form in next(iter(clear.values()), ()) if all(form in fits for fits in clear.values())]
    n = sum(rows[key] for key in clear)
    numbers = sum(rows[key] for key, readings in clear.items() if readings.keys() == {"index"})
    # The kind of key that fewer rows have, if numbers and other keys are mixed.
    odd = numbers * 2 <= n if not forms and 0 < numbers < n else None
    read: dict[WrittenKey, ReadKey] = {}
    for key, readings in by_key.items():
        fits = readings if len(readings) < 2 else {form: readings[form] for form in forms if form in readings}
        fits = fits if len(places_of(fits)) == 1 else readings
        if key.fault:
            read[key] = ReadKey(fault=key.fault)
        elif len(places := places_of(fits)) != 1:
            read[key] = _unmatched(key, fits)
        elif odd is not None and (readings.keys() == {"index"}) == odd:
            ours, theirs = ("a number", "letters or texts") if odd else ("a letter or text", "numbers")
            others = counted(max(numbers, n - numbers), "other key")
            text = f"the key is {ours}, but {others} of the file are {theirs}. Write all keys in one form."
            read[key] = ReadKey(fault=Notice(text, code="mixed-key-forms"))
        else:
            form = next(iter(fits))
            counts = (
                form == "label" and key.key_is == "auto" and _numbered(key.labels) and key_number(key.text)
            )
            name = MARKED if key.key_is == "index" != key_is else FORMS.get(form, form)
            read[key] = ReadKey(min(places), NUMBERED if counts else name)
    if any(key.hints for key in read.values()):
        good = [key.readings for key, answer in read.items() if not answer.fault]
        works = {form for form in _FORMS if all(len(readings.get(form, ())) == 1 for readings in good)}
        hinted = {key: answer for key, answer in read.items() if answer.hints}
        for key, answer in hinted.items():
            fault = Notice(answer.fault + key_hint(answer.hints, works), code=notice_code(answer.fault))
            read[key] = replace(answer, fault=fault)
    return [*map(read.__getitem__, written)]


def key_hint(forms: Iterable[KeyKind], works: Collection[KeyKind] = _FORMS) -> str:
    """Return a hint to set `key_is` to one of `forms` that works, or "" if none works."""
    working = [form for form in forms if form in works]
    if not working:
        return ""
    alone = working[0] if len(working) == 1 else "FORM"
    when = {"number": "If keys count from 1, add", "index": "If keys count from 0, add"}
    ways = " or ".join(f"`--map key_is={form}`" for form in working)
    return f". {when.get(alone, 'Choose a form with')} {ways}, or set `fields: {{key_is: {alone}}}` in the config."


def with_alphabet(raws: Raws, texts: Collection[str]) -> Raws:
    """Label the choices of a file with the alphabet of the keys, unless that alphabet is Latin or unclear. `texts`
    are the keys that are shorter than `LONGEST_MARK`."""
    if all(len(text) < 2 and text.isascii() for text in texts):
        return raws
    marks = {mark for text in texts if (mark := bare_mark(text))}
    most = max(len(raw.choices) for raw in raws)
    fitting = [series for series in SERIES if marks and marks <= {*series[:most]}]
    own = {tuple(map(series.index, sorted(marks))): series for series in fitting}
    if len(own) != 1 or (series := own.popitem()[1]) == LETTERS:
        return raws

    def labelled(raw: RawItem) -> RawItem:
        k = len(raw.choices)
        own = k and tuple(map(str.casefold, raw.labels)) in ((), LETTERS[:k])
        return replace(raw, labels=series[:k]) if own else raw

    return changed(raws, labelled)


def places_of(readings: Readings) -> set[int]:
    """Return the indices of all choices that a key may refer to in any form."""
    return {place for places in readings.values() for place in places}


def _readings(raw: RawItem, key: str, inside: Labelled | None = None) -> tuple[Readings, bool]:
    """Return the possible meanings of a key, and whether the text after its mark is not an option."""
    readings = _by_mark(key, raw.labels, len(raw.choices))
    if inside and raw.key_is == "auto" and "letter" in readings:
        _require_same_mark(key, inside, readings)
    equal: Collection[int] = [i for i, choice in enumerate(raw.choices) if choice.strip() == key]
    if not equal and not readings:
        plain = tuple(map(unescape, raw.choices))
        equal = sorted(equal_options(key, raw.choices) or equal_options(unescape(key), plain))
    if equal:
        return {**readings, "text": tuple(equal)}, False
    if readings or _letter(key) is not None or key_number(key) is not None:
        return readings, False
    return _decorated_key(raw, key)


def _require_same_mark(key: str, inside: Labelled, readings: Readings) -> None:
    """Raise `ItemError` if the key is a letter, and the labels in the option texts (`B) red`) would make it name a
    different option than the order of the options."""
    by_label = _by_mark(key, inside.labels, len(inside.labels)).get("label")
    if by_label and by_label != readings.get("label", readings["letter"]):
        raise ItemError(
            "the key is ambiguous, because the letters at the start of the options do not match their order. Remove "
            "these letters, or add `--map key_is=letter` if the key A always means the first option of an item.",
            code="labels-in-other-order",
        )


@lru_cache(4096)
def _by_mark(key: str, labels: tuple[str, ...], k: int) -> Readings:
    letter, number = _letter(key), key_number(key)
    folded = str(number) if number is not None else key.casefold() if letter is None else LETTERS[letter]
    readings: dict[KeyKind, tuple[int, ...]] = {}
    if own := tuple(i for i, name in enumerate(labels) if folded in (name.casefold(), as_mark(name))):
        readings["label"] = own
    if number is not None and 0 <= number < k:
        readings["index"] = (number,)
    if number is not None and 1 <= number <= k:
        readings["number"] = (number - 1,)
    if letter is not None and letter < k:
        readings["letter"] = (letter,)
    return readings


@lru_cache(4096)
def _letter(key: str) -> int | None:
    mark = bare_mark(key)
    return LETTERS.index(mark) if mark in LETTERS else None


@lru_cache(4096)
def key_number(key: str) -> int | None:
    """Return the whole number that a key contains, or None if the key is not a whole number."""
    match = _DIGITS.fullmatch(key)
    return int(match[1]) if match else None


def _fitting(key: WrittenKey) -> Readings:
    unfit = _unfit(key.labels) if key.key_is == "auto" else {*_FORMS} - {key.key_is}
    return {form: places for form, places in key.readings.items() if form not in unfit}


@lru_cache
def _unfit(labels: tuple[str, ...]) -> frozenset[KeyKind]:
    folded = tuple(map(str.casefold, labels))
    # In ARC, the key "1" is the label "1". A letter is an index unless the labels are letters in a different order.
    shuffled = folded != LETTERS[: len(labels)] and not {*LETTERS}.isdisjoint(folded)
    unfit: dict[KeyKind, bool] = {"number": True, "index": _numbered(labels), "letter": shuffled}
    return frozenset(form for form, holds in unfit.items() if holds)


def _numbered(labels: Sequence[str]) -> bool:
    return bool(labels) and all(map(_DIGITS.fullmatch, labels))


def _decorated_key(raw: RawItem, key: str) -> tuple[Readings, bool]:
    """Read a key such as `**B**`, `Answer: B` or `2) blue`. A label and a text must agree."""
    counting = [[str(i + first) for i in range(len(raw.choices))] for first in (0, 1)]
    ways = (raw.labels or None, *(counting if key[:3].strip("([{ ")[:1].isdecimal() else ()))
    read = [read_pick(key, raw.choices, labels) for labels in ways]
    for pick in read:
        if isinstance(pick, Picked) and (pick is read[0] or pick.named_by == "both"):
            if pick.named_by == "explained":
                _require_no_other_text(key, pick.index, raw.choices)
            form: KeyKind = (
                "text" if pick.named_by in ("text", "both") else "label" if raw.labels else "letter"
            )
            return {form: (pick.index,)}, pick.named_by == "explained"
    parts = [*key] if key.isalpha() and key.isupper() else [part for part in _BETWEEN.split(key) if part]
    if 1 < len(parts) <= MOST:
        places = [places_of(_readings(raw, part)[0]) for part in parts]
        if all(places) and len(set().union(*places)) > 1:
            raise right_count_error(len(parts))
    reason = read[0].reason if isinstance(read[0], NoPick) else "no mark"
    if reason == "several options":
        raise right_count_error(2)
    if reason in ("mark and text differ", "mark or text", "mark of several alphabets"):
        raise ItemError(
            f"the key is ambiguous ({reason}); expected {_expected(raw.key_is, len(raw.choices))}",
            code="ambiguous-key",
        )
    return {}, False


def _require_no_other_text(key: str, index: int, choices: Sequence[str]) -> None:
    """Refuse a key such as `A) the coal` if its text fits another option better than the option with its letter."""
    _, *words = _words(key)
    shares = [len(own & {*words}) / len(own) if (own := {*_words(choice)}) else 0.0 for choice in choices]
    if max(shares) > shares[index] and max(shares) >= _MOST_WORDS:
        raise ItemError(
            "the letter and the text of the key contradict each other: the text fits another option",
            code="key-text-of-other-option",
        )


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(folded(text)) if word not in _ARTICLES]


def _key_text(raw: RawItem) -> str:
    if not FEWEST <= len(raw.choices) <= MOST:
        raise ItemError(fault := choice_count_fault(len(raw.choices)), code=fault.code)
    key, expected = _single_key(raw.key, raw.choices), _expected(raw.key_is, len(raw.choices))
    if isinstance(key, bool):
        # JSON's true is the option True, but never the index 1.
        if equal_options(str(key), raw.choices):
            return str(key)
        raise ItemError(
            f"the key is true or false; expected {expected}. Write the text of the right option.",
            code="boolean-key",
        )
    if (number := as_integer(key)) is not None:
        return str(number) if abs(number) < 10**9 else "with more than 9 digits"
    if isinstance(key, float) and math.isfinite(key):
        return repr(key)
    if not isinstance(key, str):
        member = ". Name its member, as in `--map key=NAME.NAME`" if isinstance(key, Mapping) else ""
        raise ItemError(f"the key is {json_kind(key)}; expected {expected}{member}", code="key-type")
    if not (text := require_text(key, "key").strip()):
        raise ItemError(f"the key is empty; expected {expected}", code="empty-key")
    return text


def _single_key(key: object, choices: Sequence[str]) -> object:
    """Return the only key in a list (which may be written as text), or the only key that an object marks as true.
    Return any other key unchanged."""
    if isinstance(key, str):
        listed = written_list(key, len(choices))
        key = listed if listed is not key and not equal_options(key, tuple(choices)) else key
    if isinstance(key, Mapping) and key and all(truth(mark) in (True, False) for mark in key.values()):
        marked = [label_of_mark(str(name)) for name, mark in key.items() if truth(mark)]
        if len(marked) != 1:
            raise right_count_error(len(marked))
        return marked[0]
    if not isinstance(key, list | tuple):
        return key
    marks = [truth(member) for member in key]
    if len(key) == len(choices) > 2 and all(mark in (True, False) for mark in marks):
        if sum(map(bool, marks)) != 1:
            raise right_count_error(sum(map(bool, marks)))
        return marks.index(True)
    distinct = list({str(member): member for member in key if member not in (None, "")}.values())
    if len(distinct) > 1:
        raise right_count_error(len(distinct))
    return distinct[0] if distinct else ""


def _unmatched(key: WrittenKey, readings: Readings) -> ReadKey:
    k, equal, letter, number = key.k, readings.get("text", ()), _letter(key.text), key_number(key.text)
    auto, counts, first = key.key_is == "auto", key.key_is in FORMS, int(key.key_is == "number")
    hints: tuple[KeyKind, ...] = ()
    if places_of(readings) - {*equal}:
        ways = ", ".join(f"choice {places[0] + 1} as {form}" for form, places in readings.items())
        text, hints = f"the key is ambiguous ({ways}), and no other row resolves it", (*readings,)
        fault = Notice(text, code="ambiguous-key")
    elif len(equal) > 1:
        advice = "Give its index or letter, or make the choices differ."
        text = f"the key is the text of {len(equal)} identical choices. {advice}"
        fault = Notice(text, code="key-of-identical-choices")
    elif letter is not None and (auto or key.key_is == "letter"):
        last = ascii_uppercase[k - 1]
        text = f"the key is {ascii_uppercase[letter]}, but there are only {k} choices (A to {last})"
        text += "; fill in an empty choice, or correct the key"
        fault = Notice(text, code="key-out-of-range")
    elif number is not None and auto and _numbered(key.labels):
        fault = Notice(f"the key is not one of the {k} labels", code="no-such-label")
        hints = ("index",) if 0 <= number < k else ()
    elif number is not None and (counts or (auto and abs(number) <= MOST)):
        text = f"the key is {number}, but there are only {k} choices ({first} to {first + k - 1})"
        fault = Notice(text, code="key-out-of-range")
        hints = ("number",) if (number, first) == (k, 0) else ()
    elif counts or key.key_is == "letter":
        fault = Notice(f"the key is {key.kind}; expected {_expected(key.key_is, k)}", code="key-type")
    else:
        text = (
            f"the key is {key.kind} that matches no choice; expected {_expected(key.key_is, k)}. Correct such keys, or set "
            "their rows aside with --skip-bad."
        )
        fault = Notice(text, code="key-of-no-choice")
    return ReadKey(fault=fault, hints=hints)


def _expected(key_is: KeyKind, k: int) -> str:
    return {
        "auto": f"an index from 0 to {k - 1}, a letter, a label, or the text of one choice",
        "index": f"a whole number from 0 to {k - 1}",
        "number": f"a whole number from 1 to {k}",
        "letter": f"a letter from A to {ascii_uppercase[k - 1]}",
        "label": "the label of one choice",
        "text": "the text of exactly one choice",
    }[key_is]
