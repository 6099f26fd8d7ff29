"""Validation of the names of models, tasks, filters, scorers, topics, and items in logs and tables.

If a column is mapped incorrectly or a log is unusual, item text can appear instead of a name, and messages, notes, and runs
print names. Checked names therefore have a type that only this module creates. Values read from a log remain `object` or
`str` until they are checked here, and printed fields only accept `Name`.

Two properties distinguish names from text. The first is form: one ASCII word, or a few words without sentence-ending
punctuation. The second is repetition within a column: a name appears in many rows, but a text in few.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NewType

from robustify.base.errors import UsageError
from robustify.base.texts import folded
from robustify.reading.loaders.rows import name_like

Name = NewType("Name", str)
"""Checked name, or "" if there is none."""
NOTHING = Name("")
_WORD = re.compile(r"[\w#][\w.+:@/=,~|#()-]{0,95}", re.ASCII)
_NO_NAME = re.compile(r"[^\w.@+/:-]+")
_MOST_WORDS, _MOST_CHARS = 8, 80
_FEW, _FEW_TOPICS = 3, 12
_LISTED = 10


def as_name(said: object) -> Name | None:
    """Return a value as a name if it is text, a number, or a boolean in one word, otherwise None."""
    text = str(said) if isinstance(said, str | int | float) else ""
    return Name(text) if _WORD.fullmatch(text) else None


def as_label(said: object) -> Name:
    """Return the label of one item if it has only a few words, otherwise "".
    Without a label, the item is identified by content."""
    text = str(said).strip() if isinstance(said, str | int) else ""
    return Name(text) if _few_words(text) else NOTHING


def names_in(cells: Iterable[object], texts: Iterable[object] = ()) -> dict[str, Name]:
    """Return the names in a column that identifies the source of each row, by cell text, where items have these `texts`.

    There are none if each name appears, on average, in fewer rows than there are names, unless there are up to three
    single words. A name is dropped if it equals a text, or has several words and is part of a text.
    """
    said, whole = list(cells), {folded(str(text)) for text in texts}
    found = _repeated(said, lambda n_names, n_rows: n_names <= _FEW or n_names * n_names <= n_rows)
    rare = len(found) ** 2 > len(said)

    def may_be_text(name: str) -> bool:
        bare = folded(name)
        return bare in whole if as_name(name) else rare or any(bare in text for text in whole)

    return {name: known for name, known in found.items() if not may_be_text(name)}


def topics_in(cells: Iterable[object], each: int = 1) -> dict[str, Name]:
    """Return a mapping from cell text to topic name for a column of topics. It is empty if there are more than twelve
    topics with fewer than two items each on average. `each` is the number of cells per item: one per model."""
    return _repeated(cells, lambda n_names, n_cells: n_names <= _FEW_TOPICS or 2 * n_names * each <= n_cells)


def facts_of(said: Mapping[str, object]) -> dict[str, Name]:
    """Return the metadata of a log whose values are names."""
    return {fact: name for fact, one in said.items() if (name := as_name(one)) is not None}


def path_name(text: str) -> Name:
    """Return a name for a file or folder chosen by the user, replacing unsuitable characters with hyphens."""
    return Name(_NO_NAME.sub("-", text).strip("-")[:96] or "unnamed")


def said_name(text: str) -> Name:
    """Check and return a model name from a config or a command line. Raise `UsageError` if it is too long for a name."""
    if not _few_words(text):
        raise UsageError(
            f"the model name has {len(text)} characters and {len(text.split())} words; expected 1 to {_MOST_CHARS} "
            f"plain characters and at most {_MOST_WORDS} words"
        )
    return Name(text)


def headings(columns: Sequence[str]) -> dict[str, Name]:
    """Return the column names of a table as checked names, or none if any of them is longer than three short words.
    In a table without a header, the first record is in place of the column names and would contain item text."""
    names = {text: Name(text) for text in columns if as_name(text) or (name_like(text) and _few_words(text))}
    return names if all(column in names for column in columns) else {}


def columns_of(found: Iterable[tuple[str, str]], columns: Sequence[str]) -> dict[Name, str] | None:
    """Return the column of each model from (model, column) pairs, or None if a model name may be item text."""
    known = headings(columns)
    out: dict[Name, str] = {}
    for model, column in found:
        name = as_name(model) if known or model != column else None
        if name is None and not (column in known and _few_words(model)):
            return None
        out[name or Name(model)] = column
    return out


def listed(said: Iterable[str], known: Mapping[str, Name], most: int = _LISTED) -> str:
    """Return a list of names for a message. Texts that are not names are only counted."""
    every = list(dict.fromkeys(said))
    shown = [known[one] for one in every if one in known][:most]
    rest = len(every) - len(shown)
    more = [f"{rest} more" if shown else f"{rest} (not shown)"] if rest else []
    return ", ".join([*shown, *more]) or "none"


def _repeated(cells: Iterable[object], enough: Callable[[int, int], bool]) -> dict[str, Name]:
    said = [text for cell in cells if isinstance(cell, str | int) and (text := str(cell).strip())]
    names = dict.fromkeys(said)
    if not enough(len(names), len(said)):
        return {}
    return {text: Name(text) for text in names if _few_words(text)}


def _few_words(text: str) -> bool:
    short = 0 < len(text) <= _MOST_CHARS and len(text.split()) <= _MOST_WORDS
    return short and text.isprintable() and not text.endswith(("?", "!", ".", "？", "。", "！"))
