"""Exact distributions of sums of independent trials, and their tails."""

import math
from collections.abc import Iterable

import numpy as np

from robustify.arrays import Floats, coded
from robustify.stats.intervals import Interval

LEAST_P = 1e-40
"""Tail probabilities are exact down to here; a smaller one is reported as this."""

LATTICE = 1 << 18
"""Points up to which a tail is computed on a lattice; beyond them callers take the normal limit."""
LEAST_LATTICE_P = 1e-12
"""Below this the transform's rounding is larger than the probability."""

_NOTHING = -160.0
"""The logarithm of what no sum of a lattice notices."""


def poisson_binomial(p: Floats) -> Floats:
    """The exact distribution of the number of successes of independent trials.

    Their chances (n,) give (n + 1,). Equal chances are gathered into binomials and all of them convolved, pair
    by pair; tails below 1e-40 are cut, so that a million trials take well under a second.
    """
    if len(p) and not (float(p.min()) >= 0 and float(p.max()) <= 1):
        raise ValueError("chances outside [0, 1]")
    values, place = coded(p)
    counts = np.bincount(place)
    parts = [_binomial(int(n), float(q)) for q, n in zip(values, counts, strict=True) if q > 0]
    out = np.zeros(len(p) + 1)
    start, mass = total(parts)
    out[start : start + len(mass)] = mass
    return np.asarray(out / out.sum(), dtype=np.float64)


def _binomial(n: int, q: float) -> tuple[int, Floats]:
    if q == 1:
        return n, np.ones(1)
    from scipy.special import gammaln  # only what needs it pays for the import

    x = np.arange(n + 1, dtype=np.float64)
    log = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + x * math.log(q) + (n - x) * math.log1p(-q)
    return _trimmed(0, np.asarray(np.exp(log), dtype=np.float64))


def _summed(a: tuple[int, Floats], b: tuple[int, Floats]) -> tuple[int, Floats]:
    (i, x), (j, y) = a, b
    return _trimmed(i + j, np.convolve(x, y))


def _trimmed(start: int, mass: Floats) -> tuple[int, Floats]:
    there = np.flatnonzero(mass >= LEAST_P)
    return start + int(there[0]), mass[there[0] : there[-1] + 1]


def total(parts: Iterable[tuple[int, Floats]]) -> tuple[int, Floats]:
    """The distribution of a sum of independent whole numbers, each given by its least value and its masses."""
    left = list(parts) or [(0, np.ones(1))]
    while len(left) > 1:
        merged = [_summed(a, b) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = merged + ([left[-1]] if len(left) % 2 else [])
    return left[0]


def upper_tail(pmf: Floats, x: int) -> float:
    """P(X >= x) of a distribution on 0, 1, ..., never below 1e-40."""
    return float(min(1.0, max(LEAST_P, pmf[max(0, x) :].sum())))


def central(pmf: Floats, level: float = 0.95) -> Interval:
    """The central interval of a distribution on 0, 1, ...: each side leaves at most half the rest outside."""
    tail = (1 - level) / 2
    below = np.cumsum(pmf)
    return float(np.searchsorted(below, tail)), float(np.searchsorted(below, 1 - tail))


def lattice_tail(steps: Iterable[tuple[int, float, int]], size: int, least: int) -> float:
    """P(S >= least) for a sum S < `size` of independent variables: n of them are `step` with probability p, else 0.

    `steps` holds (step, p, n). By the characteristic function, so a tail below about 1e-12 is rounding.
    """
    wave, steps = -2j * np.pi * np.arange(size // 2 + 1) / size, list(steps)
    # Of most frequencies nothing is left: log |1 - p + p z| <= -p (1 - p) (1 - Re z).
    bound = sum(n * p * (1 - p) * (np.cos(wave.imag * step) - 1) for step, p, n in steps)
    there = np.flatnonzero(bound > _NOTHING)
    log_cf, wave = np.zeros(len(there), dtype=np.complex128), wave[there]
    # A factor of 0 (a fair coin, half round the circle) is a true 0: log gives -inf, exp brings it back.
    with np.errstate(divide="ignore"):
        for step, p, n in steps:
            log_cf += n * np.log(1 - p + p * np.exp(wave * step))
    cf = np.zeros(size // 2 + 1, dtype=np.complex128)
    cf[there] = np.exp(log_cf)
    return float(np.fft.irfft(cf, size)[least:].sum())
