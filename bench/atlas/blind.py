"""Question-free probes: the package's auditors, and one that also compares the numbers and strings of an item's options.

This one, `comparing`, is gradient boosting on the auditors' features of form and on `relations`. No probe sees questions or
positions.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.items.item import Item
from robustify.items.scoring import best
from robustify.judging.baselines.features import amounts
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups
from robustify.judging.baselines.relatives import merge_groups
from robustify.judging.readers import READERS, Reader, ReaderFits, compared_in_item
from robustify.judging.readers.fits import OptionTable, boosting, by_item, classifier

NUMBER = re.compile(
    r"(-?\d[\d,]*\.?\d*)(?:\s*[×x*]\s*10\s*\^?\s*[{(]?\s*(-?\d+)|e([-+]?\d+))?", re.IGNORECASE
)
MINUS = str.maketrans("−–", "--")
FACTORS = ((-1.0,), (10.0, 0.1, 100.0, 0.01, 1e3, 1e-3), (2.0, 0.5), (3.0, 4.0, 1 / 3, 0.25))
"""Ratios of two numbers by which one may have been made from the other."""
NONE = -9.0
"""Value of a feature that an option does not have."""


FROM_TEXT = ("form", "words", "characters")
"""Readers that need no encoder. The other one is called `logit` in the results."""


def blind(
    items: Sequence[Item], groups: Ints, table: Floats | None = None, readers: Sequence[str] = FROM_TEXT,
    vectors: Floats | None = None, compare: bool = True,
) -> dict[str, Floats]:  # fmt: skip
    """Return the cross-fitted logits (n, K) of the auditors, the conditional logit, and `comparing` if it is asked for."""
    fold = balanced_folds(groups, content_hashes(items), 5, 0)
    chosen = {name: READERS[name] for name in readers} | {"logit": READERS["probe"]}
    if compare:
        chosen["comparing"] = comparing(table)
    return {name: ReaderFits(reader, items, vectors).logits(fold) for name, reader in chosen.items()}


def comparing(table: Floats | None = None) -> Reader:
    """Return the reader of `comparisons`, which may be given as a `table` (sum of k, f). It learns from all items."""
    fit = classifier(lambda: boosting(150, 8))
    return Reader(lambda items, _: comparisons(items) if table is None else table, fit, most=None)


def groups_of(items: Sequence[Item], sources: Sequence[str]) -> Ints:
    """Return the group of each item (n,): copies and relatives, and neighbors of one source in groups of at most 20."""
    at = np.flatnonzero([a == b for a, b in pairwise(sources)])
    return merge_groups(fold_groups(items).copy(), at, at + 1)


def keys_of(items: Sequence[Item]) -> tuple[Ints, Ints]:
    """Return key and number of options of each item (n,), (n,)."""
    return np.array([item.key for item in items]), np.array([item.k for item in items])


def favorites(logits: Floats, k: Ints) -> Ints:
    """Return the option with the highest logit (n,), or -1 if several share it."""
    top = best(np.where(np.arange(logits.shape[1]) < k[:, None], logits, np.nan), k)
    return np.where(top.sum(axis=1) == 1, top.argmax(axis=1), -1)


def comparisons(items: Sequence[Item]) -> Floats:
    """Return the features of all options (sum of k, f), which do not depend on the keys."""
    mask = OptionTable.from_items(items).mask
    raw = np.hstack([amounts(items), np.concatenate([relations(item.choices) for item in items])])
    return compared_in_item(by_item(raw, mask), mask)[mask]


def relations(choices: Sequence[str]) -> Floats:
    """Return how the numbers and strings of an item's options relate to those of the others (k, f)."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing
        found = np.column_stack([*_by_number(choices), *_by_string(choices)]).astype(np.float64)
    return np.where(np.isfinite(found), found, NONE)


def _by_number(choices: Sequence[str]) -> list[Floats]:
    """Return order, size, neighbors, likely derivations, and precision of each option's first number."""
    numbers = [_number(choice) for choice in choices]
    value = np.array([one[0] for one in numbers])
    size = np.log10(np.abs(value))
    size[~np.isfinite(size)] = np.nan
    apart, ratio = np.abs(size[:, None] - size), value / value[:, None]
    np.fill_diagonal(apart, np.nan)
    np.fill_diagonal(ratio, np.nan)
    rank = np.where(
        value == value, (value[:, None] > value).sum(1) + (value[:, None] == value).sum(1) / 2, np.nan
    )
    n, middle = max(1, int((value == value).sum())), np.nanmedian(size)
    derived = [sum((np.abs(ratio - c) < 1e-3 * abs(c)).sum(1) for c in factors) for factors in FACTORS]
    near = [(apart < limit).sum(1) for limit in (0.05, 0.35, 1.01)]
    return [
        value == value, rank / n, np.abs(rank - n / 2) / n, size - middle, np.abs(size - middle),
        np.nanmin(apart, axis=1), np.sign(value), *near, *derived, *np.array([one[1:] for one in numbers]).T,
    ]  # fmt: skip


def _number(text: str) -> tuple[float, int, int, int]:
    """Return the first number of a text, its significant digits, decimals, and final zeros."""
    match = NUMBER.search(text.translate(MINUS))
    if match is None:
        return np.nan, 0, 0, 0
    digits = match[1].replace(",", "")
    figures, decimals = digits.strip("-").replace(".", ""), len(digits.partition(".")[2])
    power = min(300, max(-300, int(match[2] or match[3] or 0)))
    zeros = len(digits) - len(digits.rstrip("0"))
    return float(digits) * 10.0**power, len(figures.strip("0")), decimals, zeros


def _by_string(choices: Sequence[str]) -> list[Floats]:
    """Return likeness, shared ends, equal patterns, and shared words of each option."""
    padded_texts = [f" {choice.casefold()} " for choice in choices]
    grams = [{text[i : i + 3] for i in range(len(text) - 2)} for text in padded_texts]
    words = [choice.split() for choice in choices]
    shapes = [re.sub(r"\d+", "#", choice) for choice in choices]
    numbers = [tuple(re.findall(r"\d+", choice)) for choice in choices]
    reversed_texts = [choice[::-1] for choice in choices]
    like = _pairs(lambda i, j: len(grams[i] & grams[j]) / max(1, len(grams[i] | grams[j])), len(choices))
    start = _pairs(lambda i, j: _shared_start(choices[i], choices[j]), len(choices))
    end = _pairs(lambda i, j: _shared_start(reversed_texts[i], reversed_texts[j]), len(choices))
    one_word = _pairs(lambda i, j: _differ_in_one(words[i], words[j]), len(choices))
    met = _pairs(lambda i, j: len({*words[i]} & {*words[j]}) / max(1, len({*words[i]})), len(choices))
    return [
        *(of(like, axis=1) for of in (np.nanmean, np.nanmax, np.nanmin, np.nanmedian)),
        *(of(ends, axis=1) for ends in (start, end) for of in (np.nanmean, np.nanmax)),
        np.nansum(one_word, axis=1), np.nanmean(met, axis=1), np.nanmax(met, axis=1),
        np.array([shapes.count(shape) for shape in shapes]), np.array([numbers.count(one) for one in numbers]),
    ]  # fmt: skip


def _pairs(of: Callable[[int, int], float], k: int) -> Floats:
    """Return a symmetric or asymmetric function of two options for all pairs (k, k), NaN on the diagonal."""
    return np.array([[np.nan if i == j else of(i, j) for j in range(k)] for i in range(k)])


def _shared_start(one: str, two: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
    )


def _differ_in_one(one: Sequence[str], two: Sequence[str]) -> bool:
    return len(one) == len(two) and sum(a != b for a, b in zip(one, two, strict=True)) == 1
