"""A composed set: items whose distractors were chosen from pools, with its shortage and its proof."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.redaction import HoldsText
from robustify.composing.choosing import Choosing, Composition, chosen, placed
from robustify.composing.consulting import Consulted
from robustify.composing.pool import OWN, Candidate, Pool
from robustify.composing.proof import AFTER, BEFORE, Proof, Vectors, proof
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
    few candidates. `pools` are those of all items, and `picks` are their chosen candidates, none for `stays`. Typography
    changed in the options of the items at `retyped`.
    """

    items: tuple[Item, ...]
    pools: tuple[Pool, ...]
    picks: tuple[tuple[Candidate, ...], ...]
    stays: tuple[int, ...]
    retyped: tuple[int, ...]
    composition: Composition
    bounds: tuple[Bound, ...]
    requests: tuple[CandidateRequest, ...]
    proof: Proof
    consulted: Consulted | None = None

    @property
    def unreviewed(self) -> list[list[Candidate]]:
        """Chosen candidates of each item that no person reviewed, except an author's own."""
        return [[one for one in some if one.writer != OWN and not one.verdict] for some in self.picks]

    @property
    def writers(self) -> dict[str, int]:
        """Number of chosen distractors by writer."""
        return dict(Counter(one.writer for some in self.picks for one in some))


def compose(
    items: Sequence[Item], pools: Sequence[Pool], how: Choosing, proving: Proving, vectors: Vectors
) -> Composed:
    """Choose the distractors of items from their pools, and prove the result.

    `items` are as they were read, and those of `pools` may have other typography.
    """
    # A stem that names an option by its letter keeps its options. Candidates never refer to others.
    free = [
        at
        for at, pool in enumerate(pools)
        if len(pool.texts) >= max(2, min(how.shown[0], items[at].k))
        and not keeps_order(pool.item.with_choices(pool.texts[:2], 0))
    ]
    some = [pools[at] for at in free]
    found = chosen(some, how, vectors)
    picks = {at: tuple(pools[at].candidates[j] for j in js) for at, js in zip(free, found.picks, strict=True)}
    after = [pool.item for pool in pools]
    shown = placed([_shown(pools[at].item, picks[at]) for at in free], how.seed)
    for at, item in zip(free, shown, strict=True):
        after[at] = item
    before = [_cut(one, other.k, how.seed) for one, other in zip(items, after, strict=True)]
    versions: dict[str, Sequence[Item | None]] = {BEFORE: before, AFTER: after}
    if proving.people != OWN:
        theirs = [_by(proving.people, pool)[: item.k - 1] for pool, item in zip(pools, after, strict=True)]
        versions[PEOPLE] = [
            item if at not in picks else _shown(item, theirs[at]) if len(theirs[at]) == item.k - 1 else None
            for at, item in enumerate(after)
        ]
    took_part = {"form", "words", *["meaning"] * how.meaning}
    kinds = {kind: kind not in took_part for kind in KINDS if kind in {*took_part, *proving.auditors}}
    return Composed(
        items=tuple(after),
        pools=tuple(pools),
        picks=tuple(picks.get(at, ()) for at in range(len(pools))),
        stays=tuple(sorted({*range(len(pools))} - picks.keys())),
        retyped=tuple(at for at, pool in enumerate(pools) if pool.item.choices != items[at].choices),
        composition=found,
        bounds=bounds(some, how.shown[1]),
        requests=requests(pools, how.shown),
        proof=proof(versions, kinds, vectors, _answered(pools, picks)),
    )


def _shown(item: Item, distractors: Sequence[Candidate]) -> Item:
    return item.with_choices((item.choices[item.key], *(one.text for one in distractors)), 0)


def _answered(pools: Sequence[Pool], picks: Mapping[int, Sequence[Candidate]]) -> dict[str, Floats]:
    """Return the probability of each key among the options shown (n,), by models that see the question, before and after.
    NaN if no model saw all of them, or distractors that an item had are no candidates any more."""
    won = {BEFORE: np.full(len(pools), np.nan), AFTER: np.full(len(pools), np.nan)}
    for at, some in picks.items():
        for version, shown in ((BEFORE, _by(OWN, pools[at])), (AFTER, some)):
            if len(shown) == len(some):
                won[version][at] = 1 / (1 + sum(one.ratio for one in shown))
    return won


def _by(writer: str, pool: Pool) -> list[Candidate]:
    return [one for one in pool.candidates if one.writer == writer]


def _cut(item: Item, k: int, seed: int) -> Item:
    """Return an item with its key and as many of its distractors, drawn by a hash, as fit in k options."""
    marks = unit_hashes([f"cut/{seed}\0{item.id}\0{choice}" for choice in item.choices])
    order = [item.key, *(at for at in marks.argsort(kind="stable").tolist() if at != item.key)]
    return item if item.k <= k else item.with_choices(tuple(item.choices[at] for at in order[:k]), 0)
