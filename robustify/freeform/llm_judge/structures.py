"""Extraction of structured values from a judge's reply: JSON, Python, YAML, XML and Markdown tables.

Reasoning is removed first. Outermost brackets are parsed as JSON, otherwise by json-repair with straight quotes.
Objects become `Pairs`, so that repeated keys are visible. XML is read by a pattern and YAML without aliases, so that a
reply can define no entities.
"""

import json
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple

import yaml

from robustify.freeform.grade.findings import MOST
from robustify.freeform.schema import ErrorType
from robustify.marks.final_part import split_reasoning
from robustify.texts import compatible

MOST_READ = 1000
"""Number of bracket pairs that are read, from the end of a reply, because the last structure is the answer."""
MOST_OPEN = 20
"""Number of unclosed brackets, from the end, that are tried as the start of a structure with brackets in its strings."""
MOST_REPAIRED = 4000
"""Characters of invalid JSON that json-repair may read. Its time is not linear."""
MANY = 20_000
"""Largest number of brackets, lines, tags or quotes in a reply. A reply with more is `unsafe_input`."""
MANY_TAGS = 100_000
"""Largest number of tags before the reasoning is removed. Reasoning may be long and contain many quotations."""
LONG = 100_000
_BESIDE = 300
"""Characters on either side that are searched for other words on the same lines."""
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
_BLOCK = re.compile(
    r"^[ \t]{0,9}(?:-[ \t])?[\"']?[\w #.-]{1,40}[\"']?:(?:[ \t][^\n]{0,1000})?$"
    r"(?:\n(?:[ \t]{0,9}(?:-[ \t])?[\"']?[\w #.-]{1,40}[\"']?:(?:[ \t][^\n]{0,1000})?|[ \t]{1,9}\S[^\n]{0,1000}))*$",
    re.MULTILINE,
)
_NAMED = re.compile(
    r"^[ \t-]{0,9}[\"']?(?:label|assignment|decision|verdict|score)[\"']?:", re.MULTILINE | re.IGNORECASE
)
_ANCHOR = re.compile(r"(?:^|[\s:-])[&*]\w", re.MULTILINE)
INDEX_KEYS = ("id", "k", "index", "nugget", "nugget_id", "number", "no", "no.", "#", "n", "fact")


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as key-value pairs in written order, including repeated keys."""

    __slots__ = ()

    def all(self, *keys: str) -> list[Any]:
        """Return all values of the given keys, ignoring case."""
        return [value for name, value in self if name.casefold() in keys]


class Structure(NamedTuple):
    """The position and value of a structure in a text. The value is None if it cannot be parsed."""

    start: int
    end: int
    value: Any
    format: Literal["json", "yaml", "xml", "markdown"] = "json"


class Scan(NamedTuple):
    """Bracketed structures found in a text, in order, and the positions of unclosed brackets."""

    found: tuple[Structure, ...]
    left_open: tuple[int, ...]


_JSON = json.JSONDecoder(object_pairs_hook=Pairs, strict=False)


def structures(text: str) -> Scan:
    """Parse every structure of a text once, in linear time."""
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
    for one in (*_elements(text), *list(_tables(text))[-MOST_READ:], *_blocks(text)):
        if all(one.end <= other.start or other.end <= one.start for other in found):
            found.append(one)
    still = [start for start in opened if not any(one.start <= start < one.end for one in found)]
    return Scan(tuple(sorted(found, key=lambda one: one.start)), tuple(still))


def _brackets(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    opened: list[int] = []
    waiting = {"[": 0, "{": 0}
    found: list[tuple[int, int]] = []
    for mark in re.finditer(r"[\[\]{}]", text):
        kind = {"]": "[", "}": "{"}.get(mark[0])
        if kind is None:
            opened.append(mark.start())
            waiting[mark[0]] += 1
        elif waiting[kind]:
            # Unclosed brackets inside this pair are dropped.
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
    """Parse invalid JSON with json-repair. Return None for an object that json-repair may misread."""
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
    """Yield the innermost XML elements as one list, each with its attributes and the number that precedes it."""
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
    """Yield each Markdown table as a list of rows. A row with two cells is also a key and its value."""
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


def _blocks(text: str) -> Iterator[Structure]:
    """Yield the last blocks of YAML in which a key names a label, score or verdict."""
    left = MOST_REPAIRED
    for block in reversed(list(_BLOCK.finditer(text))[-MOST_OPEN:]):
        left -= len(block[0])
        if (
            left < 0
            or _ANCHOR.search(block[0])
            or block[0].strip().count("\n") < 1
            or not _NAMED.search(block[0])
        ):
            continue
        try:
            node = yaml.compose(block[0], Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError):
            continue
        yield Structure(block.start(), block.end(), _of_node(node), "yaml")


def _of_node(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return Pairs((str(name.value), _of_node(value)) for name, value in node.value)
    return [_of_node(one) for one in node.value] if isinstance(node, yaml.SequenceNode) else str(node.value)


def readable(response: str) -> tuple[str, ErrorType | None]:
    """Return a reply without reasoning, fences and invisible characters, or the reason why it cannot be read."""
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
    # NFKC can turn one character into eighteen, so long replies are not normalised.
    if len(text) <= LONG:
        text = compatible(text)
    text = _FENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return (text, None) if text.strip() else ("", "empty")


def prose(text: str) -> bool:
    """Return whether a text contains words other than introductions such as "Labels:" or "Final answer:"."""
    return re.search(r"\w", _INTRO.sub("", text)) is not None


def contradicted(text: str, last: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Return whether an earlier, different structure may be the answer instead of the last one.

    The last structure overrides the others unless words follow it, or it is inside a sentence and another one is not.
    """
    alone = any(not _words_on_same_lines(text, *other) for other in others)
    return bool(others) and (prose(text[last[1] :]) or (alone and _words_on_same_lines(text, *last)))


def _words_on_same_lines(text: str, start: int, end: int) -> bool:
    # In a reply with one long line, the complete line must not be searched for each structure.
    before = text[max(0, start - _BESIDE) : start].rpartition("\n")[2]
    after = text[end : end + _BESIDE].partition("\n")[0]
    return prose(before) or prose(after)
