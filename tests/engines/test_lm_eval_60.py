"""The long proof: 60 ARC-Challenge items, zero-shot and five-shot, cloze and letters, both embedded models.

Every log-likelihood is lm-eval 0.4.13's within 1e-3, and so are its `acc` and `acc_norm`. Minutes each, so it is
run by `make test-slow`; `test_lm_eval_oracle.py` does the same on 20 items in every run.
"""

import gc
from pathlib import Path

import pytest

from robustify.ask import Asking, Planned, plan
from robustify.loaders import Source, load
from tests.engines.test_lm_eval_oracle import NEAR, theirs
from tests.support.model_cache import model_folder

pytest.importorskip("lm_eval", reason="the oracle is not installed: pip install 'robustcbrn-eval[lm-eval]'")
pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

pytestmark = [pytest.mark.oracle, pytest.mark.model, pytest.mark.proof]

N_ITEMS = 60


def accuracies(planned: list[Planned], totals: list[float]) -> dict[tuple[str, str], float]:
    """lm-eval's `acc` (greatest sum) and `acc_norm` (greatest sum per character) of either view."""
    right: dict[tuple[str, str], list[bool]] = {}
    numbers = iter(totals)
    for asking in planned:
        scores = [next(numbers) for _ in asking.requests]
        item, view = asking.item, asking.template.view
        lengths = [len(choice) for choice in item.choices]
        picks = {
            "acc": max(range(item.k), key=lambda j: scores[j]),
            "acc_norm": max(range(item.k), key=lambda j: scores[j] / lengths[j]),
        }
        for name, pick in picks.items():
            right.setdefault((view, name), []).append(pick == item.key)
    return {name: sum(flags) / len(flags) for name, flags in right.items()}


@pytest.mark.parametrize("shots", [0, 5])
@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_sixty_items_are_scored_as_lm_eval_does(name: str, shots: int, data: Path) -> None:
    from robustify.engines.local.engine import HF

    items = load(Source(path=str(data / "arc" / "ARC-Challenge-Test.jsonl"))).items[:N_ITEMS]
    planned = plan(items, Asking(views=("full", "cloze"), orders=1, shots=shots))
    asked = [(i, request) for i, asking in enumerate(planned) for request in asking.requests]
    folder = model_folder(name)
    with HF(name, folder) as engine:
        mine = [scored.total for scored in engine.loglikelihoods([request for _, request in asked])]
        assert engine.path == "trees"
    gc.collect()
    reference = theirs(folder, asked)
    worst = max(abs(a - b) for a, b in zip(mine, reference, strict=True))
    print(f"{name}, {shots} shots: {len(asked)} log-likelihoods, furthest apart {worst:.2e} nats")
    assert worst <= NEAR
    assert accuracies(planned, mine) == accuracies(planned, reference)
    assert len(accuracies(planned, mine)) == 4
