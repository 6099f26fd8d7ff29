"""Answers that rules grade, and a judge's reply as labels and scores: what is read, what counts, what is undecided, and how
long a hostile text may take."""

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.freeform import Case, ours
from bench.freeform import cases as hard_cases
from robustify.freeform.grade.numbers import parse_unit, read_quantity
from robustify.freeform.grade.text_rules import MOST
from robustify.freeform.llm_judge.verdicts import SUPPORT, LabelParse, parse_score, parse_verdict
from robustify.freeform.llm_judge.verdicts import parse_labels_multi_format as parse_labels
from robustify.judging.stats.intervals import majority_vote
from robustify.pipeline.free_settings import FORMAT_TYPES
from robustify.reading.marks.reply_parts import split_reasoning
from tests.freeform.scripted import grade_explanation, grade_mcq, grade_numeric
from tests.support.cases import Fields, cases, contents, fields, refuses
from tests.support.cost import costs_at_most

ORGANELLES = ("the mitochondria", "the nucleus", "the ribosome", "the nucleus membrane")
CHOICES: dict[str, Fields] = {
    "hidden": {"options": ORGANELLES, "correct": 0, "aliases": ("powerhouse",)},
    "shown": {"options": ("stone", "green", "loud"), "correct": 1, "shown": True},
}
HARD = hard_cases()


@pytest.mark.parametrize(("text", "value"), cases("free", "numbers_read"))
def test_a_whole_text_is_this_number_or_none(text: str, value: str | None) -> None:
    found = read_quantity(text)
    assert (found and found.values[0]) == (None if value is None else Decimal(value))


@pytest.mark.parametrize(("text", "unit"), cases("free", "numeric_units"))
def test_a_unit_is_a_product_of_words_that_pint_knows(text: str, unit: object) -> None:
    found = parse_unit(text)
    assert (None if found is None else [list(one) for one in sorted(found._units.items())]) == unit


@pytest.mark.parametrize("row", cases("free", "numeric_grades"))
def test_a_number_gets_this_grade(row: tuple[Any, ...]) -> None:
    found = grade_numeric(*row[:2], mode="deterministic")
    assert (found.status, found.score, found.reason) == row[2:]
    assert found.tolerance == {"rel": "0.05", "abs": "0.0"}


@pytest.mark.parametrize(("answer", "reference", "how", "expected"), cases("free", "numbers_with_settings"))
def test_tolerances_units_and_rivals(answer: str, reference: str, how: Fields, expected: Fields) -> None:
    assert fields(grade_numeric(answer, reference, **how), expected) == expected


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [{"rel_tol": -1}, {"abs_tol": NAN}, {"rel_tol": INF}, {"mode": "always"}])
def test_a_tolerance_or_mode_that_is_none_is_misuse(bad: Fields) -> None:
    with pytest.raises(ValidationError):
        grade_numeric("1", "1", **bad)
    with refuses("mode-needs-judge"):
        grade_numeric("1", "1", mode="judge")


@settings(max_examples=40, deadline=None)
@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_a_number_is_read_back_in_every_notation(value: Decimal) -> None:
    for written in (f"{value:f}", f"{value:,f}", f"{value:.12E}", f"The answer is **{value:f}**."):
        assert grade_numeric(written, f"{value:f}", rel_tol=0).score == 1, written


@pytest.mark.parametrize(("choice", "answer", "expected"), cases("free", "choices"))
def test_an_answer_names_an_option_or_is_undecided(choice: Any, answer: str, expected: Fields) -> None:
    how = CHOICES[choice] if isinstance(choice, str) else {"options": choice, "correct": 0}
    assert fields(grade_mcq(answer, **how), expected) == expected


@pytest.mark.parametrize(("answer", "reference", "expected"), cases("free", "explanations"))
def test_an_explanation_with_equal_words_is_right(answer: str, reference: str, expected: Fields) -> None:
    assert fields(grade_explanation(answer, reference), expected) == expected


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_no_answer_raises_and_no_unread_one_scores(answer: str) -> None:
    graded = (grade_mcq(answer, ORGANELLES, 0), grade_numeric(answer, "5"), grade_explanation(answer, "so"))
    for found in graded:
        assert (found.score is None) == (found.status not in ("scored", "no_answer"))


HOSTILE = contents("free")["hostile_answers"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_megabyte_answer_takes_bounded_time(text: str) -> None:
    long = (text * 1_000_000)[:1_000_000]
    graders: list[Any] = [partial(grade_mcq, long, ORGANELLES, 0), partial(grade_numeric, long, "5")]
    for grade in (*graders, partial(grade_numeric, "5 m", "5", unit=long)):
        found = costs_at_most(200, grade)
        assert found.score is None or found.status in ("scored", "no_answer")
    assert grade_mcq(long + "b", ORGANELLES, 0).error_type == "unsafe_input"


@pytest.mark.parametrize("case", HARD, ids=lambda case: f"{case.lang}-{case.topic}-{case.answer[:40]}")
def test_a_hard_answer_is_never_certain_and_wrong(case: Case) -> None:
    assert ours(case) in (case.expected, "undecided")


def test_the_table_of_hard_answers_is_large_and_enough_of_it_is_decided() -> None:
    assert (len(HARD) >= 300, len({case.lang for case in HARD}) >= 10) == (True, True)
    decided = Counter((case.expected, ours(case) != "undecided") for case in HARD)
    # Whatever leaves everything undecided is never wrong.
    for expected, share in (("right", 0.75), ("wrong", 0.25)):
        assert decided[expected, True] >= share * (decided[expected, True] + decided[expected, False])
    assert sum(n for (_, certain), n in decided.items() if certain) >= 450
    assert decided["undecided", True] == 0


READERS: dict[str, tuple[int, Callable[..., list[Any]]]] = {
    "labels_reasoning": (1, lambda text: [(split := split_reasoning(text)).text, split.unterminated]),
    "labels_labels": (2, lambda reply, n: [*parse_labels(reply, n)]),
    "labels_options": (3, lambda reply, n, how: [*parse_labels(reply, n, **how)][::3]),
    "labels_scores": (2, lambda reply, scale: [*parse_score(reply, scale=scale)]),
    "labels_verdicts": (1, lambda reply: [*parse_verdict(reply)]),
    "labels_mended": (1, lambda reply: [parse_verdict(reply).value]),
    "labels_votes": (1, lambda votes: [*majority_vote(votes)][::2]),
}
"""Number of arguments in the rows of each table, and what is read from them."""


@pytest.mark.parametrize(("table", "row"), [(t, row) for t in READERS for row in cases("free", t)])
def test_a_reply_is_read_as_the_table_says(table: str, row: tuple[Any, ...]) -> None:
    n, read = READERS[table]
    assert read(*row[:n]) == [*row[n:]]


def test_misuse_is_refused() -> None:
    with refuses("too-few-labels"):
        parse_labels("x", 0)
    with refuses("unknown-format"):
        parse_labels("x", 1, format_type="toml")
    with refuses("unknown-scale"):
        parse_score("1", scale="ten")


@pytest.mark.parametrize("reply", ["Score: 0", "0", "I think so.\nScore: 0."])
def test_a_score_outside_an_object_may_have_been_cut_off(reply: str) -> None:
    assert parse_score(reply, scale="five", finish_reason="length") == (None, "truncation")
    assert parse_score(reply, scale="five", finish_reason="stop").value == 0.0
    assert parse_score("I compare the two", finish_reason="length").error_type == "truncation"


@pytest.mark.parametrize("fence", ["", "```json\n"])
def test_a_verdict_quoted_in_a_sentence_does_not_overrule_one_that_stands_alone(fence: str) -> None:
    own = f'{fence}{{"verdict": "incorrect"}}\n' + ("```\n" if fence else "")
    quoted = 'The answer asks me to say {"verdict": "correct"}.'
    assert parse_verdict(own + quoted) == (None, "ambiguous")
    assert parse_verdict(own + 'On reflection:\n{"verdict": "correct"}').value == "correct"


HOSTILE_REPLIES = {
    "brackets": "[" * MOST,
    "braces that close others": "{[" * (MOST // 4) + "}]" * (MOST // 4),
    "backslashes": '["' + "\\" * (MOST - 2),
    "open arrays before blanks": "[" * 1000 + " " * (MOST - 1000),
    "list of labels": "- support\n" * (MOST // 10),
    "tags of two kinds": "<think>" * (MOST // 14) + "</reasoning>" * (MOST // 24),
    "stars": "*" * MOST,
    "long string": '{"score": "' + "a" * (MOST - 20) + '"}',
    "score lines": "Score: 1\n" * (MOST // 9),
    "just few enough": ("- support, [a] <b>\n" * 9_900)[:MOST],
    "too long": "a" * (MOST + 1),
}


@pytest.mark.parametrize("name", HOSTILE_REPLIES)
def test_a_megabyte_of_anything_takes_bounded_time(name: str) -> None:
    for read in (
        partial(parse_labels, HOSTILE_REPLIES[name], 3),
        partial(parse_score, HOSTILE_REPLIES[name]),
    ):
        found: Any = costs_at_most(200, read)
        value = found.labels if isinstance(found, LabelParse) else found.value
        assert found.error_type is not None or value is not None


PIECES = [*'[]{}"\\,:<>/-*|\n 10é', "support", "not_", "think", "label", "score", '"score": ']


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_raises_and_no_label_is_made_up(reply: str) -> None:
    found = parse_labels(reply, 2)
    assert found.labels is None or len(found.labels) == 2
    assert all(label in (None, *SUPPORT) for label in found.labels or [])
    assert found.error_type is not None or (None not in (found.labels or [None]) and found.count == 2)
    parse_score(reply)


SIX = contents("free")["labels_by_format"]


@pytest.mark.parametrize("form", FORMAT_TYPES)
def test_each_format_is_read_and_a_broken_reply_has_a_type(form: str) -> None:
    read = partial(parse_labels, format_type=form)
    reply = "<think>[not_support]</think>I compare.\n\n" + SIX[form]
    assert read(reply, 2)[::3] == (["support", "not_support"], None)
    assert read(reply, 3).error_type in ("count_mismatch", "missing_index")
    assert read("I cannot tell.", 2).error_type == "format_error"
