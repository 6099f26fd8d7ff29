"""Items in rows: CSV, TSV, tables in Markdown and HTML, the tuples of SQL inserts, and lists of lists in JSON.

A header counts by its names. Without one, rows count if each has a long text, at least three other texts and a cell
that points at one of them.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from robustify.gate.shapes import Lines, Shaped, n_words

Row = tuple[int, Sequence[str]]
"""The line of a row, and its cells."""
_STEM = re.compile(r"(?:full|input|item)?(?:questions?|stem)(?:stem|text|body|title|concept)?|ques|problem|mcq|prompttext"
                   r"|pregunta|frage|vraag|domanda")  # fmt: skip
_WEAK_STEM = re.compile(
    r"prompt|input|goal|ctx|context|premise|sentence|problemstatement|instruction|task|item|text|q|query|continuation"
)
"""Names of a stem and of many other things."""
_CHOICES = re.compile(r"(?:answer|possible|incorrect|wrong|multiple|mc|context)?(?:choices|options|answers)|endings"
                      r"|alternatives|candidates|distractors|(?:mc\d|target|multiplechoice)(?:targets|scores)|choicelist"
                      r"|optionlist|responses|opciones|antworten|opzioni")  # fmt: skip
_KEY = re.compile(r"(?:correct|right|best)(?:answer|option|choice|idx|index|key|letter)?|answer(?:key|idx|index|id|letter)?"
                  r"|label|key|target|gold(?:label|index)?|solution|cop|ans|groundtruth|respuesta|antwort")  # fmt: skip
_ONE = re.compile(r"(?:option|opt|op|choice|ending|answer|alternative|alt|sol|response|candidate|ans|distractor|choix"
                  r"|(?:incorrect|wrong)(?:answer|choice)?)(?:[a-j]|\d{1,2})|[a-j]")  # fmt: skip
_DELIMITERS = (",", "\t", ";", "|", "&", "  ")
_HEAD = 40
"""First lines of a text that say whether it is a table."""
_PIPES = 3
_HEAD_WORD = re.compile(
    r"(?:question|stem|problem|prompt|query|mcq)(?:[ _]?(?:text|stem))?(?:\t| {2}|$)", re.I
)
_LINE_END = re.compile(r"[\n\x0b]")
_LETTERS = frozenset("ABCDEFGHIJabcdefghij")
_INSERT = re.compile(r"insert\s+into\s+[^\s(]{1,120}\s*(?:\(([^()]{3,600})\))?\s*values\b", re.IGNORECASE)
_TUPLE = re.compile(
    r"[\s,]{0,200}\(((?:\s*(?:N?'(?:[^']|'')*'|\"[^\"]*\"|[\w.+-]+)\s*,){3,30}\s*(?:'(?:[^']|'')*'|\"[^\"]*\"|[\w.+-]+)\s*)\)"
)
_LITERAL = re.compile(r"N?'((?:[^']|'')*)'|\"([^\"]*)\"|([\w.+-]+)")
_LEAST_ROWS = 3
_LEAST_WORDS = 3
_MOST_NODES = 2_000_000


def table_items(text: str) -> Iterator[Shaped]:
    """Yield the rows of a text that are shaped like items, at their lines."""
    if _INSERT.search(text):
        yield from _judged(_inserted(text))
        return
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{"):
        yield from _listed(text)
    for delimiter in _DELIMITERS:
        if _regular(text, delimiter):
            quoted = list(_judged(_rows(text, delimiter, quoting=csv.QUOTE_MINIMAL)))
            # Within a JSON string the quote before a table would swallow it whole.
            items = quoted or list(_judged(_rows(text, delimiter, quoting=csv.QUOTE_NONE)))
            if items:
                yield from items
                return


def _regular(text: str, delimiter: str) -> bool:
    """Return whether half of the first lines, or of the lines of a table in prose, have enough delimiters."""
    if delimiter == "|":
        return len(list(islice(filter(_piped, _LINE_END.split(text)), 2))) == 2
    if delimiter in ("\t", "  "):  # tables of notebooks and pages lie within other text
        named = (line for line in _LINE_END.split(text) if _HEAD_WORD.search(line))
        if any(_header(cells) for line in named for cells in (_cells(line),)):
            return True
    if text.count(delimiter) < 4:
        return False
    head = [line for line in _LINE_END.split(text[:30000]) if line.strip()][:_HEAD]
    if 2 * sum(line.count(delimiter) >= 3 for line in head) >= len(head) > 0:
        return True
    if head and _header(head[0].split(delimiter)):
        return True
    quoted = text.count(f'"{delimiter}') >= 4 and text.count('\n"') >= _LEAST_ROWS - 1  # cells hold newlines
    sizes = [
        len(cells)
        for _, cells in islice(_rows(text[:30000], delimiter, csv.QUOTE_MINIMAL), _HEAD if quoted else 0)
    ]
    return len(sizes) >= _LEAST_ROWS and 2 * sum(size >= 4 for size in sizes) >= len(sizes)


def _cells(line: str) -> list[str]:
    """Return the cells that tabs or two blanks part, without what a notebook puts around a line."""
    return re.split(r"\t| {2,}", line.strip(' \t\n",\\'))


def _piped(line: str) -> bool:
    """Return whether a line is a row of a table in prose: bars with spaces around them."""
    return "|" in line and line.count(" | ") + line.lstrip().startswith("|") >= _PIPES


def _rows(text: str, delimiter: str, quoting: int) -> Iterator[Row]:
    csv.field_size_limit(1 << 27)
    numbers: list[int] = []

    def physical() -> Iterator[str]:
        for number, line in enumerate(text.split("\n"), 1):
            for part in line.split("\x0b"):
                if delimiter != "|" or _piped(part):
                    numbers.append(number)
                    yield part.removeprefix("\t") + "\n" if delimiter == "\t" else part + "\n"

    if delimiter == "  ":  # a line within a notebook is a string of a list
        yield from ((numbers[-1], cells) for line in physical() if any(cells := _cells(line)))
        return
    try:
        for cells in csv.reader(physical(), delimiter=delimiter, skipinitialspace=True, quoting=quoting):  # type: ignore[arg-type]
            row = [cell.strip(" \t\\") for cell in cells]
            if delimiter == "|":
                row = row[1 if row and not row[0] else 0 : -1 if row and not row[-1] else None]
            if row and not all(set(cell) <= set("-: ") for cell in row):
                yield numbers[-1], row
    except csv.Error:
        return


def _inserted(text: str) -> Iterator[Row]:
    lines = Lines(text)
    for insert in _INSERT.finditer(text):
        if insert[1]:
            yield lines.of(insert.start()), insert[1].split(",")
        at = insert.end()
        while match := _TUPLE.match(text, at, at + 20000):
            cells = [(a or b or c).replace("''", "'") for a, b, c in _LITERAL.findall(match[1])]
            yield lines.of(match.start(1)), cells
            at = match.end()


def _judged(rows: Iterator[Row]) -> Iterator[Shaped]:
    """Yield rows under a header that names a stem and choices; without one, rows that look like items."""
    column, keyed, n = -1, False, 0
    bare: list[tuple[Shaped, int]] = []
    for line, cells in rows:
        n += 1
        header = _header(cells)
        if header is not None:
            column, keyed = header
        elif column >= 0:
            # Columns of blanks have a number before the first one that the header does not name.
            if any(n_words(cell) >= _LEAST_WORDS for cell in cells[column : column + 2]):
                yield Shaped(line, keyed)
        elif _is_item(cells):
            bare.append((Shaped(line, True), len(cells)))
    width = Counter(size for _, size in bare).most_common(1)
    if width and width[0][1] >= _LEAST_ROWS and 2 * width[0][1] >= n:
        yield from (shaped for shaped, size in bare if size == width[0][0])


def _header(cells: Sequence[str]) -> tuple[int, bool] | None:
    """Return the column of the stem and whether there is one of keys, if cells are a header that names choices.

    Names are compared without case and punctuation: `Question Stem`, `question_stem` and `questionStem` are one.
    """
    if len(cells) < 3 or max(map(len, cells)) > 40 or any(cell[:1].isdigit() for cell in cells):
        return None
    bare = [re.sub(r"[\W_]+", "", cell.lower()) for cell in cells]
    columns = [
        next((i for i, name in enumerate(bare) if kind.fullmatch(name)), -1) for kind in (_STEM, _WEAK_STEM)
    ]
    key = any(map(_KEY.fullmatch, bare))
    ones = {name for name in bare if _ONE.fullmatch(name)}
    choices = any(map(_CHOICES.fullmatch, bare)) or len(ones) >= 3
    if key:  # two choices under full names, or a frame that was too wide to print
        choices |= sum(len(one) > 1 for one in ones) >= 2 or "..." in cells
    column = columns[0] if columns[0] >= 0 or not key else columns[1]
    return (column, key) if choices and column >= 0 else None


def _is_item(cells: Sequence[str]) -> bool:
    """Return whether cells without names are a stem, at least three options, and one that points at an option."""
    if not 5 <= len(cells) <= 14:
        return False
    stem = max(cells, key=lambda cell: len(cell.split()))
    if len(stem.split()) < 5:
        return False
    rest = [cell for cell in cells if cell is not stem and cell]
    points = [
        c for i, c in enumerate(rest) if c in _LETTERS or (c.isdigit() and len(c) == 1) or c in rest[:i]
    ]
    options = {cell for cell in rest if cell not in points or rest.count(cell) > 1}
    asks = "?" in stem or "__" in stem or any(c in _LETTERS for c in points)
    return bool(points) and len(options) >= 3 and asks


def _listed(text: str) -> Iterator[Shaped]:
    """Yield the members of lists in JSON that ask a question and offer options, under names that say nothing or none."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return
    stack: list[object] = [tree]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        node = stack.pop()
        inner = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
        asking = sum(map(_asks, inner)) if isinstance(node, list) else 0
        if asking >= _LEAST_ROWS and 2 * asking >= len(inner):
            yield from [Shaped(1, False)] * asking
        stack.extend(one for one in inner if isinstance(one, dict | list))


def _asks(member: object) -> bool:
    if isinstance(member, dict) and _header(list(member)):
        return False  # found by its names
    values = list(member.values()) if isinstance(member, dict) else member if isinstance(member, list) else []
    questions = [v for v in values if isinstance(v, str) and n_words(v) >= _LEAST_WORDS and "?" in v]
    lists = [
        v for v in values if isinstance(v, list) and 2 <= len(v) <= 10 and all(isinstance(o, str) for o in v)
    ]
    flat = (
        isinstance(member, list) and not lists and sum(isinstance(v, str | int | float) for v in values) >= 5
    )
    return len(questions) == 1 and (len(lists) == 1 or flat)
