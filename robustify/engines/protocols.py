"""The seam between asking and models: what may be asked of an engine, and what comes back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from robustify.views import Request

Progress = Callable[[int], None]
"""Called with the number of requests just finished."""


def no_progress(_: int) -> None:
    """Progress that is not shown."""


C = TypeVar("C", bound="Closing")


class Closing:
    """Something with a `close`, which is called on leaving a `with` block."""

    def close(self) -> None:
        """Give back memory and connections. Closing twice does nothing."""
        raise NotImplementedError

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Logprob:
    """The sum of the continuation's token log-probabilities (natural log), and how many tokens it has.

    `n_tokens` 0: a letter that is not among the likeliest tokens that a server shows; it is at most `total`. `draws`: of
    a letter whose share of a server's replies stands for its probability, how many replies were read; 0 elsewhere.
    """

    total: float
    n_tokens: int
    draws: int = 0


NO_LETTER = Logprob(float("-inf"), 1)
"""A letter of an asking whose replies cannot be read: no number. The asking is unanswered."""


@runtime_checkable
class Scorer(Protocol):
    """Anything that can say how likely a continuation is."""

    name: str

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """One result for each request, in the order of the requests.

        Raises:
            RequestError: requests that do not fit into the model's context (never truncated in silence).
            ModelError: a log-probability that is NaN or infinite (other than `NO_LETTER`), or a server that fails for
                good; what was scored is kept.
            ResourceError: not even a small batch fits into memory.
        """
        ...

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on: digests of weights and tokenizer, dtype, engine and its versions, device."""
        ...


@runtime_checkable
class Metered(Protocol):
    """A scorer or writer that is paid for by what is sent."""

    def usage(self) -> dict[str, Any]:
        """Requests, tokens and, where the prices are known, the cost; of what was sent, not of what was cached."""
        ...


FINISH_REASONS = ("stop", "length", "content_filter")
"""Why a reply ended, as the OpenAI protocol names it. Other words of a server are dropped: they may quote a prompt."""


def finish_reason_of(said: object) -> str | None:
    """One of `FINISH_REASONS`; None where a server said something else or nothing."""
    return said if isinstance(said, str) and said in FINISH_REASONS else None


class Reply(str):
    """What a model wrote. `finish_reason`: "stop" where it ended by itself, "length" where it was cut off at the length
    that was allowed, None where its engine gives none of `FINISH_REASONS`.
    """

    __slots__ = ("finish_reason",)
    finish_reason: str | None

    def __new__(cls, text: str, finish_reason: object = None) -> "Reply":
        """A text that knows how it ended."""
        made = super().__new__(cls, text)
        made.finish_reason = finish_reason_of(finish_reason)
        return made


@runtime_checkable
class Writer(Protocol):
    """Anything that can write text. `has_chat_template`, where it has that, says whether one goes around a prompt."""

    name: str

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """One reply for each prompt, in their order and without sampling where the engine can; a `Reply` where it knows why
        it ended. A chat template goes around a prompt where the model has one.

        Raises:
            DataError: prompts that leave no room for the reply, named by their positions.
            ModelError: a model or server that cannot write.
        """
        ...
