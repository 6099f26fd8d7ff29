"""AFLite's iteration, adapted so that its luck can be counted: predict, set aside what was predictable, repeat.

Pure: which options a linear model predicts is asked of a function that the caller gives. After Algorithm 1 of Le
Bras et al. 2020 (arXiv 2002.04108). Theirs are the random partitions, the share of held-out predictions, the
threshold, the slice that leaves in a round and the early stop. Ours are these:

- Near-duplicates never stand on both sides, and both sides of a partition predict each other, so that every item
  is predicted in every partition; shares are smoothed; a floor takes the place of their target size.
- An item is named once, in the first round in which any one option reaches the threshold, and that option stays
  its pick. Theirs looks only at the share of the right option, and looks again in every round. Then a wrong pick
  is never final, the looks add up to right picks by luck alone, and nothing in the outcome tells how many. Here
  neither the ranking nor the pick knows the item's own key, so keys can be exchanged as for any voter.
- An item whose pick is wrong stays in the training, as theirs does, and is not named again.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.arrays import Bools, Floats, Ints

Predict = Callable[[Bools, Ints], Floats]
"""Which items are in play (n,) and on which side each stands (n,) -> what a model of the other side predicts for
it: (n, K), a 1 shared among the options that tie, all 0 where there is no prediction."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`partitions` a round; `threshold` of an option's share; `slice`: the share of all items that may leave in a
    round; `floor`: the share that must stay."""

    partitions: int
    threshold: float
    slice: float
    floor: float
    seed: int


@dataclass(frozen=True, slots=True)
class Round:
    """How many items were in play, how many of them were named, and how many of those left."""

    playing: int
    named: int
    left: int


@dataclass(frozen=True, slots=True)
class Course:
    """What became of n items.

    `shares` (n, K): each option's smoothed share of the predictions, of the round in which the item was named or
    else of the last one, NaN where nothing was predicted; `named`, `left` (n,); why the rounds `stopped`.
    """

    shares: Floats
    named: Bools
    left: Bools
    rounds: tuple[Round, ...]
    stopped: str


def iterate(
    ids: Sequence[str], kin: Sequence[str], k: Ints, key: Ints, terms: Terms, predict: Predict, fewest: int
) -> Course:
    """Play until fewer than the slice leave in a round, the floor is reached, or fewer than `fewest` are in play.

    `ids` and `kin`, the name of an item's group of near-duplicates, (n,) each; `k`, `key` (n,).
    """
    n = len(ids)
    shares = np.full((n, int(k.max(initial=1))), np.nan)
    named, playing = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    may_leave, most = n - math.ceil(terms.floor * n), max(1, int(terms.slice * n))
    luck_of_draw = [_digest(terms.seed, "rank", name) for name in ids]
    rounds: list[Round] = []
    stopped = f"fewer than {fewest} items were left in play"
    while (n_playing := int(playing.sum())) >= fewest:
        fresh = _shares(kin, k, playing, terms, len(rounds), predict)
        shares = np.where((playing & ~named)[:, None] & ~np.isnan(fresh), fresh, shares)
        limit = min(most, may_leave)
        now = _named(fresh, key, playing & ~named, luck_of_draw, terms.threshold, limit)
        pick = np.nan_to_num(shares[now], nan=-1.0).argmax(axis=1)
        leaving = np.array(now, dtype=np.int64)[pick == key[now]]
        named[now], playing[leaving] = True, False
        may_leave -= len(leaving)
        rounds.append(Round(n_playing, len(now), len(leaving)))
        if may_leave == 0:
            stopped = "the floor was reached"
            break
        if len(leaving) < most:
            stopped = "fewer than the slice were predictable"
            break
    return Course(shares, named, ~playing, tuple(rounds), stopped)


def _named(
    shares: Floats, key: Ints, candidates: Bools, draw: Sequence[bytes], threshold: float, limit: int
) -> list[int]:
    """Candidates at the threshold, the most predictable first, until `limit` of them have been right.

    Whether an item is among them depends on the keys of those before it and never on its own.
    """
    top = np.where(candidates, np.nan_to_num(shares, nan=-1.0).max(axis=1), -1.0)
    ranked = sorted(np.flatnonzero(top >= threshold).tolist(), key=lambda i: (-top[i], draw[i]))
    pick = np.nan_to_num(shares, nan=-1.0).argmax(axis=1)
    named: list[int] = []
    right = 0
    for i in ranked:
        if right == limit:
            break
        named.append(i)
        right += int(pick[i] == key[i])
    return named


def _shares(
    kin: Sequence[str], k: Ints, playing: Bools, terms: Terms, number: int, predict: Predict
) -> Floats:
    """The smoothed share of each option of the items in play, (n, K); NaN without a prediction.

    One prediction more, spread evenly, keeps every share above 0 and below 1.
    """
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    said = np.zeros(there.shape)
    for j in range(terms.partitions):
        said += predict(playing, _sides(kin, playing, f"{number}/{j}", terms.seed))
    heard = np.round(said.sum(axis=1))[:, None]
    return np.where(there & (heard > 0), (said + 1 / k[:, None]) / (heard + 1), np.nan)


def _sides(kin: Sequence[str], playing: Bools, purpose: str, seed: int) -> Ints:
    """0 or 1 for each item in play, (n,): the groups, in the order of their hashes, up to half of the items."""
    size: dict[str, int] = {}
    for i in np.flatnonzero(playing).tolist():
        size[kin[i]] = size.get(kin[i], 0) + 1
    half, so_far = int(playing.sum()) / 2, 0
    side: dict[str, int] = {}
    for name in sorted(size, key=lambda g: _digest(seed, purpose, g)):
        side[name] = int(so_far >= half)
        so_far += size[name]
    return np.array([side.get(name, 0) for name in kin], dtype=np.int64)


def _digest(seed: int, purpose: str, name: str) -> bytes:
    return hashlib.sha256(f"aflite/{seed}/{purpose}/{name}".encode("utf-8", "surrogatepass")).digest()
