"""A judge behind an OpenAI-compatible address: vLLM, llama.cpp or any other server of chat completions.

The standard library is the client. For a restricted set the address must be this machine: no proxy is used and no
redirect is followed, so that no text can be sent on. The key is read from the environment and is never kept.
"""

import http.client
import ipaddress
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from robustify.freeform.errors import JudgeConfigError, RestrictedDataError
from robustify.freeform.judge.prompting import Message
from robustify.freeform.judge.protocol import Call, Completion, JudgeCallError

TRIES = 3
_LARGEST_REPLY = 8_000_000
_LOCAL_NAMES = ("localhost", "ip6-localhost")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A server that sends elsewhere is not the one that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def is_loopback(url: str) -> bool:
    """Whether an address is this machine."""
    host = (urlsplit(url).hostname or "").casefold()
    if host in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HttpJudge:
    """A model behind `url` (`http://127.0.0.1:8000/v1`). `key_env` names the environment variable with its key.

    Raises:
        JudgeConfigError: no http address, or the named variable is not set.
        RestrictedDataError: `restricted`, and the address is not this machine.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_env: str | None = None,
        restricted: bool = False,
        timeout: float = 120.0,
        pause: float = 1.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise JudgeConfigError(f"judge address {url!r}: expected http://HOST:PORT/v1")
        if restricted and not is_loopback(url):
            raise RestrictedDataError(
                "judge: the set is restricted and the address is not this machine; serve the judge on 127.0.0.1"
            )
        if key_env is not None and not os.environ.get(key_env):
            raise JudgeConfigError(
                f"judge key: the environment variable {key_env} is not set; expected the key in it"
            )
        self.name = model
        self._url = url.rstrip("/") + "/chat/completions"
        self._key_env, self._timeout, self._pause = key_env, timeout, pause
        proxies = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)

    def __repr__(self) -> str:
        return f"HttpJudge({self.name!r})"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """One reply; a busy or failing server is asked up to three times.

        Raises:
            JudgeCallError: timeout, rate_limited, api_error or content_filter.
            JudgeConfigError: the server refuses the credentials or does not know the model.
        """
        body = {
            "model": self.name,
            "messages": [m.json() for m in messages],
            "temperature": call.temperature,
            "max_tokens": call.max_tokens,
            "seed": call.seed,
        }
        for number in range(TRIES):
            reply = self._tried(body)
            if isinstance(reply, Completion):
                return reply
            if reply.error_type == "content_filter" or number == TRIES - 1:
                raise reply
            time.sleep(self._pause * 2**number)
        raise JudgeCallError("api_error")

    def _tried(self, body: Mapping[str, Any]) -> Completion | JudgeCallError:
        try:
            return _completion(self._post(body), self.name)
        except JudgeCallError as fault:
            return fault

    def _post(self, body: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key_env is not None:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key_env, '')}"
        request = urllib.request.Request(self._url, json.dumps(body).encode("utf-8", "replace"), headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as reply:
                raw = reply.read(_LARGEST_REPLY)
            return json.loads(raw)
        except urllib.error.HTTPError as error:
            raise self._refused(error.code) from None
        except TimeoutError:
            raise JudgeCallError("timeout") from None
        except urllib.error.URLError as error:
            raise JudgeCallError(
                "timeout" if isinstance(error.reason, TimeoutError) else "api_error"
            ) from None
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            raise JudgeCallError("api_error") from None

    def _refused(self, code: int) -> Exception:
        match code:
            case 401 | 403:
                return JudgeConfigError(f"judge {self.name}: the server refused the credentials ({code})")
            case 404:
                return JudgeConfigError(f"judge {self.name}: the server knows no such model or address (404)")
            case 408 | 504:
                return JudgeCallError("timeout")
            case 429:
                return JudgeCallError("rate_limited")
            case _:
                return JudgeCallError("api_error")


def _completion(reply: Any, name: str) -> Completion:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        text, finish = message.get("content") or "", choice.get("finish_reason")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise JudgeCallError("api_error") from None
    if not isinstance(text, str):
        raise JudgeCallError("api_error")
    if finish == "content_filter" and not text.strip():
        raise JudgeCallError("content_filter")
    usage = reply.get("usage") or {}
    counts = {k: v for k, v in usage.items() if isinstance(v, int)} if isinstance(usage, dict) else {}
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return Completion(
        text,
        reasoning if isinstance(reasoning, str) else "",
        finish if isinstance(finish, str) else None,
        counts,
        name,
    )
