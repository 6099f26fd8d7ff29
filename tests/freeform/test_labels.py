"""A judge's reply as labels and scores: what is read, what is refused, and how long a hostile reply may take."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.errors import UsageError
from robustify.freeform.answer_text import MOST, split_reasoning
from robustify.freeform.judge.label_parse import LabelParse, parse_labels_multi_format
from robustify.freeform.judge.spans import spans
from robustify.freeform.judge.verdicts import (
    SUPPORT3,
    Reading,
    folded_label,
    majority_vote,
    parse_score,
    parse_verdict,
)
from tests.support.cost import costs_at_most

S, P, N = "support", "partial_support", "not_support"

REASONING = [
    ("plain", "plain", False),
    ("<think>a</think>b", "b", False),
    ("<THINK >a</Think>b", "b", False),
    ('<think id="x">a</think>b', "b", False),
    ("<think>a<think>b</think>c</think>d", "d", False),
    ("<think>a<reasoning>b</reasoning>c</think>d", "d", False),
    ("<think>a</reasoning>b</think>c", "c", False),
    ("<think>a</thinking>b", "b", False),
    ("a</think>b", "b", False),
    ("a</think>b</think>c", "c", False),
    ("x<think>a</think>y</think>z", "z", False),
    ("a<think>b", "a", True),
    ("<think>a<think>b</think>c", "", True),
    ("[THINK]a[/THINK]b", "b", False),
    ("◁think▷a◁/think▷b", "b", False),
    ("<thought>a</thought><scratchpad>b</scratchpad>c", "c", False),
    ("<think/>a", "<think/>a", False),
    ("<thoughtful>a", "<thoughtful>a", False),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "b", False),
    ("<|channel|>analysis<|message|>a", "", True),
    ("", "", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said", "unterminated"), REASONING)
def test_reasoning_is_cut_off(text: str, said: str, unterminated: bool) -> None:
    split = split_reasoning(text)
    assert (split.text, split.unterminated) == (said, unterminated)


# reply, expected count, labels, count, format, error
LABELS: list[tuple[str, int, list[str | None] | None, int, str | None, str | None]] = [
    # json
    ('["support"]', 1, [S], 1, "json", None),
    ('["support", "partial_support", "not_support"]', 3, [S, P, N], 3, "json", None),
    ('```json\n["support", "not_support"]\n```', 2, [S, N], 2, "json", None),
    ('```json ["support", "not_support"]```', 2, [S, N], 2, "json", None),
    ('{"labels": ["support", "not_support"]}', 2, [S, N], 2, "json", None),
    ('{"assignments": [{"id": 2, "label": "support"}, {"id": 1, "label": "not_support"}]}', 2, [N, S], 2, "json", None),
    ('{"result": {"2": "support", "1": "not_support"}}', 2, [N, S], 2, "json", None),
    ('{"1": "support", "2": "not_support"}', 2, [S, N], 2, "json", None),
    ('{"nugget 2": "support", "nugget 1": "not_support"}', 2, [N, S], 2, "json", None),
    ('[{"nugget": "2", "decision": "support"}, {"nugget": "1", "decision": "not_support"}]', 2, [N, S], 2, "json", None),
    ('[{"nugget": "water boils", "verdict": "support"}]', 1, [S], 1, "json", None),
    ('{"label": "support"}', 1, [S], 1, "json", None),
    ("['support', 'not_support']", 2, [S, N], 2, "json", None),
    ("[“support”, “not_support”]", 2, [S, N], 2, "json", None),
    ('["support", "not_support",]', 2, [S, N], 2, "json", None),
    ("[support, not_support]", 2, None, 0, None, "format_error"),
    ('[\n  "support",\n  "not_support"\n]', 2, [S, N], 2, "json", None),
    ('It says [1] so.\n["support"]', 1, [S], 1, "json", None),
    ('{"reasoning": "it is [\\"support\\"]", "labels": ["not_support"]}', 1, [N], 1, "json", None),
    ('["Fully supported", "does not support"]', 2, [S, N], 2, "json", None),
    ('["**support**", "`not_support`."]', 2, [S, N], 2, "json", None),
    ('["SUPPORT", "Not-Support"]', 2, [S, N], 2, "json", None),
    ('["ｓｕｐｐｏｒｔ"]', 1, [S], 1, "json", None),
    ('["sup\u200bport"]', 1, [S], 1, "json", None),
    # Markdown
    ("- support\n- not_support", 2, [S, N], 2, "markdown", None),
    ("labels:\n  - support\n  - not_support", 2, [S, N], 2, "markdown", None),
    ("- support\n\n- not_support", 2, [S, N], 2, "markdown", None),
    ("* support\n* not_support\n", 2, [S, N], 2, "markdown", None),
    ("+ support\n+ not_support\n", 2, [S, N], 2, "markdown", None),
    ("1. support\n2. not_support", 2, [S, N], 2, "markdown", None),
    ("1) support\n2) not_support", 2, [S, N], 2, "markdown", None),
    ("2. support\n1. not_support", 2, [N, S], 2, "markdown", None),
    ("Nugget 2: support\nNugget 1: not_support", 2, [N, S], 2, "markdown", None),
    ("**Nugget 2**: support\n**Nugget 1**: not_support", 2, [N, S], 2, "markdown", None),
    ("- Nugget 2: support\n- Nugget 1: not_support", 2, [N, S], 2, "markdown", None),
    ("- support: it says so\n- not_support - absent", 2, [S, N], 2, "markdown", None),
    ("- Water boils at 100 C: support\n- Ice sinks -> not_support", 2, [S, N], 2, "markdown", None),
    ("- support (stated twice)\n- not_support → absent", 2, [S, N], 2, "markdown", None),
    ("- support: none\n- not_support", 2, [None, N], 1, "markdown", "unknown_label"),
    ("- support -> not_support\n- support", 2, [None, S], 1, "markdown", "unknown_label"),
    ("- supportive of the claim\n- support", 2, [None, S], 1, "markdown", "unknown_label"),
    ("- not: support\n- support", 2, [None, S], 1, "markdown", "unknown_label"),
    # one line of labels; separators and lists that no template asks for
    ("support, not_support", 2, [S, N], 2, "csv", None),
    ("support|not_support", 2, None, 0, None, "format_error"),
    ("support; not_support", 2, None, 0, None, "format_error"),
    ("Labels: support, not_support", 2, [S, N], 2, "csv", None),
    ("**Final answer:** support, not_support", 2, [S, N], 2, "csv", None),
    ("support", 1, [S], 1, "csv", None),
    ("support\nnot_support", 2, None, 0, None, "format_error"),
    ("support\r\nnot_support\r\n", 2, None, 0, None, "format_error"),
    # reasoning
    ('<think>["support"]</think>["not_support"]', 1, [N], 1, "json", None),
    ('["support"]</think>["not_support"]', 1, [N], 1, "json", None),
    ('["support"]<think>hm', 1, None, 0, None, "unterminated_reasoning"),
    ('<think>["support"]', 1, None, 0, None, "unterminated_reasoning"),
    ("<think>support</think>", 1, None, 0, None, "empty"),
    ("", 1, None, 0, None, "empty"),
    ("  \n\t", 1, None, 0, None, "empty"),
    ("```json\n```", 1, None, 0, None, "empty"),
    # an echoed example, self-correction
    ('Example: ["support", "partial_support", "not_support"]\n["not_support"]', 1, [N], 1, "json", None),
    ('["support"]\nOn reflection:\n["not_support"]', 1, [N], 1, "json", None),
    ('["support"]\nI nearly said ["not_support"] here.', 1, None, 0, "json", "ambiguous"),
    ('["support"]\n["not_support"]\nSo I am not sure at all.', 1, None, 0, "json", "ambiguous"),
    ('["support"]\n["support"]\nAs above.', 1, [S], 1, "json", None),
    ('First ["support"], no, ["not_support"]', 1, [N], 1, "json", None),
    # counts and numbers
    ('["support"]', 2, None, 1, "json", "count_mismatch"),
    ('["support", "support", "support"]', 2, None, 3, "json", "count_mismatch"),
    ("1. support\n1. not_support", 2, None, 2, "markdown", "duplicate_index"),
    ('{"1": "support", "1": "not_support"}', 2, None, 2, "json", "duplicate_index"),
    ("{'1': 'support', '1': 'not_support'}", 2, None, 2, "json", "duplicate_index"),
    ("2. support", 2, [None, S], 1, "markdown", "missing_index"),
    ("1. support\n3. not_support", 2, None, 2, "markdown", "count_mismatch"),
    ('{"0": "support", "1": "not_support"}', 2, None, 2, "json", "count_mismatch"),
    # unknown labels
    ('["support", "EGCG"]', 2, [S, None], 1, "json", "unknown_label"),
    ('["yes"]', 1, [None], 0, "json", "unknown_label"),
    ('["support", null]', 2, [S, None], 1, "json", "unknown_label"),
    ('["support", ["support"]]', 2, [S, None], 1, "json", "unknown_label"),
    ('[{"label": "support", "decision": "not_support"}, {"label": "support"}]', 2, [None, S], 1, "json", "unknown_label"),
    # cut off
    ('["support", "not_sup', 2, [S, None], 1, "json", "truncation"),
    ('["support", "partial_support', 2, [S, None], 1, "json", "truncation"),
    ('["support", "not_support"', 2, [S, N], 2, "json", "truncation"),
    ('["support",', 2, [S, None], 1, "json", "truncation"),
    ('["water", "not_sup', 2, None, 0, None, "format_error"),
    # no labels
    ("The passage does not support the claim.", 1, None, 0, None, "format_error"),
    ("I would say support for the first one", 1, None, 0, None, "format_error"),
    ("[1]", 1, None, 0, None, "format_error"),
    ("[EGCG]", 1, None, 0, None, "format_error"),
    ("{}", 1, None, 0, None, "format_error"),
    ("[]", 1, None, 0, None, "format_error"),
    ("9**9**9", 1, None, 0, None, "format_error"),
    ("[9**9**9]", 1, None, 0, None, "format_error"),
    ("yes", 1, None, 0, None, "format_error"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "expected", "labels", "count", "written", "error"), LABELS)
def test_a_reply_gives_these_labels(
    reply: str,
    expected: int,
    labels: list[str | None] | None,
    count: int,
    written: str | None,
    error: str | None,
) -> None:
    assert tuple(parse_labels_multi_format(reply, expected)) == (labels, count, written, error)


OPTIONS: list[tuple[str, int, dict[str, Any], list[str | None] | None, str | None]] = [
    ('["support"]\n- not_support', 1, {"format_type": "json"}, [S], None),
    ('["support"]\n- not_support', 1, {"format_type": "markdown"}, [N], None),
    ("- support", 1, {"format_type": "json"}, None, "format_error"),
    ("support, support", 2, {"format_type": "csv"}, [S, S], None),
    ("- support\n- part", 2, {"finish_reason": "length"}, [S, None], "truncation"),
    ("- support\n- partial_support", 3, {"finish_reason": "length"}, [S, P, None], "truncation"),
    ("2. support\n1. not_sup", 3, {"finish_reason": "length"}, [None, S, None], "truncation"),
    ("Let me think", 2, {"finish_reason": "length"}, None, "truncation"),
    ('["yes", "no", "maybe"]', 3, {}, [None, None, None], "unknown_label"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "expected", "how", "labels", "error"), OPTIONS)
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


SCORES: list[tuple[str, str, float | None, str | None]] = [
    ('{"score": 1}', "binary", 1.0, None),
    ('{"score": 0}', "binary", 0.0, None),
    ('{"score": true}', "binary", 1.0, None),
    ('{"score": true}', "five", None, "off_scale"),
    ('{"score": "1"}', "binary", 1.0, None),
    ('{"score": 1.0, "reasoning": "fine"}', "binary", 1.0, None),
    ("{'score': 1}", "binary", 1.0, None),
    ('```json\n{"score": 0}\n```', "binary", 0.0, None),
    ('[{"score": 1}]', "binary", 1.0, None),
    ('{"score": 0.75}', "five", 0.75, None),
    ('{"score": 0.75}', "binary", None, "off_scale"),
    ('{"score": 10}', "binary", None, "off_scale"),
    ('{"score": NaN}', "binary", None, "off_scale"),
    ('{"score": Infinity}', "five", None, "off_scale"),
    ('{"score": null}', "binary", None, "off_scale"),
    ('{"score": "high"}', "binary", None, "off_scale"),
    ('{"score": "9**9**9"}', "binary", None, "off_scale"),
    ('{"score": [1]}', "binary", None, "off_scale"),
    ('{"reasoning": "he wrote {\\"score\\": 1}", "score": 0}', "binary", 0.0, None),
    ('{"reasoning": "he wrote "yes" here", "score": 0}', "binary", 0.0, None),
    ('{"reasoning": "he wrote {"score": 1} here", "score": 0}', "binary", None, "format_error"),
    ('{"result": {"score": 1}}', "binary", None, "format_error"),
    ('{"score": 1, "score": 0}', "binary", None, "ambiguous"),
    ('{"score": 1, "score": 1}', "binary", 1.0, None),
    ('{"score": 1}\n{"score": 0}', "binary", 0.0, None),
    ('{"score": 1}\n{"score": 0}\nI changed my mind twice.', "binary", None, "ambiguous"),
    ('{"score": 1}\n{"score": 1}\nAs I said.', "binary", 1.0, None),
    ('Output ONLY a valid JSON object: {"score": 0} or {"score": 1}.', "binary", None, "ambiguous"),
    ('{"score": 0} {"score": 1}', "binary", None, "ambiguous"),
    ('{"score": 1}\n{"score": 0, "reas', "binary", None, "ambiguous"),
    ('{"score": 1, "reas', "binary", None, "truncation"),
    ("Score: 1", "binary", 1.0, None),
    ("It is right.\n**Score:** 1", "binary", 1.0, None),
    ("It is right.\nFinal score: 0.75", "five", 0.75, None),
    ("Score: 1/1", "binary", None, "format_error"),
    ("1", "binary", 1.0, None),
    ("0.5", "five", 0.5, None),
    ("2", "binary", None, "format_error"),
    ("The score is 1 because it is right", "binary", None, "format_error"),
    ("", "binary", None, "empty"),
    ('<think>{"score": 1}', "binary", None, "unterminated_reasoning"),
    ('<think>{"score": 1}</think>{"score": 0}', "binary", 0.0, None),
    ('{"score": 1}</think>{"score": 0}', "binary", 0.0, None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "scale", "score", "error"), SCORES)
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


MENDED: list[tuple[str, str | None]] = [
    ('{"reasoning": "he said "yes" to it", "verdict": "correct", "note": "fine"}', "correct"),
    ('{reasoning: "short", verdict: correct, note: "x"}', "correct"),
    ('{"a": "b" "verdict": "correct" "note": "x"}', "correct"),
    # Named twice, not whole, read otherwise by json-repair, or not alone: none of these is a verdict.
    ('{"note": "x", "verdict": "correct" or "incorrect", "n": "he "said" it"}', None),
    ('{"note": "he "said" verdict: correct", "verdict": "incorrect", "n": "x "y" z"}', None),
    ('{"reasoning": "he wrote {"verdict": "correct"} here", "n": "a"}', None),
    ('{"n": "x "y" z", "verdict": "correct", "m": 2} {"n": "x "y" z", "verdict": "correct", "m": 2}', None),
    ('{"verdict_of_all": 1, verdict: correct but not fully, n: 2}', None),
]


@pytest.mark.parametrize(("reply", "verdict"), MENDED)
def test_one_isolated_object_is_mended_as_a_last_resort(reply: str, verdict: str | None) -> None:
    assert parse_verdict(reply).value == verdict


VERDICTS = [
    ('{"verdict": "correct"}', "correct", None),
    ('{"verdict": "INCORRECT"}', "incorrect", None),
    ('{"verdict": "not attempted"}', "not_attempted", None),
    ('{"verdict": "not correct"}', None, "unknown_label"),
    ('{"verdict": "C"}', None, "unknown_label"),
    ('{"verdict": "CI"}', None, "unknown_label"),
    ('{"verdict": 1}', None, "unknown_label"),
    ("Verdict: incorrect", "incorrect", None),
    ("correct", "correct", None),
    ("This is not correct", None, "format_error"),
    ("incorrect: yes", None, "format_error"),
    ('{"verdict": "correct"}\n{"verdict": "maybe"}', None, "unknown_label"),
]


@pytest.mark.parametrize(("reply", "verdict", "error"), VERDICTS)
def test_a_reply_gives_this_verdict(reply: str, verdict: str | None, error: str | None) -> None:
    found = parse_verdict(reply)
    assert (found.value, found.error_type) == (verdict, error)


VOTES: list[tuple[list[str | None], str | None, str | None]] = [
    (["a"], "a", None),
    (["a", "a", "b"], "a", None),
    (["a", "b"], None, "tie"),
    (["a", "b", "c"], None, "tie"),
    (["a", None, None], None, "no_majority"),
    (["a", "a", None, None, None], None, "no_majority"),
    (["a", "a", "a", None, None], "a", None),
    ([None], None, "no_majority"),
]


@pytest.mark.parametrize(("votes", "verdict", "error"), VOTES)
def test_a_majority_is_of_the_requested_votes(
    votes: list[str | None], verdict: str | None, error: str | None
) -> None:
    found = majority_vote(votes)
    assert (found.verdict, found.error_type) == (verdict, error)


HOSTILE = {
    "brackets": "[" * MOST,
    "closed brackets": "[" * (MOST // 2) + "]" * (MOST // 2),
    "mixed brackets": "[{" * (MOST // 2),
    "braces that close others": "{[" * (MOST // 4) + "}]" * (MOST // 4),
    "many arrays": '["support"]' * (MOST // 11),
    "many small arrays": "[a]" * (MOST // 3),
    "many objects": '{"score": 1}' * (MOST // 12),
    "quotes": '["' * (MOST // 2),
    "backslashes": '["' + "\\" * (MOST - 2),
    "open arrays before blanks": "[" * 1000 + " " * (MOST - 1000),
    "newlines": "\n" * MOST,
    "blanks": " " * (MOST - 1) + "x",
    "list items": "- a\n" * (MOST // 4),
    "list of labels": "- support\n" * (MOST // 10),
    "short lines": "a\n" * (MOST // 2),
    "not ascii": "é\n" * (MOST // 2),
    "csv lines": "support, a\n" * (MOST // 11),
    "numbers": "1. support\n" * (MOST // 11),
    "tags": "<think>" * (MOST // 7),
    "tags of two kinds": "<think>" * (MOST // 14) + "</reasoning>" * (MOST // 24),
    "tag that never ends": "<think " * (MOST // 7),
    "angle brackets": "<" * MOST,
    "stars": "*" * MOST,
    "fences": "```" * (MOST // 3),
    "expanding": "\ufdfa" * MOST,
    "long string": '{"score": "' + "a" * (MOST - 20) + '"}',
    "digits": "9" * MOST,
    "digits in array": "[" + "9" * (MOST - 2) + "]",
    "power": "9**9**9",
    "nested json": '{"a":' * (MOST // 10) + "1" + "}" * (MOST // 10),
    "score lines": "Score: 1\n" * (MOST // 9),
    "intro": "answer" * (MOST // 6),
    "honest length": "The passage says so, and more than once. It's clear.\n" * 15_000 + '["support"]',
    "just few enough": ("- support, [a] <b>\n" * 9_900)[:MOST],
    "labels just few enough": "- support: yes it does say so\n" * 19_900,
    "csv just few enough": "support, not_support, support\n" * 19_900,
    "arrays just few enough": '["support"]\n' * 9_900,
    "objects just few enough": '{"score": 1, "reasoning": a}\n' * 9_900,
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


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_raises_and_no_label_is_made_up(reply: str) -> None:
    found = parse_labels_multi_format(reply, 2)
    assert found.labels is None or len(found.labels) == 2
    assert all(label in (None, *SUPPORT3.labels) for label in found.labels or [])
    if found.error_type is None:
        assert None not in found.labels
        assert found.count == 2
    parse_score(reply)


def test_spans_are_the_outermost_balanced_ones() -> None:
    text = 'a [b] {"c": "]"} [d [e] f'
    found = spans(text)
    assert [text[s.start : s.end] for s in found.closed] == ["[b]", '{"c": "]"}', "[e]"]
    assert [text[at] for at in found.left_open] == ["["]


def test_labels_fold_to_one_spelling() -> None:
    assert {folded_label(w) for w in ("Not Support", "not-support", "`NOT__support`.", "“not_support”")} == {
        N
    }
