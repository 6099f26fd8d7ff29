"""Composed set, whose distractors were chosen from pools, and the proof that its keys are hidden.

The proof is by auditors that took no part in choosing, and by readers that pick the option most like the question, because
distractors that nothing connects with the question would deceive every auditor, but make the key easy to find. Each version
of the set is audited alone, and the credits are compared on the same items.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.base.errors import UsageError
from robustify.base.redaction import HoldsText
from robustify.composing.choosing import Choosing, Composition, chosen
from robustify.composing.consulting import Consulted
from robustify.composing.pool import OWN, Candidate, Pool
from robustify.composing.writers import Bound, CandidateRequest, bounds, requests
from robustify.export.mending import place_keys
from robustify.items.item import Item
from robustify.items.scoring import best, credit
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.baselines.near_duplicates import independent_groups, unit_hashes
from robustify.judging.readers import READERS, ReaderFits, independent_readers
from robustify.judging.readers.chance import gains
from robustify.judging.readers.fits import OptionTable, by_item, item_sample
from robustify.judging.readers.reader_rows import MOST_ENCODED, ProbeSettings, folds, likeness_by_words
from robustify.judging.stats.tests import LEVEL, Difference, paired_difference
from robustify.judging.summary.result import State
from robustify.judging.summary.scored import Gain

AFTER, BEFORE, PEOPLE = "after", "before", "people"
"""Versions of a set. `PEOPLE` has the distractors of one writer of the pools."""
SLACK = 0.02
"""Gain over chance of an auditor above which the headline says what is left."""
_WORDS, _MEANING, _MODELS = _READERS = ("words of the question", "meaning of the question", "models")
Vectors = Callable[[Sequence[str]], Floats | None]
"""Function that returns the encoder's unit vectors (n, d) of texts, or None without an encoder."""


@dataclass(frozen=True, slots=True)
class Finder:
    """How far an auditor or reader beats chance in each version of a set, and how `AFTER` differs from the others."""

    name: str
    gain: Mapping[str, Gain]
    change: Mapping[str, Difference]
    independent: bool = True

    @property
    def finds_more(self) -> bool:
        """Whether the auditor or reader finds the keys more often than before and than by chance."""
        ci, least = self.change[BEFORE].ci if BEFORE in self.change else None, self.gain[AFTER].ci
        return ci is not None and ci[0] > 0 and least is not None and least[0] > 0


@dataclass(frozen=True, slots=True)
class Proof:
    """Findings about a composed set from auditors, which see only the options, and readers, which also see the question."""

    auditors: tuple[Finder, ...]
    readers: tuple[Finder, ...]

    @property
    def worst(self) -> Finder | None:
        """Auditor that finds the keys best, of those that took no part in choosing."""
        found = [one for one in self.auditors if one.independent]
        return max(found, key=lambda one: one.gain[AFTER].value or 0.0, default=None)

    @property
    def above_slack(self) -> tuple[Finder, ...]:
        """Auditors that took no part in choosing and gain more than `SLACK` over chance, significantly or not."""
        found = (one for one in self.auditors if one.independent)
        return tuple(one for one in found if (one.gain[AFTER].value or 0.0) > SLACK)

    @property
    def beyond_chance(self) -> tuple[Finder, ...]:
        """Auditors whose gain exceeds the slack and is not explained by chance."""
        return tuple(one for one in self.above_slack if one.gain[AFTER].p_holm <= LEVEL)

    @property
    def hidden(self) -> State:
        """Whether the keys are hidden from independent auditors. A gain that may be by chance is no verdict."""
        if self.beyond_chance:
            return "failed"
        return "not evaluated" if self.above_slack or self.worst is None else "passed"

    @property
    def plausible(self) -> State:
        """Whether no reader finds the keys more easily than before."""
        if not self.readers:
            return "not evaluated"
        return "failed" if any(one.finds_more for one in self.readers) else "passed"

    @property
    def state(self) -> State:
        """State of the proof, which passed only if both parts did."""
        states = {self.hidden, self.plausible}
        return next((state for state in ("failed", "not evaluated") if state in states), "passed")


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
        """Chosen candidates of each item that still need a review by a person. An author's own distractors need none."""
        return [[one for one in some if one.writer != OWN and not one.verdict] for some in self.picks]

    @property
    def writers(self) -> dict[str, int]:
        """Number of chosen distractors by writer."""
        return dict(Counter(one.writer for some in self.picks for one in some))

    @property
    def set_aside(self) -> dict[str, int]:
        """Number of candidates that were set aside, by reason, the most common first."""
        return dict(Counter(why for pool in self.pools for why in pool.aside).most_common())


def compose(
    items: Sequence[Item],
    pools: Sequence[Pool],
    how: Choosing,
    vectors: Vectors,
    auditors: Sequence[str] = (),
    people: str = OWN,
) -> Composed:
    """Choose the distractors of items from their pools, and let `auditors` test the result.

    By default, the auditors are the `independent_readers`. `items` are as they were read, and those of
    `pools` may have other typography. If `people` is a writer in the pools, a further
    version has this writer's distractors.
    """
    took_part = {"form", "words", *["meaning"] * how.meaning}
    if others := {*auditors} - took_part - {*independent_readers()}:
        raise UsageError(f"auditor {min(others)}: expected one of {', '.join(independent_readers())}.")
    auditors = auditors or independent_readers()
    # A stem that names an option by its letter keeps its options. Candidates never refer to others.
    free = [
        at
        for at, pool in enumerate(pools)
        if len(pool.texts) >= max(2, min(how.shown[0], items[at].k)) and not pool.stays
    ]
    some = [pools[at] for at in free]
    found = chosen(some, how, vectors)
    picks = {at: tuple(pools[at].candidates[j] for j in js) for at, js in zip(free, found.picks, strict=True)}
    after = [pool.item for pool in pools]
    shown = place_keys([_shown(pools[at].item, picks[at]) for at in free], how.seed)
    for at, item in zip(free, shown, strict=True):
        after[at] = item
    before = [_cut(one, other.k, how.seed) for one, other in zip(items, after, strict=True)]
    versions: dict[str, Sequence[Item | None]] = {BEFORE: before, AFTER: after}
    if people != OWN:
        theirs = [pool.by(people)[: item.k - 1] for pool, item in zip(pools, after, strict=True)]
        versions[PEOPLE] = [
            item if at not in picks else _shown(item, theirs[at]) if len(theirs[at]) == item.k - 1 else None
            for at, item in enumerate(after)
        ]
    kinds = {name: name not in took_part for name in READERS if name in {*took_part, *auditors}}
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


def _cut(item: Item, k: int, seed: int) -> Item:
    """Cut an item to k options: its key, and distractors drawn by a hash. An item with fewer options is unchanged."""
    marks = unit_hashes([f"cut/{seed}\0{item.id}\0{choice}" for choice in item.choices])
    order = [item.key, *(at for at in marks.argsort(kind="stable").tolist() if at != item.key)]
    return item if item.k <= k else item.with_choices(tuple(item.choices[at] for at in order[:k]), 0)


def _answered(pools: Sequence[Pool], picks: Mapping[int, Sequence[Candidate]]) -> dict[str, Floats]:
    """Return the probability (n,) of each key for models that see the question, before and after composing. It is NaN if no
    model saw all options shown, or distractors that an item had are no candidates any more."""
    won = {BEFORE: np.full(len(pools), np.nan), AFTER: np.full(len(pools), np.nan)}
    for at, some in picks.items():
        for version, shown in ((BEFORE, pools[at].by(OWN)), (AFTER, some)):
            if len(shown) == len(some):
                won[version][at] = 1 / (1 + sum(one.ratio for one in shown))
    return won


def proof(
    versions: Mapping[str, Sequence[Item | None]], kinds: Mapping[str, bool], vectors: Vectors,
    answered: Mapping[str, Floats] | None = None,
) -> Proof:  # fmt: skip
    """Audit the versions of a composed set. Each version has an item or None at each of n places.

    `kinds` says of each auditor whether it took no part in choosing. `answered` has the probabilities (n,) that models
    which see the question give the key, by version. With fewer than 50 items, nothing is fitted, and there are no auditors.
    """
    won, k = dict[str, dict[str, Floats]](), dict[str, Ints]()
    for name, places in versions.items():
        at = np.array([i for i, item in enumerate(places) if item is not None], dtype=np.int64)
        # In a large set, auditors that prove nothing see only the composed version, because each takes a minute.
        seen = [one for one in kinds if kinds[one] or name == AFTER or len(places) <= MOST_ENCODED]
        found = _credits([item for item in places if item is not None], seen, vectors)
        won[name] = {who: _spread(credits, at, len(places)) for who, credits in found.items()}
        if answered and name in answered:
            won[name][_MODELS] = answered[name]
        k[name] = np.array([1 if item is None else item.k for item in places], dtype=np.int64)
    items = [item for item in versions[AFTER] if item is not None]
    groups = independent_groups(items)
    auditors = {
        name: one
        for free in (True, False)
        for name, one in _finders(
            [kind for kind in kinds if kinds[kind] == free], won, k, groups, free
        ).items()
    }
    readers = _finders(_READERS, won, k, groups)
    return Proof(tuple(auditors[kind] for kind in kinds if kind in auditors), tuple(readers.values()))


def _finders(
    names: Sequence[str], won: Mapping[str, Mapping[str, Floats]], k: Mapping[str, Ints], groups: Ints,
    independent: bool = True,
) -> dict[str, Finder]:  # fmt: skip
    """Return the findings of a family's auditors or readers on the composed set. Holm's correction is over the family."""
    gained = {
        version: gains({name: of[name] for name in names if name in of}, k[version], groups=groups)
        for version, of in won.items()
    }
    found = {}
    for name in gained[AFTER]:
        gain = {version: of[name] for version, of in gained.items() if name in of}
        change = {
            version: paired_difference(won[AFTER][name], won[version][name], groups)
            for version in won
            if version != AFTER and name in won[version]
        }
        found[name] = Finder(name, gain, change, independent)
    return found


def _credits(items: Sequence[Item], auditors: Sequence[str], vectors: Vectors) -> dict[str, Floats]:
    """Return how well each auditor and reader finds each key, from 0 to 1. It is (n,), and NaN for an item not seen."""
    fold, fitted = folds(items, ProbeSettings()), len(items) >= FEWEST_ITEMS
    readers = {name: READERS[name] for name in auditors} if fitted else {}
    scores = {name: ReaderFits(one, items).logits(fold) for name, one in readers.items() if not one.encoded}
    likeness = [likeness_by_words(item.stem, choice) for item in items for choice in item.choices]
    found = _won(items, scores | {_WORDS: by_item(np.array(likeness), OptionTable.of(items).mask)})
    at = item_sample(np.ones(len(items), dtype=bool), MOST_ENCODED)
    sample = [items[i] for i in at.tolist()]
    texts = [*(choice for item in sample for choice in item.choices), *(item.stem for item in sample)]
    if (vectors_of := vectors(texts)) is not None:
        options, stems = vectors_of[: -len(sample)], vectors_of[-len(sample) :]
        likeness_by_meaning = (options * np.repeat(stems, [item.k for item in sample], axis=0)).sum(axis=1)
        scores = {
            name: ReaderFits(one, sample, options).logits(fold[at])
            for name, one in readers.items()
            if one.encoded
        }
        scores[_MEANING] = by_item(likeness_by_meaning, OptionTable.of(sample).mask)
        found |= {name: _spread(credits, at, len(items)) for name, credits in _won(sample, scores).items()}
    return found


def _won(items: Sequence[Item], scores: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return 1 if a key scores highest in its item, a share of 1 if it ties, or else 0. The result is (n,)."""
    key, k = np.array([(item.key, item.k) for item in items], dtype=np.int64).reshape(-1, 2).T
    return {name: credit(best(of, k), key) for name, of in scores.items()}


def _spread(values: Floats, at: Ints, n: int) -> Floats:
    """Return an array of n numbers with `values` at the positions `at`, and NaN elsewhere."""
    out = np.full(n, np.nan)
    out[at] = values
    return out
