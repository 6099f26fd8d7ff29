"""A judge's reply as labels and scores: what is read, what is refused, and how long a hostile reply may take."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.freeform.grade.text_rules import MOST
from robustify.freeform.llm_judge.verdicts import SUPPORT, LabelParse, parse_score, parse_verdict
from robustify.freeform.llm_judge.verdicts import parse_labels_multi_format as parse_labels
from robustify.judging.stats.intervals import majority_vote
from robustify.pipeline.free_settings import FORMAT_TYPES
from robustify.reading.marks.reply_parts import split_reasoning
from tests.support.cases import cases, contents, refuses
from tests.support.cost import costs_at_most

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


HOSTILE = {
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


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_anything_takes_bounded_time(name: str) -> None:
    for read in (partial(parse_labels, HOSTILE[name], 3), partial(parse_score, HOSTILE[name])):
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
