"""The two questions that a completions server can be asked, each with one reply: how likely is each token of this prompt,
and which tokens are likely to come next.

One token is always generated, because 0 means "without end" to some servers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from robustify.engines.openai import replies
from robustify.engines.openai.client import Client
from robustify.engines.openai.replies import Token, Unreadable

T = TypeVar("T")
Form = Literal["prompt_logprobs", "echo"]
Prompt = str | tuple[int, ...]
_PLAIN: dict[str, Any] = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}
# At temperature 1 a server that scales its log-probabilities scales them by 1.


@dataclass(frozen=True, slots=True)
class Questions:
    """Asking one server. Any number of threads may ask."""

    client: Client

    def prompt(self, prompt: Prompt, form: Form) -> list[Token] | None:
        """The tokens of the prompt, and of an echo the generated one too; None where the server tells none.

        Raises:
            Refusal: as the client.
            ModelError: as the client; numbers that are none.
        """
        asked = {"prompt_logprobs": 0} if form == "prompt_logprobs" else {"echo": True, "logprobs": 1}
        reply = self.client.completions({**_PLAIN, "prompt": _sent(prompt), **asked})
        found = self._read(replies.read_prompt if form == "prompt_logprobs" else replies.echoed, reply)
        return found if found is None or form == "prompt_logprobs" else _without_rest(found, reply)

    def following(self, prompt: Prompt, top: int) -> dict[str, float] | None:
        """The likeliest next tokens by their text, at most `top`; None where the server tells none. Raises as `prompt`."""
        reply = self.client.completions({**_PLAIN, "prompt": _sent(prompt), "logprobs": top})
        return self._read(lambda r: replies.following(r, top), reply)

    def _read(self, read: Callable[[Any], T | None], reply: Any) -> T | None:
        try:
            return read(reply)
        except Unreadable as error:
            raise Unreadable(
                f"{self.client.model.name}: its server sent {error}; expected a log-probability for every token"
            ) from None


def _sent(prompt: Prompt) -> str | list[int]:
    return prompt if isinstance(prompt, str) else list(prompt)


def _without_rest(tokens: list[Token], reply: Any) -> list[Token]:
    """Without the tokens that were generated, as far as the server counts its prompt's tokens."""
    n = replies.prompt_tokens(reply)
    return tokens[:-1] if n is None else tokens[:n]
