"""The two questions that a completions server can be asked, and its replies: how likely is each token of this prompt, and
which tokens are likely to come next.

Replies are read strictly: a list that is too short, a null, a NaN or a number above 0 is an error and never a score. Three
forms are known: `logprobs` of completions (OpenAI, vLLM), the same in the form of chat (llama.cpp's own server), and
vLLM's `prompt_logprobs`. One token is always generated, because 0 means "without end" to some servers.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from robustify.engines.openai.client import Client
from robustify.errors import ModelError

T = TypeVar("T")
Form = Literal["prompt_logprobs", "echo"]
ROUNDING = 1e-3
"""Log-probabilities may lie this far above 0."""
FLOOR = -9999.0
"""What vLLM writes for minus infinity."""
PART = "\ufffd"
"""Shown instead of a token that is a part of a letter."""
_DRAWN = 4
"""Times that a server is asked whose model ends the text at once: each time a token is drawn anew."""
# At temperature 1 a server that scales its log-probabilities scales them by 1.
_PLAIN: dict[str, Any] = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """One token of a prompt: its text, and its log-probability; None of the first."""

    text: str
    logprob: float | None


class Unreadable(ModelError):
    """A reply without the numbers that were asked for."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Asking one server. Any number of threads may ask."""

    client: Client

    def prompt(self, prompt: str, form: Form) -> list[Token] | None:
        """Return the tokens of the prompt, None if the server shows none. Raises as the client, and `ModelError`: a number
        is not a log-probability."""
        fields = {"prompt_logprobs": 0} if form == "prompt_logprobs" else {"echo": True, "logprobs": 1}
        reply = self._sent(prompt, fields)
        tokens = self._read(_prompt_tokens if form == "prompt_logprobs" else _echoed, reply)
        if tokens is None or form == "prompt_logprobs":
            return tokens
        # Without the tokens that were generated, as far as the server counts its prompt's tokens.
        usage = reply.get("usage")
        n = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if isinstance(n, int) and not isinstance(n, bool):
            return tokens[:n]
        # Where the text ends here, some servers generate no token at all.
        ended = covers(tokens, prompt) and not covers(tokens[:-1], prompt)
        return tokens if ended else tokens[:-1]

    def following(self, prompt: str, top: int) -> dict[str, float] | None:
        """Return the likeliest next tokens by their text, at most `top`; None if the server shows none, empty if the model
        ends its text each time that it is asked. Raises as `prompt`."""
        seen: dict[str, float] | None = {}
        for _ in range(_DRAWN):
            seen = self._read(lambda reply: following(reply, top), self._sent(prompt, {"logprobs": top}))
            if seen != {}:
                break
        return seen

    def _sent(self, prompt: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return self.client.completions({**_PLAIN, "prompt": prompt, **fields})

    def _read(self, read: Callable[[Any], T | None], reply: Any) -> T | None:
        try:
            return read(reply)
        except Unreadable as error:
            raise Unreadable(
                f"{self.client.model.name}: its server sent {error}; expected a log-probability for every token"
            ) from None


def following(reply: Mapping[str, Any], top: int) -> dict[str, float] | None:
    """Return the likeliest first tokens of a completion and their log-probabilities, at most `top`; None if it has none,
    and empty if nothing was written because the text ended. Raises `Unreadable`: a number is not a log-probability."""
    choice = _choice(reply)
    match choice.get("logprobs"):
        case {"top_logprobs": [dict() as first, *_]}:
            pairs = list(first.items())
        case {"content": [{"top_logprobs": [*entries]}, *_]}:
            pairs = [(e.get("token"), e.get("logprob")) for e in entries if isinstance(e, dict)]
        case _:
            return {} if not choice.get("text") and choice.get("finish_reason") != "length" else None
    # The token that was drawn is added to the list where it is not among the likeliest: it is dropped again.
    best = sorted(((_number(lp), str(token)) for token, lp in pairs), key=lambda pair: -pair[0])[:top]
    # Some servers show the marks of their vocabularies instead of blanks.
    return {t.replace("\u2581", " ").replace("\u0120", " "): lp for lp, t in reversed(best)} or None


def _echoed(reply: Mapping[str, Any]) -> list[Token] | None:
    """Return the tokens of an echo, prompt and completion; None if there is no echo of log-probabilities."""
    match _choice(reply).get("logprobs"):
        case {"tokens": [*texts], "token_logprobs": [*logprobs]} if texts:
            pass
        case _:
            return None
    if len(texts) != len(logprobs):
        raise Unreadable(f"{len(logprobs)} log-probabilities for {len(texts)} tokens")
    return [
        Token(str(text), None if lp is None and i == 0 else _number(lp))
        for i, (text, lp) in enumerate(zip(texts, logprobs, strict=True))
    ]


def _prompt_tokens(reply: Mapping[str, Any]) -> list[Token] | None:
    """Return vLLM's `prompt_logprobs`, each token's own; None if there are none. No likelier tokens were asked for."""
    entries = _choice(reply).get("prompt_logprobs", reply.get("prompt_logprobs"))
    if not isinstance(entries, list) or not entries:
        return None
    return [_entry(entry, i) for i, entry in enumerate(entries)]


def _entry(entry: object, i: int) -> Token:
    match entry:
        case None if i == 0:
            return Token("", None)
        case dict() if entry:
            value = next(iter(entry.values()))
            text = value.get("decoded_token") if isinstance(value, dict) else None
            logprob = _number(value.get("logprob") if isinstance(value, dict) else value)
            return Token(text if isinstance(text, str) else "", logprob)
        case _:
            raise Unreadable(f"no token at position {i} of the prompt")


def _choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Unreadable("a reply without its one completion")
    return choices[0]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{type(value).__name__} instead of a log-probability")
    if not math.isfinite(value) or value > ROUNDING or value <= FLOOR:
        raise Unreadable(f"{value:g} instead of a log-probability")
    return float(value)


def covers(tokens: Sequence[Token], text: str) -> bool:
    """Return whether these tokens spell the text. A token that is a part of a letter shows as nothing or as a replacement
    mark, and the first may be a mark of the server's own, or come without its text."""
    joined = "".join(t.text for t in tokens[1:])
    if _spells(tokens[0].text + joined if tokens else "", text) or _spells(joined, text):
        return True
    if not tokens or tokens[0].text:
        return False
    # Of a prompt that was cut at its front there are words missing, not one token.
    exact = [len(text) - len(joined)] if PART not in joined else range(1, min(len(text), 64))
    return any(n > 0 and len(text[:n].split()) == 1 and _spells(joined, text[n:]) for n in exact)


def _spells(joined: str, text: str) -> bool:
    """Return whether a text is this one, in which a mark stands for at most one letter, a run for one or more."""
    if PART not in joined:
        return joined == text
    reached = {0}
    for piece in re.split(f"({PART}+)", joined):
        if piece.startswith(PART):
            reached = {at + n for at in reached for n in range(1, len(piece) + 1) if at + n <= len(text)}
        else:
            reached = {at + len(piece) for at in reached if text.startswith(piece, at)}
    return len(text) in reached
