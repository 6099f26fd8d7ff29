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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from robustify.errors import ItemError, counted
from robustify.item import FEWEST, MOST
from robustify.loaders.choices import SeveralRightError, literal, truth
from robustify.loaders.loaded import KeyKind
from robustify.loaders.rows import RawItem, json_kind, require_text, whole
from robustify.marks.labelling import LETTERS, SERIES, bare_mark, fold
from robustify.marks.picks import Picked, Unreadable, equal_options, read_pick

_DIGITS = re.compile(r"(-?[0-9]{1,9})(?:\.0)?")
_BETWEEN = re.compile(r"\s*[,;/&+|、，]\s*(?:and\s+)?|\s+(?:and|or|und|et|y|e|ve)\s+", re.IGNORECASE)
NUMBERED = "numbered label"
"""Name of the key form in which choices are labelled with numbers."""
FORMS = {"index": "number from 0", "number": "number from 1"}
"""Names of the key forms that count choices."""
_FORMS: tuple[KeyKind, ...] = ("index", "number", "letter", "label", "text")
_LONGEST_MARK = 8
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

    With `key_is="auto"`, a key may be a label, an index, a letter, or the text of exactly one choice, and all possible
    readings must agree on one choice. A hint in a fault names only forms that read every other row."""
    raws = _with_alphabet(raws)
    found = [_readings_or_fault(raw) for raw in raws]
    meant = [_meant(raw, one) if isinstance(one, dict) else {} for raw, one in zip(raws, found, strict=True)]
    clear = [one for one in meant if len(_places(one)) == 1]
    forms = [form for form in clear[0] if all(form in one for one in clear)] if clear else []
    numbers = sum(set(one) == {"index"} for one in clear)
    odd = numbers * 2 <= len(clear) if not forms and 0 < numbers < len(clear) else None
    out: list[ReadKey | KeyFaultError] = []
    for raw, every, one in zip(raws, found, meant, strict=True):
        fits = {form: one[form] for form in forms if form in one}
        read = fits if len(_places(fits)) == 1 else one
        if isinstance(every, ItemError):
            out.append(ReadKey(fault=str(every)))
        elif len(_places(read)) != 1:
            out.append(_unmatched(raw, read))
        elif odd is not None and (set(one) == {"index"}) == odd:
            out.append(_mixed(odd, max(numbers, len(clear) - numbers)))
        else:
            form = next(iter(read))
            counts = form == "label" and raw.key_is == "auto" and _numbered(raw.labels) and _is_number(raw)
            out.append(ReadKey(min(_places(read)), NUMBERED if counts else FORMS.get(form, form)))
    good = [one for one, key in zip(found, out, strict=True) if isinstance(key, ReadKey) and not key.fault]
    works = {
        form for form in _FORMS if all(isinstance(one, dict) and len(one.get(form, ())) == 1 for one in good)
    }
    return [
        key if isinstance(key, ReadKey) else ReadKey(fault=f"{key}{key_hint(key.forms, works)}")
        for key in out
    ]


def key_hint(forms: Iterable[KeyKind], works: Collection[KeyKind] = _FORMS) -> str:
    """Return how to set the form of the key to one of those that work, or "" if none of them does."""
    left = [form for form in forms if form in works]
    if not left:
        return ""
    when = "If keys count from 1, add" if left == ["number"] else "If keys count from 0, add"
    when = when if set(left) < FORMS.keys() else "Choose a form with"
    ways = " or ".join(f"`--map key_is={form}`" for form in left)
    return f". {when} {ways}, or set `fields: {{key_is: {left[0] if len(left) == 1 else 'FORM'}}}` in the config."


def _with_alphabet(raws: Sequence[RawItem]) -> Sequence[RawItem]:
    """Label the choices of a file with the alphabet in which its keys are written, unless it is Latin or unclear."""
    texts = {raw.key.strip() for raw in raws if isinstance(raw.key, str) and len(raw.key) < _LONGEST_MARK}
    if all(len(text) < 2 and text.isascii() for text in texts):
        return raws
    marks = {mark for text in texts if (mark := bare_mark(text))}
    most = max(len(raw.choices) for raw in raws)
    own = {tuple(map(one.index, sorted(marks))): one for one in SERIES if marks and marks <= {*one[:most]}}
    if len(own) != 1 or (series := own.popitem()[1]) == LETTERS:
        return raws
    return [
        replace(raw, labels=series[:k])
        if (k := len(raw.choices)) and tuple(map(str.casefold, raw.labels)) in ((), LETTERS[:k])
        else raw
        for raw in raws
    ]


def _readings_or_fault(raw: RawItem) -> Readings | ItemError:
    try:
        return _readings(raw, _written(raw))
    except ItemError as error:
        return error


def positions(raw: RawItem) -> set[int]:
    """Return the indices of all choices that a key could mean, with numbers counted from 0 or from 1. Return an empty
    set if the key is unreadable."""
    found = _readings_or_fault(raw)
    return _places(found) if isinstance(found, dict) else set()


def _places(found: Readings) -> set[int]:
    return {at for places in found.values() for at in places}


def _readings(raw: RawItem, key: str) -> Readings:
    """Map each form of key, such as `letter`, to the choices that the key would mean. Try loose text matches last."""
    k, letter, match = len(raw.choices), _letter(key), _DIGITS.fullmatch(key)
    folded = match[1] if match else key.casefold() if letter is None else LETTERS[letter]
    found: Readings = {
        "label": tuple(at for at, name in enumerate(raw.labels) if folded in (name.casefold(), fold(name)))
    }
    if match:
        number = int(match[1])
        found |= {"index": (number,) * (0 <= number < k), "number": (number - 1,) * (1 <= number <= k)}
    if letter is not None and letter < k:
        found["letter"] = (letter,)
    found["text"] = tuple(at for at, choice in enumerate(raw.choices) if choice.strip() == key)
    if not any(found.values()):
        found["text"] = tuple(sorted(equal_options(key, raw.choices)))
    found = {form: places for form, places in found.items() if places}
    return found or (_marked(raw, key) if letter is None and match is None else {})


def _meant(raw: RawItem, found: Readings) -> Readings:
    if raw.key_is != "auto":
        return {form: places for form, places in found.items() if form == raw.key_is}
    labels = tuple(map(str.casefold, raw.labels))
    # In ARC, the key "1" is the label "1". A letter is an index unless the labels are letters in another order.
    shuffled = labels != LETTERS[: len(labels)] and not {*LETTERS}.isdisjoint(labels)
    unfit = {"number", *["index"] * _numbered(labels), *["letter"] * shuffled}
    return {form: places for form, places in found.items() if form not in unfit}


def _numbered(labels: Sequence[str]) -> bool:
    return bool(labels) and all(map(_DIGITS.fullmatch, labels))


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
        named = [_places(_readings(raw, part)) for part in parts]
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


def uncertain_base(raws: Iterable[RawItem]) -> tuple[KeyKind, ...]:
    """Return the forms in which the keys can be read if they are whole numbers that appear to count from 1, or ().

    At least 50 keys must be between 1 and the number of choices. Either one key equals the number of choices, or random
    keys would avoid 0 with a probability (product of 1 - 1/k) below 1 in 10,000."""
    n, reached, log_chance = 0, False, 0.0
    for raw in raws:
        if not raw.choices:
            continue
        found = _readings_or_fault(raw) if raw.key_is == "auto" else {}
        if isinstance(found, ItemError) or {"label", "text", "letter"} & found.keys() or not _is_number(raw):
            continue
        if "number" not in found:
            return ()
        (place,), k = found["number"], len(raw.choices)
        n, reached = n + 1, reached or place == k - 1
        log_chance += math.log1p(-1 / k) if k > 1 else -math.inf
    if n < ROWS_THAT_TELL or (not reached and log_chance >= math.log(ALMOST_NEVER)):
        return ()
    return ("number",) if reached else ("number", "index")


def _is_number(raw: RawItem) -> bool:
    return _DIGITS.fullmatch(_written(raw)) is not None


def _written(raw: RawItem) -> str:
    """Return the key as a string. Raise `ItemError` if it is empty, or neither a number nor text, nor a list of one, or if
    the number of choices is invalid. Raise `SeveralRightError` if it is a list of several keys."""
    if not FEWEST <= len(raw.choices) <= MOST:
        raise ItemError(f"expected {FEWEST} to {MOST} choices, found {len(raw.choices)}")
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
    if isinstance(key, str) and key.strip()[:1] in ("[", "(") and not equal_options(key, tuple(choices)):
        written = literal(key)
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


def _mixed(number: bool, others: int) -> KeyFaultError:
    ours, theirs = ("a number", "letters or texts") if number else ("a letter or text", "numbers")
    return KeyFaultError(
        f"the key is {ours}, but {counted(others, 'other key')} of the file are {theirs}. Write all keys in one form."
    )


def _unmatched(raw: RawItem, found: Readings) -> KeyFaultError:
    """Return why a key matches no choice, several choices, or several identical choices."""
    key, k, equal = _written(raw), len(raw.choices), found.get("text", ())
    if _places(found) - {*equal}:
        ways = ", ".join(f"choice {at[0] + 1} as {form}" for form, at in found.items())
        return KeyFaultError(f"the key is ambiguous ({ways}), and no other row resolves it", [*found])
    letter, number = _letter(key), _DIGITS.fullmatch(key)
    counts, first = raw.key_is in FORMS, int(raw.key_is == "number")
    if len(equal) > 1:
        return KeyFaultError(
            f"the key is the text of {len(equal)} identical choices. Give its index or letter, or make the choices differ."
        )
    if raw.key_is in ("auto", "letter") and letter is not None:
        beyond, last = ascii_uppercase[letter], ascii_uppercase[k - 1]
        return KeyFaultError(f"the key is {beyond}, but there are only {k} choices (A to {last})")
    if raw.key_is == "auto" and number and _numbered(raw.labels):
        return KeyFaultError(f"the key is not one of the {k} labels", ["index"])
    if number and (counts or (raw.key_is == "auto" and abs(int(number[1])) <= MOST)):
        reason = f"the key is {number[1]}, but there are only {k} choices ({first} to {first + k - 1})"
        return KeyFaultError(reason, ["number"] if (number[1], first) == (str(k), 0) else [])
    unnamed = "" if counts or raw.key_is == "letter" else " that matches no choice"
    return KeyFaultError(f"the key is {json_kind(raw.key)}{unnamed}; expected {_expected(raw)}")


def _letter(key: str) -> int | None:
    mark = bare_mark(key)
    return LETTERS.index(mark) if mark in LETTERS else None


def _expected(raw: RawItem) -> str:
    k = len(raw.choices)
    return {
        "auto": f"an index from 0 to {k - 1}, a letter, a label, or the text of one choice",
        "index": f"a whole number from 0 to {k - 1}",
        "number": f"a whole number from 1 to {k}",
        "letter": f"a letter from A to {ascii_uppercase[k - 1]}",
        "label": "the label of one choice",
        "text": "the text of exactly one choice",
    }[raw.key_is]
