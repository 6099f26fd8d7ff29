"""Judges: retries that name the error, votes, records that replay, and what an unread judge leaves behind."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from robustify.base.errors import ModelError, UsageError
from robustify.freeform.free_run import require_free
from robustify.freeform.grade.graders import grade_nuggets, score_nuggets
from robustify.freeform.llm_judge.judges import CachedJudge, Call, HttpJudge, JudgeCallError, ask_labels
from robustify.freeform.schema import FreeItem, Nugget, NuggetGrade
from robustify.items.prompt_templates import Message, prompt_sha256
from robustify.models.replies import Replies, reply_key
from robustify.pipeline.config import parse
from robustify.pipeline.free_settings import FreeSettings, JudgeSettings
from tests.freeform.scripted import ScriptedJudge, grade_explanation, grade_mcq, grade_numeric, settings
from tests.freeform.scripted import graded as graded_one
from tests.support.cases import Fields, cases, contents, fields, refuses
from tests.support.fake_logs import jsonl
from tests.support.serving import Answer, serving

RIGHT, WRONG = '{"verdict": "correct"}', '{"verdict": "incorrect"}'
OPTIONS = ("the mitochondria", "the nucleus")
TURN = Message("user", "Why?")


def graded(judge: Any, answer: str = "the powerhouse", **how: Any) -> Any:
    return grade_mcq(answer, OPTIONS, 0, judge=judge, how=how)


@pytest.mark.parametrize(("given", "expected"), cases("free", "judge_graded"))
def test_rules_a_judge_and_votes_decide_or_leave_no_score(given: Fields, expected: Fields) -> None:
    how = {"kind": "mcq", "answer": "the powerhouse", **given}
    judge, kind, answer = ScriptedJudge(how.pop("replies")), how.pop("kind"), how.pop("answer")
    known = (answer, OPTIONS, 0) if kind == "mcq" else ("x", "y z")
    found = {"mcq": grade_mcq, "explanation": grade_explanation}[kind](*known, judge=judge, **how)  # type: ignore[operator]
    of_judge = {name: value for name, value in expected.items() if name in ("votes", "agreement")}
    own = {name: value for name, value in expected.items() if name not in of_judge}
    assert fields(found, own) == own
    assert not of_judge or fields(found.judge, of_judge) == of_judge
    assert len(found.judge.attempts if found.judge else ()) == len(given["replies"]) == len(judge.asked)
    assert not found.judge or (found.error_type is None) == (found.score is not None)


def test_votes_are_odd_and_a_rubric_is_of_its_kind() -> None:
    with pytest.raises(ValidationError, match="odd"):
        graded(ScriptedJudge([RIGHT]), votes=2)
    with refuses("template-of-another-kind"):
        grade_explanation("x", "y", judge=ScriptedJudge([]), rubrics={"explanation": "nugget/optimized"})


def test_votes_have_seeds_of_their_own_and_no_reasoning_or_other_option_is_shown() -> None:
    judge = ScriptedJudge([RIGHT] * 4)
    for how in ({"votes": 3}, {}):
        graded(judge, "<think>secret plan</think>the powerhouse", **how)
    assert [(c.seed, c.temperature) for c in judge.calls] == [(0, 0.7), (1, 0.7), (2, 0.7), (0, 0.0)]
    assert not re.search("secret plan|nucleus", "".join(m.content for m in judge.asked[0]))


def test_a_numeric_judge_is_told_the_tolerance_as_it_was_meant() -> None:
    judge = ScriptedJudge(['{"score": 1}'])
    grade_numeric("a handful", "5", rel_tol=0.07, judge=judge, mode="auto", rubrics={"numeric": "1.0"})
    assert "+/- 7%" in judge.asked[0][0].content


@pytest.mark.parametrize(("replies", "labels"), cases("free", "judge_labels"))
def test_certain_labels_are_kept_and_the_list_is_asked_again(replies: list[Any], labels: list[Any]) -> None:
    judge = ScriptedJudge(replies)
    asked = ask_labels(judge, [TURN], 2, settings())
    assert [*asked.labels] == labels
    assert len(asked.attempts) == len(replies) == len(judge.asked)
    assert [error is None for error in asked.error_types] == [label is not None for label in labels]


def test_a_retry_says_what_was_wrong() -> None:
    judge = ScriptedJudge(['["support"]', '["support", "x"]', '["support", "support"]'])
    assert ask_labels(judge, [TURN], 2, settings()).labels == ("support", "support")
    assert "(count mismatch)" in judge.asked[1][-1].content
    assert "(unknown label)" in judge.asked[2][-1].content


def test_a_reply_is_kept_and_asked_once_and_a_failed_call_is_made_again(tmp_path: Path) -> None:
    with Replies(tmp_path) as kept:
        first = graded(CachedJudge(ScriptedJudge(["hm", RIGHT]), kept, "here"))
        failing = ScriptedJudge([JudgeCallError("timeout")], "b")
        assert graded(CachedJudge(failing, kept)).error_type == "timeout"
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
    seen: ClassVar[list[tuple[str | None, Fields]]] = []

    @classmethod
    def answer(cls, path: str, body: Fields, headers: Fields) -> Answer:
        cls.seen.append((headers.get("authorization"), body))
        return Answer(*cls.script.pop(0))


@pytest.fixture
def server() -> Iterator[str]:
    Server.script, Server.seen = [], []
    with serving(Server.answer) as address:
        yield f"{address}/v1"


def chat(text: str | None, finish: str = "stop", **more: Any) -> tuple[int, Fields]:
    message = {"role": "assistant", "content": text, **more}
    return 200, {"choices": [{"message": message, "finish_reason": finish}], "usage": {"total_tokens": 7}}


def test_a_server_is_asked_as_it_expects(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_API_KEY", "sesame")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer of-another-host")
    Server.script = [chat(RIGHT, reasoning_content=WRONG)]
    judge = http(server, api_key_env="ROBUSTIFY_API_KEY", restricted=True)
    reply = judge.complete([TURN], Call(seed=3, vote=2, max_tokens=9))
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
    with Replies(tmp_path) as kept:
        kept.put([(reply_key("judge", "scripted", None, prompt_sha256([TURN]), call), {"text": RIGHT})])
        never = CachedJudge(ScriptedJudge([]), kept)
        assert never.complete([TURN], Call()).text == RIGHT
        with pytest.raises(ModelError, match="no reply"):
            never.complete([TURN], Call(schema={"type": "object"}))


def test_of_a_server_s_own_words_none_is_recorded(server: str) -> None:
    status, body = chat(RIGHT, finish="Why?")
    usage = {"Why?": 3, "total_tokens": 7, "prompt_tokens": "Why?", "completion_tokens": True}
    Server.script = [(status, {**body, "usage": usage, "model": "Why?"})]
    reply = http(server).complete([TURN], Call())
    assert (reply.finish_reason, reply.usage) == (None, {"total_tokens": 7})


@pytest.mark.parametrize(("status", "body", "error"), cases("free", "judge_faults"))
def test_a_failing_server_is_an_error_of_the_grader(server: str, status: int, body: Any, error: str) -> None:
    Server.script = [(status, body.encode() if isinstance(body, str) else body)]
    found = graded(http(server, retries=0))
    assert (found.status, found.score, found.error_type) == ("grader_error", None, error)


@pytest.mark.parametrize(("status", "headers", "says"), cases("free", "judge_stops"))
def test_a_server_that_refuses_stops_the_run(server: str, status: int, headers: Fields, says: str) -> None:
    Server.script = [(status, {}, headers)]
    with pytest.raises(ModelError, match=says):
        graded(http(server))


@pytest.mark.parametrize(("url", "how", "code"), cases("free", "judge_addresses"))
def test_an_address_or_key_that_cannot_be_used_is_refused(url: str, how: Fields, code: str) -> None:
    with refuses(code):
        http(url, **how)


@pytest.mark.parametrize(
    ("name", "value"),
    [("base_url", "file:///etc/hostname"), ("base_url", "http://me:secret@h/v1"), ("api_key_env", "sk-secret")],
)  # fmt: skip
def test_no_address_or_name_is_refused_before_a_model_is_asked(name: str, value: str) -> None:
    free = {"judge": {"model": "m", "base_url": "http://h/v1", name: value}}
    with refuses("invalid-setting", hidden="secret") as error:
        parse({"name": "n", "sensitivity": "public", "data": ["d.csv"], "free": free}, "c.yaml")
    assert f"free.judge.{name}" in str(error.value)


SOLVED = {"question": "Is ice warm?", "reference": "no", "answer": "It is cold.", "reply": RIGHT}
FACTS = {"query": "Why?", "passage": "Ice melts.", "nuggets": ["Ice melts."], "reply": '["support"]'}


def test_a_judge_sees_the_solved_cases_of_its_own_template_before_the_case(tmp_path: Path) -> None:
    rows = [{"template": "grader/mcq", **SOLVED}, {"template": "nugget/optimized", **FACTS}]
    how = {"examples": str(jsonl(tmp_path / "solved.jsonl", rows))}
    judge, case = ScriptedJudge([RIGHT, RIGHT]), ("Perhaps the loud one.", ["green", "loud"], 0)
    grade = grade_mcq(*case, judge=judge, mode="judge", **how)
    assert [turn.role for turn in judge.asked[0]] == ["system", "user", "assistant", "user"]
    assert "It is cold." in judge.asked[0][1].content
    assert judge.asked[0][2].content == SOLVED["reply"]
    plain = grade_mcq(*case, judge=judge, mode="judge")
    # The digest of the prompt enters the signature of a run.
    assert grade.judge.attempts[0].prompt_sha256 != plain.judge.attempts[0].prompt_sha256
    nuggets = ScriptedJudge(['["support"]'])
    fact = FreeItem("i", "Why?", "explanation", "It melts.", nuggets=(Nugget("n", "Ice melts."),))
    assert graded_one(fact, "Ice melts.", nuggets, None, **how).score == 1
    assert nuggets.asked[0][2].content == FACTS["reply"]


@pytest.mark.parametrize(("row", "code"), cases("free", "judge_examples"))
def test_an_unfit_solved_case_is_refused_before_any_model(row: Fields, code: str, tmp_path: Path) -> None:
    with refuses(code):
        require_free(FreeSettings(examples=str(jsonl(tmp_path / "solved.jsonl", [row]))), [])


S, P, N = "support", "partial_support", "not_support"
RAIN = (
    Nugget("a", "Rain falls from clouds."), Nugget("b", "Clouds hold drops of water."),
    Nugget("c", "Rain is wet.", "okay"), Nugget("d", "Rain feeds rivers.", "okay"),
)  # fmt: skip


def grade_facts(
    replies: list[Any], answer: str = "Clouds rain.", facts: tuple[int, int] = (0, 4), how: Any = None, **rules: Any
) -> tuple[Any, ScriptedJudge]:  # fmt: skip
    judge = ScriptedJudge(replies)
    item = FreeItem("i", "Why does it rain?", "explanation", "r", nuggets=RAIN[slice(*facts)])
    return grade_nuggets(item, answer, judge, settings(how, **rules), "m"), judge


@pytest.mark.parametrize(("labels", "values"), cases("free", "nuggets_scores"))
def test_scores_of_two_vital_and_two_okay_nuggets(labels: list[str | None], values: list[Any]) -> None:
    labelled = [NuggetGrade(n.id, n.importance, label) for n, label in zip(RAIN, labels, strict=True)]
    scores = score_nuggets(labelled).values()
    assert [score["value"] for score in scores] == pytest.approx(values)
    for score in scores:
        assert score["lower"] <= score["upper"]
        assert (score["lower"] == score["upper"]) == (score["value"] is not None)


def test_an_answer_is_graded_by_its_facts() -> None:
    found, judge = grade_facts(['["support", "partial_support", "not_support", "support"]'])
    assert (found.kind, found.status, found.score, found.verdict) == ("nuggets", "scored", 0.75, "partial")
    assert [n.label for n in found.nuggets] == [S, P, N, S]
    assert found.nugget_scores["all"]["value"] == pytest.approx(0.625)
    assert found.judge.template_id == "nugget/optimized@2.0"
    shown = judge.asked[0][-1].content
    assert "1. Rain falls from clouds." in shown
    assert "Clouds rain." in shown


def test_nuggets_are_asked_in_batches_in_their_order() -> None:
    found, judge = grade_facts(['["support", "not_support", "support"]', '["partial_support"]'], batch_size=3)
    assert [n.label for n in found.nuggets] == [S, N, S, P]
    assert len(judge.asked) == 2
    assert "1. Rain feeds rivers." in judge.asked[1][-1].content


@pytest.mark.parametrize(("given", "expected"), cases("free", "nuggets_graded"))
def test_labels_votes_and_missing_labels_make_a_grade(given: Fields, expected: Fields) -> None:
    found, judge = grade_facts(**given)
    of_nuggets = {"labels": [n.label for n in found.nuggets], "errors": [n.error_type for n in found.nuggets]}
    of_nuggets |= {"vital": (found.nugget_scores or {}).get("vital")}
    named = {name: of_nuggets[name] for name in expected.keys() & of_nuggets.keys()}
    assert fields(found, expected.keys() - named.keys()) | named == expected
    assert len(judge.asked) == len(given["replies"])


@pytest.mark.parametrize("bad", contents("free")["nuggets_misused"])
def test_misuse_of_nuggets_is_refused(bad: Fields) -> None:
    with pytest.raises((UsageError, ValidationError)):
        grade_facts([], **bad)
