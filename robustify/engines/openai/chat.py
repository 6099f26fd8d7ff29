"""Replies in words from a server: through chat where it has one, else as completions.

Which of the two is found out once, with a harmless prompt. It refuses a prompt that the server says is too long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robustify.engines.openai.client import Client, Refusal
from robustify.engines.openai.thread_pool import ThreadPool
from robustify.engines.protocols import Reply
from robustify.errors import DataError, ModelError

_HELLO = "Say hello."
_Form = tuple[Literal["chat", "completions"], str]
_FORMS: tuple[_Form, ...] = (
    ("chat", "max_tokens"),
    # The newest hosted models know no other name for it.
    ("chat", "max_completion_tokens"),
    ("completions", "max_tokens"),
)


@dataclass(frozen=True, slots=True)
class Chat:
    """Writing at one server. `form`: by which path, and how it calls the length of a reply."""

    client: Client
    form: _Form

    @staticmethod
    def opened(client: Client) -> "Chat":
        """The first way of writing that the server knows.

        Raises:
            ModelError: it knows none.
        """
        for form in _FORMS:
            chat = Chat(client, form)
            try:
                chat.reply(_HELLO, 8)
            except Refusal:
                continue
            return chat
        raise ModelError(
            f"{client.model.name}: its server neither chats nor completes; expected an OpenAI-compatible server and a "
            "model that it knows"
        )

    @property
    def is_chat(self) -> bool:
        """Whether the server puts its chat template around a prompt."""
        return self.form[0] == "chat"

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """One reply for each prompt, in their order.

        Raises:
            DataError: prompts that do not fit, named by their positions.
            ModelError: a server that refuses a prompt or fails for good.
        """
        texts: dict[int, str] = {}
        faults: dict[int, str] = {}

        def one(place: int) -> tuple[int, str | None]:
            try:
                return place, self.reply(prompts[place], max_tokens)
            except Refusal as refusal:
                if not refusal.too_long:
                    raise ModelError(
                        f"{self.client.model.name}: its server refused a prompt ({refusal.status})"
                    ) from None
                return place, None

        pool = ThreadPool(one, self.client.model.concurrency, self.client.give_up)
        for batch in pool.done(range(len(prompts))):
            for place, text in batch:
                if text is None:
                    faults[place] = f"prompt {place}: does not fit into the model's context (its server says)"
                else:
                    texts[place] = text
        if faults:
            raise DataError.gather([faults[place] for place in sorted(faults)])
        return [texts[place] for place in range(len(prompts))]

    def reply(self, prompt: str, max_tokens: int) -> str:
        """What the model says to one prompt.

        Raises:
            Refusal: the server does not know this path or a field, or the prompt is too long.
            ModelError: as the client; or a reply without a text.
        """
        how, length = self.form
        body: dict[str, Any] = {length: max_tokens, "n": 1, "stream": False}
        # A model that thinks aloud draws, and refuses to be told otherwise.
        if length == "max_tokens":
            body["temperature"] = 0
        if how == "chat":
            reply = self.client.chat({**body, "messages": [{"role": "user", "content": prompt}]})
        else:
            reply = self.client.completions({**body, "prompt": prompt})
        return _text(reply, how, self.client.model.name)


def _text(reply: Mapping[str, Any], how: str, name: str) -> Reply:
    match reply.get("choices"):
        case [{"message": {"content": str(text)}, **rest}, *_] if how == "chat":
            return Reply(text, _finish(rest))
        case [{"message": dict(), **rest}, *_] if how == "chat":
            # It spent its whole length on thinking.
            return Reply("", _finish(rest))
        case [{"text": str(text), **rest}, *_] if how == "completions":
            return Reply(text, _finish(rest))
    raise ModelError(f"{name}: its server sent a reply without a text; expected one")


def _finish(rest: Mapping[Any, Any]) -> str | None:
    found = rest.get("finish_reason")
    return found if isinstance(found, str) else None
