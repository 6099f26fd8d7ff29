"""Orders in which the choices of an item are shown.

Every order depends only on the item's ID, so that dropping an item changes no letter of later items.
"""

import functools
import hashlib
import math
from collections.abc import Iterator

Order = tuple[int, ...]
"""Permutation of choices: `order[j]` is the benchmark's index of the choice shown at position j."""


@functools.cache
def own(k: int) -> Order:
    """Return the benchmark's order of k choices, which is the identity."""
    return tuple(range(k))


def base(item_id: str, k: int, seed: int = 0) -> Order:
    """Return the base order of an item: a Fisher-Yates shuffle of k choices seeded by the SHA-256 of its ID."""
    return next(_shuffles(item_id, k, f"base/{seed}"))


def rotations(order: Order) -> tuple[Order, ...]:
    """Return all cyclic rotations of an order. Each choice appears once at each position."""
    return tuple(order[r:] + order[:r] for r in range(len(order)))


def spread(item_id: str, k: int, n: int, seed: int = 0) -> tuple[Order, ...]:
    """Return the benchmark's order, followed by distinct random orders that depend on the ID. Return min(n, k!) orders."""
    orders = [own(k)]
    for order in _shuffles(item_id, k, f"spread/{seed}"):
        if len(orders) >= min(n, math.factorial(min(k, 12))):
            break
        if order not in orders:
            orders.append(order)
    return tuple(orders)


def spread_and_turned(item_id: str, k: int, n: int, seed: int = 0) -> tuple[Order, ...]:
    """Return the orders from `spread`, followed by the missing rotations of the benchmark's order."""
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
    # With 64-bit draws, the modulo bias for at most 26 choices is below 1e-17.
    block = 0
    while True:
        digest = hashlib.sha256(f"{name}/{block}".encode("utf-8", "surrogatepass")).digest()
        yield from (int.from_bytes(digest[i : i + 8], "big") for i in range(0, 32, 8))
        block += 1
