"""Votes of the choices-only screen as arrays: one pick per voter and item.

A voter's rows about an item are averaged into one pick. Ties remain ties. Items without an answer, or with a
score that is not finite, are unanswered. `consensus` decides how many votes are enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.answers import Answers, Block
from robustify.items.scoring import VIEW_OF, Mode, TextNorm, best, credit, normalised
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules

UNANSWERED, TIED = -1, -2
FLAGGED, KEPT, UNDECIDED = 1, 0, -1
"""Outcomes of the screen."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes of m voters on n items.

    `best` (n, m, K) marks the choices that share a voter's best averaged score. `pick` (n, m) is the voter's pick, -1
    if unanswered, or -2 for a tie. `placed` is true if a
    voter saw only the benchmark's own order, and so positions. `left_out` counts the voters removed since.
    """

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
        """Return the tie-fair credit of each voter's averaged pick (n, m), NaN if unanswered."""
        return credit(self.best, self.key)


def cast_votes(answers: Answers, rules: ScreenRules, index: ItemIndex, *, plain: bool = False) -> Votes:
    """Cast the votes on the items, with -1 if a voter was not asked. `plain` uses only the first row of each item (D.4)."""
    view = VIEW_OF[rules.mode]
    template, named = who_votes(answers, rules)
    voters = () if template is None else named
    best = np.zeros((len(index), len(voters), index.width), dtype=bool)
    pick = np.full((len(index), len(voters)), UNANSWERED, dtype=np.int64)
    orders, placed = 0, False
    for m, name in enumerate(voters):
        block = answers.block(view, name, template)
        block = block.first() if plain else block
        best[:, m] = averaged(block, rules.mode, index, rules.norm)
        pick[:, m] = one_pick(best[:, m])
        orders = max(orders, int(np.bincount(block.item).max(initial=0)))
        placed |= rules.mode == "letter" and in_own_order(block)
    return Votes(index.items, index.key, index.k, best, pick, voters, template, orders, placed)


def first_template(answers: Answers, view: str, voters: Sequence[str] = ()) -> str | None:
    """Return the template first used for a view, by any model or by one of `voters`, or None if there is none."""
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
    """Return a model's first picks (n,), -1 if unanswered and -2 if tied, or None if the model was not asked."""
    block = first_block(answers, view, model).first()
    if not len(block):
        return None
    pick = index.spread(block, np.where((block.tie != 1) & (block.pick >= 0), float(TIED), block.pick))
    return np.where(np.isnan(pick), UNANSWERED, pick).astype(np.int64)


def models_asked(answers: Answers, view: str, template: str | None = None) -> tuple[str, ...]:
    """Return the models that were asked a view, for one template if given, in order of first appearance."""
    return tuple(dict.fromkeys(m for v, m, t in answers.askings() if v == view and template in (None, t)))


def preferences(block: Block, mode: Mode, index: ItemIndex, norm: TextNorm = "chars") -> tuple[Ints, Floats]:
    """Return the item index (r,) and the preferences (r, width) of each row that belongs to a judged item."""
    at = index.index_of[block.item]
    found = row_preferences(block.where(at >= 0), mode, norm, index.width)
    return at[at >= 0], found[:, : index.width]


def averaged(block: Block, mode: Mode, index: ItemIndex, norm: TextNorm = "chars") -> Bools:
    """Return the choices (n, K) with the best mean preference over an item's rows.

    There are none if a row is unanswered, or if the best one relies on an upper bound, because a server reported no score.
    """
    at, preference = preferences(block, mode, index, norm)
    top = best(item_means(at, preference, index), index.k)
    if np.isnan(block.at_most).all():
        return top
    rows = block.where(index.index_of[block.item] >= 0)
    hidden = np.isnan(_widened(rows.scores, index.width)) & ~np.isnan(rows.at_most)[:, None]
    bounded = hidden[:, : index.width] & (np.arange(index.width) < rows.k[:, None])
    return np.asarray(top & ~(top & (_sums(at, bounded, index) > 0)).any(axis=1, keepdims=True))


def item_means(at: Ints, values: Floats, index: ItemIndex) -> Floats:
    """Return the mean of the values (r, K) over the rows of each item (n, K), NaN for an item without rows.

    `at` (r,) is the item of each row.
    """
    asked = np.bincount(at, minlength=len(index))[:, None]
    return np.where(asked > 0, _sums(at, values, index) / np.maximum(asked, 1), np.nan)


def _sums(at: Ints, values: Floats | Bools, index: ItemIndex) -> Floats:
    return np.stack([np.bincount(at, weights=column, minlength=len(index)) for column in values.T], axis=1)


def one_pick(shared: Bools) -> Ints:
    """Return the only choice in `shared` (..., K), -1 if there is none, or -2 if there are several."""
    tied = shared.sum(axis=-1)
    return np.where(tied == 1, shared.argmax(axis=-1), np.where(tied > 1, TIED, UNANSWERED))


def row_preferences(block: Block, mode: Mode, norm: TextNorm = "chars", width: int = 0) -> Floats:
    """Return the preference of each row for each choice (r, K), NaN if unanswered and 0 beyond its choices. K is at least
    `width`.

    By letter, it is the log-softmax over the letters, so that averaging over rotations cancels letter bias (PriDe). By
    text, it is the log probability by `norm`. A score that is not finite makes its row unanswered. A pick without scores
    prefers only itself.
    """
    width = max(width, block.scores.shape[1], int(block.k.max(initial=0)))
    there = np.arange(width) < block.k[:, None]
    scores = _widened(block.scores, width)
    if not np.isnan(block.at_most).all():
        scores = np.where(np.isnan(scores), block.at_most[:, None], scores)
    match mode:
        case "letter":
            known = scores
            readable = np.where(there, np.where(np.isfinite(scores), scores, np.nan), -np.inf)
            preference = log_softmax(readable, axis=1) if len(block) else scores
        case "text":
            known = preference = _widened(normalised(block, norm), width)
    bare = np.isnan(known).all(axis=1) & (block.pick >= 0) & (mode == "letter" or norm == "chars")
    broken = ~bare & ((~np.isfinite(known) & there).any(axis=1) | (block.pick < 0))
    # A tied pick without scores does not show which choices tie, so it is a tie of all and not a vote.
    only = np.where((np.arange(width) == block.pick[:, None]) | (block.tie[:, None] > 1), 0.0, -1.0)
    preference = np.where(bare[:, None], only, np.where(broken[:, None], np.nan, preference))
    return np.where(there, preference, 0.0)


def _widened(values: Floats, width: int) -> Floats:
    return np.pad(values, ((0, 0), (0, max(0, width - values.shape[1]))), constant_values=np.nan)


def in_own_order(block: Block) -> bool:
    """Return whether there are rows and all of them show the options in the benchmark's own order."""
    own = np.arange(block.order.shape[1])
    return len(block) > 0 and bool(((block.order == own) | (block.order < 0)).all())
