"""A composed set: items whose distractors were chosen from pools, with its shortage and its proof."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.redaction import HoldsText
from robustify.composing.choosing import Choosing, Composition, chosen, placed
from robustify.composing.consulting import Consulted
from robustify.composing.pool import OWN, Pool
from robustify.composing.proof import AFTER, BEFORE, Proof, Vectors, proof
from robustify.composing.review import reviewed, unreviewed
from robustify.composing.right_answers import Checked
from robustify.composing.shortage import Bound, CandidateRequest, bounds, requests
from robustify.items.item import Item
from robustify.judging.audit.probing import KINDS, Kind
from robustify.judging.baselines.near_duplicates import unit_hashes
from robustify.judging.cloze import keeps_order

PEOPLE = "people"
"""Version of a set with the distractors of one writer of the pools."""


@dataclass(frozen=True, slots=True)
class Proving:
    """Auditors to prove a set by, and the writer in the pools whose distractors a further version has."""

    auditors: tuple[Kind, ...] = ("characters", "meaning")
    people: str = OWN


@dataclass(frozen=True, slots=True, repr=False)
class Composed(HoldsText):
    """Composed set. Items at `stays` were left as they are, because they depend on the order of their options or have too
    few candidates. `pools` are those of all items, and `picks` number their chosen candidates, none for `stays`.
    Typography changed in the options of the items at `retyped`.
    """

    items: tuple[Item, ...]
    pools: tuple[Pool, ...]
    picks: tuple[tuple[int, ...], ...]
    stays: tuple[int, ...]
    retyped: tuple[int, ...]
    composition: Composition
    bounds: tuple[Bound, ...]
    requests: tuple[CandidateRequest, ...]
    proof: Proof
    consulted: Consulted | None = None

    @property
    def unreviewed(self) -> list[tuple[int, ...]]:
        """Chosen candidates of each pool that no person reviewed, except an author's own."""
        review = reviewed(self.pools, {}) if self.consulted is None else self.consulted.review
        return unreviewed(self.pools, self.picks, review)

    @property
    def writers(self) -> dict[str, int]:
        """Number of chosen distractors by writer."""
        names = [
            pool.candidates[at].writer
            for pool, some in zip(self.pools, self.picks, strict=True)
            for at in some
        ]
        return {name: names.count(name) for name in dict.fromkeys(names)}


def compose(
    items: Sequence[Item], pools: Sequence[Pool], how: Choosing, proving: Proving, vectors: Vectors,
    checks: Sequence[Checked] = (),
) -> Composed:  # fmt: skip
    """Choose the distractors of items from their pools, and prove the result.

    `items` are as they were read, and those of `pools` may have other typography. `checks` are what models that see the
    question say of the candidates.
    """
    few = how.shown[0]
    free = [
        at
        for at, pool in enumerate(pools)
        if len(pool.texts) >= max(2, min(few, items[at].k)) and _movable(pool)
    ]
    some = [pools[at] for at in free]
    found = chosen(
        some, how, vectors([text for pool in some for text in pool.texts]) if how.meaning else None
    )
    picks = dict(zip(free, found.picks, strict=True))
    after = [pool.item for pool in pools]
    for at, item in zip(free, placed([_shown(pools[at], picks[at]) for at in free], how.seed), strict=True):
        after[at] = item
    versions: dict[str, Sequence[Item | None]] = {
        BEFORE: [_cut(one, other.k, how.seed) for one, other in zip(items, after, strict=True)],
        AFTER: after,
    }
    if proving.people != OWN:
        versions[PEOPLE] = [
            _by(proving.people, pools[at], item) if at in picks else item for at, item in enumerate(after)
        ]
    took_part = {"form", "words", *["meaning"] * how.meaning}
    kinds = {kind: kind not in took_part for kind in KINDS if kind in {*took_part, *proving.auditors}}
    return Composed(
        items=tuple(after),
        pools=tuple(pools),
        picks=tuple(picks.get(at, ()) for at in range(len(pools))),
        stays=tuple(at for at in range(len(pools)) if at not in picks),
        retyped=tuple(at for at, pool in enumerate(pools) if pool.item.choices != items[at].choices),
        composition=found,
        bounds=bounds(some, how.shown[1]),
        requests=requests(pools, how.shown),
        proof=proof(versions, kinds, vectors, _answered(pools, picks, checks) if checks else None),
    )


def _movable(pool: Pool) -> bool:
    """Return whether the stem of a pool's item names no option by its letter. Candidates never refer to others."""
    return not keeps_order(pool.item.with_choices(pool.texts[:2], 0))


def _shown(pool: Pool, picks: Sequence[int]) -> Item:
    key, *others = pool.texts
    return pool.item.with_choices((key, *(others[at] for at in picks)), 0)


def _answered(
    pools: Sequence[Pool], picks: Mapping[int, Sequence[int]], checks: Sequence[Checked]
) -> dict[str, Floats]:
    """Return the probability of each key among the options shown (n,), by models that see the question, before and after.
    NaN if no model saw all of them, or distractors that an item had are no candidates any more."""
    won = {BEFORE: np.full(len(pools), np.nan), AFTER: np.full(len(pools), np.nan)}
    for at, chosen_ones in picks.items():
        ratios = np.fmax.reduce([check.ratios[at] for check in checks])
        own = [j for j, one in enumerate(pools[at].candidates) if one.writer == OWN]
        for version, some in ((BEFORE, own), (AFTER, list(chosen_ones))):
            if len(some) == len(chosen_ones):
                won[version][at] = 1 / (1 + ratios[some].sum())
    return won


def _by(writer: str, pool: Pool, item: Item) -> Item | None:
    """Return an item with the distractors of one writer, or None if it wrote too few."""
    theirs = [at for at, one in enumerate(pool.candidates) if one.writer == writer]
    return _shown(pool, theirs[: item.k - 1]) if len(theirs) >= item.k - 1 else None


def _cut(item: Item, k: int, seed: int) -> Item:
    """Return an item with its key and as many of its distractors, drawn by a hash, as fit in k options."""
    marks = unit_hashes([f"cut/{seed}\0{item.id}\0{choice}" for choice in item.choices])
    order = [item.key, *(at for at in marks.argsort(kind="stable").tolist() if at != item.key)]
    return item if item.k <= k else item.with_choices(tuple(item.choices[at] for at in order[:k]), 0)
