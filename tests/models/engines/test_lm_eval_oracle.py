"""Our log-likelihoods are lm-eval 0.4.13's: real items, both embedded models, cloze and letters."""

import gc
from itertools import groupby
from pathlib import Path

import pytest

from robustify.items.views import Asking, Request
from robustify.models.asking import plan
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.support.model_cache import hf, model_folder

pytest.importorskip("lm_eval", reason="the oracle is not installed: pip install 'robustcbrn-eval[lm-eval]'")
pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

pytestmark = [pytest.mark.oracle, pytest.mark.model]

N_ITEMS = 20
NEAR = 1e-3
"""Nats. Both sides compute in float32, in batches of different shapes."""


@pytest.fixture(scope="module")
def asked(data: Path) -> list[tuple[int, Request]]:
    """(number of the asking, request): cloze and letters of real items, in their own order."""
    items = load(Source(path=str(data / "arc" / "ARC-Challenge-Test.jsonl")), UNGUARDED).items[:N_ITEMS]
    askings = plan(items, Asking(views=("full", "cloze"), orders=1))
    return [(i, request) for i, asking in enumerate(askings) for request in asking.requests]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", pytest.param("gemma3-270m", marks=pytest.mark.proof)])
def test_every_log_likelihood_and_pick_is_theirs(name: str, asked: list[tuple[int, Request]]) -> None:
    with hf(model_folder(name), name=name) as engine:
        mine = [scored.total for scored in engine.loglikelihoods([request for _, request in asked])]
    # One model is in memory at a time.
    gc.collect()
    reference = theirs(model_folder(name), asked)
    worst = max(abs(a - b) for a, b in zip(mine, reference, strict=True))
    assert worst <= NEAR, f"furthest apart: {worst:.2e} nats"
    for number, rows in groupby(range(len(asked)), key=lambda i: asked[i][0]):
        places = list(rows)
        picks = [max(places, key=lambda i: side[i]) for side in (mine, reference)]
        assert picks[0] == picks[1], f"asking {number}"


def theirs(folder: Path, asked: list[tuple[int, Request]]) -> list[float]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    instances = [
        Instance("loglikelihood", {}, (request.context, request.continuation), i)
        for i, (_, request) in enumerate(asked)
    ]
    # It holds the logits of every position: with Gemma's vocabulary eight rows would pass 4 GiB.
    model = HFLM(str(folder), device="cpu", dtype="float32", batch_size=4)
    return [total for total, _ in model.loglikelihood(instances, disable_tqdm=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_every_token_is_theirs(name: str, asked: list[tuple[int, Request]]) -> None:
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoTokenizer

    from robustify.models.engines.plan import Speller, encode

    tokenizer = AutoTokenizer.from_pretrained(model_folder(name))
    # The two methods under test need a tokenizer and no model.
    reference = HFLM.__new__(HFLM)
    reference.tokenizer, reference.backend = tokenizer, "causal"
    reference.add_bos_token = reference.custom_prefix_token_id = None
    requests = [request for _, request in asked]
    requests += [
        Request("Answer: ", "a blank moved"),
        Request("Wait...\n\n", "two lines"),
        Request("Ünï 漢", " ☃ x²"),
    ]
    for request, mine in zip(requests, encode(Speller(tokenizer), requests), strict=True):
        context, continuation = reference._encode_pair(request.context, request.continuation)
        assert (list(mine.context), list(mine.continuation)) == (context, continuation)
