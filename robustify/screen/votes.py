"""What each voter picked when it saw nothing but the choices, as arrays: one vote a voter and item.

A voter's rows about an item come to one pick, by the rule for its rotations. Ties stay ties, and what was not
answered, or has a score that is no finite number, stays unanswered. Which votes are enough is decided in `consensus`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import log_softmax

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import best, normalised
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FULL_OF, VIEW_OF, Mode, ScreenRules, TextNorm
from robustify.stats.intervals import Rate

PROBE = "probe"
UNANSWERED, TIED = -1, -2


@dataclass(frozen=True, repr=False)
class Flagging:
    """What a rule flags that counts no votes.

    `would` (n, K): it would flag the item, were option j its key; `open` (n, K): it would not, but a missing answer could
    still flag it, or nothing says whether.
    `false_share`: of what it flags, the share that is there by chance, from the misses above its cut.
    """

    would: Bools
    open: Bools
    false_share: Rate


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes of the screen, n items by m voters.

    `best` (n, m, K): the choices that share a voter's best averaged score. `choice` (n, m): the choice that it votes for,
    -1 unanswered, -2 no vote (a tie, or rotations that do not agree). `probe` (n,) in the same coding. `placed`: a voter
    saw the benchmark's own order alone, and so positions. `left_out`: how many voters were taken away since.
    """

    items: tuple[str, ...]
    key: Ints
    k: Ints
    best: Bools
    choice: Ints
    voters: tuple[str, ...]
    template: str | None = None
    rotations: int = 0
    probe: Ints | None = None
    placed: bool = False
    left_out: int = 0

    def without(self, voter: str) -> "Votes":
        """Return the votes as they are if this voter had not been asked."""
        keep = [i for i, name in enumerate(self.voters) if name != voter]
        voters = tuple(self.voters[i] for i in keep)
        left_out = self.left_out + len(self.voters) - len(voters)
        best, choice = self.best[:, keep], self.choice[:, keep]
        return replace(self, best=best, choice=choice, voters=voters, left_out=left_out)

    def credit(self) -> Floats:
        """The tie-fair credit of each voter's averaged pick, (n, m); NaN where unanswered."""
        tied = self.best.sum(axis=2)
        right = np.take_along_axis(self.best, np.maximum(self.key, 0)[:, None, None], axis=2)[:, :, 0]
        return np.where(tied > 0, right / np.maximum(tied, 1), np.nan)


def cast_votes(answers: Answers, rules: ScreenRules, index: ItemIndex, *, plain: bool = False) -> Votes:
    """Return the votes on these items; what a voter was not asked is unanswered. `plain`: first rows alone (as in D.4)."""
    view = VIEW_OF[rules.mode]
    template, named = who_votes(answers, rules)
    voters = () if template is None else named
    best = np.zeros((len(index), len(voters), index.width), dtype=bool)
    choice = np.full((len(index), len(voters)), UNANSWERED, dtype=np.int64)
    orders, placed = 0, False
    for m, name in enumerate(voters):
        block = answers.block(view, name, template)
        block = block.first() if plain else block
        at, liking = preferences(block, rules.mode, index, rules.norm)
        best[:, m] = mean_best(at, liking, index, not_shown(block, index))
        match rules.rotation:
            case "averaged":
                choice[:, m] = one_pick(best[:, m])
            case "every" | "most":
                choice[:, m] = agreed(at, liking, index, rules.rotation)
        orders = max(orders, int(np.bincount(block.item).max(initial=0)))
        placed |= rules.mode == "letter" and in_own_order(block)
    probe = None if rules.probe_vote == "none" else _confident(answers, rules.probe_confidence, index)
    return Votes(index.items, index.key, index.k, best, choice, voters, template, orders, probe, placed)


def first_template(answers: Answers, view: str, voters: Sequence[str] = ()) -> str | None:
    """The first template under which the view was asked (of these models, if any are named)."""
    return next((t for v, m, t in answers.askings() if v == view and (not voters or m in voters)), None)


def who_votes(answers: Answers, rules: ScreenRules) -> tuple[str | None, tuple[str, ...]]:
    """The template and the voters that the rules stand for; no template where nobody was asked."""
    view = VIEW_OF[rules.mode]
    template = rules.template or first_template(answers, view, rules.voters)
    return template, rules.voters or (() if template is None else models_asked(answers, view, template))


def first_block(answers: Answers, view: str, model: str) -> Block:
    """The rows of a model under a view, in its first template; none where it was not asked."""
    return answers.block(view, model, first_template(answers, view, (model,)))


def first_picks(answers: Answers, index: ItemIndex, view: str, model: str) -> Ints | None:
    """A model's pick in the first row of each item, (n,): -1 unanswered, -2 tied; None where it was not asked."""
    block = first_block(answers, view, model).first()
    if not len(block):
        return None
    pick = index.spread(block, np.where((block.tie != 1) & (block.pick >= 0), float(TIED), block.pick))
    return np.where(np.isnan(pick), UNANSWERED, pick).astype(np.int64)


def full_mode(answers: Answers, wanted: Mode = "letter") -> Mode:
    """The mode in which the question was asked: the one wanted if any model was asked so, else the other if any was."""
    asked = {view for view, _, _ in answers.askings()}
    other: Mode = "text" if wanted == "letter" else "letter"
    return other if FULL_OF[wanted] not in asked and FULL_OF[other] in asked else wanted


def models_asked(answers: Answers, view: str, template: str | None = None) -> tuple[str, ...]:
    """The models that were asked a view (under a template), in the order of their first row."""
    return tuple(dict.fromkeys(m for v, m, t in answers.askings() if v == view and template in (None, t)))


def preferences(block: Block, mode: Mode, index: ItemIndex, norm: TextNorm = "chars") -> tuple[Ints, Floats]:
    """The rows of judged items: each one's place in the index (r,), and its preferences (r, width)."""
    at = index.at[block.item]
    rows = block if (at >= 0).all() else block.where(at >= 0)
    liking = row_preferences(rows, mode, norm)
    width = index.width
    return at[at >= 0], np.pad(liking, ((0, 0), (0, max(0, width - liking.shape[1]))))[:, :width]


def averaged(block: Block, mode: Mode, index: ItemIndex, norm: TextNorm = "chars") -> Bools:
    """The choices that share the best mean preference over an item's rows, (n, K); none where one is unanswered."""
    return mean_best(*preferences(block, mode, index, norm), index, not_shown(block, index))


def mean_best(at: Ints, liking: Floats, index: ItemIndex, bounded: Bools | None = None) -> Bools:
    """Return what `averaged` does, of preferences already read. `bounded` (r, width): upper bounds, not scores.

    A choice that is best only by such bounds is not known to be: the item has none then.
    """
    means = _sums(at, liking, index)
    asked = np.bincount(at, minlength=len(index))
    mean = np.where(asked[:, None] > 0, means / np.maximum(asked, 1)[:, None], np.nan)
    top = best(mean, index.k)
    if bounded is None:
        return top
    return np.asarray(top & ~(top & (_sums(at, bounded, index) > 0)).any(axis=1, keepdims=True))


def _sums(at: Ints, values: Floats | Bools, index: ItemIndex) -> Floats:
    return np.stack([np.bincount(at, weights=column, minlength=len(index)) for column in values.T], axis=1)


def not_shown(block: Block, index: ItemIndex) -> Bools | None:
    """Of the rows of judged items the choices whose letters were not shown, (r, width); None where all were."""
    if np.isnan(block.at_most).all():
        return None
    rows = block.where(index.at[block.item] >= 0)
    hidden = np.isnan(_widened(rows.scores, max(rows.scores.shape[1], index.width)))
    there = np.arange(hidden.shape[1]) < rows.k[:, None]
    return np.asarray((hidden & there & ~np.isnan(rows.at_most)[:, None])[:, : index.width])


def one_pick(shared: Bools) -> Ints:
    """The one choice that is best, `shared` (..., K): -1 where there is none, -2 where several share it."""
    tied = shared.sum(axis=-1)
    return np.where(tied == 1, shared.argmax(axis=-1), np.where(tied > 1, TIED, UNANSWERED))


def agreed(at: Ints, liking: Floats, index: ItemIndex, rotation: Literal["every", "most"]) -> Ints:
    """The choice picked in `every` row of an item, or in `most` of them (more than half), (n,).

    -2 where no choice is and none can be any more; -1 where nobody asked, or where rows without an answer
    could still make one so. A tied row picks nothing.
    """
    n, width = len(index), index.width
    pick = one_pick(best(liking, index.k[at]))
    there = pick >= 0
    won = np.bincount(at[there] * width + pick[there], minlength=n * width).reshape(n, width)
    asked = np.bincount(at, minlength=n)
    lost = np.bincount(at[pick == UNANSWERED], minlength=n)
    due = asked if rotation == "every" else asked // 2 + 1
    most = won.max(axis=1)
    open_ = np.where(most + lost >= due, UNANSWERED, TIED)
    return np.where(asked == 0, UNANSWERED, np.where(most >= due, won.argmax(axis=1), open_))


def row_preferences(block: Block, mode: Mode, norm: TextNorm = "chars") -> Floats:
    """Return how much each row likes each choice, (r, K): NaN where unanswered, 0 beyond its choices.

    By letter: log-softmax over the letters, so that averaging over rotations cancels a liking for one (PriDe). By text:
    log probability by `norm`. A score that is not finite leaves its row unanswered; a pick without scores likes itself
    alone.
    """
    width = max(block.scores.shape[1], int(block.k.max(initial=0)))
    there = np.arange(width) < block.k[:, None]
    scores = _widened(block.scores, width)
    if not np.isnan(block.at_most).all():
        scores = np.where(np.isnan(scores), block.at_most[:, None], scores)
    match mode:
        case "letter":
            known = scores
            readable = np.where(there, np.where(np.isfinite(scores), scores, np.nan), -np.inf)
            liking = log_softmax(readable, axis=1) if len(block) else scores
        case "text":
            known = liking = _widened(normalised(block, norm), width)
    bare = np.isnan(known).all(axis=1) & (block.pick >= 0) & (mode == "letter" or norm == "chars")
    broken = ~bare & ((~np.isfinite(known) & there).any(axis=1) | (block.pick < 0))
    # Which choices a tied pick without scores shared is not known: it stays a tie of all, which is no vote.
    only = np.where((np.arange(width) == block.pick[:, None]) | (block.tie[:, None] > 1), 0.0, -1.0)
    liking = np.where(bare[:, None], only, np.where(broken[:, None], np.nan, liking))
    return np.where(there, liking, 0.0)


def _widened(values: Floats, width: int) -> Floats:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=np.nan)


def in_own_order(block: Block) -> bool:
    """Whether there are rows, and all show the options in the benchmark's own order."""
    own = np.arange(block.order.shape[1])
    return len(block) > 0 and bool(((block.order == own) | (block.order < 0)).all())


def _confident(answers: Answers, confidence: float, index: ItemIndex) -> Ints:
    block = answers.block(PROBE, PROBE).first()
    if not len(block):
        return np.full(len(index), UNANSWERED)
    top = np.where(
        block.k > 0,
        np.nanmax(np.pad(block.scores, ((0, 0), (0, 1)), constant_values=-np.inf), axis=1),
        np.nan,
    )
    # Of two choices the better one has always a half. So a pick must also be as many times as probable as the mean of
    # the others as one of this confidence is among four choices.
    p, times = np.exp(top), 3 * confidence / max(1 - confidence, 1e-12)
    clear = p * (block.k - 1) >= times * (1 - p) * (1 - 1e-9)
    sure = (p >= confidence) & clear & (block.tie == 1)
    vote = np.where(block.pick < 0, UNANSWERED, np.where(sure, block.pick, TIED)).astype(np.float64)
    pick = index.spread(block, vote)
    return np.where(np.isnan(pick), UNANSWERED, pick).astype(np.int64)
