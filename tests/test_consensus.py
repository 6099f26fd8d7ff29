"""Votes become verdicts: rotations are averaged, ties are no votes, and a missing answer is never robust."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify import orders
from robustify.answers import Answer, Answers, answer, unanswered
from robustify.ballot import TIED, UNANSWERED, ScreenRules, ballot
from robustify.consensus import consensus, d4_rule, outcome, weighed, would_flag
from robustify.errors import DataError
from tests.fake_answers import Bench, ballot_of, bench, rows, text_rows

Criterion = Literal["unanimous", "majority"]
CRITERIA: tuple[Criterion, ...] = ("unanimous", "majority")
RULE = {"shortcut": 1, "undecided": 0, "robust": -1}


def voted(picks: list[list[int]], key: int = 0, k: int = 4) -> Bench:
    p = np.array(picks, dtype=np.int64)
    n = len(p)
    return Bench(p, np.full(n, key), np.full(n, k), np.zeros(n, dtype=bool))


def words(b: Bench, rules: ScreenRules, probe: list[int] | None = None) -> list[str]:
    held = ballot_of(b, None if probe is None else np.array(probe, dtype=np.int64))
    return [v.verdict for v in consensus(held, rules)]


def test_all_voters_right_is_a_shortcut_and_one_wrong_is_not() -> None:
    b = voted([[0, 0, 0], [0, 0, 1], [1, 2, 3]])
    assert words(b, ScreenRules()) == ["shortcut", "robust", "robust"]
    assert words(b, ScreenRules(criterion="majority")) == ["shortcut", "shortcut", "robust"]


def test_a_majority_is_more_than_half() -> None:
    b = voted([[0, 0, 1, 1], [0, 0, 0, 1]])
    assert words(b, ScreenRules(criterion="majority")) == ["robust", "shortcut"]


def test_a_missing_answer_leaves_undecided_only_what_it_could_turn() -> None:
    b = voted([[0, -1, 0], [1, -1, 0], [-1, -1, -1], [0, 0, -1]])
    assert words(b, ScreenRules()) == ["undecided", "robust", "undecided", "undecided"]
    assert words(b, ScreenRules(criterion="majority")) == ["shortcut", "undecided", "undecided", "shortcut"]
    said = consensus(ballot_of(b), ScreenRules())
    assert said[0].reason == "2 of 3 voters right, 1 of 3 unanswered"
    assert (said[0].votes, said[0].of) == (2, 3)


def test_a_tie_is_an_answer_but_no_vote() -> None:
    assert words(voted([[0, -2], [-2, -2]]), ScreenRules()) == ["robust", "robust"]


def test_without_voters_nothing_is_decided() -> None:
    b = voted([[], []])
    assert words(b, ScreenRules()) == ["undecided", "undecided"]
    assert not weighed(ballot_of(b), ScreenRules()).any()


def test_the_probe_votes_with_the_others_or_alone() -> None:
    b = voted([[0, 0], [0, 0], [0, 0], [1, 0], [1, 0]])
    probe = [0, 1, -2, 0, -1]
    assert words(b, ScreenRules(probe_vote="with"), probe) == [
        "shortcut",
        "robust",
        "robust",
        "robust",
        "robust",
    ]
    alone = words(b, ScreenRules(probe_vote="alone"), probe)
    assert alone == ["shortcut", "shortcut", "shortcut", "shortcut", "undecided"]
    assert words(voted([[], []]), ScreenRules(probe_vote="alone"), [0, 2]) == ["shortcut", "robust"]


def test_what_would_be_flagged_were_another_option_the_key() -> None:
    would = would_flag(ballot_of(voted([[0, 0], [2, 2], [1, 3], [-2, 1], [1, -1]])), ScreenRules())
    assert would.sum(axis=1).tolist() == [1, 1, 0, 0, 0]
    assert would[1].tolist() == [False, False, True, False]


def test_a_model_cannot_vote_twice() -> None:
    with pytest.raises(ValidationError, match="twice"):
        ScreenRules(voters=("a", "a"))


VOTES = st.integers(1, 5).flatmap(
    lambda m: st.lists(st.lists(st.integers(-2, 3), min_size=m, max_size=m), min_size=1, max_size=12)
)
KEYED = st.tuples(
    VOTES,
    st.integers(0, 3),
    st.sampled_from(CRITERIA),
    st.sampled_from(["none", "with", "alone"]),
    st.integers(0, 9999),
)


def _case(case: tuple[list[list[int]], int, Criterion, str, int]) -> tuple[Bench, ScreenRules, list[int]]:
    picks, key, criterion, vote, seed = case
    rules = ScreenRules.model_validate({"criterion": criterion, "probe_vote": vote})
    return voted(picks, key), rules, np.random.default_rng(seed).integers(-2, 4, len(picks)).tolist()


@given(KEYED)
def test_one_more_right_vote_never_turns_a_shortcut_into_robust(
    case: tuple[list[list[int]], int, Criterion, str, int],
) -> None:
    b, rules, probe = _case(case)
    before = words(b, rules, probe)
    for m in range(b.picks.shape[1]):
        picks = b.picks.copy()
        picks[:, m] = b.key
        after = words(replace(b, picks=picks), rules, probe)
        assert all(RULE[x] <= RULE[y] for x, y in zip(before, after, strict=True))


@given(KEYED)
def test_a_missing_answer_that_arrives_never_contradicts_a_decided_verdict(
    case: tuple[list[list[int]], int, Criterion, str, int],
) -> None:
    b, rules, probe = _case(case)
    before = words(b, rules, probe)
    for answer_ in (-2, 0, 1, 2, 3):
        filled = replace(b, picks=np.where(b.picks == -1, answer_, b.picks))
        after = words(filled, rules, [answer_ if p == -1 else p for p in probe])
        assert all(x in ("undecided", y) for x, y in zip(before, after, strict=True))


@given(KEYED, st.permutations(range(4)))
def test_naming_the_options_otherwise_changes_nothing(
    case: tuple[list[list[int]], int, Criterion, str, int], names: list[int]
) -> None:
    b, rules, probe = _case(case)
    there = np.array([*names, TIED, UNANSWERED])
    other = Bench(there[b.picks], there[b.key], b.k, b.shortcut)
    held, moved = ballot_of(b, np.array(probe)), ballot_of(other, there[np.array(probe)])
    assert consensus(held, rules) == consensus(moved, rules)
    assert (would_flag(moved, rules)[:, names] == would_flag(held, rules)).all()


@given(KEYED)
def test_every_item_has_one_verdict_and_the_flagged_are_those_that_would_be(
    case: tuple[list[list[int]], int, Criterion, str, int],
) -> None:
    b, rules, probe = _case(case)
    held = ballot_of(b, np.array(probe))
    code = outcome(held, rules)
    assert len(consensus(held, rules)) == len(b.key)
    assert set(code.tolist()) <= {-1, 0, 1}
    flagged = np.take_along_axis(would_flag(held, rules), b.key[:, None], axis=1)[:, 0]
    assert ((code == 1) == flagged).all()
    assert (weighed(held, rules) >= flagged).all()


def test_averaging_rotations_cancels_a_liking_for_a_letter() -> None:
    b = bench(60, 2, s=0.3, seed=3)
    table = Answers.of(rows(b, bias=50.0))
    held = ballot(table, ScreenRules(), b.ids)
    assert (held.choice == b.picks).all()
    assert held.rotations == 4
    one = ballot(Answers.of(rows(b, bias=50.0, rotations=False)), ScreenRules(), b.ids)
    first = np.array([orders.base(i, 4)[0] for i in b.ids])
    assert (one.choice == first[:, None]).all(), "one order alone shows nothing but the liking"


def test_a_rotation_counts_by_its_contrasts_and_not_by_its_level() -> None:
    """A mean of probabilities, or a count of won rotations, would see a tie here."""
    order = orders.rotations((0, 1))
    table = [
        answer("x", "choices_only", "v", order[0], "t", 0, (-1.0, -3.0)),
        answer("x", "choices_only", "v", order[1], "t", 0, (-101.0, -100.0)),
    ]
    held = ballot(Answers.of(table), ScreenRules(), ["x"])
    assert held.choice.tolist() == [[0]]


def test_a_voter_that_left_one_rotation_unanswered_is_unanswered() -> None:
    b = voted([[0, 0]])
    some = rows(b)
    some[2] = unanswered(
        some[2].item, some[2].view, some[2].model, some[2].order, some[2].template, 0, "lost"
    )
    held = ballot(Answers.of(some), ScreenRules(), b.ids)
    assert held.choice.tolist() == [[UNANSWERED, 0]]
    assert np.isnan(held.credit()[0, 0])


def test_scores_with_a_hole_are_no_answer() -> None:
    row = answer("x", "choices_only", "v", (0, 1, 2), "t", 0, (-1.0, -2.0, -3.0))
    held = ballot(Answers.of([replace(row, scores=(-1.0, float("nan"), -3.0))]), ScreenRules(), ["x"])
    assert held.choice.tolist() == [[UNANSWERED]]


def test_an_imported_pick_without_scores_is_a_vote() -> None:
    bare = [
        Answer("x", "choices_only", "v", (0, 1, 2), "t", 1, 2, 0.0, ()),
        Answer("y", "choices_only", "v", (0, 1, 2), "t", 1, 0, 0.5, (), tie=2),
    ]
    held = ballot(Answers.of(bare), ScreenRules(), ["x", "y"])
    assert held.choice.tolist() == [[2], [TIED]]


def test_text_mode_compares_by_character() -> None:
    b = bench(40, 2, s=0.3, options=(2, 3, 5), seed=4)
    held = ballot(Answers.of(text_rows(b)), ScreenRules(mode="text"), b.ids)
    assert (held.choice == b.picks).all()
    assert held.template == "answer-v1"


def test_a_model_that_missed_an_item_is_unanswered_there() -> None:
    b = voted([[0, 0], [0, 0]])
    some = [r for r in rows(b) if (r.item, r.model) != ("i00001", "v1")]
    held = ballot(Answers.of(some), ScreenRules(), [*b.ids, "never asked"])
    assert held.choice.tolist() == [[0, 0], [0, UNANSWERED], [UNANSWERED, UNANSWERED]]
    assert [v.verdict for v in consensus(held, ScreenRules())] == ["shortcut", "undecided", "undecided"]


def test_the_first_template_asked_is_the_screen_and_others_can_be_named() -> None:
    b, other = voted([[0, 0]]), voted([[1, 1]])
    table = Answers.of([*rows(b), *rows(other, template="balepur-v1")])
    assert ballot(table, ScreenRules(), b.ids).choice.tolist() == [[0, 0]]
    assert ballot(table, ScreenRules(template="balepur-v1"), b.ids).choice.tolist() == [[1, 1]]


def test_named_voters_alone_vote() -> None:
    b = voted([[0, 1]])
    held = ballot(Answers.of(rows(b)), ScreenRules(voters=("v1",)), b.ids)
    assert (held.voters, held.choice.tolist()) == (("v1",), [[1]])


def test_a_probe_below_its_confidence_casts_no_vote() -> None:
    probes = [
        answer(name, "probe", "probe", (0, 1, 2, 3), "probe-v1", 0, np.log(p).tolist())
        for name, p in (("sure", [0.7, 0.1, 0.1, 0.1]), ("unsure", [0.4, 0.2, 0.2, 0.2]))
    ]
    b = voted([[1], [1]])
    table = Answers.of(
        [
            *(replace(r, item=n) for r, n in zip(rows(b, rotations=False), ("sure", "unsure"), strict=True)),
            *probes,
        ]
    )
    held = ballot(table, ScreenRules(probe_vote="alone"), ["sure", "unsure", "absent"])
    assert held.probe is not None
    assert held.probe.tolist() == [0, TIED, UNANSWERED]
    lower = ballot(table, ScreenRules(probe_vote="alone", probe_confidence=0.3), ["sure", "unsure"])
    assert lower.probe is not None
    assert lower.probe.tolist() == [0, 0]


def test_rows_that_disagree_on_the_key_are_refused_by_name() -> None:
    b = voted([[0, 0]])
    some = rows(b)
    some[-1] = replace(some[-1], key=1)
    with pytest.raises(DataError, match="i00000"):
        ballot(Answers.of(some), ScreenRules(), b.ids)


def test_d4_counts_the_first_order_only() -> None:
    b = bench(200, 2, s=0.2, agree=0.3, seed=5)
    table = Answers.of(rows(b, bias=0.0))
    found = d4_rule(table, b.voters, None, b.ids)
    assert found is not None
    luck, template = found
    assert template == "d4-like-v1"
    assert luck.flagged == int((b.picks == b.key[:, None]).all(axis=1).sum())
    liked = d4_rule(Answers.of(rows(b, bias=50.0)), b.voters, None, b.ids)
    assert liked is not None
    first = np.array([orders.base(i, 4)[0] for i in b.ids])
    assert liked[0].flagged == int((first == b.key).sum()), "one order is all letter bias"


def test_d4_is_absent_where_a_voter_was_not_asked_by_letter() -> None:
    b = voted([[0, 0]])
    assert d4_rule(Answers.of(text_rows(b)), b.voters, None, b.ids) is None
    assert d4_rule(Answers.of(rows(b, voters=["v0", "other"])), b.voters, None, b.ids) is None
