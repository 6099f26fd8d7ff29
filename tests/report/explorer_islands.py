"""Islands of made-up items for the explorer, without a run: many of them, and some that try to get out."""

import json
import random
import re
from typing import Any

import numpy as np

from robustify.items.item import Item
from robustify.judging.screen.consensus import Verdicts
from robustify.report.explaining import Row
from robustify.report.explorer import chosen, island_of

WORDS = ("lamp", "river", "stone", "paper", "garden", "window", "bottle", "copper", "letter")
TRIES = (
    "</script><script>document.title = 'out'</script>", "<img src=x onerror=\"document.title='out'\">", "<!--<script>",
    "&lt;b&gt; stays as it is &amp;", "line\nfeed and \u2028 and \u202eturned", "\ud800 alone", "]]>", "{{ 1 }} {stem}",
)  # fmt: skip
"""Texts that would be markup, would end the island, or cannot be encoded."""
FEATURES = ("characters", "words", "longest_word", "capitals", "commas", "hedges")


def read_island(text: str) -> dict[str, Any]:
    """Return the island of a page."""
    found = re.search('<script type="application/json" id="island">(.*?)</script>', text, re.S)
    assert found is not None, "no page of the explorer"
    return dict(json.loads(found[1]))


def islanded(items: list[Item], rows: list[Row]) -> dict[str, Any]:
    """The island of these items, every third of which is flagged."""
    kinds = (
        ("kept", 1, 2, "no hit above the cut, 1 of 2 voters right"),
        ("flagged", 2, 2, "hit above the cut, 2 of 2 voters right"),
    )
    which = np.array([at % 3 == 0 for at in range(len(items))], dtype=np.int64)
    verdicts = Verdicts(tuple(item.id for item in items), kinds, which)
    places = sorted(chosen(verdicts))
    return island_of("made-up", [rows[at] for at in places], items, verdicts, places, {})


def large_island(n: int) -> dict[str, Any]:
    """`n` items as long as the demo's, each with texts and sentences of its own."""
    draw = random.Random(0)
    items = [
        Item(f"made-up-{at:05}", _words(draw, 12) + "?", tuple(_words(draw, 6) for _ in range(4)), at % 4, WORDS[at % 9])
        for at in range(n)
    ]  # fmt: skip
    return islanded(items, [_row(item, at, draw) for at, item in enumerate(items)])


def hostile_island() -> dict[str, Any]:
    """An item for each of `TRIES`, which stands in every place where a text may stand."""
    items = [Item(f"{at} {text}", text, (text, "other"), 0, text) for at, text in enumerate(TRIES)]
    rows = bare_rows(items)
    for item, row in zip(items, rows, strict=True):
        row["cues"][0]["says"] = item.stem
        row["votes"] = {item.stem[:5]: 0} if item is items[0] else {items[0].stem[:5]: 0}
    return islanded(items, rows)


def bare_rows(items: list[Item]) -> list[Row]:
    """Rows of evidence for these items."""
    return [_row(item, at, random.Random(at)) for at, item in enumerate(items)]


def _row(item: Item, at: int, draw: random.Random) -> Row:
    share = min(1.0, 1.1 * draw.random())
    hit = at % 3 == 0
    return {
        "item": item.id, "verdict": "flagged" if hit else "kept", "key": item.key,
        "votes": {"first-voter": item.key, "second-voter": item.key if hit else None},
        "pick": item.key if hit else (item.key + 1) % item.k, "p_pick": draw.random(), "chance": 0.25, "posterior": share,
        "p_shortcut": share if hit else None, "voters": ["first-voter"],
        "cues": [
            {"cue": "length", "adds": 2 * share, "says": f"the key is the longest, {at} characters, {_words(draw, 4)}"},
            {"cue": "form", "adds": share, "says": f"only the key ends with a mark, {at}"},
        ],
        "adds": {"length": 2 * share, "form": share, "words": -share - 0.1},
        "features": {name: draw.uniform(-2, 2) for name in FEATURES},
        **({"alike": f"made-up-{at - at % 50:05}"} if at % 50 < 2 else {}),
    }  # fmt: skip


def _words(draw: random.Random, n: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(n))
