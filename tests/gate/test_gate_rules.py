"""Each rule finds what it says and leaves the rest alone, in every layout and every place of a file.

The contents are put together by code, so that the gate does not find them here; the items are made up and harmless.
"""

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from datetime import date

import pyarrow as pa
import pytest

from robustify.gate.check import scan
from robustify.gate.detect import LEXICON_FILE, lexicon
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.policy import RULES, explanation
from robustify.gate.reading.folding import streams
from tests.gate.corpus import Made, made, notebook, output
from tests.gate.layouts import KEY_STYLES, LAYOUTS, STRUCTURE
from tests.gate.sets import mock_items, mock_prints, opened, rules_of, written

REGISTERED = (
    ("Which copper lantern does the ferryman Dovaru hang above the eastern towpath before the second bell",
     "the dented one that Pelimo mended", "a knitted lantern from the glass pavilion"),
)  # fmt: skip
"""A set that a test registers before it tries the fingerprint rules."""
_STEM = " ".join(("Which boat", "carries the lantern", "across the pond?"))
_CHOICES = ["the narrow ferry", "a painted tub", "the miller's raft", "no boat at all"]
_RECORD = {"question": _STEM, "choices": _CHOICES, "answer": 2}
_LINES = [f"{letter}) {choice}" for letter, choice in zip("ABCD", _CHOICES, strict=True)]
_PROSE = "The pond has two boats. A ferry runs before noon, and a raft after it; which one is faster depends on the wind."
_TREATIES = "the Australia Group and the Wassenaar Arrangement"
_KEY = ":".join(("rbk1", "0123456789abcdef", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v"))
_IDS = ["rb1_" + letter * 26 for letter in "abcdefgh"]
_SPLIT = {"format": "robustify.hashed-split/1", "dataset": "mock", "dataset_version": "1", "split": "robust",
          "canon": "rbcanon-1", "key_id": "0123456789abcdef", "n": len(_IDS), "ids": _IDS}  # fmt: skip
_CANARY = "canary " + "GUID 00000000-1111-2222-3333-444444444444"
_FEW = gzip.compress(b"a few words", mtime=0)


def _text(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _table(head: str, row: list[str], n: int) -> bytes:
    return _text(head, *[",".join(row)] * n)


def _hits() -> Iterator[tuple[str, bytes]]:
    choices = [f"    - {choice}" for choice in _CHOICES]
    yield "RBG101", _json(_RECORD)
    yield "RBG101", b"\n".join([_json({"stem": _STEM, "options": _CHOICES})] * 3)
    yield "RBG101", _text("- question: " + _STEM, "  choices:", *choices, "  answer: 2")
    yield "RBG102", _table("question,option_a,option_b,option_c,option_d,answer", [_STEM, *_CHOICES, "B"], 2)
    yield "RBG102", _table("", [_STEM, *_CHOICES, "C"], 3)
    yield "RBG103", _text(_STEM, *_LINES, "Answer: B")
    yield "RBG103", _text(*([_STEM, *_LINES, ""] * 3))
    in_a_row = [f"({letter}) {choice}" for letter, choice in zip("ABCD", _CHOICES, strict=True)]
    yield "RBG103", " ".join(("//", _STEM, *in_a_row, "Answer: (C)")).encode()
    yield "RBG104", _text(_STEM, *_LINES)
    yield "RBG104", _json({"question": _STEM, "choices": _CHOICES})
    yield "RBG201", _text(f"On {_TREATIES}.", "", _STEM, *_LINES)
    yield "RBG301", _text(REGISTERED[0][0] + "?")
    yield (
        "RBG301",
        _text("# to self: COPPER lantern does (the ferryman) Dovaru, hang: above the eastern quay"),
    )
    yield "RBG301", gzip.compress(_text(*REGISTERED[0][1:]), mtime=0)
    yield "RBG302", _text("He lost the copper lantern does the ferryman Dovaru know it?")
    yield "RBG401", _text(f"data {_CANARY}")
    yield "RBG402", _text(f"export KEY={_KEY}")
    yield "RBG403", _json({"config": {"sensitivity": "restricted"}, "files": {"summary.json": "00"}})
    yield "RBG403", _json({"sensitivity": "restricted", "files": {}, "mac": "00"})
    yield "RBG403", _json({"format": 1, "release": {"level": "evaluator", "min_cell": 10}})
    yield "RBG404", b"SQLite format 3\0" + bytes(52) + b"RBST" + bytes(40)
    yield "RBG404", _json({"format": "robustify.registered/1", "secret": "0" * 64, "sets": {}})
    yield "RBG404", _json({"format": "robustify.licences/1", "accepted": []})
    yield "RBG405", _json(_SPLIT | {"topics": ["ponds"]})
    yield "RBG405", _json(_SPLIT | {"ids": _IDS[::-1]})
    yield "RBG405", _text(*(f"{name},0.25" for name in _IDS))
    yield "RBG501", bytes(range(256)) * 4
    yield "RBG501", b"%PDF-1.7\n1 0 obj"
    yield "RBG502", b"-----BEGIN " + b"PGP MESSAGE-----\n\nhQEMA"
    yield "RBG502", b"Salted__" + bytes(range(200, 240))
    yield "RBG502", _text("A note.", "", "-----BEGIN " + "AGE ENCRYPTED FILE-----", "YWdlLWVuY3J5cHRpb24")
    yield "RBG503", gzip.compress(bytes(8 << 20), mtime=0)
    yield "RBG504", _FEW[:-9]
    yield "RBG504", b"PK\x03\x04 no archive"
    yield "RBG505", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"
    yield "RBG506", _json({"input_ids": [7919 * i * i % 50_021 for i in range(1, 40)]})


def _misses() -> Iterator[tuple[str, bytes]]:
    yield "RBG101", _json({"question": _STEM, "answer": "the raft"})
    yield "RBG101", _json({"name": "ferry", "choices": ["red", "green"], "default": "red"})
    yield (
        "RBG101",
        _text("parser.add_argument('--boat', choices=['ferry', 'raft'], help='which boat to take')"),
    )
    yield "RBG102", _table("id,boat,length,width,price", ["7", "a painted tub", "3", "2", "90"], 9)
    clauses = ("(a) keep this notice;", "(b) name the authors; and", "(c) ask nobody.")
    yield "RBG103", _text("You may copy this work if you", *clauses)
    yield "RBG103", _text("To build:", "1. Get the source.", "2. Run make.", "3. Copy the result.")
    yield "RBG103", _text(_PROSE)
    yield "RBG104", _text(_STEM)
    yield "RBG104", _text(*_LINES)
    yield "RBG201", _text(f"{_TREATIES} meet.", _PROSE)
    yield "RBG201", _text(_STEM, *_LINES)
    yield (
        "RBG301",
        _text("The ferryman hung a copper lantern over the towpath in the east when the bell had rung."),
    )
    yield "RBG302", _text("a copper lantern")
    yield "RBG302", _text(_PROSE)
    yield "RBG401", _text("A canary sang in the mine.")
    yield "RBG402", _text("the form is rbk1:ID:SECRET")
    yield "RBG403", _json({"format": 1, "release": {"level": "published", "min_cell": 10}})
    yield "RBG403", _json({"config": {"sensitivity": "public"}, "files": {"summary.json": "00"}})
    yield "RBG403", _text("id: mock", "sensitivity: restricted")
    yield "RBG404", b"SQLite format 3\0" + bytes(96)
    yield "RBG404", _text('FORMAT = "robustify.registered/1"')
    yield "RBG405", _json(_SPLIT)
    yield "RBG405", json.dumps(_SPLIT, indent=1).encode()
    yield "RBG405", _text("An id is rb1_ and 26 letters:", *_IDS[:2])
    yield "RBG501", b"plain text\n"
    yield "RBG501", "blé\n".encode("latin-1")
    yield "RBG502", b"-----BEGIN PGP SIGNATURE-----\n"
    yield "RBG503", _FEW
    yield "RBG504", b"PK is a mark"
    yield "RBG505", b"The version is at https://git-lfs.github.com/spec/\n"
    yield "RBG506", _json({"ids": list(range(1000, 9000, 100)), "tokens": [3, 4, 2] * 40})


HITS, MISSES = list(_hits()), list(_misses())
"""The id of a rule, and a content that it must find or must not."""


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


_ROW = 'Which boat of number {0} is meant?,"a\ntub","an\noar","a\nmast",B\n'
TABLES_OF_FOUR: dict[str, str] = {
    "choices in quotes over several lines": "question,A,B,C,answer\n" + "".join(map(_ROW.format, range(4))),
    "stems in quotes over several lines": "question,A,B,C,answer\n"
    + "".join(f'"Which boat\nof the pond\nof number {i}\nis meant?",tub,oar,mast,B\n' for i in range(4)),
    "a quote that never ends": '"question\tA\tB\tC\tanswer\n'
    + "".join(f"Which boat of number {i} is meant?\ttub\toar\tmast\tB\n" for i in range(4)),
    "a capital that is longer when small": 'İ\nquestion = ["Which knot is this?"]\nanswer = 0\n'
    'choices = ["a tub", "oar", "mast"]\n',
    "a stem within a list that speaks of a question": 'question = ["Which of these is a knot?", "The question: which'
    ' soup is cold?"]\nchoices = [["a tub", "oar", "mast"], ["d", "e", "f"]]\nanswer = [0, 1]\n',
}  # fmt: skip


@pytest.mark.parametrize("text", TABLES_OF_FOUR.values(), ids=TABLES_OF_FOUR.keys())
def test_odd_quotes_and_letters_hide_no_item(text: str) -> None:
    assert rules_of(text) & STRUCTURE


def test_a_glossary_and_a_list_of_questions_are_left_alone() -> None:
    glossary = (
        "question,a query put to somebody,noun\nchoices,what is picked from,noun\nanswer,what is said,noun\n"
    )
    listed = 'question = ["Which of these is a knot?", "Which soup is served cold?"]\nnote = "a: the pond"\n'
    assert rules_of(glossary) == rules_of(listed) == set()


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
