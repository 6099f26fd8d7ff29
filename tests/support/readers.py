"""Models behind the stub that obey their prompts, and proxies and caches before them, honest or not."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from tests.support.openai_stub import Stub, Toy

Text = Callable[[str], str]
Fix = Callable[[dict[str, Any], dict[str, Any], int], None]


def share(*parts: object) -> float:
    return int.from_bytes(sha256("|".join(map(str, parts)).encode()).digest()[:4], "big") / 2**32


class Reader:
    """The replies of a model that obeys its prompt: the option that the text names, or else the one that it likes. `sure`
    is the share of replies with that letter. It reads what `read` makes of a prompt."""

    def __init__(self, weights: int = 0, *, sure: float = 1.0, read: Text = str, obeys: bool = True) -> None:
        self.weights, self.sure, self.read, self.obeys = weights, sure, read, obeys
        self.drawn: Counter[str] = Counter()

    def letter(self, prompt: str) -> str:
        """The letter of one reply."""
        text = self.read(prompt).partition("\n\nReply with one letter")[0]
        options = re.findall(r"^([A-H])\. (.*)$", text, re.M)
        before = text[: text.find("\nA. ")]
        mentioned = [letter for letter, option in options if re.search(rf"\b{option}\b", before)]
        if not options:
            return "A"
        likes = max(options, key=lambda one: share(self.weights, one[1]))[0]
        best = mentioned[0] if self.obeys and len(mentioned) == 1 else likes
        self.drawn[prompt] += 1
        others = [letter for letter, _ in options if letter != best]
        u = share("draw", prompt, self.drawn[prompt])
        return best if u < self.sure else others[int(1e6 * u) % len(others)]

    def __call__(self, reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        """Write the replies to a request."""
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        for choice in reply["choices"]:
            choice["message"]["content"] = self.letter(prompt)


def tail(n: int) -> Text:
    """Keep the last words, and where there are more, a note that makes it look whole."""
    return lambda prompt: prompt if len(prompt) < n else prompt[-n:]


def without_system(fix: Reader) -> Fix:
    """A chat template without a place for system prompts, which its counts of tokens do not contain either."""

    def dropped(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        messages = [one for one in body["messages"] if one["role"] != "system"]
        reply["usage"]["prompt_tokens"] = sum(len(one["content"]) // 4 for one in messages)
        fix(reply, {**body, "messages": messages}, n)

    return dropped


def cached_by_text(fix: Reader) -> Fix:
    memory: dict[str, list[Any]] = {}

    def answered(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        fix(reply, body, n)
        reply["choices"] = memory.setdefault(json.dumps(body["messages"]), reply["choices"][:1])

    return answered


def with_policy(fix: Reader, *, alone: bool) -> Fix:
    """A proxy that puts a policy before the prompt, because of which one reply in three is A. `alone` drops other system
    prompts and counts no tokens."""

    def ruled(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        messages = [one for one in body["messages"] if not alone or one["role"] != "system"]
        fix(reply, {**body, "messages": messages}, n)
        reply["usage"]["prompt_tokens"] = 0 if alone else 900 + len(json.dumps(messages)) // 4
        for choice in reply["choices"]:
            if not alone and share("policy", json.dumps(messages)) < 0.34:
                choice["message"]["content"] = "A"

    return ruled


def swapped(after: int) -> Fix:
    one, two = Reader(0), Reader(1)
    return lambda reply, body, n: (one if n < after else two)(reply, body, n)


def copied(fix: Reader) -> Fix:
    """A server that sends one reply as often as it is asked for."""

    def repeat(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        fix(reply, body, n)
        reply["choices"] = [reply["choices"][0]] * len(reply["choices"])

    return repeat


class Attentive(Toy):
    """A model with log-probabilities whose likeliest letter is that of the option which the text names."""

    n = 10**9

    def scored(self, ids: Sequence[int]) -> list[dict[int, float]]:
        text = "".join(map(self.text, ids[-self.n :]))
        mentioned = [m[1] for m in re.finditer(r"^([A-H])\. (\w+)$", text, re.M) if text.count(m[2]) > 1]
        after = super().scored(ids)
        if len(mentioned) == 1:
            self.encode(" E F G H")
            after[-1] |= {self.encode(f" {c}")[0]: -9.0 for c in "ABCDEFGH"} | {
                self.encode(f" {mentioned[0]}")[0]: -0.1
            }
        return after


def n_probes(server: Stub) -> int:
    return sum("\nH. " in json.dumps(body).replace("\\n", "\n") for body in server.bodies)


READERS: dict[str, Callable[..., Fix]] = {
    "reads": lambda options=None: Reader(**(options or {})),
    "reads the end": lambda: Reader(read=tail(700)),
    "reads the ends": lambda: Reader(read=lambda p: p if len(p) < 900 else p[:400] + p[-500:]),
    "reads no system prompt": lambda: without_system(Reader()),
    "a cache": lambda: cached_by_text(Reader(sure=0.4)),
    "a policy": lambda alone: with_policy(Reader(), alone=alone),
    "other weights": lambda after: swapped(after),
}
