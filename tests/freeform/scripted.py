"""A judge whose replies a test gives."""

from collections.abc import Callable, Iterable, Sequence

from robustify.errors import ModelError
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
