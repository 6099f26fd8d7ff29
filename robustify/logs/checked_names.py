"""What a log or a table calls its models, tasks, filters, scorers, topics and items, once it is known to be a name.

A column may be mapped wrongly, and a log may be odd: then the text of items is where a name should be. Messages, notes
and runs print names. So a name has a type of its own, which this module alone makes: what was read from a log is
`object` or `str` until it was checked here, and the fields that are printed take a `Name`.

Two things distinguish a name from a text. Its form: one word of ASCII, or few words without the end of a sentence. And
in a column its repetition: one name is in many rows, one text is in few.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NewType

from robustify.errors import UsageError
from robustify.loaders.rows import name_like

Name = NewType("Name", str)
"""A name that was checked here; "" for none."""
NOTHING = Name("")
_WORD = re.compile(r"[\w#][\w.+:@/=,~|#()-]{0,95}", re.ASCII)
_NO_NAME = re.compile(r"[^\w.@+/:-]+")
_MOST_WORDS, _MOST_CHARS = 8, 80
_FEW, _FEW_TOPICS = 3, 12
_LISTED = 10


def as_name(said: object) -> Name | None:
    """What a log says once, as a name: text, a number or true and false, in one word. Else None."""
    text = str(said) if isinstance(said, str | int | float) else ""
    return Name(text) if _WORD.fullmatch(text) else None


def as_label(said: object) -> Name:
    """What a log calls one item: few words at most. Else "", and the item is known by its content alone."""
    text = str(said).strip() if isinstance(said, str | int) else ""
    return Name(text) if _few_words(text) else NOTHING


def names_in(cells: Iterable[object], texts: Iterable[object] = ()) -> dict[str, Name]:
    """Return the names in a column that says whose each row is. `texts` are those of the table's items.

    None of them if names are on average in fewer rows than there are names, which up to three names of one word may be:
    such a column holds something else. None either that equals a text, or of several words lies within one.
    """
    said, whole = list(cells), {str(text).strip().casefold() for text in texts}
    found = _repeated(said, lambda n_names, n_rows: n_names <= _FEW or n_names * n_names <= n_rows)
    rare = len(found) ** 2 > len(said)

    def may_be_text(name: str) -> bool:
        folded = name.casefold()
        return folded in whole if as_name(name) else rare or any(folded in text for text in whole)

    return {name: known for name, known in found.items() if not may_be_text(name)}


def topics_in(cells: Iterable[object], each: int = 1) -> dict[str, Name]:
    """Return the names in a column of topics; none of them if more than twelve have fewer than two items on average.

    `each`: the cells that an item has, one a model.
    """
    return _repeated(cells, lambda n_names, n_cells: n_names <= _FEW_TOPICS or 2 * n_names * each <= n_cells)


def facts_of(said: Mapping[str, object]) -> dict[str, Name]:
    """What a log says of its own making, as far as it is names."""
    return {fact: name for fact, one in said.items() if (name := as_name(one)) is not None}


def path_name(text: str) -> Name:
    """A name of a file or folder, which the user chose; what can be in no name becomes a dash."""
    return Name(_NO_NAME.sub("-", text).strip("-")[:96] or "unnamed")


def said_name(text: str) -> Name:
    """A name that the user says, in a config or on a command line.
    Raises `UsageError`: longer than a name."""
    if not _few_words(text):
        raise UsageError(
            f"a model's name of {len(text)} characters and {len(text.split())} words; expected "
            f"1 to {_MOST_CHARS} plain characters and at most {_MOST_WORDS} words"
        )
    return Name(text)


def headings(columns: Sequence[str]) -> dict[str, Name]:
    """The names of a table's columns. None of them unless each is one word, or up to three short ones.

    Without a header the first record is where the names should be, and that would be item text.
    """
    names = {text: Name(text) for text in columns if as_name(text) or (name_like(text) and _few_words(text))}
    return names if all(column in names for column in columns) else {}


def columns_of(found: Iterable[tuple[str, str]], columns: Sequence[str]) -> dict[Name, str] | None:
    """By model its column, of (model, column) pairs; None where a model's name may be text of an item."""
    known = headings(columns)
    out: dict[Name, str] = {}
    for model, column in found:
        name = as_name(model) if known or model != column else None
        if name is None and not (column in known and _few_words(model)):
            return None
        out[name or Name(model)] = column
    return out


def listed(said: Iterable[str], known: Mapping[str, Name], most: int = _LISTED) -> str:
    """The names among these, for a message; of what is no name only how many there are."""
    every = list(dict.fromkeys(said))
    shown = [known[one] for one in every if one in known][:most]
    rest = len(every) - len(shown)
    more = [f"{rest} more" if shown else f"{rest} that are not shown"] if rest else []
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
