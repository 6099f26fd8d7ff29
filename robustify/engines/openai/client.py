"""The client of an OpenAI-compatible server, on the openai SDK: JSON out, JSON in, with retries.

What may pass (429, 5xx, no reply in time, a broken connection, half a reply) is tried again after a pause that doubles,
with jitter, and never before the server's own Retry-After, for which all threads wait. These retries are not the SDK's:
its own end no pause early, take no Retry-After above two minutes and do not repeat half a reply. What a server says in
words is never repeated, because it may quote a prompt. No redirect is followed, a reply under another model's name is
refused, and a reply is read up to a size and a time.
"""

import email.utils
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from robustify.engines.settings import OpenAIModel, host_of
from robustify.errors import ModelError, UsageError

if TYPE_CHECKING:
    import openai

FIRST_PAUSE = 0.5
"""Seconds before the first retry; doubled for each further one, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 30.0
LONGEST_RETRY_AFTER = 600.0
"""Seconds. A server that asks for a longer pause is given up."""
MOST_BYTES = 32 << 20
"""Of one reply, unpacked. The log-probabilities of 100,000 tokens take about 20 MiB."""
_RETRIED = (408, 409, 425, 429, 500, 502, 503, 504)
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,99}", re.ASCII)
_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|maximum.{0,20}(length|tokens)|too long", re.I)

Json = dict[str, Any]


class Refusal(Exception):
    """The server refuses this request: it does not know the path, the model or a field, or the prompt is too long."""

    def __init__(self, status: int, too_long: bool) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.too_long = too_long


class _Overrun(Exception):
    """A reply that is larger or takes longer than allowed. `status`: as of `Unreachable`."""

    def __init__(self, what: str, status: int | None) -> None:
        super().__init__(what)
        self.what, self.status = what, status


class Unreachable(ModelError):
    """No usable reply after all retries. `status`: of the last reply; None where the connection broke or half a reply
    came, and 408 where none came in time.
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

    def cost(self, model: OpenAIModel) -> float | None:
        """By the prices of the config, in their currency; None where it names none."""
        if model.price_in is None and model.price_out is None:
            return None
        return (self.tokens_in * (model.price_in or 0) + self.tokens_out * (model.price_out or 0)) / 1e6

    def as_log(self, model: OpenAIModel) -> Json:
        """As one line of run.log."""
        return {
            "model": model.name,
            "requests": self.requests,
            "tried_again": self.retries,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": self.cost(model),
        }


class Client:
    """Requests to one server. Any number of threads may use it. `check_name`: refuse replies under another model's name.

    Raises:
        ModelError: the openai package is not installed.
        UsageError: the environment variable with the key is not set.
    """

    def __init__(self, model: OpenAIModel, *, check_name: bool = True) -> None:
        self.model = model
        self.usage = Usage()
        self._check_name = check_name
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._not_before = 0.0
        self._sdk = sdk_client(model)

    def close(self) -> None:
        """Stop retrying and close the connections."""
        self._stop.set()
        self._sdk.close()

    def give_up(self) -> None:
        """From here on nothing is tried again."""
        self._stop.set()

    def fault(self, what: str) -> ModelError:
        """An error that says what the server of this model did."""
        return ModelError(f"{self.model.name}: its server {what}")

    def models(self) -> Json:
        """`/v1/models`. Raises as `completions`."""
        return self._sent(lambda: self._sdk.models.with_raw_response.list())

    def completions(self, body: Mapping[str, Any]) -> Json:
        """`/v1/completions` with these fields, the model's id added.

        Raises:
            Refusal: the server refuses this request and would again.
            Unreachable: it does not answer.
            ModelError: it refuses all requests (key), or answers as another model.
        """
        return self._of_this_model(self._sdk.completions, "prompt", body)

    def chat(self, body: Mapping[str, Any]) -> Json:
        """`/v1/chat/completions` with these fields (`messages` and others), the model's id added.

        Raises as `completions`.
        """
        return self._of_this_model(self._sdk.chat.completions, "messages", body)

    def _of_this_model(self, resource: Any, what: str, body: Mapping[str, Any]) -> Json:
        """The reply of this path of the server; `what` holds the prompt in a request."""
        sent = {"model": self.model.served, **body}
        needed = {name: sent[name] for name in ("model", what)}
        reply = self._sent(lambda: resource.with_raw_response.create(**needed, extra_body=sent))
        name, expected = reply.get("model"), self.model.pin or self.model.served
        if self._check_name and isinstance(name, str) and name and name != expected:
            said = shown_name(name, sent[what])
            raise self.fault(f"answered as {said}; expected {expected!r} (`pin: NAME`: how it must answer)")
        return reply

    def _sent(self, ask: Callable[[], Any]) -> Json:
        n = 0
        while True:
            self._wait_for_all()
            with self._lock:
                self.usage.requests += 1
                self.usage.retries += n > 0
            reply = self._tried(ask)
            if isinstance(reply, dict):
                self._count(reply)
                return reply
            if n == self.model.retries or self._stop.is_set():
                tries = f"{n + 1} tries" if n else "1 try"
                raise Unreachable(
                    f"{self.model.name}: its server {reply.what} ({tries})", status=reply.status
                )
            self._pause(n, reply)
            n += 1

    def _tried(self, ask: Callable[[], Any]) -> "Json | _Fault":
        import openai

        try:
            return _json(ask().content)
        except openai.APIStatusError as error:
            return self._refused(error.status_code, error.response.headers, str(error))
        except openai.APITimeoutError:
            return _Fault(f"gave no reply within {self.model.timeout:g} s", 408)
        except (openai.APIConnectionError, _Overrun) as error:
            cause = error if isinstance(error, _Overrun) else error.__cause__
            if isinstance(cause, _Overrun) and cause.status is None:
                raise Unreachable(f"{self.model.name}: its server {cause.what}") from None
            if isinstance(cause, _Overrun):
                return _Fault(cause.what, cause.status)
            refused = "refused" in str(cause).lower() or "connect" in type(cause).__name__.lower()
            return _Fault("cannot be reached" if refused else "broke the connection")

    def _refused(self, status: int, headers: Mapping[str, str], words: str) -> "_Fault":
        key = self.model.api_key_env
        if status in (401, 403):
            sent = f"the key in {key}" if key else "a request without a key"
            mend = f"a valid key in the environment variable {key}" if key else "`api_key_env: NAME`"
            raise self.fault(f"refused {sent} ({status}); expected {mend}")
        if status in _RETRIED:
            return _Fault(f"answered {status}", status, retry_after(headers))
        if 300 <= status < 400:
            raise self.fault(f"sends elsewhere ({status}); expected the address itself")
        raise Refusal(status, bool(_TOO_LONG.search(words)))

    def _pause(self, n: int, fault: "_Fault") -> None:
        if fault.retry_after is None:
            self._stop.wait(min(LONGEST_PAUSE, FIRST_PAUSE * 2**n) * random.uniform(0.5, 1.0))
            return
        if fault.retry_after > LONGEST_RETRY_AFTER:
            raise Unreachable(
                f"{self.model.name}: its server {fault.what} and wants a pause of {fault.retry_after:.0f} s; expected "
                f"at most {LONGEST_RETRY_AFTER:.0f} s: come back later",
                status=fault.status,
            )
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + fault.retry_after)

    def _wait_for_all(self) -> None:
        # Jitter, so that not all threads come back in the same moment.
        while (left := self._not_before - time.monotonic()) > 0 and not self._stop.is_set():
            self._stop.wait(left + random.uniform(0, 0.1 * min(left, 1.0)))

    def _count(self, reply: Json) -> None:
        usage = reply.get("usage")
        if isinstance(usage, dict):
            with self._lock:
                self.usage.tokens_in += count_of(usage.get("prompt_tokens"))
                self.usage.tokens_out += count_of(usage.get("completion_tokens"))


@dataclass(frozen=True, slots=True)
class _Fault:
    """A failure that is tried again, and the pause in seconds that the server asks for."""

    what: str
    status: int | None = None
    retry_after: float | None = None


def sdk_client(model: OpenAIModel) -> "openai.OpenAI":
    """The SDK's client for this address, without its retries, its redirects and the environment's settings.

    Raises as `Client`.
    """
    try:
        import openai
    except ImportError:
        raise ModelError(
            f"{model.name}: engine openai needs the openai package: pip install 'robustcbrn-eval[openai]'"
        ) from None
    key = os.environ.get(model.api_key_env, "") if model.api_key_env else "none"
    if not key:
        raise UsageError(
            f"{model.name}: the environment variable {model.api_key_env} is not set; expected the server's key in it"
        )
    # A proxy of the environment would carry prompts for this machine off it.
    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        trust_env=host_of(model.base_url) is not None,
        timeout=model.timeout,
        event_hooks={"request": [_begun], "response": [partial(_limited, model.timeout)]},
    )
    client = openai.OpenAI(
        base_url=model.base_url, api_key=key, timeout=model.timeout, max_retries=0, http_client=http
    )
    # Set by the environment, and meant for another server than this may be.
    client.organization = client.project = None
    return client


def _begun(request: Any) -> None:
    request.extensions["begun"] = time.monotonic()


def _limited(seconds: float, response: Any) -> None:
    """Let the body be read up to `MOST_BYTES` unpacked, and up to these seconds since the request was begun.

    The client unpacks in pieces of at most 1 MiB. Its own time limit is that of one piece.
    """
    pieces, until = response.iter_bytes, response.request.extensions["begun"] + seconds

    def limited() -> Iterator[bytes]:
        size = 0
        for piece in pieces():
            size += len(piece)
            if size > MOST_BYTES:
                raise _Overrun(
                    f"sent more than {MOST_BYTES >> 20} MiB; expected a reply of that at most", None
                )
            if time.monotonic() > until:
                raise _Overrun(f"gave no whole reply within {seconds:g} s", 408)
            yield piece

    response.iter_bytes = limited


def shown_name(said: object, prompt: object = "") -> str:
    """A name that a server gave, as an error may show it: not where it may be a piece of a prompt."""
    if is_name(said) and str(said) not in str(prompt):
        return repr(said)
    return "a name that is not shown, because it is unlike a model's"


def is_name(said: object) -> bool:
    """Whether this looks like a model's name: one word of at most 100 characters."""
    return isinstance(said, str) and bool(_NAME.fullmatch(said))


def _json(content: bytes) -> "Json | _Fault":
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        return _Fault("sent a reply that is no whole JSON")
    return reply if isinstance(reply, dict) else _Fault("sent a reply that is no JSON object")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks for before the next try (RFC 9110, section 10.2.3; and OpenAI's own field)."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * unit
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, at.timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def count_of(value: object) -> int:
    """A count that a server gave; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else 0
