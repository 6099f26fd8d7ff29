"""Reader for the XML of COPA and MCScript. Entities are refused, and other XML is taken for a quiz export."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError, XMLParser

from robustify.base.errors import DataError
from robustify.reading.loaders.rows import Cells, SourceTable, table_of

QUIZ = "a quiz export ({}). Save it as CSV with the columns question, A, B, C, D, and answer."


def xml_rows(name: str, data: bytes) -> SourceTable:
    """Read the items of an XML file. Raise `DataError` if it cannot be read or is of another kind."""
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
        raise DataError(f"{name}:{line}: not valid XML (column {column + 1})") from None
    rows = [*_copa(root), *_mcscript(root)]
    if not rows:
        raise DataError(f"{name} is {QUIZ.format('Moodle XML?')}")
    return table_of(enumerate(rows, start=1))


def _copa(root: Element) -> Iterator[Cells]:
    for item in root.iter("item"):
        if item.get("asks-for"):
            yield {**item.attrib, **{part.tag: (part.text or "").strip() for part in item}}


def _mcscript(root: Element) -> Iterator[Cells]:
    for instance in root.iter("instance"):
        for question in instance.iter("question"):
            yield {
                "id": f"{instance.get('id')}-{question.get('id')}",
                "topic": instance.get("scenario"),
                "passage": (instance.findtext("text") or "").strip(),
                "question": question.get("text"),
                "options": [{**answer.attrib} for answer in question.iter("answer")],
            }
