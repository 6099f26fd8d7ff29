"""Scores that a log states for its replies, and whether they agree with the picks and the keys."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from robustify.base.arrays import tied_best
from robustify.base.errors import Notice
from robustify.reading.logs.log import LoggedItem

_RIGHT = frozenset({"1", "1.0", "true", "c", "correct", "right", "yes", "pass"})
_WRONG = frozenset({"0", "0.0", "false", "i", "incorrect", "wrong", "no", "fail"})
_OF_RIGHTNESS = re.compile(
    r"(?:.*_)?(?:acc(?:uracy)?|em|match|correct|right|score|f1|pass)(?:[_@,:].*)?", re.I
)
_NORMED_OTHERWISE = re.compile(r"token|pmi|greedy|prob", re.I)


def scored_right(value: object) -> bool | None:
    """Return whether a score says that an answer is right or wrong, or None if it says neither."""
    match value:
        case [member]:
            return scored_right(member)
        case Mapping():
            return scored_right([*value.values()]) if len(value) == 1 else None
        case str() | bool() | int() | float():
            word = str(value).strip().casefold()
            return True if word in _RIGHT else False if word in _WRONG else None
        case _:
            return None


def scores_of_row(cells: Mapping[str, object]) -> dict[str, bool]:
    """Map the name of each score in a row to whether it says that the answer is right."""
    rightness = {name: scored_right(value) for name, value in cells.items() if _is_rightness(name)}
    return {name: right for name, right in rightness.items() if right is not None}


@lru_cache(4096)
def _is_rightness(name: str) -> bool:
    return bool(_OF_RIGHTNESS.fullmatch(name)) and not _NORMED_OTHERWISE.search(name)


def score_contradicts(right: bool | None, key: int | None, rankings: Iterable[tuple[float, ...]]) -> bool:
    """Return whether a score contradicts the key under every ranking. Ties, or a lack of rankings, contradict nothing."""
    bests = [tied_best(ranked) for ranked in rankings if ranked]
    if right is None or key is None or not bests:
        return False
    return all(len(best) == 1 and (best[0] == key) != right for best in bests)


def pick_contradicts(right: bool | None, item: LoggedItem, pick: int | None, *, plain: bool) -> bool:
    """Return whether a score contradicts a pick and the key. A harness compares texts. It may therefore miss that a
    reply such as "(C)." is right, unless the reply is `plain`."""
    if right is None or pick is None or item.key is None:
        return False
    return (pick == item.key) != right and (right or plain)


def is_stricter(right: bool | None, item: LoggedItem, pick: int | None) -> bool:
    """Return whether a score says wrong although the reply names the key in other words."""
    return right is False and pick is not None and pick == item.key


def stricter_notes(n: int) -> list[Notice]:
    """Return a note on `n` right replies that the log scored as wrong, if there are any."""
    note = f"replies that the log scored as wrong, but that name the key in other words and count as right here: {n}"
    return [Notice(note, code="stricter-scores")] * bool(n)
