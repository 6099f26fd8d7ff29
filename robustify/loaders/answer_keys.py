"""Conversion of the answer keys of a file to zero-based indices: one decision for the whole file.

| form | base | key of the third choice of `A. red  B. green  C. blue` |
|---|---|---|
| `label` | | `C`, or `3` if the choices are labelled with numbers |
| `letter` | | `C`, `(c)` |
| `text` | | `blue`, `C) blue` |
| `index` | 0 | `2` |
| `number` | 1 | `3` |

A list of one key is that key. Labels, letters, and texts name a choice by themselves and may be mixed. Numbers are not
mixed with them, because nothing tells how they count. An ambiguous key is read in the form that fits all clear keys of the
file, or it is refused. It is never guessed, because a wrong key looks like a hard item.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from string import ascii_lowercase, ascii_uppercase

from robustify.errors import ItemError, counted
from robustify.item import FEWEST, MOST
from robustify.loaders.choices import SeveralRightError, literal, truth
from robustify.loaders.loaded import KeyKind
from robustify.loaders.rows import RawItem, json_kind, require_text, whole
from robustify.marks.labelling import LETTERS, SERIES, bare_mark
from robustify.marks.picks import Picked, Unreadable, read_pick
from robustify.texts import unspaced

_DIGITS = re.compile(r"(-?[0-9]{1,9})(?:\.0)?")
_LETTER = re.compile(r"\(?([A-Za-z])[.):]?")
_BETWEEN = re.compile(r"\s*[,;/&+|、，]\s*(?:and\s+)?|\s+(?:and|or|und|et|y|e|ve)\s+", re.IGNORECASE)
_FORMS = {"index": "number from 0", "number": "number from 1"}
COUNTED = frozenset(_FORMS.values())
"""Forms of keys that count choices."""
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


class KeyFaultError(ItemError):
    """Error for an unreadable key. `forms` are values of `key_is` under which this row could be read."""

    def __init__(self, reason: str, forms: Sequence[KeyKind] = ()) -> None:
        super().__init__(reason)
        self.forms = tuple(forms)


def read_keys(raws: Sequence[RawItem]) -> list[ReadKey]:
    """Read the key of each row in a file. A row without a valid key gets the fault instead.

    A hint in a fault names only forms that read every row whose key can be read."""
    raws = _with_alphabet(raws)
    found = [_readings_or_none(raw) for raw in raws]
    clear = [one for one in found if len(_positions(one)) == 1]
    forms = [form for form in clear[0] if all(form in one for one in clear)] if clear else []
    number_rows = sum(_is_number(one) for one in clear)
    mixed = not forms and 0 < number_rows < len(clear)
    out: list[ReadKey] = []
    faults: dict[int, KeyFaultError] = {}
    for at, (raw, one) in enumerate(zip(raws, found, strict=True)):
        fits = {form: one[form] for form in forms if form in one}
        meant = fits if len(_positions(fits)) == 1 else one
        try:
            if mixed and len(_positions(one)) == 1 and _is_number(one) == (number_rows * 2 <= len(clear)):
                raise KeyFaultError(_why_mixed(number_rows, len(clear)))
            out.append(read_key(raw, meant))
        except KeyFaultError as error:
            faults[at] = error
            out.append(_UNREAD)
        except ItemError as error:
            out.append(ReadKey(fault=str(error)))
    wanted = {form for fault in faults.values() for form in fault.forms}
    others = [at for at, key in enumerate(out) if not key.fault and at not in faults]
    works = {form for form in wanted if all(_reads(raws[at], form) for at in others)}
    for at, fault in faults.items():
        out[at] = ReadKey(fault=str(fault) + _hint([form for form in fault.forms if form in works]))
    return out


_UNREAD = ReadKey()


def _with_alphabet(raws: Sequence[RawItem]) -> Sequence[RawItem]:
    """Label the choices of a file with the alphabet in which its keys are written, unless it is Latin or unclear."""
    if all(not isinstance(raw.key, str) or raw.key.isascii() for raw in raws):
        return raws
    marks = {mark for raw in raws if isinstance(raw.key, str) and (mark := bare_mark(raw.key))}
    most = max(len(raw.choices) for raw in raws)
    own = {tuple(map(one.index, sorted(marks))): one for one in SERIES if marks and marks <= {*one[:most]}}
    if len(own) != 1 or (series := own.popitem()[1]) == LETTERS:
        return raws
    latin = {(), *(LETTERS[:k] for k in range(MOST + 1))}
    return [
        replace(raw, labels=series[: len(raw.choices)])
        if tuple(map(str.casefold, raw.labels)) in latin
        else raw
        for raw in raws
    ]


def _is_number(found: Readings) -> bool:
    return set(found) == {"index"}


def _why_mixed(numbers: int, n: int) -> str:
    ours, theirs = ("a number", "letters or texts") if numbers * 2 <= n else ("a letter or text", "numbers")
    most = max(numbers, n - numbers)
    return f"the key is {ours}, but {counted(most, 'other key')} of the file are {theirs}. Write all keys in one form."


def _hint(forms: Sequence[KeyKind]) -> str:
    if not forms:
        return ""
    ways = " or ".join(f"`--map key_is={form}`" for form in forms)
    given = "FORM" if len(forms) > 1 else forms[0]
    when = ". If keys count from 1, add" if forms == ["number"] else ". If keys count from 0, add"
    when = when if set(forms) <= {"number", "index"} else ". Choose a form with"
    return f"{when} {ways}, or set `fields: {{key_is: {given}}}` in the config."


def reads_all(raws: Sequence[RawItem], form: KeyKind) -> bool:
    """Return whether every key of a file names one choice in this form."""
    return all(_reads(raw, form) for raw in raws)


def _reads(raw: RawItem, form: KeyKind) -> bool:
    try:
        read_key(replace(raw, key_is=form))
    except ItemError:
        return False
    return True


def read_key(raw: RawItem, found: Readings | None = None) -> ReadKey:
    """Read the key of a row.

    With `key_is="auto"`, a key may be a label, a zero-based index, a letter, or the text of exactly one choice. The text
    may start with the label of the choice, and its case may differ. All possible readings must agree on one choice. Raise
    `ItemError` if the key is missing, ambiguous, out of range, or of another type, or if the number of choices is
    invalid. Raise `SeveralRightError` if it names several choices."""
    k = len(raw.choices)
    if not FEWEST <= k <= MOST:
        raise ItemError(f"expected {FEWEST} to {MOST} choices, found {k}")
    key = _written(raw)
    if raw.key_is == "auto":
        return _only_reading(raw, key, found or readings(raw, key))
    positions = _all_readings(raw, key).get(raw.key_is, ())
    if len(positions) == 1:
        return _found(positions[0], raw.key_is)
    raise _unmatched(raw, key, len(positions))


@cache
def _found(index: int, form: str) -> ReadKey:
    return ReadKey(index, _FORMS.get(form, form))


def positions(raw: RawItem) -> set[int]:
    """Return the indices of all choices that a key could mean, with numbers counted from 0 or from 1. Return an empty
    set if the key is unreadable."""
    number = _DIGITS.fullmatch(str(raw.key).strip())
    counts = {int(number[1]), int(number[1]) - 1} if number else set()
    return _positions(_readings_or_none(raw)) | (counts & {*range(len(raw.choices))})


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
    found.pop("number", None)
    # In ARC, the key "1" is the label "1". A letter is an index unless the labels are letters in another order.
    if _numbered(raw.labels):
        found.pop("index", None)
    labels = [name.casefold() for name in raw.labels]
    if labels != [*ascii_lowercase[: len(labels)]] and any(letter_index(name) is not None for name in labels):
        found.pop("letter", None)
    return found


def _all_readings(raw: RawItem, key: str) -> Readings:
    k, letter, match = len(raw.choices), letter_index(key), _DIGITS.fullmatch(key)
    folded = match[1] if match else key.casefold() if letter is None else LETTERS[letter]
    found: Readings = {"label": tuple(at for at, name in enumerate(raw.labels) if name.casefold() == folded)}
    if match:
        number = int(match[1])
        found |= {"index": (number,) * (0 <= number < k), "number": (number - 1,) * (1 <= number <= k)}
    if letter is not None and letter < k:
        found["letter"] = (letter,)
    found["text"] = _equal(key, raw.choices, loosely=not any(found.values()))
    found = {form: places for form, places in found.items() if places}
    return found or (_marked(raw, key) if letter is None and match is None else {})


def _marked(raw: RawItem, key: str) -> Readings:
    """Read a key in other dress or script, such as `**B**`, `Answer: B` or `2) blue`. A label and a text must agree."""
    counting = [[str(at + first) for at in range(len(raw.choices))] for first in (0, 1)]
    ways = (raw.labels or None, *(counting if key[:3].strip("([{ ")[:1].isdecimal() else ()))
    read = [read_pick(key, raw.choices, labels) for labels in ways]
    for one in read:
        if isinstance(one, Picked) and (one is read[0] or one.how == "both"):
            form: KeyKind = "text" if one.how in ("text", "both") else "label" if raw.labels else "letter"
            return {form: (one.index,)}
    parts = [*key] if key.isalpha() and key.isupper() else [part for part in _BETWEEN.split(key) if part]
    if 1 < len(parts) <= MOST:
        named = [_positions(_all_readings(raw, part)) for part in parts]
        if all(named) and len(set().union(*named)) > 1:
            raise SeveralRightError(len(parts))
    match read[0]:
        case Unreadable(reason="several options"):
            raise SeveralRightError(2)
        case Unreadable(
            reason="mark and text differ" | "mark or text" | "mark of several alphabets" as reason
        ):
            raise ItemError(f"the key is ambiguous ({reason}); expected {_expected(raw)}")
    return {}


def _positions(found: Readings) -> set[int]:
    return {at for places in found.values() for at in places}


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
    if raw.key_is != "auto" or not raw.choices:
        return None
    try:
        key = _written(raw)
    except ItemError:
        return None
    match = _DIGITS.fullmatch(key)
    return None if match is None or {"label", "text"} & set(readings(raw, key)) else int(match[1])


def _written(raw: RawItem) -> str:
    """Return the key as a string. Raise `ItemError` if it is empty, or neither a number nor text, nor a list of one.
    Raise `SeveralRightError` if it is a list of several keys."""
    key = _lone(raw.key, raw.choices)
    if (number := whole(key)) is not None:
        return str(number) if abs(number) < 10**9 else "with more than 9 digits"
    if isinstance(key, float) and math.isfinite(key):
        return repr(key)
    if not isinstance(key, str):
        raise ItemError(f"the key is {json_kind(key)}; expected {_expected(raw)}")
    if not (text := require_text(key, "key").strip()):
        raise ItemError(f"the key is empty; expected {_expected(raw)}")
    return text


def _lone(key: object, choices: Sequence[str]) -> object:
    """Return the only key of a list, which may be written as text. Return any other key unchanged."""
    if isinstance(key, str) and key.lstrip()[:1] in ("[", "(") and key.rstrip()[-1:] in ("]", ")"):
        written = None if _equal(key, choices) else literal(key)
        key = written if isinstance(written, list | tuple) else key
    if not isinstance(key, list | tuple):
        return key
    if len(key) == len(choices) > 2 and sorted(map(truth, key), key=bool) == [False] * (len(key) - 1) + [
        True
    ]:
        return next(at for at, one in enumerate(key) if truth(one))
    distinct = list({str(one): one for one in key if one not in (None, "")}.values())
    if len(distinct) > 1:
        raise SeveralRightError(len(distinct))
    return distinct[0] if distinct else ""


def _only_reading(raw: RawItem, key: str, found: Readings) -> ReadKey:
    places = _positions(found)
    if len(places) == 1:
        form = next(iter(found))
        counts = form == "label" and _numbered(raw.labels) and _DIGITS.fullmatch(key)
        return _found(places.pop(), NUMBERED if counts else form)
    equal = found.get("text", ())
    if places - set(equal):
        ways = ", ".join(f"choice {at[0] + 1} as {form}" for form, at in found.items())
        raise KeyFaultError(f"the key is ambiguous ({ways}), and no other row resolves it", [*found])
    raise _unmatched(raw, key, len(equal))


def _unmatched(raw: RawItem, key: str, n: int) -> KeyFaultError:
    """Return why a key matches no choice, or why its text matches `n` identical choices."""
    k, letter, number = len(raw.choices), letter_index(key), _DIGITS.fullmatch(key)
    counts = raw.key_is in ("index", "number")
    first = int(raw.key_is == "number")
    if n > 1:
        return KeyFaultError(
            f"the key is the text of {n} identical choices. Give its index or letter, or make the choices differ."
        )
    if raw.key_is in ("auto", "letter") and letter is not None:
        last = ascii_uppercase[k - 1]
        return KeyFaultError(
            f"the key is {ascii_uppercase[letter]}, but there are only {k} choices (A to {last})"
        )
    if raw.key_is == "auto" and number and _numbered(raw.labels):
        return KeyFaultError(f"the key is not one of the {k} labels", ["index"])
    if number and (counts or (raw.key_is == "auto" and abs(int(number[1])) <= MOST)):
        reason = f"the key is {number[1]}, but there are only {k} choices ({first} to {first + k - 1})"
        return KeyFaultError(reason, ["number"] if (number[1], first) == (str(k), 0) else [])
    unnamed = "" if counts or raw.key_is == "letter" else " that matches no choice"
    return KeyFaultError(f"the key is {json_kind(raw.key)}{unnamed}; expected {_expected(raw)}")


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
