"""How much of what was flagged is luck.

The null is exchangeable keys: had any other option of the item been its key, would the same answers have
flagged it? Voters share their errors, so luck is not a product of 1/k; this count assumes nothing about how
they correlate. The independence formulas are given beside it, for reference only.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from robustify.stats import (
    FEWEST_CLUSTERS,
    Interval,
    central,
    clopper_pearson,
    clusters,
    fleiss_kappa,
    interval,
    percent,
    poisson_binomial,
    resampled,
    upper_tail,
    wilson,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Chance:
    """Counts over `n` items, and what they say.

    `expected` flags by luck, `expected_ci` the central 95 % of their distribution; `p`: how often luck flags as
    many or more. `excess` and `latent` are shares of the items with item-bootstrap intervals, which are None
    below 10 items (or groups of them); where none is flagged, the latent rate has an upper bound instead. All
    are None where no item was weighed.
    """

    n: int
    flagged: int
    expected: float
    expected_ci: Interval
    p: float | None
    excess: float | None
    excess_ci: Interval | None
    latent: float | None
    latent_ci: Interval | None

    @property
    def rate(self) -> float | None:
        """The share of the items that luck flags."""
        return self.expected / self.n if self.n else None

    @property
    def told_from_luck(self) -> bool:
        """Whether the excess is distinguishable from zero: a small p and an interval above zero."""
        return self.p is not None and self.p <= LEVEL and self.excess_ci is not None and self.excess_ci[0] > 0


def chance(flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None) -> Chance:
    """How much of a filter is luck.

    `flagged` (n,) what it flags, `would` (n, K) what it would flag were option j the key, `k` (n,) the number
    of options, `groups` (n,) of items that are resampled together.

    Item i is flagged by luck with probability A_i / k_i, A_i being its options that would be flagged, and
    the number of flags is Poisson-binomial (the permutation of keys within items, exactly). The latent rate
    s solves F = s + (A - s) / k, summed over items: a shortcut item is flagged whatever luck does, the
    other flags are luck.
    """
    n = len(flagged)
    if n == 0:
        return Chance(0, 0, 0.0, (0.0, 0.0), None, None, None, None, None)
    luck = would.sum(axis=1) / k
    pmf = poisson_binomial(luck)
    over, room = flagged - luck, 1 - 1 / k
    excess_ci, latent_ci = _bootstrapped(over, room, groups)
    drawn = clusters(n, groups)
    # Where nothing that could vary was seen, resampling would claim to know that there is nothing.
    if not would.any():
        excess_ci = wilson(0, drawn)
    if not flagged.any():
        latent_ci = 0.0, clopper_pearson(0, drawn)[1] / float(room.mean())
    return Chance(
        n=n,
        flagged=int(flagged.sum()),
        expected=float(luck.sum()),
        expected_ci=central(pmf),
        p=upper_tail(pmf, int(flagged.sum())),
        excess=float(over.mean()),
        excess_ci=excess_ci,
        latent=_clipped(float(over.sum() / room.sum())),
        latent_ci=None if latent_ci is None else (_clipped(latent_ci[0]), _clipped(latent_ci[1])),
    )


def _bootstrapped(
    over: Floats, room: Floats, groups: Ints | None
) -> tuple[Interval, Interval] | tuple[None, None]:
    if clusters(len(over), groups) < FEWEST_CLUSTERS:
        return None, None
    means = resampled(np.column_stack([over, room]), groups)
    return interval(means[:, 0]), interval(means[:, 0] / means[:, 1])


def independence(accuracy: Floats, k: Ints) -> tuple[float | None, float | None]:
    """The share on which all voters would be right if they were independent.

    First at their own accuracies (m,), then if each guessed among k options (n,). None without voters.
    """
    if not len(accuracy) or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    return float(accuracy.prod()), float(np.mean((1 / k) ** len(accuracy)))


def agreement(choice: Ints, key: Ints, k: Ints) -> dict[str, float | None]:
    """How often all voters pick one option, against what their likings for a place alone would give.

    `choice` (n, m) as in a ballot, `key`, `k` (n,). Counted over items that every voter answered; a tie
    agrees with nothing. `independent` is the sum over places j of the product over voters of the share of
    their picks that fall on j, taken among items of as many options. All None below two voters.
    """
    there = (choice != -1).all(axis=1)
    choice, key, k = choice[there], key[there], k[there]
    if choice.shape[1] < 2 or not len(choice):
        return {"observed": None, "independent": None, "ratio": None, "fleiss_kappa": None}
    alike = (choice >= 0).all(axis=1) & (choice == choice[:, :1]).all(axis=1)
    observed, independent = float(alike.mean()), float(_independent(choice, k))
    kappa = fleiss_kappa(choice == key[:, None])
    return {
        "observed": observed,
        "independent": independent,
        "ratio": observed / independent if independent > 0 else None,
        "fleiss_kappa": None if math.isnan(kappa) else kappa,
    }


def sentence(luck: Chance) -> str:
    """One plain sentence: what was flagged, how much of it is luck, and whether the two can be told apart."""
    if luck.p is None or luck.excess is None:
        return "Nothing was screened, so nothing can be said about shortcuts."
    low, high = luck.expected_ci
    found = (
        f"{luck.flagged} of {luck.n} items were flagged; luck alone would flag about {luck.expected:.0f} "
        f"({low:.0f} to {high:.0f})"
    )
    if luck.excess_ci is None:
        return f"{found}: too few items, or groups of them, to tell the two apart (p {_p(luck.p)})."
    if not luck.told_from_luck:
        return f"{found}: what was flagged cannot be told from luck (p {_p(luck.p)})."
    over = (
        f"{percent(luck.excess)} of the items ({percent(luck.excess_ci[0])} to {percent(luck.excess_ci[1])})"
    )
    return f"{found}: the filter found more than luck, by {over}, p {_p(luck.p)}."


def _independent(choice: Ints, k: Ints) -> float:
    total = 0.0
    for options in np.unique(k).tolist():
        part = choice[k == options]
        shares = np.stack([(part == j).mean(axis=0) for j in range(options)])
        total += len(part) * float(shares.prod(axis=1).sum())
    return total / len(choice)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
