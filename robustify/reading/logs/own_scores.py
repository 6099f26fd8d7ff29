"""Comparison of picks and keys with the scores that a log gives its own rows.

If they contradict each other, a key was misread, or scores were assigned to the wrong choices. Scores take many forms: 1.0
and 0.0, true and false, "C" and "I", or words.
"""

import math
import re
from collections.abc import Iterable, Mapping

from robustify.base.arrays import tied_best
from robustify.reading.logs.log import LoggedItem

_RIGHT = frozenset({"1", "1.0", "true", "c", "correct", "right", "yes", "pass"})
_WRONG = frozenset({"0", "0.0", "false", "i", "incorrect", "wrong", "no", "fail"})
_OF_RIGHTNESS = re.compile(
    r"(?:.*_)?(?:acc(?:uracy)?|em|match|correct|right|score|f1|pass)(?:[_@,:].*)?", re.I
)
_NORMED_OTHERWISE = re.compile(r"token|pmi|greedy|prob", re.I)


def number_or_nan(value: object) -> float:
    """Return a number, also one written as text, or NaN if it is unreadable."""
    try:
        return float(value) if isinstance(value, str | int | float) and value is not True else math.nan
    except (ValueError, OverflowError):
        return math.nan


def scored_right(value: object) -> bool | None:
    """Return whether a score says that an answer is right or wrong, or None if it says neither."""
    match value:
        case [one]:
            return scored_right(one)
        case Mapping():
            return scored_right([*value.values()]) if len(value) == 1 else None
        case str() | bool() | int() | float():
            word = str(value).strip().casefold()
            return True if word in _RIGHT else False if word in _WRONG else None
        case _:
            return None


def scores_of_row(cells: Mapping[str, object]) -> dict[str, bool]:
    """Return the scores in the cells of a row that say whether its answer is right, by name."""
    said = {name: scored_right(value) for name, value in cells.items() if _OF_RIGHTNESS.fullmatch(name)}
    return {n: right for n, right in said.items() if right is not None and not _NORMED_OTHERWISE.search(n)}


def score_contradicts(right: bool | None, key: int | None, rankings: Iterable[tuple[float, ...]]) -> bool:
    """Return whether a score contradicts the key under every one of at least one ranking. Ties contradict nothing."""
    bests = [tied_best(ranked) for ranked in rankings if ranked]
    if right is None or key is None or not bests:
        return False
    return all(len(best) == 1 and (best[0] == key) != right for best in bests)


def pick_contradicts(right: bool | None, item: LoggedItem, pick: int | None, *, plain: bool) -> bool:
    """Return whether a score contradicts a pick and the key. A harness compares texts, so it may not have seen that a
    reply, such as "(C).", is right unless the reply is `plain`."""
    if right is None or pick is None or item.key is None:
        return False
    return (pick == item.key) != right and (right or plain)
