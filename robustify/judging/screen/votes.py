"""Votes of models that saw only the choices, as arrays.

A voter's rows about an item are averaged into one pick. Ties remain ties. Items without an answer, or with a score that
is not finite, are unanswered.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from robustify.base.arrays import Bools, Floats, Ints, by_rows
from robustify.items.answers import Answers, Block
from robustify.items.scoring import VIEW_OF, Mode, TextNorm, best, credit, normalised
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.intervals import fleiss_kappa

UNANSWERED, TIED = -1, -2
FLAGGED, KEPT, UNDECIDED = 1, 0, -1
"""Outcomes of the screen."""
_POSITIONS_P = 0.001
"""Level of the test for orders that show positions."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Picks of the screen's voters on the judged items. `best` (n, m, K) marks the choices that share a voter's best
    averaged score. `pick` (n, m) is -1 if unanswered, or -2 for a tie. `placed` is true if the orders let a voter see
    positions. `left_out` counts the voters removed since."""

    items: tuple[str, ...]
    key: Ints
    k: Ints
    best: Bools
    pick: Ints
    voters: tuple[str, ...]
    template: str | None = None
    rotations: int = 0
    placed: bool = False
    left_out: int = 0

    def without(self, voter: str) -> "Votes":
        """Return the votes without those of one voter."""
        keep = [i for i, name in enumerate(self.voters) if name != voter]
        voters = tuple(self.voters[i] for i in keep)
        left_out = self.left_out + len(self.voters) - len(voters)
        best, pick = self.best[:, keep], self.pick[:, keep]
        return replace(self, best=best, pick=pick, voters=voters, left_out=left_out)

    def credit(self) -> Floats:
        """Return the credit that each voter's averaged pick earns, shared among ties (n, m). Unanswered items are NaN."""
        return credit(self.best, self.key)


def cast_votes(answers: Answers, rules: ScreenRules, index: ItemIndex, *, plain: bool = False) -> Votes:
    """Average each voter's answers to an item, and pick the option with the highest average. The pick is -1 if there is no
    answer, and -2 if options are tied. `plain` uses only the first (D.4)."""
    view = VIEW_OF[rules.mode]
    template, named = who_votes(answers, rules)
    voters = () if template is None else named
    shared = np.zeros((len(index), len(voters), index.width), dtype=bool)
    orders, placed = 0, False
    for m, name in enumerate(voters):
        block = answers.block(view, name, template)
        block = block.first() if plain else block
        shared[:, m] = averaged(block, rules.mode, index, rules.norm)
        orders = max(orders, int(np.bincount(block.item).max(initial=0)))
        placed |= rules.mode == "letter" and shows_positions(block)
    picks = by_rows(_single, shared)
    return Votes(index.items, index.key, index.k, shared, picks, voters, template, orders, placed)


def _single(shared: Bools) -> Ints:
    """Return the marked choice of each voter and item (n, m). It is -1 if no choice is marked, and -2 if several are."""
    many = shared.sum(axis=-1)
    return np.where(many == 1, shared.argmax(axis=-1), np.where(many > 1, TIED, UNANSWERED)).astype(np.int16)


def first_template(answers: Answers, view: str, voters: Sequence[str] = ()) -> str | None:
    """Return the template in which a view was first asked of any model, or of `voters`, or None if it was not asked."""
    return next((t for v, m, t in answers.askings() if v == view and (not voters or m in voters)), None)


def who_votes(answers: Answers, rules: ScreenRules) -> tuple[str | None, tuple[str, ...]]:
    """Return the template and the voters that the rules select. The template is None if no model was asked."""
    view = VIEW_OF[rules.mode]
    template = rules.template or first_template(answers, view, rules.voters)
    return template, rules.voters or (() if template is None else models_asked(answers, view, template))


def first_block(answers: Answers, view: str, model: str) -> Block:
    """Return a model's rows under a view in its first template. The block is empty if the model was not asked."""
    return answers.block(view, model, first_template(answers, view, (model,)))


def first_picks(answers: Answers, index: ItemIndex, view: str, model: str) -> Ints | None:
    """Return a model's first pick on each item (n,), or None if it was not asked. Unanswered is -1, and tied is -2."""
    block = first_block(answers, view, model).first()
    if not len(block):
        return None
    pick = index.spread(block, np.where((block.tie != 1) & (block.pick >= 0), float(TIED), block.pick))
    return np.where(np.isnan(pick), UNANSWERED, pick).astype(np.int64)


def models_asked(answers: Answers, view: str, template: str | None = None) -> tuple[str, ...]:
    """Return the models that were asked a view (with one template, if given), in order of first appearance."""
    return tuple(dict.fromkeys(m for v, m, t in answers.askings() if v == view and template in (None, t)))


def averaged(block: Block, mode: Mode, index: ItemIndex, norm: TextNorm = "chars") -> Bools:
    """Mark the choices with the best mean preference over an item's rows (n, K). None is marked if a row is unanswered, or
    if the best one relies on an upper bound, because a server reported no score."""
    top: Bools = by_rows(best, mean_preferences(block, mode, index, norm), index.k)
    if np.isnan(block.at_most).all():
        return top
    rows = block.where(index.index_of[block.item] >= 0)
    hidden = np.isnan(_widened(rows.scores, index.width)) & ~np.isnan(rows.at_most)[:, None]
    hidden &= np.arange(hidden.shape[1]) < rows.k[:, None]
    bounded = np.zeros_like(top)
    np.logical_or.at(bounded, index.index_of[rows.item], hidden[:, : index.width])
    return np.asarray(top & ~(top & bounded).any(axis=1, keepdims=True))


def mean_preferences(block: Block, mode: Mode, index: ItemIndex, norm: TextNorm = "chars") -> Floats:
    """Average a model's preference for each choice over the rows of an item (n, K). Items without rows are NaN."""
    total, n_rows = np.zeros((len(index), index.width)), np.zeros(len(index))
    for rows in block.parts():
        rows = rows.where(index.index_of[rows.item] >= 0)
        place, values = index.index_of[rows.item], row_preferences(rows, mode, norm, index.width)
        np.add.at(n_rows, place, 1)
        for column, preference in zip(total.T, values.T, strict=False):
            np.add.at(column, place, preference)
    total /= np.maximum(n_rows, 1)[:, None]
    total[n_rows == 0] = np.nan
    return total


def row_preferences(block: Block, mode: Mode, norm: TextNorm = "chars", width: int = 0) -> Floats:
    """Return how strongly each row prefers each choice (r, K), NaN if unanswered. It is 0 beyond the choices, and K is at
    least `width`.

    By letter, it is the log-softmax over the letters, so that averaging over rotations cancels letter bias (PriDe). By
    text, it is the log probability by `norm`. A score that is not finite makes its row unanswered. A pick without
    scores prefers only itself.
    """
    width = max(width, block.scores.shape[1], int(block.k.max(initial=0)))
    exists = np.arange(width) < block.k[:, None]
    scores = _widened(block.scores, width)
    if not np.isnan(block.at_most).all():
        scores = np.where(np.isnan(scores), block.at_most[:, None], scores)
    match mode:
        case "letter":
            known_scores = scores
            readable = np.where(exists, np.where(np.isfinite(scores), scores, np.nan), -np.inf)
            preference = log_softmax(readable, axis=1) if len(block) else scores
        case "text":
            known_scores = preference = _widened(normalised(block, norm), width)
    bare = np.isnan(known_scores).all(axis=1) & (block.pick >= 0) & (mode == "letter" or norm == "chars")
    broken = ~bare & ((~np.isfinite(known_scores) & exists).any(axis=1) | (block.pick < 0))
    # A tied pick without scores does not show which choices tie, so it is a tie of all and not a vote.
    of_pick = np.where((np.arange(width) == block.pick[:, None]) | (block.tie[:, None] > 1), 0.0, -1.0)
    preference = np.where(bare[:, None], of_pick, np.where(broken[:, None], np.nan, preference))
    return np.where(exists, preference, 0.0)


def _widened(values: Floats, width: int) -> Floats:
    return np.pad(values, ((0, 0), (0, max(0, width - values.shape[1]))), constant_values=np.nan)


def shows_positions(block: Block) -> bool:
    """Return whether options are shown at positions that depend on their positions in the benchmark, so that a voter that
    likes a letter likes some positions of keys. All rotations of an item do not, nor do random orders. False without rows.

    A chi-square test at 0.1 % compares the counts of both positions with those of random orders."""
    own_only, counts, own = len(block) > 0, dict[int, Ints](), np.arange(block.width)
    for rows in block.parts():
        own_only &= bool(((rows.order == own) | (rows.order < 0)).all())
        for k in np.unique(rows.k).tolist():
            pairs = rows.order[rows.k == k, :k].astype(np.int64) * k + np.arange(k)
            counts[k] = counts.get(k, 0) + np.bincount(pairs.ravel(), minlength=k * k)
    if own_only:
        return True
    from scipy.special import chdtrc  # loaded only when needed

    chi = sum((k - 1) / k * float(((n - n.mean()) ** 2).sum() / n.mean()) for k, n in counts.items() if k > 1)
    return bool(chdtrc(max(1, sum((k - 1) ** 2 for k in counts)), chi) < _POSITIONS_P)


def independence(accuracy: Floats, k: Ints) -> tuple[float | None, float | None]:
    """Return two expected shares of items that all voters get right: if they are independent, and if they guess. `accuracy`
    is (m,), and `k` (n,). None without voters, or if a voter answered nothing."""
    if not len(accuracy) or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    return float(accuracy.prod()), float(((1 / k) ** len(accuracy)).mean())


def voter_agreement(pick: Ints, key: Ints, k: Ints) -> dict[str, float | None]:
    """Return how often all voters pick the same option, and how often position preferences alone would make them agree.
    `pick` (n, m) is coded as in `Votes`. Only items that every voter answered count, and a tie agrees with nothing."""
    all_answered = (pick != UNANSWERED).all(axis=1)
    pick, key, k = pick[all_answered], key[all_answered], k[all_answered]
    if pick.shape[1] < 2 or not len(pick):
        names = ("observed", "independent", "ratio", "fleiss_kappa", "all_right")
        return {"n": len(pick) if pick.shape[1] > 1 else None, **dict.fromkeys(names)}
    unanimous = (pick >= 0).all(axis=1) & (pick == pick[:, :1]).all(axis=1)
    observed, n_expected = float(unanimous.mean()), 0.0
    for options in np.unique(k).tolist():
        same_k = pick[k == options]
        shares = np.stack([(same_k == j).mean(axis=0) for j in range(options)])
        n_expected += len(same_k) * float(shares.prod(axis=1).sum())
    independent = n_expected / len(pick)
    right = pick == key[:, None]
    kappa = fleiss_kappa(right)
    return {
        "n": len(pick),
        "observed": observed,
        "independent": independent,
        "ratio": observed / independent if independent > 0 else None,
        "fleiss_kappa": None if math.isnan(kappa) else kappa,
        "all_right": float(right.all(axis=1).mean()),
    }
