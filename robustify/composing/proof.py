"""Proof of a composed set, by auditors that took no part in choosing, and by readers that see the question.

Auditors see only the options, and readers pick the option most like the question. Distractors that nothing connects with
the question would deceive every auditor, but make the key easy to find for a reader. Each version of the set is audited
alone, and the credits are compared on the same items.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustify.base.arrays import Floats, Ints, group_numbers
from robustify.items.item import Item
from robustify.items.scoring import best, credit
from robustify.judging.audit.probing import Kind, gains, probed
from robustify.judging.baselines.artifact_probe import (
    MOST_ENCODED,
    ProbeSettings,
    folds,
    likeness_by_words,
    padded,
)
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS, drawn
from robustify.judging.stats.tests import LEVEL, Difference, paired_difference
from robustify.judging.summary.result import State
from robustify.judging.summary.scored import LeftToFind

AFTER, BEFORE = "after", "before"
SLACK = 0.02
"""Gain over chance of an auditor above which the headline says what is left."""
_WORDS, _MEANING, _MODELS = _READERS = ("words of the question", "meaning of the question", "models")
Vectors = Callable[[Sequence[str]], Floats | None]
"""Function that returns the encoder's unit vectors (n, d) of texts, or None without an encoder."""


@dataclass(frozen=True, slots=True)
class Finder:
    """Auditor or reader: what it gains over chance in each version, and the paired change from each other to `AFTER`."""

    name: str
    gain: Mapping[str, LeftToFind]
    change: Mapping[str, Difference]
    independent: bool = True

    @property
    def finds_more(self) -> bool:
        """Whether it finds the keys more often than before, and more often than by chance."""
        ci, least = self.change[BEFORE].ci if BEFORE in self.change else None, self.gain[AFTER].ci
        return ci is not None and ci[0] > 0 and least is not None and least[0] > 0


@dataclass(frozen=True, slots=True)
class Proof:
    """Auditors of a composed set, and readers that see the question."""

    auditors: tuple[Finder, ...]
    readers: tuple[Finder, ...]

    @property
    def worst(self) -> Finder | None:
        """Auditor that took no part in choosing and finds the most."""
        found = [one for one in self.auditors if one.independent]
        return max(found, key=lambda one: one.gain[AFTER].value or 0.0, default=None)

    @property
    def above_slack(self) -> tuple[Finder, ...]:
        """Such auditors that gain more than `SLACK` over chance, by chance or not."""
        found = (one for one in self.auditors if one.independent)
        return tuple(one for one in found if (one.gain[AFTER].value or 0.0) > SLACK)

    @property
    def beyond_chance(self) -> tuple[Finder, ...]:
        """Those of them whose gain chance does not explain."""
        return tuple(one for one in self.above_slack if one.gain[AFTER].p_holm <= LEVEL)

    @property
    def hidden(self) -> State:
        """Whether the keys are hidden from them. A gain above `SLACK` that chance may explain is no verdict."""
        if self.beyond_chance:
            return "failed"
        return "not evaluated" if self.above_slack or self.worst is None else "passed"

    @property
    def plausible(self) -> State:
        """Whether no reader finds the keys more easily than before."""
        if not self.readers:
            return "not evaluated"
        return "failed" if any(one.finds_more for one in self.readers) else "passed"


def proof(
    versions: Mapping[str, Sequence[Item | None]], kinds: Mapping[Kind, bool], vectors: Vectors,
    answered: Mapping[str, Floats] | None = None,
) -> Proof:  # fmt: skip
    """Audit the versions of a set, which have an item or None at each of n places.

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
    groups = group_numbers([item.id for item in items], {item.id: item.group for item in items})
    families = [one for one in kinds if kinds[one]], [one for one in kinds if not kinds[one]], _READERS
    ours, theirs, readers = (_finders(names, won, k, groups) for names in families)
    auditors = ours | {name: replace(one, independent=False) for name, one in theirs.items()}
    return Proof(tuple(auditors[kind] for kind in kinds if kind in auditors), tuple(readers.values()))


def _finders(
    names: Sequence[str], won: Mapping[str, Mapping[str, Floats]], k: Mapping[str, Ints], groups: Ints
) -> dict[str, Finder]:
    """Return those of a family that saw the composed set. Holm's correction is over the family."""
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
        found[name] = Finder(name, gain, change)
    return found


def _credits(items: Sequence[Item], kinds: Sequence[Kind], vectors: Vectors) -> dict[str, Floats]:
    """Return the credits (n,) of each auditor and reader on the items, NaN for items that it did not see."""
    fold, fitted = folds(items, ProbeSettings()), len(items) >= FEWEST_ITEMS
    scores = probed(items, fold, [kind for kind in kinds if kind != "meaning"]) if fitted else {}
    likeness = [likeness_by_words(item.stem, choice) for item in items for choice in item.choices]
    found = _won(items, scores | {_WORDS: _wide(items, np.array(likeness))})
    at = drawn(np.ones(len(items), dtype=bool), MOST_ENCODED)
    some = [items[i] for i in at.tolist()]
    texts = [*(choice for item in some for choice in item.choices), *(item.stem for item in some)]
    if (vectors_of := vectors(texts)) is not None:
        options, stems = vectors_of[: -len(some)], vectors_of[-len(some) :]
        like = (options * np.repeat(stems, [item.k for item in some], axis=0)).sum(axis=1)
        scores = {_MEANING: _wide(some, like)}
        if fitted and "meaning" in kinds:
            scores |= probed(some, fold[at], ["meaning"], vectors=options)
        found |= {name: _spread(credits, at, len(items)) for name, credits in _won(some, scores).items()}
    return found


def _wide(items: Sequence[Item], values: Floats) -> Floats:
    """Return values of options (sum of k,) as (n, K)."""
    k = np.array([item.k for item in items], dtype=np.int64)
    return padded(values[:, None], np.arange(int(k.max(initial=1))) < k[:, None])[:, :, 0]


def _won(items: Sequence[Item], scores: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the tie-fair credits (n,) of picking the option with the highest of scores (n, K)."""
    key, k = np.array([(item.key, item.k) for item in items], dtype=np.int64).reshape(-1, 2).T
    return {name: credit(best(of, k), key) for name, of in scores.items()}


def _spread(values: Floats, at: Ints, n: int) -> Floats:
    """Return values at their places (n,), NaN elsewhere."""
    out = np.full(n, np.nan)
    out[at] = values
    return out
