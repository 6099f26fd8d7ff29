"""The files in which items travel: every place of a notebook, of a web page, of a table; with and without an index.

The structure layer must know the shape of an item there, and the fingerprint layer its words.
"""

import base64
import csv
import html
import io
import json
from collections.abc import Callable

import pytest

from robustify.gate.check import scan
from robustify.gate.fingerprints.matching import Fingerprints
from tests.gate.corpus import LETTERS, Made, made
from tests.gate.sets import mock_items, mock_prints

STRUCTURE = {"RBG101", "RBG102", "RBG103"}
Content = str | bytes


def block(item: Made) -> str:
    return "\n".join(
        (
            item.stem,
            *(f"{LETTERS[i]}) {c}" for i, c in enumerate(item.choices)),
            f"Answer: {LETTERS[item.key]}",
        )
    )


def record(item: Made) -> str:
    return json.dumps({"question": item.stem, "choices": list(item.choices), "answer": item.key})


def _notebook(cell: dict[str, object]) -> str:
    whole = {"id": "a", "metadata": {}, **cell}
    return json.dumps({"cells": [whole], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _output(**output: object) -> str:
    return _notebook({"cell_type": "code", "source": ["show()"], "outputs": [output], "execution_count": 1})


def _attached(text: str, kind: str) -> str:
    held = {"note": {kind: base64.b64encode(text.encode()).decode()}}
    return _notebook(
        {"cell_type": "markdown", "source": ["see ![note](attachment:note)"], "attachments": held}
    )


def _html(item: Made) -> str:
    rows = "".join(f"<li>{html.escape(c)}</li>" for c in item.choices)
    return f"<!doctype html><html><body><p class='question'>{html.escape(item.stem)}</p><ol>{rows}</ol><p>Answer: 1</p>"


def _html_table(item: Made) -> str:
    cells = (item.stem, *item.choices, LETTERS[item.key])
    head = "".join(f"<th>{name}</th>" for name in ("question", "A", "B", "C", "D", "answer"))
    return f"<table><tr>{head}</tr><tr>{''.join(f'<td>{html.escape(c)}</td>' for c in cells)}</tr></table>"


def _markdown_table(item: Made) -> str:
    cells = (item.stem, *item.choices, LETTERS[item.key])
    return f"# Rows\n\n| question | A | B | C | D | answer |\n|---|---|---|---|---|---|\n| {' | '.join(cells)} |\n"


def _rows(item: Made, delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerows(
        [["question", "A", "B", "C", "D", "answer"], [item.stem, *item.choices, LETTERS[item.key]]]
    )
    return out.getvalue()


def _parquet(item: Made) -> bytes:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(
        pa.table(
            {"question": [item.stem] * 3, "choices": [list(item.choices)] * 3, "answer": [item.key] * 3}
        ),
        out,
    )
    return out.getvalue()


CARRIERS: dict[str, Callable[[Made], Content]] = {
    "notebook_source": lambda i: _notebook(
        {"cell_type": "code", "source": _lines(f"row = {record(i)}"), "outputs": [], "execution_count": None}
    ),
    "notebook_prose": lambda i: _notebook({"cell_type": "markdown", "source": _lines(block(i))}),
    "notebook_stream": lambda i: _output(output_type="stream", name="stdout", text=_lines(block(i))),
    "notebook_result": lambda i: _output(
        output_type="execute_result", execution_count=1, metadata={}, data={"text/plain": [repr(record(i))]}
    ),
    "notebook_table": lambda i: _output(
        output_type="display_data", metadata={}, data={"text/html": _lines(_html_table(i))}
    ),
    "notebook_json": lambda i: _output(
        output_type="display_data", metadata={}, data={"application/json": json.loads(record(i))}
    ),
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
    missed = [
        n for n, item in enumerate(made(20, 31)) if not found(CARRIERS[carrier](item), None) & STRUCTURE
    ]
    assert missed == []


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_registered_item_in_any_place_of_a_file_is_refused_by_its_words(carrier: str) -> None:
    missed = [
        n
        for n, item in enumerate(mock_items()[:20])
        if "RBG301" not in found(CARRIERS[carrier](item), mock_prints())
    ]
    assert missed == []


def test_a_stem_alone_in_an_attachment_that_claims_to_be_a_picture_is_refused() -> None:
    for item in mock_items()[:10]:
        assert "RBG301" in found(_attached(item.stem, "image/png"), mock_prints())


def test_a_picture_in_a_notebook_is_refused_as_what_cannot_be_read() -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
    output = _output(
        output_type="display_data", metadata={}, data={"image/png": base64.b64encode(picture).decode()}
    )
    assert found(output, None) == {"RBG501"}
