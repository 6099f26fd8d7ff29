"""The seam between asking and models: what may be asked of an engine, and what comes back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from typing_extensions import Self

from robustify.views import Request

Progress = Callable[[int], None]
"""Called with the number of requests just finished."""


def no_progress(_: int) -> None:
    """Progress that is not shown."""


class Closing:
    """Something with a `close`, which is called on leaving a `with` block."""

    def close(self) -> None:
        """Give back memory and connections. Closing twice does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Logprob:
    """The sum of the continuation's token log-probabilities (natural log), and how many tokens it has.

    `n_tokens` is 0 for a letter that is not among the likeliest tokens that a server shows: it is at most `total`. `draws`:
    how many replies were read if a letter's share of a server's replies stands for its probability, else 0.
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
        """Return one result for each request, in the order of the requests.

        Raises:
            RequestError: requests that do not fit into the model's context (never truncated in silence).
            ModelError: a log-probability that is NaN or infinite (other than `NO_LETTER`), or a server that fails for
                good; what was scored is kept.
            ResourceError: not even a small batch fits into memory.
        """
        ...

    def fingerprint(self) -> dict[str, str]:
        """Return what the numbers depend on: digests of weights and tokenizer, dtype, engine, versions, device."""
        ...


@runtime_checkable
class Metered(Protocol):
    """A scorer or writer that is paid for by what is sent."""

    def usage(self) -> dict[str, Any]:
        """Return requests, tokens and the cost if the prices are known, of what was sent and not cached."""
        ...


FINISH_REASONS = ("stop", "length", "content_filter")
"""Why a reply ended, as the OpenAI protocol names it. Other words of a server are dropped: they may quote a prompt."""


def finish_reason_of(said: object) -> str | None:
    """Return one of `FINISH_REASONS`, or None if a server said something else or nothing."""
    return said if isinstance(said, str) and said in FINISH_REASONS else None


class Reply(str):
    """What a model wrote. `finish_reason`: "stop" if it ended by itself, "length" if it was cut off at the length that was
    allowed, None if its engine gives none of `FINISH_REASONS`.
    """

    __slots__ = ("finish_reason",)
    finish_reason: str | None

    def __new__(cls, text: str, finish_reason: object = None) -> "Reply":
        """Make a text that knows how it ended."""
        made = super().__new__(cls, text)
        made.finish_reason = finish_reason_of(finish_reason)
        return made


@runtime_checkable
class Writer(Protocol):
    """Anything that can write text. `has_chat_template`, where it has that, says whether one goes around a prompt."""

    name: str

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """Return one reply for each prompt, in order and without sampling if the engine can; a `Reply` if it knows why the
        reply ended. A chat template goes around a prompt if the model has one.

        Raises:
            DataError: prompts that leave no room for the reply, named by their positions.
            ModelError: a model or server that cannot write.
        """
        ...
