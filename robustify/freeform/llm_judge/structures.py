"""A reply as its parsers read it: without reasoning, and the values that it writes as JSON, Python, XML or a table.

An outermost pair of brackets is read as JSON, else by json-repair with its quotes made straight. Objects are `Pairs`, so
that a key given twice is seen.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple

from robustify.freeform.answer_text import MOST, split_reasoning
from robustify.freeform.schema import ErrorType

MOST_READ = 1000
"""Brackets of a reply that are read, counted from its end: the last structure is the answer."""
MOST_OPEN = 20
"""Brackets that never closed, counted from the end, that may open a structure with brackets in its strings."""
MOST_REPAIRED = 4000
"""Characters of a reply, in brackets that are not JSON, that json-repair may read: it is not linear."""
MANY = 20_000
"""Brackets, lines, tags or quotes of a reply; one with more of a kind is `unsafe_input`, as no judge writes so many."""
MANY_TAGS = 100_000
"""The same for tags before the reasoning is cut off, which may be long and quote much."""
LONG = 100_000
_BESIDE = 300
"""Characters on either side that decide whether a structure is on lines of its own."""
INVISIBLE = re.compile("[\u200b-\u200f\u2060\u2063\ufeff]")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*$", re.MULTILINE)
_INTRO = re.compile(
    r"(?:the\s+)?(?:final\s+)?(?:labels?|answers?|results?|output)(?:\s+(?:are|is))?\s*:?|`{3,}\s*\w*",
    re.IGNORECASE,
)
_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_LEAF = re.compile(r"<([A-Za-z_]\w{0,40})((?:\s[^<>]{1,200})?)>([^<>{}\[\]]{0,400})</\1\s?>")
_ATTRIBUTE = re.compile(r"(\w{1,40})\s?=\s?[\"']?([^\"'\s]{1,40})")
_ROW = re.compile(r"^[ \t]*\|(.{1,2000})\|[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
INDEX_KEYS = ("id", "k", "index", "nugget", "nugget_id", "number", "no", "no.", "#", "n", "fact")


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as it was written: its pairs in order, keys as often as they were given."""

    __slots__ = ()

    def all(self, *keys: str) -> list[Any]:
        """Return every value that was given for one of these keys, in any case."""
        return [value for name, value in self if name.casefold() in keys]


class Structure(NamedTuple):
    """Characters `start` to `end` of a text and their value, None if it cannot be read."""

    start: int
    end: int
    value: Any
    format: Literal["json", "xml", "markdown"] = "json"


class Scan(NamedTuple):
    """The structures of a text in order, and the positions of brackets that never closed."""

    found: tuple[Structure, ...]
    left_open: tuple[int, ...]


_JSON = json.JSONDecoder(object_pairs_hook=Pairs, strict=False)


def structures(text: str) -> Scan:
    """Read every structure of a text once; linear in its length."""
    closed, opened = _brackets(text)
    opened = opened[-MOST_OPEN:]
    found: list[Structure] = []
    at, left = 0, MOST_REPAIRED
    for start, end in sorted([*closed[-MOST_READ:], *((start, -1) for start in opened)]):
        if start < at:
            continue
        try:
            value, at = _JSON.raw_decode(text, start)
        except (ValueError, RecursionError):
            if end < 0:
                continue
            value, at, left = None, end, left - (end - start)
            if left >= 0:
                value = _repaired(text[start:end])
        found.append(Structure(start, at, value))
    for one in (*_elements(text), *list(_tables(text))[-MOST_READ:]):
        if all(one.end <= other.start or other.end <= one.start for other in found):
            found.append(one)
    still = [start for start in opened if not any(one.start <= start < one.end for one in found)]
    return Scan(tuple(sorted(found, key=lambda one: one.start)), tuple(still))


def _brackets(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the outermost pairs of brackets, and the brackets that never closed."""
    opened: list[int] = []
    waiting = {"[": 0, "{": 0}
    found: list[tuple[int, int]] = []
    for mark in re.finditer(r"[\[\]{}]", text):
        kind = {"]": "[", "}": "{"}.get(mark[0])
        if kind is None:
            opened.append(mark.start())
            waiting[mark[0]] += 1
        elif waiting[kind]:
            # Brackets inside it that never closed are forgotten.
            start = opened.pop()
            while text[start] != kind:
                waiting[text[start]] -= 1
                start = opened.pop()
            waiting[kind] -= 1
            while found and found[-1][0] > start:
                found.pop()
            found.append((start, mark.end()))
    return found, opened


def _repaired(written: str) -> Any:
    """Return what json-repair reads in brackets that are not JSON; None if it is an object that it may read wrongly."""
    names = re.findall(r"[\"']?\b(\w+)[\"']?\s{0,9}:", written)
    if written[0] == "{" and ("{" in written[1:] or len({*names}) < len(names)):
        return None
    try:
        return _as_pairs(import_module("json_repair").loads(written.translate(_CURLY)))
    except (ValueError, RecursionError):
        return None


def _as_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs((str(name), _as_pairs(one)) for name, one in value.items())
    return [_as_pairs(one) for one in value] if isinstance(value, list) else value


def _elements(text: str) -> Iterator[Structure]:
    """Yield the XML elements without others inside, each with its attributes and a number that precedes it, as one list."""
    rows: list[Pairs] = []
    before: list[tuple[str, str]] = []
    leaves = list(_LEAF.finditer(text))
    for leaf in leaves:
        pairs = [*before, *_ATTRIBUTE.findall(leaf[2]), (leaf[1], leaf[3].strip())]
        is_number = leaf[1].casefold() in INDEX_KEYS and leaf[3].strip().isdecimal()
        before = pairs if is_number else []
        rows += [] if is_number else [Pairs(pairs)]
    if rows:
        yield Structure(leaves[0].start(), leaves[-1].end(), rows, "xml")


def _tables(text: str) -> Iterator[Structure]:
    """Yield each Markdown table as a list of its rows; a row of two cells is also a key with its value."""
    lines = list(_ROW.finditer(text))
    breaks = [i for i in range(1, len(lines)) if lines[i].start() != lines[i - 1].end() + 1]
    for begin, end in zip([0, *breaks], [*breaks, len(lines)], strict=True):
        block = lines[begin:end]
        cells = [[cell.strip(" \t*_`") for cell in line[1].split("|")] for line in block]
        ruled = len(block) > 1 and _RULE.fullmatch(block[1][1]) is not None
        names, rows = (cells[0], cells[2:]) if ruled else ([], cells)
        made = []
        for row in rows:
            named = list(zip(names or [""] * len(row), row, strict=False))
            made.append(Pairs([*named, (row[0], row[1])] if len(row) == 2 else named))
        if made:
            yield Structure(block[0].start(), block[-1].end(), made, "markdown")


def readable(response: str) -> tuple[str, ErrorType | None]:
    """Return a reply without reasoning, fences and invisible characters, or why it is not read."""
    if len(response) > MOST or response.count("<") > MANY_TAGS:
        return "", "unsafe_input"
    if not response.strip():
        return "", "empty"
    split = split_reasoning(response)
    if split.unterminated:
        return "", "unterminated_reasoning"
    text = split.text
    if any(sum(map(text.count, marks)) > MANY for marks in ("[]{}", "\n\r", "<>", "\"'", "|")):
        return "", "unsafe_input"
    # One character can become eighteen; long replies are read as they are.
    if len(text) <= LONG and not text.isascii():
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = _FENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return (text, None) if text.strip() else ("", "empty")


def prose(text: str) -> bool:
    """Return whether text holds words other than "Labels:", "Final answer:" and the like."""
    return re.search(r"\w", _INTRO.sub("", text)) is not None


def contradicted(text: str, last: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Return whether one of other places that say something else may be meant instead of the last one.

    The last place takes others back unless words follow it, or it is within a sentence and another one is not.
    """
    alone = any(not _inline(text, *other) for other in others)
    return bool(others) and (prose(text[last[1] :]) or (alone and _inline(text, *last)))


def _inline(text: str, start: int, end: int) -> bool:
    """Return whether there are other words on the lines of a structure."""
    # A reply of one long line must not be read once for each of its structures.
    before = text[max(0, start - _BESIDE) : start].rpartition("\n")[2]
    after = text[end : end + _BESIDE].partition("\n")[0]
    return prose(before) or prose(after)
