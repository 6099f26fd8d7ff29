"""Columns of a file: usual names (`vocabulary.txt`), series of columns with one option each, and rules that find the
column of each part of an item.

The first rule of a part that names a column wins. If it names several columns that could each be the part, the file is
refused, and nothing is guessed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import takewhile
from string import ascii_lowercase
from typing import Any, Generic, TypeVar
from unicodedata import category, normalize

from robustify.base.errors import DataError
from robustify.reading.marks.labelling import EVERY_SERIES, as_mark

Ranks = tuple[tuple[str, ...], ...]
"""Synonyms by rank. A later rank counts only if no name of an earlier one is present."""
_ORDERS = (list(ascii_lowercase), [str(n) for n in range(26)], [str(n) for n in range(1, 27)])
_COLUMN = re.compile(r"\(?((?:[^\W\d]|[ -])*?)[ _.#-]*\(?([a-z]|[0-9]{1,2})\s*[).:]?", re.IGNORECASE)
_MARK_BEHIND = re.compile(r"[ _-]+(?:is[ _-]*)?(?:correct|right|answer|label|key)$", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s_.-]+")
_NOTE = re.compile(
    r"\s*(?:\((?:s|secs?|optional|required|(?:only|max)[.:]?\s*(?:\d|one\b|a\b|include\b)[^()]*)\)|\s[-–—]\s*(?:\d|(?:max|min)\w*\.?\s+\d|choose|optional|required).*)$",
    re.IGNORECASE | re.DOTALL,
)
"""Note of a template behind the name of a column, such as ` - max 75 characters`. No other note is one of the name, because
an `Answer (model)` is not the answer."""
_LONGEST_MARK, _FEWEST_MARKS = 4, 3
_OF_AN_ITEM = frozenset(("stem", "choices", "key", "right", "wrong", "id", "topic", "passage", "group"))
"""Parts of an item that a column may hold."""


@lru_cache(4096)
def name_key(name: str) -> str:
    """Normalize a column name for comparison, ignoring case, accents, spaces, hyphens, underscores, and dots."""
    plain = normalize("NFKD", _BETWEEN.sub("", name).casefold())
    return plain if plain.isascii() else "".join(sign for sign in plain if category(sign) != "Mn")


@lru_cache(4096)
def without_notes(name: str) -> str:
    """Remove the notes of a template, such as `(optional)`, from the end of a column name."""
    while (shorter := _NOTE.sub("", name)) != name and shorter:
        name = shorter
    return name


def _short_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return columns with their names without notes. A column keeps its full name if another column has the short one."""
    every = [*names]
    short = [(name, without_notes(name)) for name in every]
    taken = {*map(name_key, every)}
    return [(name, bare) for name, bare in short if bare == name or name_key(bare) not in taken]


def _read() -> dict[str, Ranks]:
    ranks: dict[str, Ranks] = {}
    for line in files(__package__).joinpath("vocabulary.txt").read_text(encoding="utf-8").splitlines():
        part, _, names = line.partition(": ")
        if names and not line.startswith("#"):
            ranks[part] = (*ranks.get(part, ()), tuple(names.split()))
    return ranks


NAMES = _read()
"""Names of each part, by rank."""
LOGGED_TARGET = "target of the log"
"""Column of a log that repeats the key of its item. It tells how the key counts, but it is not read as the key."""
OPTION_PREFIXES = frozenset(("", *map(name_key, NAMES["option_prefix"][0])))
WRONG_PREFIXES = frozenset(map(name_key, NAMES["wrong_prefix"][0]))
_KNOWN = frozenset(name_key(name) for part in _OF_AN_ITEM for rank in NAMES[part] for name in rank)

_MARKS = frozenset(name_key(name) for part in ("option_mark", "key") for rank in NAMES[part] for name in rank)


def known_name(name: str) -> bool:
    """Return whether a column name is known as the name of a part of an item."""
    return name_key(without_notes(name)) in _KNOWN or column_label(name)[0] != ""


_ONLY_KNOWN = ContextVar("only_known", default=False)


@contextmanager
def only_known_names() -> Iterator[None]:
    """Show no column names but usual ones in messages. In a restricted set, any other name may be a word of an item."""
    before = _ONLY_KNOWN.set(True)
    try:
        yield
    finally:
        _ONLY_KNOWN.reset(before)


def may_show(names: Iterable[str]) -> bool:
    """Return whether messages may contain column names, if they look like names."""
    return not _ONLY_KNOWN.get() or all(map(known_name, names))


def is_named(name: str, part: str, ranks: slice = slice(None)) -> bool:
    """Return whether a column has a usual name for a part. Only the names in `ranks` count."""
    return bool(usual_names([name], part, ranks))


def usual_names(columns: Iterable[str], part: str, ranks: slice = slice(None)) -> list[str]:
    """Return the columns that have a usual name for a part. Only the names in `ranks` count, and of these, only the best
    rank that any column has."""
    return _of_best_rank(columns, NAMES[part][ranks])


def usual_name(columns: Iterable[str], part: str) -> str:
    """Return the first column of `usual_names`, or "" if there is none."""
    return next(iter(usual_names(columns, part)), "")


def _of_best_rank(columns: Iterable[str], ranks: Ranks) -> list[str]:
    """Return the columns whose names have the best rank that any column has, ignoring case and separators."""
    by_name: dict[str, list[str]] = {}
    for column, bare in _short_names(columns):
        by_name.setdefault(name_key(bare), []).append(column)
    matches = ([column for name in map(name_key, rank) for column in by_name.get(name, ())] for rank in ranks)
    return next(filter(None, matches), [])


def first_value(row: Mapping[str, Any], part: str) -> Any:
    """Return a row's first value among the fields with usual names of a part, or None if there is no value."""
    names = (name for rank in NAMES[part] for name in rank)
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def every_named(columns: Iterable[str], part: str, ranks: slice = slice(None)) -> list[str]:
    """Return all columns with a usual name for a part, within certain ranks, the most usual names first."""
    every = [*columns]
    return [column for rank in NAMES[part][ranks] for column in _of_best_rank(every, (rank,))]


@lru_cache(4096)
def column_label(name: str) -> tuple[str, str]:
    """Return the prefix and the label of an option column, such as `option` and `B`, or two empty strings."""
    match = _COLUMN.fullmatch(name) or _COLUMN.fullmatch(without_notes(name))
    prefix = name_key(match[1]) if match else ""
    return (prefix, match[2]) if match and prefix in OPTION_PREFIXES | WRONG_PREFIXES else ("", "")


def label_of_mark(name: str) -> str:
    """Return the label of the option that a name such as `answer_b_correct` marks, or the name if it contains no label."""
    option = _MARK_BEHIND.sub("", name)
    return column_label(option)[1] or option


def choice_columns(
    names: Iterable[str], prefixes: Iterable[str] = OPTION_PREFIXES, fewest: int = 2
) -> list[tuple[str, ...]]:
    """Return series of at least `fewest` option columns that begin with A, 0, or 1, such as A B C D, or option1 option2."""
    short = _short_names(names)
    labels = [(name, *column_label(name)) for name, _ in short]
    columns = [column for column in labels if column[2] and column[1] in prefixes]
    # Beside A to D, `q` is the question, unless it is the option after P.
    series = _series(columns, fewest) or _series((c for c in columns if name_key(c[0]) not in _KNOWN), fewest)
    return series or ([*_marked_columns(dict(short))] if "" in prefixes else [])


def _marked_columns(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield each series of three or more columns named after marks of another alphabet, such as А, Б, В, or i, ii, iii."""
    marks = {as_mark(name): name for name in names if len(name.strip()) <= _LONGEST_MARK}
    letters = {
        mark for mark, name in marks.items() if len(mark) == 1 and mark.isalpha() and not known_name(name)
    }
    for series in EVERY_SERIES if len(marks) >= _FEWEST_MARKS else ():
        leading = [*takewhile(marks.__contains__, series)]
        # A letter of no such series may be one more option.
        complete = len(leading) == len(marks.keys() & {*series}) and letters <= {*leading}
        if len(leading) >= _FEWEST_MARKS and complete:
            yield tuple(marks[mark] for mark in leading)
            return


def is_mark_name(name: str) -> bool:
    """Return whether a column with a label is named as a mark of the right option, such as `A correct` or `label_A`."""
    match, option = _COLUMN.fullmatch(name), _MARK_BEHIND.sub("", name)
    prefix, label = column_label(option) if option != name else ("", "")
    # `model 1 correct` says whether a model was right.
    of_an_option = label != "" and prefix in OPTION_PREFIXES
    return of_an_option or (match is not None and name_key(match[1]) in _MARKS)


def labelled_series(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return each series of two or more columns whose names differ only in the label, such as `Shuffled A` and `Shuffled
    B`. A word such as `correct` may follow the label (`A correct`)."""
    matches = ((name, _COLUMN.fullmatch(_MARK_BEHIND.sub("", name))) for name in names)
    return _series(
        (name, f"{name_key(match[1])}/{_MARK_BEHIND.search(name) is None}", match[2])
        for name, match in matches
        if match
    )


def _series(columns: Iterable[tuple[str, str, str]], fewest: int = 2) -> list[tuple[str, ...]]:
    """Return the columns of each prefix in the order of their labels. The labels must begin with A, 0, or 1, and have
    no gaps or repeats, such as A and a."""
    series: dict[str, list[tuple[str, str]]] = {}
    for name, prefix, label in columns:
        series.setdefault(prefix, []).append((label.casefold(), name))
    return [
        tuple(dict(members)[label] for label in order[: len(members)])
        for members in series.values()
        for order in _ORDERS
        if len(members) >= fewest and {label for label, _ in members} == set(order[: len(members)])
    ]


State = TypeVar("State")
"""What is known of a file: its columns, and the parts that are decided so far."""
Value = str | tuple[str, ...]
"""Column, or several columns with one option each."""


class ColumnError(DataError):
    """Error for a part whose column is missing or ambiguous."""


@dataclass(frozen=True, slots=True)
class PartDecision:
    """The columns chosen for a part, with the rule that chose them. `candidates` are other columns that rules named."""

    part: str
    columns: tuple[str, ...]
    rule: str
    reason: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartRule(Generic[State]):
    """One way to find the column of a part. `find` returns all candidates. If there are several, the first candidate
    is the part, or, with `alone`, the file is refused."""

    part: str
    name: str
    reason: str
    find: Callable[[State], Sequence[Value]]
    alone: bool = False


def several(value: Value | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of a part as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def decide_part(
    rules: Sequence[PartRule[State]], part: str, state: State
) -> tuple[Value, PartDecision] | None:
    """Return the column of a part by the first rule that finds a column, with the decision. Return None if no rule
    finds a column. Raise `ColumnError` if several columns could be the part."""
    proposals = [(rule, rule.find(state)) for rule in rules if rule.part == part]
    for rule, values in proposals:
        if len(values) > 1 and rule.alone:
            if isinstance(values[0], tuple):
                raise ColumnError(
                    f"several groups of columns could be the {part}", code="several-option-series"
                )
            names = " and ".join(f"`{column}`" for column in values)
            raise ColumnError(f"{names} could each be the {part}", code="several-columns-for-part")
        if values:
            every = [",".join(several(value)) for _, values in proposals for value in values]
            chosen = several(values[0])
            others = tuple(name for name in dict.fromkeys(every) if name != ",".join(chosen))
            return values[0], PartDecision(part, chosen, rule.name, rule.reason, others)
    return None
