"""What voters would do if they erred independently of one another: for reference, never for a verdict.

Voters share training data and habits, so independence expects too little luck and calls the rest a finding.
These formulas stand beside the exchangeable keys of `chance.py` to show by how much.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from robustify.stats import fleiss_kappa, poisson_binomial

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Numbers = dict[str, float | None]


def independence(accuracy: Floats, k: Ints, needed: int | None = None) -> tuple[float | None, float | None]:
    """The share on which `needed` voters (None: all) would be right if they were independent.

    First at their own accuracies (m,), then if each guessed among k options (n,): the product, or the upper
    tail of the (Poisson-)binomial. None without voters, or where one of them answered nothing.
    """
    m = len(accuracy)
    if not m or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    at_least = m if needed is None else needed
    if at_least > m:
        return 0.0, 0.0
    by_accuracy = float(poisson_binomial(accuracy)[at_least:].sum())
    options, counts = np.unique(k, return_counts=True)
    by_luck = bdtrc(at_least - 1, m, 1 / options)
    return by_accuracy, float((by_luck * counts).sum() / counts.sum())


def latent_if_independent(accuracy: Floats, unanimous: float) -> float | None:
    """The latent shortcut rate s of voters that err independently on the items without a shortcut.

    `accuracy` (m,) and the share `unanimous` on which all are right solve p_m = s + (1 - s) g_m and
    P = s + (1 - s) prod g_m for s; P grows with s, so it is bisected on [0, min p_m]. Errors that voters share
    inflate it. 0 where P is no more than the product of the p_m; None below two voters, where any s fits.
    """
    if len(accuracy) < 2 or bool(np.isnan(accuracy).any()) or math.isnan(unanimous):
        return None

    def implied(s: float) -> float:
        return s + (1 - s) * float(np.prod((accuracy - s) / (1 - s))) if s < 1 else 1.0

    low, high = 0.0, float(accuracy.min())
    if unanimous <= implied(low):
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if implied(middle) < unanimous else (low, middle)
    return high


def agreement(choice: Ints, key: Ints, k: Ints) -> Numbers:
    """How often all voters pick one option, against what their likings for a place alone would give.

    `choice` (n, m) as in a ballot, `key`, `k` (n,). Counted over items that every voter answered; a tie
    agrees with nothing. `independent` is the sum over places j of the product over voters of the share of
    their picks that fall on j, taken among items of as many options. `all_right`: how often all picked the key,
    `all_right_independent` the product of how often each did, `all_right_ratio` the one over the other
    (Deep Ignorance's own table gives 2.26). All None below two voters.
    """
    there = (choice != -1).all(axis=1)
    choice, key, k = choice[there], key[there], k[there]
    if choice.shape[1] < 2 or not len(choice):
        return dict.fromkeys(_NAMES)
    alike = (choice >= 0).all(axis=1) & (choice == choice[:, :1]).all(axis=1)
    observed, independent = float(alike.mean()), _independent(choice, k)
    right = choice == key[:, None]
    all_right, by_each = float(right.all(axis=1).mean()), float(right.mean(axis=0).prod())
    kappa = fleiss_kappa(right)
    return {
        "observed": observed,
        "independent": independent,
        "ratio": observed / independent if independent > 0 else None,
        "fleiss_kappa": None if math.isnan(kappa) else kappa,
        "all_right": all_right,
        "all_right_independent": by_each,
        "all_right_ratio": all_right / by_each if by_each > 0 else None,
    }


_NAMES = (
    "observed", "independent", "ratio", "fleiss_kappa", "all_right", "all_right_independent", "all_right_ratio",
)  # fmt: skip


def _independent(choice: Ints, k: Ints) -> float:
    total = 0.0
    for options in np.unique(k).tolist():
        part = choice[k == options]
        shares = np.stack([(part == j).mean(axis=0) for j in range(options)])
        total += len(part) * float(shares.prod(axis=1).sum())
    return total / len(choice)
