"""Made-up answers of made-up voters whose skill, correlation and shortcuts are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Bools, Ints
from robustify.items import orders
from robustify.items.answers import Answer, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import Heuristic, surface
from robustify.judging.screen.votes import Votes

WORDS = (
    "amber", "birch", "cedar", "dune", "ember", "fern", "gravel", "heron", "iris", "juniper", "kelp", "lark",
)  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """`picks` (n, m) of the voters, `key`, `k` (n,), `shortcut` (n,): items whose key every voter sees."""

    picks: Ints
    key: Ints
    k: Ints
    shortcut: Bools

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(f"i{i:05d}" for i in range(len(self.key)))

    @property
    def voters(self) -> tuple[str, ...]:
        return tuple(f"v{m}" for m in range(self.picks.shape[1]))


def bench(
    n: int, m: int = 2, *, s: float = 0.0, agree: float = 0.5, options: Sequence[int] = (4,), seed: int = 0
) -> Bench:
    """Keys are uniform; a share `s` of the items shows its key to every voter. Elsewhere a voter picks the
    item's common favourite with probability `agree`, else any option: voters agree, and know nothing.
    """
    rng = np.random.default_rng(seed)
    k = rng.choice(np.asarray(options), size=n)
    key, favourite = rng.integers(0, k), rng.integers(0, k)
    shortcut = rng.random(n) < s
    alone = rng.integers(0, np.repeat(k[:, None], m, axis=1))
    picks = np.where(rng.random((n, m)) < agree, favourite[:, None], alone)
    return Bench(np.where(shortcut[:, None], key[:, None], picks), key, k, shortcut)


def votes_of(b: Bench) -> Votes:
    """The same as votes; pick -1 is unanswered, -2 a tie of all options."""
    options = np.arange(int(b.k.max()))
    best = b.picks[:, :, None] == options
    best |= (b.picks == -2)[:, :, None] & (options < b.k[:, None, None])
    return Votes(b.ids, b.key, b.k, best, b.picks, b.voters, "made-up-v1", 1)


def _each(b: Bench, voters: Sequence[str] | None) -> Iterator[tuple[str, str, int, int, int]]:
    """Every voter with every item: its id, number of choices, key and what the voter picks."""
    for m, name in enumerate(voters or b.voters):
        for i, item in enumerate(b.ids):
            yield name, item, int(b.k[i]), int(b.key[i]), int(b.picks[i, m])


def rows(
    b: Bench,
    *,
    view: str = "choices_only",
    template: str = "d4-like-v1",
    voters: Sequence[str] | None = None,
    rotations: bool = True,
    bias: float = 1.0,
) -> list[Answer]:
    """Letter rows, rotation by rotation; each voter likes the first letter by `bias` nats, which averages out."""
    return [
        _row(Asked(item, view, name, order, template, key), pick, bias)
        for name, item, k, key, pick in _each(b, voters)
        for base in [orders.base(item, k)]
        for order in (orders.rotations(base) if rotations else (base,))
    ]


def _row(asked: Asked, pick: int, bias: float = 0.0) -> Answer:
    if pick == -1:
        return unanswered(asked, "made up to be missing")
    scores = [-3.0 if pick == -2 or j != pick else -1.0 for j in range(len(asked.order))]
    scores[asked.order[0]] += bias
    chars = [3 + (j == pick) for j in range(len(scores))]
    return answer(asked, scores, n_chars=chars, n_bytes=chars, n_tokens=[1] * len(chars))


def text_rows(b: Bench, *, view: str = "choices_only_text", template: str = "answer-v1") -> list[Answer]:
    """One row an item, scored by the text of its choices; the voter's pick is best per character."""
    out = []
    for name, item, k, key, pick in _each(b, None):
        asked = Asked(item, view, name, orders.own(k), template, key)
        # Longer choices get lower sums, so that only the division by characters shows the pick.
        chars = [10 + 3 * j for j in range(k)]
        per_char = [-0.5 if j == pick else -2.0 for j in range(k)]
        scores = [each * c for each, c in zip(per_char, chars, strict=True)]
        out.append(
            unanswered(asked, "made up to be missing") if pick == -1 else
            answer(asked, scores, ranked_by=per_char, n_chars=chars, n_bytes=chars, n_tokens=[2] * k)
        )  # fmt: skip
    return out


def items_of(b: Bench, *, topics: int = 4, cue: bool = False, seed: int = 0) -> list[Item]:
    """Harmless items with these keys; with `cue` the key of every shortcut item is its longest choice."""
    rng = np.random.default_rng(seed)
    out = []
    for i, name in enumerate(b.ids):
        words = [" ".join(rng.choice(WORDS, size=3)) + f" {rng.integers(1000)}" for _ in range(int(b.k[i]))]
        if cue and b.shortcut[i]:
            words[b.key[i]] += " " + " ".join(rng.choice(WORDS, size=6))
        stem = f"Which of these names is number {i}?"
        out.append(Item(name, stem, tuple(words), int(b.key[i]), f"topic {i % topics}"))
    return out


def own_rows(b: Bench, *, voters: Sequence[str] | None = None) -> list[Answer]:
    """Letter rows, one an item, in the benchmark's own order."""
    return [
        _row(Asked(item, "choices_only", name, orders.own(k), "d4-like-v1", key), pick)
        for name, item, k, key, pick in _each(b, voters)
    ]


def turned_rows(turns: Sequence[Sequence[int]]) -> list[Answer]:
    """One voter's letter rows: `turns[i][r]` is its pick of item i under rotation r (-1 none, -2 a tie). Keys are 0."""
    return [
        _row(Asked(item, "choices_only", "v0", order, "d4-like-v1", 0), pick)
        for item, picks in ((f"i{i:05d}", picks) for i, picks in enumerate(turns))
        for order, pick in zip(orders.rotations(orders.base(item, 4)), picks, strict=True)
    ]


def placed_bench(
    n: int,
    m: int = 2,
    *,
    keys: Sequence[float],
    liking: Sequence[float],
    s: float = 0.0,
    agree: float = 0.5,
    options: Sequence[int] = (4,),
    seed: int = 0,
) -> Bench:
    """As `bench`, but keys stand at place j with a chance in proportion to `keys[j]`, and where voters see no
    shortcut they pick places in proportion to `liking[j]`: they know nothing, and are right by place.
    """
    rng = np.random.default_rng(seed)
    k = rng.choice(np.asarray(options), size=n)

    def drawn(weights: Sequence[float], times: int) -> Ints:
        w = np.where(np.arange(len(weights)) < k[:, None], np.asarray(weights), 0.0)
        below = np.cumsum(w / w.sum(axis=1, keepdims=True), axis=1)
        places: Ints = (rng.random((times, n, 1)) > below).sum(axis=2)
        return np.asarray(np.minimum(places, k - 1))

    key, favourite, alone = drawn(keys, 1)[0], drawn(liking, 1)[0], drawn(liking, m).T
    shortcut = rng.random(n) < s
    picks = np.where(rng.random((n, m)) < agree, favourite[:, None], alone)
    return Bench(np.where(shortcut[:, None], key[:, None], picks), key, k, shortcut)


def heuristic_numbers(heuristic: Heuristic, items: Sequence[Item]) -> list[tuple[float, ...]]:
    """The number that a heuristic gives each choice of each item."""
    ends = np.cumsum([item.k for item in items]).tolist()
    flat = heuristic.numbers(surface(items)).tolist()
    return [tuple(flat[end - item.k : end]) for item, end in zip(items, ends, strict=True)]
