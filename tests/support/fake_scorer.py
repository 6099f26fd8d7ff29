"""A scorer that is a function: no model, and its taste is known."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest

from robustify.items.views import Request
from robustify.models.engines.protocols import Logprob, Progress, no_progress
from robustify.pipeline import model_steps


class FakeScorer:
    def __init__(self, taste: Callable[[Request], float], name: str = "fake") -> None:
        self.name = name
        self.taste = taste
        self.asked: list[Request] = []

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        self.asked += requests
        progress(len(requests))
        return [Logprob(self.taste(r), len(r.continuation.split()) or 1) for r in requests]

    def fingerprint(self) -> dict[str, str]:
        return {"engine": "fake", "sha256": sha256(self.name.encode()).hexdigest()}


class FakeWriter:
    """A model that writes a function of each prompt, and keeps what it was asked, and the most tokens that it may write."""

    def __init__(self, reply: Callable[[str], str], name: str = "fake") -> None:
        self.name, self.reply, self.asked, self.most = name, reply, list[str](), 0

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        self.asked, self.most = [*self.asked, *prompts], max_tokens
        return [self.reply(prompt) for prompt in prompts]


def scripted(*replies: str) -> FakeWriter:
    """A model that writes these in order, whatever is asked."""
    left = iter(replies)
    return FakeWriter(lambda _: next(left), "scripted")


def opens(patch: pytest.MonkeyPatch, made: Callable[[str], Any], where: Any = model_steps) -> None:
    """Every model that a run, or another module, asks is there, and is the scorer that is made of its name."""

    @contextmanager
    def opened(model: Any, *_: object, **__: object) -> Iterator[Any]:
        yield made(model.name)

    patch.setattr(where, "open_scorer", opened)
    patch.setattr(where, "check_model", lambda *_: {})


def fake_models(patch: pytest.MonkeyPatch, taste: Callable[[Request], float]) -> None:
    """Every model that a run asks is there, under its own name, and has this taste."""
    opens(patch, lambda name: FakeScorer(taste, name))


def likes_long_texts(request: Request) -> float:
    """Text mode: the longer the continuation, the likelier per character."""
    return -1.0 * len(request.continuation) ** 0.5


def likes_the_letter(letter: str) -> Callable[[Request], float]:
    return lambda request: -0.1 if request.continuation.strip(" (") == letter else -3.0


def finds(text: str) -> Callable[[Request], float]:
    """Letter mode: picks the option line that holds `text`, wherever it stands."""

    def taste(request: Request) -> float:
        letter = request.continuation.strip(" (")
        shown = request.context.rsplit("\n\n", 1)[-1]
        lines = [line for line in shown.split("\n") if line.startswith((f"{letter}. ", f"({letter}) "))]
        return -0.1 if any(text in line for line in lines) else -3.0

    return taste
