"""Plant wrong keys, and measure how many a list of the most doubtful keys finds: writes results/bench/keys.json.

`python -m bench.keys` plants them in a copy of MMLU-Pro with the answers of 21 models ($ROBUSTIFY_DATA/mmlu_pro_models) and
in simulated answers, whose models share their errors. Keys of MMLU-Pro that are wrong already count as right.
"""

import sys
from datetime import datetime, timezone

import numpy as np

from bench.atlas.blind import keys_of
from bench.atlas.mmlu_pro import ITEMS
from bench.atlas.mmlu_pro import picks as picks_of
from bench.cases import items_at
from bench.results import RESULTS, Tree
from robustify.base.arrays import Floats, Ints
from robustify.base.files import write_json
from robustify.judging.audit.item_analysis import (
    LEAST_PRECISION,
    MOST_KEYS,
    PLANTED,
    corrected_item_total,
    key_doubt,
    keys_to_check,
    weighted_votes,
)

DRAWS = 40
RATES = (0.01, 0.02, PLANTED, 0.1)
FEW = 5
Answered = tuple[Ints, Ints, Ints]
"""Picks (n, m), -1 if unanswered, with the key and the number of options of each item (n,)."""


def main() -> int:
    """Measure both sources, and write the result."""
    pro, simulated = mmlu_pro(), made(2000, 21)
    order = np.argsort(accuracies(*pro[:2]))
    spread = order[np.linspace(0, len(order) - 1, FEW).astype(int)]
    sources = {
        "mmlu_pro_21": pro,
        "mmlu_pro_5": (pro[0][:, spread], *pro[1:]),
        "simulated_21": simulated,
        "simulated_5": (simulated[0][:, :: len(order) // FEW + 1], *simulated[1:]),
    }
    tree: Tree = {"at": datetime.now(timezone.utc).isoformat(timespec="seconds"), "draws": DRAWS,
                  "listed": MOST_KEYS, "least_precision": LEAST_PRECISION, "sources": {}}  # fmt: skip
    for name, (picks, key, k) in sources.items():
        own, listed = keys_to_check(weighted_votes(picks, key, k), key, k)
        tree["sources"][name] = {
            "items": len(key),
            "models": picks.shape[1],
            "stated": own.precision.tree(),
            "listed_as_it_is": len(listed),
            "planted": {str(rate): planted(picks, key, k, rate) for rate in RATES},
        }
        print(name, tree["sources"][name], file=sys.stderr)
    write_json(RESULTS / "bench" / "keys.json", tree)
    return 0


def planted(picks: Ints, key: Ints, k: Ints, rate: float) -> dict[str, float]:
    """Return the mean share of planted keys on lists by the doubt and, to compare, by the item-total correlation."""
    rng, found = np.random.default_rng(1), []
    n = round(rate * len(key))
    for _ in range(DRAWS):
        at, wrong = rng.choice(len(key), n, replace=False), key.copy()
        wrong[at] = (key[at] + rng.integers(1, k[at])) % k[at]
        won = np.where(picks >= 0, (picks == wrong[:, None]).astype(np.float64), np.nan)
        doubt = key_doubt(weighted_votes(picks, wrong, k), wrong)[0]
        scores = doubt, -np.nan_to_num(corrected_item_total(won), nan=9.0)
        lists = [np.argsort(-score, kind="stable")[: min(MOST_KEYS, n)] for score in scores]
        found.append([float(np.isin(one, at).mean()) for one in lists])
    by_doubt, by_total = np.mean(found, axis=0).round(3).tolist()
    return {"n_planted": n, "doubt": by_doubt, "item_total": by_total}


def mmlu_pro() -> Answered:
    """Return the picks of 21 models on MMLU-Pro."""
    items = items_at(*ITEMS)
    return np.stack(list(picks_of(items).values()), axis=1), *keys_of(items)


def made(n: int, m: int, k: int = 4, seed: int = 0) -> Answered:
    """Return simulated picks: a Rasch model, in which wrong picks fall on the same popular distractor of an item."""
    rng = np.random.default_rng(seed)
    skill, hard = np.linspace(-0.5, 2.0, m), rng.normal(0, 1.5, n)
    key, popular = rng.integers(0, k, n), rng.dirichlet([0.5] * (k - 1), n)
    knows = rng.random((n, m)) < 1 / (1 + np.exp(hard[:, None] - skill))
    wrong = (rng.random((n, m, 1)) > popular.cumsum(axis=1)[:, None, :]).sum(axis=2)
    return np.where(knows, key[:, None], (key[:, None] + 1 + wrong) % k), key, np.full(n, k)


def accuracies(picks: Ints, key: Ints) -> Floats:
    """Return the accuracy of each model (m,)."""
    return np.array([np.mean((of == key)[of >= 0]) for of in picks.T])


if __name__ == "__main__":
    raise SystemExit(main())
