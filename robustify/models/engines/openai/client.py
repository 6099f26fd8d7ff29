"""Client of an OpenAI-compatible server, based on the openai SDK, and the errors of these servers.

The SDK retries temporary errors (429, 5xx, timeout, broken connection) with growing pauses. Redirects are not followed. Of
the environment, a request contains only the key that the config names. The words of a server are only searched and never
repeated, because they may quote a prompt.
"""

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from email.utils import mktime_tz, parsedate_tz
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any
from urllib.parse import urlsplit

from robustify.base.errors import ModelError, UsageError, installing
from robustify.models.model_settings import OpenAIModel, host_of, refuse_servers

_PASSING = (408, 409, 429)
"""Statuses below 500 that the SDK retries."""
_OF_A_FIELD = (400, 404, 405, 415, 422)
"""Statuses with which a server rejects a path, a model, a field, or a prompt."""
_CAUSES: Mapping[int, tuple[str, str]] = {
    402: ("payment-required", ": it asks for payment, so the credits may be used up"),
    404: (
        "unknown-model-or-path",
        ": it has no such model or path. Check `base_url`, which usually ends in /v1, `model`, and whether it is loaded",
    ),
    405: ("unknown-path", ": it has no such path. Check `base_url`, which usually ends in /v1"),
    413: ("oversized-request", ": it is too large for the server, or for a proxy in front of it"),
}
"""Code and likely cause of a refusal, by its status."""
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size|overflow)|maximum.{0,20}(length|tokens|allowed)|too (long|many tokens)"
    r"|(longer|greater|more) than.{0,30}(length|tokens|seq)|reduce (the|your) (length|prompt|input|messages?)"
    r"|(prompt|input|sequence|token)s?\b.{0,40}(exceed|\bfit\b)|inputs?\W{1,2}(tokens|must have)|(input|prompt) length"
    r"|max_(seq|model)_len|max length",
    re.I,
)
_FILTERED = re.compile(
    r"filter|content.{0,20}(polic|management|risk|violat|safety|unsafe)|polic(y|ies).{0,30}violat|violat.{0,40}polic"
    r"|moderat|flagged|usage (polic|guideline)|(inappropriate|sensitive|unsafe|harmful).{0,20}content|inspection|guardrail",
    re.I,
)
_LONGEST_PAUSE = 120
"""Longest time in seconds that the SDK waits if a server asks for it (`Retry-After`)."""
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,99}|([A-Za-z]:|[~.]+)?[/\\][\w.:/\\@+~-]{0,199}", re.ASCII)
"""Name or path of a model."""
_NO_JSON = {
    b"<": (
        "web-page-reply",
        "is a web page. Set `base_url` to the address of the API, which usually ends in /v1",
    ),
    b"d": ("streamed-reply", "is streamed, although `stream: false` was sent"),
}
"""Code and fault of a reply that is not JSON, by its first character."""
SENT = {
    *("accept", "accept-encoding", "authorization", "connection"),
    *("content-length", "content-type", "host", "user-agent", "x-stainless-raw-response"),
}
"""Headers of a request. The SDK adds others that describe it and this machine."""

Json = dict[str, Any]


class Unreachable(ModelError):
    """Raised if a server sends no usable reply after all retries. `status` is the status of the last reply, 408 after a
    timeout, or None if the connection broke or the reply was incomplete."""

    def __init__(self, *lines: str, status: int | None = None, code: str = "") -> None:
        super().__init__(*lines, code=code)
        self.status = status


class Refusal(ModelError):
    """Raised for a request that the server would reject again. Its path, model, or field is unknown, its prompt is too long
    (`too_long`), or a content filter blocks it (`filtered`)."""

    def __init__(self, *lines: str, status: int = 0, code: str = "") -> None:
        super().__init__(*lines, code=code)
        self.status = status

    @property
    def too_long(self) -> bool:
        """Whether the prompt does not fit into the model's context."""
        return self.code == "prompt-too-long"

    @property
    def filtered(self) -> bool:
        """Whether a content filter blocks the prompt."""
        return self.code == "filtered-prompt"


class Client:
    """Thread-safe client of one server, which repeats a request up to `retries` times. With `check_name`, replies from a
    model with another name are refused. Raise `ModelError` if the openai package is not installed, `UsageError` if a proxy
    variable cannot be used, and the errors of `refuse_servers` and `api_key`."""

    def __init__(self, model: OpenAIModel, *, check_name: bool = True) -> None:
        try:
            import openai

            from robustify.models.engines.openai.sdk import OpenAI
        except ImportError:
            raise ModelError(
                f"{model.name}: the openai engine needs the openai package, which is not installed. Run "
                f"{installing('openai')}.",
                code="missing-package",
            ) from None
        refuse_servers(model.name)
        key = model.api_key()
        self.model, self._check_name = model, check_name
        self.answered, self.retries = False, model.retries
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        is_remote, scheme = host_of(model.base_url) is not None, urlsplit(model.base_url).scheme
        try:
            http = openai.DefaultHttpxClient(
                follow_redirects=False,
                # For a server on this machine, a proxy from the environment would send prompts off the machine.
                trust_env=is_remote,
                # Without TLS, no certificates are loaded, which takes 20 ms. TLS would fail with this empty context.
                verify=is_remote or scheme == "https" or SSLContext(PROTOCOL_TLS_CLIENT),
                timeout=model.timeout,
                event_hooks={"request": [self._check_request], "response": [correct_status]},
            )
        except Exception:
            # The message may contain the password of a proxy.
            raise UsageError(
                f"{model.name}: the proxy settings ({_proxies() or 'none set'}) or the certificate settings "
                "(SSL_CERT_FILE, SSL_CERT_DIR) cannot be used. Begin each proxy address with http:// or https://, or unset "
                "the variables.",
                code="unusable-proxy",
            ) from None
        self._sdk = OpenAI(base_url=model.base_url, api_key=key, timeout=model.timeout, http_client=http)

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()

    def fault(self, what: str, *, code: str) -> ModelError:
        """Return an error about the server of this model. `what` is a verb phrase."""
        return ModelError(f"{self.model.name}: the server {what}", code=code)

    def models(self) -> Json:
        """Return the reply of `/v1/models`. Raise the errors of `completions`."""
        return self._send(self._sdk.models.with_raw_response.list)

    def completions(self, body: Mapping[str, Any]) -> Json:
        """Send these fields and the model's ID to `/v1/completions`, and return the reply. Raise `Refusal` if the server
        would reject the request again, `Unreachable` if it does not reply, and `ModelError` for a bad API key or another
        model."""
        return self._ask_model(self._sdk.completions, "prompt", body)

    def chat(self, body: Mapping[str, Any]) -> Json:
        """Return the reply of `/v1/chat/completions` to these fields and the model's ID. Raise errors like
        `completions`."""
        return self._ask_model(self._sdk.chat.completions, "messages", body)

    def _ask_model(self, resource: Any, prompt: str, body: Mapping[str, Any]) -> Json:
        fields = {"model": self.model.served, **body}
        required = {name: fields[name] for name in ("model", prompt)}
        reply = self._send(lambda: resource.with_raw_response.create(**required, extra_body=fields))
        self.answered = True
        name, expected = reply.get("model"), self.model.pin or self.model.served
        if self._check_name and isinstance(name, str) and name and name != expected:
            raise self.fault(
                f"replied as {shown_name(name, fields[prompt])}; expected {expected!r}. To expect another name, set `pin: "
                "NAME`.",
                code="other-model-name",
            )
        return reply

    def _send(self, ask: Callable[[], Any]) -> Json:
        import openai

        self._sdk.max_retries = self.retries
        try:
            content = ask().content
        except openai.APIStatusError as error:
            raise self._error_of(error.response, error.body) from None
        except openai.APITimeoutError:
            what = f"sent no reply within {self.model.timeout:g} s"
            raise self._unreachable(what, 408, code="server-timeout") from None
        except openai.APIConnectionError as error:
            if "connect" in type(error.__cause__).__name__.lower():
                raise self._unreachable("cannot be reached", code="unreachable-server") from None
            raise self._unreachable("broke the connection", code="broken-connection") from None
        reply = _parsed(content)
        if isinstance(reply, list):
            # Together lists its models in a bare list.
            reply = {"data": reply}
        if not isinstance(reply, dict):
            incomplete = ("incomplete-reply", "is not a complete JSON object")
            code, what = _NO_JSON.get(content.lstrip()[:1], incomplete)
            raise Unreachable(f"{self.model.name}: the server sent a reply that {what}", code=code)
        with self._lock:
            self.counts["tokens_in"] += count_in(reply, "prompt_tokens")
            self.counts["tokens_out"] += count_in(reply, "completion_tokens")
        return reply

    def _error_of(self, response: Any, body: object) -> ModelError:
        status, key = response.status_code, self.model.api_key_env
        error = refusal_of(self.model.name, status, body)
        if status in (401, 403):
            refused = f"the key in {key}" if key else "a request without a key"
            mend = f"the environment variable {key} to a valid key" if key else "`api_key_env: NAME`"
            return self.fault(f"refused {refused} ({status}). Set {mend}.", code="refused-api-key")
        if status < 400:
            what = f"redirects requests ({status}). Set `base_url` to the final address."
            return self.fault(what, code="redirecting-server")
        if status not in _PASSING and (status < 500 or isinstance(error, Refusal)):
            return error
        if (pause := retry_after(response.headers)) > _LONGEST_PAUSE:
            return self.fault(
                f"replied with status {status} and asks to wait {pause:.0f} s (`Retry-After`, {pause / 60:.0f} minutes). "
                "Run the same command again after that.",
                code="long-retry-delay",
            )
        return self._unreachable(f"replied with status {status}", status, code="failing-server")

    def _unreachable(self, what: str, status: int | None = None, *, code: str) -> Unreachable:
        tries = f"up to {self.retries + 1} tries" if self.retries else "1 try"
        if host_of(self.model.base_url) and (proxies := _proxies()):
            tries += f"; proxies: {proxies}"
        hint = "" if status else ". Check that an OpenAI-compatible server runs at its base_url."
        return Unreachable(f"{self.model.name}: the server {what} ({tries}){hint}", status=status, code=code)

    def _check_request(self, request: Any) -> None:
        with self._lock:
            self.counts["calls"] += 1
            self.counts["tried_again"] += request.headers.get("x-stainless-retry-count", "0") != "0"
        for name in set(request.headers) - SENT:
            del request.headers[name]
        request.headers["authorization"] = f"Bearer {self._sdk.api_key}"


def refusal_of(name: str, status: int, body: object) -> ModelError:
    """Return the error for an HTTP status that retries would not change: a `Refusal` if the request may be the cause."""
    # Only the start is read, because a prompt may follow.
    fields = ("code", "type", "message", "detail")
    values = [body.get(field, "") for field in fields] if isinstance(body, dict) else [body]
    words = " ".join(str(value)[:300] for value in values)
    code, cause = _CAUSES.get(status, ("refused-request", ""))
    if status in (400, 413, 422, 500) and _TOO_LONG.search(words):
        code, cause = "prompt-too-long", ": it does not fit into the model's context"
    elif status == 400 and _FILTERED.search(words):
        code, cause = "filtered-prompt", ": a content filter blocked it"
    elif status in _OF_A_FIELD and "stream" in words.lower():
        code, cause = "streaming-only", ": it only streams its replies, which is not supported"
    line = f"{name}: the server refused a request ({status}){cause}"
    if code == "prompt-too-long" or status in _OF_A_FIELD:
        return Refusal(line, status=status, code=code)
    return ModelError(line, code=code)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the number of seconds to wait according to a reply's headers, or 0 if the headers do not ask to wait."""
    text = headers.get("retry-after", "")
    try:
        return float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(text)
    except ValueError:
        date = parsedate_tz(text)
        return mktime_tz(date) - time.time() if date else 0.0


def correct_status(response: Any) -> None:
    """Replace status 200 with the status of the error in a reply, if there is one. Gateways send this if the server behind
    them fails."""
    content = response.read()
    match _parsed(content) if response.status_code == 200 and b'"error"' in content else None:
        case {"error": dict() | str() as error} | {"choices": [{"error": dict() as error}, *_]} if error:
            pass
        case {"object": "error"} as error:
            pass
        case _:
            return
    code = str(error.get("code") or error.get("status")) if isinstance(error, dict) else ""
    response.status_code = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 400


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _proxies() -> str:
    """Return the names of the environment variables that configure a proxy."""
    return ", ".join(sorted(name for name in os.environ if re.fullmatch("(https?|all|no)_proxy", name, re.I)))


def shown_name(name: object, prompt: object = "") -> str:
    """Return the model name that a server reports, or a placeholder if the name may be part of a prompt."""
    if is_name(name) and str(name) not in str(prompt):
        return repr(name)
    return "another name (not shown, because it does not look like a model name)"


def is_name(value: object) -> bool:
    """Return whether the value looks like a model name: one word of at most 100 characters."""
    return isinstance(value, str) and bool(_NAME.fullmatch(value))


def count_of(value: object) -> int:
    """Return a count reported by a server, or 0 if the value is not a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else 0


def count_in(reply: Json, name: str) -> int:
    """Return a count from the `usage` field of a reply, or 0 if it is missing."""
    usage = reply.get("usage")
    return count_of(usage.get(name)) if isinstance(usage, dict) else 0
