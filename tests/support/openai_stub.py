"""An OpenAI-compatible server for tests, on 127.0.0.1: right by default, and wrong in one way at a time.

Its ways are those of real servers: an echo that pairs each token with the scores of the next place (llama-cpp-python),
log-probabilities of generated tokens alone (llama.cpp's own server), fields that are ignored (`transformers serve`). The
model behind it is a toy made of hashes, or any model that transformers loads.
"""

import json
import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from robustify.items.views import Request
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.engines.protocols import Logprob
from robustify.models.model_settings import OpenAIModel
from robustify.pipeline.config import Config, parse
from tests.support.serving import Answer, serving


@cache
def _drawn(seed: int, before: str, word: str) -> float:
    return 3 * int.from_bytes(sha256(f"{seed}|{before}|{word}".encode()).digest()[:4], "big") / 2**32


@cache
def _known(words: tuple[str, ...], seed: int, letters: bool, before: str) -> tuple[dict[int, float], float]:
    """The log-probabilities of the words that every toy knows, and the logarithm that normalizes those of other words."""
    weights = [_drawn(seed, before, word) for word in words]
    if letters and before.endswith(":"):
        weights[:4] = [weight + 4.0 for weight in weights[:4]]
    # The rest of the vocabulary has a share of its own, so that a token's number is of its context alone.
    total = math.log(sum(math.exp(weight) for weight in weights) + 100.0)
    return {t: weight - total for t, weight in enumerate(weights)}, total


class Toy:
    """A model of hashes: a token's log-probability depends on the two before it. Letters are likely after a colon.

    As any model behind the stub, it turns text to tokens and back, and gives after each token the log-probability of
    every token that may come next (`scored`).
    """

    WORDS = tuple(re.findall(r" \w+|[^ ]", " A B C D Rome Paris the., and\n red blue green"))

    def __init__(self, seed: int = 0, letters: bool = True) -> None:
        self.seed = seed
        self.letters = letters
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []
        for word in self.WORDS:
            self._id(word)

    def encode(self, text: str) -> list[int]:
        return [self._id(piece) for piece in re.findall(r" ?\w+|\n+| ?[^\w\s]+|\s", text)]

    def text(self, token: int) -> str:
        return self._texts[token]

    def scored(self, ids: Sequence[int]) -> list[dict[int, float]]:
        seen = set(ids)
        return [self._following(ids[max(0, i - 1) : i + 1], seen) for i in range(len(ids))]

    def _following(self, before: Sequence[int], seen: set[int]) -> dict[int, float]:
        told = "|".join(self._texts[t] for t in before)
        known, total = _known(self.WORDS, self.seed, self.letters, told)
        others = {t: _drawn(self.seed, told, self._texts[t]) - total for t in seen if t >= len(known)}
        return {**known, **others}

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._texts)
            self._texts.append(piece)
        return self._ids[piece]


class Loaded:
    """A model that transformers loads."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._lock = threading.Lock()

    def encode(self, text: str) -> list[int]:
        return [int(i) for i in self._tokenizer(text)["input_ids"]]

    def text(self, token: int) -> str:
        return str(self._tokenizer.decode([token]))

    def scored(self, ids: Sequence[int]) -> list[dict[int, float]]:
        with self._lock, self._torch.inference_mode():
            logits = self._model(self._torch.tensor([list(ids)])).logits[0].double()
            rows = self._torch.log_softmax(logits, dim=-1)
        return [dict(enumerate(row.tolist())) for row in rows]


Brain = Toy | Loaded


@dataclass
class Manner:
    """How the server behaves; may be changed while it runs.

    `echo`: "cut" forgets the front of the prompt. `faults`: a status, headers and, if wanted, a body for each of the next
    completions, or None. `fields`: statuses for requests with these fields. `streams`: words that refuse every request.
    `listing`: a status and a body instead of the list of models. `strict`: other names are unknown. `ids`: tokens are shown
    as numbers.
    `spoil`: what is wrong with the numbers of a prompt.
    `letters`: how a chat that is asked for a letter gives one, drawn from the model's probabilities; "" gives none, "cut"
    thinks until its length ends.
    `several`: it sends as many replies as are asked for, else one. `mute`: every so many replies names no letter.
    `filtered`: a word for which a request is refused. `ended`: so many completions write nothing, the text being at its
    end. `usage`: tokens are counted. `fix`: changes a reply to a body, which is the n-th.
    """

    served: str = "toy"
    says: str | None = None
    lists: tuple[str, ...] | None = None
    listing: tuple[int, Any] | None = None
    strict: bool = False
    root: str | None = None
    echo: Literal["right", "shifted", "missing", "ignored", "cut", "none"] = "right"
    prompt_logprobs: bool = False
    top: int = 20
    chat: bool = True
    completions: bool = True
    chat_field: str = "max_tokens"
    letters: Literal["", "structured", "first", "cut"] = ""
    several: bool = True
    mute: int = 0
    filtered: str = ""
    ended: int = 0
    usage: bool = True
    max_length: int | None = None
    key: str | None = None
    faults: list[tuple[Any, ...] | None] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    streams: str = ""
    ids: bool = False
    spoil: Literal["", "fewer", "null", "nan", "positive", "half", "hang"] = ""
    spoil_after: int = 0
    service: float = 0.0
    fix: Callable[[dict[str, Any], dict[str, Any], int], None] | None = None


class Stub:
    """The running server: its address, its manner, and what it has seen."""

    def __init__(self, brain: Brain, manner: Manner) -> None:
        self.brain = brain
        self.manner = manner
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._replies = 0
        self._lock = threading.Lock()
        self.url = ""

    @property
    def completions(self) -> int:
        return len(self.bodies)

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        manner = self.manner
        if manner.key is not None and headers.get("authorization") != f"Bearer {manner.key}":
            return Answer(401, {"error": {"message": "bad key"}})
        if path == "/v1/models" and manner.listing is not None:
            return Answer(*manner.listing)
        if path == "/v1/models":
            names = (manner.served,) if manner.lists is None else manner.lists
            return Answer(200, {"object": "list", "data": [{"id": n, "root": manner.root} for n in names]})
        if manner.strict and body["model"] != manner.served:
            return Answer(404, {"error": {"message": "no model"}})
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            n = len(self.bodies)
            fault = manner.faults.pop(0) if manner.faults else None
        if fault is not None:
            status, headers, body = (*fault, {"error": {"message": "the toy is tired"}})[:3]
            return Answer(status, body, headers)
        refused = next((status for name, status in manner.fields.items() if name in body), None)
        if refused or (manner.streams and path.startswith("/v1")):
            return Answer(refused or 400, {"error": {"message": manner.streams}})
        answer = Answer(404, {"error": {"message": "no such path"}})
        if path == "/v1/chat/completions" and manner.chat:
            answer = self._chat(body)
        elif path == "/v1/completions" and manner.completions:
            answer = self._made(body, manner.spoil if n > manner.spoil_after else "")
        if manner.fix is not None and answer.status == 200:
            manner.fix(answer.body, body, n)
        return answer

    def _chat(self, body: dict[str, Any]) -> Answer:
        if self.manner.chat_field not in body:
            return Answer(400, {"error": {"message": f"use {self.manner.chat_field}"}})
        said = body["messages"][-1]["content"]
        ids = self.brain.encode(said)
        if self._too_long(ids):
            return _too_long()
        if self.manner.filtered and self.manner.filtered in said:
            return Answer(400, {"error": {"message": "stopped by a filter"}})
        n = body.get("n", 1) if self.manner.several else 1
        letters = self._letters(said)
        texts = [self._said(said, letters, "response_format" in body) for _ in range(n)]
        end = "length" if self.manner.letters == "cut" else "stop"
        choices = [
            {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": end}
            for i, text in enumerate(texts)
        ]
        return Answer(200, self._reply(choices, len(ids), 2 * n))

    def _letters(self, prompt: str) -> list[tuple[str, float]]:
        """The letters that the prompt names and their probabilities, or none if it asks for no letter."""
        context, asked, names = prompt.partition("\n\nReply with one letter")
        if not self.manner.letters or not asked:
            return []
        after = self.brain.scored(self.brain.encode(context))[-1]
        by_word = {self.brain.text(t): math.exp(lp) for t, lp in after.items()}
        named = [c for c in re.findall(r"\b[A-Z]\b", names) if f" {c}" in by_word] or ["A"]
        return [(c, by_word[f" {c}"]) for c in named]

    def _said(self, prompt: str, letters: list[tuple[str, float]], schema: bool) -> str:
        if not letters:
            return f"echo {len(prompt)}"
        with self._lock:
            self._replies += 1
            n = self._replies
        if self.manner.letters == "cut" or (self.manner.mute and n % self.manner.mute == 0):
            return "I would rather not say."
        drawn = random.Random(f"{prompt}|{n}").choices(*zip(*letters, strict=True))[0]
        return (
            json.dumps({"letter": drawn})
            if schema and self.manner.letters == "structured"
            else f"{drawn}. So it is."
        )

    def _too_long(self, ids: Sequence[int]) -> bool:
        return self.manner.max_length is not None and len(ids) >= self.manner.max_length

    def _made(self, body: dict[str, Any], spoil: str) -> Answer:
        manner, prompt = self.manner, body["prompt"]
        time.sleep(manner.service)
        ids = self.brain.encode(prompt)
        if self._too_long(ids):
            return _too_long()
        if (body.get("logprobs") or 0) > manner.top and manner.echo != "ignored":
            return Answer(400, {"error": {"message": f"logprobs must be at most {manner.top}"}})
        with self._lock:
            ended = manner.ended > 0
            manner.ended -= ended
        choice = _Completion(self.brain, manner, spoil, ids, body, ended).choice()
        answer = Answer(200, self._reply([choice], len(ids), 1))
        answer.half, answer.hang = spoil == "half", spoil == "hang"
        return answer

    def _reply(self, choices: list[dict[str, Any]], n_in: int, n_out: int) -> dict[str, Any]:
        usage = {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}
        name = self.manner.says or self.manner.served
        counted = {"usage": usage} if self.manner.usage else {}
        return {"id": "stub", "object": "text_completion", "model": name, "choices": choices, **counted}


@dataclass
class _Completion:
    """One completion of one token, as a server of this manner shows it."""

    brain: Brain
    manner: Manner
    spoil: str
    ids: list[int]
    body: dict[str, Any]
    ended: bool = False

    def choice(self) -> dict[str, Any]:
        after = self.brain.scored(self.ids)
        drawn = max(after[-1], key=lambda t: after[-1][t])
        row = [*self.ids, drawn]
        own = [None, *(after[i - 1][row[i]] for i in range(1, len(row)))]
        out: dict[str, Any] = {"index": 0, "text": self.brain.text(drawn), "finish_reason": "length"}
        if self.manner.prompt_logprobs and self.body.get("prompt_logprobs") is not None:
            out["prompt_logprobs"] = self._entries(own[:-1])
        wanted = self.body.get("logprobs")
        if wanted and self.manner.echo != "ignored":
            out["logprobs"] = self._logprobs(row, own, after, wanted)
        if self.ended:
            out |= {"text": "", "finish_reason": "stop"}
            shown = out.get("logprobs") or {}
            out["logprobs"] = {name: told[:-1] for name, told in shown.items()} if shown else None
        return out

    def _entries(self, own: list[float | None]) -> list[Any]:
        told = self._spoiled(own)
        return [
            None if i == 0 else {str(t): {"logprob": lp, "rank": 1, "decoded_token": self.brain.text(t)}}
            for i, (t, lp) in enumerate(zip(self.ids, told, strict=False))
        ]

    def _logprobs(self, row: list[int], own: list[float | None], after: Any, wanted: int) -> dict[str, Any]:
        n, echo = len(self.ids), self.manner.echo
        if echo == "missing":
            listed = self._listed(after[n - 1], wanted)
            return {
                "content": [{"token": self.brain.text(row[n]), "logprob": own[n], "top_logprobs": listed}]
            }
        start = 0 if self.body.get("echo") and echo != "none" else n
        if echo == "shifted" and start == 0:
            # llama-cpp-python: token i with the scores that predict token i + 1.
            own = [None, *(after[i][row[i]] for i in range(1, n)), own[n]]
        if echo == "cut" and start == 0:
            start = min(4, n)
        texts, told = [self._shown(t) for t in row[start:]], own[start:]
        if start == 0:
            told = self._spoiled(told)
            texts = texts[: len(told)]
        tops = [self._best(after[i - 1], wanted) if i else None for i in range(start, n + 1)]
        return {"tokens": texts, "token_logprobs": told, "top_logprobs": tops}

    def _spoiled(self, own: list[float | None]) -> list[float | None]:
        match self.spoil:
            case "fewer":
                return own[: max(1, len(own) // 2)]
            case "null" | "nan" | "positive":
                wrong = {"null": None, "nan": math.nan, "positive": 0.7}[self.spoil]
                return [*own[:1], wrong, *own[2:]]
            case _:
                return own

    def _best(self, scores: dict[int, float], n: int) -> dict[str, float]:
        best = sorted(scores, key=lambda t: -scores[t])[:n]
        return {self._shown(t): scores[t] for t in reversed(best)}

    def _shown(self, token: int) -> str:
        return f"token_id:{token}" if self.manner.ids else self.brain.text(token)

    def _listed(self, scores: dict[int, float], n: int) -> list[dict[str, Any]]:
        return [{"token": text, "logprob": lp, "bytes": None} for text, lp in self._best(scores, n).items()]


def _too_long() -> Answer:
    return Answer(
        400, {"error": {"message": "This model's maximum context length is smaller than the prompt"}}
    )


@contextmanager
def stub(brain: Brain | None = None, **manner: Any) -> Iterator[Stub]:
    """A server that runs for as long as the block."""
    running = Stub(brain or Toy(), Manner(**manner))
    with serving(lambda *asked: running.answer(*asked)) as address:  # which a test may replace
        running.url = f"{address}/v1"
        yield running


def model(server: Stub | str, **changes: Any) -> OpenAIModel:
    """The toy at this server or address."""
    url = server if isinstance(server, str) else server.url
    return OpenAIModel(**{"name": "toy", "engine": "openai", "base_url": url, "retries": 2, **changes})


def scored(server: Stub, home: Path, requests: Sequence[Request], **changes: Any) -> list[Logprob]:
    """The scores of these requests, kept in a cache in `home`."""
    with Cache(home) as cache, OpenAIServer(model(server, **changes), cache) as engine:
        return engine.loglikelihoods(requests)


def config(server: Stub | str, items: Path | str = "items.jsonl", **changes: Any) -> Config:
    """The config of a run. `models`: changes of one entry each; other changes are of the only one, but for `asking`."""
    asking = {"asking": changes.pop("asking")} if "asking" in changes else {}
    url = server if isinstance(server, str) else server.url
    entry = {"name": "toy", "engine": "openai", "base_url": url, "retries": 1}
    models = [{**entry, **change} for change in changes.pop("models", [changes])]
    tree = {"name": "toys", "sensitivity": "public", "data": [{"path": str(items)}], "models": models}
    return parse({**tree, "limits": {"min_kept": 1}, **asking}, "c.yaml")
