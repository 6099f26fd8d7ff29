"""Request log-probabilities from a completions server, parse the replies strictly, and compute scores.

Three formats are known: `logprobs` of completions (OpenAI, vLLM), the same in chat format (the server of llama.cpp), and
`prompt_logprobs` of vLLM. Each request generates one token, because some servers interpret 0 as unlimited.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from robustify.base.errors import ModelError, Notice
from robustify.models.engines.openai.client import Client, Json, Refusal, count_in
from robustify.models.engines.openai.jobs import TOO_LONG, Check, Job, Scored
from robustify.models.engines.openai.letters import was_finished
from robustify.models.engines.protocols import Logprob

T = TypeVar("T")
Form = Literal["prompt_logprobs", "echo"]
_ROUNDING = 1e-3
"""Largest positive value that is accepted as a log-probability."""
_FLOOR = -9999.0
"""Value that vLLM returns for minus infinity, which is the log-probability of a token that the server does not allow."""
_SPACES = " \u2581\u0120"
"""A space and the marks of vocabularies that some servers return instead."""
PART = "\ufffd"
"""Replacement mark, shown for a token that is only part of a character."""
_DRAWN = 4
"""Number of attempts if the model ends its text immediately. Each attempt samples a new token."""
# At temperature 1, servers that scale log-probabilities by the temperature do not change them.
_PLAIN: Json = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """Token of a prompt, with its text and log-probability. The log-probability of the first token is None."""

    text: str
    logprob: float | None


class Unusable(ModelError):
    """Raised if a reply lacks the requested numbers. The message says what was found instead."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Thread-safe requests for log-probabilities to one server. They raise `ModelError` if the server fails, or if a number
    is not a log-probability. `check` gets all replies."""

    client: Client
    check: Check = lambda *_: None

    def spelled(self, prompt: str, form: Form) -> list[Token]:
        """Return the tokens of a prompt. Raise `ModelError` if the tokens do not spell the prompt."""
        tokens = self.require(self.prompt(prompt, form), "log-probabilities")
        if not covers(tokens, prompt):
            raise self.client.fault(
                f"sent log-probabilities of {len(tokens)} tokens that do not spell the prompt ({len(prompt)} "
                "characters). The prompt may have been shortened.",
                code="changed-prompt",
            )
        return tokens

    def require(self, numbers: T | None, what: str) -> T:
        """Return `numbers`. Raise `ModelError` if the server did not send them."""
        if numbers is None:
            raise self.client.fault(
                f"sent no {what}, although it did so in the capability probe",
                code="missing-log-probabilities",
            )
        return numbers

    def prompt(self, prompt: str, form: Form) -> list[Token] | None:
        """Return the tokens of the prompt with their log-probabilities, or None if the server does not return them."""
        if form == "prompt_logprobs":
            return self._ask(prompt, {"prompt_logprobs": 0}, _prompt_tokens)
        return self._ask(prompt, {"echo": True, "logprobs": 1}, lambda reply: _echoed(reply, prompt))

    def following(self, prompt: str, top: int) -> dict[str, float] | None:
        """Return the log-probabilities of the most likely next tokens (at most `top`). Return None if the server does not
        return them, and an empty mapping if the model ends its text every time."""
        for _ in range(_DRAWN):
            likely = self._ask(prompt, {"logprobs": top}, lambda reply: _following(reply, top))
            if likely != {}:
                return likely
        return {}

    def _ask(self, prompt: str, fields: Mapping[str, Any], read: Callable[[Json], T]) -> T:
        reply = self.client.completions({**_PLAIN, "prompt": prompt, **fields})
        self.check(prompt, reply)
        try:
            return read(reply)
        except Unusable as error:
            what = f"sent {error}; expected a log-probability for every token"
            raise Unusable(*self.client.fault(what, code=error.code).lines, code=error.code) from None


def _following(reply: Json, top: int) -> dict[str, float] | None:
    choice = _choice(reply)
    match choice.get("logprobs"):
        case {"top_logprobs": [dict() as first, *_]}:
            pairs = list(first.items())
        case {"content": [{"top_logprobs": [*entries]}, *_]}:
            pairs = [(e.get("token"), e.get("logprob")) for e in entries if isinstance(e, dict)]
        case _:
            if choice.get("text") or choice.get("finish_reason") == "length":
                return None
            if not was_finished("", choice.get("finish_reason")):
                raise Unusable("a completion that it did not finish", code="unfinished-reply")
            return {}
    shown = ((_number(lp), str(token)) for token, lp in pairs if not _is_masked(lp))
    best = sorted(shown, key=lambda pair: -pair[0])[: top + 1]
    # If the sampled token is not among the most likely, servers append it to the list, even to a list that is shorter than
    # `top`. It says nothing about the tokens that are not listed.
    if len(best) > top or (len(best) > 1 and best[-1][1].strip(_SPACES) == str(choice.get("text")).strip()):
        best.pop()
    return {t.replace("\u2581", " ").replace("\u0120", " "): lp for lp, t in reversed(best)} or None


def _is_masked(logprob: object) -> bool:
    """Return whether a listed token is not allowed by the server. JSON has no infinity, so some servers write null."""
    return logprob is None or (isinstance(logprob, int | float) and logprob <= _FLOOR)


def _echoed(reply: Json, prompt: str) -> list[Token] | None:
    match _choice(reply).get("logprobs"):
        case {"tokens": [*texts], "token_logprobs": [*logprobs]} if texts:
            pass
        case _:
            return None
    if len(texts) != len(logprobs):
        what = f"{len(logprobs)} log-probabilities for {len(texts)} tokens"
        raise Unusable(what, code="incomplete-log-probabilities")
    pairs = enumerate(zip(texts, logprobs, strict=True))
    tokens = [Token(str(text), None if lp is None and i == 0 else _number(lp)) for i, (text, lp) in pairs]
    # If the text ends here, some servers generate no token. Others generate several. The server's own count may contain a
    # mark that is not shown, or leave out cached tokens. So it decides only if the tokens spell the prompt.
    ends = (len(tokens) - 1, len(tokens), count_in(reply, "prompt_tokens"))
    return next((tokens[:n] for n in ends if covers(tokens[:n], prompt)), tokens[:-1])


def _prompt_tokens(reply: Json) -> list[Token] | None:
    entries = _choice(reply).get("prompt_logprobs", reply.get("prompt_logprobs"))
    if not isinstance(entries, list) or not entries:
        return None
    return [_entry(entry, i) for i, entry in enumerate(entries)]


def _entry(entry: object, i: int) -> Token:
    if entry is None and i == 0:
        return Token("", None)
    if not isinstance(entry, dict) or not entry:
        raise Unusable(f"no token at position {i} of the prompt", code="missing-prompt-token")
    value = next(iter(entry.values()))
    token = value if isinstance(value, dict) else {"logprob": value}
    text = token.get("decoded_token")
    return Token(text if isinstance(text, str) else "", _number(token.get("logprob")))


def _choice(reply: Json) -> Json:
    match reply.get("choices"):
        case [dict() as choice]:
            return choice
    raise Unusable("a reply that does not have exactly one completion", code="missing-completion")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        what = f"{type(value).__name__} instead of a log-probability"
        raise Unusable(what, code="invalid-log-probability")
    if value <= _FLOOR:
        mend = "start it without top_k or top_p, vLLM with `--logprobs-mode raw_logprobs`"
        raise Unusable(f"{value:g} for a token that it does not allow ({mend})", code="masked-token")
    if not math.isfinite(value) or value > _ROUNDING:
        raise Unusable(f"{value:g} instead of a log-probability", code="invalid-log-probability")
    return float(value)


def covers(tokens: Sequence[Token], text: str) -> bool:
    """Return whether the tokens spell the text. A token that is part of a character appears as an empty text or a
    replacement mark. The first token may have no text, or be a mark added by the server."""
    joined = "".join(t.text for t in tokens[1:])
    if _spells(tokens[0].text + joined if tokens else "", text) or _spells(joined, text):
        return True
    if not tokens or tokens[0].text:
        return False
    # If more than one word is missing at the start, the prompt was truncated.
    exact = [len(text) - len(joined)] if PART not in joined else range(1, min(len(text), 64))
    return any(n > 0 and len(text[:n].split()) == 1 and _spells(joined, text[n:]) for n in exact)


def _spells(joined: str, text: str) -> bool:
    """Return whether the joined tokens spell the text, where n replacement characters stand for 1 to n characters."""
    if PART not in joined:
        return joined == text
    ends = {0}
    for piece in re.split(f"({PART}+)", joined):
        if piece.startswith(PART):
            ends = {end + n for end in ends for n in range(1, len(piece) + 1) if end + n <= len(text)}
        else:
            ends = {end + len(piece) for end in ends if text.startswith(piece, end)}
    return len(text) in ends


def score(questions: Questions, form: Form | None, top: int, job: Job) -> Scored:
    """Return a score for each request of a job, or the reason why there is no score. Scores come from the `top` likely next
    tokens, or from prompt log-probabilities in `form`. Raise `ModelError` if the server fails, returns unusable numbers, or
    replies to another prompt.

    The letters of one context share a request for next tokens. Other continuations, and letters not shown, are scored in a
    prompt. Without `form`, a missing letter gets an upper bound. A token that crosses the end of the context is refused,
    because its probability covers both sides.
    """
    if not job.context:
        reason = "has no context, which a server needs; run this model with the engine hf"
        return dict.fromkeys(job.continuations, Notice(reason, code="empty-context"))
    likely: Mapping[str, float] = {}
    scored: Scored = {}
    try:
        if job.letters and top:
            likely = questions.require(questions.following(job.context, top), "`top_logprobs`")
        for key, continuation in job.continuations.items():
            if continuation in likely:
                scored[key] = Logprob(likely[continuation], 1)
            elif form is None:
                # The upper bound is the least likely of the tokens shown.
                scored[key] = Logprob(min(likely.values(), default=0.0), 0)
            else:
                scored[key] = _in_prompt(questions, form, job.context, continuation)
    except Refusal as refusal:
        if refusal.too_long:
            return dict.fromkeys(job.continuations, TOO_LONG)
        raise
    return scored


def _in_prompt(questions: Questions, form: Form, context: str, continuation: str) -> Logprob | str:
    tokens = questions.spelled(context + continuation, form)
    n = tokens_of(continuation, tokens)
    if n is None and any(PART in t.text for t in tokens):
        # The rule of lm-eval (`_encode_pair`): the continuation is what follows the tokens of the context.
        context_texts = [t.text for t in questions.spelled(context, form)]
        is_prefix = context_texts == [t.text for t in tokens[: len(context_texts)]]
        n = len(tokens) - len(context_texts) if is_prefix and len(tokens) > len(context_texts) else None
    if n is None:
        return Notice(
            "has a token that crosses the end of its context; run this model with the engine hf",
            code="token-across-boundary",
        )
    numbers = [t.logprob for t in tokens[len(tokens) - n :] if t.logprob is not None]
    if not numbers or len(numbers) < n:
        raise questions.client.fault(
            f"sent {len(numbers)} log-probabilities for {n} tokens", code="incomplete-log-probabilities"
        )
    return Logprob(sum(numbers), n)


def tokens_of(ending: str, tokens: Sequence[Token]) -> int | None:
    """Return the number of last tokens that spell `ending`, or None if no sequence of whole tokens does."""
    length, count = 0, None
    for n, token in enumerate(reversed(tokens), start=1):
        if PART in token.text and length < len(ending):
            return None
        length += len(token.text)
        # The first token of a prompt has no log-probability, and in one format no text.
        if length > len(ending) or token.logprob is None:
            break
        # Parts of a character have empty texts, except for its last part.
        count = n if length == len(ending) else count
    return count
