"""A judge's reply as labels and scores: what is read, what is refused, and how long a hostile reply may take."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.base.errors import UsageError
from robustify.freeform.llm_judge.verdicts import (
    SUPPORT,
    LabelParse,
    parse_labels_multi_format,
    parse_score,
    parse_verdict,
)
from robustify.freeform.schema import FORMAT_TYPES
from robustify.judging.stats.intervals import majority_vote
from robustify.reading.marks.reply_parts import split_reasoning
from robustify.reading.reply_structures import MOST, Reading
from tests.freeform.scripted import table
from tests.support.cost import costs_at_most

S, P, N = "support", "partial_support", "not_support"


@pytest.mark.parametrize(("text", "said", "unterminated"), table("labels_reasoning"))
def test_reasoning_is_cut_off(text: str, said: str, unterminated: bool) -> None:
    split = split_reasoning(text)
    assert (split.text, split.unterminated) == (said, unterminated)


@pytest.mark.parametrize(("reply", "expected", "labels", "count", "written", "error"), table("labels_labels"))
def test_a_reply_gives_these_labels(
    reply: str,
    expected: int,
    labels: list[str | None] | None,
    count: int,
    written: str | None,
    error: str | None,
) -> None:
    assert tuple(parse_labels_multi_format(reply, expected)) == (labels, count, written, error)


@pytest.mark.parametrize(("reply", "expected", "how", "labels", "error"), table("labels_options"))
def test_options_change_what_is_read(
    reply: str, expected: int, how: dict[str, Any], labels: list[str | None] | None, error: str | None
) -> None:
    found = parse_labels_multi_format(reply, expected, **how)
    assert (found.labels, found.error_type) == (labels, error)


def test_misuse_raises_and_says_what_was_expected() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        parse_labels_multi_format("x", 0)
    with pytest.raises(UsageError, match="one of json"):
        parse_labels_multi_format("x", 1, format_type="toml")
    with pytest.raises(UsageError, match="binary, five"):
        parse_score("1", scale="ten")


@pytest.mark.parametrize(("reply", "scale", "score", "error"), table("labels_scores"))
def test_a_reply_gives_this_score(reply: str, scale: str, score: float | None, error: str | None) -> None:
    found = parse_score(reply, scale=scale)
    assert (found.value, found.error_type) == (score, error)


@pytest.mark.parametrize("reply", ["Score: 0", "0", "I think so.\nScore: 0."])
def test_a_score_outside_an_object_may_have_been_cut_off(reply: str) -> None:
    assert parse_score(reply, scale="five", finish_reason="length") == Reading(None, "truncation")
    assert parse_score(reply, scale="five", finish_reason="stop").value == 0.0
    assert parse_score("I compare the two", finish_reason="length").error_type == "truncation"


@pytest.mark.parametrize("fence", ["", "```json\n"])
def test_a_verdict_quoted_in_a_sentence_does_not_overrule_one_that_stands_alone(fence: str) -> None:
    own = f'{fence}{{"verdict": "incorrect"}}\n' + ("```\n" if fence else "")
    told = parse_verdict(own + 'The answer asks me to say {"verdict": "correct"}.')
    assert (told.value, told.error_type) == (None, "ambiguous")
    assert parse_verdict(own + 'On reflection:\n{"verdict": "correct"}').value == "correct"


@pytest.mark.parametrize(("reply", "verdict"), table("labels_mended"))
def test_a_verdict_is_mended_with_care_and_read_without_entities(reply: str, verdict: str | None) -> None:
    assert parse_verdict(reply).value == verdict


@pytest.mark.parametrize(("reply", "verdict", "error"), table("labels_verdicts"))
def test_a_reply_gives_this_verdict(reply: str, verdict: str | None, error: str | None) -> None:
    found = parse_verdict(reply)
    assert (found.value, found.error_type) == (verdict, error)


@pytest.mark.parametrize(("votes", "verdict", "error"), table("labels_votes"))
def test_a_majority_is_of_the_requested_votes(
    votes: list[str | None], verdict: str | None, error: str | None
) -> None:
    found = majority_vote(votes)
    assert (found.verdict, found.error_type) == (verdict, error)


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
    reply = HOSTILE[name]
    for labels in (True, False):
        read = partial(parse_labels_multi_format, reply, 3) if labels else partial(parse_score, reply)
        found = costs_at_most(200, read)
        value = found.labels if isinstance(found, LabelParse) else found.value
        assert found.error_type is not None or value is not None


PIECES = [*'[]{}"\\,:<>/-*|\n 10é', "support", "not_", "think", "label", "score", '"score": ']


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_raises_and_no_label_is_made_up(reply: str) -> None:
    found = parse_labels_multi_format(reply, 2)
    assert found.labels is None or len(found.labels) == 2
    assert all(label in (None, *SUPPORT) for label in found.labels or [])
    if found.error_type is None:
        assert None not in found.labels
        assert found.count == 2
    parse_score(reply)


SIX = {
    "json": '["support", "not_support"]',
    "yaml": "- id: 2\n  label: not_support\n- id: 1\n  label: support",
    "xml": '<labels><label id="2">not_support</label><label id="1">support</label></labels>',
    "csv": "support, not_support",
    "markdown": "* support\n* not_support",
    "adaptive": "1. support\n2. not_support",
}


@pytest.mark.parametrize("form", FORMAT_TYPES)
def test_each_format_is_read_and_a_broken_reply_has_a_type(form: str) -> None:
    reply = "<think>[not_support]</think>I compare.\n\n" + SIX[form]
    found = parse_labels_multi_format(reply, 2, format_type=form)
    assert (found.labels, found.error_type) == ([S, N], None)
    assert parse_labels_multi_format(reply, 3, format_type=form).error_type in (
        "count_mismatch",
        "missing_index",
    )
    assert parse_labels_multi_format("I cannot tell.", 2, format_type=form).error_type == "format_error"
