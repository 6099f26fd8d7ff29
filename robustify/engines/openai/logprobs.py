"""Log-probability requests to a completions server, and parsers of the replies.

A request asks for the log-probability of each token of a prompt, or for the most likely next tokens. Parsing is strict: a
short list, null, NaN, or a number above 0 is an error, never a score. Three formats are known: `logprobs` of completions
(OpenAI, vLLM), the same in chat format (the server of llama.cpp), and `prompt_logprobs` of vLLM. Each request generates one
token, because some servers interpret 0 as unlimited.
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
"""Largest positive value that is accepted as a log-probability."""
FLOOR = -9999.0
"""Value that vLLM returns for minus infinity."""
PART = "\ufffd"
"""Replacement mark, shown for a token that is only part of a character."""
_DRAWN = 4
"""Number of attempts if the model ends its text immediately. Each attempt samples a new token."""
# At temperature 1, servers that scale log-probabilities by the temperature do not change them.
_PLAIN: dict[str, Any] = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """Token of a prompt, with its text and log-probability. The log-probability of the first token is None."""

    text: str
    logprob: float | None


class Unreadable(ModelError):
    """Error for a reply without the requested numbers."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Thread-safe requests for log-probabilities to one server."""

    client: Client

    def prompt(self, prompt: str, form: Form) -> list[Token] | None:
        """Return the tokens of the prompt with their log-probabilities, or None if the server does not return them.
        Raise `ModelError` if the server fails, or a number is not a log-probability."""
        fields = {"prompt_logprobs": 0} if form == "prompt_logprobs" else {"echo": True, "logprobs": 1}
        reply = self._sent(prompt, fields)
        tokens = self._read(_prompt_tokens if form == "prompt_logprobs" else _echoed, reply)
        if tokens is None or form == "prompt_logprobs":
            return tokens
        # If the server counts the tokens of the prompt, drop the generated ones.
        usage = reply.get("usage")
        n = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if isinstance(n, int) and not isinstance(n, bool):
            return tokens[:n]
        # If the text ends here, some servers generate no token.
        ended = covers(tokens, prompt) and not covers(tokens[:-1], prompt)
        return tokens if ended else tokens[:-1]

    def following(self, prompt: str, top: int) -> dict[str, float] | None:
        """Return a mapping from the most likely next tokens (at most `top`) to their log-probabilities.
        The result is None if the server does not return them, and empty if the model ends its text every time. Raise
        `ModelError` if the server fails, or a number is not a log-probability."""
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
                f"{self.client.model.name}: the server sent {error}; expected a log-probability for every token"
            ) from None


def following(reply: Mapping[str, Any], top: int) -> dict[str, float] | None:
    """Return a mapping from the most likely first tokens (at most `top`) to their log-probabilities. The result is None
    if the reply has none, and empty if the text ended at once. Raise `Unreadable` if a number is not a log-probability."""
    choice = _choice(reply)
    match choice.get("logprobs"):
        case {"top_logprobs": [dict() as first, *_]}:
            pairs = list(first.items())
        case {"content": [{"top_logprobs": [*entries]}, *_]}:
            pairs = [(e.get("token"), e.get("logprob")) for e in entries if isinstance(e, dict)]
        case _:
            return {} if not choice.get("text") and choice.get("finish_reason") != "length" else None
    # If the sampled token is not among the most likely, servers append it to the list. It is dropped here.
    best = sorted(((_number(lp), str(token)) for token, lp in pairs), key=lambda pair: -pair[0])[:top]
    # Some servers return the marks of their vocabularies instead of spaces.
    return {t.replace("\u2581", " ").replace("\u0120", " "): lp for lp, t in reversed(best)} or None


def _echoed(reply: Mapping[str, Any]) -> list[Token] | None:
    """Return the tokens of an echoed prompt and its completion, or None if the reply has no log-probabilities for them."""
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
    """Return the tokens in vLLM's `prompt_logprobs`, or None if the reply has none."""
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
    """Return whether the tokens spell the text. A token that is part of a character appears as an empty text or a
    replacement mark. The first token may be a mark added by the server, or have no text."""
    joined = "".join(t.text for t in tokens[1:])
    if _spells(tokens[0].text + joined if tokens else "", text) or _spells(joined, text):
        return True
    if not tokens or tokens[0].text:
        return False
    # If more than one word is missing at the start, the prompt was truncated.
    exact = [len(text) - len(joined)] if PART not in joined else range(1, min(len(text), 64))
    return any(n > 0 and len(text[:n].split()) == 1 and _spells(joined, text[n:]) for n in exact)


def _spells(joined: str, text: str) -> bool:
    """Return whether the joined tokens equal the text, if each replacement character stands for at most one character and
    each sequence of them for at least one."""
    if PART not in joined:
        return joined == text
    reached = {0}
    for piece in re.split(f"({PART}+)", joined):
        if piece.startswith(PART):
            reached = {at + n for at in reached for n in range(1, len(piece) + 1) if at + n <= len(text)}
        else:
            reached = {at + len(piece) for at in reached if text.startswith(piece, at)}
    return len(text) in reached
