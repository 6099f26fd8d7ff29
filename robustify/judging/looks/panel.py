"""Effect of looks on a panel of models, from a three-parameter model in which guesses follow looks.

P(right) = K + (1 - K) p(b, kappa) with K = expit(a_model + l z_key + s theta) (Birnbaum 1968), and theta ~ N(0, 1)
integrated out (Bock and Aitkin 1981). The likelihood is maximized with outer products of its gradients (Berndt et al.
1974). Ease may go with looks (l): strong models tell l, weak ones b.
The slope of the wrong options in p is that of the members' wrong picks. With one slope for all options, plausible
distractors that look like keys would seem to be a preference for keys that look like keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.looks.preference import RIDGE, Slope
from robustify.judging.looks.read_options import UNREAD, KeyProbability, PickRows, ReadOptions

FEWEST_OTHERS, LEAST_SHARED = 5, 0.5
"""Fewest other models of a panel, and the share of the items that a model must have answered to be in it."""
LEAST_SPREAD = 0.1
"""Smallest difference in accuracy between the best and the worst member, because equals do not tell ease from looks."""
DOMINANT = 0.6
"""Share of the other models with the same wrong option above which an item is left out."""

NODES = 11
"""Nodes of the Gauss-Hermite quadrature over theta."""
SHARED = 4
"""Parameters before those of the models: b, kappa, l and s."""
_LOOSE_RIDGE, _EDGE = 1e-3, 1e-4
_STEPS, _HALVINGS, _LONGEST, _GAIN = 60, 8, 0.7, 1e-4
_STEP = 0.01
_ITEMS = 2048
"""Items that are computed at once, so that intermediate arrays stay small."""


@dataclass(frozen=True, eq=False)
class Panel:
    """Models that answered most of the items. `first` (n,) is the first pick of each model that was asked, `wrong` (n, K)
    counts the members that pick each wrong option, and `answered` (n,) those with any pick."""

    options: ReadOptions
    first: Mapping[str, Ints]
    members: tuple[str, ...]
    wrong: Ints
    answered: Ints

    @classmethod
    def from_rows(cls, options: ReadOptions, rows_of: Mapping[str, PickRows]) -> "Panel":
        """Collect the first picks of all models that were asked the question."""
        first = {name: rows.first_picks(len(options)) for name, rows in rows_of.items()}
        members = tuple(name for name, pick in first.items() if np.mean(pick != UNREAD) >= LEAST_SHARED)
        picks = np.array([first[name] for name in members]).reshape(len(members), len(options))
        return cls(options, first, members, *options.wrong_counts(picks))

    def has_others(self, name: str) -> bool:
        """Return whether the panel has enough models other than this one."""
        return len(self.members) - (name in self.members) >= FEWEST_OTHERS

    def typical(self, name: str) -> Bools:
        """Return the items on which at most 60 % of the other models share the same wrong option (n,). Such an option
        may be a wrong key or a misconception. If there are too few other models, return all items."""
        if not self.has_others(name):
            return np.ones(len(self.options), dtype=bool)
        wrong, answered = self.wrong, self.answered
        if name in self.members:
            own_wrong, own = self.options.wrong_counts(self.first[name][None])
            wrong, answered = wrong - own_wrong, answered - own
        return _typical(wrong, answered)

    def excess(self, slopes: Mapping[str, Slope | None]) -> Slope | None:
        """Return how much more (less) looks draw members to the key than to wrong options, and kappa. `slopes` are those of
        wrong picks. Return None if there are too few members for any model, or they are of equal strength."""
        known_slopes = [slope for name in self.members if (slope := slopes.get(name))]
        if len(self.members) < FEWEST_OTHERS or not known_slopes:
            return None
        picks = np.where(
            _typical(self.wrong, self.answered), [self.first[name] for name in self.members], UNREAD
        )
        right = _accuracy(picks >= 0, picks == self.options.key)
        if right.max() - right.min() < LEAST_SPREAD:
            return None
        influence = np.mean([slope.b_influence for slope in known_slopes], axis=0)
        wrong = Slope(float(np.mean([slope.b for slope in known_slopes])), influence, 0)
        fit = panel_slope(self.options, picks, wrong)
        return replace(fit, b=fit.b - wrong.b, b_influence=fit.b_influence - wrong.b_influence)


def _typical(wrong: Ints, answered: Ints) -> Bools:
    return np.asarray(wrong.max(axis=1) <= DOMINANT * np.maximum(answered, 1))


def _accuracy(seen: Bools, right: Bools) -> Floats:
    return np.asarray(right.sum(axis=1) / np.maximum(seen.sum(axis=1), 1))


def panel_slope(options: ReadOptions, picks: Ints, wrong: Slope) -> Slope:
    """Fit the picks of M models (M, n), which are negative if missing, given the slope of their wrong picks. Return b and
    kappa at the key, with the influence of each item, also through the slope of wrong picks. The fit is the same for every
    model of the panel."""
    seen, right = picks >= 0, picks == options.key
    start = np.clip((_accuracy(seen, right) - 0.2) / 0.8, 0.05, 0.95)
    beta = np.concatenate([np.zeros(SHARED - 1), [1.0], np.log(start / (1 - start))])
    ridge = np.full(len(beta), _LOOSE_RIDGE)
    ridge[:2] = RIDGE

    def penalized(beta: Floats, wrong_b: float = wrong.b) -> tuple[float, Floats]:
        guess = options.key_probability(float(beta[0]), float(beta[1]), wrong_b)
        value, score = _likelihood(options, seen, right, beta, guess)
        return value - float(ridge @ beta**2) / 2, score

    beta, score = _maximized(penalized, beta, ridge)
    inverse = np.linalg.inv(score.T @ score + np.diag(ridge))
    moved = penalized(beta, wrong.b + _STEP)[1].sum(axis=0) - score.sum(axis=0)
    by_wrong = (inverse @ moved / _STEP)[:2]
    influence = (score @ inverse)[:, :2] + np.outer(wrong.b_influence, by_wrong)
    return Slope(float(beta[0]), influence[:, 0], int(seen.sum()), float(beta[1]), influence[:, 1])


def _maximized(
    penalized: Callable[[Floats], tuple[float, Floats]], beta: Floats, ridge: Floats
) -> tuple[Floats, Floats]:
    """Maximize a penalized likelihood, starting at `beta` (parameters,). Return the maximum, and the gradient by item."""
    value, score = penalized(beta)
    for _ in range(_STEPS):
        step = np.linalg.solve(score.T @ score + np.diag(ridge), score.sum(axis=0) - ridge * beta)
        step *= min(1.0, _LONGEST / float(np.abs(step).max()))
        attempts = ((*penalized(new), new) for new in (beta + step / 2**i for i in range(_HALVINGS)))
        improved = next((attempt for attempt in attempts if attempt[0] > value), None)
        if improved is None:
            break
        gain = improved[0] - value
        value, score, beta = improved
        if gain < _GAIN:
            break
    return beta, score


def _likelihood(
    options: ReadOptions, seen: Bools, right: Bools, beta: Floats, guess: KeyProbability
) -> tuple[float, Floats]:
    """Return the marginal log-likelihood, and its gradient by item (n, parameters)."""
    key_z = options.z[np.arange(len(options)), options.key]
    total, score = 0.0, np.empty((len(options), len(beta)))
    for start in range(0, len(options), _ITEMS):
        rows = slice(start, start + _ITEMS)
        g = guess.p[rows], guess.by_b[rows], guess.by_kappa[rows]
        log_likelihood, score[rows] = _block_likelihood(beta, (seen[:, rows], right[:, rows]), g, key_z[rows])
        total += log_likelihood
    return total, score


def _block_likelihood(
    beta: Floats, answers: tuple[Bools, Bools], guess: tuple[Floats, Floats, Floats], look: Floats
) -> tuple[float, Floats]:
    node, weight = np.polynomial.hermite_e.hermegauss(NODES)
    seen, right = (table[:, :, None] for table in answers)
    p_guess, by_b, by_kappa = guess
    know = expit(beta[SHARED:, None, None] + (beta[2] * look)[:, None] + beta[3] * node)
    p = np.clip(know + (1 - know) * p_guess[:, None], _EDGE, 1 - _EDGE)
    log_p = np.where(seen, np.log(np.where(right, p, 1 - p)), 0.0).sum(axis=0) + np.log(weight / weight.sum())
    top = log_p.max(axis=1, keepdims=True)
    posterior = np.exp(log_p - top)
    total = posterior.sum(axis=1, keepdims=True)
    by_p = np.where(seen, (right - p) / (p * (1 - p)), 0.0) * (posterior / total)
    by_know = by_p * know * (1 - know) * (1 - p_guess[:, None])
    by_guess = (by_p * (1 - know)).sum(axis=(0, 2))
    nodes = by_know.sum(axis=0)
    columns = [
        by_guess * by_b,
        by_guess * by_kappa,
        nodes.sum(axis=1) * look,
        nodes @ node,
        by_know.sum(axis=2).T,
    ]
    return float((top + np.log(total)).sum()), np.column_stack(columns)
