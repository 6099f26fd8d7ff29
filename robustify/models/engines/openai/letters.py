"""Letters of a chat server without log-probabilities: requests, parsers of the replies, and shares of replies as scores."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from robustify.base.errors import ModelError
from robustify.items.views import Request, by_chat
from robustify.models.engines.openai.client import Client, Json
from robustify.models.engines.openai.jobs import TOO_LONG, Job, Scored, keys_of
from robustify.models.engines.openai.refusals import Refusal
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import NO_LETTER, Logprob, Reply
from robustify.reading.marks.picks import Picked, read_pick

LENGTHS = ("max_tokens", "max_completion_tokens")
"""Field names for the maximum length of a reply. The newest hosted models accept only the second."""
_LETTER = re.compile(r"\s*\(?([A-Z])")


@dataclass(frozen=True, slots=True)
class ByChat:
    """Request format that asks a chat server for a letter.
    If `structured` is true, the server accepts a schema that allows only letters. Otherwise, the first letter of a reply is
    read. If `several` is true, the server can send several replies per request. `length` is one of `LENGTHS`."""

    structured: bool
    several: bool
    length: str

    def replies(self, client: Client, context: str, letters: Sequence[str], n: int) -> list[Reply]:
        """Return `n` replies to a question. Each should be one of the letters. Raise `Refusal` if the server rejects the
        request. Raise `ModelError` if the server fails, or a reply has no text."""
        body: Json = {
            "messages": [{"role": "user", "content": by_chat(context, letters)}],
            self.length: client.model.reply_tokens,
            "stream": False,
        }
        if self.length == LENGTHS[0]:
            body["temperature"] = 1.0
        if self.structured:
            body["response_format"] = _schema(letters)
        found: list[Reply] = []
        while len(found) < n:
            wanted = {"n": n - len(found)} if self.several else {}
            found += read_replies(client.chat({**body, **wanted}), "chat", client.model.name)
        return found[:n]


def find_way(client: Client, context: str, letters: Sequence[str]) -> ByChat | None:
    """Return the first request format that makes the server answer a harmless question with a letter, or None.
    Raise `ModelError` if the server fails, or its replies are truncated before a letter."""
    cut, answered = False, set[tuple[bool, str]]()
    for structured, length, several in product((True, False), LENGTHS, (True, False)):
        if (structured, length) in answered:
            continue
        way = ByChat(structured, several, length)
        try:
            replies = way.replies(client, context, letters, 2)
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            continue
        if any(read_letter(reply, letters) for reply in replies):
            return way
        cut |= any(reply.finish_reason == "length" for reply in replies)
        answered.add((structured, length))
    if cut:
        raise ModelError(
            f"{client.model.name}: the replies end after {client.model.reply_tokens} tokens without a letter. For a "
            "reasoning model, increase the limit (`reply_tokens: 4096`)."
        )
    return None


def letter_of(continuation: str) -> str | None:
    """Return the letter of a continuation such as ` A` or ` (A`, or None for any other text."""
    match = _LETTER.fullmatch(continuation)
    return None if match is None else match[1]


def read_letter(reply: str, letters: Sequence[str]) -> str | None:
    """Return the letter that a reply names, or None if it names none of `letters`."""
    found = read_pick(reply, ("",) * len(letters), letters)
    return letters[found.index] if isinstance(found, Picked) else None


def read_replies(reply: Mapping[str, Any], path: str, name: str) -> list[Reply]:
    """Return the texts and finish reasons in a reply to `chat` or `completions`.
    Raise `ModelError` if the reply has no text."""
    choices = reply.get("choices")
    found = [_reply(one, path) for one in choices] if isinstance(choices, list) else []
    if not found or None in found:
        raise ModelError(f"{name}: the server sent a reply without text")
    return [one for one in found if one is not None]


def _reply(choice: object, path: str) -> Reply | None:
    match choice:
        case {"message": {"content": str(text)}, **rest} if path == "chat":
            pass
        case {"message": dict(), **rest} if path == "chat":
            # The model spent all its tokens on reasoning, or refused.
            text = ""
        case {"text": str(text), **rest} if path == "completions":
            pass
        case _:
            return None
    return Reply(text, rest.get("finish_reason"))


def _schema(letters: Sequence[str]) -> Json:
    schema = {
        "type": "object",
        "properties": {"letter": {"type": "string", "enum": list(letters)}},
        "required": ["letter"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "letter", "strict": True, "schema": schema}}


@dataclass(frozen=True, slots=True)
class Sampling:
    """Callable that scores letters by their shares of sampled chat replies.

    The probability of a letter is its share of the readable replies after adding half a reply to each count (Krichevsky and
    Trofimov 1981), because zero replies out of five do not mean zero probability. The answer table contains the number of
    readable replies. If half or more of the replies name no letter, the question is unanswered.
    """

    client: Client
    way: ByChat
    samples: int

    def __call__(self, job: Job) -> Scored:
        """Return the log of each letter's share of the replies, or `NO_LETTER` for all letters if too few are readable.
        Raise `ModelError` if the server keeps failing."""
        named = {key: str(letter_of(continuation)) for key, continuation in job.wanted.items()}
        letters = sorted(set(named.values()))
        try:
            replies = self.way.replies(self.client, job.context, letters, self.samples)
        except Refusal as refusal:
            if refusal.too_long:
                return dict.fromkeys(named, TOO_LONG)
            # Hosted models refuse questions that trigger a content filter, and answer others of the same form.
            if not refusal.filtered:
                raise
            replies = []
        counts = Counter(letter for reply in replies if (letter := read_letter(reply, letters)))
        n = counts.total()
        if 2 * n <= self.samples:
            return dict.fromkeys(named, NO_LETTER)
        total = n + len(letters) / 2
        return {key: Logprob(math.log((counts[letter] + 0.5) / total), 1, n) for key, letter in named.items()}


def sampled_keys(requests: Sequence[Request]) -> list[Encoded]:
    """Return the cache key of each request, which contains its text and all letters of its question."""
    letters: dict[str, set[str]] = {}
    for request in requests:
        letters.setdefault(request.context, set()).add(letter_of(request.continuation) or "")
    among = ["".join(sorted(letters[request.context])).encode() for request in requests]
    keys = keys_of(requests)
    return [Encoded(k.context, (*k.continuation, *b"|", *a)) for k, a in zip(keys, among, strict=True)]
