"""What one voter's rows about an item come to: one pick, however many orders it was shown.

Rotations are averaged, or each of them names its own pick. Ties stay ties, and what was not answered, or holds
a score that is no finite number, stays unanswered: nothing here guesses.
"""

from typing import Literal

import numpy as np
from scipy.special import log_softmax

from robustify.answers import Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import best, normalised
from robustify.screen.item_index import ItemIndex

Mode = Literal["letter", "text"]
TextNorm = Literal["chars", "tokens", "bytes", "sum"]
Rotation = Literal["averaged", "every", "most"]

UNANSWERED, TIED = -1, -2


def preferences(block: Block, mode: Mode, held: ItemIndex, norm: TextNorm = "chars") -> tuple[Ints, Floats]:
    """The rows of judged items: each one's place in the roll (r,), and its preferences (r, width)."""
    at = held.place[block.item]
    rows = block if (at >= 0).all() else block.where(at >= 0)
    wish = row_preferences(rows, mode, norm)
    width = held.width
    return at[at >= 0], np.pad(wish, ((0, 0), (0, max(0, width - wish.shape[1]))))[:, :width]


def averaged(block: Block, mode: Mode, held: ItemIndex, norm: TextNorm = "chars") -> Bools:
    """The choices that share the best mean preference over an item's rows, (n, K); none where one is
    unanswered.
    """
    return mean_best(*preferences(block, mode, held, norm), held)


def mean_best(at: Ints, wish: Floats, held: ItemIndex) -> Bools:
    """As `averaged`, of wishes already taken."""
    asked = np.bincount(at, minlength=len(held))
    total = np.stack([np.bincount(at, weights=column, minlength=len(held)) for column in wish.T], axis=1)
    mean = np.where(asked[:, None] > 0, total / np.maximum(asked, 1)[:, None], np.nan)
    return best(mean, held.k)


def one_pick(shared: Bools) -> Ints:
    """The one choice that is best, `shared` (..., K): -1 where there is none, -2 where several share it."""
    tied = shared.sum(axis=-1)
    return np.where(tied == 1, shared.argmax(axis=-1), np.where(tied > 1, TIED, UNANSWERED))


def agreed(at: Ints, wish: Floats, held: ItemIndex, rotation: Literal["every", "most"]) -> Ints:
    """The choice picked in `every` row of an item, or in `most` of them (more than half), (n,).

    -2 where no choice is and none can be any more; -1 where nobody asked, or where rows without an answer
    could still make one so. A tied row picks nothing.
    """
    n, width = len(held), held.width
    pick = one_pick(best(wish, held.k[at]))
    told = pick >= 0
    won = np.bincount(at[told] * width + pick[told], minlength=n * width).reshape(n, width)
    asked = np.bincount(at, minlength=n)
    lost = np.bincount(at[pick == UNANSWERED], minlength=n)
    due = asked if rotation == "every" else asked // 2 + 1
    most = won.max(axis=1)
    open_ = np.where(most + lost >= due, UNANSWERED, TIED)
    return np.where(asked == 0, UNANSWERED, np.where(most >= due, won.argmax(axis=1), open_))


def row_preferences(block: Block, mode: Mode, norm: TextNorm = "chars") -> Floats:
    """How much each row likes each choice, (r, K): NaN where unanswered, 0 beyond its choices.

    Letter mode: log-softmax over the item's letters, so that averaging over rotations cancels a liking for
    a letter (PriDe). Text mode: log probability by `norm`. A score that is not finite makes its row unanswered.
    A row with a pick but without what its scores are divided by likes only its pick, which stands for `chars`
    and for no other norm.
    """
    width = max(block.scores.shape[1], int(block.k.max(initial=0)))
    there = np.arange(width) < block.k[:, None]
    scores = _widened(block.scores, width)
    match mode:
        case "letter":
            held = scores
            readable = np.where(there, np.where(np.isfinite(scores), scores, np.nan), -np.inf)
            wish = log_softmax(readable, axis=1) if len(block) else scores
        case "text":
            held = wish = _widened(normalised(block, norm), width)
    bare = np.isnan(held).all(axis=1) & (block.pick >= 0) & (mode == "letter" or norm == "chars")
    broken = ~bare & ((~np.isfinite(held) & there).any(axis=1) | (block.pick < 0))
    # Which choices a tied pick without scores shared is not known: it stays a tie of all, which is no vote.
    only = np.where((np.arange(width) == block.pick[:, None]) | (block.tie[:, None] > 1), 0.0, -1.0)
    wish = np.where(bare[:, None], only, np.where(broken[:, None], np.nan, wish))
    return np.where(there, wish, 0.0)


def _widened(values: Floats, width: int) -> Floats:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=np.nan)
