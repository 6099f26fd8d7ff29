"""Test requests (probes of the server) that only an honest server passes: it reads whole prompts, draws each reply
afresh, changes no prompt, and keeps its model. They are asked before the first item and after the last one, in changing
words, and no score depends on them.

A model that is too weak for a probe also fails its control, a short prompt with the same demand, and is not blamed.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from robustify.base.errors import ModelError
from robustify.models import model_settings
from robustify.models.engines.openai.client import Client, Refusal

_LOG = logging.getLogger(__name__)
LETTERS = "ABCDEFGH"
N = 8
"""Number of replies that a probe asks for at once, of which many servers send one."""
_PLAIN = 0.6
"""Largest number of tokens per byte of a question to which nothing is added but a short template."""
LEAST_RATIO = 16.0
"""Likelihood ratio at which a server, and not its model, fails a probe."""
_N_TRIALS, _N_CONTROLS = (2, 4, 6, 8), 4
"""Numbers of questions after which a probe in doubt is judged, and the largest number of short ones for comparison."""
RESUMED, ENDED = 0.02, 0.001
"""Levels of the test for other weights. At the start of a session, a false alarm costs time, and at its end the scores."""
_WORDS = (
    *("blorfen", "krandle", "mivotar", "zupelin", "tarnock", "wesprill", "gandoro", "fimbet"),
    *("yolster", "quendor", "dasprit", "lomavik", "plimora", "hurbast", "sceltin", "ovaneck"),
)
_RECALLED = (
    ("The word of the day is {}.", "Which of these is the word of the day?"),
    ("Please remember this word: {}", "Which of these words did you have to remember?"),
)
_TASTES = (
    ("Which of these do you like best?", ("rain", "bread", "chess", "copper", "a river", "wool", "noon", "a kite")),
    ("Pick one of these at random.", ("seven", "a door", "salt", "amber", "a goose", "velvet", "a bell", "ink")),
)  # fmt: skip


class ProbeError(ModelError):
    """Raised if a server fails a probe. `code` is the code of the probe."""


@dataclass(frozen=True, slots=True)
class Question:
    """Harmless question with the options `LETTERS`. The text or system prompt names the option `right`, if any."""

    context: str
    right: str = ""
    system: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """Letters named in the replies to one request, and the number of tokens that the server counted, or 0."""

    letters: tuple[str | None, ...]
    n_tokens: int = 0


Ask = Callable[[Question, int, int | None], Heard]
"""Function that sends a question once, for a number of replies, with a seed or None."""


class Session:
    """Probes of one server in one session. They also find out how to ask the server: one reply at a time (`single`), or
    with a seed for each reply (`seeded`). `tastes` are the letters of replies to the questions with many answers. Without
    `chat`, letters come from log-probabilities. The methods raise the errors of the client, and the probes `ProbeError`."""

    def __init__(self, client: Client, ask: Ask, *, chat: bool) -> None:
        self.client, self.chat, self.longest = client, chat, ""
        self.budget, self.single, self.seeded, self.adds_text = model_settings.PROBES, False, False, False
        self.tastes: tuple[str, ...] = ()
        self.trials: dict[str, list[bool]] = {}
        self.missed: set[str | None] = set()
        self._ask, self._doubted = ask, False
        self._n_tokens, self._density = 0, 0.0
        self._counts: dict[str, tuple[int, float]] = {}

    def ask(self, question: Question, n: int = N, seed: int | None = None) -> tuple[str | None, ...]:
        """Return the letters of the replies. Return none if the server refuses the question, or if the budget is spent."""
        if self.budget < 1:
            return ()
        self.budget -= 1
        try:
            reply = self._ask(question, n, seed)
        except Refusal as refusal:
            # A server that refuses a long prompt does not cut it.
            return (question.right,) if refusal.too_long and question.right else ()
        self._n_tokens = reply.n_tokens
        self._density = reply.n_tokens / len((question.context + question.system).encode())
        # No token is shorter than a byte.
        self.adds_text |= self._density > 1
        return reply.letters

    @property
    def drops_system(self) -> bool:
        """Whether the server's own token counts show that it drops a system prompt, as some chat templates do. This changes
        no prompt of ours, because our prompts have no system prompt."""
        (system, density), (short, _) = (self._counts.get(kind, (0, 1.0)) for kind in ("system", "short"))
        return 0 < system < short and density < _PLAIN

    def doubt(self) -> None:
        """Add the initial budget one more time (never twice), to find out whether the server or its model failed."""
        self.budget += 0 if self._doubted else model_settings.PROBES
        self._doubted = True

    def follow(self, kind: str, n: int) -> list[bool]:
        """Ask test questions of one kind until `n` have been asked. Return whether each reply is the named word."""
        trials = self.trials.setdefault(kind, [])
        while len(trials) < n and (letters := self.ask(question := self._recalling(kind, len(trials)))):
            # The most common letter, because a model that draws its replies may miss the word in some of them.
            letter = Counter(letters).most_common(1)[0][0]
            trials.append(letter == question.right)
            if kind != "system" and not trials[-1]:
                self.missed.add(letter)
            self._counts[kind] = self._n_tokens, self._density
        return trials

    def fail(self, what: str, *, code: str) -> ProbeError:
        """Return the error of a failed probe. `what` is a verb phrase, followed by what was expected and what to do."""
        return ProbeError(*self.client.fault(what, code=code).lines, code=code)

    def _recalling(self, kind: str, number: int) -> Question:
        statement, question = _RECALLED[number % len(_RECALLED)]
        start = 5 * number + len(kind)
        words = [_WORDS[(start + j) % len(_WORDS)] for j in range(len(LETTERS))]
        # Never A, the letter of a server that has lost the options.
        right = 1 + (3 * number + len(kind)) % (len(LETTERS) - 1)
        line, demand = statement.format(words[right]), _lettered(question, words)
        match kind:
            case "long" | "middle":
                # The words of the longest prompt, because another text of this length may have more tokens.
                words = sorted(self.longest.split())
                half = len(words) // 2 if kind == "middle" else 0
                parts = (" ".join(words[:half]), line, " ".join(words[half:]), demand)
                return Question("\n\n".join(filter(None, parts)), LETTERS[right])
            case "system":
                return Question(demand, LETTERS[right], line)
            case _:
                return Question(f"{line}\n\n{demand}", LETTERS[right])


def _lettered(demand: str, options: Sequence[str]) -> str:
    rows = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, options, strict=True))
    return f"{demand}\n{rows}Answer:"


class Probe(Protocol):
    """Probe of a server."""

    @property
    def code(self) -> str:
        """Code of the failure."""

    def run(self, session: Session) -> None:
        """Ask the server. Raise `ProbeError` if it fails."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Questions (`n` of them) about a word that the prompt names at a certain position (`kind`). The questions of
    `controls` name the word in the question."""

    code: str
    kind: str
    n: int
    controls: tuple[str, ...]
    fault: str

    def run(self, session: Session) -> None:
        """Compare the questions with the controls. A server that lost the word finds it no more often than by guessing."""
        before, control = len(session.trials.get(self.kind, ())), session.trials.get("short", ())
        if self.kind == "system" and (session.drops_system or not session.chat):
            return
        # A policy in the prompts may decide some replies, and not others.
        is_weak = bool(control) and not any(control) and not session.adds_text
        if is_weak or all(session.follow(self.kind, before + self.n)[before:]):
            return
        session.doubt()
        for n in _N_TRIALS:
            session.follow("short", min(n, _N_CONTROLS))
            control = [hit for kind in self.controls for hit in session.trials.get(kind, ())]
            if not any(control) or (self.kind == "system" and session.drops_system):
                break
            trials = session.follow(self.kind, before + n)[before:]
            if likelihood_ratio(trials, control) >= LEAST_RATIO:
                raise session.fail(self.fault, code=self.code)
            n_more = max(0, _N_CONTROLS - len(session.trials["short"]))
            if len(trials) < n or not can_still_fail(trials, [*control, *[True] * n_more]):
                break
        _LOG.info(
            "%s: the probe %s cannot tell the server from its model", session.client.model.name, self.code
        )


def can_still_fail(trials: Sequence[bool], control: Sequence[bool]) -> bool:
    """Return whether the server could still fail if it missed the expected word in all remaining trials."""
    n_further = (n - len(trials) for n in _N_TRIALS if n > len(trials))
    return any(likelihood_ratio([*trials, *[False] * n], control) >= LEAST_RATIO for n in n_further)


def likelihood_ratio(trials: Sequence[bool], control: Sequence[bool]) -> float:
    """Return the likelihood of the trials under random guessing, divided by their likelihood under the hit rate of the
    control (uniform prior)."""

    def log_beta(hits: int, n: int) -> float:
        return math.lgamma(hits + 1) + math.lgamma(n - hits + 1) - math.lgamma(n + 2)

    x, a, y, b = sum(trials), len(trials), sum(control), len(control)
    guessed = x * math.log(1 / len(LETTERS)) + (a - x) * math.log(1 - 1 / len(LETTERS))
    return math.exp(guessed + log_beta(y, b) - log_beta(x + y, a + b))


@dataclass(frozen=True, slots=True)
class Added:
    """Text that the server adds to prompts (by its own count of tokens), and that distracts the model from its task."""

    code: str = "added-text"

    def run(self, session: Session) -> None:
        """Judge the replies of the other probes. A model that is right, or that otherwise always says the same, does not
        guess: a guess would be right in one of seven replies."""
        n_right = sum(sum(hits) for kind, hits in session.trials.items() if kind != "system")
        if not session.adds_text or not session.missed:
            return
        error = session.fail(
            "counts more tokens than the prompt has characters, and misses words that prompts name, so a proxy seems to "
            "add a system prompt. Expected the prompt alone. Ask the server itself, without a proxy or policy.",
            code=self.code,
        )
        if n_right >= 2 and len(session.missed) == 1:
            raise error
        _LOG.warning("%s", error)


@dataclass(frozen=True, slots=True)
class DrawnReplies:
    """Replies to questions with many answers, which must differ from one another."""

    code: str = "copied-replies"

    def run(self, session: Session) -> None:
        """Find out how the replies differ. Raise `ProbeError` if they differ only if the prompts differ."""
        if not session.chat:
            return
        questions = [Question(_lettered(*taste)) for taste in _TASTES]
        replies = [session.ask(question) for question in questions]
        if single := len(replies[0]) < N:
            replies[0] += session.ask(questions[0])
        session.tastes = _as_texts(replies)
        if not all(replies) or any(len(set(letters)) > 1 for letters in replies):
            return
        usual = [letters[0] for letters in replies]

        def differ(questions: Sequence[Question], start: int) -> list[bool]:
            replies = [session.ask(question, 1, start + i) for i, question in enumerate(questions)]
            session.seeded |= any(replies)
            if not any(replies):  # The server refuses seeds.
                replies = [session.ask(question, 1) for question in questions]
            return [letters[0] != usual[i % 2] for i, letters in enumerate(replies) if letters]

        if any(differ(questions if single else questions * 2, 1)):
            # Copies say nothing about the model.
            session.single, session.tastes = True, ()
            manner = "one by one, with seeds" if session.seeded else "one by one"
            _LOG.warning(
                "%s: replies were alike, so they are requested %s", session.client.model.name, manner
            )
            return
        changed = [
            replace(question, context=f"(Number {7411 + i})\n\n{question.context}")
            for i, question in enumerate(questions)
        ]
        if single and differ(changed, 11) == [True, True]:
            session.doubt()
            if (repeated := differ(questions * 2, 21)) and not any(repeated):
                raise session.fail(
                    "sends the same reply whenever it gets the same prompt, so a cache seems to answer. Expected a new "
                    "reply each time. Turn the cache off, or ask the server behind it.",
                    code=self.code,
                )
        session.seeded = False
        _LOG.warning(
            "%s: all replies to questions with many answers are alike. The model is very sure, or a cache copies its "
            "replies, or the temperature is ignored. Shares of replies may then not be probabilities.",
            session.client.model.name,
        )


@dataclass(frozen=True, slots=True)
class Same:
    """Questions with many answers, which are asked again at the end. The replies must have the same distribution."""

    code: str = "changed-weights"

    def run(self, session: Session) -> None:
        """Compare the replies with those at the start of the session."""
        questions = [Question(_lettered(*taste)) for taste in _TASTES]
        tastes = _as_texts([session.ask(question) for question in questions]) if session.tastes else ()
        if not are_alike(session.tastes, tastes, ENDED):
            raise session.fail(
                "answers differently from the start of the run, so the model was replaced. The scores of this run will not "
                "be used again. Serve one model under this name, and run the same command again.",
                code=self.code,
            )


def _as_texts(replies: Sequence[Sequence[str | None]]) -> tuple[str, ...]:
    return tuple("".join(letter or "-" for letter in letters) for letters in replies)


def are_alike(first: Sequence[str], second: Sequence[str], level: float) -> bool:
    """Return whether two sets of replies (one text of letters per question) can come from one model. This is a permutation
    test, at the given level, of the sum of the absolute differences between their shares."""
    rng, n_drawn = np.random.default_rng(0), 20_000
    statistic, drawn = 0.0, np.zeros(n_drawn)
    for a, b in zip(first, second, strict=False):
        if a and b:
            counts = np.array([[text.count(letter) for letter in sorted({*a, *b})] for text in (a, b)])
            total = counts.sum(axis=0)
            statistic += float(np.abs(counts[0] / len(a) - counts[1] / len(b)).sum())
            parts = rng.multivariate_hypergeometric(total, len(a), size=n_drawn)
            drawn += np.abs(parts / len(a) - (total - parts) / len(b)).sum(axis=1)
    return (1 + int((drawn >= statistic - 1e-9).sum())) / (1 + n_drawn) > level


_CUT = (
    "cuts long prompts: it finds a word in short prompts, but not in long ones. Expected the whole prompt to be read. Give "
    "it a longer context (such as `num_ctx`), or use fewer shots."
)
_LONG = Recall("cut-prompts", "long", 1, ("short",), _CUT)
_MIDDLE = Recall("cut-prompts", "middle", 1, ("short",), _CUT)
_SYSTEM = Recall(
    "changed-system-prompt",
    "system",
    2,
    ("short", "long", "middle"),
    "drops or replaces the system prompt: it finds a word in the question, but not there. Expected it to reach the model. "
    "Ask the server itself, without a proxy or policy, or use a chat template that has system prompts.",
)
_JUDGED: tuple[Probe, ...] = (_LONG, _MIDDLE, _SYSTEM, Added())
PROBES: dict[str, tuple[Probe, ...]] = {
    "to learn how to ask": (DrawnReplies(),),
    "before the first item": _JUDGED,
    "after the last item": (Same(), *_JUDGED),
}
