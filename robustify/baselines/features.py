"""Surface features of choices: length, wording, punctuation, likeness to the others.

`surface_features` is what the heuristics read, in columns; `matrix` is what the artifact probe is fitted on, and looks
neither at the stem nor at the place of a choice.
"""

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.item import Item, folded

_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_UNIT = re.compile(
    r"\d\s*(?:%|°|(?:[kcmµn]?m|[kmµ]?g|ml|l|s|ms|min|hours?|h|days?|weeks?|months?|years?|[kmg]?hz|"
    r"[km]?w|[km]?v|[km]?j|k?pa|mol|kcal|miles?|feet|ft|inch(?:es)?|pounds?|tons?|percent|degrees?)\b)",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\b(?:all|none|both|neither|any|either|each|some|two|three|one) (?:of )?(?:the |these |those )?"
    r"(?:above|below|preceding|following|foregoing|other (?:choices|options|answers))\b"
    r"|^(?=.*\b(?:these|those|them|choices|options|answers|statements)\b)"
    r"(?:all|none|both|neither|any|either|each)(?: of)?(?: (?:these|those|them|the))?"
    r"(?: (?:choices|options|answers|statements))?(?: (?:is|are) (?:correct|true|right))?\W*$",
    re.IGNORECASE,
)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


HEDGES = _set(
    "may might could can often usually sometimes generally typically likely probably possibly some most many "
    "tend tends mostly commonly perhaps partly approximately relatively normally frequently mainly largely "
    "roughly somewhat several varies depends"
)
ABSOLUTES = _set(
    "always never all none every only entirely completely totally must cannot nobody nothing everyone "
    "everybody everything absolutely solely purely exclusively invariably impossible certainly definitely "
    "any anything wholly forever without no"
)
NEGATIONS = _set("not no nor never none neither without cannot lack lacks fails")
ARTICLES = _set("a an the")
FUNCTION_WORDS = ARTICLES | _set(
    "of in on at by for to from with and or as that which it its is are was were be been this these than "
    "into their they he she his her has have had"
)


def words_of(text: str) -> list[str]:
    """The words of a text, case folded; a hyphen or an apostrophe joins."""
    return _WORD.findall(text.casefold())


def count_numbers(text: str) -> int:
    """How many numbers a text holds."""
    return len(_NUMBER.findall(text))


# One of these stands in whatever the pattern finds. None has an i: the pattern ignores case as `re` does, for which
# a dotless one is an i, and `casefold` does not.
_POINTING = re.compile("the|above|below|preced|follow|forego|cho|opt|answers|statements|those")


def points_elsewhere(choice: str) -> bool:
    """Whether a choice speaks of the other choices ("all of the above")."""
    if _POINTING.search(choice.casefold()) is None:
        return False
    return _POINTER.search(choice.strip()) is not None


def likeness(sets: Sequence[frozenset[str]]) -> list[list[float]]:
    """The Jaccard index of every two of k sets of words, (k, k)."""
    like = [[1.0] * len(sets) for _ in sets]
    for i in range(len(sets)):
        for j in range(i):
            like[i][j] = like[j][i] = jaccard(sets[i], sets[j])
    return like


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Shared over joint size of two sets; 1 when both are empty."""
    shared = len(a & b)
    joint = len(a) + len(b) - shared
    return shared / joint if joint else 1.0


def oddness(choices: Sequence[str]) -> tuple[int, ...]:
    """For each choice, in how many yes-or-no traits of form it differs from how many of the others."""
    forms = [form(c) for c in choices]
    return tuple(sum(a != b for other in forms for a, b in zip(form, other, strict=True)) for form in forms)


def form(choice: str) -> tuple[bool, ...]:
    """The yes-or-no traits of a choice's form."""
    text = choice.strip()
    return (
        text[:1].isupper(),
        text.endswith((".", "!", "?", ";")),
        bool(_NUMBER.search(text)),
        "," in text,
        "(" in text,
        "-" in text or "–" in text,
        len(text.split()) == 1,
        text.isupper(),
    )


def _traits(choice: str) -> tuple[float, ...]:
    text = choice.strip()
    found = words_of(text)
    n, letters = max(len(found), 1), max(sum(map(str.isalpha, text)), 1)
    return (
        math.log1p(len(text)),
        math.log1p(len(text.split())),
        sum(map(len, found)) / n,
        max(map(len, found), default=0),
        sum(map(str.isdigit, text)),
        count_numbers(text),
        bool(_UNIT.search(text)),
        sum(w in HEDGES for w in found),
        sum(w in ABSOLUTES for w in found),
        sum(w in NEGATIONS for w in found),
        sum(w in FUNCTION_WORDS for w in found) / n,
        text.count(","),
        sum(text.count(c) for c in ";:\"'“”!?—–"),
        text.count("(") + text.count("["),
        text.endswith("."),
        text[:1].isupper(),
        sum(map(str.isupper, text)) / letters,
        bool(found) and found[0] in ARTICLES,
        1 - len(set(found)) / n,
        points_elsewhere(text),
    )


def _contrasts(choices: Sequence[str]) -> list[tuple[float, ...]]:
    like = likeness([frozenset(words_of(c)) for c in choices])
    sizes = [len(c.strip()) for c in choices]
    opened = [c.casefold().split()[:1] for c in choices]
    closed = [c.casefold().split()[-1:] for c in choices]
    texts = [folded(c) for c in choices]
    odd, middle = oddness(choices), _distance_from_middle(texts)
    rows: list[tuple[float, ...]] = []
    for j in range(len(choices)):
        others = [i for i in range(len(choices)) if i != j]
        rows.append(
            (
                statistics.fmean(like[j][i] for i in others),
                max(like[j][i] for i in others),
                math.log((sizes[j] + 1) / (max(sizes[i] for i in others) + 1)),
                math.log((sizes[j] + 1) / (min(sizes[i] for i in others) + 1)),
                sum(opened[i] == opened[j] for i in others),
                sum(closed[i] == closed[j] for i in others),
                sum(bool(texts[i]) and texts[i] in texts[j] for i in others),
                odd[j],
                middle[j],
            )
        )
    return rows


def _distance_from_middle(texts: Sequence[str]) -> list[float]:
    """Where every choice opens with a number: how far each stands from the middle of their ranks; else 0."""
    found = [_NUMBER.search(t) for t in texts]
    values = [float(m.group().replace(",", "")) for m in found if m and m.group().count(".") <= 1]
    if len(values) < len(texts):
        return [0.0] * len(texts)
    ranks = [sum(v < w for v in values) + sum(v == w for v in values) / 2 for w in values]
    return [abs(r - len(texts) / 2) for r in ranks]


NAMES = (
    "characters",
    "words",
    "mean_word_length",
    "longest_word",
    "digits",
    "numbers",
    "unit",
    "hedges",
    "absolutes",
    "negations",
    "function_words",
    "commas",
    "other_punctuation",
    "brackets",
    "full_stop",
    "capital_first",
    "capitals",
    "article_first",
    "repeated_words",
    "points_elsewhere",
    "mean_likeness",
    "greatest_likeness",
    "longer_than_longest_other",
    "longer_than_shortest_other",
    "same_first_word",
    "same_last_word",
    "contains_another",
    "odd_form",
    "far_from_middle_number",
)
"""The features of `matrix`, which has each of them twice."""


def matrix(items: Sequence[Item]) -> Floats:
    """The features of all choices of all items, one after the other, (sum of k, 2 * features).

    Each feature twice, and nothing but what tells the choices of one item apart: standardised within its item (mean
    0, deviation 1; all 0 where the choices do not differ), which says which choice has most; and centred within it, in
    units of the deviation over all items, which says by how much. The longest key by six words and by one are the same
    to the first alone.
    """
    raw, k = amounts(items), np.array([item.k for item in items], dtype=np.int64)
    if not len(raw):
        return np.zeros((0, 2 * len(NAMES)))
    beyond = raw - np.repeat(np.add.reduceat(raw, np.cumsum(k) - k) / k[:, None], k, axis=0)
    spread = np.sqrt(np.mean(beyond**2, axis=0))
    return np.hstack([standardised(raw, k), beyond / np.where(spread > 1e-9, spread, np.inf)])


def amounts(items: Sequence[Item]) -> Floats:
    """The features of all choices as they are counted, (sum of k, features)."""
    rows = [
        (*own, *beside)
        for item in items
        for own, beside in zip(map(_traits, item.choices), _contrasts(item.choices), strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(NAMES))


def standardised(raw: Floats, k: Ints) -> Floats:
    """`raw` (sum of k, f) with mean 0 and deviation 1 within each run of `k` rows; 0 where all are equal."""
    starts = np.cumsum(k) - k
    size = k[:, None].astype(np.float64)
    centred = raw - np.repeat(np.add.reduceat(raw, starts) / size, k, axis=0)
    spread = np.sqrt(np.add.reduceat(centred**2, starts) / size)
    # A spread that is rounding noise must not be blown up to 1.
    alive = spread > 1e-9
    return np.asarray(centred * np.repeat(alive / np.where(alive, spread, 1.0), k, axis=0))


@dataclass(frozen=True)
class SurfaceFeatures:
    """n items with c choices in all. `k`, `key` (n,) of each item; all else (c,).

    `place` from 0 in its item; `chars`, `split`: characters and words between blanks, outer blanks aside; `numbers`,
    `absolutes`, `hedges` counted; `points`: 1 where it speaks of the other choices; `alphabet`: how many of its
    item's choices come before it, case folded; `overlap`: mean Jaccard index with the others; `in_stem`: share of
    its words of content that stand in the stem; `forms` (c, traits).
    """

    k: Ints
    key: Ints
    chars: Ints
    split: Ints
    numbers: Ints
    absolutes: Ints
    hedges: Ints
    points: Ints
    alphabet: Ints
    overlap: Floats
    in_stem: Floats
    forms: Bools

    @cached_property
    def starts(self) -> Ints:
        """(n,): the row of each item's first choice."""
        return np.cumsum(self.k) - self.k

    @cached_property
    def place(self) -> Ints:
        """(c,): see the class."""
        return np.arange(int(self.k.sum())) - np.repeat(self.starts, self.k)

    @cached_property
    def oddness(self) -> Ints:
        """(c,): in how many traits of form a choice differs from how many of the others; as `oddness`."""
        if not len(self.k):
            return np.empty(0, dtype=np.int64)
        k = np.repeat(self.k, self.k)[:, None]
        having = np.repeat(np.add.reduceat(self.forms.astype(np.int64), self.starts), self.k, axis=0)
        return np.asarray(np.where(self.forms, k - having, having).sum(axis=1), dtype=np.int64)


def surface_features(items: Sequence[Item]) -> SurfaceFeatures:
    """The features of all choices of these items."""
    counted: list[tuple[int, ...]] = []
    forms: list[tuple[bool, ...]] = []
    alphabet: list[int] = []
    overlap: list[float] = []
    in_stem: list[float] = []
    k = np.empty(len(items), dtype=np.int64)
    for at, item in enumerate(items):
        texts = [choice.strip() for choice in item.choices]
        split = [words_of(text) for text in texts]
        sets = [frozenset(one) for one in split]
        k[at] = len(texts)
        counted.extend(map(_counted, texts, split, sets))
        forms.extend(map(form, texts))
        lower = [text.casefold() for text in texts]
        alphabet.extend(map(sorted(lower).index, lower))
        overlap.extend((sum(row) - 1.0) / (len(texts) - 1) for row in likeness(sets))
        in_stem.extend(_in_stem(item.stem, sets))
    chars, by_blanks, numbers, absolutes, hedges, points = np.array(counted, dtype=np.int64).reshape(-1, 6).T
    return SurfaceFeatures(
        k=k,
        key=np.array([item.key for item in items], dtype=np.int64),
        chars=chars,
        split=by_blanks,
        numbers=numbers,
        absolutes=absolutes,
        hedges=hedges,
        points=points,
        alphabet=np.array(alphabet, dtype=np.int64),
        overlap=np.array(overlap, dtype=np.float64),
        in_stem=np.array(in_stem, dtype=np.float64),
        forms=np.array(forms, dtype=bool).reshape(len(forms), len(forms[0]) if forms else 0),
    )


def _counted(text: str, split: list[str], own: frozenset[str]) -> tuple[int, ...]:
    absolutes, hedges = (
        0 if kind.isdisjoint(own) else sum(word in kind for word in split) for kind in (ABSOLUTES, HEDGES)
    )
    return len(text), len(text.split()), count_numbers(text), absolutes, hedges, points_elsewhere(text)


def _in_stem(stem: str, sets: Sequence[frozenset[str]]) -> Iterator[float]:
    asked = frozenset(words_of(stem)) - FUNCTION_WORDS
    for own in sets:
        content = own - FUNCTION_WORDS
        yield len(content & asked) / max(len(content), 1)
