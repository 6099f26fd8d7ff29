"""The part of a reply that answers: without its reasoning, and out of a JSON object.

Reasoning tags are processed in one pass. A closing tag without an opening tag drops everything before it, and an opening
tag without a closing tag drops everything after it.
"""

import json
import re
from collections import deque
from typing import NamedTuple

# `[^<>]` keeps every attempt within its own tag, so that the search stays linear.
_TAG = re.compile(
    r"<(?P<close>/?)\s*(?:think|thinking|thoughts?|reasoning|scratchpad|analysis)(?:\s[^<>]*?)?(?P<alone>/?)>"
    r"|\[(?P<close2>/?)THINK\]|◁(?P<close3>/?)think▷",
    re.IGNORECASE,
)
_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_FINAL = re.compile(r"<\|channel\|>\s*final\b", re.IGNORECASE)
_ENDS = ("<|end|>", "<|return|>", "<|start|>", _CHANNEL)


def last_match(pattern: "re.Pattern[str]", text: str) -> "re.Match[str] | None":
    """Return the last match of a pattern, or None."""
    found = deque(pattern.finditer(text), maxlen=1)
    return found[0] if found else None


class ReasoningSplit(NamedTuple):
    """A reply without its reasoning. `unterminated` is true if the reasoning had no end."""

    text: str
    unterminated: bool


def split_reasoning(text: str) -> ReasoningSplit:
    """Remove the reasoning from a reply, in linear time and without raising."""
    if _CHANNEL in text:
        return _final_channel(text)
    kept: list[str] = []
    depth = at = 0
    for tag in _TAG.finditer(text):
        closes = bool(tag["close"] or tag["close2"] or tag["close3"])
        if tag["alone"] and not closes:
            continue
        if not closes:
            kept += [text[at : tag.start()]] if not depth else []
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept = []
        at = tag.end()
    said = "".join([*kept, "" if depth else text[at:]])
    return ReasoningSplit(said.strip(), depth > 0)


def _final_channel(text: str) -> ReasoningSplit:
    """Return the final channel of a reply. Without a final channel, the model stopped while it was reasoning."""
    found = last_match(_FINAL, text)
    if found is None:
        return ReasoningSplit("", True)
    header = text.find(_MESSAGE, found.end())
    start = found.end() if header < 0 else header + len(_MESSAGE)
    ends = [end for mark in _ENDS if (end := text.find(mark, start)) >= 0]
    return ReasoningSplit(text[start : min(ends, default=len(text))].strip(), False)


_RESULTS, _BESIDE = (
    {"answer", "final_answer", "result", "letter", "choice", "option"},
    {"reasoning", "explanation", "confidence"},
)


def json_answer(text: str) -> str | None:
    """Return the only member of a JSON object that names an answer, or None."""
    try:
        found = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    names = set(found or ()) - _BESIDE
    value = found[names.pop()] if found and len(names) == 1 and names <= _RESULTS else None
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
