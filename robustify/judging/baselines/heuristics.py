"""Heuristics that answer without a model, such as the longest answer, the first position, or the odd one out.

Ties share the credit, so that no position is favored. Heuristics produce the same answer rows as models.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.item import MOST, Item
from robustify.items.scoring import best, picks
from robustify.judging.baselines.near_duplicates import numbered_groups
from robustify.judging.baselines.option_texts import OptionTexts, chunks
from robustify.judging.stats.intervals import clusters, shared_rate
from robustify.judging.stats.tests import LATTICE, LEAST_LATTICE_P, holm, independent_draws, lattice_tail

if TYPE_CHECKING:
    from robustify.items.answers import Answers, Block

VIEW = "heuristic"
TEMPLATE = "heuristic-v1"
Surface = Mapping[str, npt.NDArray[Any]]
"""Columns of n items with c choices in total: `k` and `key` (n,), and those that rules compare (c,)."""
_COLUMNS = (
    "k", "key", "chars", "split", "numbers", "absolutes", "hedges", "points", "alphabet", "overlap", "in_stem", "oddness",
    "outer_space",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Rule that picks the choice with the largest value of one surface column, or the smallest if `least`.

    `fitted` is true if the rule depends on the keys of the set that it is measured on, and `sees_stem` if it reads the
    question.
    """

    name: str
    says: str
    column: str
    least: bool = False
    fitted: bool = False
    sees_stem: bool = False

    def numbers(self, columns: Surface) -> Floats:
        """Return the value of each choice (c,). The rule picks the largest."""
        return np.asarray(-columns[self.column] if self.least else columns[self.column], dtype=np.float64)


HEURISTICS: tuple[Heuristic, ...] = (
    Heuristic("longest_answer", "with the most characters", "chars"),
    Heuristic("shortest_answer", "with the fewest characters", "chars", least=True),
    Heuristic("longest_words", "with the most words", "split"),
    Heuristic("shortest_words", "with the fewest words", "split", least=True),
    Heuristic("first_option", "at the first position", "position", least=True),
    Heuristic("last_option", "at the last position", "position"),
    Heuristic("most_common_position", "at the most common position of keys", "keys_there", fitted=True),
    Heuristic("alphabetical_first", "that is first in the alphabet, ignoring case", "alphabet", least=True),
    Heuristic("most_numeric", "with the most numbers", "numbers"),
    Heuristic("odd_one_out", "that differs most from the others in form", "oddness"),
    Heuristic("most_overlap", "that shares the most words with the others", "overlap"),
    Heuristic("least_overlap", "that shares the fewest words with the others", "overlap", least=True),
    Heuristic(
        "stem_overlap", "with the largest share of its content words in the stem", "in_stem", sees_stem=True
    ),
    Heuristic(
        "least_stem_overlap",
        "with the smallest share of its content words in the stem",
        "in_stem",
        least=True,
        sees_stem=True,
    ),
    Heuristic("fewest_absolutes", "with the fewest words such as always or never", "absolutes", least=True),
    Heuristic("most_hedges", "with the most words such as may or often", "hedges"),
    Heuristic("all_of_the_above", "that refers to the others", "points"),
    Heuristic("outer_space", "that alone begins or ends with white space", "outer_space"),
)
FITTED = frozenset(h.name for h in HEURISTICS if h.fitted)
SEES_STEM = frozenset(h.name for h in HEURISTICS if h.sees_stem)
"""Names of the rules that read the question. They form a family of their own, and audit nothing that is hidden."""


def surface(items: Sequence[Item], columns: Sequence[str] = _COLUMNS) -> Surface:
    """Return the columns that the rules compare, such as the length and position of each choice, for all items."""
    # Only the columns are kept, because the words of a million items would take gigabytes.
    parts = [*_surfaces(items, columns)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _surfaces(items: Sequence[Item], columns: Sequence[str] = _COLUMNS) -> Iterator[Surface]:
    """Yield the columns of `surface` in chunks. If there are no items, yield one empty chunk."""
    keys_at_position = np.bincount([item.key for item in items], minlength=MOST)
    for options in chunks(items) if items else [OptionTexts(())]:
        values = {name: getattr(options, name) for name in columns}
        k = values["k"]
        position = np.arange(int(k.sum())) - np.repeat(np.cumsum(k) - k, k)
        yield {**values, "position": position.astype(np.float64), "keys_there": keys_at_position[position]}


def guess(items: Sequence[Item]) -> "Answers":
    """Answer every item with every heuristic, and return the rows grouped by heuristic."""
    import pyarrow as pa  # `rule_table` does not need it

    from robustify.items.answer_columns import SCHEMA
    from robustify.items.answers import Answers

    columns, n = surface(items), len(items)
    stops = pa.array(np.append(0, np.cumsum(columns["k"])), type=pa.int32())
    none = pa.ListArray.from_arrays(pa.array(np.zeros(n + 1), type=pa.int32()), pa.array([], type=pa.int32()))
    shared = {
        "item": pa.array([item.id for item in items], type=pa.string()),
        "view": pa.repeat(VIEW, n),
        "order": pa.ListArray.from_arrays(stops, pa.array(columns["position"], type=pa.int16())),
        "template": pa.repeat(TEMPLATE, n),
        "key": pa.array(columns["key"], type=pa.int16()),
        **dict.fromkeys(("n_chars", "n_bytes", "n_tokens"), none),
        "error": pa.nulls(n, pa.string()),
    }
    tables = []
    for rule in HEURISTICS:
        credit, pick, tie = _credit(rule, columns)
        row_columns = {
            **shared,
            "model": pa.repeat(rule.name, n),
            "pick": pa.array(pick, type=pa.int16()),
            "correct": pa.array(credit, type=pa.float64()),
            "scores": pa.ListArray.from_arrays(stops, pa.array(rule.numbers(columns))),
            "tie": pa.array(tie, type=pa.int16()),
        }
        tables.append(Answers(pa.table([row_columns[name] for name in SCHEMA.names], schema=SCHEMA)))
    return Answers.concat(tables)


def rule_table(items: Sequence[Item]) -> dict[str, Any]:
    """Return the output of `robustify heuristics --json`: n, chance, and the tie-fair accuracy of each heuristic.

    `heuristics` see only the options, and those `with_question` read the question, too. `ties` counts the items with a
    shared best choice. `p` and `p_holm` are the one-sided p-value and its Holm correction within either family. `groups`
    counts the independent groups of items.
    """
    n, groups = len(items), numbered_groups(items)
    # Sizes of ties and hits of ten million items take 400 MB, and their surface 5 GB.
    sizes, ties, hits = (
        np.zeros(n, np.uint8),
        *(np.zeros((len(HEURISTICS), n), kind) for kind in (np.uint8, bool)),
    )
    start = 0
    for chunk in _surfaces(items):
        rows = slice(start, start := start + len(chunk["k"]))
        sizes[rows] = chunk["k"]
        for h, rule in enumerate(HEURISTICS):
            credit, _, ties[h, rows] = _credit(rule, chunk)
            hits[h, rows] = credit > 0
    k = sizes.astype(np.int64)
    chance = (
        math.fsum(count / options for options, count in enumerate(np.bincount(k).tolist()) if count) / n
        if n
        else None
    )
    scores: dict[str, dict[str, object]] = {}
    p: dict[str, float] = {}
    for rule, rule_ties, rule_hits in zip(HEURISTICS, ties, hits, strict=True):
        tie = rule_ties.astype(np.int64)
        credit = rule_hits / tie
        p[rule.name] = _corrected(rule.name, credit_p(math.fsum(credit), tie, k, groups=groups), k)
        n_tied = int(np.count_nonzero(tie > 1))
        scores[rule.name] = {**shared_rate(credit, tie, k, groups).json(), "ties": n_tied, "p": p[rule.name]}
    for name, corrected in _by_holm(p).items():
        scores[name]["p_holm"] = corrected
    with_question = {name: scores.pop(name) for name in sorted(SEES_STEM)}
    counts = {"n": n, "groups": clusters(n, groups), "chance_accuracy": chance}
    return {**counts, "heuristics": scores, "with_question": with_question}


def listed_credit(items: Sequence[Item], names: Sequence[str]) -> dict[str, Floats]:
    """Return the credit that each named heuristic earns on each item (n,). Tied choices share the credit."""
    rules = [rule for rule in HEURISTICS if rule.name in names]
    columns = surface(
        items, [name for name in _COLUMNS if name in ("k", "key", *(rule.column for rule in rules))]
    )
    return {rule.name: _credit(rule, columns)[0] for rule in rules}


def _credit(rule: Heuristic, columns: Surface) -> tuple[Floats, Ints, Ints]:
    """Apply a rule to each item. Return the credit, the pick, and the number of tied choices of each item, each (n,)."""
    k = columns["k"]
    padded = np.full((len(k), int(k.max(initial=0))), np.nan)
    padded[np.arange(padded.shape[1]) < k[:, None]] = rule.numbers(columns)
    return picks(padded, columns["key"], k)


def heuristic_scores(
    answers: "Answers", keep: Bools, could: Bools | None = None, groups: Ints | None = None
) -> dict[str, dict[str, object]]:
    """Score each heuristic on the items of the mask `keep`, which is aligned with `answers.items`.

    Return `{NAME: {value, n, ci, ties, chance, expected, p, p_holm}}`. p is one-sided (better than chance) under
    exchangeable keys: each choice of an item is its key with the same probability. If the items were selected by their
    keys, `could` (items, K) marks the choices that would have led to the same selection. None marks all of them. A
    filter keeps items whose key the voters did not pick. Rules that avoid their picks are therefore correct more often
    than `chance`, the mean of 1/k. `expected` is the expected accuracy given the selection. p_holm is corrected over
    all heuristics that see as much (Holm 1979). If a heuristic depends on the keys, its p is multiplied by the number of
    positions. Items of one of the `groups` (items,) depend on each other.
    """
    names = [model for view, model, _ in answers.askings() if view == VIEW]
    blocks = {name: answers.block(VIEW, name) for name in names}
    kept = {name: block.where(keep[block.item] & (block.pick >= 0)) for name, block in blocks.items()}
    possible = {name: _possible_keys(block, could) for name, block in kept.items()}
    own = {name: None if groups is None else groups[block.item] for name, block in kept.items()}
    p = {
        name: _corrected(
            name, credit_p(float(block.correct.sum()), block.tie, n_possible, n_picked, own[name]), block.k
        )
        for (name, block), (n_picked, n_possible) in zip(kept.items(), possible.values(), strict=True)
        if len(block)
    }
    corrected = _by_holm(p)
    return {
        name: {
            **shared_rate(block.correct, block.tie, block.k, own[name]).json(),
            "ties": int(np.count_nonzero(block.tie > 1)),
            "chance": float(np.mean(1 / block.k)) if len(block) else None,
            "expected": float(np.mean(possible[name][0] / (block.tie * possible[name][1])))
            if len(block)
            else None,
            "p": p.get(name),
            "p_holm": corrected.get(name),
        }
        for name, block in kept.items()
    }


def _by_holm(p: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values by Holm's method, separately for rules that see only the options and for all others."""
    option_rules, stem_rules = ([name for name in p if (name in SEES_STEM) == sees] for sees in (False, True))
    corrected = (*holm([p[name] for name in option_rules]), *holm([p[name] for name in stem_rules]))
    return dict(zip((*option_rules, *stem_rules), corrected, strict=True))


def _possible_keys(block: "Block", could: Bools | None) -> tuple[Ints, Ints]:
    """Count the choices of each row that could be the key: first those that the rule picks, then all of them."""
    if could is None:
        return block.tie.astype(np.int64), block.k.astype(np.int64)
    shared, possible = best(block.scores, block.k), could[block.item]
    width = max(shared.shape[1], possible.shape[1])
    shared, possible = (np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in (shared, possible))
    return (shared & possible).sum(axis=1), possible.sum(axis=1)


def _corrected(name: str, p: float, k: Ints) -> float:
    """Correct a p-value for the number of positions if the heuristic depends on the keys."""
    return min(1.0, int(k.max(initial=1)) * p) if name in FITTED else p


def credit_p(
    total: float, tie: Ints, k: Ints, picked: Ints | None = None, groups: Ints | None = None
) -> float:
    """Return P(total credit >= `total`) if each of the k choices of an item is its key with equal probability.

    With `tie` and `k` (n,), the credit of an item is 1/tie with probability tie/k, otherwise 0. If only some choices can be
    the key, `k` counts these, and `picked` (n,) counts those that share the pick. Items of one of the `groups` (n,) depend
    on each other as much as possible (`independent_draws`). The result is exact on the lattice of the common denominator. A
    lattice that is too large is replaced by a normal approximation. The result is at least 1e-12.
    """
    unit = math.lcm(*np.unique(tie).tolist())
    draws = independent_draws(
        unit // np.maximum(tie, 1), (tie if picked is None else picked) / np.maximum(k, 1), groups
    )
    size = sum(units.n * units.levels[-1] for units in draws if units.levels) + 1
    if size > LATTICE:
        from scipy.special import ndtr

        mean, variance = (math.fsum(getattr(units, name) for units in draws) for name in ("mean", "variance"))
        if variance <= 0:
            return 1.0
        return max(LEAST_LATTICE_P, float(ndtr(-(total * unit - mean) / math.sqrt(variance))))
    return float(np.clip(lattice_tail(draws, size, math.ceil(total * unit - 1e-6)), LEAST_LATTICE_P, 1.0))
