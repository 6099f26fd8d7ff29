"""Readers for Parquet, Arrow, XML, and LogiQA files, which keep the line or row number of each row.

Errors about damaged Parquet or Arrow files do not repeat pyarrow's message, because it can contain values.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, dropwhile, islice
from xml.etree.ElementTree import Element, ParseError, XMLParser

from robustify.base.errors import DataError
from robustify.reading.loaders import rows

_BLOCK_KEY = re.compile(r"\s*[a-dA-D]\s*")
_MARKER = re.compile(r"\s*([a-dA-D])(?:\s*[.:)]\s*|\s+(?=[A-Z]))")
_BLOCK_LINES = 7
QUIZ = "a quiz export ({}). Save it as CSV with the columns question, A, B, C, D, and answer."
_BATCH = 4096
"""Rows of a Parquet or Arrow file that become objects together."""


def in_blocks(text: rows.Text) -> bool:
    """Return whether a text looks like LogiQA: a first line with a single letter, and six or more nonblank lines."""
    with text("\n") as lines:
        first, *more = islice(dropwhile(lambda line: not line.strip("\r\n"), lines), _BLOCK_LINES)
    return len(more) + 1 == _BLOCK_LINES and bool(_BLOCK_KEY.fullmatch(first)) and all(map(str.strip, more))


def block_rows(text: str) -> rows.SourceTable:
    """Read LogiQA blocks (blank line, letter, context, question, four options) into one row per block.

    If the options have the letters A to D, once each, the letters give the order. Otherwise, the lines do, because
    letters are often garbled. A block of another size is a fault, and so is a letter on the wrong line."""
    lines = ["", *(line.rstrip("\r") for line in text.rstrip().split("\n"))]
    starts = [
        at for at, line in enumerate(lines) if at and not lines[at - 1].strip() and _BLOCK_KEY.fullmatch(line)
    ]
    ends = [*starts[1:], len(lines)]
    blocks = (
        (start, "\n".join(lines[start:end]).rstrip().split("\n"))
        for start, end in zip(starts, ends, strict=True)
    )
    return rows.table_of(((start, _block(block)) for start, block in blocks), "logiqa")


def _block(lines: Sequence[str]) -> rows.Cells | str:
    """Return the cells of a block, or the reason why it is faulty."""
    if len(lines) != _BLOCK_LINES:
        return f"the block has {len(lines)} lines; expected {_BLOCK_LINES} after a blank line"
    if rows.undecoded("".join(lines)):
        return rows.NOT_UTF8
    key, context, question, *options = lines
    marks = [_MARKER.match(line) for line in options]
    letters = [mark[1].upper() if mark else "" for mark in marks]
    clear = [
        letter if mark and mark[0].strip()[1:] else "" for mark, letter in zip(marks, letters, strict=True)
    ]
    if sorted(letters) == [*"ABCD"]:
        options = [options[letters.index(letter)] for letter in "ABCD"]
    elif any(
        letter not in ("", own) and clear.count(letter) == 1
        for letter, own in zip(clear, "ABCD", strict=True)
    ):
        return "the letters of the options are out of order; expected A to D, once each"
    texts = [_unlettered(line, letter) for line, letter in zip(options, "ABCD", strict=True)]
    return {"key": key.strip(), "context": context, "question": question, "options": texts}


def _unlettered(line: str, letter: str) -> str:
    """Remove the letter of an option, from its start or from where a translation moved it."""
    front = _MARKER.match(line)
    if front and front[1].upper() == letter:
        return line[front.end() :].strip()
    inside, n = re.subn(rf"\b{letter}\.\s*", "", line)
    return (inside if n == 1 else line).strip()


def arrow_rows(name: str, files: Sequence[tuple[str, rows.Again]]) -> rows.SourceTable:
    """Read the rows of Parquet or Arrow files, in the order of `files`. An Arrow file can be a stream, as `save_to_disk`
    writes. Raise `DataError` if a file cannot be read or there are no rows."""
    table = rows.streamed(
        lambda: enumerate(chain.from_iterable(_arrow_cells(*one) for one in files), start=1), flat=True
    )
    if not table.rows:
        raise DataError(f"{name} has no rows; expected items")
    return table


def _arrow_cells(name: str, again: rows.Again) -> Iterator[rows.Cells]:
    # Importing pyarrow takes a quarter of a second, so only import it if needed.
    import pyarrow as pa
    import pyarrow.parquet

    with again() as file:
        head = file.read(4)
        file.seek(0)
        try:
            match head:
                case b"PAR1":
                    whole = pa.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
                    batches = whole.iter_batches(_BATCH)
                case b"ARRO":
                    whole = pa.ipc.open_file(file)
                    batches = map(whole.get_batch, range(whole.num_record_batches))
                case _:
                    batches = pa.ipc.open_stream(file)
            for batch in batches:
                for at in range(0, batch.num_rows, _BATCH):
                    yield from batch.slice(at, _BATCH).to_pylist()
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
            kind = "Parquet" if head == b"PAR1" else "Arrow"
            raise DataError(
                f"{name}: the {kind} file cannot be read ({type(error).__name__}) and may be incomplete. "
                "Get a new copy."
            ) from None


def xml_rows(name: str, data: bytes) -> rows.SourceTable:
    """Read items from an XML file of COPA or MCScript. Raise `DataError` if it cannot be read, is of another kind, or
    declares entities."""
    if b"<!ENTITY" in data:
        raise DataError(
            f"{name}: the XML declares entities; expected plain text. Replace them by their text."
        )
    parser = XMLParser()
    try:
        parser.feed(data)
        root = parser.close()
    except ParseError as error:
        line, column = error.position
        raise DataError(f"{name}:{line}: the file is not valid XML (column {column + 1})") from None
    read = [*_copa(root), *_mcscript(root)]
    if not read:
        raise DataError(f"{name} is {QUIZ.format('Moodle XML?')}")
    return rows.table_of(enumerate(read, start=1))


def _copa(root: Element) -> Iterator[rows.Cells]:
    for item in root.iter("item"):
        if item.get("asks-for"):
            yield {**item.attrib, **{part.tag: (part.text or "").strip() for part in item}}


def _mcscript(root: Element) -> Iterator[rows.Cells]:
    for instance in root.iter("instance"):
        for question in instance.iter("question"):
            yield {
                "id": f"{instance.get('id')}-{question.get('id')}",
                "topic": instance.get("scenario"),
                "passage": (instance.findtext("text") or "").strip(),
                "question": question.get("text"),
                "options": [{**answer.attrib} for answer in question.iter("answer")],
            }
