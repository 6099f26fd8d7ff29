"""Test of whether whole numbers that name options may count from 1 instead of from 0."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from robustify.reading.loaders.answer_keys import WrittenKey, key_number
from robustify.reading.loaders.loaded import KeyKind
from robustify.reading.marks.labelling import COUNTED

Base = Literal["number", "index"]
"""How numbers count: `number` from 1, and `index` from 0."""
_AS_LIKELY_AS_NOT = 0.5
_UNLIKELY = 0.05
"""Probability below which keys never name the first, or the last, option by chance."""
_FEWEST_LAST = 3
"""Least number of keys that must be the number of options, so that none of them is a slip."""


def uncertain_base(numbers: Mapping[tuple[int, int], int]) -> tuple[Base, ...]:
    """Return the possible forms of whole numbers that may count from 1, or () if they count from 0.

    `numbers` maps (number, number of options) to its number of rows. If the number of options is unknown, it is 0. Numbers
    may count from 1 if all are between 1 and the number of options, and either one equals the number of options, or random
    numbers from 0 would more likely than not contain a 0."""
    if not numbers or any(not 1 <= number <= (k or number) for number, k in numbers):
        return ()
    if any(number == k for number, k in numbers):
        return ("number",)
    unlikely = any(not k for _, k in numbers) or (
        sum(n * math.log1p(-1 / k) for (_, k), n in numbers.items()) < math.log(_AS_LIKELY_AS_NOT)
    )
    return ("number", "index") if unlikely else ()


def rarely_shows_no_0(option_counts: Iterable[int], n_files: int) -> bool:
    """Return whether keys that count from 0 would almost always include a 0, given these numbers of options and files."""
    return sum(math.log1p(-1 / k) for k in option_counts) < math.log(_UNLIKELY / n_files)


def uncertain_forms(written: Counter[WrittenKey]) -> tuple[KeyKind, ...]:
    """Return the forms that whole-number keys may have if they may count from 1, or () if they cannot."""
    numbers, n_others = Counter[tuple[int, int]](), 0
    for key, n in written.items():
        if (number := _counted_number(key)) is None:
            n_others += n * (not key.fault)
        else:
            numbers[number, key.k] += n
    return uncertain_base(numbers) if numbers.total() > n_others else ()


def _counted_number(key: WrittenKey) -> int | None:
    """Return the key as a whole number, or None if it may name an option in another way, such as by its text."""
    named = key.fault or key.key_is != "auto" or {"label", "text", "letter"} & key.readings.keys()
    return None if named else key_number(key.text)


def surely_from_1(written: Counter[WrittenKey]) -> bool:
    """Return whether keys certainly count from 1. All keys are whole numbers from 1 to the number of options, and
    several name the last option, which is unlikely if they count from 0."""
    log_chance, n_last = 0.0, 0
    for key, n in written.items():
        number = _counted_number(key)
        if number is None or not 1 <= number <= key.k:
            return False
        n_last += n * (number == key.k)
        log_chance += n * math.log1p(-1 / key.k)
    return n_last >= _FEWEST_LAST and log_chance < math.log(_UNLIKELY)


def never_the_last(written: Counter[WrittenKey]) -> bool:
    """Return whether all keys are numbered labels, but never the last label. This is unlikely unless they count from 0."""
    log_chance = 0.0
    for key, n in written.items():
        k, number = key.k, key_number(key.text)
        counted_from_1 = key.key_is == "auto" and key.labels == COUNTED[1][:k] and "text" not in key.readings
        if key.fault or not counted_from_1 or number is None or not 1 <= number < k:
            return False
        log_chance += n * math.log1p(-1 / k)
    return log_chance < math.log(_UNLIKELY)
