"""The files in which items travel: every place of a notebook, of a web page, of a table; with and without an index.

The structure layer must know the shape of an item there, and the fingerprint layer its words.
"""

import base64
import csv
import html
import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from robustify.gate.check import scan
from robustify.gate.fingerprints import Fingerprints
from tests.gate.corpus import LETTERS, Made, made, notebook, output
from tests.gate.sets import mock_items, mock_prints, written

STRUCTURE = {"RBG101", "RBG102", "RBG103"}
Content = str | bytes


def block(item: Made) -> str:
    options = (f"{LETTERS[i]}) {c}" for i, c in enumerate(item.choices))
    return "\n".join((item.stem, *options, f"Answer: {LETTERS[item.key]}"))


def record(item: Made) -> str:
    return json.dumps({"question": item.stem, "choices": list(item.choices), "answer": item.key})


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _output(**output: object) -> str:
    return notebook(
        id="a", metadata={}, cell_type="code", source=["show()"], outputs=[output], execution_count=1
    )


def _data(output_type: str, kind: str, value: object) -> str:
    return _output(output_type=output_type, execution_count=1, metadata={}, data={kind: value})


def _attached(text: str, kind: str) -> str:
    data = {"note": {kind: base64.b64encode(text.encode()).decode()}}
    return notebook(cell_type="markdown", source=["see ![note](attachment:note)"], attachments=data)


def _html(item: Made) -> str:
    rows = "".join(f"<li>{html.escape(c)}</li>" for c in item.choices)
    return f"<!doctype html><html><body><p class='question'>{html.escape(item.stem)}</p><ol>{rows}</ol><p>Answer: 1</p>"


def _cells(item: Made) -> tuple[list[str], list[str]]:
    return ["question", "A", "B", "C", "D", "answer"], [item.stem, *item.choices, LETTERS[item.key]]


def _html_table(item: Made) -> str:
    head, cells = _cells(item)
    names = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><tr>{names}</tr><tr>{''.join(f'<td>{html.escape(c)}</td>' for c in cells)}</tr></table>"


def _markdown_table(item: Made) -> str:
    head, cells = _cells(item)
    return f"# Rows\n\n| {' | '.join(head)} |\n{'|---' * 6}|\n| {' | '.join(cells)} |\n"


def _rows(item: Made, delimiter: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(_cells(item))
    return out.getvalue()


def _parquet(item: Made) -> bytes:
    columns: dict[str, Any] = {"question": [item.stem], "choices": [list(item.choices)], "answer": [item.key]}
    return written(pa.table({name: values * 3 for name, values in columns.items()}))


CARRIERS: dict[str, Callable[[Made], Content]] = {
    "notebook_source": lambda i: notebook(cell_type="code", source=_lines(f"row = {record(i)}"), outputs=[]),
    "notebook_prose": lambda i: notebook(cell_type="markdown", source=_lines(block(i))),
    "notebook_stream": lambda i: output("show()", block(i)),
    "notebook_result": lambda i: _data("execute_result", "text/plain", [repr(record(i))]),
    "notebook_table": lambda i: _data("display_data", "text/html", _lines(_html_table(i))),
    "notebook_json": lambda i: _data("display_data", "application/json", json.loads(record(i))),
    "notebook_traceback": lambda i: _output(
        output_type="error", ename="KeyError", evalue=i.stem, traceback=_lines("\x1b[0;31mKeyError\x1b[0m: " + block(i))
    ),
    "notebook_attachment": lambda i: _attached(block(i), "text/plain"),
    "html_list": _html,
    "html_table": _html_table,
    "html_comment": lambda i: f"<html><!--\n{block(i)}\n--></html>",
    "markdown_list": lambda i: f"# Notes\n\n**{i.stem}**\n\n" + "".join(
        f"- {LETTERS[n]}. {c}\n" for n, c in enumerate(i.choices)
    ) + f"\nAnswer: {LETTERS[i.key]}\n",
    "markdown_table": _markdown_table,
    "markdown_fence": lambda i: f"# Notes\n\n```json\n{record(i)}\n```\n",
    "csv": lambda i: _rows(i, ","),
    "tsv": lambda i: _rows(i, "\t"),
    "semicolons": lambda i: _rows(i, ";"),
    "parquet": _parquet,
}  # fmt: skip


def found(content: Content, prints: Fingerprints | None) -> set[str]:
    return {f.rule.id for f in scan(content.encode() if isinstance(content, str) else content, prints)}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_an_item_in_any_place_of_a_file_is_refused_by_its_shape(carrier: str) -> None:
    assert all(found(CARRIERS[carrier](item), None) & STRUCTURE for item in made(20, 31))


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_registered_item_in_any_place_of_a_file_is_refused_by_its_words(carrier: str) -> None:
    assert all("RBG301" in found(CARRIERS[carrier](item), mock_prints()) for item in mock_items()[:20])


def test_a_stem_alone_in_an_attachment_that_claims_to_be_a_picture_is_refused() -> None:
    for item in mock_items()[:10]:
        assert "RBG301" in found(_attached(item.stem, "image/png"), mock_prints())


def test_a_picture_in_a_notebook_is_refused_as_what_cannot_be_read() -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
    assert found(_data("display_data", "image/png", base64.b64encode(picture).decode()), None) == {"RBG501"}
