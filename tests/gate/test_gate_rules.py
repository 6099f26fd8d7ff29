"""Each rule finds what it says and leaves the rest alone, in every layout and every place of a file."""

import base64
import json
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pytest

from robustify.gate.check import scan
from robustify.gate.detect.structure import LEXICON_FILE, lexicon
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.policy import RULES, explanation
from robustify.gate.reading.folding import streams
from tests.gate.cases import HITS, MISSES, REGISTERED
from tests.gate.corpus import Made, made, notebook, output
from tests.gate.layouts import KEY_STYLES, LAYOUTS, STRUCTURE
from tests.gate.sets import mock_items, mock_prints, opened, rules_of, written


@pytest.fixture(scope="module")
def prints() -> Fingerprints:
    return opened({"cases": REGISTERED})


@pytest.mark.parametrize(("rule", "content"), HITS, ids=[rule for rule, _ in HITS])
def test_a_rule_finds_its_hits(rule: str, content: bytes, prints: Fingerprints) -> None:
    assert rule in rules_of(content, prints)


@pytest.mark.parametrize(("rule", "content"), MISSES, ids=[rule for rule, _ in MISSES])
def test_a_rule_leaves_its_misses(rule: str, content: bytes, prints: Fingerprints) -> None:
    assert rule not in rules_of(content, prints)


def test_rules_have_numbers_and_names_of_their_own_and_cases_of_both_kinds() -> None:
    ids = {rule.id for rule in RULES}
    assert len(ids) == len({rule.name for rule in RULES}) == len(RULES)
    assert {rule for rule, _ in HITS} == {rule for rule, _ in MISSES} == ids
    for rule in RULES:
        assert any(line.startswith("mend: ") for line in explanation(rule))


def test_what_matches_a_registered_set_or_a_key_can_never_be_allowed_nor_lifted_by_a_demo() -> None:
    stuck = {rule.id for rule in RULES if not rule.allowable}
    assert stuck == {"RBG301", "RBG402", "RBG403", "RBG404"}
    assert {rule.id for rule in RULES if rule.lifted_by_demo} == {*STRUCTURE, "RBG104", "RBG201"}


@pytest.mark.parametrize("style", KEY_STYLES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_five_items_are_refused_in_every_layout(layout: str, style: str) -> None:
    assert rules_of(LAYOUTS[layout](made(5, 11), style)) & STRUCTURE, layout


# Rows without any name and without a header say nothing when there is only one of them.
_NEED_COMPANY = {"json_unnamed", "csv_no_header"}


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in _NEED_COMPANY])
def test_one_item_with_its_key_is_refused_in_every_layout_that_names_its_parts(layout: str) -> None:
    refused = [bool(rules_of(laid_out(layout, item)) & STRUCTURE) for item in made(20, 12)]
    assert sum(refused) >= 19


def test_a_finding_names_the_line_where_the_first_item_stands() -> None:
    items = made(3, 13)
    text = "# Notes\n\nNothing here.\n\n" + LAYOUTS["plain"](items, "letter")
    (found,) = [f for f in scan(text.encode()) if f.rule.id in STRUCTURE]
    assert text.splitlines()[found.line - 1].startswith("A) ")


def test_the_lexicon_is_short_reviewed_and_holds_categories_only() -> None:
    words = json.loads(LEXICON_FILE.read_text(encoding="utf-8"))
    terms = [*words["regimes"], *words["categories"]]
    assert len(terms) == len(set(terms)) <= 80
    assert terms == sorted(words["regimes"]) + sorted(words["categories"])
    assert all(
        term.islower() and not any(c.isdigit() for c in term) for term in terms if term != "resolution 1540"
    )
    assert lexicon().reviewed >= date(2026, 1, 1)


def test_the_lexicon_alone_refuses_nothing() -> None:
    words = json.loads(LEXICON_FILE.read_text(encoding="utf-8"))
    brief = "This brief compares the " + ", the ".join((*words["regimes"], *words["categories"])) + ".\n"
    assert scan(brief.encode()) == []
    assert lexicon().named(streams(brief)[0]) >= 60


# Places of a file.

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def laid_out(name: str, item: Made) -> str:
    return LAYOUTS[name]([item], "letter")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _output(**output: object) -> str:
    return notebook(
        id="a", metadata={}, cell_type="code", source=["show()"], outputs=[output], execution_count=1
    )


def _data(kind: str, value: object) -> str:
    return _output(output_type="display_data", execution_count=1, metadata={}, data={kind: value})


def _traceback(item: Made) -> str:
    lines = _lines("\x1b[0;31mKeyError\x1b[0m: " + laid_out("plain", item))
    return _output(output_type="error", ename="KeyError", evalue=item.stem, traceback=lines)


def _attached(text: str, kind: str) -> str:
    data = {"note": {kind: base64.b64encode(text.encode()).decode()}}
    return notebook(cell_type="markdown", source=["see ![note](attachment:note)"], attachments=data)


def _parquet(item: Made) -> bytes:
    row = {"question": item.stem, "choices": list(item.choices), "answer": item.key}
    return written(pa.table({name: [value] * 3 for name, value in row.items()}))


PLACES: dict[str, Callable[[Made], str | bytes]] = {
    "source": lambda i: notebook(cell_type="code", source=_lines(laid_out("python", i)), outputs=[]),
    "prose": lambda i: notebook(cell_type="markdown", source=_lines(laid_out("plain", i))),
    "stream": lambda i: output("show()", laid_out("plain", i)),
    "result": lambda i: _data("text/plain", [repr(laid_out("jsonl", i))]),
    "table": lambda i: _data("text/html", _lines(laid_out("html_table", i))),
    "json": lambda i: _data("application/json", json.loads(laid_out("jsonl", i))),
    "traceback": _traceback,
    "attachment": lambda i: _attached(laid_out("plain", i), "text/plain"),
    "html_comment": lambda i: f"<html><!--\n{laid_out('plain', i)}\n--></html>",
    "markdown_fence": lambda i: f"# Notes\n\n```json\n{laid_out('jsonl', i)}\n```\n",
    "parquet": _parquet,
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_item_in_any_place_of_a_file_is_refused_by_its_shape(place: str) -> None:
    assert all(rules_of(PLACES[place](item)) & STRUCTURE for item in made(20, 31))


@pytest.mark.parametrize("place", [*PLACES, *LAYOUTS])
def test_a_registered_item_in_any_place_of_a_file_is_refused_by_its_words(place: str) -> None:
    def put(item: Made) -> str | bytes:
        return PLACES[place](item) if place in PLACES else laid_out(place, item)

    assert all("RBG301" in rules_of(put(item), mock_prints()) for item in mock_items()[:10])


def test_what_a_notebook_attaches_as_a_picture_is_read_or_refused() -> None:
    for item in mock_items()[:10]:
        assert "RBG301" in rules_of(_attached(item.stem, "image/png"), mock_prints())
    assert rules_of(_data("image/png", base64.b64encode(PICTURE).decode())) == {"RBG501"}
