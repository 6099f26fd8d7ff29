"""Score letters on a chat server without log-probabilities, by the share of sampled replies for each letter."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from robustify.base.errors import ModelError
from robustify.items.views import Request, by_chat
from robustify.models.engines.openai.client import Client, Json, Refusal
from robustify.models.engines.openai.jobs import TOO_LONG, Check, Job, Scored, keys_of
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import NO_LETTER, Logprob, Reply
from robustify.reading.marks.picks import Picked, read_pick

LENGTHS = ("max_tokens", "max_completion_tokens")
"""Field names for the maximum length of a reply. The newest hosted models accept only the second."""
_LETTER = re.compile(r"\s*\(?([A-Z])")
_ENDED = ("stop", "length", "content_filter", "eos", "eos_token", "stop_sequence", "end_turn")
"""Finish reasons of a reply that may have no text. Any other is that of a server which did not finish the reply."""
_TEXTS = ("text", "output_text")
_BROKEN = ("abort", "error", "cancel", "timeout", "load", "unload")
"""Beginnings of the finish reasons of a reply that the server did not finish."""


@dataclass(frozen=True, slots=True)
class ByChat:
    """Request format that asks a chat server for a letter. If `structured`, a schema allows only letters. Otherwise, the
    first letter of a reply is read. If `several`, one request has several replies. `length` is one of `LENGTHS`. If
    `seeded`, each request for an item has its own seed, because a cache copies replies."""

    structured: bool
    several: bool
    length: str
    seeded: bool = False

    def ask(self, client: Client, text: str, system: str = "", **fields: Any) -> Json:
        """Return the server's reply to a text and, if given, a system prompt. Raise the errors of `Client.chat`."""
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": text})
        drawn = {"temperature": 1.0} if self.length == LENGTHS[0] else {}
        length = {self.length: client.model.reply_tokens}
        return client.chat({"messages": messages, **length, "stream": False, **drawn, **fields})

    def send(
        self,
        client: Client,
        text: str,
        letters: Sequence[str],
        n: int,
        *,
        seed: int | None = None,
        system: str = "",
    ) -> Json:
        """Ask once for `n` letters, and return the reply, which may have fewer letters. Raise the errors of `ask`."""
        fields = dict[str, Any]()
        if self.structured:
            schema = {
                "type": "object",
                "properties": {"letter": {"type": "string", "enum": list(letters)}},
                "required": ["letter"],
                "additionalProperties": False,
            }
            described = {"name": "letter", "strict": True, "schema": schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": described}
        fields |= {"n": n} if self.several else {}
        fields |= {} if seed is None else {"seed": seed}
        return self.ask(client, text, system, **fields)

    def replies(
        self, client: Client, context: str, letters: Sequence[str], n: int, check: Check = lambda *_: None
    ) -> list[Reply]:
        """Return `n` replies to a question. Raise `Refusal` if the server rejects the question, and `ModelError` if the
        server fails or a reply has no text."""
        text = by_chat(context, letters)
        replies: list[Reply] = []
        while len(replies) < n:
            seed = len(replies) + 1 if self.seeded else None
            reply = self.send(client, text, letters, n - len(replies), seed=seed)
            check(text, reply)
            replies += read_replies(reply, "chat", client.model.name)
        return replies[:n]


def find_way(client: Client, context: str, letters: Sequence[str]) -> ByChat | None:
    """Return the first request format with which the server answers a harmless question by a letter, or None if no format
    works. Raise `ModelError` if the server fails, or if its replies are truncated before a letter."""
    was_cut, answered = False, set[tuple[bool, str]]()
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
        was_cut |= any(reply.finish_reason == "length" for reply in replies)
        answered.add((structured, length))
    if was_cut:
        raise ModelError(
            f"{client.model.name}: the replies end after {client.model.reply_tokens} tokens without a letter. For a "
            "reasoning model, increase the limit (`reply_tokens: 4096`).",
            code="truncated-replies",
        )
    return None


def letter_of(continuation: str) -> str | None:
    """Return the letter of a continuation such as ` A` or ` (A`, or None for any other text."""
    match = _LETTER.fullmatch(continuation)
    return None if match is None else match[1]


def read_letter(reply: str, letters: Sequence[str]) -> str | None:
    """Return the letter that a reply names, or None if the letter is not one of `letters`. A truncated reply must consist
    of the letter, because longer text may be reasoning whose tags are missing."""
    pick = read_pick(reply, ("",) * len(letters), letters)
    if not isinstance(pick, Picked):
        return None
    was_cut = isinstance(reply, Reply) and reply.finish_reason == "length"
    is_letter_alone = pick.named_by == "mark" and len(reply.split()) <= 2
    return letters[pick.index] if is_letter_alone or not was_cut else None


def read_replies(reply: Mapping[str, Any], path: str, name: str) -> list[Reply]:
    """Return the text and finish reason of each reply in a response to `chat` or `completions`. Raise `ModelError` if a
    reply has no text, or if the server did not finish it."""
    choices = reply.get("choices")
    parsed = [_read_choice(choice, path) for choice in choices] if isinstance(choices, list) else []
    replies = [text for text in parsed if text is not None]
    # If nothing was generated, the reply has not reached its maximum length.
    unwritten = isinstance(usage := reply.get("usage"), dict) and usage.get("completion_tokens") == 0
    if (
        not parsed
        or None in parsed
        or (unwritten and any(text.finish_reason == "length" for text in replies))
    ):
        raise ModelError(
            f"{name}: the server sent a reply without text, or one that it did not finish",
            code="unfinished-reply",
        )
    return replies


def _read_choice(choice: object, path: str) -> Reply | None:
    if not isinstance(choice, dict):
        return None
    match choice:
        case {"message": {"content": str(text)}} if path == "chat":
            pass
        case {"message": {"content": [*parts]}} if path == "chat":
            # Other parts contain thoughts.
            texts = [p.get("text") for p in parts if isinstance(p, dict) and p.get("type") in _TEXTS]
            text = "".join(part for part in texts if isinstance(part, str))
        case {"message": dict()} if path == "chat":
            # The model spent all its tokens on reasoning, or refused.
            text = ""
        case {"text": str(text)} if path == "completions":
            pass
        case _:
            return None
    reason = choice.get("finish_reason")
    return Reply(text, reason) if was_finished(text, reason) else None


def was_finished(text: object, reason: object) -> bool:
    """Return whether the server finished a reply. A reply that reached the length limit is finished."""
    if not text:
        return reason in _ENDED
    return not str(reason).casefold().startswith(_BROKEN)


def sampled(client: Client, way: ByChat, samples: int, check: Check, job: Job) -> Scored:
    """Return the logarithm of each letter's share of the sampled replies. If at least half of the replies name no letter,
    each letter gets `NO_LETTER`. Raise `ModelError` if the server keeps failing.

    The share is that of the readable replies after adding half a reply to each count (Krichevsky and Trofimov 1981),
    because zero replies out of five do not mean zero probability.
    """
    letter_by_key = {key: str(letter_of(text)) for key, text in job.continuations.items()}
    letters = sorted(set(letter_by_key.values()))
    try:
        replies = way.replies(client, job.context, letters, samples, check)
    except Refusal as refusal:
        if refusal.too_long:
            return dict.fromkeys(letter_by_key, TOO_LONG)
        # Hosted models refuse questions that trigger a content filter, and answer others of the same form.
        if not refusal.filtered:
            raise
        replies = []
    counts = Counter(letter for reply in replies if (letter := read_letter(reply, letters)))
    n_read = counts.total()
    if 2 * n_read <= samples:
        return dict.fromkeys(letter_by_key, NO_LETTER)
    total = n_read + len(letters) / 2
    return {
        key: Logprob(math.log((counts[letter] + 0.5) / total), 1, n_read)
        for key, letter in letter_by_key.items()
    }


def sampled_keys(requests: Sequence[Request]) -> list[Encoded]:
    """Return the cache key of each request: its text, all letters of its question, and the version of the reply parser.
    Since version 2, truncated replies count only if they consist of a letter."""
    letters: dict[str, set[str]] = {}
    for request in requests:
        letters.setdefault(request.context, set()).add(letter_of(request.continuation) or "")
    keys = []
    for request, key in zip(requests, keys_of(requests), strict=True):
        options = "".join(sorted(letters[request.context])).encode()
        keys.append(Encoded(key.context, (*key.continuation, *b"|2|", *options)))
    return keys
