"""Judges: retries that name the error, votes, records that replay, and what an unread judge leaves behind."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from robustify.base.errors import AuthorisationError, DataError, ModelError, UsageError
from robustify.freeform.free_run import require_free
from robustify.freeform.llm_judge.judges import (
    CachedJudge,
    Call,
    HttpJudge,
    Judge,
    JudgeCallError,
    ask_labels,
)
from robustify.freeform.schema import FreeItem, FreeSettings, JudgeSettings, Nugget
from robustify.items.prompt_templates import Message, prompt_sha256
from robustify.models.replies import Replies, reply_key
from robustify.pipeline.config import parse
from tests.freeform.scripted import (
    ScriptedJudge,
    grade_explanation,
    grade_mcq,
    grade_numeric,
    settings,
)
from tests.freeform.scripted import graded as graded_one
from tests.support.fake_logs import jsonl
from tests.support.serving import Answer, serving

RIGHT, WRONG = '{"verdict": "correct"}', '{"verdict": "incorrect"}'
NONE = '{"verdict": "not_attempted"}'
OPTIONS = ("the mitochondria", "the nucleus")


def graded(judge: Judge, answer: str = "the powerhouse", **how: Any) -> Any:
    return grade_mcq(answer, OPTIONS, 0, judge=judge, how=how)


VERDICTS = [
    ([RIGHT], "scored", 1.0, "correct"),
    ([WRONG], "scored", 0.0, "incorrect"),
    ([NONE], "no_answer", 0.0, "not_attempted"),
    (["hm", RIGHT], "scored", 1.0, "correct"),
    (["", "", WRONG], "scored", 0.0, "incorrect"),
    (["hm", "hm", "hm"], "grader_error", None, None),
    ([JudgeCallError("timeout")], "grader_error", None, None),
    (["hm", JudgeCallError("rate_limited")], "grader_error", None, None),
    (['{"verdict": "maybe"}', '{"verdict": "maybe"}', '{"verdict": "maybe"}'], "grader_error", None, None),
]


@pytest.mark.parametrize(("replies", "status", "score", "verdict"), VERDICTS)
def test_a_judge_that_cannot_be_read_leaves_no_score(
    replies: list[Any], status: str, score: float | None, verdict: str | None
) -> None:
    found = graded(ScriptedJudge(replies))
    assert (found.status, found.score, found.verdict, found.method) == (status, score, verdict, "judge")
    assert len(found.judge.attempts) == len(replies)
    assert (found.error_type is None) == (score is not None)


def test_the_rules_decide_first_and_the_judge_only_the_rest() -> None:
    never = ScriptedJudge([])
    found = [graded(never, answer) for answer in ("mitochondria", "nucleus", "", "<think>hm")]
    assert [f.score for f in found] == [1, 0, 0, None]
    assert [f.status for f in found] == ["scored", "scored", "no_answer", "truncated"]
    assert never.asked == []


def test_modes_say_who_decides() -> None:
    def by(mode: str, answer: str, reply: str) -> Any:
        return grade_mcq(answer, OPTIONS, 0, judge=ScriptedJudge([reply]), mode=mode)

    assert by("deterministic", "the powerhouse", RIGHT).status == "needs_judge"
    found = by("judge", "mitochondria", WRONG)
    assert (found.score, found.det_verdict, found.method) == (0.0, "correct", "judge")
    found = by("both", "mitochondria", WRONG)
    assert (found.score, found.method, "judge_disagrees" in found.flags) == (1.0, "deterministic", True)
    assert found.judge is not None
    assert by("both", "mitochondria", RIGHT).flags == ()
    assert by("both", "the powerhouse", RIGHT).score == 1.0


def test_votes_are_a_majority_of_those_requested() -> None:
    found = graded(ScriptedJudge([RIGHT, WRONG, RIGHT]), votes=3)
    assert (found.score, found.method) == (1.0, "votes")
    assert found.judge.votes == ("correct", "incorrect", "correct")
    assert found.judge.agreement == pytest.approx(2 / 3)
    none = JudgeCallError("api_error")
    assert graded(ScriptedJudge([RIGHT, none, none]), votes=3).status == "grader_error"
    assert graded(ScriptedJudge([RIGHT, WRONG, NONE]), votes=3).error_type == "tie"
    with pytest.raises(ValidationError, match="odd"):
        graded(ScriptedJudge([RIGHT]), votes=2)


def test_votes_have_seeds_of_their_own_and_no_reasoning_or_other_option_is_shown() -> None:
    judge = ScriptedJudge([RIGHT] * 4)
    for how in ({"votes": 3}, {}):
        graded(judge, "<think>secret plan</think>the powerhouse", **how)
    assert [(c.seed, c.temperature) for c in judge.calls] == [(0, 0.7), (1, 0.7), (2, 0.7), (0, 0.0)]
    assert not re.search("secret plan|nucleus", "".join(m.content for m in judge.asked[0]))


def test_scores_of_an_explanation_are_on_their_scale() -> None:
    def by(reply: str, **rules: Any) -> Any:
        return grade_explanation("x", "y z", judge=ScriptedJudge([reply] * 3), **rules)

    found = by('{"score": 0.75}', scale="five")
    assert (found.score, found.verdict) == (0.75, "partial")
    assert by('{"score": 0.75}').error_type == "off_scale"
    assert by('{"score": 1, "reasoning": "r"}', rubrics={"explanation": "1.0"}, mode="auto").score == 1.0
    with pytest.raises(UsageError, match="asks for labels"):
        by(RIGHT, rubrics={"explanation": "nugget/optimized"})


def test_a_numeric_judge_is_told_the_tolerance_as_it_was_meant() -> None:
    judge = ScriptedJudge(['{"score": 1}'])
    grade_numeric("a handful", "5", rel_tol=0.07, judge=judge, mode="auto", rubrics={"numeric": "1.0"})
    assert "+/- 7%" in judge.asked[0][0].content


S, N = "support", "not_support"
LABELS = [
    (['["support", "not_support"]'], (S, N)),
    (['["support"]', '["support", "not_support"]'], (S, N)),
    # One that takes back a kept label leaves it open.
    (['["support", "yes"]', "1. support\n2. not_support"], (S, N)),
    (['["support", "yes"]', '["not_support", "not_support"]', '["support", "not_support"]'], (S, N)),
    (['["support", "yes"]', '["not_support", "not_support"]', "hm"], (None, N)),
    (['["support", "yes"]', '["not_support"]', "2. not_support"], (S, N)),
    (['["support", "yes"]', "hm", "hm"], (S, None)),
    (["hm", "hm", "hm"], (None, None)),
    ([JudgeCallError("timeout")], (None, None)),
    (['["support", "no_idea"]', JudgeCallError("timeout")], (S, None)),
]


@pytest.mark.parametrize(("replies", "labels"), LABELS)
def test_labels_that_are_certain_are_kept_and_the_list_is_asked_for_again(
    replies: list[Any], labels: tuple[str | None, ...]
) -> None:
    judge = ScriptedJudge(replies)
    asked = ask_labels(judge, [Message("user", "label them")], 2, settings())
    assert asked.labels == labels
    assert len(asked.attempts) == len(replies) == len(judge.asked)
    assert all(
        (label is None) == (error is not None)
        for label, error in zip(asked.labels, asked.error_types, strict=True)
    )


def test_a_retry_says_what_was_wrong() -> None:
    judge = ScriptedJudge(['["support"]', '["support", "x"]', '["support", "support"]'])
    assert ask_labels(judge, [Message("user", "label them")], 2, settings()).labels == (S, S)
    assert "(count mismatch). Reply with only 2 labels" in judge.asked[1][-1].content
    assert "(unknown label)" in judge.asked[2][-1].content


def test_a_reply_is_kept_and_asked_once_and_a_failed_call_is_made_again(tmp_path: Path) -> None:
    with Replies(tmp_path) as kept:
        first = graded(CachedJudge(ScriptedJudge(["hm", RIGHT]), kept, "here"))
        assert (
            graded(CachedJudge(ScriptedJudge([JudgeCallError("timeout")], "b"), kept)).error_type == "timeout"
        )
    with Replies(tmp_path) as kept:
        never = ScriptedJudge([])
        assert graded(CachedJudge(never, kept, "here")) == first
        assert never.asked == []
        assert graded(CachedJudge(ScriptedJudge([RIGHT], "b"), kept)).score == 1
        # Another server of the same model name is another judge.
        assert graded(CachedJudge(ScriptedJudge([WRONG]), kept, "elsewhere")).score == 0


def http(url: str, *, api_key_env: str | None = None, **how: Any) -> HttpJudge:
    return HttpJudge(JudgeSettings(model="big", base_url=url, api_key_env=api_key_env), **how)


class Server:
    """Answers with what the test put into `script`: a status, a body, and headers if there are any."""

    script: ClassVar[list[tuple[Any, ...]]] = []
    seen: ClassVar[list[tuple[str | None, dict[str, Any]]]] = []

    @classmethod
    def answer(cls, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        cls.seen.append((headers.get("authorization"), body))
        return Answer(*cls.script.pop(0))


@pytest.fixture
def server() -> Iterator[str]:
    Server.script, Server.seen = [], []
    with serving(Server.answer) as address:
        yield f"{address}/v1"


def chat(text: str | None, finish: str = "stop", **more: Any) -> tuple[int, dict[str, Any]]:
    message = {"role": "assistant", "content": text, **more}
    return 200, {"choices": [{"message": message, "finish_reason": finish}], "usage": {"total_tokens": 7}}


def test_a_server_is_asked_as_it_expects(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_API_KEY", "sesame")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer of-another-host")
    Server.script = [chat(RIGHT, reasoning_content='{"verdict": "incorrect"}')]
    judge = http(server, api_key_env="ROBUSTIFY_API_KEY", restricted=True)
    reply = judge.complete([Message("user", "Why?")], Call(seed=3, vote=2, max_tokens=9))
    assert (reply.text, reply.finish_reason, dict(reply.usage)) == (RIGHT, "stop", {"total_tokens": 7})
    turn = {"role": "user", "content": "Why?"}
    asked = {"model": "big", "messages": [turn], "temperature": 0.0, "max_tokens": 9, "seed": 3}
    assert Server.seen == [("Bearer sesame", asked)]
    assert "sesame" not in repr(judge)


def test_a_schema_is_sent_where_it_is_wanted_and_left_out_where_it_is_refused(server: str) -> None:
    Server.script = [chat(RIGHT), (400, {}), chat(RIGHT), chat(RIGHT), chat(RIGHT)]
    asked = http(server)
    assert [graded(judge, json_schema=True).score for judge in (asked, asked, asked)] == [1, 1, 1]
    assert graded(http(server)).score == 1
    formats = [body.get("response_format") for _, body in Server.seen]
    assert [one is not None for one in formats] == [True, True, False, False, False]
    members = formats[0]["json_schema"]["schema"]["properties"]
    assert members["verdict"]["enum"] == ["not_attempted", "incorrect", "correct"]


def test_a_reply_kept_without_a_schema_is_found_again(tmp_path: Path) -> None:
    call = {"temperature": 0.0, "max_tokens": 1024, "seed": 0, "vote": 0, "attempt": 0}
    turn = [Message("user", "Why?")]
    with Replies(tmp_path) as kept:
        kept.put([(reply_key("judge", "scripted", None, prompt_sha256(turn), call), {"text": RIGHT})])
        never = CachedJudge(ScriptedJudge([]), kept)
        assert never.complete(turn, Call()).text == RIGHT
        with pytest.raises(ModelError, match="no reply is left"):
            never.complete(turn, Call(schema={"type": "object"}))


def test_of_a_server_s_own_words_none_is_recorded(server: str) -> None:
    status, body = chat(RIGHT, finish="Why?")
    usage = {"Why?": 3, "total_tokens": 7, "prompt_tokens": "Why?", "completion_tokens": True}
    Server.script = [(status, {**body, "usage": usage, "model": "Why?"})]
    reply = http(server).complete([Message("user", "Why?")], Call())
    assert reply.finish_reason is None
    assert reply.usage == {"total_tokens": 7}


FAULTS: list[tuple[tuple[int, Any], str]] = [
    ((500, {}), "api_error"),
    ((429, {}), "rate_limited"),
    ((504, {}), "timeout"),
    ((200, b"no json"), "api_error"),
    ((200, {"choices": []}), "api_error"),
    ((200, {"error": {"code": 504}}), "timeout"),
    ((400, {"error": {"message": "flagged by a content filter"}}), "content_filter"),
    (chat("", "content_filter"), "content_filter"),
]


@pytest.mark.parametrize(("reply", "error"), FAULTS)
def test_a_failing_server_is_an_error_of_the_grader(server: str, reply: tuple[int, Any], error: str) -> None:
    Server.script = [reply]
    found = graded(http(server, retries=0))
    assert (found.status, found.score, found.error_type) == ("grader_error", None, error)


@pytest.mark.parametrize("status", [401, 404, 307])
def test_a_server_that_will_never_answer_stops_the_run(server: str, status: int) -> None:
    Server.script = [(status, {}, {"Location": "http://127.0.0.1:1/elsewhere"})]
    with pytest.raises(ModelError, match=rf"\({status}\)"):
        graded(http(server))


def test_a_judge_that_asks_to_wait_for_long_stops_the_run(server: str) -> None:
    Server.script = [(429, {}, {"Retry-After": "3600"})]
    with pytest.raises(ModelError, match=r"asks to wait 3600 s .*60 minutes"):
        graded(http(server))


@pytest.mark.parametrize(
    ("url", "how", "words"),
    [("http://10.0.0.1/v1", {"restricted": True}, "not on this machine"),
     ("http://127.0.0.1/v1", {"api_key_env": "GITHUB_TOKEN"}, "may not be sent to localhost"),
     ("https://h/v1", {"api_key_env": "ROBUSTIFY_API_KEY"}, "ROBUSTIFY_KEYS=ROBUSTIFY_API_KEY@h"),
     ("http://127.0.0.1/v1", {"api_key_env": "ROBUSTIFY_NO_API_KEY"}, "ROBUSTIFY_NO_API_KEY is not set")],
)  # fmt: skip
def test_an_address_or_key_that_cannot_be_used_is_refused(url: str, how: dict[str, Any], words: str) -> None:
    with pytest.raises((AuthorisationError, UsageError), match=words):
        http(url, **how)


@pytest.mark.parametrize(
    "judge",
    [
        {"base_url": "file:///etc/hostname"},
        {"base_url": "http://me:secret@h/v1"},
        {"api_key_env": "sk-secret"},
    ],
)
def test_an_address_or_a_name_that_is_none_is_refused_before_any_model_is_asked(
    judge: dict[str, str],
) -> None:
    free = {"judge": {"model": "m", "base_url": "http://h/v1", **judge}}
    with pytest.raises(UsageError, match=r"judge\.(base_url|api_key_env)") as e:
        parse({"name": "n", "sensitivity": "public", "data": [], "free": free}, "c.yaml")
    assert "secret" not in str(e.value)


SOLVED = {
    "question": "Is ice warm?",
    "reference": "no",
    "answer": "It is cold.",
    "reply": '{"verdict": "correct"}',
}
FACTS = {"query": "Why?", "passage": "Ice melts.", "nuggets": ["Ice melts."], "reply": '["support"]'}


def test_a_judge_sees_the_solved_cases_of_its_own_template_before_the_case(tmp_path: Path) -> None:
    rows = [{"template": "grader/mcq", **SOLVED}, {"template": "nugget/optimized", **FACTS}]
    how = {"examples": str(jsonl(tmp_path / "solved.jsonl", rows))}
    judge = ScriptedJudge([RIGHT])
    grade = grade_mcq("Perhaps the loud one.", ["green", "loud"], 0, judge=judge, mode="judge", **how)
    assert [turn.role for turn in judge.asked[0]] == ["system", "user", "assistant", "user"]
    assert "It is cold." in judge.asked[0][1].content
    assert judge.asked[0][2].content == SOLVED["reply"]
    plain = grade_mcq(
        "Perhaps the loud one.", ["green", "loud"], 0, judge=ScriptedJudge([RIGHT]), mode="judge"
    )
    # The digest of the prompt enters the signature of a run.
    assert grade.judge.attempts[0].prompt_sha256 != plain.judge.attempts[0].prompt_sha256
    nuggets = ScriptedJudge(['["support"]'])
    fact = FreeItem("i", "Why?", "explanation", "It melts.", nuggets=(Nugget("n", "Ice melts."),))
    assert graded_one(fact, "Ice melts.", nuggets, None, **how).score == 1
    assert nuggets.asked[0][2].content == FACTS["reply"]


@pytest.mark.parametrize(
    ("row", "error"),
    [({"template": "grader/mcq", "reply": "x"}, UsageError), ({"template": "grader/mcq"}, DataError),
     ({"template": "grader/poem", "reply": "x"}, UsageError)],
)  # fmt: skip
def test_a_solved_case_that_does_not_fit_is_refused_before_a_model_is_asked(
    row: dict[str, str], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        require_free(FreeSettings(examples=str(jsonl(tmp_path / "solved.jsonl", [row]))), [])
