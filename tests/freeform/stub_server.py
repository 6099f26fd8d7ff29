"""A stub of an OpenAI-compatible server on 127.0.0.1 that judges by comparing words: no model, the same reply each time."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support import serving as servers


def _quoted(text: str, name: str) -> str:
    found = re.search(rf"<<<{name} (\w+)>>>\n(.*?)\n<<<END {name} \1>>>", text, re.S)
    return found[2] if found else ""


def _field(text: str, name: str) -> str:
    found = re.search(rf'{name}: "(.*?)"\n', text, re.S)
    return found[1] if found else ""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _label(fact: str, passage: str) -> str:
    there = _words(fact) & _words(passage)
    share = len(there) / max(1, len(_words(fact)))
    return "support" if share > 0.9 else "partial_support" if share > 0.6 else "not_support"


def reply(messages: list[dict[str, str]]) -> str:
    """What the stub says to a conversation."""
    last = next(m["content"] for m in reversed(messages) if m["role"] == "user")
    every = "\n".join(m["content"] for m in messages)
    if "nuggets" in every.casefold():
        passage = _quoted(last, "PASSAGE") or re.split(r"\nNuggets", last.partition("Passage: ")[2])[0]
        facts = re.findall(r"^\d+\. (.+)$", last, re.M)
        labels = [_label(fact, passage) for fact in dict.fromkeys(facts)]
        if "Markdown list" in every and "adaptive" not in every:
            return "\n".join(f"* {label}" for label in labels)
        return json.dumps(labels)
    answer, right = _field(last, "Student's Answer"), _field(last, "(?:Correct|Reference) Answer")
    if not answer:
        answer, right = _quoted(last, "ANSWER"), _quoted(last, "CORRECT ANSWER") or _quoted(last, "REFERENCE")
    same = bool(_words(right)) and len(_words(answer) & _words(right)) >= 0.5 * len(_words(right))
    same = same or answer.strip(" ().") == right.strip(" (").partition(")")[0]
    return json.dumps({"score": int(same), "verdict": "correct" if same else "incorrect"})


@contextmanager
def serving() -> Iterator[str]:
    """The address of the stub while it runs."""
    with servers.serving(lambda _path, body, _headers: servers.said(reply(body["messages"]))) as address:
        yield f"{address}/v1"
