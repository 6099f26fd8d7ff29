"""The seam between asking and models: what may be asked of an engine, and what comes back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Progress = Callable[[int], None]
"""Called with the number of requests just finished."""


def no_progress(_: int) -> None:
    """The progress of work that nobody watches."""


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """How likely is `continuation` after `context`?

    The continuation carries its own leading space. Trailing blanks of the context belong to the
    continuation; an engine moves them there as lm-eval does (`_encode_pair`).
    """

    context: str
    continuation: str

    def __repr__(self) -> str:
        return f"Request({len(self.context)} + {len(self.continuation)} characters)"


@dataclass(frozen=True, slots=True)
class Logprob:
    """The sum of the continuation's token log-probabilities (natural log), and how many tokens it has."""

    total: float
    n_tokens: int


@runtime_checkable
class Scorer(Protocol):
    """Anything that can say how likely a continuation is."""

    name: str

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """One result for each request, in the order of the requests.

        Raises:
            RequestError: requests that do not fit into the model's context (never truncated in silence).
            ModelError: a log-probability that is NaN or infinite.
        """
        ...

    def fingerprint(self) -> dict[str, str]:
        """What the numbers depend on: digests of weights and tokenizer, dtype, engine and its versions, device."""
        ...


@runtime_checkable
class Writer(Protocol):
    """Anything that can write text."""

    name: str

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """One reply for each prompt, in their order."""
        ...
