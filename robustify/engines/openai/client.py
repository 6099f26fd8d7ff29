"""The client of an OpenAI-compatible server, on the openai SDK: JSON out, JSON in.

The SDK tries again what may pass (429, 5xx, no reply in time, a broken connection), after a pause that doubles or that the
server asks for. What a server says in words is never repeated, because it may quote a prompt. No redirect is followed, and
a reply under another model's name is refused.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustify.engines.network import key_for, refuse_servers
from robustify.engines.settings import OpenAIModel, host_of
from robustify.errors import ModelError

if TYPE_CHECKING:
    import openai

_PASSING = (408, 409, 429)
"""Statuses below 500 that the SDK tries again."""
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,99}", re.ASCII)
_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|maximum.{0,20}(length|tokens)|too long", re.I)

Json = dict[str, Any]


class Refusal(Exception):
    """The server refuses this request: it does not know the path, the model or a field, or the prompt is too long."""

    def __init__(self, status: int, too_long: bool) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.too_long = too_long


class Unreachable(ModelError):
    """No usable reply after all retries. `status`: that of the last reply, 408 if none came in time, None if the
    connection broke or half a reply came.
    """

    def __init__(self, *lines: str, status: int | None = None) -> None:
        super().__init__(*lines)
        self.status = status


@dataclass(slots=True)
class Usage:
    """What was sent and what the server counted. It is no part of a run's files, because a warm run sends nothing."""

    requests: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def as_log(self, model: OpenAIModel) -> Json:
        """Return one line of run.log. The cost is in the currency of the config's prices, None without prices."""
        cost = (self.tokens_in * (model.price_in or 0) + self.tokens_out * (model.price_out or 0)) / 1e6
        return {
            "model": model.name,
            "requests": self.requests,
            "tried_again": self.retries,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": None if model.price_in is None and model.price_out is None else cost,
        }


class Client:
    """Requests to one server. Any number of threads may use it. `check_name`: refuse replies under another model's name.
    Raises `ModelError`: openai is not installed; and as `network.refuse_servers` and `key_for`."""

    def __init__(self, model: OpenAIModel, *, check_name: bool = True) -> None:
        self.model = model
        self.usage = Usage()
        self._check_name = check_name
        self._lock = threading.Lock()
        self._sdk = sdk_client(model, self._count_request)

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()

    def fault(self, what: str) -> ModelError:
        """Return an error that says what the server of this model did."""
        return ModelError(f"{self.model.name}: its server {what}")

    def models(self) -> Json:
        """Ask `/v1/models`. Raises as `completions`."""
        return self._sent(lambda: self._sdk.models.with_raw_response.list())

    def completions(self, body: Mapping[str, Any]) -> Json:
        """Ask `/v1/completions` with these fields and the model's id.

        Raises:
            Refusal: the server refuses this request and would again.
            Unreachable: it does not answer.
            ModelError: it refuses all requests (key), or answers as another model.
        """
        return self._of_this_model(self._sdk.completions, "prompt", body)

    def chat(self, body: Mapping[str, Any]) -> Json:
        """Ask `/v1/chat/completions` with these fields (`messages` and others). Raises as `completions`."""
        return self._of_this_model(self._sdk.chat.completions, "messages", body)

    def _of_this_model(self, resource: Any, what: str, body: Mapping[str, Any]) -> Json:
        """Return the reply of one path of the server; `what` names the field with the prompt."""
        sent = {"model": self.model.served, **body}
        needed = {name: sent[name] for name in ("model", what)}
        reply = self._sent(lambda: resource.with_raw_response.create(**needed, extra_body=sent))
        name, expected = reply.get("model"), self.model.pin or self.model.served
        if self._check_name and isinstance(name, str) and name and name != expected:
            said = shown_name(name, sent[what])
            raise self.fault(f"answered as {said}; expected {expected!r} (`pin: NAME`: how it must answer)")
        return reply

    def _sent(self, ask: Callable[[], Any]) -> Json:
        import openai

        try:
            content = ask().content
        except openai.APIStatusError as error:
            raise self._refusal(error.status_code, str(error)) from None
        except openai.APITimeoutError:
            raise self._unreachable(f"gave no reply within {self.model.timeout:g} s", 408) from None
        except openai.APIConnectionError as error:
            refused = "connect" in type(error.__cause__).__name__.lower()
            raise self._unreachable("cannot be reached" if refused else "broke the connection") from None
        try:
            reply = json.loads(content)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            raise Unreachable(f"{self.model.name}: its server sent a reply that is no whole JSON object")
        self._count_tokens(reply)
        return reply

    def _refusal(self, status: int, words: str) -> Exception:
        key = self.model.api_key_env
        if status in (401, 403):
            sent = f"the key in {key}" if key else "a request without a key"
            mend = f"a valid key in the environment variable {key}" if key else "`api_key_env: NAME`"
            return self.fault(f"refused {sent} ({status}); expected {mend}")
        if status in _PASSING or status >= 500:
            return self._unreachable(f"answered {status}", status)
        if status < 400:
            return self.fault(f"sends elsewhere ({status}); expected the address itself")
        return Refusal(status, bool(_TOO_LONG.search(words)))

    def _unreachable(self, what: str, status: int | None = None) -> Unreachable:
        tries = f"up to {self.model.retries + 1} tries" if self.model.retries else "1 try"
        return Unreachable(f"{self.model.name}: its server {what} ({tries})", status=status)

    def _count_request(self, request: Any) -> None:
        with self._lock:
            self.usage.requests += 1
            self.usage.retries += request.headers.get("x-stainless-retry-count", "0") != "0"

    def _count_tokens(self, reply: Json) -> None:
        usage = reply.get("usage")
        if isinstance(usage, dict):
            with self._lock:
                self.usage.tokens_in += count_of(usage.get("prompt_tokens"))
                self.usage.tokens_out += count_of(usage.get("completion_tokens"))


def sdk_client(model: OpenAIModel, on_request: Callable[[Any], None] = lambda _: None) -> "openai.OpenAI":
    """Return the SDK's client for this address, without redirects and the environment's settings. `on_request` is called
    with every request that is sent. Raises as `Client`.
    """
    try:
        import openai
    except ImportError:
        raise ModelError(
            f"{model.name}: engine openai needs the openai package: pip install 'robustcbrn-eval[openai]'"
        ) from None
    refuse_servers(model.name)
    key = key_for(model.name, model.api_key_env, model.base_url)
    # A proxy of the environment would carry prompts for this machine off it.
    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        trust_env=host_of(model.base_url) is not None,
        timeout=model.timeout,
        event_hooks={"request": [on_request]},
    )
    client = openai.OpenAI(
        base_url=model.base_url,
        api_key=key,
        timeout=model.timeout,
        max_retries=model.retries,
        http_client=http,
    )
    # Set by the environment, and meant for another server than this may be.
    client.organization = client.project = None
    return client


def shown_name(said: object, prompt: object = "") -> str:
    """Return a name that a server gave, as an error may show it: not where it may be a piece of a prompt."""
    if is_name(said) and str(said) not in str(prompt):
        return repr(said)
    return "a name that is not shown, because it is unlike a model's"


def is_name(said: object) -> bool:
    """Return whether this looks like a model's name: one word of at most 100 characters."""
    return isinstance(said, str) and bool(_NAME.fullmatch(said))


def count_of(value: object) -> int:
    """Return a count that a server gave; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else 0
