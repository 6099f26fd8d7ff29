"""Test whether whole numbers that name options may count from 1 instead of from 0."""

import math
from collections.abc import Mapping
from typing import Literal

Base = Literal["number", "index"]
"""How numbers count: `number` from 1, and `index` from 0."""
_AS_LIKELY_AS_NOT = 0.5


def uncertain_base(numbers: Mapping[tuple[int, int], int]) -> tuple[Base, ...]:
    """Return the forms that whole numbers may have if they may count from 1, or () if they count from 0.

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
