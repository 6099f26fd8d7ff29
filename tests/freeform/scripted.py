"""A judge whose replies a test gives, and a call of a command of `robustify free`."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from robustify.cli.free import free
from robustify.errors import ModelError, RobustifyError
from robustify.freeform.judge.judges import Call, Completion, JudgeCallError
from robustify.freeform.judge.prompting import Message

Replies = Callable[[Sequence[Message]], str | Completion] | Iterable[str | Completion | JudgeCallError]


class ScriptedJudge:
    """Replies by a function of the conversation, or by a list that is used up in order."""

    def __init__(self, replies: Replies, name: str = "scripted") -> None:
        self.name = name
        self.asked: list[tuple[Message, ...]] = []
        self._reply = replies if callable(replies) else None
        self._left = iter(() if callable(replies) else replies)

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        self.asked.append(tuple(messages))
        reply = self._reply(messages) if self._reply else next(self._left, None)
        match reply:
            case None:
                raise ModelError(f"judge {self.name}: no reply is left")
            case JudgeCallError():
                raise reply
            case Completion():
                return reply
            case _:
                return Completion(reply, finish_reason="stop", model=self.name)


def run(*words: object, fails: int = 0) -> Any:
    """The result of a command; an error's exit code is what the console script would exit with."""
    result = CliRunner().invoke(free, [str(word) for word in words], standalone_mode=False)
    error = result.exception
    if error is not None and not isinstance(error, RobustifyError | SystemExit):
        raise error
    code = error.exit_code if isinstance(error, RobustifyError) else result.return_value or 0
    assert code == fails, (code, result.output, error)
    return result


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
