"""Interfaces that engines implement (scorers and writers), and the results that they return."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from typing_extensions import Self

from robustify.views import Request, Template

if TYPE_CHECKING:
    from robustify.engines.cache import Cache

Progress = Callable[[int], None]
"""Callback that receives the number of newly finished requests."""


def no_progress(_: int) -> None:
    """Discard a progress update."""


class Closing:
    """Base class of context managers that call `close` on exit."""

    def close(self) -> None:
        """Release memory and connections. Further calls do nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Logprob:
    """Sum of the token log-probabilities of a continuation (natural logarithm), and its number of tokens.

    `n_tokens` is 0 for a letter that is not among the most likely tokens shown by a server. In that case, `total` is an
    upper bound. `draws` is the number of replies read if the probability of a letter is its share of sampled replies.
    Otherwise it is 0.
    """

    total: float
    n_tokens: int
    draws: int = 0


NO_LETTER = Logprob(float("-inf"), 1)
"""Result for each letter of a question whose replies are unreadable. The question counts as unanswered."""


@runtime_checkable
class Scorer(Protocol):
    """Model that returns log-probabilities of continuations."""

    name: str

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """Return one result per request, in the order of the requests.

        Raises:
            RequestError: requests do not fit into the context of the model. They are never truncated.
            ModelError: a log-probability is NaN or infinite (other than `NO_LETTER`), or the server keeps failing. Finished
                scores are kept.
            ResourceError: even a small batch does not fit into memory.
        """

    def fingerprint(self) -> dict[str, str]:
        """Return the properties that scores depend on: digests of weights and tokenizer, dtype, engine, versions, and
        device."""


@runtime_checkable
class Metered(Protocol):
    """Scorer or writer that counts the requests and tokens sent to a paid service."""

    def usage(self) -> dict[str, Any]:
        """Return the numbers of requests and tokens sent, without cached ones, and their cost if prices are known."""


class Runnable(Protocol):
    """Settings of a model in a config, which check and open its engine: pydantic settings with an `engine`.

    They import the engine only in `check` and `open`, so that reading a config imports no engine."""

    @property
    def name(self) -> str:
        """Name of the model within a run."""

    @property
    def engine(self) -> str:
        """Name of the engine, as in `ENGINES`."""

    @property
    def role(self) -> Literal["voter", "under_test"]:
        """Whether the model votes in the screen."""

    @property
    def reference(self) -> str:
        """Model, as its engine finds it."""

    @property
    def identity(self) -> str:
        """Text that differs between models that may differ in scores. Models with the same text would vote twice."""

    @property
    def host(self) -> str | None:
        """Address that receives the prompts of this model, or None if they stay on this machine. It has a scheme, unless
        the engine itself checks its traffic."""

    @property
    def sends_prompts(self) -> bool:
        """Whether each prompt is sent in full, instead of computing shared prefixes once."""

    def cost(self, tokens: int, written: int, letters: int = 0) -> float | None:
        """Return the cost of reading and writing tokens and of replying with letters, or None if prices are unknown."""

    def check(self, cache: Path, templates: Sequence[Template]) -> dict[str, str]:
        """Check that the model can be opened. Return what identifies it. Raise the errors of `check_model`."""

    def open(self, cache: Path, scores: "Cache | None") -> AbstractContextManager[Scorer]:
        """Open the model, whose finished scores are kept in `scores`."""

    def model_dump(self) -> dict[str, Any]:
        """Return all settings."""

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """Return valid settings. Raise `ValidationError` if they are invalid."""


FINISH_REASONS = ("stop", "length", "content_filter")
"""Finish reasons of the OpenAI protocol. Others are dropped, because a server might quote a prompt in them."""


def finish_reason_of(said: object) -> str | None:
    """Return the finish reason if it is one of `FINISH_REASONS`, otherwise None."""
    return said if isinstance(said, str) and said in FINISH_REASONS else None


class Reply(str):
    """Text generated by a model, with its finish reason. `finish_reason` is "stop" if the model ended the reply, "length"
    if the reply reached its maximum length, and None if the engine gives none of `FINISH_REASONS`."""

    __slots__ = ("finish_reason",)
    finish_reason: str | None

    def __new__(cls, text: str, finish_reason: object = None) -> "Reply":
        """Create a reply from its text and finish reason."""
        made = super().__new__(cls, text)
        made.finish_reason = finish_reason_of(finish_reason)
        return made


@runtime_checkable
class Writer(Protocol):
    """Model that generates text.
    If the optional attribute `has_chat_template` is true, the model wraps prompts in its chat template."""

    name: str

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """Return one reply per prompt, in the order of the prompts.

        The engine does not sample if it can avoid it. The reply is a `Reply` if the finish reason is known. If the model
        has a chat template, prompts are wrapped in it.

        Raise `DataError` if prompts leave no room for a reply. The message gives their positions. Raise `ModelError` if the
        model or server cannot generate text.
        """
