"""A judge whose replies a test gives, one answer graded by its kind, and a call of a command of `robustify free`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from click.testing import CliRunner

from robustify.base.errors import ModelError, RobustifyError
from robustify.cli.free import free
from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.llm_judge.judges import Call, Completion, JudgeCallError
from robustify.freeform.schema import AnswerRow, FreeItem
from robustify.items.prompt_templates import Message
from robustify.pipeline.free_settings import FreeSettings
from tests.support.cases import Fields

SHOWN = "Which of these is a colour?\n(A) stone\n(B) green\n(C) loud"
_ROWS = (
    (1, "mcq", "light", SHOWN, "B"),
    (2, "numeric", "motion", "How far is 5 m and 3 m?", "8"),
    (3, "explanation", "light", "Why is grass green?", "It reflects green."),
)
QUESTIONS: list[Fields] = [
    dict(zip(("id", "type", "topic", "question", "answer"), row, strict=True)) for row in _ROWS
]
QUESTIONS[1]["unit"] = "m"
Replies = Callable[[Sequence[Message]], str | Completion] | Iterable[Any]


class ScriptedJudge:
    """Replies by a function of the conversation, or by a list that is used up. `{"call": error}` is a failed call."""

    def __init__(self, replies: Replies, name: str = "scripted") -> None:
        self.name = name
        self.asked: list[tuple[Message, ...]] = []
        self.calls: list[Call] = []
        self._reply = replies if callable(replies) else None
        self._left = iter(() if callable(replies) else replies)

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        self.asked.append(tuple(messages))
        self.calls.append(call)
        reply = self._reply(messages) if self._reply else next(self._left, None)
        match reply:
            case None:
                raise ModelError(f"judge {self.name}: no reply is left")
            case JudgeCallError():
                raise reply
            case {"call": error_type}:
                raise JudgeCallError(error_type)
            case Completion():
                return reply
            case _:
                return Completion(reply, finish_reason="stop")


def settings(how: Fields | None = None, **free: Any) -> FreeSettings:
    """Settings of free response; `how` are those of the judge."""
    judge = {"model": "scripted", "base_url": "http://127.0.0.1:9/v1", **how} if how else None
    return FreeSettings.model_validate({**free, "judge": judge})


def graded(item: FreeItem, answer: str, judge: Any = None, how: Fields | None = None, **rules: Any) -> Any:
    """The grade of one answer of the model "m"."""
    return grade_answer(item, AnswerRow(item.id, "m", answer), settings(how, **rules), judge)


def grade_numeric(
    answer: str, reference: str, others: Sequence[str] = (), unit: str | None = None, question: str = "How?", **more: Any
) -> Any:  # fmt: skip
    options = (reference, *others)
    return graded(FreeItem("i", question, "numeric", reference, unit, options, 0), answer, **more)


def grade_mcq(
    answer: str, options: Sequence[str], correct: int, aliases: Sequence[str] = (), shown: bool = False, **more: Any
) -> Any:  # fmt: skip
    about = {"aliases": tuple(aliases), "options_shown": shown}
    item = FreeItem("i", "Where?", "short_text", options[correct], None, tuple(options), correct, **about)
    return graded(item, answer, **more)


def grade_explanation(answer: str, reference: str, **more: Any) -> Any:
    return graded(FreeItem("i", "Why?", "explanation", reference), answer, **more)


def run(*words: object, fails: int = 0, code: str = "") -> Any:
    """The result of a command, which exits with the code `fails` for a fault with this `code`."""
    result = CliRunner().invoke(free, [str(word) for word in words], standalone_mode=False)
    error = result.exception
    if error is not None and not isinstance(error, RobustifyError | SystemExit):
        raise error
    ended = error.exit_code if isinstance(error, RobustifyError) else result.return_value or 0
    assert ended == fails, (result.output, error)
    assert not code or (isinstance(error, RobustifyError) and code in error.codes), error
    return result
