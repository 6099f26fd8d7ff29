"""What each voter picked when it saw nothing but the choices, as arrays.

Here the rows of the screen become one ballot: one vote a voter, by the rule for its rotations; ties are no
votes, and what was not answered stays unanswered. Nothing here decides which votes are enough; that is the
consensus.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.screen.criteria import parse_criterion
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.picks import (
    TIED,
    UNANSWERED,
    Mode,
    Rotation,
    TextNorm,
    agreed,
    mean_best,
    one_pick,
    preferences,
)

VIEW_OF: dict[Mode, str] = {"letter": "choices_only", "text": "choices_only_text"}
PROBE = "probe"


class ScreenRules(BaseModel):
    """Which votes flag an item as a shortcut.

    `criterion`: all voters right (`unanimous`), more than half (`majority`), or k of them (`2-of-3`, where n
    is the number of votes cast). `mode`: by letter or by the choice's own text. `template`: None is the first
    one asked. `voters`: none named means every model that answered. `rotation`: a voter's vote is its pick
    averaged over the orders it was shown, or the one that it picked under `every` order, or under `most` of
    them (more than half); else it casts none. `norm`: text mode divides log probabilities by `chars`,
    `tokens` or `bytes`, or compares the `sum`; letter mode has nothing to divide and ignores it. `probe_vote`:
    the trained probe does not vote, votes `with` the others, or its right pick flags `alone`; it casts a vote
    only where it gives its pick at least `probe_confidence`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    criterion: str = "unanimous"
    mode: Mode = "letter"
    template: str | None = None
    voters: tuple[str, ...] = ()
    rotation: Rotation = "averaged"
    norm: TextNorm = "chars"
    probe_vote: Literal["none", "with", "alone"] = "none"
    probe_confidence: float = Field(default=0.5, ge=0, le=1)

    @field_validator("criterion")
    @classmethod
    def _can_be_met(cls, criterion: str) -> str:
        found = parse_criterion(criterion)
        return criterion if found is None else f"{found[0]}-of-{found[1]}"

    @field_validator("voters")
    @classmethod
    def _each_votes_once(cls, voters: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({v for v in voters if voters.count(v) > 1})
        if twice:
            raise ValueError(f"{twice[0]} stands twice; a model must not vote twice")
        return voters


@dataclass(frozen=True)
class Votes:
    """The votes of the screen, items by voters.

    `items` (n ids), `key`, `k` (n,). `best` (n, m, K): the choices that share a voter's best averaged score,
    none where it did not answer. `choice` (n, m): the choice that it votes for, -1 unanswered, -2 no vote
    although it answered (a tie, or rotations that do not agree as the rule asks). `probe` (n,): the probe's
    confident pick in the same coding (-2 also where it is not confident), None where it has no say. `placed`:
    a voter was shown letters in the benchmark's own order alone, and could see at which place a choice
    stands. `left_out`: how many voters were taken away since the votes were cast.
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
        """The same ballot as if this voter had not been asked."""
        keep = [i for i, name in enumerate(self.voters) if name != voter]
        voters = tuple(self.voters[i] for i in keep)
        left_out = self.left_out + len(self.voters) - len(voters)
        best, choice = self.best[:, keep], self.choice[:, keep]
        return replace(self, best=best, choice=choice, voters=voters, left_out=left_out)

    def where(self, mask: Bools) -> "Votes":
        """The ballot of the items where `mask` (n,) is true."""
        items = tuple(name for name, kept in zip(self.items, mask.tolist(), strict=True) if kept)
        probe = None if self.probe is None else self.probe[mask]
        best, choice = self.best[mask], self.choice[mask]
        return replace(
            self, items=items, key=self.key[mask], k=self.k[mask], best=best, choice=choice, probe=probe
        )

    def credit(self) -> Floats:
        """The tie-fair credit of each voter's averaged pick, (n, m); NaN where unanswered."""
        tied = self.best.sum(axis=2)
        right = np.take_along_axis(self.best, np.maximum(self.key, 0)[:, None, None], axis=2)[:, :, 0]
        return np.where(tied > 0, right / np.maximum(tied, 1), np.nan)


def collect_votes(answers: Answers, rules: ScreenRules, items_order: Sequence[str]) -> Votes:
    """The ballot of these items under these rules; what a voter was not asked is unanswered.

    Raises:
        DataError: two rows of one item disagree on its key or on its number of choices.
    """
    return cast_votes(answers, rules, item_index(answers, items_order))


def cast_votes(answers: Answers, rules: ScreenRules, held: ItemIndex, *, plain: bool = False) -> Votes:
    """As `ballot`, for a roll already called. `plain`: only the first row of an item counts (as in D.4)."""
    return cast_by_rotation(answers, rules, held, (rules.rotation,), plain=plain)[rules.rotation]


def cast_by_rotation(
    answers: Answers,
    rules: ScreenRules,
    held: ItemIndex,
    rotations: Sequence[Rotation],
    *,
    plain: bool = False,
) -> dict[Rotation, Votes]:
    """The ballots under each of these rules for rotations instead of the one in `rules`, read once for all."""
    view = VIEW_OF[rules.mode]
    template = rules.template or first_template(answers, view, rules.voters)
    voters = (rules.voters or models_asked(answers, view, template)) if template is not None else ()
    best = np.zeros((len(held), len(voters), held.width), dtype=bool)
    choice = {r: np.full((len(held), len(voters)), UNANSWERED, dtype=np.int64) for r in rotations}
    orders, placed = 0, False
    for m, name in enumerate(voters):
        block = answers.block(view, name, template)
        block = block.first() if plain else block
        at, wish = preferences(block, rules.mode, held, rules.norm)
        best[:, m] = mean_best(at, wish, held)
        for rotation, column in choice.items():
            match rotation:
                case "averaged":
                    column[:, m] = one_pick(best[:, m])
                case "every" | "most":
                    column[:, m] = agreed(at, wish, held, rotation)
        orders = max(orders, int(np.bincount(block.item).max(initial=0)))
        placed |= rules.mode == "letter" and _in_own_order(block)
    probe = None if rules.probe_vote == "none" else _confident(answers, rules.probe_confidence, held)
    return {
        rotation: Votes(held.items, held.key, held.k, best, c, voters, template, orders, probe, placed)
        for rotation, c in choice.items()
    }


def first_template(answers: Answers, view: str, voters: Sequence[str] = ()) -> str | None:
    """The first template under which the view was asked (of these models, if any are named)."""
    return next((t for v, m, t in answers.askings() if v == view and (not voters or m in voters)), None)


def models_asked(answers: Answers, view: str, template: str | None = None) -> tuple[str, ...]:
    """The models that were asked a view (under a template), in the order of their first row."""
    return tuple(dict.fromkeys(m for v, m, t in answers.askings() if v == view and template in (None, t)))


def _in_own_order(block: Block) -> bool:
    own = np.arange(block.order.shape[1])
    return len(block) > 0 and bool(((block.order == own) | (block.order < 0)).all())


def _confident(answers: Answers, confidence: float, held: ItemIndex) -> Ints:
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
