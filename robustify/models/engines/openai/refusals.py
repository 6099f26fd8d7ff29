"""Errors of an OpenAI-compatible server: what a status and the server's own words mean.

The words are only searched and never repeated, because they may quote a prompt.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from robustify.base.errors import ModelError

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
_STREAMED = re.compile("stream", re.I)


class Refusal(ModelError):
    """Error for a request that the server would reject again: unknown path, model, or field, a prompt that is too long
    (`too_long`), or one that a content filter blocks (`filtered`)."""

    def __init__(self, *lines: str, status: int = 0, too_long: bool = False, filtered: bool = False) -> None:
        super().__init__(*lines)
        self.status = status
        self.too_long = too_long
        self.filtered = filtered


def refusal_of(name: str, status: int, body: object) -> ModelError:
    """Return the error for a status that is not passing. `Refusal` is only for those that may depend on the request."""
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
    elif status in _OF_A_FIELD and _STREAMED.search(said):
        why = ": it only streams its replies, which is not supported"
    line = f"{name}: the server refused a request ({status}){why}"
    if too_long or status in _OF_A_FIELD:
        return Refusal(line, status=status, too_long=too_long, filtered=filtered)
    return ModelError(line)


def correct_status(response: Any) -> None:
    """Give a reply with the status 200 that is an error the status of this error. Gateways send such replies if the server
    behind them fails."""
    content = response.read()
    match parsed(content) if response.status_code == 200 and b'"error"' in content else None:
        case {"error": dict() | str() as error} | {"choices": [{"error": dict() as error}, *_]} if error:
            pass
        case {"object": "error"} as error:
            pass
        case _:
            return
    code = str(error.get("code") or error.get("status")) if isinstance(error, dict) else ""
    response.status_code = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 400


def parsed(content: bytes) -> object:
    """Parse a reply, or return None if it is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
