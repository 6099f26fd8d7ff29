"""Exact distributions of sums of independent trials, and their tails."""

import math
from collections.abc import Iterable

import numpy as np

from robustify.base.arrays import Floats, coded
from robustify.judging.stats.intervals import Interval

LEAST_P = 1e-40
"""Tail probabilities are exact down to this value, and smaller ones are reported as this value."""
LATTICE = 1 << 18
"""Maximum number of lattice points for a tail. Beyond it, callers use the normal limit."""
LEAST_LATTICE_P = 1e-12
"""Below this value, the rounding error of the transform is larger than the probability."""
_NOTHING = -160.0
"""Logarithm of a factor that is too small to affect a sum."""


def poisson_binomial(p: Floats) -> Floats:
    """Return the exact distribution (n + 1,) of the number of successes in n independent trials.

    Equal probabilities in `p` (n,) are combined into binomials, which are convolved pairwise. Tails below 1e-40 are cut.
    """
    if len(p) and not (float(p.min()) >= 0 and float(p.max()) <= 1):
        raise ValueError("probabilities must be in [0, 1]")
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
    from scipy.special import gammaln  # loaded only when needed

    x = np.arange(n + 1, dtype=np.float64)
    log = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + x * math.log(q) + (n - x) * math.log1p(-q)
    return _trimmed(0, np.asarray(np.exp(log), dtype=np.float64))


def _trimmed(start: int, mass: Floats) -> tuple[int, Floats]:
    there = np.flatnonzero(mass >= LEAST_P)
    return start + int(there[0]), mass[there[0] : there[-1] + 1]


def total(parts: Iterable[tuple[int, Floats]]) -> tuple[int, Floats]:
    """Return the distribution of a sum of independent integers, each given by its minimum and its probabilities."""
    left = list(parts) or [(0, np.ones(1))]
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        merged = [_trimmed(i + j, np.convolve(x, y)) for (i, x), (j, y) in pairs]
        left = merged + ([left[-1]] if len(left) % 2 else [])
    return left[0]


def upper_tail(pmf: Floats, x: int) -> float:
    """Return P(X >= x) for a distribution on the nonnegative integers, at least 1e-40."""
    return float(min(1.0, max(LEAST_P, pmf[max(0, x) :].sum())))


def central(pmf: Floats, level: float = 0.95) -> Interval:
    """Return the central interval of a distribution on the nonnegative integers, with the same bound on both tails."""
    tail = (1 - level) / 2
    below = np.cumsum(pmf)
    return float(np.searchsorted(below, tail)), float(np.searchsorted(below, 1 - tail))


def lattice_tail(steps: Iterable[tuple[int, float, int]], size: int, least: int) -> float:
    """Return P(S >= least) for a sum S < `size` of independent two-valued variables.

    Each entry (step, p, n) of `steps` stands for n variables that are `step` with probability p and otherwise 0. The tail
    comes from the characteristic function, so values below about 1e-12 are rounding errors.
    """
    wave, steps = -2j * np.pi * np.arange(size // 2 + 1) / size, list(steps)
    # Most frequencies are negligible, because log |1 - p + p z| <= -p (1 - p) (1 - Re z).
    bound = sum(n * p * (1 - p) * (np.cos(wave.imag * step) - 1) for step, p, n in steps)
    there = np.flatnonzero(bound > _NOTHING)
    log_cf, wave = np.zeros(len(there), dtype=np.complex128), wave[there]
    # A factor can be exactly 0 (a fair coin at half a turn). Its log is -inf, and exp restores 0.
    with np.errstate(divide="ignore"):
        for step, p, n in steps:
            log_cf += n * np.log(1 - p + p * np.exp(wave * step))
    cf = np.zeros(size // 2 + 1, dtype=np.complex128)
    cf[there] = np.exp(log_cf)
    return float(np.fft.irfft(cf, size)[least:].sum())
