"""What voters would do if they erred independently of one another: for reference, never for a verdict.

Voters share training data and habits, so independence expects too few flags by chance and calls the rest a finding.
These formulas are reported beside the exchangeable keys of `chance` to show by how much.
"""

import math

import numpy as np

from robustify.arrays import Floats, Ints
from robustify.stats.agreement import fleiss_kappa
from robustify.stats.intervals import FEWEST_CLUSTERS, clopper_pearson, clusters, interval, resampled

Numbers = dict[str, float | None]

_FEW_KINDS, _WIDE = 4096, 1 << 40
_NAMES = (
    "observed", "independent", "ratio", "fleiss_kappa", "all_right", "all_right_independent", "all_right_ratio",
)  # fmt: skip
_INTERVALS = ("observed_ci", "ratio_ci", "fleiss_kappa_ci", "all_right_ci", "all_right_ratio_ci")


def independence(accuracy: Floats, k: Ints) -> tuple[float | None, float | None]:
    """The share on which all voters would be right if they were independent.

    First at their own accuracies (m,), then if each guessed among k options (n,): products. None without voters, or
    where one of them answered nothing.
    """
    if not len(accuracy) or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    return float(accuracy.prod()), float(((1 / k) ** len(accuracy)).mean())


def voter_agreement(choice: Ints, key: Ints, k: Ints) -> Numbers:
    """How often all voters pick one option, against what their preferences for a place alone would give.

    `choice` (n, m) as in `Votes`, `key`, `k` (n,). Counted over items that every voter answered; a tie
    agrees with nothing. `independent` is the sum over places j of the product over voters of the share of
    their picks that fall on j, taken among items of as many options. `n`: these items. `all_right`: how
    often all picked the key, `all_right_independent` the product of how often each did, `all_right_ratio` the
    one over the other (Deep Ignorance's own table gives 2.26). All are None below two voters, all but
    `n` without such items.
    """
    there = (choice != -1).all(axis=1)
    choice, key, k = choice[there], key[there], k[there]
    if choice.shape[1] < 2 or not len(choice):
        return {"n": len(choice) if choice.shape[1] > 1 else None, **dict.fromkeys(_NAMES)}
    alike = (choice >= 0).all(axis=1) & (choice == choice[:, :1]).all(axis=1)
    observed, independent = float(alike.mean()), _independent(choice, k)
    right = choice == key[:, None]
    all_right, by_each = float(right.all(axis=1).mean()), float(right.mean(axis=0).prod())
    kappa = fleiss_kappa(right)
    return {
        "n": len(choice),
        "observed": observed,
        "independent": independent,
        "ratio": observed / independent if independent > 0 else None,
        "fleiss_kappa": None if math.isnan(kappa) else kappa,
        "all_right": all_right,
        "all_right_independent": by_each,
        "all_right_ratio": all_right / by_each if by_each > 0 else None,
    }


def agreement_intervals(
    choice: Ints, key: Ints, k: Ints, groups: Ints | None = None
) -> dict[str, list[float] | None]:
    """95 % intervals of `agreement`: `observed_ci`, `ratio_ci`, `fleiss_kappa_ci`, `all_right_ci`, `all_right_ratio_ci`.

    Items, or `groups` (n,) of them, that every voter answered are resampled. A share that does not vary among them has
    an exact bound of as many units instead. None below 10 units, below two voters, or where a ratio does not vary.
    """
    there = (choice != -1).all(axis=1)
    choice, key, k = choice[there], key[there], k[there]
    together = None if groups is None else groups[there]
    units, m = clusters(len(choice), together), choice.shape[1]
    if m < 2 or units < FEWEST_CLUSTERS:
        return dict.fromkeys(_INTERVALS)
    by_k = np.unique(k).tolist()
    means = _drawn_means(choice, key, k, together)
    own, share = means[:, 3 : 3 + m], means[:, 3 : 3 + m].mean(axis=1)
    weight, fell = means[:, 3 + m : 3 + m + len(by_k)], means[:, 3 + m + len(by_k) :]
    by_chance = share**2 + (1 - share) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = _independent_drawn(weight, fell.reshape(len(means), -1, m), by_k)
        found = (
            _share_interval(means[:, 0], units),
            _drawn_interval(means[:, 0] / alone),
            _drawn_interval((means[:, 2] - by_chance) / (1 - by_chance)),
            _share_interval(means[:, 1], units),
            _drawn_interval(means[:, 1] / own.prod(axis=1)),
        )
    return dict(zip(_INTERVALS, found, strict=True))


def _independent_drawn(weight: Floats, fell: Floats, by_k: list[int]) -> Floats:
    """`_independent` of every draw: `weight` (draws, kinds), `fell` (draws, places of all kinds, voters)."""
    total, at = np.zeros(len(weight)), 0
    for kind, options in enumerate(by_k):
        of = weight[:, kind]
        shares = fell[:, at : at + options] / np.where(of > 0, of, 1.0)[:, None, None]
        total += of * shares.prod(axis=2).sum(axis=1)
        at += options
    return total


def _drawn_means(choice: Ints, key: Ints, k: Ints, groups: Ints | None) -> Floats:
    """Of 2,000 draws of the items the means of: alike, all right, pairs of voters right or wrong together, each voter
    right, as many options, each voter's pick at each place of items of as many options.
    """
    if groups is None:
        # Items that were answered alike are counted and drawn at once: a million have some hundred kinds.
        first, counts = _kinds(choice, key, k)
        if len(first) <= _FEW_KINDS:
            rng = np.random.default_rng(0)
            drawn = rng.multinomial(len(k), counts / len(k), size=2000)
            return np.asarray(drawn @ _columns(choice[first], key[first], k[first], k) / len(k))
    return resampled(_columns(choice, key, k, k), groups)


def _kinds(choice: Ints, key: Ints, k: Ints) -> tuple[Ints, Ints]:
    code = np.zeros(len(k), dtype=np.int64)
    for column in (k, key, *choice.T):
        values, place = np.unique(column, return_inverse=True)
        code = code * len(values) + place
        if int(code.max()) > _WIDE:
            code = np.unique(code, return_inverse=True)[1]
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return first, counts


def _columns(choice: Ints, key: Ints, k: Ints, every_k: Ints) -> Floats:
    m, right = choice.shape[1], choice == key[:, None]
    alike = (choice >= 0).all(axis=1) & (choice == choice[:, :1]).all(axis=1)
    hits, by_k = right.sum(axis=1), np.unique(every_k).tolist()
    pairs = (hits**2 + (m - hits) ** 2 - m) / (m * (m - 1))
    picks = [(k == o) & (choice[:, v] == j) for o in by_k for j in range(o) for v in range(m)]
    first = [alike, right.all(axis=1), pairs, *right.T, *(k == o for o in by_k)]
    return np.column_stack([*first, *picks]).astype(np.float64)


def _share_interval(draws: Floats, units: int) -> list[float]:
    found = _drawn_interval(draws)
    return list(clopper_pearson(round(float(draws[0]) * units), units)) if found is None else found


def _drawn_interval(draws: Floats) -> list[float] | None:
    finite = draws[np.isfinite(draws)]
    low, high = interval(finite)
    return [low, high] if len(finite) and low < high else None


def _independent(choice: Ints, k: Ints) -> float:
    total = 0.0
    for options in np.unique(k).tolist():
        part = choice[k == options]
        shares = np.stack([(part == j).mean(axis=0) for j in range(options)])
        total += len(part) * float(shares.prod(axis=1).sum())
    return total / len(choice)
