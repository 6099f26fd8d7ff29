"""What each voter picked when it saw nothing but the choices, as arrays.

Here the rows of the screen become one ballot: rotations are averaged, ties are kept as ties, and what was not
answered stays unanswered. Nothing here decides which votes are enough; that is the consensus.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, field_validator
from scipy.special import log_softmax

from robustify.answers import Answers, Block
from robustify.cloze import best
from robustify.errors import DataError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Mode = Literal["letter", "text"]

UNANSWERED, TIED = -1, -2
VIEW_OF: dict[Mode, str] = {"letter": "choices_only", "text": "choices_only_text"}
PROBE = "probe"


class ScreenRules(BaseModel):
    """Which votes flag an item as a shortcut.

    `criterion`: all voters right, or more than half. `mode`: by letter (every rotation averaged) or by the
    choice's own text per character. `template`: None is the first one asked. `voters`: none named means every
    model that answered. `probe_vote`: the trained probe does not vote, votes `with` the others, or its right
    pick flags `alone`; it casts a vote only where it gives its pick at least `probe_confidence`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    criterion: Literal["unanimous", "majority"] = "unanimous"
    mode: Mode = "letter"
    template: str | None = None
    voters: tuple[str, ...] = ()
    probe_vote: Literal["none", "with", "alone"] = "none"
    probe_confidence: float = Field(default=0.5, ge=0, le=1)

    @field_validator("voters")
    @classmethod
    def _each_votes_once(cls, voters: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({v for v in voters if voters.count(v) > 1})
        if twice:
            raise ValueError(f"{twice[0]} stands twice; a model must not vote twice")
        return voters


@dataclass(frozen=True)
class Roll:
    """The items that are judged, in their order.

    `items` (n ids), `key` and `k` (n,), -1 and 0 where no row says. `place` gives for each of `Answers.items`
    its index here, -1 for items that are not judged.
    """

    items: tuple[str, ...]
    key: Ints
    k: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.items)

    @property
    def width(self) -> int:
        """The largest number of choices (1 where no row says any, so that arrays have a column)."""
        return int(self.k.max(initial=1))

    def spread(self, block: Block, values: Floats) -> Floats:
        """Values of a block's rows (one row an item) in the items' order, (n,); NaN where there is no row."""
        out = np.full(len(self), np.nan)
        where = self.place[block.item]
        out[where[where >= 0]] = values[where >= 0]
        return out


@dataclass(frozen=True)
class Ballot:
    """The votes of the screen, items by voters.

    `items` (n ids), `key`, `k` (n,). `best` (n, m, K): the choices that share a voter's best score, none
    where it did not answer. `choice` (n, m): the one best choice, -1 unanswered, -2 a tie, which is no
    vote. `probe` (n,): the probe's confident pick in the same coding (-2 also where it is not confident),
    None where it has no say.
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

    def without(self, voter: str) -> "Ballot":
        """The same ballot as if this voter had not been asked."""
        keep = [i for i, name in enumerate(self.voters) if name != voter]
        voters = tuple(self.voters[i] for i in keep)
        return replace(self, best=self.best[:, keep], choice=self.choice[:, keep], voters=voters)

    def where(self, mask: Bools) -> "Ballot":
        """The ballot of the items where `mask` (n,) is true."""
        items = tuple(name for name, kept in zip(self.items, mask.tolist(), strict=True) if kept)
        probe = None if self.probe is None else self.probe[mask]
        best_, choice = self.best[mask], self.choice[mask]
        return replace(
            self, items=items, key=self.key[mask], k=self.k[mask], best=best_, choice=choice, probe=probe
        )

    def credit(self) -> Floats:
        """The tie-fair credit of each voter's averaged pick, (n, m); NaN where unanswered."""
        tied = self.best.sum(axis=2)
        right = np.take_along_axis(self.best, np.maximum(self.key, 0)[:, None, None], axis=2)[:, :, 0]
        return np.where(tied > 0, right / np.maximum(tied, 1), np.nan)


def ballot(answers: Answers, rules: ScreenRules, items_order: Sequence[str]) -> Ballot:
    """The ballot of these items under these rules; what a voter was not asked is unanswered.

    Raises:
        DataError: two rows of one item disagree on its key or on its number of choices.
    """
    return cast_votes(answers, rules, roll(answers, items_order))


def cast_votes(answers: Answers, rules: ScreenRules, held: Roll, *, plain: bool = False) -> Ballot:
    """As `ballot`, for a roll already called. `plain`: only the first row of an item counts (as in D.4)."""
    view = VIEW_OF[rules.mode]
    template = rules.template or first_template(answers, view, rules.voters)
    voters = (rules.voters or models(answers, view, template)) if template is not None else ()
    best_ = np.zeros((len(held), len(voters), held.width), dtype=bool)
    rotations = 0
    for m, name in enumerate(voters):
        block = answers.block(view, name, template)
        block = block.first() if plain else block
        best_[:, m] = averaged(block, rules.mode, held)
        rotations = max(rotations, int(np.bincount(block.item).max(initial=0)))
    tied = best_.sum(axis=2)
    choice = np.where(tied == 1, best_.argmax(axis=2), np.where(tied > 1, TIED, UNANSWERED))
    probe = None if rules.probe_vote == "none" else _confident(answers, rules.probe_confidence, held)
    return Ballot(held.items, held.key, held.k, best_, choice, voters, template, rotations, probe)


def roll(answers: Answers, items_order: Sequence[str]) -> Roll:
    """The items in this order, with the key and number of choices that their rows name.

    Raises:
        DataError: two rows of one item disagree on its key or on its number of choices.
    """
    items = tuple(items_order)
    place = np.asarray(
        pc.fill_null(
            pc.index_in(pa.array(answers.items, pa.string()), value_set=pa.array(items, pa.string())), -1
        ),
        dtype=np.int64,
    )
    item = np.asarray(
        pc.index_in(answers.table["item"], value_set=pa.array(answers.items, pa.string())), dtype=np.int64
    )
    at = place[item]
    keys = np.asarray(answers.table["key"], dtype=np.int64)[at >= 0]
    ks = np.asarray(pc.list_value_length(answers.table["order"]), dtype=np.int64)[at >= 0]
    at = at[at >= 0]
    key, k = np.full(len(items), -1), np.zeros(len(items), dtype=np.int64)
    key[at], k[at] = keys, ks
    wrong = np.flatnonzero((key[at] != keys) | (k[at] != ks) | (keys < 0) | (keys >= ks))
    if len(wrong):
        n = len(np.unique(at[wrong]))
        raise DataError(
            f"answer table: the rows of item {items[at[wrong[0]]]} name different keys or numbers of choices "
            f"(or a key out of range; {n} such items); expected one key an item, so ask or import it again"
        )
    return Roll(items, key, k, place)


def first_template(answers: Answers, view: str, voters: Sequence[str] = ()) -> str | None:
    """The first template under which the view was asked (of these models, if any are named)."""
    return next((t for v, m, t in answers.askings() if v == view and (not voters or m in voters)), None)


def models(answers: Answers, view: str, template: str | None = None) -> tuple[str, ...]:
    """The models that were asked a view (under a template), in the order of their first row."""
    return tuple(dict.fromkeys(m for v, m, t in answers.askings() if v == view and template in (None, t)))


def averaged(block: Block, mode: Mode, held: Roll) -> Bools:
    """The choices that share the best mean preference over an item's rows, (n, K); none where one is
    unanswered.
    """
    at = held.place[block.item]
    rows = block if (at >= 0).all() else block.where(at >= 0)
    at = at[at >= 0]
    wish = preference(rows, mode)
    width = held.width
    wish = np.pad(wish, ((0, 0), (0, max(0, width - wish.shape[1]))))[:, :width]
    asked = np.bincount(at, minlength=len(held))
    total = np.stack([np.bincount(at, weights=column, minlength=len(held)) for column in wish.T], axis=1)
    mean = np.where(asked[:, None] > 0, total / np.maximum(asked, 1)[:, None], np.nan)
    return best(mean, held.k)


def preference(block: Block, mode: Mode) -> Floats:
    """How much each row likes each choice, (r, K): NaN where unanswered, 0 beyond its choices.

    Letter mode: log-softmax over the item's letters, so that averaging over rotations cancels a liking for
    a letter (PriDe). Text mode: log probability per character. A row with a pick but no scores likes only
    its pick.
    """
    width = max(block.scores.shape[1], int(block.k.max(initial=0)))
    there = np.arange(width) < block.k[:, None]
    scores, chars = _widened(block.scores, width), _widened(block.n_chars, width)
    match mode:
        case "letter":
            held = scores
            wish = log_softmax(np.where(there, scores, -np.inf), axis=1) if len(block) else scores
        case "text":
            held = wish = scores / np.where(chars > 0, chars, np.nan)
    # Which choices a tied pick without scores shared is not known: it stays a tie of all, which is no vote.
    only = np.where((np.arange(width) == block.pick[:, None]) | (block.tie[:, None] > 1), 0.0, -1.0)
    bare = np.isnan(held).all(axis=1) & (block.pick >= 0)
    broken = ~bare & ((np.isnan(held) & there).any(axis=1) | (block.pick < 0))
    wish = np.where(bare[:, None], only, np.where(broken[:, None], np.nan, wish))
    return np.where(there, wish, 0.0)


def _widened(values: Floats, width: int) -> Floats:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=np.nan)


def _confident(answers: Answers, confidence: float, held: Roll) -> Ints:
    block = answers.block(PROBE, PROBE).first()
    if not len(block):
        return np.full(len(held), UNANSWERED)
    top = np.where(
        block.k > 0,
        np.nanmax(np.pad(block.scores, ((0, 0), (0, 1)), constant_values=-np.inf), axis=1),
        np.nan,
    )
    sure = (np.exp(top) >= confidence) & (block.tie == 1)
    pick = held.spread(
        block, np.where(block.pick < 0, UNANSWERED, np.where(sure, block.pick, TIED)).astype(np.float64)
    )
    return np.where(np.isnan(pick), UNANSWERED, pick).astype(np.int64)
