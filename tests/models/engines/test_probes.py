"""Probes of servers: each way of deceiving is found, by its code, and no honest server is refused, however weak its
model."""

from collections.abc import Sequence
from pathlib import Path

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
from tests.support.openai_stub import Stub, scored, stub
from tests.support.readers import READERS, Attentive, Reader, copied, n_probes, swapped
from tests.support.server_cases import CASES, REQUESTS

ITEMS, LONG = REQUESTS["things"], REQUESTS["things and a passage"]
CHAT = CASES["kinds"]["chat of a reader"]


def picks(scores: Sequence[Logprob]) -> list[int]:
    return [int(np.argmax([one.total for one in scores[i : i + 3]])) for i in range(0, len(scores), 3)]


def liked(requests: Sequence[Request], weights: int = 0) -> list[int]:
    reader = Reader(weights)
    return ["ABC".index(reader.letter(request.context)) for request in requests[::3]]


@pytest.mark.parametrize("name", CASES["honest"])
def test_an_honest_server_keeps_its_scores_and_is_sent_few_probes(name: str, tmp_path: Path) -> None:
    case = CASES["honest"][name]
    fix = READERS[case["fix"][0]](*case["fix"][1:])
    with stub(**CHAT, fix=fix, **case.get("manner", {})) as server:
        first = scored(server, tmp_path, ITEMS, samples=9)
        wrong = sum(a != b for a, b in zip(picks(first), liked(ITEMS), strict=True))
        assert wrong <= case.get("wrong", 1)
        assert 5 <= n_probes(server) <= case.get("probes", 12)
        server.bodies = []
        assert scored(server, tmp_path, ITEMS, samples=9) == first
        assert n_probes(server) == 0, "nothing is left to ask"


def test_each_probe_has_a_code_that_a_row_of_the_matrix_expects() -> None:
    codes = {probe.code for probes in PROBES.values() for probe in probes}
    assert codes <= {row["gives"]["codes"][0] for row in CASES["rows"].values() if row["gives"]["codes"]}


@pytest.mark.parametrize("seeds", [True, False])
def test_copies_of_one_reply_are_asked_for_one_by_one(seeds: bool, tmp_path: Path) -> None:
    refused = {} if seeds else {"seed": 400}
    with stub(**CHAT, fix=copied(Reader(sure=0.5)), fields=refused) as server:
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
