"""At which places the keys of a benchmark are, and whether they are spread evenly.

A voter that always answers the first option is right wherever the key is first, which says nothing about what the
choices give away.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from robustify.arrays import Floats, Ints
from robustify.stats.tests import LEVEL

FEWEST_A_PLACE = 5
"""Expected keys a place below which the chi-square limit is not trusted and keys are drawn instead."""
DRAWS = 9999


@dataclass(frozen=True, slots=True)
class Places:
    """Where the keys of `n` items stand: `shares` by place from the first, as many as the longest item has.

    `p` of keys drawn evenly over the places of each item, by a chi-square summed over the items of equally
    many options; `exact` says that keys were drawn because places were too few for the limit. `chi_square` on
    `df` degrees of freedom. `off`: the place (from 0) that differs most from an even spread, the share of keys there and
    the share of an even spread; None where keys may be spread evenly.
    """

    n: int
    shares: tuple[float, ...]
    chi_square: float
    df: int
    p: float
    exact: bool
    off: tuple[int, float, float] | None


def where_keys_stand(key: Ints, k: Ints) -> Places | None:
    """The places of the keys, `key` and `k` (n,); None without items."""
    if not len(key):
        return None
    counts = {options: _counts(key, k, options) for options in np.unique(k).tolist()}
    chi = sum(_chi_square(c[None, :])[0] for c in counts.values())
    df = sum(len(c) - 1 for c in counts.values())
    exact = any(c.sum() / len(c) < FEWEST_A_PLACE for c in counts.values())
    if df == 0:
        p, exact = 1.0, True
    else:
        p = _drawn(list(counts.values()), float(chi)) if exact else float(chdtrc(df, chi))
    width = max(counts)
    total, even = np.zeros(width), np.zeros(width)
    for c in counts.values():
        total[: len(c)] += c
        even[: len(c)] += c.sum() / len(c)
    off = _off(total, even, len(key)) if p < LEVEL else None
    return Places(len(key), tuple((total / len(key)).tolist()), float(chi), df, p, exact, off)


def shares_by_options(key: Ints, k: Ints) -> dict[int, tuple[int, tuple[float, ...]]]:
    """By number of options: how many items have as many, and the share of their keys at each place."""
    counts = {options: _counts(key, k, options) for options in np.unique(k).tolist()}
    return {options: (int(c.sum()), tuple((c / c.sum()).tolist())) for options, c in counts.items()}


def key_shares(key: Ints, k: Ints, width: int) -> Floats:
    """For each item the share of keys at each place among the items of as many options, (n, width).

    The item itself is counted. So its expected flags are exactly those of the benchmark's own keys dealt anew
    among items of as many options, whatever their number. Without it less would be
    expected of a right item than of a wrong one, and an item alone with its number of options would have no share.
    """
    out = np.zeros((len(key), width))
    for options in np.unique(k).tolist():
        counts = _counts(key, k, options)
        out[k == options, :options] = counts / counts.sum()
    return out


def _counts(key: Ints, k: Ints, options: int) -> Ints:
    return np.bincount(key[k == options], minlength=options).astype(np.int64)


def _chi_square(counts: Ints) -> Floats:
    even = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    return np.asarray(((counts - even) ** 2 / even).sum(axis=1), dtype=np.float64)


def _drawn(counts: list[Ints], chi: float) -> float:
    rng = np.random.default_rng(0)
    draws = np.zeros(DRAWS)
    for c in counts:
        draws += _chi_square(rng.multinomial(int(c.sum()), np.full(len(c), 1 / len(c)), size=DRAWS))
    # The observed keys are one of the draws, so p is never 0 (Davison and Hinkley 1997, 4.2).
    return float((1 + np.count_nonzero(draws >= chi - 1e-9)) / (1 + DRAWS))


def _off(found: Floats, even: Floats, n: int) -> tuple[int, float, float]:
    place = int(np.abs((found - even) / np.sqrt(np.maximum(even, 1e-300))).argmax())
    return place, float(found[place] / n), float(even[place] / n)
