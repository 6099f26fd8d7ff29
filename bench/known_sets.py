"""Measure how often copies of accepted sets are recognized, and other sets are not: writes results/bench/known_sets.json.

`python -m bench.known_sets FOLDER...` accepts each set in these folders in turn. `recall` edits its items of `WORDS` words
or more and asks whether a copy of 20 or 60 of them is recognized. `false_alarms` tests all other sets. The output has names
of files and numbers, and no item.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path

from bench.results import RESULTS, Tree, measure
from robustify.base.errors import RobustifyError
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load_many
from robustify.restricted.item_marks import SHARE, KnownItems, count_known, mark_items

KEY, WORDS, CHANGED, SIZES = b"k" * 32, 12, (0, 1, 2, 3, 4, 6), (20, 60)
FEWEST = max(SIZES)
Edit = Callable[[Item, random.Random], tuple[str, ...]]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))


def _others(_: Item, rng: random.Random) -> tuple[str, ...]:
    return tuple(f"{_word(rng)} {_word(rng)}" for _ in range(4))


def _fewer(item: Item, rng: random.Random) -> tuple[str, ...]:
    choices = list(item.choices)
    del choices[rng.choice([i for i in range(item.k) if i != item.key or item.k == 2])]
    return (*choices, _word(rng))[: max(2, len(choices))]


CHOICES: dict[str, Edit] = {
    "other choices": _others,
    "an option more": lambda item, _: (*item.choices, "none of these"),
    "a distractor less": _fewer,
}


def changed(item: Item, n: int, edit: Edit, rng: random.Random) -> Item:
    """Return the item with this many words of its stem replaced, and other choices."""
    words = item.stem.split(" ")
    for i in rng.sample([i for i, word in enumerate(words) if word.strip()], n):
        words[i] = _word(rng)
    return Item("x", " ".join(words), edit(item, rng), 0)


@cache
def sets(folders: tuple[Path, ...]) -> dict[str, tuple[Item, ...]]:
    """Return the items of each file that has some, by its folder and name."""
    found = {}
    for path in sorted(file for folder in folders for file in folder.iterdir()):
        try:
            items = tuple(load_many([Source(path=str(path), skip_bad=True)], UNGUARDED).items)
        except RobustifyError:
            continue
        if len(items) >= FEWEST:
            found[f"{path.parent.name}/{path.name}"] = items
    return found


def recall(folders: tuple[Path, ...]) -> Tree:
    """Return the share of items, and of copies by size, that are recognized, by kind and number of changed words."""
    rng, rows = random.Random(2026), []
    long = {name: [i for i in items if len(i.stem.split()) >= WORDS] for name, items in sets(folders).items()}
    for (kind, edit), n in product(CHOICES.items(), CHANGED):
        known, tested, copies = 0, 0, {size: list[bool]() for size in SIZES}
        for name, items in long.items():
            marks = {name: mark_items(sets(folders)[name], KEY)}
            copy = [changed(item, n, edit, rng) for item in rng.sample(items, min(len(items), 5 * FEWEST))]
            known, tested = known + count_known(copy, KEY, marks)[name].n, tested + len(copy)
            for size in SIZES:
                parts = [copy[at : at + size] for at in range(0, len(copy) - size + 1, size)]
                copies[size] += [count_known(part, KEY, marks)[name].is_copy(size) for part in parts]
        shares = {f"copies_of_{size}": _share(sum(found), len(found)) for size, found in copies.items()}
        rows.append({"choices": kind, "words_changed": n, "items": _share(known, tested), **shares})
    return {"stems_of_at_least": WORDS, "sets": len(long), "rows": rows}


def _share(known: int, n: int) -> Tree:
    return {"value": round(known / n, 4), "n": n}


def false_alarms(folders: tuple[Path, ...]) -> Tree:
    """Return every pair of sets of which one is taken for a copy of the other, with shared items, and the largest share of
    known items in any other pair."""
    every = sets(folders)
    marks = {name: mark_items(items, KEY) for name, items in every.items()}
    rows = list(_pairs(every, {name: count_known(items, KEY, marks) for name, items in every.items()}))
    alarms = [row for row in rows if row["copy"]]
    rest = [row["share"] for row in rows if not row["copy"] and row["known"] >= 5]
    return {
        "sets": len(every),
        "pairs": len(rows),
        "share_needed": SHARE,
        "copies": sorted(alarms, key=lambda row: -row["exact"]),
        "most_in_others": max(rest, default=0.0),
    }


def _pairs(every: dict[str, tuple[Item, ...]], known: dict[str, dict[str, KnownItems]]) -> Iterator[Tree]:
    for tested, accepted in product(every, every):
        if tested != accepted:
            count, n = known[tested][accepted], len(every[tested])
            yield {"accepted": accepted, "tested": tested, "exact": count.exact, "known": count.n,
                   "share": round(count.n / n, 4), "copy": count.is_copy(n)}  # fmt: skip


def main(args: Sequence[str]) -> int:
    """Measure both parts on the sets in these folders."""
    folders = tuple(map(Path, args))
    parts = {"recall": partial(recall, folders), "false_alarms": partial(false_alarms, folders)}
    return measure(RESULTS / "bench" / "known_sets.json", parts, [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
