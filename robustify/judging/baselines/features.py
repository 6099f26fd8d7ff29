"""Surface features of choices: length, wording, punctuation, and similarity to the other choices.

The artifact probe uses `matrix`, which includes neither the stem nor the position of a choice.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import ROUNDING, Floats, Ints
from robustify.base.texts import folded
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.option_texts import (
    BRACKET,
    CAPITAL,
    COMMA,
    DIGIT,
    LETTER,
    PUNCTUATION,
    OptionTexts,
    Vocabulary,
    chunks,
    summed,
)
from robustify.judging.baselines.wording import ARTICLES, FUNCTION_WORDS, NEGATIONS, NUMBER, UNIT

NAMES = (
    "characters", "words", "mean_word_length", "longest_word", "digits", "numbers", "unit", "hedges", "absolutes",
    "negations", "function_words", "commas", "other_punctuation", "brackets", "full_stop", "capital_first",
    "capitals", "article_first", "repeated_words", "points_elsewhere", "mean_likeness", "greatest_likeness",
    "longer_than_longest_other", "longer_than_shortest_other", "same_first_word", "same_last_word",
    "contains_another", "odd_form", "far_from_middle_number", "outer_space", "invisible_characters", "odd_spaces",
    "compatibility_forms", "mixed_alphabets", "combining_marks",
)  # fmt: skip
"""Features of `matrix`, which contains each of them twice."""
_ITEMS = 10_000
"""Number of items whose features are compared at a time."""


@kept_for_last
def matrix(items: Sequence[Item]) -> Floats:
    """Return the probe's features for all choices of all items (sum of k, 2 * features).

    Each feature appears twice, and both versions only compare the choices of one item. The first is standardised within
    the item (mean 0, deviation 1, or 0 if all choices are equal), which shows the order of the choices. The second is
    centered within the item and divided by the deviation over all items, which shows the size of a difference. Only the
    second separates a key that is longest by six words from one that is longest by one.
    """
    raw, k = amounts(items), np.array([item.k for item in items], dtype=np.int64)
    if not len(raw):
        return np.zeros((0, 2 * len(NAMES)))
    features = np.empty((len(raw), 2 * len(NAMES)))
    deviations = features[:, len(NAMES) :]
    # Copies of the features of 100,000 items would take 110 MiB each, so they are written in place, a few items at a time.
    end = 0
    for sizes in np.array_split(k, 1 + len(k) // _ITEMS):
        start, end = end, end + int(sizes.sum())
        part = raw[start:end]
        deviations[start:end] = _centred(part, sizes)
        features[start:end, : len(NAMES)] = standardised(part, sizes)
    scale = np.sqrt(np.mean(deviations**2, axis=0))
    deviations /= np.where(scale > ROUNDING, scale, np.inf)
    features.flags.writeable = False
    return features


def amounts(items: Sequence[Item]) -> Floats:
    """Return the unscaled features of all choices (sum of k, features)."""
    return np.concatenate([np.empty((0, len(NAMES))), *map(_amounts, chunks(items))])


def _amounts(options: OptionTexts) -> Floats:
    row, words = options.words
    vocabulary, classes, count = options.vocabulary, options.classes, len(options.texts)
    n_words = np.maximum(np.bincount(row, minlength=count), 1)
    lengths = np.fromiter(map(len, vocabulary), np.int64, len(vocabulary))[words]
    first_words = np.flatnonzero(np.diff(row, prepend=-1))
    longest, article = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    np.maximum.at(longest, row, lengths)
    article[row[first_words]] = vocabulary.among(ARTICLES)[words[first_words]]
    log1p = np.array([math.log1p(x) for x in range(1 + int(options.chars.max(initial=0)))])
    columns = [
        log1p[options.chars],
        log1p[options.split],
        np.bincount(row, weights=lengths, minlength=count) / n_words,
        longest,
        classes[DIGIT],
        options.numbers,
        options.each(lambda text: UNIT.search(text) is not None),
        options.hedges,
        options.absolutes,
        options.count_of(NEGATIONS),
        options.count_of(FUNCTION_WORDS) / n_words,
        classes[COMMA],
        classes[PUNCTUATION],
        classes[BRACKET],
        options.each(lambda text: text.endswith(".")),
        options.capital_first,
        classes[CAPITAL] / np.maximum(classes[LETTER], 1),
        article,
        1 - np.bincount(options.sets[0], minlength=count) / n_words,
        options.points,
        *_contrasts(options),
    ]
    return np.column_stack(columns).astype(np.float64)


def _contrasts(options: OptionTexts) -> Iterator[npt.NDArray[np.generic]]:
    """Yield the features that compare each option with the other options of its item (c,)."""
    others, mask, k = options.others, options.mask, np.repeat(options.k, options.k)
    like = np.where(others, options.likeness, 0.0)
    likeness_sum = summed(like)
    # A sum of two numbers is rounded once. `fsum` does the same for longer sums.
    is_long_sum = (like > 0).sum(axis=2) > 2
    likeness_sum[is_long_sum] = [math.fsum(row) for row in like[is_long_sum].tolist()]
    yield likeness_sum[mask] / (k - 1)
    yield np.where(others, options.likeness, -1.0).max(axis=2, initial=-1.0)[mask]
    sizes = np.broadcast_to(options.padded(options.chars)[:, None, :], others.shape)
    longest = int(options.chars.max(initial=0))
    yield _log_ratio(options.chars, np.where(others, sizes, -1).max(axis=2, initial=-1)[mask])
    yield _log_ratio(options.chars, np.where(others, sizes, longest).min(axis=2, initial=longest)[mask])
    words = [choice.casefold().split() or [""] for choices in options.choices for choice in choices]
    for end in (0, -1):
        vocabulary = Vocabulary()
        end_words = options.padded(np.array([vocabulary[parts[end]] for parts in words], dtype=np.int64))
        yield ((end_words[:, :, None] == end_words[:, None, :]) & others).sum(axis=2)[mask]
    plain = [[folded(choice) for choice in choices] for choices in options.choices]
    n_contained = [sum(bool(b) and b in a for b in choices) - bool(a) for choices in plain for a in choices]
    yield np.array(n_contained, dtype=np.int64)
    yield options.oddness
    yield np.array([distance for choices in plain for distance in _distance_from_middle(choices)])
    yield options.outer_space
    yield from options.odd.T


def _log_ratio(own: Ints, other: Ints) -> Floats:
    base = int(max(own.max(initial=0), other.max(initial=0))) + 2
    kinds, inverse = np.unique(own * base + other, return_inverse=True)
    logs = [math.log((code // base + 1) / (code % base + 1)) for code in kinds.tolist()]
    return np.array(logs, dtype=np.float64)[inverse]


def _distance_from_middle(texts: Sequence[str]) -> list[float]:
    """Return each choice's distance from the middle rank of the numbers, or zeros if any choice lacks a readable number."""
    values = first_numbers(texts)
    if any(map(math.isnan, values)):
        return [0.0] * len(texts)
    ranks = [sum(v < w for v in values) + sum(v == w for v in values) / 2 for w in values]
    return [abs(r - len(texts) / 2) for r in ranks]


def first_numbers(texts: Sequence[str]) -> list[float]:
    """Return the first number of each text, or NaN if the text has no number or several decimal points in its number."""
    numbers = ((match[0] if (match := NUMBER.search(text)) else "..") for text in texts)
    return [float(number.replace(",", "")) if number.count(".") < 2 else math.nan for number in numbers]


def _centred(raw: Floats, k: Ints) -> Floats:
    return np.asarray(raw - np.repeat(np.add.reduceat(raw, np.cumsum(k) - k) / k[:, None], k, axis=0))


def standardised(raw: Floats, k: Ints) -> Floats:
    """Standardize features to mean 0 and deviation 1 within each item (sum of k, f). Features without spread become 0."""
    starts = np.cumsum(k) - k
    size = k[:, None].astype(np.float64)
    centred = _centred(raw, k)
    spread = np.sqrt(np.add.reduceat(centred**2, starts) / size)
    varies = spread > ROUNDING
    return np.asarray(centred * np.repeat(varies / np.where(varies, spread, 1.0), k, axis=0))
