"""Detect text that looks like benchmark items: a stem, its options, and possibly a key.

Parts are recognized by names (JSON, YAML, XML, LaTeX, programs), marks (`A) B) C)`), quotes, or columns. Only table rows
are parsed, so that malformed text is searched too.
"""

import csv
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

ENOUGH = 3
"""Number of item shapes without a key at which a file is refused."""
MOST_SHAPES = 5000
"""Maximum number of item shapes to count in a text."""
Shape = tuple[int, bool]
"""Shape of an item: the line on which it begins, and whether it has a key."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Letters of scripts that put few or no blanks between words."""
_LEADERS = " \t#>*|/+-\"'`\x0b\n([{_\\~%"
"""Characters before the text of a line: quotes, bullets, comment marks."""
_KEY_WORDS = r"(?:answer|correct|label|key|solution|target|gold|ans|right|cop)"
_POINTS = re.compile(r"[A-Ja-j\d]")
_QUOTED = r"(?:\"(?:[^\"\\\n]|\\.){1,600}\"|'(?:[^'\\\n]|\\.){1,600}'|`[^`\n]{1,600}`)"


def shapes_of(text: str) -> list[Shape]:
    """Return the item-like blocks in a text. Several methods look for them, and the list with the highest `weight` wins."""
    lists = [list(islice(_table_shapes(text), MOST_SHAPES))]
    for find in (_named_parts, _marked_options, _quoted_options):
        offsets = list(islice(find(text), MOST_SHAPES))
        ends = [match.start() for match in re.finditer("\n", text)] if offsets else []
        lists.append([(bisect_left(ends, offset) + 1, keyed) for offset, keyed in offsets])
    return max(lists, key=weight)


def weight(shapes: Sequence[Shape]) -> tuple[int, int]:
    """Return a sort key that prefers lists with more blocks that have an answer key, and then longer lists."""
    return sum(keyed for _, keyed in shapes), len(shapes)


def _n_words(text: str) -> int:
    """Return the number of words. In scripts without blanks between words, two letters count as one word."""
    n = len(re.findall(r"[^\W\d_]{2,}", text))
    return n if text.isascii() else n + len(_UNSPACED.findall(text)) // 2


# Parts with names.

_STEM_WORD = re.compile(r"(question|stem|mcq|frage|pregunta)|query|problem|prompt")
"""Names of a stem. The last three have other uses, so the text after them must contain a question mark."""
_STEM_BEFORE = re.compile(r"(?:^|[\n\x0b{\[(,<*|;:=@$\\_/#>-])[ \t\"']*\Z")
"""Beginning of a line, cell or argument, not of a word inside a sentence."""
_STEM_AT = re.compile(
    r"(?:[_ -]?(?:stem|text|body|title|en))?[\"']?\s{0,3}"
    r"(?::\s*(?:str\s*=)?|=>|=(?!=)|\b[^<>\n]{0,80}>|\}?\s*\{|(?<=\\question)(?:\[[^\]\n]*\])?[ \t\n])"
    r"\s*(?:\{\s*\"?\d+\"?\s*:)?\s*(?:[|>][+-]?\s*\n)?\s*(?:<!\[CDATA\[|<[^<>\n]{1,40}>|[rfbu]{0,2}[\"'(`{\[]{1,5})?\s*"
    r"([^\W_][^\n<\x0b]{8,1000})"
)
_CODE = re.compile(r"[,;]\s*[\"']|[,;]\s*[\w-]+\s*[:=]|[\"']\s*[:=,)\]}]|[=\[\]{}|]|\w\(|\w\.\w+\.")
"""End of the prose in a value: the next name, an index, a call."""
_LIST = re.compile(
    r"(?<![a-z])(?:answer[_ ]?)?(?:choices?|options?|alternatives|endings|candidates|distractors|answers"
    r"|(?:incorrect|wrong)[_ ]?answers)[\"'`]?(?:\]|\})?\s{0,3}(?::\s*(?:[a-z\[\]., ]{1,40}=)?|=>|=(?!=)|\{)\s*",
    re.IGNORECASE,
)
_ONES = re.compile(
    r"(?:^|[\s\"'`{,(<\[.$@-])(?:(?:option|opt|op|choice|ending|answer|alternative|distractor|incorrect|wrong"
    r"|incorrect[_ ]answer)[_ -]?)?([A-Ja-j]|\d)[\"'`]?\]?\s{0,3}(?::|=>|=(?!=)|>)\s*[\"'`(]?\s*[^\s,]",
    re.IGNORECASE,
)
_ELEMENTS = re.compile(
    r"<(?:choice|option|alternative|answer|distractor|simplechoice|response|li|mc)\b|type\s*=\s*[\"']?radio"
    r"|\\(?:correct|wrong|good|bad)?(?:choice|answer|bonne|mauvaise|task|item)\b",
    re.IGNORECASE,
)
_KEY = re.compile(
    rf"(?<![a-z]){_KEY_WORDS}(?:[_ -]?(?:answer|key|idx|index|option|choice|id|letter|text))?"
    r"[\"'`]?\]?\s{0,3}(?::|=>|=(?!=)|>)|correct=|\\correct|\\bonne",
    re.IGNORECASE,
)
_DASHED = re.compile(r"^[ \t]*(?:-|\*|\d+[.)])[ \t]+\S", re.MULTILINE)
_LETTERED = re.compile(r"(?<!\w)[A-Ja-j]\s?[).:]")
_ORDER = re.compile("a.{0,3}b.{0,3}c|1.{0,3}2.{0,3}3")
_WINDOW = 3000
_PLACEHOLDER = re.compile(r"\{\{-?\s*[A-Za-z_][\w.|\[\]()' ]{2,40}\s*-?\}\}")
_CLASS = 3
"""Maximum number of words in the name of a class."""


def _named_parts(text: str) -> Iterator[tuple[int, bool]]:
    stems = list(_stems(text))
    for i, (start, text_start) in enumerate(stems):
        end = min(stems[i + 1][0] if i + 1 < len(stems) else len(text), text_start + _WINDOW)
        begin = max(stems[i - 1][1] if i else 0, start - _WINDOW)
        for window in (text[text_start:end], text[begin:start]):
            if _has_choices(window) and not _is_template(text[max(0, start - 300) : start], window):
                yield start, _KEY.search(window) is not None
                break


def _stems(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offset of each stem's name, and the offset of its text, or of the end of the list that contains it."""
    for word in _STEM_WORD.finditer(text.replace("İ", "I").lower()):  # places must not shift
        begins = _STEM_BEFORE.search(text, max(0, word.start() - 40), word.start())
        named = _STEM_AT.match(text, word.end()) if begins else None
        if named is not None:
            text_start, quote = named.start(1), text[named.start(1) - 1]
            quoted = quote in "\"'`"
            prose = named[1].partition(quote)[0] if quoted else _CODE.split(named[1], maxsplit=1)[0]
            if _n_words(prose) >= 4 - quoted and (word[1] or "?" in prose):
                listed = text[word.end() : text_start].rstrip("\"'` \n").endswith("[")
                yield word.start(), max(text.find("]", text_start), text_start) if listed else text_start


def _is_template(before: str, window: str) -> bool:
    """Return whether a stem follows a placeholder in its paragraph, and has names of classes as choices."""
    listed = _LIST.search(window)
    paragraph = re.split(r"[\n\x0b]\s*[\n\x0b]", before)[-1]
    if listed is None or _PLACEHOLDER.search(paragraph) is None:
        return False
    options = re.findall(_QUOTED, window[listed.end() :].partition("]")[0])
    return bool(options) and all(len(option.split()) <= _CLASS for option in options)


def _has_choices(window: str) -> bool:
    labels = "".join(match[1].lower() for match in _ONES.finditer(window))
    named = _ORDER.search(labels) is not None or len(_ELEMENTS.findall(window)) >= 3
    return named or any(_offers(window[match.end() : match.end() + 1500]) for match in _LIST.finditer(window))


def _offers(text: str) -> bool:
    """Return whether a list contains options: texts in brackets, lettered parts of one text, or dashed lines."""
    text = text.lstrip("\"'") if text[1:2] == "[" else text
    first = text[:1] or " "
    if first in "[({":
        inner = text.partition("])}"["[({".index(first)])[0]
        return (len(re.findall(_QUOTED, inner)) or inner.count(",") + 1) >= 2
    if first in "\"'`":
        return len(_LETTERED.findall(text[:600])) >= 2
    return text.lstrip()[:1] in ("-", "*", "1") and len(_DASHED.findall(text[:600])) >= 2


# Options with marks. License clauses and numbered steps have marks too, but neither a question nor short options.

_MARK = re.compile(
    r"[A-Ja-j1-9][).:\]](?:(?<![\w.-]..)(?<!\w\(..)(?=[*_)\]>]{0,3}(?:[\s<]|$))|(?<=[\n\x0b][A-J].)(?=\w))"
)
_REACH, _LONGEST = 600, 400
_ANSWER = re.compile(
    r"(?:答案|答え|解答|正解|정답|\bответ|\bתשובה|\bالإجابة|\bคำตอบ|\b(?:answers?|ans|correct|key|solution|antwort|respuesta|r[eé]ponse)\b)"
    r"[^\n\x0b]{0,24}?[:=\-–)\s*_\"']{1,8}[(\[*\"'`]{0,3}[A-Ja-j0-9]\b",
    re.IGNORECASE,
)
_FIELD = re.compile(r"\W*[\w. -]{0,30}[}>\])]{1,2}\W*|\W*")
"""Field of a prompt template in place of an option."""
_CLAUSE = re.compile(r"(?:;|,|\band|\bor|:)\s*[\"'\\n,]*\Z")
_PRONOUN = re.compile(
    r"\b(?:which|what|who|whom|whose|when|where|why|how|choose|select|following|complete|best)\b", re.I
)


def _marked_options(text: str) -> Iterator[tuple[int, bool]]:
    """Yield runs of options that look like an item. Lines begin with the marks A, B, C, or 1, 2, 3."""
    run: list[int] = []
    for match in _MARK.finditer(text):
        start, mark = match.start(), match[0]
        if mark[0].isdigit() and not _starts_line(text, start):
            continue
        if run and start - run[-1] <= _REACH and mark == chr(ord(text[run[-1]]) + 1) + text[run[-1] + 1]:
            run.append(start)
        elif mark[0] in "Aa1":
            yield from _option_shape(text, run)
            run = [start]
    yield from _option_shape(text, run)


def _starts_line(text: str, offset: int) -> bool:
    head = re.split(r"[\n\x0b]", text[max(0, offset - 24) : offset])
    return not head[-1].strip(_LEADERS) and (len(head) > 1 or offset <= 24)


def _option_shape(text: str, run: list[int]) -> Iterator[tuple[int, bool]]:
    """Yield the offset of a run of short labelled options that follows a question, and whether one of them is shown as the
    key."""
    if len(run) < 3:
        return
    end = run[-1] + 2 + len(re.split(r"[\n\x0b]", text[run[-1] + 2 : run[-1] + 2 + _LONGEST], maxsplit=1)[0])
    cuts = zip(run, (*run[1:], end), strict=True)
    options = [text[a + 2 : b].rstrip(" \n\x0b\"',\\").strip(_LEADERS) for a, b in cuts]
    before = text[max(0, run[0] - _REACH) : run[0]].rstrip(_LEADERS + ",").replace("\x0b", "\n")
    stem, words = before.rpartition("\n\n")[2], sorted(len(option.split()) for option in options)
    clauses = sum(_CLAUSE.search(option) is not None for option in options)
    long = max(map(len, options)) > _LONGEST or words[len(options) // 2] > 25
    if long or "" in options or all(map(_FIELD.fullmatch, options)) or 2 * clauses >= len(options):
        return
    asks, wonders = "?" in stem or "__" in stem, _PRONOUN.search(stem) is not None
    key_match = _KEY.search(text, run[-1], end + 160)
    key_text = (
        text[key_match.end() : key_match.end() + _LONGEST].lstrip(_LEADERS).lower() if key_match else ""
    )
    answered = _ANSWER.search(text, run[-1], end + 160) is not None
    answered |= any(key_text.startswith(option[:40].lower()) for option in options)
    upper = text[run[0]].isupper()
    if upper:
        shaped = asks or answered or (wonders and _starts_line(text, run[0]))
    else:
        shaped = asks and (answered or (wonders and not text[run[0]].isdigit()))
    if shaped and _n_words(stem) + len(re.findall(r"\b\w\b", stem)) >= 3:
        yield run[0], answered and (asks or upper)


# Options without known names or marks: in quotes, or in dashed lines above an answer.

_ANY_NAME = r"[\"':]?[\w ]{1,20}[\"']?\s*[:=]"
_QUOTES = re.compile(
    rf"\?[\"'`]\s*[,:]?\s*(?:\{{\s*)?({_ANY_NAME}?\s*)?(?:[\w!]{{0,8}}[\[({{]\s*)?"
    rf"((?:{_QUOTED}\s*(?::\s*[\d.]+\s*)?,?\s*){{2,8}}{_QUOTED})"
    rf"([\])}}]?,\s*(?:{_ANY_NAME}\s*)?[\"']?[A-J\d]\b)?"
)
_ASKED = re.compile(r"(?:\w[\w,'-]* ){2}[\w ,.;:'-]*\Z")
_BULLETS = re.compile(
    r"\?[\"'*_,\\ ]{0,9}(?:\n|\x0b)\s{0,9}(?:[ \t>#|/\"'*]{0,30}[-*+] [^\n\x0b]{1,200}[\n\x0b]\s{0,9}){3,10}"
    rf"[^\w\n]{{0,30}}(?:correct )?{_KEY_WORDS}\W{{0,4}}[:=]",
    re.IGNORECASE,
)


def _quoted_options(text: str) -> Iterator[tuple[int, bool]]:
    for match in _QUOTES.finditer(text):
        question = _ASKED.search(text, max(0, match.start() - 200), match.start())
        if "?" not in match[2] and question is not None and "enum" not in (match[1] or ""):
            *options, last = (text[1:-1] for text in re.findall(_QUOTED, match[2]))
            keyed = match[3] or last in options or _POINTS.fullmatch(last)
            yield match.start(), bool(keyed and not match[1])  # a program's dialogue has buttons under a name
    yield from ((match.start(), True) for match in _BULLETS.finditer(text))


# Rows: CSV, TSV, tables in Markdown and HTML.


def _table_shapes(text: str) -> Iterator[Shape]:
    """Yield the item-like rows of tables. A line break inside a line also separates rows."""
    parts = [(n, part) for n, line in enumerate(text.split("\n"), 1) for part in line.split("\x0b")]
    lines = [line for _, line in parts if line.strip()]
    csv.field_size_limit(1 << 27)
    for delimiter in (",", "\t", ";", "|"):
        # A table with tabs or bars may be inside other text, as in a page or notebook, whose quotes are not its own.
        inside = delimiter in "\t|"
        heads = (line for line in (lines if inside else lines[:1]) if line.count(delimiter) >= 2)
        headed = any(len(line) < 1000 and _is_header(line.split(delimiter)) for line in heads)
        if headed or 2 * sum(line.count(delimiter) >= 4 for line in lines[:40]) >= len(lines[:40]) > 0:
            rows = (f"{part.removeprefix(delimiter) if inside else part}\n" for _, part in parts)
            style = {"quoting": csv.QUOTE_NONE} if inside else {"skipinitialspace": True}
            reader = csv.reader(rows, delimiter=delimiter, **style)
            shapes = list[Shape]()
            with suppress(csv.Error):
                shapes += _row_shapes((parts[reader.line_num - 1][0], row) for row in reader)
            yield from shapes
            if shapes:
                return


def _row_shapes(rows: Iterator[tuple[int, list[str]]]) -> Iterator[Shape]:
    header, n, bare = list[str](), 0, list[tuple[Shape, int]]()
    for line, row in rows:
        cells = [cell.strip(" \t\"'\\|") for cell in row]
        if not any(cell.strip("-: ") for cell in cells):
            continue
        n += 1
        if _is_header(cells):
            header = cells
        elif header and len(cells) >= 3:
            named = zip(header, (cell.replace('"', "'") for cell in cells), strict=False)
            record = "\n".join(f'{name}: "{cell}"' for name, cell in named)
            yield from ((line, keyed) for _, keyed in islice(_named_parts(record), 1))
        elif _is_item(cells):
            bare.append(((line, True), len(cells)))
    width, common = next(iter(Counter(size for _, size in bare).most_common(1)), (0, 0))
    if common >= 3 and 2 * common >= n:
        yield from (shape for shape, size in bare if size == width)


def _is_header(cells: Sequence[str]) -> bool:
    names = all(len(cell) <= 40 and not cell[:1].isdigit() and "?" not in cell for cell in cells)
    return len(cells) >= 3 and names and _STEM_WORD.search(" ".join(cells).lower()) is not None


def _is_item(cells: Sequence[str]) -> bool:
    """Return whether unnamed cells contain a stem, at least three options, and a reference to one of the options."""
    if not 5 <= len(cells) <= 14:
        return False
    stem = max(cells, key=lambda cell: len(cell.split()))
    others = [cell for cell in cells if cell is not stem and cell]
    points = [cell for i, cell in enumerate(others) if _POINTS.fullmatch(cell) or cell in others[:i]]
    options = {cell for cell in others if cell not in points or others.count(cell) > 1}
    asks = "?" in stem or "__" in stem or any(point.isalpha() and len(point) == 1 for point in points)
    return len(stem.split()) >= 5 and len(options) >= 3 and bool(points) and asks
