"""Heuristics: tie-fair credit by hand, p against enumeration, and published figures of ARC-Challenge."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.items.answers import Answer, Answers
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import (
    HEURISTICS,
    SEES_STEM,
    credit_p,
    guess,
    heuristic_scores,
    rule_table,
)
from robustify.judging.stats.tests import LATTICE
from robustify.reading.guard import UNGUARDED
from tests.support.cases import cases, contents
from tests.support.fake_answers import heuristic_numbers


def item(choices: Sequence[str], key: int = 0, name: str = "i", stem: str = "Which red cat sleeps?") -> Item:
    return Item(name, stem, tuple(choices), key)


def rows(items: Sequence[Item]) -> list[Answer]:
    return [
        Answer(**{n: tuple(v) if isinstance(v, list) else v for n, v in row.items() if n != "rotation"})
        for row in guess(items).table.to_pylist()
    ]


def credit_of(name: str, one: Item) -> float:
    (row,) = (row for row in rows([one]) if row.model == name)
    assert row.correct is not None
    return row.correct


@pytest.mark.parametrize(("name", "choices", "credits"), cases("judging", "credit_of_rules"))
def test_credit_by_hand(name: str, choices: list[str], credits: list[float]) -> None:
    assert [credit_of(name, item(choices, key)) for key in range(len(choices))] == pytest.approx(credits)


def test_most_common_position_by_hand() -> None:
    keys = [0, 1, 1, 2, 2, 3]
    items = [item("abcd", key, f"i{n}") for n, key in enumerate(keys)]
    found = [row for row in rows(items) if row.model == "most_common_position"]
    # Places 1 and 2 share the first rank: the two keys at each get half.
    assert [row.correct for row in found] == [0, 0.5, 0.5, 0.5, 0.5, 0]
    assert all(row.tie == 2 for row in found)


def test_the_table_has_the_promised_shape_and_agrees_with_the_rows() -> None:
    items = [item(["aaaa", "bbbb", "c", "d"], key, f"i{key}") for key in range(4)]
    found = rule_table(items)
    assert list(found) == ["n", "groups", "chance_accuracy", "heuristics", "with_question"]
    assert (found["n"], found["groups"]) == (4, 1), "four copies"
    assert found["chance_accuracy"] == 0.25
    heuristics = found["heuristics"]
    assert list(heuristics) == [h.name for h in HEURISTICS if h.name not in SEES_STEM]
    assert list(found["with_question"]) == ["least_stem_overlap", "stem_overlap"]
    assert set(heuristics["longest_answer"]) == {"value", "n", "ci", "ties", "p", "p_holm"}
    rng = np.random.default_rng(3)
    items = [_made_up(rng, n) for n in range(60)]
    from_rows = heuristic_scores(guess(items), np.ones(len(items), dtype=bool))
    table = rule_table(items)
    from_items = table["heuristics"] | table["with_question"]
    for name, row in from_items.items():
        assert from_rows[name]["value"] == pytest.approx(row["value"])
        assert from_rows[name]["p_holm"] == pytest.approx(row["p_holm"])
        assert from_rows[name]["ties"] == row["ties"]


choice_lists = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=2, max_size=6)
PLACES = {"first_option", "last_option", "most_common_position"}


@settings(deadline=None, max_examples=25)
@given(choice_lists, st.randoms(use_true_random=False))
def test_rules_spend_one_credit_on_each_item_and_those_of_text_do_not_see_places(
    choices: list[str], random: Random
) -> None:
    k, order = len(choices), list(range(len(choices)))
    random.shuffle(order)
    found = rows([item(choices, key, f"i{key}") for key in range(k)])
    spent = [sum(row.correct or 0 for row in found[at : at + k]) for at in range(0, len(found), k)]
    assert spent == pytest.approx([1.0] * len(HEURISTICS))
    one = item(choices)
    for h in HEURISTICS:
        if h.name not in PLACES:
            (before,), (after,) = heuristic_numbers(h, [one]), heuristic_numbers(h, [one.permuted(order)])
            assert after == pytest.approx([before[j] for j in order])


# --- p ---


def _by_enumeration(total: float, tie: Sequence[int], k: Sequence[int]) -> float:
    p = 0.0
    for won in itertools.product([False, True], repeat=len(k)):
        if sum(w / t for w, t in zip(won, tie, strict=True)) >= total - 1e-9:
            p += float(np.prod([t / n if w else 1 - t / n for w, t, n in zip(won, tie, k, strict=True)]))
    return p


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=9), st.data())
def test_p_equals_enumeration(shapes: list[tuple[int, int]], data: st.DataObject) -> None:
    tie = np.array([t for t, _ in shapes])
    k = np.array([max(t + more, 2) for t, more in shapes])
    won = data.draw(st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes)))
    total = sum(1 / t for t, w in zip(tie.tolist(), won, strict=True) if w)
    assert credit_p(total, tie, k) == pytest.approx(
        _by_enumeration(total, tie.tolist(), k.tolist()), abs=1e-12
    )


# --- measured ---


def _made_up(rng: np.random.Generator, n: int, k: int = 4) -> Item:
    choices = tuple("x" * int(rng.integers(3, 60)) + f" {rng.integers(1000)}" for _ in range(k))
    return item(choices, int(rng.integers(k)), f"m{n}")


def _kept_by_voters(rng: np.random.Generator) -> tuple[Answers, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A clean set whose voters all pick the longest answer: what is kept, and the choices that as the key would be."""
    items = [_made_up(rng, n) for n in range(150)]
    lengths = np.array([[len(c.strip()) for c in i.choices] for i in items])
    picked = lengths == lengths.max(axis=1, keepdims=True)
    key = np.array([i.key for i in items])
    return guess(items), ~picked[np.arange(150), key], ~picked


def test_p_after_a_selection_is_exact() -> None:
    """Two items; the key may be one of `of` choices, of which `hit` are among the `tie` that share the pick."""
    tie, of, hit = np.array([2, 1]), np.array([3, 2]), np.array([1, 1])
    # Credits: 1/2 with 1/3, else 0; 1 with 1/2, else 0.
    assert credit_p(1.5, tie, of, hit) == pytest.approx(1 / 6)
    assert credit_p(1.0, tie, of, hit) == pytest.approx(1 / 2)
    assert credit_p(0.5, tie, of, hit) == pytest.approx(2 / 3)
    many = (np.tile(tie, LATTICE), np.tile(of, LATTICE), np.tile(hit, LATTICE))
    assert credit_p(LATTICE * (1 / 6 + 1 / 2), *many) == pytest.approx(0.5)


def test_a_shortcut_left_in_what_was_kept_is_still_found() -> None:
    rng = np.random.default_rng(9)
    answers, kept, could = _kept_by_voters(rng)
    shortest = answers.block("heuristic", "shortest_answer")
    left = heuristic_scores(answers, kept, could)
    assert left["shortest_answer"]["chance"] == 0.25
    assert 0.32 < left["shortest_answer"]["expected"] < 0.34, "the voters took the longest one"
    assert (left["longest_answer"]["value"], left["longest_answer"]["expected"]) == (0.0, 0.0)
    # Most items where it is wrong are gone: it is right far more often than the filter leaves to chance.
    found = heuristic_scores(answers, kept & ((shortest.correct == 1) | (np.arange(150) % 4 == 0)), could)
    assert found["shortest_answer"]["p_holm"] < 1e-3


def test_a_rule_chosen_by_the_keys_pays_for_it() -> None:
    items = [item("abcd", 0 if n < 16 else n % 4, f"i{n}") for n in range(40)]
    found = heuristic_scores(guess(items), np.ones(40, dtype=bool))
    first, common = found["first_option"], found["most_common_position"]
    assert first["value"] == common["value"]
    assert common["p"] == pytest.approx(min(1, 4 * first["p"]))


def test_no_items_have_no_number_and_no_p() -> None:
    none = rule_table([])
    assert (none["n"], none["chance_accuracy"]) == (0, None)
    assert heuristic_scores(Answers.of([]), np.zeros(0, dtype=bool)) == {}
    items = [item("abcd", n % 4, f"i{n}") for n in range(8)]
    found = heuristic_scores(guess(items), np.zeros(8, dtype=bool))
    assert found["longest_answer"] == {
        "value": None, "n": 0, "ci": None, "ties": 0, "chance": None, "expected": None, "p": None, "p_holm": None,
    }  # fmt: skip


def test_arc_challenge_agrees_with_the_figures_others_published(data: Path) -> None:
    """Tie-fair figures of ARC-Challenge's 1,165 four-option items, computed elsewhere on another copy."""
    from robustify.reading.loaders import Source, load

    loaded = load(Source(path=str(data / "arc" / "ARC-Challenge-Test.jsonl")), UNGUARDED)
    four = [i for i in loaded.items if i.k == 4]
    assert len(four) == 1165
    found = rule_table(four)["heuristics"]
    assert isinstance(found, dict)
    published = contents("judging")["published_of_arc"]
    figures = {name: round(100 * found[name]["value"], 1) for name in published}
    assert figures == pytest.approx(published, abs=0.11)
