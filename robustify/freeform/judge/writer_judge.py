"""A judge that is a `Writer`: a model that runs here. It writes without sampling, so it casts one vote.

A conversation becomes one prompt, because a `Writer` takes one turn. It refuses a temperature: two equal votes are
not two votes.
"""

from collections.abc import Sequence

from robustify.engines.protocols import Reply, Writer
from robustify.errors import DataError
from robustify.freeform.errors import JudgeConfigError
from robustify.freeform.judge.prompting import Message
from robustify.freeform.judge.protocol import Call, Completion, JudgeCallError
from robustify.redaction.silence import quieted

_SPEAKER = {"user": "User", "assistant": "Assistant"}


class WriterJudge:
    """A local model as a judge."""

    def __init__(self, writer: Writer) -> None:
        self.name = writer.name
        self._writer = writer

    def __repr__(self) -> str:
        return f"WriterJudge({self.name!r})"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The model's reply.

        Raises:
            JudgeConfigError: a temperature above 0.
            JudgeCallError: the conversation does not fit into the model's context.
        """
        if call.temperature > 0:
            raise JudgeConfigError(
                f"judge {self.name}: writes without sampling, so votes would be equal; use --votes 1"
            )
        try:
            with quieted():
                (text,) = self._writer.write([flattened(messages)], max_tokens=call.max_tokens)
        except DataError:
            raise JudgeCallError("unsafe_input") from None
        finish = text.finish_reason if isinstance(text, Reply) else None
        return Completion(str(text), finish_reason=finish, model=self.name)


def flattened(messages: Sequence[Message]) -> str:
    """A conversation as one text: alone where it is one turn, else with its speakers."""
    system = [m.content for m in messages if m.role == "system"]
    turns = [m for m in messages if m.role != "system"]
    if len(turns) == 1:
        return "\n\n".join([*system, turns[0].content])
    return "\n\n".join([*system, *(f"{_SPEAKER[m.role]}: {m.content}" for m in turns), "Assistant:"])
