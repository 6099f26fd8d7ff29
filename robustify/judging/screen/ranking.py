"""Ranking of items by a scorer's certainty about one option without the question (docs/filter.md).

Level 1 has cross-fitted probes on the options' texts. Level 2 is a conditional logit on their logits and the voters'
preferences, fitted for each fold on the others, with level-1 logits that also exclude that fold. The rank of an item thus
never depends on its own key, or on that of a near-duplicate or of its passage. Items are sorted by the rank, within the
fold, of the probability of a shortcut if the top is the key, because fits for different folds differ in scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from robustify.base.arrays import ROWS, Bools, Floats, Ints, by_rows, group_numbers
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.baselines import near_duplicates as copies
from robustify.judging.baselines.conditional_logit import (
    FEWEST_ITEMS,
    FEWEST_TRAINING_ITEMS,
    centred,
    fit_conditional_logit,
    log_probabilities,
)
from robustify.judging.baselines.features import NAMES
from robustify.judging.baselines.words import LEAST, columns_as_written, score_test
from robustify.judging.readers import READERS, Reader, ReaderFits
from robustify.judging.readers.fits import item_sample, nested_cross_fit
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.screen import certainty
from robustify.judging.screen.item_index import ItemIndex, key_shares
from robustify.judging.screen.preferences import (
    GRADED,
    MeanPreference,
    MeanPreferences,
    Silence,
    VoterPreferences,
)
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import TIED

RIDGE = 1.0
"""Ridge penalty of the level-2 conditional logit."""
FOLD_SEEDS, MANY = 5, 5_000
"""Number of fold partitions to average, and number of items from which one partition is enough."""
FEWEST_OF_KIND, SMALLEST_KIND = 100, 0.05
"""Fewest items of a kind, and their smallest share, for its own fit."""
_Columns = Mapping[str, Floats | MeanPreference]
_OF_KIND = " of its kind"
"""End of the name of a column that is fitted on items of the same kind only."""
_SEQUENCES = Reader(lambda items, _: columns_as_written(items), score_test, most=None)
"""Reader of words and letter sequences, with two logits per option. Its fit samples the items once for all folds."""


@dataclass(frozen=True, repr=False)
class Ranking:
    """Ranking of n items with at most K options by a question-free scorer.

    `top` (n,) is the best option, -1 for none or -2 for a tie, and `p_pick` (n,) its probability W. `p_key` (n,) is that
    of the key, NaN if nothing is known. `probable` (n,) is the mean over partitions of the probability of a shortcut if the
    top is the key, and `strength` (n,) the sort key. `reachable` (n, K) is the strength if missing answers made option j
    the top: NaN if they cannot, inf if unknown. It has one column if no answer is missing. `null` (n,) is c, an upper bound
    of the probability that the top is the key without a shortcut. `group` (n,) represents the item's near-duplicates and is
    chosen without keys. `complete` (n,) marks items that every voter answered. `parts` and `surface` are centered
    contributions (n,) to the logit of the top by name, and `surface` sums to its part. An audit has neither
    these nor `p_pick` and `p_key`. `families` (n,) are the groups that share a fold, and `unpaired` is the likely size of
    families that nothing pairs: translations in other alphabets.
    """

    items: tuple[str, ...]
    width: int
    top: Ints
    p_pick: Floats
    p_key: Floats
    probable: Floats
    strength: Floats
    reachable: Floats
    null: Floats
    group: Ints
    fold: Ints
    complete: Bools
    parts: Mapping[str, Floats]
    surface: Mapping[str, Floats]
    independent: int
    families: Ints
    unpaired: float = 1.0


@dataclass(frozen=True, repr=False)
class OptionScores:
    """Cross-fitted scores of options by their texts alone: `logits`, and their parts due to form (`surface`) and `words`.
    They are (n, K), like the `mask` of options. `is_keyed` (n,) marks items with a key."""

    logits: Floats
    surface: Floats
    words: Floats
    mask: Bools
    is_keyed: Bools
    fold: Ints


class Ranker:
    """Ranker of items by how well their options predict the key, given the keys of other folds. `items` are those of
    `index` in the same order if their texts are known. Otherwise only voters' answers count, and `groups` gives the
    passages."""

    def __init__(
        self,
        answers: Answers,
        index: ItemIndex,
        items: Sequence[Item] | None = None,
        settings: ProbeSettings | None = None,
        groups: Mapping[str, str] | None = None,
    ) -> None:
        if items is not None:
            index = replace(index, k=np.array([item.k for item in items], dtype=np.int64))
        self._index, self._items = index, items
        self._is_keyed = (index.k > 0) & (index.key >= 0)
        self._groups, self._settings = groups or {}, settings or ProbeSettings()
        self._preferences = VoterPreferences(answers, index)
        self._mask = self._preferences.mask

    def rank(self, rules: ScreenRules, *, explained: bool = True) -> Ranking:
        """Rank the items by the answers that the rules' voters gave in both modes. Items that are too few for a fit are
        ranked by the sum of the voters' preferences. Contributions are left out unless `explained`."""
        index, mask, keyed = self._index, self._mask, self._is_keyed
        preferences = self._preferences.mean(rules)
        fits, parts, surface = self._fitted(preferences, self._folds, explained=explained)
        contributes = keyed & np.logical_or.reduce([fit.contributes for fit in fits])
        top, log_p, p_key = by_rows(_top_and_key, certainty.mean_logits(fits), mask, contributes, index.key)
        null = 1 / np.maximum(index.k, 1)
        if preferences.placed and keyed.all():
            shares = key_shares(index.key, index.k, index.width)
            null = np.where(top >= 0, shares[index.k, np.maximum(top, 0)], null)
        # If wrong replies are less often readable, more of the readable replies are right by chance.
        if preferences.selection > 1:
            null = preferences.selection * null / (1 + (preferences.selection - 1) * null)
        # Whether an item has a unique top may depend on a key that is ranked among the item's fold, so ties count here.
        ranked = top >= 0
        is_known = ranked | (top == TIED)
        reachable = certainty.reachable_strengths(fits, is_known, keyed)
        probable = [fit.probable for fit in fits]
        # Ranks need only the probabilities.
        for fit in fits:
            del fit.logits
        strength = certainty.mean_ranks(fits, keyed, ranked, probable)
        nothing = np.empty(0)
        return Ranking(
            items=index.items,
            width=index.width,
            top=top,
            p_pick=np.where(ranked, np.round(np.exp(log_p), 12), np.nan) if explained else nothing,
            p_key=p_key if explained else nothing,
            probable=np.where(ranked, np.round(np.mean(probable, axis=0), 9), np.nan),
            strength=strength,
            reachable=reachable if is_known.all() else np.where(is_known[:, None], reachable, np.inf),
            null=null,
            group=self._representatives,
            fold=self._folds[0],
            complete=preferences.complete,
            parts={name: at_option(table, top) for name, table in parts.items()},
            surface={name: at_option(table, top) for name, table in surface.items()},
            independent=self._independent,
            families=self._families,
            unpaired=self._unpaired,
        )

    def forget_answers(self) -> None:
        """Release the cached answers. The next ranking reads them again."""
        self._preferences.forget()

    def contributions(self, rules: ScreenRules) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Return the centered contribution of each part and surface feature to the logits of a ranking (n, K)."""
        return self._fitted(self._preferences.mean(rules), self._folds)[1:]

    def by_options(self) -> OptionScores | None:
        """Score the options by their texts alone. Return None if texts are unknown or there are too few items for a fit."""
        if self._items is None:
            return None
        (fit,), parts, _ = self._fitted(None, self._folds[:1])
        if "words" not in parts:
            return None
        return OptionScores(
            fit.logits, parts["surface"], parts["words"], self._mask, self._is_keyed, fit.fold
        )

    @property
    def _content(self) -> Floats:
        items = self._items
        return copies.unit_hashes(self._index.items) if items is None else copies.content_hashes(items)

    @cached_property
    def _folds(self) -> list[Ints]:
        settings = self._settings
        families = self._families
        seeds = settings.seed * FOLD_SEEDS + np.arange(FOLD_SEEDS if len(families) < MANY else 1)
        content = self._content
        return [copies.balanced_folds(families, content, settings.folds, s) for s in seeds.tolist()]

    @property
    def _families(self) -> Ints:
        return self._passages if self._items is None else copies.fold_groups(self._items)

    @cached_property
    def _unpaired(self) -> float:
        """Effective number of alphabets, for items that are not in a group already."""
        if self._items is None:
            return 1.0
        group = copies.independent_groups(self._items)
        alone = np.bincount(group, minlength=1)[group] == 1
        return 1 + float(alone.mean() if len(alone) else 0) * (
            copies.parallel_items(self._items).alphabets - 1
        )

    @cached_property
    def _fitted_rows(self) -> list[list[Ints]]:
        """Training items for each fold of each partition."""
        folds = ((fold, np.flatnonzero(np.bincount(fold)).tolist()) for fold in self._folds)
        return [[item_sample((fold != f) & self._is_keyed) for f in numbers] for fold, numbers in folds]

    @cached_property
    def _passages(self) -> Ints:
        items = self._index.items
        return group_numbers(items, self._groups) if self._groups else np.arange(len(items), dtype=np.int32)

    @cached_property
    def _independent(self) -> int:
        if self._items is None:
            return int(self._passages.max(initial=-1)) + 1
        parallel = copies.parallel_items(self._items)
        unpaired = bool(parallel.unnamed) and not len(parallel.pairs[0])
        return 0 if unpaired else len(np.unique(copies.independent_groups(self._items)))

    @property
    def _representatives(self) -> Ints:
        """Item that represents each item's near-duplicates (n,). It is the item with the smallest hash."""
        if self._items is None:
            return np.arange(len(self._index), dtype=np.int32)
        duplicates = copies.near_duplicates(self._items)
        order = np.lexsort((self._content, duplicates))
        groups, first = np.unique(duplicates[order], return_index=True)
        return np.asarray(order[first][np.searchsorted(groups, duplicates)], dtype=np.int64)

    @cached_property
    def _form(self) -> ReaderFits | None:
        return None if self._items is None else ReaderFits(READERS["probe"], self._items, key=self._index.key)

    @cached_property
    def _kinds(self) -> Ints:
        """Kind of each item, by topic and number of options (n,). It is -1 if the kind is too rare for a fit or the only
        one. A cue may point to the key in one kind of items and away from it in another."""
        topic = group_numbers([item.topic for item in self._items or ()], {})
        kind = np.unique(topic * (self._index.width + 1) + self._index.k, return_inverse=True)[1]
        fewest = max(FEWEST_OF_KIND, SMALLEST_KIND * len(kind))
        common = np.bincount(kind[self._is_keyed], minlength=len(kind))[kind] >= fewest
        return np.where(common & (len(np.unique(kind[common])) > 1), kind, -1)

    @cached_property
    def _by_text(self) -> list[dict[str, Floats]]:
        """Logits of each named fit on the options' texts (folds, n, K), for each partition into folds."""
        if self._form is None or self._items is None:
            return [{} for _ in self._folds]
        sequences = ReaderFits(_SEQUENCES, self._items, key=self._index.key)
        partitions = []
        for fold in self._folds:
            columns_by_name = {"surface": nested_cross_fit(self._form.predict, fold)}
            if (self._kinds >= 0).any():
                columns_by_name[f"surface{_OF_KIND}"] = nested_cross_fit(self._predict_of_kind, fold)
            words = np.moveaxis(nested_cross_fit(sequences.predict, fold), 3, 0)
            columns_by_name |= {
                f"words {least}": centred(logits, self._mask)
                for least, logits in zip(LEAST, words, strict=True)
            }
            partitions.append(columns_by_name)
        return partitions

    def _coefficients(self, train: Bools) -> Floats:
        """Return the coefficients of the form features (f,), fitted on the items selected by the mask `train`."""
        assert self._form is not None
        return np.asarray(self._form.model(train).fitted)

    def _of_kind(self, train: Bools, items: Bools | Ints) -> Floats:
        """Return the features' coefficients for each item, fitted on the training items of its kind (m, 1, f)."""
        kind, chosen = self._kinds[items], np.zeros_like(train)
        # All kinds together are fitted on no more items than the pooled fit.
        chosen[item_sample(train & self._is_keyed)] = True
        out = np.zeros((len(kind), 1, 2 * len(NAMES)))
        for number in np.unique(kind[kind >= 0]).tolist():
            out[kind == number] = self._coefficients(chosen & (self._kinds == number))
        return out

    def _predict_of_kind(self, train: Bools, test: Bools) -> Floats:
        assert self._form is not None
        return np.asarray((self._form.x[test] * self._of_kind(train, test)).sum(axis=2))

    def _fitted(
        self, preferences: MeanPreferences | None, folds: Sequence[Ints], *, explained: bool = True
    ) -> tuple[list[certainty.CrossFit], dict[str, Floats], dict[str, Floats]]:
        """Cross-fit the scorer, and return its logits with the contributions of each part and of each surface feature.
        Contributions are left out unless `explained`."""
        mask, is_keyed, x = self._mask, self._is_keyed, None if self._form is None else self._form.x
        by_mode, silence = ({}, {}) if preferences is None else (preferences.values, preferences.missing)
        shown = np.empty((*mask.shape, 0))
        if x is not None and preferences is not None and len(mask) < MANY:
            picks = preferences.picks()
            shown = shown if picks is None else np.concatenate([x, picks], axis=2)
        n, sizes = int(is_keyed.sum()), np.unique(folds[0][is_keyed], return_counts=True)[1].tolist()
        enough = n >= FEWEST_ITEMS and len(sizes) > 2 and n - sum(sorted(sizes)[-2:]) >= FEWEST_TRAINING_ITEMS
        if not enough or (self._items is None and not by_mode):
            # The voters' preferences are summed, as one fit of all items.
            all_rows = np.arange(len(mask))
            ones = dict.fromkeys(by_mode, 1.0)
            fit = certainty.CrossFit(np.zeros_like(folds[0]), mask)
            parts = self._parts(by_mode, ones, all_rows)
            fit.fill(all_rows, parts, _missing(silence, ones, all_rows), shown, certainty.own_certainty)
            return [fit], parts, {}
        names = (*by_mode, *self._by_text[0]) if explained else ()
        parts = {_part(name): np.zeros(mask.shape) for name in names}
        surface = {name: np.zeros(mask.shape) for name in (NAMES if x is not None and explained else ())}
        fits: list[certainty.CrossFit] = []
        for fold, by_text, fitted_rows in zip(folds, self._by_text, self._fitted_rows, strict=False):
            fit = certainty.CrossFit(fold, mask)
            for i, f in enumerate(np.flatnonzero(np.bincount(fold)).tolist()):
                in_fold, others = np.flatnonzero(fold == f), fold != f
                columns = {name: values[i] for name, values in by_text.items()} | by_mode
                rows = fitted_rows[i]
                weights = self._weights(columns, rows)
                certain = certainty.fitted_certainty(
                    self._parts(columns, weights, rows), mask[rows], self._index.key[rows], shown[rows]
                )
                for start in range(0, len(in_fold), ROWS):
                    chunk = in_fold[start : start + ROWS]
                    adds = self._parts(columns, weights, chunk)
                    fit.fill(chunk, adds, _missing(silence, weights, chunk), shown[chunk], certain)
                    for name, table in parts.items():
                        table[chunk] += adds[name] / len(folds)
                if surface and x is not None:
                    weight = weights["surface"] * self._coefficients(others)
                    if (name := f"surface{_OF_KIND}") in weights:
                        weight = weight + weights[name] * self._of_kind(others, in_fold)
                    added = x[in_fold] * weight / len(folds)
                    for f, name in enumerate(NAMES):
                        surface[name][in_fold] += added[:, :, f] + added[:, :, f + len(NAMES)]
            fits.append(fit)
        return fits, parts, surface

    def _parts(self, columns: _Columns, weights: Mapping[str, float], rows: Ints) -> dict[str, Floats]:
        """Return the centered contribution of each part to the logits of the items `rows` (m, K)."""
        parts: dict[str, Floats] = {}
        for name, weight in weights.items():
            adds = centred(weight * columns[name][rows], self._mask[rows])
            parts[_part(name)] = parts.get(_part(name), 0.0) + adds
        return parts

    def _weights(self, columns: _Columns, rows: Ints) -> dict[str, float]:
        """Fit the coefficient of each column on the items `rows`. Words get 0 if they would point away from keys, as if
        options come from a pool and each is the key once, because a solver that does not know the other keys cannot use
        this."""
        names = list(columns)
        while True:
            x = np.stack([columns[name][rows] for name in names], axis=-1)
            weights = dict(
                zip(
                    names,
                    fit_conditional_logit(x, self._index.key[rows], self._mask[rows], RIDGE).tolist(),
                    strict=True,
                )
            )
            misleading = [name for name, weight in weights.items() if weight < 0 and _part(name) == "words"]
            if not misleading:
                return dict.fromkeys(columns, 0.0) | weights
            names = [name for name in names if name not in misleading]


def _top_and_key(logits: Floats, mask: Bools, contributes: Bools, key: Ints) -> tuple[Ints, Floats, Floats]:
    """Return each item's best option, its log probability, and the key's probability, each (n,). They are -1, -inf
    and NaN unless something `contributes` (n,) to an item."""
    log_p = log_probabilities(logits, mask)
    log_p[~contributes] = np.nan
    return *certainty.top_options(log_p), np.exp(at_option(log_p, np.maximum(key, 0)))


def at_option(table: Floats, option: Ints) -> Floats:
    """Return the value of a table (n, K) at one option of each item (n,), or NaN if the option is negative."""
    values = np.take_along_axis(table, np.maximum(option, 0)[:, None], axis=1)[:, 0]
    return np.where(option >= 0, values, np.nan)


def _part(name: str) -> str:
    return "words" if name.startswith("words ") else name.removesuffix(GRADED).removesuffix(_OF_KIND)


def _missing(silence: Mapping[str, Silence], weights: Mapping[str, float], rows: Ints) -> dict[str, Floats]:
    """Return the most that missing answers could add to each part of the logits of the items `rows` (m,)."""
    out: dict[str, Floats] = {}
    for name, share in silence.items():
        out[_part(name)] = out.get(_part(name), 0.0) + abs(weights[name]) * share(rows)
    return out
