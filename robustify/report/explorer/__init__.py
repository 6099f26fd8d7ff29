"""Explorer of a public run: an offline page to search and filter all items with their evidence.

Its content security policy allows only its own style and script, by their digests. Trusted Types forbid that text becomes
markup, so the browser itself shows items as text.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from robustify.base.files import write_text
from robustify.items.item import Item
from robustify.judging.lint.cues import Cue
from robustify.judging.lint.findings import marks_of
from robustify.judging.lint.rules import CUES
from robustify.judging.screen.consensus import Verdicts
from robustify.report.explaining import Row, evidence_lines, with_item
from robustify.report.format import likely, plain
from robustify.report.printing import cue_words, jinja, styles
from robustify.runs.run import EVIDENCE, EXPLORER

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
WORDS = ("flagged", "undecided", "kept")
MOST_ITEMS, MOST_CHARACTERS = 20_000, 8_000_000
"""Maximum number of items on the page, and of the characters of their texts and evidence, so that it opens within two
seconds. If there are more, kept items are left out first, and the page says how many and where they are."""


@dataclass(frozen=True, slots=True)
class ExplorerHeading:
    """Name of the set, the rule of `lint` for the filter, and the command that edits the set's file ("" if missing)."""

    name: str
    rule: str = ""
    mend: str = ""


def write_explorer(
    folder: Path,
    heading: ExplorerHeading,
    items: Sequence[Item],
    verdicts: Verdicts,
    cloze_excluded: Mapping[str, str],
) -> None:
    """Write the explorer of a run into its folder, which contains `evidence.jsonl`."""
    order = chosen(verdicts)
    wanted = set(order)
    with (folder / EVIDENCE).open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
        kept = {i: line for i, line in enumerate(lines) if i in wanted}
    sizes = np.cumsum([len(kept[i]) + len(items[i].stem) + sum(map(len, items[i].choices)) for i in order])
    positions = sorted(order[: max(1, int(np.count_nonzero(sizes <= MOST_CHARACTERS)))])
    rows = [json.loads(kept[i]) for i in positions]
    island = island_of(heading.name, rows, items, verdicts, positions, cloze_excluded)
    rule = heading.rule
    marks = marks_of(items, [rule]).get(rule)
    for shown_item, i in zip(island["items"], positions, strict=True):
        shown_item["marked"] = key_mark(CUES[rule], marks[i], items[i].key) if marks else ""
    write_text(folder / EXPLORER, page({**island, "mend": heading.mend}))


def key_mark(cue: Cue, marks: Sequence[int], key: int) -> str:
    """Describe how the key differs from the other options in a cue, or return "" if all options are alike in the cue."""
    return "" if len(set(marks)) < 2 else cue.having if marks[key] else cue.lacking


def page(tree: Mapping[str, Any], kind: str = "explorer") -> str:
    """Render the HTML page on which a reader can search the items in `tree`. `kind` names the template, style, and
    script of the page: `explorer`, or `review` for raters."""
    style = styles("palette", f"explorer/{kind}")
    script = Markup((files("robustify.report") / f"explorer/{kind}.js").read_text("utf-8"))
    digests = {
        name: "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for name, text in (("style", style), ("script", script))
    }
    template = jinja("robustify.report", "explorer", autoescape=True).get_template(f"{kind}.html.j2")
    return template.render(
        name=plain(tree["name"]),
        voted=bool(tree.get("voters")),
        mend=tree.get("mend", ""),
        style=style,
        script=script,
        island=Markup(embedded(tree)),
        digests=digests,
    )


def embedded(tree: object) -> str:
    """Return JSON that is safe inside a `script` element."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def chosen(verdicts: Verdicts) -> list[int]:
    """Return the indices of the items to show, at most `MOST_ITEMS`, with flagged items first."""
    rank = np.array([WORDS.index(kind[0]) for kind in verdicts.kinds], dtype=np.int64)
    first: list[int] = np.argsort(rank[verdicts.which], kind="stable")[:MOST_ITEMS].tolist()
    return first


def island_of(
    name: str,
    rows: Sequence[Row],
    items: Sequence[Item],
    verdicts: Verdicts,
    positions: Sequence[int],
    cloze_excluded: Mapping[str, str],
) -> dict[str, Any]:
    """Return the JSON values for the items at `positions`, which the page shows. `rows` has their rows of `evidence.jsonl`.

    `counts` has all items of the run by verdict. The script and the gate recognize an item by its field names.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if "alike" in row:
            alike[row["alike"]].append(row["item"])
    entries = []
    for short, i in zip(rows, positions, strict=True):
        like = alike[short["alike"]] if "alike" in short else ()
        row = with_item(short, items[i], verdicts[i].reason, like, cloze_excluded)
        p, cues = row.get("p_shortcut"), row.get("cues")
        entries.append({
            "id": _visible(row["item"]), "verdict": row["verdict"], "reason": _visible(row["reason"]),
            "topic": _visible(row["topic"] or ""), "stem": _visible(row["stem"]),
            "choices": list(map(_visible, row["choices"])),
            "key": row["key"], "votes": list(row["votes"].values()), "pick": row["pick"], "p_pick": row.get("p_pick"),
            "shortcut": p, "likely": "" if p is None else likely(p),
            "cue": "" if row["pick"] is None else cues[0]["cue"] if cues else "none", "inferred": row.get("inferred"),
            "mends": row["mends"], "says": [_visible(line) for line in evidence_lines(row)],
        })  # fmt: skip
    counts = Counter(verdicts.kinds[kind][0] for kind in verdicts.which.tolist())
    return {
        "name": plain(name),
        "counts": {word: counts[word] for word in WORDS},
        "voters": [plain(voter) for voter in rows[0]["votes"]] if rows else [],
        "labels": cue_words("label"),
        "items": entries,
    }


def _visible(text: str) -> str:
    """Escape characters that hide or reorder text. Line ends and tabs are kept."""
    if text.isprintable():
        return text
    # `plain` escapes one character, but would replace a space by `(blank)`.
    return "".join(c if c in "\n\t " else " " if c.isspace() else plain(c) for c in text)
