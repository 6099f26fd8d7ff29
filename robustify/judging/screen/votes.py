"""Votes and preferences of the choices-only screen as arrays.

A voter's rows about an item are averaged into one pick. Ties remain ties. Items without an answer, or with a score that
is not finite, are unanswered. A preference also gives a degree, and is an input of the ranking.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import log_softmax

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, by_rows, tied
from robustify.items.answers import Answers, Block
from robustify.items.scoring import VIEW_OF, Mode, TextNorm, best, credit, normalised
from robustify.judging.baselines.conditional_logit import centred
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.intervals import fleiss_kappa

UNANSWERED, TIED = -1, -2
FLAGGED, KEPT, UNDECIDED = 1, 0, -1
"""Outcomes of the screen."""
GRADED = " by degree"
"""End of the name of a column of votes on one scale for all items."""
_EVERY = slice(None)
Silence = Callable[[Ints], Floats]
"""Function of some items (r,) that returns the share of voters without an answer, times what it could contribute (r,)."""
_ANYTHING = 1e6
"""Stand-in for the unbounded contribution of a voter that never answered."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Picks of the screen's voters on the judged items. `best` (n, m, K) marks the choices that share a voter's best
    averaged score. `pick` (n, m) is -1 if unanswered, or -2 for a tie. `placed` is true if a voter saw only the
    benchmark's own order, and so positions. `left_out` counts the voters removed since."""

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
    """Average each voter's answers to an item into one pick (-1 if there are none). `plain` uses only the first (D.4)."""
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
        placed |= rules.mode == "letter" and in_own_order(block)
    picks = by_rows(_single, shared)
    return Votes(index.items, index.key, index.k, shared, picks, voters, template, orders, placed)


def _single(shared: Bools) -> Ints:
    """Return the choice that is marked for each voter and item (n, m). It is -1 if none is, and -2 if several are."""
    many = shared.sum(axis=-1)
    return np.where(many == 1, shared.argmax(axis=-1), np.where(many > 1, TIED, UNANSWERED)).astype(np.int16)


def first_template(answers: Answers, view: str, voters: Sequence[str] = ()) -> str | None:
    """Return the template in which a view was first asked of any model, or of `voters`. Return None if it never was."""
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
    """Return the models that were asked a view, for one template if given, in order of first appearance."""
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
    total, asked = np.zeros((len(index), index.width)), np.zeros(len(index))
    for rows in block.parts():
        rows = rows.where(index.index_of[rows.item] >= 0)
        at, values = index.index_of[rows.item], row_preferences(rows, mode, norm, index.width)
        np.add.at(asked, at, 1)
        for column, own in zip(total.T, values.T, strict=False):
            np.add.at(column, at, own)
    total /= np.maximum(asked, 1)[:, None]
    total[asked == 0] = np.nan
    return total


def row_preferences(block: Block, mode: Mode, norm: TextNorm = "chars", width: int = 0) -> Floats:
    """Return how strongly each row prefers each choice (r, K), NaN if unanswered. It is 0 beyond the choices, and K is at
    least `width`.

    By letter, it is the log-softmax over the letters, so that averaging over rotations cancels letter bias (PriDe). By
    text, it is the log probability by `norm`. A score that is not finite makes its row unanswered. A pick without
    scores prefers only itself.
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
    """Return whether every row shows the options in the benchmark's own order. False without rows."""
    own = np.arange(block.order.shape[1])
    return len(block) > 0 and bool(((block.order == own) | (block.order < 0)).all())


@dataclass(frozen=True)
class _Preferences:
    """One voter's preferences among the options in one mode. `middle` (n, K) has mean 0 within the item, or is 0 if
    unanswered. Its deviation is typically `scale`, and at most `largest` times that, among `k` (n,) options. `bare` is
    true if no answer has scores."""

    middle: Floats
    k: Ints
    largest: float
    scale: float
    answered: Bools
    placed: bool
    asked: Bools
    bare: bool

    def values(self, rows: slice | Ints = _EVERY) -> Floats:
        """Return the preferences on some items, scaled to deviation 1 for each item (r, K). Without spread, they are 0."""
        middle = self.middle[rows]
        spread = _deviation(middle, self.k[rows])
        alive = spread > ROUNDING
        return middle * (alive / np.where(alive, spread, 1.0))[:, None]

    def graded(self, rows: Ints) -> Floats:
        """Return the preferences on some items, divided by a scale that is the same for all items (r, K)."""
        return self.middle[rows] / self.scale


def _deviation(middle: Floats, k: Ints) -> Floats:
    return np.asarray(np.sqrt((middle**2).sum(axis=1) / np.maximum(k, 1)))


@dataclass(frozen=True, repr=False)
class MeanPreference:
    """Mean preferences of several voters, computed only for the items that are asked for."""

    voters: Sequence[_Preferences]
    of: Callable[[_Preferences, Ints], Floats]

    def __getitem__(self, rows: Ints) -> Floats:
        return np.asarray(sum(self.of(one, rows) for one in self.voters)) / len(self.voters)


@dataclass(frozen=True, repr=False)
class MeanPreferences:
    """Mean preferences by mode of the voters that answered (`values`), and the effect of those that did not (`missing`).
    `complete` (n,) marks items that every voter answered. `placed` is true if a voter saw positions. `selection` is how
    many times more often right answers may have been readable than wrong ones."""

    values: dict[str, MeanPreference]
    missing: dict[str, Silence]
    complete: Bools
    placed: bool
    selection: float
    voters: Sequence[_Preferences]

    def picks(self) -> Floats | None:
        """Return each voter's preferences (n, K, m), or None if a voter gave scores. Unanswered items are NaN."""
        if not self.voters or not all(one.bare for one in self.voters):
            return None
        return np.stack(
            [np.where(one.answered[:, None], one.values(), np.nan) for one in self.voters], axis=2
        )


class VoterPreferences:
    """Preferences of all voters among the options of each item. The answers of each voter are read once."""

    def __init__(self, answers: Answers, index: ItemIndex) -> None:
        self._answers, self._index = answers, index
        self.there = np.arange(index.width) < index.k[:, None]
        self._read: dict[tuple[str, str, str, TextNorm], _Preferences] = {}

    def of(self, rules: ScreenRules) -> MeanPreferences:
        """Return the mean preferences of the voters that the rules select. A missing answer has none, so that an item with
        few answers ranks lower."""
        template, voters = who_votes(self._answers, rules)
        found: dict[str, MeanPreference] = {}
        missing: dict[str, Silence] = {}
        every: list[_Preferences] = []
        modes: tuple[Mode, ...] = ("text", "letter")
        for mode in modes:
            own = mode == rules.mode
            by = template if own else first_template(self._answers, VIEW_OF[mode], voters)
            if by is None:
                continue
            read = [self._of(mode, name, by, rules.norm if own else "chars") for name in voters]
            read = [one for one in read if own or one.asked.any()]
            spoken = [one.answered.any() for one in read]
            if any(spoken):
                name, most = f"{mode} votes", max(one.largest for one in read)
                found[name] = MeanPreference(read, _Preferences.values)
                found[name + GRADED] = MeanPreference(read, _Preferences.graded)
                missing[name] = partial(_silence, read, 1.0, silent=not all(spoken))
                missing[name + GRADED] = partial(_silence, read, most, silent=not all(spoken))
            every += read
        complete = np.ones(len(self._index), dtype=bool)
        for one in every:
            complete &= one.answered
        placed, spoke = any(one.placed for one in every), [one for one in every if one.answered.any()]
        selection, key = 1.0, np.maximum(self._index.key, 0)
        known = (self._index.key >= 0) & (self._index.k > 0)
        if not all((one.answered | ~one.asked | ~known).all() for one in spoke):
            right = [
                tied(of[np.arange(len(key)), key], of.max(axis=1)) for of in (one.values() for one in spoke)
            ]
            asked, heard = [known & one.asked for one in spoke], [known & one.answered for one in spoke]
            selection = _reading_ratio(*(np.stack(parts, axis=1) for parts in (asked, heard, right)))
        return MeanPreferences(found, missing, complete, placed, selection, spoke)

    def _of(self, mode: Mode, name: str, template: str, norm: TextNorm) -> _Preferences:
        asking = mode, name, template, norm
        if asking not in self._read:
            block = self._answers.block(VIEW_OF[mode], name, template)
            preference = mean_preferences(block, mode, self._index, norm)
            answered = ~(np.isnan(preference) & self.there).any(axis=1) & (self._index.k > 0)
            middle = by_rows(
                lambda of, there, heard: np.where(heard[:, None], centred(np.nan_to_num(of), there), 0.0),
                preference, self.there, answered,
            )  # fmt: skip
            spread = by_rows(_deviation, middle, self._index.k)
            alive = spread > ROUNDING
            scale = float(np.sqrt((spread[alive] ** 2).mean())) if alive.any() else 1.0
            there = self._index.index_of[block.item]
            asked = np.bincount(there[there >= 0], minlength=len(self._index)) > 0
            placed = mode == "letter" and in_own_order(block)
            bare, largest = not np.isfinite(block.scores).any(), float(spread.max(initial=0.0)) / scale
            self._read[asking] = _Preferences(
                middle, self._index.k, largest, scale, answered, placed, asked, bare
            )
        return self._read[asking]


def _silence(read: Sequence[_Preferences], most: float, rows: Ints, *, silent: bool) -> Floats:
    """Return how much missing answers could add to a mean preference on each item of `rows` (r,). It is the share of
    voters without an answer times `most`, or unbounded if one of them is `silent` on all items."""
    n = sum((one.answered[rows] for one in read), np.zeros(len(rows)))
    return (np.full(len(n), _ANYTHING) if silent else 1 - n / len(read)) * most


def _reading_ratio(asked: Bools, read: Bools, right: Bools) -> float:
    """Return a conservative estimate of p / q if right replies are readable with probability p and wrong ones with q.

    This is the estimate plus one standard error, at least 1, of (n, m) with a column per voter, multiplied over voters.
    The sum of right / p + wrong / q is the number of items asked, also if items are weighted by the share of other
    voters that were right: two equations for p and q (method of moments, sandwich error). Without other voters, all
    unreadable replies count as wrong.
    """
    total = variance = most = 0.0
    won, lost = read & right, read & ~right
    for v in range(asked.shape[1]):
        here = asked[:, v]
        unread, wrong = int((here & ~read[:, v]).sum()), int(lost[:, v].sum())
        if not unread:
            continue
        worst = math.log1p(unread / max(1, wrong))
        most += worst
        answered, right_ones = (np.delete(part, v, axis=1)[here].sum(axis=1) for part in (read, won))
        others = right_ones / np.maximum(answered, 1)
        weights = np.stack([np.ones(len(others)), others])
        seen = np.stack([won[here, v], lost[here, v]], axis=1).astype(np.float64)
        moments = weights @ seen
        factors = (
            np.zeros(2) if np.linalg.cond(moments) > 1e9 else np.linalg.solve(moments, weights.sum(axis=1))
        )
        if (factors <= 0).any():
            total += worst
            continue
        noise = (weights * (1 - seen @ factors) ** 2) @ weights.T
        slope = np.linalg.solve(moments.T, np.array([-1.0, 1.0]) / factors)
        total += min(worst, max(-worst, math.log(factors[1] / factors[0])))
        variance += min(worst**2, float(slope @ noise @ slope))
    return math.exp(min(most, max(0.0, total + math.sqrt(variance))))


def independence(accuracy: Floats, k: Ints) -> tuple[float | None, float | None]:
    """Return the share of items that voters would all get right if they were independent, or if they guessed. `accuracy`
    is (m,), and `k` (n,). None without voters, or if a voter answered nothing."""
    if not len(accuracy) or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    return float(accuracy.prod()), float(((1 / k) ** len(accuracy)).mean())


def voter_agreement(pick: Ints, key: Ints, k: Ints) -> dict[str, float | None]:
    """Return how often all voters pick the same option, and how often position preferences alone would make them agree.
    `pick` (n, m) is coded as in `Votes`. Only items that every voter answered count, and a tie agrees with nothing."""
    there = (pick != UNANSWERED).all(axis=1)
    pick, key, k = pick[there], key[there], k[there]
    if pick.shape[1] < 2 or not len(pick):
        names = ("observed", "independent", "ratio", "fleiss_kappa", "all_right")
        return {"n": len(pick) if pick.shape[1] > 1 else None, **dict.fromkeys(names)}
    alike = (pick >= 0).all(axis=1) & (pick == pick[:, :1]).all(axis=1)
    observed, together = float(alike.mean()), 0.0
    for options in np.unique(k).tolist():
        part = pick[k == options]
        shares = np.stack([(part == j).mean(axis=0) for j in range(options)])
        together += len(part) * float(shares.prod(axis=1).sum())
    independent = together / len(pick)
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
