"""What servers do wrong, and what comes out: the rows of `tests/data/cases/servers.yaml`, played by the stub."""

import functools
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from robustify.base.errors import RobustifyError
from robustify.items.views import Asking, Request
from robustify.models.engines import check_model
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.engines.protocols import NO_LETTER, Logprob
from tests.support.cases import contents
from tests.support.openai_stub import Manner, Stub, Toy, model, scored, stub
from tests.support.readers import READERS, Fix, n_probes

CASES = contents("servers")
KINDS: dict[str, dict[str, Any]] = CASES["kinds"]
SECRETS = ("secret", "cat", "blue", "green", "passage")
"""Words of the items, which no error repeats."""


def lettered(number: int, passage: str = "") -> list[Request]:
    return [Request(f"{passage}A. blue\nB. red {number}\nC. green\nAnswer:", f" {c}") for c in "ABC"]


MIXED = [
    *(Request("Question: the secret cat\nAnswer:", f" {t}") for t in ("blue", "blue mat", "red", "12 21")),
    *(Request("A. blue\nB. red\nC. green\nAnswer:", f" {letter}") for letter in "ABC"),
]
PASSAGE = "A passage of many words goes on and on. " * 40
THINGS = [
    Request(f"Which thing is number {n}?\nA. blue {n}\nB. red\nC. green {n}\nAnswer:", f" {letter}")
    for n in range(12)
    for letter in "ABC"
]
LETTERED = [request for number in range(16) for request in lettered(number)]
REQUESTS: dict[str, list[Request]] = {
    "mixed": MIXED,
    "letters": MIXED[-3:],
    "texts": [Request(f"Question: the secret cat {n}\nAnswer:", f" {w}") for n in range(20) for w in ("red", "blue")],
    "lettered": LETTERED,
    "a long one": [*LETTERED, *lettered(99, "many words of a passage that goes on and on " * 20)],
    "a dense one": [*lettered(98, "x" * 2000 + " "), *lettered(7, ". , " * 70)],
    "a mat": [Request("the secret cat", " is a mat")],
    "a few": [*LETTERED[-9:], Request("The secret cat", " is blue mat")],
    "things": THINGS,
    "things and a passage": [
        *THINGS,
        *(Request(f"{PASSAGE}\nA. up\nB. down\nC. left\nAnswer:", f" {letter}") for letter in "ABC"),
    ],
    "across": [MIXED[0], Request("the secret", "ive cat")],
    **{f"of {n}": lettered(1, "x " * (n // 2)) for n in range(300, 900, 100)},
}  # fmt: skip


class Cut(Toy):
    """A model that reads the last 120 tokens."""

    def encode(self, text: str) -> list[int]:
        return super().encode(text)[-120:]


class Noisy(Toy):
    """A model whose numbers change a little with the batch, and those of unlikely tokens more."""

    def _following(self, before: Sequence[int], seen: set[int]) -> dict[int, float]:
        noise = random.Random()
        right = super()._following(before, seen)
        return {t: lp + noise.uniform(-0.03, 0.03) * max(1.0, -lp / 2) for t, lp in right.items()}


BRAINS: dict[str, Callable[[], Toy]] = {"toy": Toy, "cut": Cut, "noisy": Noisy, "other": lambda: Toy(seed=1)}


def counting(count: Callable[[dict[str, Any], int], int | None]) -> Fix:
    """Change the number of tokens in the prompt that a reply reports."""

    def fix(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        reply["usage"]["prompt_tokens"] = count(body, reply["usage"]["prompt_tokens"])

    return fix


def without_cached() -> Fix:
    """Count the tokens that follow the longest known beginning, as servers with a cache of prompts do."""
    known: list[list[str]] = []

    def count(body: dict[str, Any], n: int) -> int:
        words = (body.get("prompt") or body["messages"][-1]["content"]).split(" ")
        shared = [next((i for i, (a, b) in enumerate(zip(words, old, strict=False)) if a != b), min(len(words), len(old)))
                  for old in known]  # fmt: skip
        known.append(words)
        return max(1, n - max(shared, default=0))

    return counting(count)


def listing(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Fix:
    """Change the likely tokens after a prompt."""

    def fix(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        told = reply["choices"][0].get("logprobs")
        if told and not body.get("echo") and told.get("top_logprobs"):
            change(told["top_logprobs"][0], reply["choices"][0])

    return fix


def masking(value: float | None) -> Fix:
    return listing(lambda top, _: top.update(dict.fromkeys(sorted(top, key=lambda t: top[t])[:8], value)))


def doubling(top: dict[str, float], _: dict[str, Any]) -> None:
    top.update({"\u2581" + token.strip(): lp - 3 for token, lp in top.items()})


def masked_in_prompt(value: float) -> Fix:
    def fix(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        choice = reply["choices"][0]
        if " mat" in body["prompt"] and (entries := choice.get("prompt_logprobs")):
            next(iter(entries[-1].values()))["logprob"] = value
        elif " mat" in body["prompt"]:
            choice["logprobs"]["token_logprobs"][-2] = value

    return fix


def unfinished(content: str | None, reason: str | None, written: int) -> Fix:
    def fix(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        reply["usage"]["completion_tokens"] = written
        for choice in reply["choices"]:
            choice["message"]["content"], choice["finish_reason"] = content, reason

    return fix


FIXES: dict[str, Callable[..., Fix]] = {
    "one token more": lambda: counting(lambda _, n: n + 1),  # a mark at the beginning, which is not shown
    "a system prompt": lambda: counting(lambda _, n: n + 300),
    "without cached": without_cached,
    "always": lambda value: counting(lambda *_: value),
    "only with log-probabilities": lambda: counting(lambda body, n: n if "logprobs" in body else None),
    "rounded": lambda: counting(lambda _, n: -(-n // 64) * 64),
    "masked in the list": masking,
    "masked in the prompt": masked_in_prompt,
    "doubled": lambda: listing(doubling),
    "unfinished": unfinished,
    **READERS,
}


def spoil(server: Stub, row: dict[str, Any]) -> None:
    """Let the server do what the row says, after some right completions."""
    start = server.completions + row.get("after", 0)
    manner = server.manner
    for name, value in row.get("manner", {}).items():
        setattr(manner, name, value)
    manner.spoil_after = start
    if "replies" in row:
        replies = [(status, headers, body.encode() if isinstance(body, str) else body)
                   for status, headers, body in row["replies"]]  # fmt: skip
        manner.faults = [None] * row.get("after", 0) + replies * row.get("times", 1)
    brains = [server.brain, *(BRAINS[name]() for name in row.get("brains", ()))]
    fix = FIXES[row["fix"][0]](*row["fix"][1:]) if "fix" in row else None

    def fixed(reply: dict[str, Any], body: dict[str, Any], n: int) -> None:
        if n > start:
            reply["model"] = row.get("replies as", reply["model"])
            server.brain = brains[n % len(brains)] if row.get("in turns") else brains[-1]
            if fix is not None:
                fix(reply, body, n)

    manner.fix = fixed


def codes_of(work: Callable[[], object], shown: Sequence[str] = ()) -> list[Any]:
    """The code and exit code with which the work ends, without a word of an item, or nothing if it succeeds."""
    try:
        work()
    except RobustifyError as raised:
        error = raised
    else:
        return []
    assert not any(word in str(error) for word in SECRETS), str(error)
    assert all(f"'{word}'" in str(error) for word in shown), str(error)
    assert len(error.codes) == len(error.lines)
    return [error.code, error.exit_code]


def n_of_items(server: Stub) -> int:
    return sum("blue" in str(body) or "secret" in str(body) for body in server.bodies)


@functools.cache
def reference(kind: str, requests: str, samples: int | None) -> tuple[list[Logprob], int]:
    """The scores of a right server, and the number of its requests with text of items."""
    with TemporaryDirectory() as home, stub(**KINDS[kind]) as server:
        expected = scored(server, Path(home), REQUESTS[requests], concurrency=1, samples=samples)
        return expected, n_of_items(server)


def assert_right(found: Sequence[Logprob], expected: Sequence[Logprob], off: float = 1e-6) -> None:
    assert [s.n_tokens for s in found] == [s.n_tokens for s in expected]
    if any(s.draws for s in expected):
        assert NO_LETTER not in found
        assert all(math.isfinite(s.total) for s in found)
    else:
        assert [s.total for s in found] == pytest.approx([s.total for s in expected], abs=off)


def outcome(name: str, home: Path) -> dict[str, Any]:
    """What comes out of a row."""
    row = CASES["rows"][name]
    kind, requests, settings = (
        row["kind"],
        row.get("requests", "mixed"),
        {"concurrency": 1, **row.get("model", {})},
    )
    out: dict[str, Any] = {}
    with stub(BRAINS[row.get("brain", "toy")](), **KINDS[kind]) as server:
        settings["base_url"] = server.url.removesuffix(row.get("without", ""))
        spoil(server, row)
        for views in row.get("views", ()):
            asking = Asking(**CASES["views"][views]).templates()
            out[views] = codes_of(lambda asking=asking: check_model(model(server, **settings), home, asking))
        server.bodies = []
        found: list[Logprob] = []
        out["codes"] = codes_of(lambda: found.extend(scored(server, home, REQUESTS[requests], **settings)))
        with Cache(home) as cache:
            kept = cache.info()["rows"]
        out |= {"sent": server.completions, "items": n_of_items(server), "kept": kept}
        if n := n_probes(server):
            out["probes"] = n
        if not out["codes"]:
            assert_right(found, reference(kind, requests, settings.get("samples"))[0], row.get("off", 1e-6))
        elif row.get("resumes", True):
            expected, n_asked = reference(kind, requests, settings.get("samples"))
            server.manner, server.brain, server.bodies = Manner(**KINDS[kind]), Toy(), []
            settings["base_url"] = server.url
            assert_right(scored(server, home, REQUESTS[requests], **settings), expected)
            assert 0 < n_of_items(server) < n_asked + (kept == 0)
    return out


def written(name: str) -> dict[str, Any]:
    """What comes out of a row of `writes`."""
    row = CASES["writes"][name]
    prompts = row.get("prompts", ["x" * n for n in range(1, 20)])
    prompts = [REQUESTS[prompts][-1].context] if isinstance(prompts, str) else prompts
    found: list[Any] = []
    with (
        stub(BRAINS[row.get("brain", "toy")](), **row.get("server", {})) as server,
        OpenAIServer(model(server)) as engine,
    ):
        engine.write(row.get("first", ["Say hello."] * 3), max_tokens=4)
        if "brains" in row:
            engine.fingerprint()
        spoil(server, row)
        codes = codes_of(
            lambda: found.extend(engine.write(prompts, max_tokens=7)), row["gives"].get("shown", ())
        )
        out: dict[str, Any] = {"codes": codes}
        if not codes:
            out["chat"] = engine.has_chat_template
            out["replies"] = [[str(reply), reply.finish_reason] for reply in found]
            out["n"] = len(found)
    return {key: value for key, value in out.items() if key in row["gives"]}
