"""What pools lack: the share of items that a simple rule wins whatever is chosen, and requests for other candidates.

A rule picks the option that has the most of something. If no candidate of an item has as much as the key, the rule finds
the key. If this bounds the rule's accuracy above chance, no choice balances the set, and the items that the rule must win
need candidates of another form.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.composing.pool import Pool
from robustify.judging.lint.cues import FORM
from robustify.judging.stats.intervals import clopper_pearson
from robustify.judging.stats.tests import LEVEL

ASKED = 2
"""Candidates asked for an item that a rule must win. One breaks the rule, and two leave a choice."""
_LENGTHS = ("fewest characters", "most characters", "fewest words", "most words")
_TRAITS = ("initial capital", "full stop at the end", "number", "comma", "bracket", "hyphen")
"""Names of the first of `FORM`."""
RULES = (*_LENGTHS, *(f"{which} {trait}" for trait in _TRAITS for which in ("with", "without")))


@dataclass(frozen=True, slots=True)
class Bound:
    """Least accuracy of a rule over n items, whatever is chosen. In `lacking` of them, no candidate has as much as the key.

    `above` says whether the bound is significantly above chance (one-sided, 5 %).
    """

    rule: str
    least: float
    chance: float
    lacking: int
    n: int
    above: bool


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """Request for at least `n` candidates of the pool `at`, because `rules` must find its key, or it has too few.

    `limits` (rule, amount) are the least amounts that a candidate must have of what the rules look for.
    """

    at: int
    n: int
    limits: tuple[tuple[str, int], ...] = ()

    @property
    def form(self) -> tuple[str, ...]:
        """Properties that each candidate must have, in words, such as `at most 9 characters`."""
        return tuple(_said(rule, least) for rule, least in self.limits)


def bounds(pools: Sequence[Pool], most: int) -> tuple[Bound, ...]:
    """Return the bound of each rule for pools of which at most `most` options are shown, the worst first."""
    credit, chance, _ = _least_credits(pools, most)
    n, even, found = len(pools), float(chance.mean()) if len(pools) else 0.0, []
    for rule, won in zip(RULES, credit.T, strict=True):
        above = clopper_pearson(int(won.sum()), n, 1 - 2 * LEVEL)[0] > even
        found.append(Bound(rule, float(won.sum()) / max(n, 1), even, int((won == 1).sum()), n, above))
    return tuple(sorted(found, key=lambda one: one.chance - one.least))


def requests(pools: Sequence[Pool], shown: tuple[int, int]) -> tuple[CandidateRequest, ...]:
    """Return a request for each pool that a rule above chance must win, or that has too few candidates.

    `shown` are the fewest and the most options of an item.
    """
    credit, _, keys = _least_credits(pools, shown[1])
    above = sorted(RULES.index(one.rule) for one in bounds(pools, shown[1]) if one.above)
    found = []
    for at, pool in enumerate(pools):
        limits = tuple((RULES[j], _needed(j, int(keys[at, j]))) for j in above if credit[at, j] == 1)
        n = max(ASKED * bool(limits), shown[0] - 1 - len(pool.candidates))
        if n > 0:
            found.append(CandidateRequest(at, n, limits))
    return tuple(found)


def _least_credits(pools: Sequence[Pool], most: int) -> tuple[Floats, Floats, Ints]:
    """Return the least credit of each rule for each key (n, rules), its chance (n,), and the key's amounts (n, rules)."""
    credit, keys = np.zeros((len(pools), len(RULES))), np.zeros((len(pools), len(RULES)), dtype=np.int64)
    for at, pool in enumerate(pools):
        amounts = np.array([_amounts(text) for text in pool.texts])
        keys[at] = amounts[0]
        ties = np.minimum((amounts[1:] == keys[at]).sum(axis=0), most - 1)
        credit[at] = np.where((amounts[1:] > keys[at]).any(axis=0), 0.0, 1 / (1 + ties))
    return credit, np.array([1 / min(most, len(pool.texts)) for pool in pools]), keys


def _amounts(text: str) -> tuple[int, ...]:
    """Return how much an option has of what each rule looks for."""
    chars, words = len(text), len(text.split())
    traits = (int(one) for cue in FORM[: len(_TRAITS)] for one in cue.marks([text], ""))
    return (-chars, chars, -words, words, *(has for one in traits for has in (one, 1 - one)))


def _needed(rule: int, key: int) -> int:
    """Return the least amount that a candidate needs beside a key of this amount: more of a length, if that is possible."""
    return key + 1 if rule < len(_LENGTHS) and key != -1 else key


def _said(rule: str, least: int) -> str:
    which, _, what = rule.partition(" ")
    if which in ("fewest", "most"):
        unit = what if abs(least) != 1 else what.removesuffix("s")
        return f"at {'most' if which == 'fewest' else 'least'} {abs(least)} {unit}"
    return f"{which} {'an' if what[0] == 'i' else 'a'} {what}"
