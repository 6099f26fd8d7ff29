"""Text that lies apart: tokens in lists and records, one a line or a cell, as evaluation tools write log-probabilities.

Strings are grouped by the name before them and by their depth in brackets, cells by their column; each group is joined.
Blanks that a tokenizer keeps in a token part the words; where a group has none, each string is a word. Nothing is
parsed, so that Python's own notation and JSON that was cut are read too. Long arrays of token ids cannot be read here,
because the vocabulary is not; they are reported.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from robustify.gate.reading.cells import html_rows, word_places
from robustify.gate.reading.encoded import unescaped

LEAST = 8
"""Strings from which a group is joined: fewer make no run of words."""
LONGEST = 60
"""Characters of one token; what is longer is text and is read as it is."""
Span = tuple[int, int]
Apart = tuple[int, str]
"""The offset where joined text begins, and the text."""
_MARKS = {"Ġ": " ", "▁": " ", "Ċ": "\x0b", "</w>": " "}
_MARK = re.compile("|".join(_MARKS))
_PIECE = re.compile(r"[\s\"',\[\]]{1,20}##(?=\w)")
_NUMBER = re.compile(r"(?<![^\W\d])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![^\W\d])|\b(?:NaN|nan|None|null|inf)\b")
_BEFORE = re.compile(r"\n(?:[ \t]{0,80}\"|[ \t]{0,80}[#>+*]{1,3} ?)")
_BEHIND = re.compile(r"(?:(?:\\n|\x0b|\r)(?:\",?)?|\",?)(?=\n)")
"""What a comment, a quotation or a notebook puts around a line."""
_BETWEEN = re.compile(r"[^\w\x0bĠ▁Ċ]+")
_STRING = r"\"([^\"\\\n]*(?:\\.[^\"\\\n]*)*)\"|'([^'\\\n]*(?:\\.[^'\\\n]*)*)'"
_PART = re.compile(r"([\[{(])|([\]})])|(?:" + _STRING + r")(\s{0,2}(?:=>|:))?")
# One pattern for each quote: a search whose pattern begins with a letter is four times as fast.
_SPACED = tuple(re.compile(quote + r" [^\W\d_]{1,20}[\"']") for quote in "\"'")
_LETTERS = tuple(re.compile(f"{quote},(?<={quote}.{quote},)" + r"\s{0,2}([\"']).\1,") for quote in "\"'")
_DECIMAL = re.compile(r"\.(?<=\d\.)\d")
_FIELD = re.compile(
    r"^[ \t-]*[\"']?([A-Za-z_][\w.]{0,30})[\"']?[ \t]?[:=][ \t]?([^\s:=][^\n]{0,40})$", re.MULTILINE
)
_BYTES = re.compile(r"\[\s{0,80}(\d{1,3}(?:,\s{0,80}\d{1,3})*)\s{0,80}\]")
_DIGITS = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_NO_LETTERS = bytes(b for b in range(128) if not chr(b).isalpha())
_ENOUGH = 8
"""Tokens, numbers or marks in a text from which it may be a record of tokens."""
_NEAR, _CLOSE = 1200, 300
"""Characters within which they must be: in records, and in bare lists."""
_FAR = 20_000
"""Characters around such a place in which quoted strings are read: names, tokens and numbers may be lists apart."""
_BLOCK = 200_000
"""Strings that are grouped at a time."""
_DEEP = 3
_WIDE = 12
"""Cells of a row from which the row itself is joined."""
_DELIMITERS = ("\t", ",", ";", "|")


def apart(text: str, depth: int = 0) -> Iterator[Apart]:
    """Every text that lies apart in a text, joined."""
    marked = _dense(_places_of(text, _MARK), _NEAR) if any(mark in text for mark in _MARKS) else []
    numbered = _dense(_places_of(text, _DECIMAL), _NEAR)
    marks, numbers = _first(marked), _first(numbered)
    if marks >= 0:
        yield marks, _unmarked(_BETWEEN.sub("", _NUMBER.sub("", text.replace("</w>", "▁"))))
    pieced = _dense(_places_of(text, _PIECE), _NEAR) if "##" in text else []
    if pieced:
        yield pieced[0][0], _PIECE.sub("", text)
    spaced = (_dense(_places_of(text, *patterns), _CLOSE) for patterns in (_SPACED, _LETTERS))
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{") or any(spaced):
        yield from _grouped(text, [(0, len(text))], depth)
    elif marked or pieced or numbered:
        yield from _grouped(text, _around(text, sorted(marked + pieced + numbered), _FAR), depth)
    if marked or numbered:
        near = _around(text, sorted(marked + numbered), _NEAR)
        yield from _in_columns("\n".join(text[begin:end] for begin, end in near))
    yield from _of_rows(row for _, row in html_rows(text))
    yield from _in_bytes(text)
    close = _first(_dense(_places_of(text, _DECIMAL), _CLOSE)) if numbers >= 0 else -1
    if close >= 0 or _short_lines(text):
        words = _NUMBER.sub("", _BEHIND.sub("", _BEFORE.sub("\n", f"\n{text}\n"))[1:-1])
        yield max(close, 0), "".join(words.replace("\t", "\n").splitlines())
        yield max(close, 0), words


def joined(tokens: Sequence[str]) -> str:
    """The text that tokens make up."""
    n = len(tokens)
    text = "".join(tokens)
    if _MARK.search(text):
        return _unmarked(text)
    blanks = sum(token[:1] == " " or token[-1:] == " " for token in tokens)
    if 10 * blanks >= n:
        return text
    return " ".join(tokens).replace(" ##", "")


def _unmarked(text: str) -> str:
    return _MARK.sub(lambda mark: _MARKS[mark[0]], text)


def _places_of(text: str, *patterns: re.Pattern[str]) -> list[int]:
    """The offsets where one of the patterns matches, in order."""
    found = [match.start() for pattern in patterns for match in pattern.finditer(text)]
    return sorted(found) if len(patterns) > 1 else found


def _dense(places: Sequence[int], within: int) -> list[Span]:
    """Where places lie close together, eight within so many characters: from the first to the last of each run."""
    ends = zip(places, places[_ENOUGH - 1 :], strict=False)
    return [(first, last) for first, last in ends if last - first <= within]


def _first(spans: Sequence[Span]) -> int:
    return spans[0][0] if spans else -1


def _around(text: str, spans: Iterable[Span], near: int) -> list[Span]:
    """Where the lines begin and end that lie around spans (in order), so many characters before and behind them."""
    wide: list[Span] = []
    for first, last in spans:
        joins = wide and first - near <= wide[-1][1]
        wide.append((wide.pop()[0] if joins else max(0, first - near), last + near))
    out: list[Span] = []
    done = 0
    for first, last in wide:
        if last >= done:
            begin = max(text.rfind("\n", done, max(done, first)) + 1, done)
            end = text.find("\n", last)
            out.append((begin, end if end >= 0 else len(text)))
            done = out[-1][1] + 1
    return out


def _short_lines(text: str) -> bool:
    """Whether a text is little more than one token a line, some of which begin with a blank."""
    n = text.count("\n")
    return n >= _ENOUGH and len(text) < 12 * n and 10 * text.count("\n ") >= n


Value = tuple[str, int, int, int]
"""A string, the number of the bracket around it, that of the bracket around this one, and its place in its bracket."""


def _grouped(text: str, spans: Sequence[Span], depth: int) -> Iterator[Apart]:
    """Quoted strings within spans by name and depth, joined; a long one that holds such records is read in its turn."""
    groups: dict[tuple[str, int], list[Value]] = defaultdict(list)
    begins: dict[tuple[str, int], int] = {}
    around = [0, 0]
    places = [0, 0]
    key, opened, n = "", 0, 0
    for part in chain.from_iterable(_PART.finditer(text, begin, end) for begin, end in spans):
        kind = part.lastindex
        if kind == 1:
            opened += 1
            around.append(opened)
            places.append(0)
            key = ""
        elif kind == 2:
            if len(around) > 2:
                around.pop()
                places.pop()
            key = ""
        else:
            string = part[3] if part[3] is not None else part[4]
            if len(string) > LONGEST:
                if depth < _DEEP and string.count("'") + string.count('"') >= _ENOUGH:
                    yield from ((part.start(), inner) for _, inner in apart(_plain(string), depth + 1))
                continue
            group = ("a name" if kind == 5 else key, len(around))
            begins.setdefault(group, part.start())
            groups[group].append((string, around[-1], around[-2], places[-1]))
            if kind == 5:
                key = "" if string.isdigit() else ": " + string
            else:
                places[-1] += 1
            n += 1
            if n % _BLOCK == 0:
                yield from _of_groups(groups, begins)
                groups.clear()
                begins.clear()
    yield from _of_groups(groups, begins)


def _of_groups(
    groups: dict[tuple[str, int], list[Value]], begins: dict[tuple[str, int], int]
) -> Iterator[Apart]:
    for group, values in groups.items():
        if len(values) >= LEAST:
            for tokens in dict.fromkeys(_orders(values)):
                yield begins[group], joined(_plain("\0".join(tokens)).split("\0"))


def _orders(values: Sequence[Value]) -> Iterator[tuple[str, ...]]:
    """The strings of a group one after the other; where each bracket holds several, also one of each."""
    yield tuple(string for string, *_ in values)
    for level in (1, 2):
        of = [value[level] for value in values]
        if LEAST <= len(set(of)) < len(of):
            yield tuple(dict(zip(of, (string for string, *_ in values), strict=True)).values())  # the last
            first: dict[int, str] = {}
            for string, *around in values:
                first.setdefault(around[level - 1], string)
            yield tuple(first.values())
            for place in (1, 2):
                yield tuple(string for string, *_, at in values if at == place)


def _plain(text: str) -> str:
    return unescaped(text) if "\\" in text else text


def _in_columns(text: str) -> Iterator[Apart]:
    """The cells of delimited rows, and the values of each name of `name: value` lines."""
    lines = text.replace("\x0b", "\n").split("\n")
    for delimiter in _DELIMITERS:
        if text.count(delimiter) >= _ENOUGH:
            yield from _of_rows(row for row in _delimited(lines, delimiter) if len(row) >= 2)
    fields: dict[str, list[str]] = defaultdict(list)
    for field in _FIELD.finditer(text):
        fields[field[1]].append(field[2].strip("\"', "))
    yield from ((0, _plain(joined(values))) for values in fields.values() if _worded(values))


def _delimited(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(1 << 27)
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            yield [cell.strip() for cell in row] if delimiter == "|" else row
    except csv.Error:
        return


def _of_rows(rows: Iterable[Sequence[str]]) -> Iterator[Apart]:
    """The cells of each column, joined, and of each long row."""
    columns: dict[tuple[int, int], list[str]] = defaultdict(list)
    for row in rows:
        if len(row) > _WIDE and _worded(row):
            yield 0, joined(row)
        elif len(row) <= _WIDE:
            for i, cell in enumerate(row):
                if len(cell) <= LONGEST:
                    columns[len(row), i].append(cell)
    yield from ((0, joined(cells)) for cells in columns.values() if _worded(cells))


def _in_bytes(text: str) -> Iterator[Apart]:
    """Lists of the bytes of a text: of each token, or of all of it."""
    read = bytearray()
    first = 0
    for found in _BYTES.finditer(text):
        numbers = [int(digits) for digits in _DIGITS.findall(found[1])]
        if max(numbers) < 256:
            first = first if read else found.start()
            read += bytes(numbers)
    if len(read) >= 4 * LEAST and 2 * len(read.translate(None, _NO_LETTERS)) > len(read):
        yield first, read.decode("utf-8", "replace")


def _worded(cells: Sequence[str]) -> bool:
    """Whether there are enough cells and half of them are words and no numbers."""
    if len(cells) < LEAST:
        return False
    words = _NUMBER.sub("", "\0".join(cells)).split("\0")
    return 2 * sum(map(bool, map(str.strip, words))) >= len(cells)


_NAMED_IDS = re.compile(
    r"[\"']?\s{0,3}[:=,]\s{0,3}(?:[a-z.]{1,20}\()?\s{0,3}[\[(]{1,3}\s{0,80}"
    r"(\d{1,7}(?:[\s,]{1,80}\d{1,7}){15,})"
)
_NAME = re.compile(
    r"(?:^|[^a-z])(?:(?:input|prompt|token|output|encoded|target|label|completion)[_-]?)*\Z", re.IGNORECASE
)
_LONG_RUN = re.compile(r"\d[\d\s,]{119,}", re.ASCII)
_STEP = 8
_THINNED = re.compile(r"[\d\s,]{15}", re.ASCII)
"""What every eighth character of such a run shows."""
_BARE_IDS = re.compile(r"\d{1,6}(?:[\s,]{1,80}\d{1,6}){39,}", re.ASCII)
_MOST_ID = 400_000
_SAMPLE = 4000


def token_ids(text: str) -> tuple[int, int] | None:
    """The offset and the number of the first long array of numbers that may be the tokens of a text."""
    for at, end in ((at, at + len(name)) for name in ("ids", "tokens") for at in word_places(text, name)):
        found = _NAMED_IDS.match(text, end)
        if found and _NAME.search(text, max(0, at - 30), at) and are_ids(_ids(found[1]), named=True):
            return found.start(1), len(_DIGITS.findall(found[1]))
    for run in _LONG_RUN.finditer(text) if _THINNED.search(text[::_STEP]) else ():
        for found in _BARE_IDS.finditer(run[0]):
            if are_ids(_ids(found[0]), named=False):
                return run.start() + found.start(), len(_DIGITS.findall(found[0]))
    return None


def _ids(run: str) -> list[int]:
    return [int(digits) for digits in _DIGITS.findall(run[:_SAMPLE])]


def are_ids(numbers: Sequence[int], *, named: bool) -> bool:
    """Whether numbers are spread as token ids are: over thousands, in no order, the common ones again and again."""
    n = len(numbers)
    if not numbers or max(numbers) > _MOST_ID:
        return False
    distinct = len(set(numbers))
    steps = [b - a for a, b in pairwise(numbers)]
    rising = sum(step > 0 for step in steps)
    if not 0.25 * n <= rising <= 0.75 * n:
        return False
    if named:
        return max(numbers) >= 256 and 3 * distinct >= n
    return (
        max(numbers) >= 2000
        and 4 * sum(number >= 256 for number in numbers) >= 3 * n
        and n // 2 <= distinct < n
        and Counter(steps).most_common(1)[0][1] <= n // 8
    )
