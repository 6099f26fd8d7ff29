"""The heuristics in columns say what they said item by item, to the byte."""

import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.base.texts import EDGES, edges, folded
from robustify.items import orders
from robustify.items.answers import Answer, Answers
from robustify.items.item import Item
from robustify.items.scoring import picks
from robustify.judging.baselines import option_texts, wording
from robustify.judging.baselines.features import NAMES, amounts
from robustify.judging.baselines.heuristics import HEURISTICS, TEMPLATE, VIEW, guess
from robustify.judging.baselines.wording import (
    ABSOLUTES,
    ARTICLES,
    FUNCTION_WORDS,
    HEDGES,
    NEGATIONS,
    form,
    words_of,
)

# Each rule by its definition, one item at a time.


def each(score: Callable[[str], float]) -> Callable[[Item], list[float]]:
    return lambda item: [score(choice.strip(EDGES)) for choice in item.choices]


def count(kind: frozenset[str]) -> Callable[[str], int]:
    return lambda text: sum(word in kind for word in words_of(text))


def alphabetical(item: Item) -> list[float]:
    texts = [choice.strip(EDGES).casefold() for choice in item.choices]
    return [-sorted(texts).index(text) for text in texts]


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def overlap(item: Item) -> list[float]:
    sets = [frozenset(words_of(choice)) for choice in item.choices]
    like = [[jaccard(a, b) for b in sets] for a in sets]
    return [(sum(row) - row[j]) / (item.k - 1) for j, row in enumerate(like)]


def in_stem(item: Item) -> list[float]:
    stem = frozenset(words_of(item.stem)) - FUNCTION_WORDS
    sets = [frozenset(words_of(choice)) - FUNCTION_WORDS for choice in item.choices]
    return [len(h & stem) / max(len(h), 1) for h in sets]


def points(text: str) -> bool:
    return wording._POINTER.search(text.strip()) is not None


def oddness(choices: Sequence[str]) -> tuple[int, ...]:
    forms = [form(c) for c in choices]
    return tuple(sum(a != b for other in forms for a, b in zip(one, other, strict=True)) for one in forms)


# The amounts that the probe is fitted on, one choice and one item at a time.


def traits(choice: str) -> tuple[float, ...]:
    text = choice.strip()
    found = words_of(text)
    n, letters = max(len(found), 1), max(sum(map(str.isalpha, text)), 1)
    return (
        math.log1p(len(text)),
        math.log1p(len(text.split())),
        sum(map(len, found)) / n,
        max(map(len, found), default=0),
        sum(map(str.isdigit, text)),
        wording.count_numbers(text),
        bool(wording.UNIT.search(text)),
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
        points(text),
    )


def outer_space(choices: Sequence[str]) -> list[float]:
    own = [edges(choice) for choice in choices]
    return [len(own) - own.count(one) + (any(one) / 2) for one in own]


def contrasts(choices: Sequence[str]) -> list[tuple[float, ...]]:
    sets = [frozenset(words_of(c)) for c in choices]
    like = [[jaccard(a, b) for b in sets] for a in sets]
    sizes = [len(c.strip(EDGES)) for c in choices]
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
                outer_space(choices)[j],
            )
        )
    return rows


def _distance_from_middle(texts: Sequence[str]) -> list[float]:
    """Where every choice opens with a number: how far each stands from the middle of their ranks; else 0."""
    found = [wording.NUMBER.search(t) for t in texts]
    values = [float(m.group().replace(",", "")) for m in found if m and m.group().count(".") <= 1]
    if len(values) < len(texts):
        return [0.0] * len(texts)
    ranks = [sum(v < w for v in values) + sum(v == w for v in values) / 2 for w in values]
    return [abs(r - len(texts) / 2) for r in ranks]


RULES: dict[str, Callable[[Item], Sequence[float]]] = {
    "longest_answer": each(len),
    "shortest_answer": each(lambda c: -len(c)),
    "longest_words": each(lambda c: len(c.split())),
    "shortest_words": each(lambda c: -len(c.split())),
    "first_option": lambda item: [-float(j) for j in range(item.k)],
    "last_option": lambda item: range(item.k),
    "alphabetical_first": alphabetical,
    "most_numeric": each(wording.count_numbers),
    "odd_one_out": lambda item: oddness(item.choices),
    "most_overlap": overlap,
    "least_overlap": lambda item: [-s for s in overlap(item)],
    "stem_overlap": in_stem,
    "least_stem_overlap": lambda item: [-s for s in in_stem(item)],
    "fewest_absolutes": each(lambda c: -count(ABSOLUTES)(c)),
    "most_hedges": each(count(HEDGES)),
    "all_of_the_above": each(points),
    "outer_space": lambda item: outer_space(item.choices),
}


def one_by_one(items: Sequence[Item]) -> Answers:
    places = Counter(item.key for item in items)
    rules: dict[str, Callable[[Item], Sequence[float]]] = {
        **RULES,
        "most_common_position": lambda item: [places[j] for j in range(item.k)],
    }
    return Answers.of(row(h.name, item, rules[h.name](item)) for h in HEURISTICS for item in items)


def row(name: str, item: Item, scored: Sequence[float]) -> Answer:
    scores = tuple(float(s) for s in scored)
    won, pick, tie = (
        part.tolist()[0] for part in picks(np.array([scores]), np.array([item.key]), np.array([item.k]))
    )
    return Answer(item.id, VIEW, name, orders.own(item.k), TEMPLATE, item.key, pick, won, scores, tie=tie)


def file_of(answers: Answers, path: Path) -> bytes:
    answers.write(path)
    return path.read_bytes()


SPOKEN = st.sampled_from(
    ["all of the above", "None of these.", "both of them are right", "Always", "may often be", "3,5 mg", "never 12",
     "(a, b)", "RED", "the red cat", "the cat", "a–b", "  outer  ", "it's", "Straße", "the following options",
     "any of the preceding", "Neither", "ſome of theſe", "3 mg", "12 or 3",
     "\0 nul", "²", "٣", "a-b c", "1.2.3", "don't--do", "a_b"]
)  # fmt: skip
texts = st.one_of(SPOKEN, st.text(max_size=10), st.lists(SPOKEN, max_size=3).map(" ".join))
made_up = st.lists(
    st.tuples(
        st.lists(texts, min_size=2, max_size=7), st.text(min_size=1).filter(str.strip), st.integers(0, 99)
    ),
    max_size=6,
).map(
    lambda rows: [
        Item(f"i{n}", stem, tuple(choices), key % len(choices)) for n, (choices, stem, key) in enumerate(rows)
    ]
)


@settings(deadline=None, max_examples=80)
@given(made_up)
def test_the_columns_are_the_rows_of_the_definitions_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = [Answers.concat([made(items)]) for made in (guess, one_by_one)]
    assert whole[0].table.equals(whole[1].table)
    # A negative zero is equal to a positive one, and another byte.
    first, second = (file_of(answers, folder / "cues.parquet") for answers in whole)
    assert first == second


@settings(deadline=None, max_examples=150)
@given(made_up, st.sampled_from([1, 2, 2000]))
def test_the_amounts_of_many_items_are_those_of_each_to_the_bit(items: list[Item], chunk: int) -> None:
    rows = [
        (*a, *b)
        for item in items
        for a, b in zip(map(traits, item.choices), contrasts(item.choices), strict=True)
    ]
    expected = np.array(rows, dtype=np.float64).reshape(len(rows), len(NAMES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(option_texts, "CHUNK", chunk)
        assert amounts(items).tobytes() == expected.tobytes()


@settings(max_examples=400)
@given(st.text() | texts, st.text() | texts)
def test_what_points_elsewhere_is_found_by_its_first_look_too(a: str, b: str) -> None:
    for text in (a, b, a + b, f"{a} {b}"):
        assert wording.points_elsewhere(text) == points(text)


def test_every_letter_of_the_first_look_is_found_in_any_case_that_re_takes_for_it() -> None:
    # `re` ignores case in its own way; what it takes for a letter of these parts, case folding must turn into it.
    letters = sorted(set(wording._POINTING.pattern) - {"|"})
    assert "i" not in letters
    assert "".join(letters).isalpha()
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for letter in letters:
        same = set(re.findall(letter, every, re.IGNORECASE))
        assert {one.casefold() for one in same} == {letter}
