"""What may judge: anything that completes a conversation. And the record that makes every judgement repeatable.

A call that fails is a `JudgeCallError` with the name of its fault; it is told in the row and never a verdict. Refused
credentials and a prompt that a replay has no reply for stop the run at once.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from robustify.freeform.errors import ErrorType, FreeDataError, JudgeConfigError
from robustify.freeform.files import Append, appending, read_rows
from robustify.freeform.judge.prompting import Message, prompt_sha256
from robustify.redaction.text import KeptHere


@dataclass(frozen=True, slots=True, repr=False)
class Completion(KeptHere):
    """A judge's reply. `reasoning` is what a server gives apart from the text; it is kept and never parsed."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""

    def __repr__(self) -> str:
        return f"Completion({len(self.text)} characters, {self.finish_reason})"

    @property
    def sha256(self) -> str:
        """The digest of its text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class JudgeCallError(Exception):
    """A call that gave no reply; `error_type` says why. The message never holds the prompt."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type: ErrorType = error_type


@dataclass(frozen=True, slots=True)
class Call:
    """How a judge is called. `vote` and `attempt` tell repeated calls apart in the record."""

    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int = 0
    vote: int = 0
    attempt: int = 0


@runtime_checkable
class Judge(Protocol):
    """Anything that can be asked for a judgement."""

    name: str

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The reply to a conversation.

        Raises:
            JudgeCallError: there is none, for a reason that concerns this call alone.
            JudgeConfigError: there will never be one.
        """
        ...


def call_key(model: str, messages: Sequence[Message], call: Call) -> str:
    """By what a call is found again: the judge, the conversation and the parameters."""
    written = json.dumps(
        [
            model,
            prompt_sha256(messages),
            call.temperature,
            call.max_tokens,
            call.seed,
            call.vote,
            call.attempt,
        ]
    )
    return hashlib.sha256(written.encode()).hexdigest()


class ScriptedJudge:
    """A judge whose replies are given: a function of the conversation, or a list that is used up in order."""

    def __init__(
        self, replies: "Callable[[Sequence[Message]], str | Completion] | Iterable[str | Completion | JudgeCallError]",
        name: str = "scripted",
    ) -> None:  # fmt: skip
        self.name = name
        self.asked: list[tuple[Message, ...]] = []
        self._reply = replies if callable(replies) else None
        self._left = iter(() if callable(replies) else replies)

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The next reply.

        Raises:
            JudgeCallError: the list says so.
            JudgeConfigError: the list is used up.
        """
        self.asked.append(tuple(messages))
        reply = self._reply(messages) if self._reply else next(self._left, None)
        if reply is None:
            raise JudgeConfigError(f"judge {self.name}: no reply is left; expected one for each call")
        if isinstance(reply, JudgeCallError):
            raise reply
        return (
            reply
            if isinstance(reply, Completion)
            else Completion(reply, finish_reason="stop", model=self.name)
        )


class RecordedJudge:
    """A judge whose replies are kept: each call is made once, ever, and its prompt and reply can be read again.

    Without a judge behind it this is a replay: it knows what was recorded and nothing else.
    """

    def __init__(
        self, judge: Judge | None, record: Path | None, append: Append | None, name: str = ""
    ) -> None:
        self._judge, self._append = judge, append
        self._record = record.name if record is not None else "no record"
        there = record is not None and record.is_file()
        self._known = {row["key"]: row for row in read_rows(record, _recorded)} if record and there else {}
        models = sorted({row["model"] for row in self._known.values()})
        if judge is None and not name and len(models) != 1:
            raise JudgeConfigError(
                f"{self._record}: records {len(models)} judges; name one of them (--judge-model)"
            )
        self.name = judge.name if judge is not None else name or models[0]
        self.fresh = 0

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The recorded reply, or a new one, which is recorded before it is returned.

        Raises:
            JudgeCallError: the judge gave none; that is not recorded, so that the next run asks again.
            JudgeConfigError: a replay without this prompt.
        """
        key = call_key(self.name, messages, call)
        known = self._known.get(key)
        if known is not None:
            return Completion(**known["completion"])
        if self._judge is None:
            raise JudgeConfigError(
                f"{self._record}: no recorded reply of {self.name} to prompt {prompt_sha256(messages)[:12]};"
                " expected the record of the same items, answers and templates"
            )
        reply = self._judge.complete(messages, call)
        self.fresh += 1
        row = _row(key, self.name, messages, call, reply)
        self._known[key] = row
        if self._append is not None:
            self._append(row)
        return reply


@contextmanager
def recording(judge: Judge, record: Path | None) -> Iterator[RecordedJudge]:
    """A judge with its record, a file that only grows; without a file the replies live as long as the judge.

    Raises:
        ResourceError: the record cannot be written.
    """
    if record is None:
        yield RecordedJudge(judge, None, None)
        return
    with appending(record) as append:
        yield RecordedJudge(judge, record, append)


def replaying(record: Path, name: str = "") -> RecordedJudge:
    """A judge that only knows a record.

    Raises:
        JudgeConfigError: there is no such record, or it holds several judges and none is named.
    """
    if not record.is_file():
        raise JudgeConfigError(f"{record}: no such record; expected the judge.jsonl of an earlier grading")
    return RecordedJudge(None, record, None, name)


def _row(key: str, model: str, messages: Sequence[Message], call: Call, reply: Completion) -> dict[str, Any]:
    return {
        "key": key,
        "model": model,
        "prompt_sha256": prompt_sha256(messages),
        "messages": [m.json() for m in messages],
        "call": {
            "temperature": call.temperature,
            "max_tokens": call.max_tokens,
            "seed": call.seed,
            "vote": call.vote,
            "attempt": call.attempt,
        },
        "completion": {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "finish_reason": reply.finish_reason,
            "usage": dict(reply.usage),
            "model": reply.model,
        },
    }


def _recorded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(name in row for name in ("key", "model", "completion")):
        raise FreeDataError("no recorded reply of a judge; expected key, model and completion")
    return row


Opened = AbstractContextManager[Judge]
"""A judge that is closed when its work is done."""
