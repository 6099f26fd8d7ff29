"""What a model thinks aloud is cut off before anything is read. Nothing inside reasoning is ever an answer.

One pass over the tags, whatever they enclose: nested pairs by depth, a close without an open drops all before it,
an open without a close drops all after it and is told. It refuses to guess where unterminated reasoning ends.
"""

import re
from collections import Counter
from typing import NamedTuple

from robustify.freeform.labels.spans import last_match

MOST = 1_000_000
"""Characters of a reply that are read; a longer one is `unsafe_input`."""

# `[^<>]` keeps every attempt within its own tag, so that the search stays linear.
_TAG = re.compile(
    r"<(?P<close>/?)\s*(?P<name>think|thinking|thoughts?|reasoning|scratchpad|analysis)"
    r"(?:\s[^<>]*?)?(?P<alone>/?)>|\[(?P<close2>/?)THINK\]|◁(?P<close3>/?)think▷",
    re.IGNORECASE,
)
_FAMILY = {"thinking": "think", "thoughts": "thought"}
_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_FINAL = re.compile(r"<\|channel\|>\s*final\b", re.IGNORECASE)
_ENDS = ("<|end|>", "<|return|>", "<|start|>", _CHANNEL)


class ReasoningSplit(NamedTuple):
    """A reply without its reasoning. `unterminated`: reasoning was open at the end; `stray_close`: closed unopened."""

    text: str
    reasoning: str
    unterminated: bool
    stray_close: bool


def strip_thinking_reasoning_blocks(text: str) -> str:
    """The reply without its reasoning, stripped; empty where the reasoning never ended and nothing stood before it."""
    return split_reasoning(text).text


def split_reasoning(text: str) -> ReasoningSplit:
    """Cut a reply into what is said and what is thought. Linear in its length; never raises."""
    if _CHANNEL in text:
        return _channels(text)
    kept: list[str] = []
    thought: list[str] = []
    opened: list[str] = []
    # A search of the stack itself would make a reply of a million tags quadratic.
    open_now: Counter[str] = Counter()
    stray, place = False, 0
    for tag in _TAG.finditer(text):
        name, closes, alone = _read(tag)
        if alone:
            continue
        if not closes:
            if not opened:
                kept.append(text[place : tag.start()])
                place = tag.end()
            opened.append(name)
            open_now[name] += 1
        elif not opened:
            thought += [*kept, text[place : tag.start()]]
            kept, stray, place = [], True, tag.end()
        elif open_now[name]:
            _close(name, opened, open_now)
            if not opened:
                thought.append(text[place : tag.start()])
                place = tag.end()
    (thought if opened else kept).append(text[place:])
    said = "".join(kept).strip()
    return ReasoningSplit(said, "".join(thought).strip(), bool(opened), stray)


def _close(name: str, opened: list[str], open_now: "Counter[str]") -> None:
    while True:
        last = opened.pop()
        open_now[last] -= 1
        if last == name:
            return


def _read(tag: "re.Match[str]") -> tuple[str, bool, bool]:
    name = (tag["name"] or "think").lower()
    closes = bool(tag["close"] or tag["close2"] or tag["close3"])
    return _FAMILY.get(name, name), closes, bool(tag["alone"]) and not closes


def _channels(text: str) -> ReasoningSplit:
    """The final channel alone; a reply with channels and no final one stopped while it was thinking."""
    found = last_match(_FINAL, text)
    if found is None:
        return ReasoningSplit("", text.strip(), True, False)
    header = text.find(_MESSAGE, found.end())
    start = found.end() if header < 0 else header + len(_MESSAGE)
    ends = [end for mark in _ENDS if (end := text.find(mark, start)) >= 0]
    said = text[start : min(ends, default=len(text))]
    return ReasoningSplit(said.strip(), text[: found.start()].strip(), False, False)
