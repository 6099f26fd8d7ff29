"""Compose a set: choose the distractors of its items from pools, and test the result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.errors import UsageError
from robustify.base.redaction import HoldsText
from robustify.composing.candidate_checks import Consultation
from robustify.composing.choosing import Choosing, Composition, choose_distractors
from robustify.composing.pool import OWN, Candidate, Pool
from robustify.composing.proof import AFTER, BEFORE, PEOPLE, Proof, Vectors, prove
from robustify.composing.writers import Bound, CandidateRequest, find_bounds, find_requests
from robustify.export.mending import place_keys
from robustify.items.item import Item
from robustify.judging.baselines.near_duplicates import unit_hashes
from robustify.judging.readers import READERS, independent_readers


@dataclass(frozen=True, slots=True, repr=False)
class Composed(HoldsText):
    """Composed set. The items at `stays` keep their options, because the options depend on their order, or the pool is too
    small. `pools` are the pools of all items, and `picks` the chosen candidates (none for `stays`). The options of the
    items at `retyped` have changed typography."""

    items: tuple[Item, ...]
    pools: tuple[Pool, ...]
    picks: tuple[tuple[Candidate, ...], ...]
    stays: tuple[int, ...]
    retyped: tuple[int, ...]
    composition: Composition
    bounds: tuple[Bound, ...]
    requests: tuple[CandidateRequest, ...]
    proof: Proof
    consulted: Consultation | None = None

    @property
    def unreviewed(self) -> list[list[Candidate]]:
        """Chosen candidates of each item that still need human review. An author's own distractors need none."""
        return [[c for c in picks if c.writer != OWN and not c.verdict] for picks in self.picks]

    @property
    def writers(self) -> dict[str, int]:
        """Number of chosen distractors by writer."""
        return dict(Counter(candidate.writer for picks in self.picks for candidate in picks))

    @property
    def set_aside(self) -> dict[str, int]:
        """Number of candidates that were set aside for each reason, the most common reason first."""
        return dict(Counter(reason for pool in self.pools for reason in pool.aside).most_common())


def compose(
    items: Sequence[Item],
    pools: Sequence[Pool],
    settings: Choosing,
    vectors: Vectors,
    auditors: Sequence[str] = (),
    people: str = OWN,
) -> Composed:
    """Choose the distractors of items from their pools, and let `auditors` test the result.

    By default, the auditors are the `independent_readers`. `items` are as they were read, and those of
    `pools` may have other typography. If `people` is a writer in the pools, a further
    version has this writer's distractors.
    """
    took_part = {"form", "words", *["meaning"] * settings.meaning}
    if unknown := {*auditors} - took_part - {*independent_readers()}:
        expected = f"expected one of {', '.join(independent_readers())}"
        raise UsageError(f"auditor {min(unknown)}: {expected}.", code="unknown-auditor")
    auditors = auditors or independent_readers()
    # A stem that names an option by its letter keeps its options. Candidates never refer to others.
    free = [
        i
        for i, pool in enumerate(pools)
        if len(pool.texts) >= max(2, min(settings.shown[0], items[i].k)) and not pool.stays
    ]
    free_pools = [pools[i] for i in free]
    composition = choose_distractors(free_pools, settings, vectors)
    picks = {
        i: tuple(pools[i].candidates[j] for j in indices)
        for i, indices in zip(free, composition.picks, strict=True)
    }
    after = [pool.item for pool in pools]
    placed_items = place_keys([_with_distractors(pools[i].item, picks[i]) for i in free], settings.seed)
    for i, item in zip(free, placed_items, strict=True):
        after[i] = item
    before = [_cut(item, composed.k, settings.seed) for item, composed in zip(items, after, strict=True)]
    versions: dict[str, Sequence[Item | None]] = {BEFORE: before, AFTER: after}
    if people != OWN:
        versions[PEOPLE] = [_with_writer(after[i], pool, people, i in picks) for i, pool in enumerate(pools)]
    independence = {name: name not in took_part for name in READERS if name in {*took_part, *auditors}}
    return Composed(
        items=tuple(after),
        pools=tuple(pools),
        picks=tuple(picks.get(i, ()) for i in range(len(pools))),
        stays=tuple(sorted({*range(len(pools))} - picks.keys())),
        retyped=tuple(i for i, pool in enumerate(pools) if pool.item.choices != items[i].choices),
        composition=composition,
        bounds=find_bounds(free_pools, settings.shown[1]),
        requests=find_requests(pools, settings.shown),
        proof=prove(versions, independence, vectors, _key_probabilities(pools, picks)),
    )


def _with_distractors(item: Item, distractors: Sequence[Candidate]) -> Item:
    return item.with_choices((item.choices[item.key], *(candidate.text for candidate in distractors)), 0)


def _with_writer(item: Item, pool: Pool, writer: str, is_composed: bool) -> Item | None:
    """Return a composed item with the distractors of one writer, or None if the writer wrote too few."""
    distractors = pool.by(writer)[: item.k - 1]
    if not is_composed:
        return item
    return _with_distractors(item, distractors) if len(distractors) == item.k - 1 else None


def _cut(item: Item, k: int, seed: int) -> Item:
    """Cut an item to k options: its key, and distractors chosen by hash. An item with at most k options is unchanged."""
    marks = unit_hashes([f"cut/{seed}\0{item.id}\0{choice}" for choice in item.choices])
    order = [item.key, *(i for i in marks.argsort(kind="stable").tolist() if i != item.key)]
    return item if item.k <= k else item.with_choices(tuple(item.choices[i] for i in order[:k]), 0)


def _key_probabilities(pools: Sequence[Pool], picks: Mapping[int, Sequence[Candidate]]) -> dict[str, Floats]:
    """Return each key's probability (n,) for models that see the question, before and after composing. It is NaN if no
    model saw all options shown, or if an original distractor is no longer a candidate."""
    probabilities = {BEFORE: np.full(len(pools), np.nan), AFTER: np.full(len(pools), np.nan)}
    for i, item_picks in picks.items():
        for version, distractors in ((BEFORE, pools[i].by(OWN)), (AFTER, item_picks)):
            if len(distractors) == len(item_picks):
                probabilities[version][i] = 1 / (1 + sum(candidate.ratio for candidate in distractors))
    return probabilities
