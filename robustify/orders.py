"""In which orders the choices of an item are shown.

Every order is a function of the item's id alone. One generator that runs down the list would re-letter
every later item as soon as one item is dropped, and cached answers would be scored against the wrong key.
"""

import functools
import hashlib
import math
from collections.abc import Iterator

Order = tuple[int, ...]
"""`order[j]` is the choice, in the item's own numbering, that stands at place j."""


@functools.cache
def own(k: int) -> Order:
    """The benchmark's own order of k choices."""
    return tuple(range(k))


def base(item_id: str, k: int, seed: int = 0) -> Order:
    """The item's fixed order: a Fisher-Yates shuffle of k choices driven by SHA-256 of the id."""
    return next(_shuffles(item_id, k, f"base/{seed}"))


def rotations(order: Order) -> tuple[Order, ...]:
    """All cyclic rotations of an order: each choice stands once at each place."""
    return tuple(order[r:] + order[:r] for r in range(len(order)))


def spread(item_id: str, k: int, n: int, seed: int = 0) -> tuple[Order, ...]:
    """The own order and n-1 other distinct ones fixed by the id (fewer where k! < n)."""
    orders = [own(k)]
    for order in _shuffles(item_id, k, f"spread/{seed}"):
        if len(orders) >= min(n, math.factorial(min(k, 12))):
            break
        if order not in orders:
            orders.append(order)
    return tuple(orders)


def spread_and_turned(item_id: str, k: int, n: int, seed: int = 0) -> tuple[Order, ...]:
    """The orders of `spread`, then the rotations of the own order that are not yet among them.

    The first min(n, k!) are the random ones; all k rotations are somewhere in the whole.
    """
    return tuple(dict.fromkeys((*spread(item_id, k, n, seed), *rotations(own(k)))))


def _shuffles(item_id: str, k: int, purpose: str) -> Iterator[Order]:
    draws = _draws(f"{purpose}/{item_id}")
    while True:
        order = list(range(k))
        for i in range(k - 1, 0, -1):
            j = next(draws) % (i + 1)
            order[i], order[j] = order[j], order[i]
        yield tuple(order)


def _draws(name: str) -> Iterator[int]:
    # 64-bit draws make the modulo bias of at most 26 choices smaller than 1e-17.
    block = 0
    while True:
        digest = hashlib.sha256(f"{name}/{block}".encode("utf-8", "surrogatepass")).digest()
        yield from (int.from_bytes(digest[i : i + 8], "big") for i in range(0, 32, 8))
        block += 1
