"""Votes become verdicts: rotations are averaged, ties are no votes, and a missing answer is never kept."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify.base.errors import DataError
from robustify.items import orders
from robustify.items.answers import Answer, Answers, Asked, answer
from robustify.items.scoring import TextNorm
from robustify.judging.screen.consensus import Chance, apply_rule, d4_votes
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules, same_model
from robustify.judging.screen.votes import TIED, UNANSWERED
from tests.support.cases import cases, refuses
from tests.support.fake_answers import Bench, bench, own_rows, rows, text_rows, turned_rows, votes_of
from tests.support.rules import collect_votes, unanimous

Criterion = Literal["unanimous", "majority", "counted"]
CRITERIA: tuple[Criterion, ...] = ("unanimous", "majority", "counted")
OF_3 = tuple(ScreenRules(criterion=f"{k}-of-3") for k in (1, 2, 3))
RULE = {"flagged": 1, "undecided": 0, "kept": -1}


def voted(picks: list[list[int]], key: int = 0, k: int = 4) -> Bench:
    p = np.array(picks, dtype=np.int64)
    n = len(p)
    return Bench(p, np.full(n, key), np.full(n, k), np.zeros(n, dtype=bool))


def of_d4(answers: Answers, b: Bench) -> tuple[Chance, str] | None:
    """What D.4's rule flags, and its template, for voters whose votes by letter are not at hand."""
    index = item_index(answers, b.ids)
    votes = replace(votes_of(b), rotations=1)
    found = d4_votes(answers, votes, ScreenRules(mode="text"), index)
    return None if found is None else (apply_rule(found[1], found[0]).chance(), found[1].template)


def picked(rows: Iterable[Answer], rules: ScreenRules, ids: Sequence[str]) -> list[list[int]]:
    return collect_votes(Answers.of(rows), rules, ids).pick.tolist()


def words(b: Bench, rules: ScreenRules) -> list[str]:
    return [v.verdict for v in apply_rule(votes_of(b), rules).verdicts()]


ONE_SILENT = [[0, -1, 0], [1, -1, 0], [-1, -1, -1], [0, 0, -1]]


@pytest.mark.parametrize(("picks", "criterion", "expected"), cases("judging", "verdicts_of_picks"))
def test_right_votes_decide_and_a_missing_one_leaves_undecided_only_what_it_could_turn(
    picks: list[list[int]], criterion: str, expected: list[str]
) -> None:
    rules = ScreenRules(criterion=criterion)
    assert words(voted(picks), rules) == expected
    assert apply_rule(votes_of(voted(picks)), rules).measurable.any() == any(picks)


def test_a_verdict_says_how_many_voters_were_right_and_how_many_silent() -> None:
    said = apply_rule(votes_of(voted(ONE_SILENT)), unanimous()).verdicts()
    assert said[0].reason == "2 of 3 voters right, 1 of 3 unanswered"
    assert (said[0].votes, said[0].of) == (2, 3)
    counted = apply_rule(votes_of(voted([[0, 0, 0], [0, 1, 0], [1, 2, 3]])), OF_3[1]).verdicts()
    assert [v.reason for v in counted] == [f"{n} of 3 voters right" for n in (3, 2, 0)]


def test_an_item_whose_key_is_not_known_is_undecided_and_no_flag() -> None:
    votes = replace(votes_of(voted([[0, 0], [0, 0], [0, 0], [1, 1]])), key=np.array([-1, 0, 0, 0]))
    assert apply_rule(votes, unanimous()).outcome.tolist() == [-1, 1, 1, 0]
    assert [v.votes for v in apply_rule(votes, unanimous()).verdicts()] == [0, 2, 2, 0]
    assert apply_rule(votes, unanimous()).chance().flagged == 2


Case = tuple[list[list[int]], int, Criterion, int]
VOTES = st.integers(1, 5).flatmap(
    lambda m: st.lists(st.lists(st.integers(-2, 3), min_size=m, max_size=m), min_size=1, max_size=12)
)
KEYED = st.tuples(VOTES, st.integers(0, 3), st.sampled_from(CRITERIA), st.integers(0, 9999))


def _case(case: Case) -> tuple[Bench, ScreenRules]:
    picks, key, kind, seed = case
    votes = len(picks[0])
    criterion = f"{seed % votes + 1}-of-{votes}" if kind == "counted" else kind
    return voted(picks, key), ScreenRules(criterion=criterion)


@given(KEYED)
def test_one_more_right_vote_never_turns_a_shortcut_into_robust(case: Case) -> None:
    b, rules = _case(case)
    before = words(b, rules)
    for m in range(b.picks.shape[1]):
        picks = b.picks.copy()
        picks[:, m] = b.key
        after = words(replace(b, picks=picks), rules)
        assert all(RULE[x] <= RULE[y] for x, y in zip(before, after, strict=True))


def test_averaging_rotations_cancels_a_liking_for_a_letter() -> None:
    b = bench(60, 2, s=0.3, seed=3)
    table = Answers.of(rows(b, bias=50.0))
    votes = collect_votes(table, unanimous(), b.ids)
    assert (votes.pick == b.picks).all()
    assert votes.rotations == 4
    one = collect_votes(Answers.of(rows(b, bias=50.0, rotations=False)), unanimous(), b.ids)
    first = np.array([orders.base(i, 4)[0] for i in b.ids])
    assert (one.pick == first[:, None]).all(), "one order alone shows nothing but the liking"


def test_an_imported_pick_without_scores_is_a_vote() -> None:
    bare = [
        Answer("x", "choices_only", "v", (0, 1, 2), "t", 1, 2, 0.0, ()),
        Answer("y", "choices_only", "v", (0, 1, 2), "t", 1, 0, 0.5, (), tie=2),
    ]
    assert picked(bare, unanimous(), ["x", "y"]) == [[2], [TIED]]


def test_rows_that_disagree_on_the_key_are_refused_by_name() -> None:
    b = voted([[0, 0]])
    some = rows(b)
    some[-1] = replace(some[-1], key=1)
    with refuses("contradictory-rows") as refused:
        collect_votes(Answers.of(some), unanimous(), b.ids)
    assert "i00000" in str(refused.value)


def test_d4_counts_the_first_order_only() -> None:
    b = bench(200, 2, s=0.2, agree=0.3, seed=5)
    table = Answers.of(rows(b, bias=0.0))
    found = of_d4(table, b)
    chance, template = found
    assert template == "d4-like-v1"
    assert chance.flagged == int((b.picks == b.key[:, None]).all(axis=1).sum())
    liked = of_d4(Answers.of(rows(b, bias=50.0)), b)
    first = np.array([orders.base(i, 4)[0] for i in b.ids])
    assert liked[0].flagged == int((first == b.key).sum()), "one order is all letter bias"


def test_d4_is_absent_where_a_voter_was_not_asked_by_letter() -> None:
    b = voted([[0, 0]])
    assert of_d4(Answers.of(text_rows(b)), b) is None
    assert of_d4(Answers.of(rows(b, voters=["v0", "other"])), b) is None


# k of n


@pytest.mark.parametrize(
    "criterion", ["3-of-2", "0-of-3", "2of3", "-1-of-3", "2-of-3 ", "2-OF-3", "\u0662-of-3", "most"]
)
def test_a_criterion_that_cannot_be_met_is_refused_at_birth(criterion: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ScreenRules(criterion=criterion)
    (fault,) = refused.value.errors()
    # A criterion that is understood is refused by its numbers, and others by the forms that are.
    assert fault["msg"].count("k-of-n") == 1
    assert ("fdr" in fault["msg"]) != (criterion in ("3-of-2", "0-of-3"))


def test_k_of_n_for_another_number_of_voters_is_refused() -> None:
    for votes in (votes_of(voted([[0, 0]])), votes_of(voted([[0]]))):
        with refuses("criterion-needs-other-voters"):
            apply_rule(votes, OF_3[1])
    assert words(voted([[], []]), OF_3[1]) == ["undecided", "undecided"]


def test_a_voter_left_out_for_an_audit_leaves_k_of_those_that_remain() -> None:
    votes = votes_of(voted([[0, 0, 1], [0, 1, 0], [1, 0, 0]]))
    two = votes.without("v2")
    assert apply_rule(two, OF_3[1]).outcome.tolist() == [1, 0, 0]
    assert apply_rule(two, OF_3[0]).outcome.tolist() == [1, 1, 1]
    assert apply_rule(two, OF_3[2]).outcome.tolist() == apply_rule(two, unanimous()).outcome.tolist()


# Rotations


def test_a_vote_is_the_pick_averaged_over_the_rotations() -> None:
    turns, expected = zip(*cases("judging", "turned_picks"), strict=True)
    table = Answers.of(turned_rows(turns))
    votes = collect_votes(table, unanimous(), table.items)
    assert votes.pick[:, 0].tolist() == list(expected)
    assert np.isnan(votes.credit()[5, 0])


# Norms

LENGTHS = {"n_chars": (10, 40), "n_bytes": (40, 10), "n_tokens": (4, 10)}


@pytest.mark.parametrize(("norm", "pick"), [("chars", 1), ("tokens", 1), ("bytes", 0), ("sum", 0)])
def test_text_mode_divides_by_what_the_rule_says(norm: TextNorm, pick: int) -> None:
    row = answer(Asked("x", "choices_only_text", "v", (0, 1), "t", 0), (-10.0, -20.0), **LENGTHS)
    assert picked([row], unanimous(mode="text", norm=norm), ["x"]) == [[pick]]
    letter = replace(row, view="choices_only")
    assert picked([letter], unanimous(norm=norm), ["x"]) == [[0]], "letter mode has nothing to divide"


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("mode", ["letter", "text"])
def test_a_score_that_is_no_finite_number_is_no_answer(bad: float, mode: Literal["letter", "text"]) -> None:
    view = "choices_only" if mode == "letter" else "choices_only_text"
    scores = (-1.0, bad, -3.0)
    row = answer(Asked("x", view, "v", (0, 1, 2), "t", 0), (-1.0, -2.0, -3.0), n_chars=(1, 1, 1))
    table = Answers.of([replace(row, scores=scores), replace(row, item="y")])
    votes = collect_votes(table, unanimous(mode=mode), ["x", "y"])
    assert votes.pick.tolist() == [[UNANSWERED], [0]]
    assert [v.verdict for v in apply_rule(votes, unanimous(mode=mode)).verdicts()] == ["undecided", "flagged"]


def test_an_asking_that_stands_twice_is_refused_by_item_model_and_view() -> None:
    b = bench(30, 2, seed=1)
    some = rows(b)
    twice = [*some, some[5], some[5], some[100]]
    with pytest.raises(DataError) as refused:
        collect_votes(Answers.of(twice), unanimous(), b.ids)
    words = re.findall(r"[\w-]+", str(refused.value))
    assert {"i00001", "v0", "choices_only", "d4-like-v1"} <= {*words}
    assert [word for word in words if word.isdigit()] == ["3", "3"], "rows of the item, and repeated rows"
    assert (refused.value.code, refused.value.exit_code) == ("repeated-rows", 3)


def test_voters_see_places_only_by_letter_and_if_orders_depend_on_the_own_one() -> None:
    b = bench(40, 2, seed=2)
    assert collect_votes(Answers.of(own_rows(b)), unanimous(), b.ids).placed
    for unplaced in (rows(b), rows(b, rotations=False)):
        assert not collect_votes(Answers.of(unplaced), unanimous(), b.ids).placed, "rotated or hashed orders"
    assert not collect_votes(Answers.of(text_rows(b)), unanimous(mode="text"), b.ids).placed
    mixed = Answers.of([*own_rows(b, voters=["a", "b"]), *rows(b, voters=["c", "d"])])
    assert collect_votes(mixed, unanimous(), b.ids).placed, "one voter that sees places is enough"
    turned = [replace(row, order=row.order[::-1]) for row in own_rows(b)]
    assert collect_votes(Answers.of([*own_rows(b), *turned]), unanimous(), b.ids).placed, "A is first or last"


# One model under two names

WEIGHTS, OTHER = "a" * 64, "b" * 64
HF = {
    "engine": "hf-2",
    "weights": WEIGHTS,
    "config": OTHER,
    "tokenizer": OTHER,
    "dtype": "float32",
    "device": "cpu",
}


def test_one_model_under_two_names_is_found_whatever_it_was_computed_on() -> None:
    prints = {"a": HF, "b": {**HF, "weights": OTHER}, "c": {**HF, "dtype": "bfloat16", "device": "cuda"}}
    assert same_model(prints, ["a", "b", "c"]) == ("a", "c")
    assert same_model(prints, ["a", "b"]) is None
    assert same_model(prints, ["b", "c"]) is None
    assert same_model(prints, ["a", "a"]) is None, "one name twice is refused elsewhere"
