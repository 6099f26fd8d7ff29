"""The item explorer of a public run: every item with its evidence on one page, to be searched and filtered offline.

The page is one file that asks for nothing: its style, its script and the items as one JSON island. Its security policy
names the style and the script by their digests and forbids every other; and as it lets no text become markup (Trusted
Types), the browser itself sees to it that items are shown as text. A restricted run has no explorer: its writer never
comes here.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from robustify.files import write_text
from robustify.item import Item
from robustify.report.cue_sentences import LABELS
from robustify.report.explaining import NO_CLOZE, TEMPLATES, Row, carried, pick_sentence, row_mends
from robustify.report.format import plain, spaced
from robustify.report.printing import environment
from robustify.screen.consensus import Verdicts

_STYLES = ("palette.css", "explorer/explorer.css")
_SCRIPTS = ("explorer/items.js", "explorer/page.js")
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")

MOST_ITEMS = 20_000
"""Items beyond these are left out, robust ones first; the page says so."""
FIELDS = (
    "id", "verdict", "topic", "reason", "cloze", "question", "votes", "pick", "said", "weight", "chance", "posterior",
    "shortcut", "cues", "features", "group", "mends",
)  # fmt: skip
"""Of a row, in their order. Shares are in tenths of a percent, what is added to a logit in hundredths."""


def write_explorer(
    path: Path,
    evidence: Path,
    name: str,
    items: Sequence[Item],
    verdicts: Verdicts,
    cloze_excluded: Mapping[str, str],
) -> None:
    """Write the page of a run whose `evidence.jsonl` is there; `items` and `verdicts` are all of them, in its order."""
    places = chosen(verdicts)
    wanted = set(places)
    with evidence.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
        rows = [json.loads(line) for at, line in enumerate(lines) if at in wanted]
    write_text(path, page(island_of(name, rows, items, verdicts, places, cloze_excluded)))


def page(tree: Mapping[str, Any]) -> str:
    """The text of the page of an island; the same island gives the same bytes."""
    style, script = _read(_STYLES), _read(_SCRIPTS)
    template = environment("robustify.report", "explorer", autoescape=True).get_template("explorer.html.j2")
    return template.render(
        name=plain(tree["name"]),
        style=Markup(style),
        script=Markup(script),
        island=Markup(embedded(tree)),
        digests={"style": _digest(style), "script": _digest(script)},
    )


def embedded(tree: object) -> str:
    """JSON that may stand in a `script` element: nothing in it can end the element or open another."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def read_island(text: str) -> dict[str, Any]:
    """The island of a page's text."""
    found = re.search('<script type="application/json" id="island">(.*?)</script>', text, re.S)
    assert found is not None, "no page of the explorer"
    return dict(json.loads(found[1]))


@cache
def _read(names: tuple[str, ...]) -> str:
    return "".join((files("robustify.report") / name).read_text("utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


# The items as one small tree of lists: texts that recur stand in it once, numbers are whole.


def chosen(verdicts: Verdicts) -> tuple[int, ...]:
    """The places of the items that are shown, in their order: all, or `MOST_ITEMS` with the flagged ones first."""
    first = ("shortcut", "undecided", "robust")
    rank = np.array([first.index(kind[0]) for kind in verdicts.kinds], dtype=np.int64)
    order = np.argsort(rank[verdicts.which], kind="stable")[:MOST_ITEMS]
    return tuple(np.sort(order).tolist())


def island_of(
    name: str,
    rows: Sequence[Row],
    items: Sequence[Item],
    verdicts: Verdicts,
    places: Sequence[int],
    cloze_excluded: Mapping[str, str],
) -> dict[str, Any]:
    """The tree of the items at `places`, whose rows of `evidence.jsonl` are `rows`.

    `pools`: by field the texts that its numbers stand for; `counts`: all items of the run by verdict.
    """
    packing = _Packing(tuple(rows[0]["votes"]) if rows else (), cloze_excluded)
    packed = [packing.row(row, items[at], verdicts[at].reason) for row, at in zip(rows, places, strict=True)]
    n = np.bincount(verdicts.which, minlength=len(verdicts.kinds)).tolist()
    counts = dict.fromkeys(("shortcut", "undecided", "robust"), 0)
    for (word, *_), here in zip(verdicts.kinds, n, strict=False):
        counts[word] += here
    return {
        "name": plain(name),
        "counts": counts,
        "voters": [plain(voter) for voter in packing.voters],
        "templates": TEMPLATES,
        "labels": {
            "cue": {cue: LABELS[cue] for cue in LABELS if cue in packing.pools["cue"].texts or cue == "none"},
            "cloze": {why: NO_CLOZE.get(why, spaced(why)) for why in packing.pools["cloze"].texts},
        },
        "pools": {of: list(pool.texts) for of, pool in packing.pools.items()},
        "fields": FIELDS,
        "rows": packed,
    }


@dataclass
class _Pool:
    """Texts that recur, each of them once; a text is named by its place."""

    texts: dict[str, int] = field(default_factory=dict)

    def at(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))


class _Packing:
    """Turns rows into lists, and gathers the texts that recur."""

    def __init__(self, voters: tuple[str, ...], cloze_excluded: Mapping[str, str]) -> None:
        self.voters, self._cloze_excluded = voters, cloze_excluded
        self.pools = {
            name: _Pool()
            for name in ("verdict", "topic", "reason", "cloze", "cue", "feature", "text", "said", "group")
        }

    def row(self, row: Row, item: Item, reason: str) -> list[Any]:
        """One item in the order of `FIELDS`; -1 stands for nothing in the place of a text's number."""
        at, why = self._at, self._cloze_excluded.get(item.id)
        tenths = {name: _tenths(row.get(name)) for name in ("weight", "chance", "posterior", "p_shortcut")}
        return [
            shown(row["item"]),
            at("verdict", row["verdict"]),
            at("topic", shown(item.topic) if item.topic else None),
            at("reason", reason),
            at("cloze", why),
            # By name, so that the gate knows items when it sees them.
            {"stem": shown(item.stem), "choices": list(map(shown, item.choices)), "key": row["key"]},
            [row["votes"][voter] for voter in self.voters],
            row["pick"],
            at("said", pick_sentence(row)),
            *tenths.values(),
            [
                [at("cue", cue), _hundredths(adds or 0.0), at("text", shown(says) if says else None)]
                for cue, adds, says in carried(row)
            ],
            [
                [at("feature", spaced(name)), _hundredths(adds)]
                for name, adds in sorted(row.get("features", {}).items(), key=lambda one: -one[1])
            ],
            at("group", row.get("alike")),
            [at("text", mend) for mend in row_mends(row, reason, item.choices, cloze=why is None)],
        ]

    def _at(self, pool: str, text: str | None) -> int:
        return -1 if text is None else self.pools[pool].at(text)


def shown(text: str) -> str:
    """A text as it is shown: characters that hide or turn others are written out, line ends and tabs stay."""
    return text if text.isprintable() else "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    for c in text:
        # `plain` writes the one character out, and would call a space a blank name.
        yield c if c in "\n\t " else plain(c) if not c.isspace() else " "


def _tenths(share: float | None) -> int | None:
    # As `percent` rounds, so that a terminal and the page say the same.
    return None if share is None else round(float(f"{100 * share:.1f}") * 10)


def _hundredths(adds: float) -> int:
    return round(float(f"{adds:.2f}") * 100)
