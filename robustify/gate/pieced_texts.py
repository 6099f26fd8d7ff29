"""Join text that a file contains only in pieces: as tokens of a log, words of a table, or single characters.

A server that returns its prompt, a tokenizer, and a table of scores write a text as many short strings. The strings that
stand in the same place of a structure (the same name at the same depth, the same column) are joined in their order, so that
the fingerprint layer reads the text again.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from robustify.base.folded_words import BREAK, unescaped

LEAST = 12
"""Minimum number of pieces to join. Seven words are at least as many tokens or characters."""
_LONGEST = 40
"""Maximum number of characters in a piece."""
_NEAR = 480
"""Maximum number of characters between two strings of one structure, as for a token with its bytes and scores."""
_STRING = re.compile(
    r"(?:\"([^\"\\\n]*(?:\\.[^\"\\\n]*)*)(?:\"|\\?(?:\n|\Z))|(?<!\w\w)'([^'\\\n]*(?:\\.[^'\\\n]*)*)(?:'|\\?(?:\n|\Z))"
    r"|`([^`\n]{1,40})`)(\s?:)?"
)
"""String, possibly the name of a value. One without an end takes the rest of its line, because each is read only once."""
_MARKS = str.maketrans({"\u0120": " ", "\u2581": " ", "\u2423": " ", "\u010a": BREAK, "\u0109": " "})
"""Blanks and breaks as tokenizers write them (byte-level BPE, SentencePiece), and an open box."""
_MARKED = re.compile("[\u0120\u2581\u2423]")
_GLUE = re.compile(r"[\s\"',\[\]|\x1f]*##(?=\w)|@@[\s\"',\[\]|\x1f]+")
"""Joint of two pieces of a word (WordPiece, subword-nmt)."""
_BETWEEN = re.compile(r"[\s\"',\[\]|]+")
_SPACED = re.compile(r"[^\n]([ ,;|/._-])(?:[^\n]\1){23,}[^\n]?")
"""Characters with the same mark after each."""
_BARS = re.compile(r"[|\[\]{}]")
"""Marks between pieces in a line."""
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?(?:\{[\w!.,:#% -]*\}(?=\{))?|\\[-'`^~=]|[{}]")
"""Command of LaTeX, with its first of several arguments, such as a color, or an accent or a place for a hyphen."""
_COMMANDS = re.compile(r"\\[a-zA-Z]+\*?\{|\\[-'`^~=]|\}\{")
_SHORT_COMMAND = re.compile(r"\\[a-zA-Z]+ ")
"""Command of LaTeX without arguments, and the blank that ends it."""
_ELEMENT = re.compile(r"<([A-Za-z][\w:.-]{0,40})(?:\s[^<>\n]{0,400})?>([^<>\n]{1,40})</\1>")
"""Element of XML that has only a short text, such as a word of a drawing or of a corpus."""
_NUMBER = re.compile(r"\W*[-+]?[\d.,_:]+(?:[eE][-+]?\d+)?%?\W*")
_SCORE = re.compile(r"\d[.%]")
_WIDEST = 12
"""Maximum number of cells in a line of a table."""
_SAMPLE = 32
"""Number of rows that tell whether a column has only numbers."""
_SKIPPED = 2
"""Maximum number of lines of another form inside a table, such as a comma in quotes."""


def join_pieces(text: str) -> str:
    """Return the texts that a file contains only in pieces, each on the line where its first piece is."""
    out, before, line = list[str](), 0, 0
    for start, words in sorted(_texts(text, 2)):
        step = text.count("\n", before, start)
        out += ["\n" * step if step else BREAK, words.replace("\n", BREAK)]
        before, line = start, line + step
    return "".join(out)


def _texts(text: str, depth: int) -> Iterator[tuple[int, str]]:
    for start, pieces in (*_strings(text, depth), *_columns(text), *_elements(text)):
        words = _join(pieces)
        yield start, words
        if depth > 1 and BREAK in words:  # a notebook has the lines of its outputs in strings
            yield from ((start, inner) for _, inner in _texts(words.replace(BREAK, "\n"), depth - 1))
    yield from ((match.start(), match[0][::2]) for match in _SPACED.finditer(text))
    if len(_SCORE.findall(text)) >= LEAST:  # words with a number after each
        yield 0, "\n".join(map(_without_numbers, text.split("\n")))
    if "\\" in text and len(_COMMANDS.findall(text)) >= LEAST:
        yield from ((0, _COMMAND.sub("", read)) for read in {text, _SHORT_COMMAND.sub("", text)})
    if ("##" in text or "@@" in text) and len(_GLUE.findall(text)) >= LEAST / 3:
        yield 0, _GLUE.sub("", text)
    if not text.isascii() and len(_MARKED.findall(text)) >= LEAST / 2:
        yield 0, _BETWEEN.sub("", text).translate(_MARKS)


def _without_numbers(line: str) -> str:
    """Return a line without its numbers, or "" unless it contains many numbers next to words."""
    if line.lower() == line.upper():
        return ""
    many = line.count(".") + line.count("%") >= LEAST / 2 and len(_SCORE.findall(line)) >= LEAST / 2
    return re.sub(r"\d", "", line) if many else ""


def _join(pieces: Sequence[str]) -> str:
    """Join pieces, with blanks between them unless the pieces contain blanks."""
    text = "\x1f".join(pieces)
    text = (unescaped(text) if "\\" in text or "&" in text else text).translate(_MARKS)
    text = _GLUE.sub("", text.replace("</w>", " "))
    blank = text.startswith(" ") + sum(
        text.count(edge) for edge in ("\x1f ", " \x1f", f"{BREAK}\x1f", "\x1f\x1f")
    )
    wrapped = len(pieces[0]) > 1 and len(set(map(len, pieces[:-1]))) == 1
    return text.replace("\x1f", "" if wrapped or 8 * blank >= len(pieces) else " ")


# Strings of a structure.


@dataclass(slots=True)
class _Stream:
    """Strings with the same name at the same depth. `firsts` contains only the first string of each group: if a list of
    likely tokens follows each token of the text, this is the text."""

    start: int
    pieces: list[str] = field(default_factory=list)
    firsts: list[str] = field(default_factory=list)
    group: int = -1


def _strings(text: str, depth: int) -> Iterator[tuple[int, list[str]]]:
    streams, level, end, name = dict[tuple[str, int], _Stream](), 0, 0, ""
    opened, count = dict[int, int](), 0
    for match in _STRING.finditer(text):
        between = text[end : match.start()]
        end = match.end()
        if len(between) > _NEAR:
            yield from _finished(streams)
        closed = between.count("}") + between.count("]") + between.count(")")
        opens = between.count("{") + between.count("[") + between.count("(")
        level = max(level - closed, 0)
        for _ in range(opens):
            level, count = level + 1, count + 1
            opened[level] = count
        value, is_key = match[1] or match[2] or match[3] or "", match[4] is not None
        if is_key:
            name = "" if value.isdigit() else value
        if len(value) > _LONGEST:
            if depth > 1 and value.count("'") + value.count('"') >= 2 * LEAST:
                yield from ((match.start(), [inner]) for _, inner in _texts(unescaped(value), depth - 1))
            continue
        place, group = ("\0" if is_key else name, level), opened.get(level - (not is_key), 0)
        stream = streams.get(place)
        if stream is None:
            stream = streams[place] = _Stream(match.start())
        stream.pieces.append(value)
        if stream.group != group:
            stream.firsts.append(value)
            stream.group = group
    yield from _finished(streams)


def _finished(streams: dict[tuple[str, int], _Stream]) -> Iterator[tuple[int, list[str]]]:
    for stream in streams.values():
        for pieces in (stream.pieces, stream.firsts):
            new = pieces is stream.pieces or len(pieces) < len(stream.pieces)
            if new and len(pieces) >= LEAST and len(set(pieces)) >= LEAST / 2:
                yield stream.start, pieces
    streams.clear()


def _elements(text: str) -> Iterator[tuple[int, list[str]]]:
    if text.count("</") >= LEAST:
        matches_by_name = defaultdict[str, list[re.Match[str]]](list)
        for match in _ELEMENT.finditer(text):
            matches_by_name[match[1]].append(match)
        yield from (
            (matches[0].start(), [match[2] for match in matches])
            for matches in matches_by_name.values()
            if len(matches) >= LEAST
        )


# Columns of a table.


def _columns(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns of tables whose cells are separated by blanks, tabs, or marks, and also runs of one-word lines."""
    lines, starts, start = text.split("\n"), list[int](), 0
    for line in lines:
        starts.append(start)
        start += len(line) + 1
        n = max(line.count("|"), line.count("["), line.count("{")) if len(line) >= LEAST else 0
        if n >= LEAST and len(line) <= n * _LONGEST / 2:
            yield starts[-1], [_BARS.sub("", line)]
    short = [(i, line) for i, line in enumerate(lines) if len(line) <= 4 * _LONGEST]
    for delimiter in ("", *filter(text.__contains__, "\t,;|")):
        tables = defaultdict[int, list[int]](list)
        for i, line in short:
            n = line.count(delimiter) if delimiter else max(len(line.split()), 1)
            if 0 < n <= _WIDEST:
                table = tables[n]
                if table and i - table[-1] > _SKIPPED + 1:
                    yield from ((starts[table[0]], cells) for cells in _cells(lines, table, delimiter, n))
                    table.clear()
                table.append(i)
        for n, table in tables.items():
            if table:
                yield from ((starts[table[0]], cells) for cells in _cells(lines, table, delimiter, n))


def _cells(lines: Sequence[str], table: Sequence[int], delimiter: str, n: int) -> Iterator[list[str]]:
    if len(table) < LEAST:
        return
    if n == 1 and not delimiter:
        if sum(len(lines[i]) for i in table) <= _LONGEST / 2 * len(table):
            yield [lines[i] or " " for i in table]
        return
    some = [lines[i].split(delimiter or None) for i in table[:: len(table) // _SAMPLE + 1]]
    kept = [j for j, cells in enumerate(zip(*some, strict=True)) if not all(map(_NUMBER.fullmatch, cells))]
    rows = [lines[i].split(delimiter or None) for i in table] if kept else []
    for column in ([row[j] for row in rows] for j in kept):
        if sum(map(len, column)) <= _LONGEST / 3 * len(column) and len(set(column)) >= LEAST / 2:
            padded = all(cell[:1] == " " == cell[-1:] for cell in column)
            cells = (cell[1:-1] if padded else cell for cell in column)
            yield [cell.rpartition("=")[2].strip("\"'") or " " for cell in cells]
