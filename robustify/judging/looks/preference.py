"""Measure of how strongly picks follow looks: the slope in a conditional logit of picks on the reader's logits (McFadden
1974).

Influence functions are those of an M-estimator, score times inverse information (Huber 1967; Hampel 1974), summed over the
rows of an item.
"""

from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.baselines.conditional_logit import fit_conditional_logit, log_probabilities
from robustify.judging.looks.read_options import PickRows, ReadOptions

RIDGE = 2.0
"""Ridge penalty of the logits."""
FEWEST_WRONG = 30
"""Fewest independent groups of items with a wrong pick. With fewer, there is no estimate."""
PICKS_PER_POSITION = 20
"""Fewest picks for each position at which the preference for positions is fitted."""


@dataclass(frozen=True, eq=False)
class Slope:
    """Coefficients of a fit, each with the influence of every item on it (n,). `b` is the coefficient of looks. `kappa` is
    the coefficient of being the key, or 0 unless a panel shows it. `picks` is the number of picks in the fit."""

    b: float
    b_influence: Floats
    picks: int
    kappa: float = 0.0
    kappa_influence: Floats | float = 0.0


def wrong_groups(options: ReadOptions, rows: PickRows, fit: Bools) -> tuple[Ints, int]:
    """Return the rows with a wrong pick, on items in `fit` (n,) with at least two wrong options. Also return the
    number of independent groups."""
    several = options.mask.sum(axis=1)[rows.item] > 2
    use = np.flatnonzero((rows.pick >= 0) & (rows.credit == 0) & several & fit[rows.item])
    return use, len(np.unique(options.group[rows.item[use]]))


def wrong_slope(options: ReadOptions, rows: PickRows, fit: Bools) -> Slope | None:
    """Fit the slope b of looks to the wrong picks, with only the wrong options as alternatives. Knowledge can only remove
    items from these picks, so they show how a model picks if it does not know the answer. Return None if there are fewer
    than `FEWEST_WRONG` groups."""
    use, groups = wrong_groups(options, rows, fit)
    if groups < FEWEST_WRONG:
        return None
    item = rows.item[use]
    among = options.mask[item] & ~options.is_key[item]
    return _slopes(options, rows, use, among, options.z[item][:, :, None])[0]


def blind_slopes(options: ReadOptions, rows: PickRows) -> tuple[Slope, ...]:
    """Fit two slopes b of looks to the picks without the question: one for the wrong options and one for the key, because
    distractors may look like keys by their meaning. Being the key is a nuisance feature, because a model may also find
    the key by its meaning. If there are no such picks, return no slopes."""
    use = np.flatnonzero(rows.pick >= 0)
    if not len(use):
        return ()
    item = rows.item[use]
    z, is_key = options.z[item], options.is_key[item]
    features = np.stack([np.where(is_key, 0.0, z), np.where(is_key, z, 0.0), is_key], axis=2)
    return _slopes(options, rows, use, options.mask[item], features)[:2]


def _slopes(
    options: ReadOptions, rows: PickRows, use: Ints, mask: Bools, features: Floats
) -> tuple[Slope, ...]:
    """Fit slopes to the picks of the rows `use` (m,), with the options in `mask` (m, K) as alternatives. Return one slope
    for each of the `features` (m, K, f). Positions are nuisance features if there are enough picks."""
    width, count = mask.shape[1], features.shape[2]
    if len(use) >= PICKS_PER_POSITION * width:
        place = rows.position[use][:, :, None] == np.arange(1, width)
        features = np.concatenate([features, place], axis=2)
    x, pick = np.where(mask[:, :, None], features, 0.0), rows.pick[use]
    beta = fit_conditional_logit(x, pick, mask, RIDGE)
    p = np.exp(log_probabilities(x @ beta, mask))
    mean = np.einsum("nk,nkf->nf", p, x)
    score = x[np.arange(len(use)), pick] - mean
    flat = x.reshape(-1, x.shape[2])
    information = flat.T @ (flat * p.reshape(-1, 1)) - mean.T @ mean + RIDGE * np.eye(len(beta))
    influence = score @ np.linalg.inv(information)[:, :count]
    by_item = (np.bincount(rows.item[use], column, len(options)).astype(np.float64) for column in influence.T)
    return tuple(Slope(float(b), column, len(use)) for b, column in zip(beta, by_item, strict=False))
