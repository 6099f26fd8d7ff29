"""What a server says about log-probabilities, read strictly: a list that is too short, a null, a NaN or a number above 0
is an error and never a score.

Three forms are known: `logprobs` of completions (OpenAI, vLLM), the same in the form of chat (llama.cpp's own server),
and vLLM's `prompt_logprobs`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustify.errors import ModelError

ROUNDING = 1e-3
"""Log-probabilities may lie this far above 0."""

FLOOR = -9999.0
"""What vLLM writes for minus infinity, which is no number to reckon with."""

PART = "\ufffd"
"""Shown in the place of a token that is a part of a letter."""


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """One token of a prompt: its text, its id where the server tells it, and its log-probability; None of the first."""

    text: str
    logprob: float | None
    id: int | None = None


class Unreadable(ModelError):
    """A reply without the numbers that were asked for."""


def choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one completion of a reply."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Unreadable("a reply without its one completion")
    return choices[0]


def prompt_tokens(reply: Mapping[str, Any]) -> int | None:
    """How many tokens the server counted in the prompt."""
    usage = reply.get("usage")
    n = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return n if isinstance(n, int) and not isinstance(n, bool) else None


def following(reply: Mapping[str, Any], top: int) -> dict[str, float] | None:
    """The likeliest first tokens of a completion and their log-probabilities, at most `top`; None where it has none.

    Raises:
        Unreadable: a number that is no log-probability.
    """
    told = choice(reply).get("logprobs")
    match told:
        case {"top_logprobs": [dict() as first, *_]}:
            pairs = list(first.items())
        case {"content": [{"top_logprobs": [*entries]}, *_]}:
            pairs = [(e.get("token"), e.get("logprob")) for e in entries if isinstance(e, dict)]
        case _:
            return None
    # The token that was drawn is added to the list where it is not among the likeliest: it is dropped again.
    best = sorted(((number(lp), str(token)) for token, lp in pairs), key=lambda pair: -pair[0])[:top]
    return {spelled(token): logprob for logprob, token in reversed(best)} or None


def echoed(reply: Mapping[str, Any]) -> list[Token] | None:
    """The tokens of an echo, prompt and completion; None where there is no echo of log-probabilities.

    Raises:
        Unreadable: lists of two lengths, or a number that is no log-probability.
    """
    told = choice(reply).get("logprobs")
    match told:
        case {"tokens": [*texts], "token_logprobs": [*logprobs]} if texts:
            pass
        case _:
            return None
    if len(texts) != len(logprobs):
        raise Unreadable(f"{len(logprobs)} log-probabilities for {len(texts)} tokens")
    return [_token(str(text), lp, i) for i, (text, lp) in enumerate(zip(texts, logprobs, strict=True))]


def read_prompt(reply: Mapping[str, Any]) -> list[Token] | None:
    """vLLM's `prompt_logprobs`, each token's own; None where there are none.

    Every entry names the token of the prompt and perhaps likelier ones; with none of these asked for, it is alone.

    Raises:
        Unreadable: an entry without a token, or a number that is no log-probability.
    """
    told = choice(reply).get("prompt_logprobs", reply.get("prompt_logprobs"))
    if not isinstance(told, list) or not told:
        return None
    return [_entry(entry, i) for i, entry in enumerate(told)]


def number(value: object) -> float:
    """A log-probability.

    Raises:
        Unreadable: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{type(value).__name__} in the place of a log-probability")
    if not math.isfinite(value) or value > ROUNDING or value <= FLOOR:
        raise Unreadable(f"{value:g} in the place of a log-probability")
    return float(value)


def spelled(token: str) -> str:
    """A token as text: some servers show the marks of their vocabularies in the place of blanks."""
    return token.replace("\u2581", " ").replace("\u0120", " ")


def _entry(entry: object, i: int) -> Token:
    match entry:
        case None if i == 0:
            return Token("", None)
        case dict() if entry:
            key, told = next(iter(entry.items()))
            text = told.get("decoded_token") if isinstance(told, dict) else None
            value = told.get("logprob") if isinstance(told, dict) else told
            name = str(key)
            return Token(
                text if isinstance(text, str) else "", number(value), int(name) if name.isdigit() else None
            )
        case _:
            raise Unreadable(f"no token at place {i} of the prompt")


def _token(text: str, logprob: object, i: int) -> Token:
    return Token(text, None if logprob is None and i == 0 else number(logprob))


def covers(tokens: Sequence[Token], text: str) -> bool:
    """Whether these tokens spell the text. A token that is a part of a letter shows as nothing or as a replacement
    mark, and the first may be a mark of the server's own, or be told without its text."""
    joined = "".join(t.text for t in tokens[1:])
    if _spells(tokens[0].text + joined if tokens else "", text) or _spells(joined, text):
        return True
    if not tokens or tokens[0].text:
        return False
    # Of a prompt that was cut at its front there are words missing, not one token.
    exact = [len(text) - len(joined)] if PART not in joined else range(1, min(len(text), 64))
    return any(n > 0 and len(text[:n].split()) == 1 and _spells(joined, text[n:]) for n in exact)


def _spells(joined: str, text: str) -> bool:
    """Whether a text is this one, in which every mark stands for at most one letter and every run of them for one or
    more."""
    if PART not in joined:
        return joined == text
    reached = {0}
    for piece in re.split(f"({PART}+)", joined):
        if piece.startswith(PART):
            reached = {at + n for at in reached for n in range(1, len(piece) + 1) if at + n <= len(text)}
        else:
            reached = {at + len(piece) for at in reached if text.startswith(piece, at)}
    return len(text) in reached
