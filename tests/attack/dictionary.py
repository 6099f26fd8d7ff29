"""The dictionary attack (H1): who has all texts and all published files, and no key, tries every way ids are made."""

import base64
import bisect
import hashlib
import hmac
import random
from collections.abc import Callable, Iterator, Sequence

from robustify.restricted.ids import item_id

Row = tuple[str, list[str]]


def rows(n: int, seed: int = 1) -> list[Row]:
    """Made-up items."""
    rng = random.Random(seed)

    def word() -> str:
        return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3))

    return [(f"which {word()} turns the {word()} of {i}?", [word() for _ in range(4)]) for i in range(n)]


def salted(row: Row, salt: str) -> str:
    """The control build: an id from a plain SHA-256 with a published salt."""
    return _written(hashlib.sha256(f"{salt}|{row[0]}|{'|'.join(row[1])}".encode()).digest())


def guesses(known: Sequence[str]) -> Iterator[Callable[[Row], str]]:
    """Ways to make ids out of a text and words that are published (a key's id, the set's name, ...)."""
    texts: list[Callable[[Row], str]] = [
        lambda row: row[0],
        lambda row: row[0] + "".join(row[1]),
        lambda row: f"{row[0]}|{'|'.join(row[1])}",
        lambda row: f"{row[0]}|{'|'.join(sorted(row[1]))}",
    ]
    for word in known:
        yield lambda row, w=word: item_id(w.encode(), "mock-restricted", "1", *row)
        for text in texts:
            yield lambda row, w=word, t=text: _written(hashlib.sha256(f"{w}|{t(row)}".encode()).digest())
            yield lambda row, w=word, t=text: _written(hashlib.sha256((w + t(row)).encode()).digest())
            yield lambda row, w=word, t=text: _written(
                hmac.digest(w.encode() or b"0", t(row).encode(), "sha256")
            )


def made(data: Sequence[Row], known: Sequence[str]) -> list[list[str]]:
    """Every guessed id of every item: one list a guess."""
    return [[guess(row) for row in data] for guess in guesses(known)]


def matched(made_ids: Sequence[Sequence[str]], ids: Sequence[str]) -> list[float]:
    """How far an id of each item was found in the published list: the longest prefix that any guess shares with it.

    27 characters and more are the whole id.
    """
    held = sorted(ids)
    return [float(max(_shared(guess[i], held) for guess in made_ids)) for i in range(len(made_ids[0]))]


def by_place(n: int, ids: Sequence[str]) -> list[float]:
    """A guess from the order of the list, if it were that of the data: the items at evenly spread places."""
    taken = {round(j * (n - 1) / max(1, len(ids) - 1)) for j in range(len(ids))}
    return [float(i in taken) for i in range(n)]


def auc(score: Sequence[float], member: Sequence[bool]) -> float:
    """How often a member scores higher than one that is none; ties count half (Mann-Whitney)."""
    order = sorted(score)
    ranks = [(bisect.bisect_left(order, s) + bisect.bisect_right(order, s) + 1) / 2 for s in score]
    m = sum(member)
    won = sum(r for r, is_in in zip(ranks, member, strict=True) if is_in) - m * (m + 1) / 2
    return won / (m * (len(score) - m))


def _shared(guess: str, held: Sequence[str]) -> int:
    at = bisect.bisect_left(held, guess)
    return max((_prefix(guess, other) for other in held[max(0, at - 1) : at + 1]), default=0)


def _prefix(one: str, other: str) -> int:
    n, most = 0, min(len(one), len(other))
    while n < most and one[n] == other[n]:
        n += 1
    return n


def _written(digest: bytes) -> str:
    return "rb1_" + base64.b32encode(digest[:16]).decode().rstrip("=").lower()
