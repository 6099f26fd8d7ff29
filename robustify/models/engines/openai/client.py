"""Client of an OpenAI-compatible server, based on the openai SDK, and the errors of such servers.

The SDK retries temporary errors (429, 5xx, timeout, broken connection) with growing pauses. Redirects are not followed. Of
the environment, a request contains only the key that the config names. The words of a server are only searched and never
repeated, because they may quote a prompt.
"""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from robustify.base.errors import ModelError, UsageError, installing
from robustify.models.engines.settings import OpenAIModel, host_of, refuse_servers

_PASSING = (408, 409, 429)
"""Statuses below 500 that the SDK retries."""
_OF_A_FIELD = (400, 404, 405, 415, 422)
"""Statuses with which a server rejects a path, a model, a field, or a prompt."""
_WHY: Mapping[int, str] = {
    402: ": it asks for payment, so the credits may be used up",
    404: ": it has no such model or path. Check `base_url`, which usually ends in /v1, `model`, and whether it is loaded",
    405: ": it has no such path. Check `base_url`, which usually ends in /v1",
    413: ": it is too large for the server, or for a proxy in front of it",
}
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
    b"<": "is a web page. Set `base_url` to the address of the API, which usually ends in /v1",
    b"d": "is streamed, although `stream: false` was sent",
}
"""What is wrong with a reply that is not JSON, by its first character."""
SENT = {
    *("accept", "accept-encoding", "authorization", "connection"),
    *("content-length", "content-type", "host", "user-agent", "x-stainless-raw-response"),
}
"""Headers of a request. The SDK adds others from the environment, where they may be meant for another server."""

Json = dict[str, Any]


class Unreachable(ModelError):
    """Error for a server that sent no usable reply after all retries.
    `status` is that of the last reply, 408 after a timeout, or None if the connection broke or the reply was incomplete."""

    def __init__(self, *lines: str, status: int | None = None) -> None:
        super().__init__(*lines)
        self.status = status


class Refusal(ModelError):
    """Error for a request that the server would reject again. Its path, model, or field is unknown, its prompt is too long
    (`too_long`), or a content filter blocks it (`filtered`)."""

    def __init__(self, *lines: str, status: int = 0, too_long: bool = False, filtered: bool = False) -> None:
        super().__init__(*lines)
        self.status, self.too_long, self.filtered = status, too_long, filtered


class Client:
    """Thread-safe client of one server, which repeats a request up to `retries` times. With `check_name`, replies from a
    model with another name are refused. Raise `ModelError` if the openai package is not installed, `UsageError` if a proxy
    variable cannot be used, and the errors of `refuse_servers` and `api_key`."""

    def __init__(self, model: OpenAIModel, *, check_name: bool = True) -> None:
        try:
            import openai
        except ImportError:
            raise ModelError(
                f"{model.name}: the engine openai needs the package openai, which is not installed. Run "
                f"{installing('openai')}."
            ) from None
        refuse_servers(model.name)
        key = model.api_key()
        self.model, self._check_name = model, check_name
        self.answered, self.retries = False, model.retries
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        try:
            http = openai.DefaultHttpxClient(
                follow_redirects=False,
                # For a server on this machine, a proxy from the environment would send prompts off the machine.
                trust_env=host_of(model.base_url) is not None,
                timeout=model.timeout,
                event_hooks={"request": [self._check_request], "response": [correct_status]},
            )
        except Exception:
            # The message may contain the password of a proxy.
            raise UsageError(
                f"{model.name}: the proxy of the environment ({_proxies() or 'none is set'}), or its certificates "
                "(SSL_CERT_FILE, SSL_CERT_DIR), cannot be used. Set an address with http:// or https://, or unset them."
            ) from None
        self._sdk = openai.OpenAI(
            base_url=model.base_url, api_key=key, timeout=model.timeout, http_client=http
        )
        # The SDK reads these from the environment, and a value that is no header would end every request.
        self._sdk.organization = self._sdk.project = None
        self._sdk._custom_headers = {}

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()

    def fault(self, what: str) -> ModelError:
        """Return an error about the server of this model. `what` is a verb phrase."""
        return ModelError(f"{self.model.name}: the server {what}")

    def models(self) -> Json:
        """Return the reply of `/v1/models`, or raise one of the errors of `completions`."""
        return self._sent(self._sdk.models.with_raw_response.list)

    def completions(self, body: Mapping[str, Any]) -> Json:
        """Send these fields and the model's ID to `/v1/completions`, and return the reply. Raise `Refusal` if the server
        would reject the request again, `Unreachable` if it does not reply, and `ModelError` for a bad API key or another
        model."""
        return self._of_this_model(self._sdk.completions, "prompt", body)

    def chat(self, body: Mapping[str, Any]) -> Json:
        """Send these fields and the model's ID to `/v1/chat/completions`. Return and raise what `completions` does."""
        return self._of_this_model(self._sdk.chat.completions, "messages", body)

    def _of_this_model(self, resource: Any, prompt: str, body: Mapping[str, Any]) -> Json:
        sent = {"model": self.model.served, **body}
        needed = {name: sent[name] for name in ("model", prompt)}
        reply = self._sent(lambda: resource.with_raw_response.create(**needed, extra_body=sent))
        self.answered = True
        name, expected = reply.get("model"), self.model.pin or self.model.served
        if self._check_name and isinstance(name, str) and name and name != expected:
            raise self.fault(
                f"replied as {shown_name(name, sent[prompt])}; expected {expected!r}. To expect another name, set `pin: "
                "NAME`."
            )
        return reply

    def _sent(self, ask: Callable[[], Any]) -> Json:
        import openai

        self._sdk.max_retries = self.retries
        try:
            content = ask().content
        except openai.APIStatusError as error:
            raise self._error_of(error.response, error.body) from None
        except openai.APITimeoutError:
            raise self._unreachable(f"sent no reply within {self.model.timeout:g} s", 408) from None
        except openai.APIConnectionError as error:
            refused = "connect" in type(error.__cause__).__name__.lower()
            raise self._unreachable("cannot be reached" if refused else "broke the connection") from None
        reply = _parsed(content)
        if isinstance(reply, list):
            # Together lists its models in a bare list.
            reply = {"data": reply}
        if not isinstance(reply, dict):
            what = _NO_JSON.get(content.lstrip()[:1], "is not a complete JSON object")
            raise Unreachable(f"{self.model.name}: the server sent a reply that {what}")
        with self._lock:
            self.counts["tokens_in"] += count_in(reply, "prompt_tokens")
            self.counts["tokens_out"] += count_in(reply, "completion_tokens")
        return reply

    def _error_of(self, response: Any, body: object) -> ModelError:
        status, key = response.status_code, self.model.api_key_env
        error = refusal_of(self.model.name, status, body)
        if status in (401, 403):
            sent = f"the key in {key}" if key else "a request without a key"
            mend = f"the environment variable {key} to a valid key" if key else "`api_key_env: NAME`"
            return self.fault(f"refused {sent} ({status}). Set {mend}.")
        if status < 400:
            return self.fault(f"redirects requests ({status}). Set `base_url` to the final address.")
        if status not in _PASSING and (status < 500 or isinstance(error, Refusal)):
            return error
        pause = self._sdk._parse_retry_after_header(response.headers) or 0
        if pause > _LONGEST_PAUSE:
            return self.fault(
                f"replied with status {status} and asks to wait {pause:.0f} s (`Retry-After`, {pause / 60:.0f} minutes). "
                "Run the same command again after that."
            )
        return self._unreachable(f"replied with status {status}", status)

    def _unreachable(self, what: str, status: int | None = None) -> Unreachable:
        tries = f"up to {self.retries + 1} tries" if self.retries else "1 try"
        if host_of(self.model.base_url) and (proxies := _proxies()):
            tries += f"; proxies: {proxies}"
        hint = "" if status else ". Check that an OpenAI-compatible server runs at its base_url."
        return Unreachable(f"{self.model.name}: the server {what} ({tries}){hint}", status=status)

    def _check_request(self, request: Any) -> None:
        with self._lock:
            self.counts["calls"] += 1
            self.counts["tried_again"] += request.headers.get("x-stainless-retry-count", "0") != "0"
        for name in set(request.headers) - SENT:
            del request.headers[name]
        request.headers["authorization"] = f"Bearer {self._sdk.api_key}"


def refusal_of(name: str, status: int, body: object) -> ModelError:
    """Return the error for an HTTP status that a retry would not change, as a `Refusal` if it may depend on the request."""
    # Only the start is read, because a prompt may follow.
    fields = ("code", "type", "message", "detail")
    words = [body.get(field, "") for field in fields] if isinstance(body, dict) else [body]
    said = " ".join(str(word)[:300] for word in words)
    too_long = status in (400, 413, 422, 500) and bool(_TOO_LONG.search(said))
    filtered = status == 400 and not too_long and bool(_FILTERED.search(said))
    why = _WHY.get(status, "")
    if too_long:
        why = ": it does not fit into the model's context"
    elif filtered:
        why = ": a content filter blocked it"
    elif status in _OF_A_FIELD and "stream" in said.lower():
        why = ": it only streams its replies, which is not supported"
    line = f"{name}: the server refused a request ({status}){why}"
    if too_long or status in _OF_A_FIELD:
        return Refusal(line, status=status, too_long=too_long, filtered=filtered)
    return ModelError(line)


def correct_status(response: Any) -> None:
    """Replace status 200 with the error's own status if a reply contains an error. Gateways send such replies if the server
    behind them fails."""
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


def shown_name(said: object, prompt: object = "") -> str:
    """Return the model name that a server reports, or a placeholder if the name may be part of a prompt."""
    if is_name(said) and str(said) not in str(prompt):
        return repr(said)
    return "another name (not shown, because it does not look like a model name)"


def is_name(said: object) -> bool:
    """Return whether the value looks like a model name: one word of at most 100 characters."""
    return isinstance(said, str) and bool(_NAME.fullmatch(said))


def count_of(value: object) -> int:
    """Return a count reported by a server, or 0 if the value is not a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else 0


def count_in(reply: Json, name: str) -> int:
    """Return a count from the `usage` field of a reply, or 0 if it is missing."""
    usage = reply.get("usage")
    return count_of(usage.get(name)) if isinstance(usage, dict) else 0
