"""What a server writes: its replies, the letter that a reply names, and how a server that chats is asked for one.

A letter is read strictly: of a reply that begins with any other word nothing is guessed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustify.engines.openai.client import Client, Refusal
from robustify.engines.protocols import Reply
from robustify.errors import ModelError
from robustify.views import by_chat

LENGTHS = ("max_tokens", "max_completion_tokens")
"""What servers call the length of a reply; the newest hosted models know the second name only."""
_LETTER = re.compile(r"\s*\(?([A-Z])")
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.S)
_ANNOUNCED = re.compile(r"[\s*_]*(?:the\s+)?(?:correct\s+|best\s+|final\s+)?answer(?:\s+is)?[\s*_]*:?", re.I)
_FIRST = re.compile(r"""[\s*_`"'(\[]*([A-Z])[*_`"']*(?:[*_`"').:\]]+(?=\s|$)|\s*(?:$|\n))""")


@dataclass(frozen=True, slots=True)
class ByChat:
    """How a server is asked for letters. `structured`: it takes a schema that lets a reply be nothing but one of them;
    else a reply's first letter is read. `several`: it sends several replies to one request. `length`: of `LENGTHS`.
    """

    structured: bool
    several: bool
    length: str

    def replies(self, client: Client, context: str, letters: Sequence[str], n: int) -> list[Reply]:
        """Return `n` replies that should be one of these letters each.
        Raises `Refusal`, `ModelError`: as the client; a reply without a text."""
        body: dict[str, Any] = {
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
    """Return the first way in which this server gives a letter to a harmless question; None where it gives none in any.
    Raises `ModelError`: as the client; replies that are cut off before a letter."""
    cut = False
    for structured in (True, False):
        for length in LENGTHS:
            for several in (True, False):
                try:
                    replies = ByChat(structured, several, length).replies(client, context, letters, 2)
                except Refusal as refusal:
                    if refusal.status == 404:
                        return None
                    continue
                if any(read_letter(reply, letters) for reply in replies):
                    return ByChat(structured, several, length)
                cut |= any(reply.finish_reason == "length" for reply in replies)
                break
    if cut:
        raise ModelError(
            f"{client.model.name}: its replies end after {client.model.reply_tokens} tokens without a letter; expected "
            "one: a model that thinks first needs more (`reply_tokens: 4096`)"
        )
    return None


def letter_of(continuation: str) -> str | None:
    """Return the letter that a continuation is, ` A` or ` (A`; None where it is another text."""
    match = _LETTER.fullmatch(continuation)
    return None if match is None else match[1]


def read_letter(reply: str, letters: Sequence[str]) -> str | None:
    """Return the one of these letters that a reply names: the value of its JSON object, or its first word if that is a
    letter alone (`B`, `(B)`, `**B.** because`, `Answer: B`). None where it is any other text, such as `A cat`.
    """
    text = _THOUGHT.sub("", reply, count=1).strip()
    match _json(text):
        case {"letter": str(letter), **rest} if not rest:
            found: str | None = letter
        case _:
            announced = _ANNOUNCED.match(text)
            first = _FIRST.match(text, announced.end() if announced else 0)
            found = first[1] if first else text.upper()
    return found if found in tuple(letters) else None


def read_replies(reply: Mapping[str, Any], path: str, name: str) -> list[Reply]:
    """Return the texts of a reply to `chat` or `completions`, one at least, and why each ended.
    Raises `ModelError`: one has no text."""
    choices = reply.get("choices")
    found = [_reply(one, path) for one in choices] if isinstance(choices, list) else []
    if not found or None in found:
        raise ModelError(f"{name}: its server sent a reply without a text; expected one")
    return [one for one in found if one is not None]


def _reply(choice: object, path: str) -> Reply | None:
    match choice:
        case {"message": {"content": str(text)}, **rest} if path == "chat":
            pass
        case {"message": dict(), **rest} if path == "chat":
            # It spent its whole length on thinking, or refused.
            text = ""
        case {"text": str(text), **rest} if path == "completions":
            pass
        case _:
            return None
    return Reply(text, rest.get("finish_reason"))


def _json(text: str) -> object:
    try:
        return json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _schema(letters: Sequence[str]) -> dict[str, Any]:
    letter = {"type": "string", "enum": list(letters)}
    schema = {
        "type": "object",
        "properties": {"letter": letter},
        "required": ["letter"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "letter", "strict": True, "schema": schema}}
