"""Candidates: files in every form, rows that belong to no item, what is no candidate, and typography."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.composing.candidates import read_candidates
from robustify.composing.pool import OWN, Candidate, make_pool, make_pools, same_form, unify_typography
from robustify.items.item import Item
from robustify.reading.loaders import Source
from robustify.wings import GUARD
from tests.support.cases import cases, refuses

ITEMS = [
    Item("q1", "Which colour has a ripe lemon?", ("yellow", "blue"), 0),
    Item("q2", "Which animal lays eggs in water?", ("frog", "horse"), 0),
    Item("q3", "Which animal lays eggs in water?", ("newt", "horse"), 0),
]
FROST = Item("frost", "What covers the grass at dawn?", ("Rain falls.", "A thin frost.", "Warm sand."), 1)


def _read(path: Path, text: str, columns: Any) -> tuple[list[list[list[str]]], dict[str, int]]:
    path.write_text(text)
    found, unmatched = read_candidates(ITEMS, [Source(path=str(path))], GUARD, columns)
    return [[[one.text, one.writer] for one in of] for of in found], unmatched


@pytest.mark.parametrize(("name", "text", "columns", "first"), cases("composing", "candidates_read"))
def test_files_of_any_form_are_read(tmp_path: Path, name: str, text: str, columns: Any, first: Any) -> None:
    assert _read(tmp_path / name, text, columns)[0] == [first, [], []]


def test_an_id_decides_only_where_the_question_does_not(tmp_path: Path) -> None:
    rows = [
        ("q2", ITEMS[0].stem, "by question"), ("q3", ITEMS[1].stem, "by both"), ("zz", ITEMS[1].stem, "for twins"),
        ("q1", "Which colour has a ripe yellow lemon?", "edited"), ("q1", "How far away is the moon?", "by chance"),
    ]  # fmt: skip
    lines = [json.dumps(dict(zip(("id", "question", "candidate"), row, strict=True))) for row in rows]
    found, unmatched = _read(tmp_path / "a.jsonl", "\n".join(lines), [])
    texts = [[text for text, _ in of] for of in found]
    assert texts == [["by question", "edited"], ["for twins"], ["by both", "for twins"]]
    assert unmatched == {"a.jsonl": 1}


@pytest.mark.parametrize(("text", "columns", "code"), cases("composing", "candidates_refused"))
def test_a_file_without_candidates_is_refused(tmp_path: Path, text: str, columns: Any, code: str) -> None:
    with refuses(code):
        _read(tmp_path / "a.jsonl", text, columns)


@pytest.mark.parametrize(("text", "reason"), cases("composing", "pool_aside"))
def test_what_is_no_candidate_is_set_aside_with_its_reason(text: str, reason: str) -> None:
    pool = make_pool(FROST, [Candidate(text, "file")])
    assert pool.aside == ((reason,) if reason else ())
    assert [one.writer for one in pool.candidates] == [OWN, OWN, *["file"] * (not reason)]


@pytest.mark.parametrize(("key", "text"), cases("composing", "pool_parts"))
def test_a_number_a_formula_or_a_part_of_a_word_is_a_candidate(key: str, text: str) -> None:
    item = Item("x", "Which one?", (key, "other"), 0)
    assert make_pool(item, [Candidate(text, "file")]).texts == (key, "other", text)


def test_the_key_of_another_item_with_the_same_question_is_no_candidate() -> None:
    twin = Item("twin", FROST.stem, ("Dew drops", "Warm sand"), 0)
    pools = make_pools([FROST, twin], [[Candidate("dew drops.", "file")], []])
    assert [pool.aside for pool in pools] == [("other_key",), ()]
    assert "frost" not in f"{pools!r} {pools[0].candidates!r}"


@pytest.mark.parametrize(("options", "same"), cases("composing", "pool_typography"))
def test_options_get_the_same_typography_and_keep_it(options: list[str], same: list[str]) -> None:
    assert [*unify_typography(options)] == [*unify_typography(same)] == same
    assert [same_form(one) for one in options] == [same_form(one) for one in same]


@pytest.mark.parametrize(("one", "other", "same"), cases("composing", "pool_repeated"))
def test_an_article_or_a_quote_makes_no_other_candidate(one: str, other: str, same: bool) -> None:
    for first, second in ((one, other), (other, one)):
        made = make_pool(Item("i", "Which?", ("green moss", first), 0), [Candidate(second, "w")])
        assert made.aside == (("repeated",) if same else ())
        assert len(made.candidates) == 2 - same
