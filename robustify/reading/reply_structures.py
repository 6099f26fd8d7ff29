"""Parser of all JSON, XML, Markdown, YAML, and CSV structures in a model's reply, with their positions and errors.

XML is read by a pattern and YAML line by line, so that a reply can define no entities.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

from typing_extensions import NamedTuple  # that of Python 3.10 cannot be generic

from robustify.base.errors import UsageError, installing
from robustify.base.texts import compatible, straight
from robustify.reading.marks.reply_parts import split_reasoning

T = TypeVar("T")
ErrorType = Literal[
    "empty", "unterminated_reasoning", "format_error", "truncation", "ambiguous", "duplicate_index", "missing_index",
    "count_mismatch", "unknown_label", "off_scale", "unsafe_input", "tie", "no_majority", "api_error", "timeout",
    "rate_limited", "auth_error", "content_filter",
]  # fmt: skip
"""Reasons why a reply gave no verdict."""
MOST = 1_000_000
"""Longest reply that is read, in characters. A longer reply is `unsafe_input`."""
MOST_READ = 1000
"""Number of brackets, elements and tables that are read, from the end of a reply, because the last one is the answer."""
MOST_REPAIRED = 4000
"""Characters of invalid JSON that json-repair may read. Its time is not linear."""
MANY = 20_000
"""Largest number of brackets, lines, tags or quotes in a reply. A reply with more is `unsafe_input`."""
LONG = 100_000
_LONGEST_LINE = 1000
_BRACKET = re.compile(r"[\[\]{}]")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*$", re.MULTILINE)
_LEAF = re.compile(r"<([A-Za-z_]\w{0,40})((?:\s[^<>]{1,200})?)>([^<>{}\[\]]{0,400})</\1\s?>")
_ATTRIBUTE = re.compile(r"(\w{1,40})\s?=\s?[\"']?([^\"'\s]{1,40})")
_ROW = re.compile(r"^[ \t]*\|(.{1,2000})\|[ \t]*\n?", re.MULTILINE)
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_ITEM = re.compile(
    r"\s*(?P<mark>[-*+\u2022]\s+)?(?:[*_`]*(?:(?:nugget|item|n)\s*#?\s*)?(?P<number>\d{1,4})[*_`]*\s{0,3}"
    r"(?:[.):]|\s[-\u2013\u2014])[*_`]*\s+)?(?P<item>\S.*)",
    re.IGNORECASE,
)
_MEMBER = re.compile(
    r"[\"'*_`#\s]*(?:final\s)?(?P<key>[A-Za-z]\w{0,40})[\"'*_`]*\s?[:=]\s*(?P<value>[^\s\0][^\0]*)",
    re.IGNORECASE,
)
_INTRO = re.compile(
    r"(?:the\s+)?(?:final\s+)?(?:labels?|answers?|results?|output)(?:\s+(?:are|is))?\s*:?|`{3,}\s*\w*",
    re.IGNORECASE,
)
INDEX_KEYS = ("id", "k", "index", "nugget", "nugget_id", "number", "no", "no.", "#", "n", "fact")


class Reading(NamedTuple, Generic[T]):
    """The value parsed from a reply. If it is None, there is a type of error."""

    value: T | None
    error_type: ErrorType | None


@cache
def require_packages() -> None:
    """Raise `UsageError` if the packages of the extra `free` are not installed."""
    if missing := [name for name in ("json_repair", "pint") if find_spec(name) is None]:
        fault = f"Replies cannot be read without {' and '.join(missing)}, which this Python does not have"
        raise UsageError(f"{fault}. Run {installing('free')}.", code="missing-format-package")


def line_of(error: ErrorType | None) -> str:
    """Return a line that tells a model the fault of its reply."""
    return f"Your reply could not be read ({(error or 'ambiguous').replace('_', ' ')})."


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as key-value pairs in written order, including repeated keys. A text without a key has the key ""."""

    __slots__ = ()

    def all(self, *keys: str) -> list[Any]:
        """Return all values of the given keys, ignoring case."""
        return [value for name, value in self if name.casefold() in keys]


class Structure(NamedTuple):
    """The position and value of a structure in a text. The value is None if parsing failed."""

    start: int
    end: int
    value: Any
    format: Literal["json", "yaml", "xml", "csv", "markdown"] = "json"


_JSON = json.JSONDecoder(object_pairs_hook=Pairs, strict=False)


def readable(response: str, *, exact: bool = False) -> tuple[str, ErrorType | None]:
    """Return a reply without reasoning, fences and invisible characters, or the reason why the reply is unreadable.
    With `exact`, characters stay as they are."""
    if len(response) > MOST or response.count("<") > 5 * MANY:
        return "", "unsafe_input"
    split = split_reasoning(response)
    if split.unterminated:
        return "", "unterminated_reasoning"
    text = split.text
    if any(sum(map(text.count, marks)) > MANY for marks in ("[]{}", "\n\r", "<>", "\"'", "|")):
        return "", "unsafe_input"
    # NFKC can turn one character into eighteen, so long replies are not normalized.
    if len(text) <= LONG and not exact:
        text = compatible(text)
    text = _FENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return (text, None) if text.strip() else ("", "empty")


def structures(text: str) -> tuple[list[Structure], list[int]]:
    """Parse every structure of a text once, in linear time. Return them in order, and the positions of open brackets."""
    parsed, left_open = _brackets(text)
    for reader in (_elements, _tables, _lines):
        parts, end = [], 0
        for structure in sorted(parsed, key=itemgetter(0, 1)):
            # What is already read is hidden from the next reader.
            parts += [text[end : structure.start], "\0" * (structure.end - max(structure.start, end))]
            end = structure.end
        text = "".join([*parts, text[end:]])
        parsed += reader(text)
    return sorted(parsed, key=itemgetter(0, 1)), left_open


def _brackets(text: str) -> tuple[list[Structure], list[int]]:
    parsed, left_open, end, budget = list[Structure](), list[int](), 0, MOST_REPAIRED
    for start in [mark.start() for mark in re.finditer(r"[\[{]", text)][-MOST_READ:]:
        if start < end:
            continue
        try:
            value, end = _JSON.raw_decode(text, start)
        except (ValueError, RecursionError):
            depth, closing = 0, 0
            for mark in _BRACKET.finditer(text, start, start + MOST_REPAIRED):
                depth += 1 if mark[0] in "[{" else -1
                if not depth:
                    closing = mark.end()
                    break
            if not closing:
                left_open.append(start)
                continue
            end, budget = closing, budget - (closing - start)
            value = _repaired(text[start:closing]) if budget >= 0 else None
        parsed.append(Structure(start, end, value))
    return parsed, left_open


def _repaired(written: str) -> Any:
    """Parse invalid JSON with json-repair. Return None for an object that json-repair may misread."""
    names = re.findall(r"[\"']?\b(\w+)[\"']?\s{0,9}:", written)
    if written[0] == "{" and ("{" in written[1:] or len({*names}) < len(names)):
        return None
    try:
        return _as_pairs(import_module("json_repair").loads(straight(written)))
    except (ValueError, RecursionError):
        return None


def _as_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return Pairs((str(name), _as_pairs(member)) for name, member in value.items())
    return [_as_pairs(member) for member in value] if isinstance(value, list) else value


def _elements(text: str) -> Iterator[Structure]:
    """Yield the innermost XML elements as one list, each element with its attributes and the number before it."""
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
    """Yield each Markdown table as a list of rows. A row with two cells also becomes a key and its value."""
    block: list[re.Match[str]] = []
    for line in [*_ROW.finditer(text), None]:
        if block and (line is None or line.start() != block[-1].end()):
            cells = [[cell.strip(" \t*_`") for cell in row[1].split("|")] for row in block]
            ruled = len(block) > 1 and _RULE.fullmatch(block[1][1]) is not None
            names, rows = (cells[0], cells[2:]) if ruled else (["-"] * len(cells[0]), cells)
            pairs = [
                Pairs([*zip(names, row, strict=False), *([(row[0], row[1])] if len(row) == 2 else [])])
                for row in rows
            ]
            yield Structure(block[0].start(), block[-1].end(), pairs, "markdown")
            block = []
        block += [line] if line is not None else []


def _lines(text: str) -> Iterator[Structure]:
    """Yield each list, block of `key: value` lines, and line of comma-separated entries. Items may be one empty line
    apart."""
    rows: list[list[tuple[str, Any]]] = []
    kind, start, end, blanks, position = "", 0, 0, 0, 0
    for line in [*text.split("\n"), "#"]:
        item = _ITEM.match(line) if len(line) <= _LONGEST_LINE else None
        member = _MEMBER.fullmatch(item["item"]) if item else None
        kinds = {"*": item and item["mark"], "1": item and item["number"], ":": member}
        own = next((kind for kind, is_present in kinds.items() if is_present), "")
        joins = bool(rows) and own == ":" and kind in ("*:", ":") and not blanks
        if rows and line.strip() and not joins and (own != kind[:1] or blanks > 1):
            yield Structure(start, end, [*map(Pairs, rows)], "yaml" if ":" in kind else "markdown")
            rows = []
        if item and own:
            if not rows:
                kind, start = own + (":" if own == "*" and member else ""), position
            fields: list[tuple[str, Any]] = [("#", int(item["number"]))] if item["number"] else []
            fields += [(member["key"], member["value"].strip(" \"'*_`"))] if member else []
            fields += [("", item["item"])] if own != ":" else []
            if joins:
                rows[-1] += fields
            else:
                rows.append(fields)
            end = position + len(line.rstrip())
        yield from _separated(line, position)
        blanks = 0 if line.strip() else blanks + 1
        position += len(line) + 1


def _separated(line: str, start: int) -> Iterator[Structure]:
    intro = re.match(r"[\s*_`#]*(?:" + _INTRO.pattern + r")[*_`\s]*", line, re.IGNORECASE)
    begin = intro.end() if intro else 0
    entries = [entry.strip() for entry in line[begin:_LONGEST_LINE].strip().removesuffix(",").split(",")]
    short = all(len(entry) <= 24 and len(entry.split()) <= 3 for entry in entries)
    if len(entries) > 1 and short and not re.search(r"[\[{]", line):
        yield Structure(start + begin, start + len(line.rstrip()), entries, "csv")


def contradicted(text: str, last: Structure, others: Sequence[Structure]) -> bool:
    """Return whether an earlier structure may be the answer instead of the last structure. The last structure
    overrides others of its format if only an introduction such as "Labels:" precedes it on its line or follows it."""
    if any(other.format != last.format for other in others):
        return True
    before = text[max(0, last.start - _LONGEST_LINE) : last.start].rpartition("\n")[2]
    around = any(re.search(r"\w", _INTRO.sub("", words)) for words in (before, text[last.end :]))
    return bool(others) and around
