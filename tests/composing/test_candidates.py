"""Candidates: files in every form, rows that belong to no item, what is no candidate, and typography."""

import json
from pathlib import Path

import pytest

from robustify.base.errors import DataError, UsageError
from robustify.composing.candidates import read_candidates
from robustify.composing.pool import OWN, Candidate, make_pool, make_pools, same_form, unify_typography
from robustify.items.item import Item
from robustify.reading.loaders import Source
from robustify.wings import GUARD

ITEMS = [
    Item("q1", "Which colour has a ripe lemon?", ("yellow", "blue"), 0),
    Item("q2", "Which animal lays eggs in water?", ("frog", "horse"), 0),
    Item("q3", "Which animal lays eggs in water?", ("newt", "horse"), 0),
]
LEMON = ITEMS[0].stem


def _read(path: Path, text: str, *columns: str) -> list[list[tuple[str, str]]]:
    path.write_text(text)
    found, _ = read_candidates(ITEMS, [Source(path=str(path))], GUARD, columns)
    return [[(one.text, one.writer) for one in of] for of in found]


def _lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


MORE = _lines({"id": "q1", "candidate": "red"}, {"id": "q1", "candidate": "grey"})
LISTS = _lines({"id": "x", "question": LEMON, "people": ["red"], "machine": ["grey"], "tags": "fruit"})
SET = _lines(
    *({"id": q, "question": q, "choices": ["yellow", "red", "grey"], "answer": "A"} for q in (LEMON, "Else?"))
)


@pytest.mark.parametrize(
    ("name", "text", "columns", "first"),
    [
        ("more.jsonl", MORE, (), [("red", "more"), ("grey", "more")]),
        ("more.jsonl", _lines({"id": "q1", "candidates": ["red", 7], "writer": "ana"}), (), [("red", "ana"), ("7", "ana")]),
        ("more.jsonl", LISTS, (), [("red", "people"), ("grey", "machine")]),
        ("more.jsonl", LISTS, ("machine",), [("grey", "machine")]),
        ("more.csv", f"question,distractor 1,distractor 2\n{LEMON.upper()},red,\n", (), [("red", "more")]),
        ("more.csv", "id,candidate\nq1,'=1\nq1,red\n", (), [("'=1", "more"), ("red", "more")]),
        ("more.csv", "id,candidate,quoted for spreadsheets\nq1,'=1,\nq1,,\n", (), [("=1", "more")]),
        ("set.jsonl", SET, (), [("red", "set"), ("grey", "set")]),
    ],
)  # fmt: skip
def test_candidates_are_read_in_every_form(
    tmp_path: Path, name: str, text: str, columns: tuple[str, ...], first: list[tuple[str, str]]
) -> None:
    assert _read(tmp_path / name, text, *columns) == [first, [], []]


def test_an_id_decides_only_where_the_question_does_not(tmp_path: Path) -> None:
    rows = _lines(
        {"id": "q2", "question": LEMON, "candidate": "by question"},
        {"id": "q3", "question": ITEMS[1].stem, "candidate": "by both"},
        {"id": "q1", "question": "Which colour has a ripe yellow lemon?", "candidate": "edited"},
        {"id": "q1", "question": "How far away is the moon?", "candidate": "by chance"},
        {"id": "zz", "question": ITEMS[1].stem, "candidate": "for twins"},
    )
    found = [[text for text, _ in of] for of in _read(tmp_path / "a.jsonl", rows)]
    assert found == [["by question", "edited"], ["for twins"], ["by both", "for twins"]]
    assert read_candidates(ITEMS, [Source(path=str(tmp_path / "a.jsonl"))], GUARD)[1] == {"a.jsonl": 1}


@pytest.mark.parametrize(
    ("text", "columns", "kind", "says"),
    [
        (_lines({"id": "zz", "candidate": "red"}), (), DataError, "none of 1 row has the question or the ID"),
        (_lines({"id": "q1", "candidate": "red"}), ("gray",), UsageError, "has no column 'gray'"),
        (_lines({"candidate": "red"}), (), DataError, "neither IDs nor questions"),
        (_lines({"id": "q1", "candidate": {"a": 1}}), (), DataError, "a.jsonl:1: `candidate` is an object"),
        (_lines({"id": "q1", "note": "red"}), (), DataError, "layout is unknown"),
    ],
)  # fmt: skip
def test_a_file_without_candidates_is_refused(
    tmp_path: Path, text: str, columns: tuple[str, ...], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        _read(tmp_path / "a.jsonl", text, *columns)


FROST = Item("frost", "What covers the grass at dawn?", ("Rain falls.", "A thin frost.", "Warm sand."), 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a thin frost", "repeats_key"),
        ("A thin  frost", "repeats_key"),
        ("A thin frost and snow", "contains_key"),
        ("Frost", "in_key"),
        ("thin frost", "in_key"),
        ("All of the above", "refers_to_options"),
        ("Rain falls", "repeated"),
        ("\u200b ", "blank"),
        ("A thin frosting", ""),
        ("Hot tea", ""),
    ],
)
def test_what_is_no_candidate_is_set_aside_with_its_reason(text: str, why: str) -> None:
    pool = make_pool(FROST, [Candidate(text, "file")])
    assert pool.aside == ((why,) if why else ())
    assert [one.writer for one in pool.candidates] == [OWN, OWN, *["file"] * (not why)]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("5", "0.5"),
        ("5", "5x"),
        ("Tt", "tt"),
        ("Tt", "TT"),
        ("-5", "5"),
        ("x²", "x2"),
        ("iron", "environment"),
    ],
)
def test_a_number_a_formula_or_a_part_of_a_word_is_a_candidate(key: str, text: str) -> None:
    item = Item("x", "Which one?", (key, "other"), 0)
    assert make_pool(item, [Candidate(text, "file")]).texts == (key, "other", text)


def test_the_key_of_another_item_with_the_same_question_is_no_candidate() -> None:
    twin = Item("twin", FROST.stem, ("Dew drops", "Warm sand"), 0)
    pools = make_pools([FROST, twin], [[Candidate("dew drops.", "file")], []])
    assert [pool.aside for pool in pools] == [("other_key",), ()]
    assert "frost" not in f"{pools!r} {pools[0].candidates!r}"


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (("A thin frost.", "warm sand"), ("A thin frost", "Warm sand")),
        (("It\u2019s “cold”", "It's \u00abhot\u00bb"), ("It's \"cold\"", 'It\'s "hot"')),
        (("5\u201310", "5-10", "dry \u2014 cold", "dry\u2014cold"), ("5-10", "5-10", "dry - cold", "dry - cold")),
        (("red  clay", "white\u00a0clay "), ("red clay", "white clay")),
        (("the U.S.", "in Peru."), ("the U.S.", "in Peru")),
        (("pH", "Salt"), ("pH", "Salt")),
        (("m/s", "Metres"), ("m/s", "Metres")),
        (("sin(x)", "Other"), ("sin(x)", "Other")),
        (("x²", "½ kg."), ("x²", "½ kg")),
        (("red", "blue"), ("red", "blue")),
    ],
)  # fmt: skip
def test_options_get_the_same_typography_and_keep_it(options: tuple[str, ...], same: tuple[str, ...]) -> None:
    assert unify_typography(options) == same
    assert unify_typography(same) == same
    assert [same_form(one) for one in options] == [same_form(one) for one in same]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("the electron", "an electron", True),
        ("the electron", 'the "electron"', True),
        ("An electron", "'electron'", True),
        ("f'", "f", False),
        ('6"', "6", False),
        ("the", "a", False),
        ("TT", "Tt", False),
        ("analogue", "logue", False),
    ],
)
def test_candidates_that_differ_in_an_article_or_a_quote_are_never_chosen_together(
    one: str, other: str, same: bool
) -> None:
    for first, second in ((one, other), (other, one)):
        made = make_pool(Item("i", "Which?", ("green moss", first), 0), [Candidate(second, "w")])
        assert made.aside == (("repeated",) if same else ())
        assert len(made.candidates) == 2 - same
