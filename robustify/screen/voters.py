"""Agreement of voters, and stability of the picks of sampled voters. Neither affects a verdict.

Voters share training data and habits, so independence would expect too few flags by chance and overstate the finding. Its
formulas are reported next to exchangeable keys to show the difference.

A log-probability can be reproduced up to rounding, but a share of five replies cannot. Shares are therefore drawn from
their posterior, then as many replies as before, and the votes are cast again. The prior is a symmetric Dirichlet
distribution under which two replies to a prompt agree as often as observed (Jeffreys' prior for single replies). Drawing
from the observed shares alone would understate the noise, by a third for nine replies. Intervals of rates over items
already include this noise. The result shows how much a pick depends on it.
"""

import math

import numpy as np

from robustify.answers import Block
from robustify.arrays import Bools, Floats, Ints
from robustify.screen.item_index import ItemIndex
from robustify.screen.votes import mean_best, one_pick, preferences
from robustify.stats.agreement import fleiss_kappa
from robustify.stats.intervals import Rate, rate

Numbers = dict[str, float | None]

_NAMES = ("observed", "independent", "ratio", "fleiss_kappa", "all_right")


def independence(accuracy: Floats, k: Ints) -> tuple[float | None, float | None]:
    """Return the share of items on which all voters would be right if they were independent.

    The first value uses the voters' accuracies (m,). The second assumes that each guesses among k options (n,). None
    without voters, or if a voter answered nothing.
    """
    if not len(accuracy) or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    return float(accuracy.prod()), float(((1 / k) ** len(accuracy)).mean())


def voter_agreement(choice: Ints, key: Ints, k: Ints) -> Numbers:
    """Return how often all voters pick the same option, compared with what position preferences alone explain.

    `choice` (n, m) is coded as in `Votes`. Only items that every voter answered count, and a tie agrees with nothing.
    """
    there = (choice != -1).all(axis=1)
    choice, key, k = choice[there], key[there], k[there]
    if choice.shape[1] < 2 or not len(choice):
        return {"n": len(choice) if choice.shape[1] > 1 else None, **dict.fromkeys(_NAMES)}
    alike = (choice >= 0).all(axis=1) & (choice == choice[:, :1]).all(axis=1)
    observed, independent = float(alike.mean()), _independent(choice, k)
    right = choice == key[:, None]
    kappa = fleiss_kappa(right)
    return {
        "n": len(choice),
        "observed": observed,
        "independent": independent,
        "ratio": observed / independent if independent > 0 else None,
        "fleiss_kappa": None if math.isnan(kappa) else kappa,
        "all_right": float(right.all(axis=1).mean()),
    }


def _independent(choice: Ints, k: Ints) -> float:
    total = 0.0
    for options in np.unique(k).tolist():
        part = choice[k == options]
        shares = np.stack([(part == j).mean(axis=0) for j in range(options)])
        total += len(part) * float(shares.prod(axis=1).sum())
    return total / len(choice)


_MOST_DRAWN = 200
_ROWS = 4_000_000
"""Maximum number of rows to draw in all. With many items, there are fewer draws."""


def redrawn(block: Block, choice: Ints, index: ItemIndex, groups: Ints | None = None) -> Rate | None:
    """Return the expected share of a sampled voter's picks that another sample would change, or None without samples.

    `block` has its letter rows. `choice` (n,) is its averaged pick for each item, and negative picks do not count. A tie in
    a draw changes the pick. `groups` (n,) are clusters of items, as in `rate`.
    """
    rows = block.where((index.index_of[block.item] >= 0) & (block.draws > 0) & (block.pick >= 0))
    if not len(rows):
        return None
    at, _ = preferences(rows, "letter", index)
    there = np.arange(rows.scores.shape[1]) < rows.k[:, None]
    # Remove the half reply that was added to each count.
    counts = np.exp(np.where(there, rows.scores, 0.0)) * (rows.draws + rows.k / 2)[:, None] - 0.5
    counts = np.where(there, np.rint(counts), 0.0)
    posterior = np.where(there, counts + _prior(counts, rows.k), 0.0)
    voted = np.unique(at[choice[at] >= 0])
    rng, times = np.random.default_rng(0), max(8, min(_MOST_DRAWN, _ROWS // len(rows)))
    changed = np.zeros(len(index))
    for _ in range(times):
        shares = rng.standard_gamma(posterior) + np.where(there, 1e-300, 0.0)
        drawn = rng.multinomial(rows.draws, shares / shares.sum(axis=1, keepdims=True))
        again = one_pick(mean_best(at, _preference(drawn, there, index.width), index))
        changed += again != choice
    return rate(changed[voted] / times, None if groups is None else groups[voted])


def _prior(counts: Floats, k: Ints) -> float:
    """Return the parameter of a symmetric Dirichlet prior, fitted to counts (r, K) of replies over `k` (r,) letters."""
    n = counts.sum(axis=1)
    pairs, alike = n * (n - 1), float((counts * (counts - 1)).sum())
    if not pairs.any():
        return 0.5
    weight = np.bincount(k, weights=pairs)
    tried = np.geomspace(1e-3, 1e2, 1001)
    expected = weight @ ((tried + 1) / (np.arange(len(weight))[:, None] * tried + 1))
    return float(tried[np.abs(expected - alike).argmin()])


def _preference(counts: Ints, there: Bools, width: int) -> Floats:
    total = counts.sum(axis=1, keepdims=True) + there.sum(axis=1, keepdims=True) / 2
    preference = np.where(there, np.log((counts + 0.5) / total), 0.0)
    return np.pad(preference, ((0, 0), (0, max(0, width - preference.shape[1]))))[:, :width]
