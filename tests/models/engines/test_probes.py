"""Probes of servers: each way of deceiving is found, by its code, and no honest server is refused, however weak its
model."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")

from robustify.items.views import Request
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai.probes import (
    LEAST_RATIO,
    PROBES,
    RESUMED,
    ProbeError,
    are_alike,
    likelihood_ratio,
)
from robustify.models.engines.protocols import Logprob
from tests.support.openai_stub import Stub, Toy, scored, stub

ITEMS = [
    Request(
        f"Which thing is number {number}?\nA. blue {number}\nB. red\nC. green {number}\nAnswer:", f" {letter}"
    )
    for number in range(12)
    for letter in "ABC"
]
PASSAGE = "A passage of many words goes on and on. " * 40
LONG = [*ITEMS, *(Request(f"{PASSAGE}\nA. up\nB. down\nC. left\nAnswer:", f" {letter}") for letter in "ABC")]
CHAT: dict[str, Any] = {"completions": False, "letters": "first"}
Text = Callable[[str], str]


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


def n_probes(server: Stub) -> int:
    return sum("\nH. " in json.dumps(body).replace("\\n", "\n") for body in server.bodies)


def picks(scores: Sequence[Logprob]) -> list[int]:
    return [int(np.argmax([one.total for one in scores[i : i + 3]])) for i in range(0, len(scores), 3)]


def liked(requests: Sequence[Request], weights: int = 0) -> list[int]:
    reader = Reader(weights)
    return ["ABC".index(reader.letter(request.context)) for request in requests[::3]]


def without_system(fix: Reader) -> Callable[..., None]:
    """A chat template without a place for system prompts, which its counts of tokens do not contain either."""

    def dropped(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        messages = [one for one in body["messages"] if one["role"] != "system"]
        reply["usage"]["prompt_tokens"] = sum(len(one["content"]) // 4 for one in messages)
        fix(reply, {**body, "messages": messages}, n)

    return dropped


HONEST: dict[str, dict[str, Any]] = {
    "sure": {"fix": Reader()},
    "draws": {"fix": Reader(sure=0.8)},
    "draws one at a time": {"fix": Reader(sure=0.8), "several": False},
    "sure, one at a time": {"fix": Reader(), "several": False},
    "too weak for a word": {"fix": Reader(obeys=False)},
    "guesses": {"fix": Reader(sure=0.5, obeys=False), "several": False},
    "refuses seeds": {"fix": Reader(), "several": False, "fields": {"seed": 422}},
    "counts no tokens": {"fix": Reader(), "usage": False},
    "template without system prompts": {"fix": without_system(Reader())},
    "refuses long prompts": {"fix": Reader(), "max_length": 180},
}

FAIL_BY_CHANCE = ("draws one at a time", "guesses", "template without system prompts")
"""Those that may miss a word by themselves, so that as many requests again decide."""


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_server_keeps_its_scores_and_is_sent_at_most_twelve_probes(
    kind: str, tmp_path: Path
) -> None:
    with stub(**CHAT, **HONEST[kind]) as server:
        first = scored(server, tmp_path, ITEMS, samples=9)
        wrong = sum(a != b for a, b in zip(picks(first), liked(ITEMS), strict=True))
        assert wrong <= (4 if kind == "guesses" else 1)
        assert 5 <= n_probes(server) <= (20 if kind in FAIL_BY_CHANCE else 12)
        server.bodies = []
        assert scored(server, tmp_path, ITEMS, samples=9) == first
        assert n_probes(server) == 0, "nothing is left to ask"


def cached_by_text(fix: Reader) -> Callable[..., None]:
    memory: dict[str, list[Any]] = {}

    def answered(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        fix(reply, body, n)
        reply["choices"] = memory.setdefault(json.dumps(body["messages"]), reply["choices"][:1])

    return answered


def with_policy(fix: Reader, *, alone: bool) -> Callable[..., None]:
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


def swapped(after: int) -> Callable[..., None]:
    one, two = Reader(0), Reader(1)
    return lambda reply, body, n: (one if n < after else two)(reply, body, n)


DISHONEST: dict[str, tuple[str, dict[str, Any]]] = {
    "cuts": ("cut-prompts", {"fix": Reader(read=tail(700)), "usage": False}),
    "cuts, and counts the whole": ("cut-prompts", {"fix": Reader(read=tail(700))}),
    "cuts one at a time": ("cut-prompts", {"fix": Reader(read=tail(700)), "several": False}),
    "cuts the middle": (
        "cut-prompts",
        {"fix": Reader(read=lambda p: p if len(p) < 900 else p[:400] + p[-500:])},
    ),
    "a cache by the text": ("copied-replies", {"fix": cached_by_text(Reader(sure=0.4)), "several": False}),
    "a policy": ("added-text", {"fix": with_policy(Reader(), alone=False)}),
    "another system prompt": ("changed-system-prompt", {"fix": with_policy(Reader(), alone=True)}),
    "weights change": ("changed-weights", {"fix": swapped(after=20)}),
}


@pytest.mark.parametrize("kind", DISHONEST)
def test_a_server_that_deceives_is_refused_by_the_code_of_what_it_does(kind: str, tmp_path: Path) -> None:
    code, manner = DISHONEST[kind]
    with stub(**CHAT, **manner) as server, pytest.raises(ProbeError, match="toy: the server") as e:
        scored(server, tmp_path, LONG, samples=5, concurrency=1)
    assert n_probes(server) <= 17
    assert e.value.code == code
    assert len(e.value.lines) == 1
    assert "xpected" in e.value.lines[0]
    assert "passage" not in str(e.value)
    with Cache(tmp_path) as cache:
        assert (cache.info()["rows"] > 0) == (code == "changed-weights"), "only the end is too late"


def test_each_probe_has_a_code_that_a_test_expects() -> None:
    codes = {probe.code for probes in PROBES.values() for probe in probes}
    assert codes == {code for code, _ in DISHONEST.values()}


@pytest.mark.parametrize("seeds", [True, False])
def test_copies_of_one_reply_are_asked_for_one_by_one(seeds: bool, tmp_path: Path) -> None:
    reader = Reader(sure=0.5)

    def copied(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        reader(reply, body, n)
        reply["choices"] = [reply["choices"][0]] * len(reply["choices"])

    refused = {} if seeds else {"seed": 400}
    with stub(**CHAT, fix=copied, fields=refused) as server:
        drawn = scored(server, tmp_path, ITEMS, samples=31)
        # The longest prompt is sent again, after a number, to count its tokens.
        sent = [b for b in server.bodies if b["messages"][-1]["content"].startswith("Which thing")]
    assert sum(a != b for a, b in zip(picks(drawn), liked(ITEMS), strict=True)) <= 1
    assert {"n" in body for body in sent} == {False}
    assert {"seed" in body for body in sent} == {seeds}


def broken(server: Stub, home: Path, requests: Sequence[Request]) -> None:
    server.manner.faults = [None] * 16 + [(400, {}, {"error": {"message": "no"}})] * 99
    with pytest.raises(Exception, match="refused"):
        scored(server, home, requests, samples=5, concurrency=1)
    server.manner.faults, server.bodies = [], []


def test_other_weights_at_a_resume_start_again_and_the_same_weights_go_on(tmp_path: Path) -> None:
    with stub(**CHAT, fix=Reader(0)) as server:
        broken(server, tmp_path, ITEMS)
        with Cache(tmp_path) as cache:
            kept = cache.info()["rows"]
        assert 0 < kept < len(ITEMS)
        server.manner.fix = Reader(1)
        assert picks(scored(server, tmp_path, ITEMS, samples=5)) == liked(ITEMS, 1) != liked(ITEMS, 0)
        server.manner.fix, server.bodies = Reader(0), []
        assert picks(scored(server, tmp_path, ITEMS, samples=5)) == liked(ITEMS, 0)
        with Cache(tmp_path) as cache:
            assert cache.info()["rows"] == 2 * len(ITEMS)
        questions = sum("Which thing" in str(body) for body in server.bodies) - n_probes(server)
        assert questions < len(ITEMS) / 3, "what was kept of these weights is not asked again"


def test_scores_of_a_session_with_two_models_are_never_used_again(tmp_path: Path) -> None:
    with stub(**CHAT, fix=swapped(after=20)) as server:
        with pytest.raises(ProbeError):
            scored(server, tmp_path, ITEMS, samples=5, concurrency=1)
        server.manner.fix = Reader(0)
        assert picks(scored(server, tmp_path, ITEMS, samples=5)) == liked(ITEMS, 0)


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


def test_log_probabilities_show_a_cut_prompt_without_counts(tmp_path: Path) -> None:
    whole, cut = Attentive(), Attentive()
    cut.n = 130
    with stub(whole, echo="none", usage=False) as server:
        assert len(scored(server, tmp_path / "whole", LONG)) == len(LONG)
        assert 1 <= n_probes(server) <= 12
    with stub(cut, echo="none", usage=False) as server, pytest.raises(ProbeError) as e:
        scored(server, tmp_path, LONG)
    assert e.value.code == "cut-prompts"


def test_a_weak_model_is_never_blamed_and_a_strong_one_by_four_misses() -> None:
    hits, misses = [True] * 4, [False] * 8
    assert likelihood_ratio(misses[:4], hits) >= LEAST_RATIO
    assert (
        max(
            likelihood_ratio(misses[:n], right)
            for n in range(9)
            for right in ([], misses[:4], [True, *misses[:3]])
        )
        < LEAST_RATIO
    )
    assert (
        likelihood_ratio([True, *misses[:3]], hits)
        < LEAST_RATIO
        <= likelihood_ratio([True, *misses[:5]], hits)
    )


def test_chance_alone_makes_another_model_as_rarely_as_promised() -> None:
    rng = np.random.default_rng(1)

    def drawn(shares: Sequence[float]) -> tuple[str, str]:
        return (
            "".join(rng.choice(list("ABCD"), 8, p=shares)),
            "".join(rng.choice(list("ABCD"), 8, p=shares)),
        )

    alarms = sum(not are_alike(drawn(p), drawn(p), RESUMED) for p in rng.dirichlet([0.7] * 4, 200))
    assert alarms <= 10
    detected = sum(
        not are_alike(drawn((0.7, 0.1, 0.1, 0.1)), drawn((0.1, 0.7, 0.1, 0.1)), RESUMED) for _ in range(50)
    )
    assert detected >= 40
    assert are_alike((), ("AAAA",), RESUMED)
    assert are_alike(("AA",), ("BB",), RESUMED), "two replies each say too little"
