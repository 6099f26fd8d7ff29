"""What blind rules score: the longest answer, the first place, the odd one out, and their kind.

A heuristic gives each choice a number and picks the best; equal numbers share the credit, so that no place is
favoured in silence. It reads the text of an item and no model, and writes ordinary answer rows.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from robustify import orders
from robustify.answers import Answer, Answers, Block
from robustify.cloze import credit
from robustify.features import (
    ABSOLUTES,
    FUNCTION_WORDS,
    HEDGES,
    Floats,
    Ints,
    count_in,
    likeness,
    numbers,
    oddness,
    points_elsewhere,
    words,
)
from robustify.item import Item
from robustify.stats import holm, rate

VIEW = "heuristic"
TEMPLATE = "heuristic-v1"

Scores = tuple[float, ...]
Rule = Callable[[Sequence[Item]], list[Scores]]

LATTICE = 1 << 18
"""Points up to which the exact distribution of a heuristic's score is computed; beyond, its normal limit."""
LEAST_P = 1e-12
"""Below this the transform's rounding is larger than the probability, so no smaller p is reported."""


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A blind rule: `scores` gives every choice of every item a number, and the largest is its pick.

    `fitted` says that the rule was chosen after looking at the keys of the set it is measured on.
    """

    name: str
    says: str
    scores: Rule
    fitted: bool = False


def _each(score: Callable[[Item], Sequence[float]]) -> Rule:
    return lambda items: [tuple(map(float, score(item))) for item in items]


def _choice(score: Callable[[str], float]) -> Rule:
    return _each(lambda item: [score(choice.strip()) for choice in item.choices])


def _alphabetical(item: Item) -> Scores:
    texts = [choice.strip().casefold() for choice in item.choices]
    return tuple(-sorted(texts).index(text) for text in texts)


def _common_place(items: Sequence[Item]) -> list[Scores]:
    keys = Counter(item.key for item in items)
    return [tuple(float(keys[place]) for place in range(item.k)) for item in items]


def _overlap(item: Item) -> Scores:
    like = likeness(item.choices)
    return tuple((sum(row) - row[j]) / (item.k - 1) for j, row in enumerate(like))


def _stem_overlap(item: Item) -> Scores:
    stem = frozenset(words(item.stem)) - FUNCTION_WORDS
    held = [frozenset(words(choice)) - FUNCTION_WORDS for choice in item.choices]
    return tuple(len(h & stem) / max(len(h), 1) for h in held)


HEURISTICS: tuple[Heuristic, ...] = (
    Heuristic("longest_answer", "most characters", _choice(len)),
    Heuristic("shortest_answer", "fewest characters", _choice(lambda c: -len(c))),
    Heuristic("longest_words", "most words", _choice(lambda c: len(c.split()))),
    Heuristic("shortest_words", "fewest words", _choice(lambda c: -len(c.split()))),
    Heuristic("first_option", "the first place", _each(lambda item: [-float(j) for j in range(item.k)])),
    Heuristic("last_option", "the last place", _each(lambda item: list(range(item.k)))),
    Heuristic("most_common_position", "where the key stands most often", _common_place, fitted=True),
    Heuristic("alphabetical_first", "first in the alphabet, case folded", _each(_alphabetical)),
    Heuristic("most_numeric", "most numbers", _choice(numbers)),
    Heuristic(
        "odd_one_out", "differs most from the others in form", _each(lambda item: oddness(item.choices))
    ),
    Heuristic("most_overlap", "shares most words with the other choices", _each(_overlap)),
    Heuristic(
        "least_overlap",
        "shares fewest words with the other choices",
        _each(lambda item: [-s for s in _overlap(item)]),
    ),
    Heuristic("stem_overlap", "largest share of its words stands in the stem", _each(_stem_overlap)),
    Heuristic(
        "least_stem_overlap",
        "smallest share of its words stands in the stem",
        _each(lambda item: [-s for s in _stem_overlap(item)]),
    ),
    Heuristic(
        "fewest_absolutes",
        "fewest words like always, never, only",
        _choice(lambda c: -count_in(c, ABSOLUTES)),
    ),
    Heuristic("most_hedges", "most words like may, often, usually", _choice(lambda c: count_in(c, HEDGES))),
    Heuristic("all_of_the_above", "speaks of the other choices", _choice(points_elsewhere)),
)


def guess(items: Sequence[Item]) -> list[Answer]:
    """One row an item and heuristic, all items of one heuristic after the other."""
    return [row for h in HEURISTICS for row in _rows(h, items)]


def table(items: Sequence[Item]) -> dict[str, object]:
    """What `robustify heuristics --json` prints: n, chance, and each heuristic's tie-fair accuracy.

    `ties` counts the items whose best choice is shared.
    """
    k = np.array([item.k for item in items], dtype=np.int64)
    found: dict[str, object] = {}
    for h in HEURISTICS:
        won, _, tie = _credit(h.scores(items), items, k)
        found[h.name] = {**rate(won).json(), "ties": int(np.count_nonzero(tie > 1))}
    chance = float(np.mean(1 / k)) if len(k) else None
    return {"n": len(items), "chance_accuracy": chance, "heuristics": found}


def measured(answers: Answers, keep: npt.NDArray[np.bool_]) -> dict[str, dict[str, object]]:
    """Each heuristic on the items where `keep` (one entry for each of `answers.items`) is true.

    `{NAME: {value, n, ci, ties, chance, p, p_holm}}`. p is one-sided (better than chance) under exchangeable
    keys: had any choice of an item been its key with the same probability. Holm (1979) over the family. For a
    heuristic that was chosen after looking at the keys, p is multiplied by the places it could choose from.
    """
    names = [model for view, model, _ in answers.askings() if view == VIEW]
    blocks = {name: answers.block(VIEW, name) for name in names}
    kept = {name: block.where(keep[block.item] & (block.pick >= 0)) for name, block in blocks.items()}
    p = {name: _p(name, block) for name, block in kept.items() if len(block)}
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    return {
        name: {
            **rate(block.correct).json(),
            "ties": int(np.count_nonzero(block.tie > 1)),
            "chance": float(np.mean(1 / block.k)) if len(block) else None,
            "p": p.get(name),
            "p_holm": corrected.get(name),
        }
        for name, block in kept.items()
    }


def _credit(scores: list[Scores], items: Sequence[Item], k: Ints) -> tuple[Floats, Ints, Ints]:
    key = np.array([item.key for item in items], dtype=np.int64)
    padded = np.full((len(items), int(k.max(initial=0))), np.nan)
    padded[np.arange(padded.shape[1]) < k[:, None]] = [s for row in scores for s in row]
    return credit(padded, key, k)


def _rows(h: Heuristic, items: Sequence[Item]) -> list[Answer]:
    scores = h.scores(items)
    k = np.array([item.k for item in items], dtype=np.int64)
    won, pick, tie = (part.tolist() for part in _credit(scores, items, k))
    return [
        Answer(
            *(item.id, VIEW, h.name, orders.own(item.k), TEMPLATE, item.key),
            pick=pick[i],
            correct=won[i],
            scores=scores[i],
            tie=tie[i],
        )
        for i, item in enumerate(items)
    ]


def _p(name: str, block: Block) -> float:
    looks = int(block.k.max()) if any(h.name == name and h.fitted for h in HEURISTICS) else 1
    return min(1.0, looks * luck(float(block.correct.sum()), block.tie, block.k))


def luck(total: float, tie: Ints, k: Ints) -> float:
    """P(credit of all items >= `total`) when each item's key is any of its k choices, equally likely.

    `tie`, `k` (n,): an item's credit is 1/tie with probability tie/k, else 0. Exact, by the characteristic
    function on the lattice of the common denominator; the normal limit where that lattice is too large. Never below 1e-12.
    """
    unit = math.lcm(*np.unique(tie).tolist())
    size = unit * len(tie) + 1
    if size > LATTICE:
        variance = float(np.sum((1 / tie - 1 / k) / k))
        if variance <= 0:
            return 1.0
        return max(LEAST_P, float(ndtr(-(total - float(np.sum(1 / k))) / math.sqrt(variance))))
    wave = -2j * np.pi * np.arange(size // 2 + 1) / size
    log_cf = np.zeros(len(wave), dtype=np.complex128)
    kinds, count = np.unique(np.stack([tie, k]), axis=1, return_counts=True)
    # A factor of 0 (a fair coin, half round the circle) is a true 0: log gives -inf, exp brings it back.
    with np.errstate(divide="ignore"):
        for (t, options), n in zip(kinds.T.tolist(), count.tolist(), strict=True):
            log_cf += n * np.log(1 - t / options + t / options * np.exp(wave * (unit // t)))
    pmf = np.fft.irfft(np.exp(log_cf), size)
    return float(np.clip(pmf[math.ceil(total * unit - 1e-6) :].sum(), LEAST_P, 1.0))
