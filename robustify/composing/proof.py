"""Prove that the keys of a composed set are hidden.

The proof is by auditors that took no part in choosing, and by readers that pick the option most like the question, because
distractors that nothing connects with the question would deceive every auditor, but make the key easy to find. Each version
of the set is audited alone, and the credits are compared on the same items.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.items.item import Item
from robustify.items.scoring import best, credit
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.baselines.near_duplicates import independent_groups
from robustify.judging.readers import READERS, ReaderFits
from robustify.judging.readers.chance import gains
from robustify.judging.readers.fits import OptionTable, by_item, item_sample
from robustify.judging.readers.reader_rows import MOST_ENCODED, ProbeSettings, folds
from robustify.judging.stats.tests import LEVEL, Difference, paired_difference
from robustify.judging.summary.model_parts import Gain
from robustify.judging.summary.result import State
from robustify.judging.text_overlap import likeness_by_words

AFTER, BEFORE, PEOPLE = "after", "before", "people"
"""Versions of a set. `PEOPLE` has the distractors of one writer of the pools."""
SLACK = 0.02
"""Gain over chance of an auditor above which the headline says what is left."""
_WORDS, _MEANING, _MODELS = _READERS = ("words of the question", "meaning of the question", "models")
Vectors = Callable[[Sequence[str]], Floats | None]
"""Function that returns the encoder's unit vectors (n, d) of texts, or None without an encoder."""


@dataclass(frozen=True, slots=True)
class Finder:
    """Gain over chance of an auditor or reader in each version of a set, and the change from other versions to `AFTER`."""

    name: str
    gain: Mapping[str, Gain]
    change: Mapping[str, Difference]
    independent: bool = True

    @property
    def finds_more(self) -> bool:
        """Whether the keys are found significantly more often than before and than by chance."""
        ci, least = self.change[BEFORE].ci if BEFORE in self.change else None, self.gain[AFTER].ci
        return ci is not None and ci[0] > 0 and least is not None and least[0] > 0


@dataclass(frozen=True, slots=True)
class Proof:
    """Findings about a composed set by auditors, which see only options, and readers, which also see the question."""

    auditors: tuple[Finder, ...]
    readers: tuple[Finder, ...]

    @property
    def worst(self) -> Finder | None:
        """Auditor that finds the most keys, among those that took no part in choosing."""
        independent = [auditor for auditor in self.auditors if auditor.independent]
        return max(independent, key=lambda auditor: auditor.gain[AFTER].value or 0.0, default=None)

    @property
    def above_slack(self) -> tuple[Finder, ...]:
        """Auditors that did not help to choose distractors and whose gain exceeds `SLACK`, whether or not the gain is
        significant."""
        independent = (auditor for auditor in self.auditors if auditor.independent)
        return tuple(auditor for auditor in independent if (auditor.gain[AFTER].value or 0.0) > SLACK)

    @property
    def beyond_chance(self) -> tuple[Finder, ...]:
        """Auditors whose gain exceeds `SLACK` and is not explained by chance."""
        return tuple(auditor for auditor in self.above_slack if auditor.gain[AFTER].p_holm <= LEVEL)

    @property
    def hidden(self) -> State:
        """State of the first part of the proof. It failed if an independent auditor is in `beyond_chance`."""
        if self.beyond_chance:
            return "failed"
        return "not evaluated" if self.above_slack or self.worst is None else "passed"

    @property
    def plausible(self) -> State:
        """State of the second part of the proof. It failed if a reader finds significantly more keys than before and than
        by chance."""
        if not self.readers:
            return "not evaluated"
        return "failed" if any(reader.finds_more for reader in self.readers) else "passed"

    @property
    def state(self) -> State:
        """State of the proof. The proof passed only if both parts passed."""
        states = {self.hidden, self.plausible}
        return next((state for state in ("failed", "not evaluated") if state in states), "passed")


def prove(
    versions: Mapping[str, Sequence[Item | None]], independence: Mapping[str, bool], vectors: Vectors,
    key_probabilities: Mapping[str, Floats] | None = None,
) -> Proof:  # fmt: skip
    """Audit the versions of a composed set. Each version has an item or None at each of n places.

    `independence` says of each auditor whether it took no part in choosing. `key_probabilities` (n,) are those that models
    which see the question give the key, by version. With fewer than 50 items, nothing is fitted, and there are no auditors.
    """
    credits, k = dict[str, dict[str, Floats]](), dict[str, Ints]()
    for version, places in versions.items():
        positions = np.array([i for i, item in enumerate(places) if item is not None], dtype=np.int64)
        # In a large set, auditors that prove nothing see only the composed version, because each takes a minute.
        is_small = version == AFTER or len(places) <= MOST_ENCODED
        auditors = [name for name in independence if independence[name] or is_small]
        by_name = _credits([item for item in places if item is not None], auditors, vectors)
        credits[version] = {name: _spread(values, positions, len(places)) for name, values in by_name.items()}
        if key_probabilities and version in key_probabilities:
            credits[version][_MODELS] = key_probabilities[version]
        k[version] = np.array([1 if item is None else item.k for item in places], dtype=np.int64)
    items = [item for item in versions[AFTER] if item is not None]
    groups = independent_groups(items)
    finders = {
        name: finder
        for independent in (True, False)
        for name, finder in _finders(
            [name for name in independence if independence[name] == independent],
            credits,
            k,
            groups,
            independent,
        ).items()
    }
    readers = _finders(_READERS, credits, k, groups)
    return Proof(tuple(finders[name] for name in independence if name in finders), tuple(readers.values()))


def _finders(
    names: Sequence[str], credits: Mapping[str, Mapping[str, Floats]], k: Mapping[str, Ints], groups: Ints,
    independent: bool = True,
) -> dict[str, Finder]:  # fmt: skip
    """Return the findings of a family of auditors or readers. Holm's correction covers the family."""
    gains_by_version = {
        version: gains({name: by_name[name] for name in names if name in by_name}, k[version], groups=groups)
        for version, by_name in credits.items()
    }
    finders = {}
    for name in gains_by_version[AFTER]:
        gain = {version: by_name[name] for version, by_name in gains_by_version.items() if name in by_name}
        change = {
            version: paired_difference(credits[AFTER][name], by_name[name], groups)
            for version, by_name in credits.items()
            if version != AFTER and name in by_name
        }
        finders[name] = Finder(name, gain, change, independent)
    return finders


def _credits(items: Sequence[Item], auditors: Sequence[str], vectors: Vectors) -> dict[str, Floats]:
    """Return the credit, from 0 to 1, of each auditor and reader for each key (n,), or NaN for an unseen item."""
    fold, fitted = folds(items, ProbeSettings()), len(items) >= FEWEST_ITEMS
    readers = {name: READERS[name] for name in auditors} if fitted else {}
    scores = {
        name: ReaderFits(reader, items).logits(fold) for name, reader in readers.items() if not reader.encoded
    }
    likeness = [likeness_by_words(item.stem, choice) for item in items for choice in item.choices]
    credits = _key_credits(
        items, scores | {_WORDS: by_item(np.array(likeness), OptionTable.from_items(items).mask)}
    )
    sampled = item_sample(np.ones(len(items), dtype=bool), MOST_ENCODED)
    sample = [items[i] for i in sampled.tolist()]
    texts = [*(choice for item in sample for choice in item.choices), *(item.stem for item in sample)]
    if (vectors_of := vectors(texts)) is not None:
        options, stems = vectors_of[: -len(sample)], vectors_of[-len(sample) :]
        likeness_by_meaning = (options * np.repeat(stems, [item.k for item in sample], axis=0)).sum(axis=1)
        scores = {
            name: ReaderFits(reader, sample, options).logits(fold[sampled])
            for name, reader in readers.items()
            if reader.encoded
        }
        scores[_MEANING] = by_item(likeness_by_meaning, OptionTable.from_items(sample).mask)
        encoded = _key_credits(sample, scores)
        credits |= {name: _spread(values, sampled, len(items)) for name, values in encoded.items()}
    return credits


def _key_credits(items: Sequence[Item], scores: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the credit for each key (n,): 1 if it scores highest in its item, a share of 1 if it ties, and otherwise 0."""
    key, k = np.array([(item.key, item.k) for item in items], dtype=np.int64).reshape(-1, 2).T
    return {name: credit(best(item_scores, k), key) for name, item_scores in scores.items()}


def _spread(values: Floats, positions: Ints, n: int) -> Floats:
    """Return an array of n numbers with `values` at the positions, and NaN elsewhere."""
    out = np.full(n, np.nan)
    out[positions] = values
    return out
