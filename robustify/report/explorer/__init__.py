"""Explorer of a public run: an offline page to search and filter all items with their evidence.

The page is one file with its style, its script, and the items as JSON. It makes no request. Its content security policy
allows only this style and this script, by their digests. Trusted Types forbid that text becomes markup, so the browser
itself shows items as text. It rebuilds each prompt from its template and the item. A restricted run has no explorer.
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
import pyarrow.compute as pc
import yaml
from markupsafe import Markup

from robustify.base.files import write_text
from robustify.items.answers import Answers, Block
from robustify.items.item import Item
from robustify.items.scoring import BY_TEXT
from robustify.items.views import BY_CHAT, VIEWS, View, names, template
from robustify.judging.screen.consensus import Verdicts
from robustify.judging.screen.votes import row_preferences
from robustify.report.explaining import Row, said_of, with_item
from robustify.report.format import likely, plain, spaced
from robustify.report.messages import catalogue, cue_words
from robustify.report.printing import jinja, styles
from robustify.runs.run import EVIDENCE, EXPLORER

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
WORDS = ("shortcut", "undecided", "robust")
MOST_ITEMS = 20_000
"""Maximum number of items on the page. If there are more, robust items are left out and the page reports it."""


Cell = Any
"""Answer of one model as a JSON value.

The value is `[pick, percent]`, `[pick, replies, of]` if replies were sampled, `[pick]` if there is no score, `-n` for a
tie of n options, a text if there is no readable answer, or 0 if the model was not asked.
"""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Answers of a run and the settings of its prompts.

    `digests` are those of the templates by `view/name`. `hidden` is the part of an item that the screen hides. `shots` is
    the number of solved examples in a prompt.
    """

    answers: Answers
    digests: Mapping[str, str]
    hidden: str = "question"
    shots: int = 0


def write_explorer(
    folder: Path,
    name: str,
    items: Sequence[Item],
    verdicts: Verdicts,
    cloze_excluded: Mapping[str, str],
    record: Transcript,
) -> None:
    """Write the explorer of a run into its folder, which contains `evidence.jsonl`."""
    positions = chosen(verdicts)
    wanted = set(positions)
    with (folder / EVIDENCE).open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
        rows = [json.loads(line) for i, line in enumerate(lines) if i in wanted]
    island = island_of(name, rows, items, verdicts, positions, cloze_excluded)
    asked = askings(record, items, positions)
    used = any("{{ question" in (one["prompt"] or {}).get("context", "") for one in asked["askings"])
    for item, i, answers in zip(island["items"], positions, asked.pop("asked"), strict=True):
        item["asked"] = answers
        if used and (question := items[i].question) is not None:
            item["question"] = shown(question)
    write_text(folder / EXPLORER, page(island | asked))


def page(tree: Mapping[str, Any]) -> str:
    """Return the HTML page of the given JSON values."""
    style = styles("palette", "explorer/explorer")
    script = Markup((files("robustify.report") / "explorer/page.js").read_text("utf-8"))
    template = jinja("robustify.report", "explorer", autoescape=True).get_template("explorer.html.j2")
    return template.render(
        name=plain(tree["name"]),
        style=style,
        script=script,
        island=Markup(embedded(tree)),
        digests={"style": _digest(style), "script": _digest(script)},
    )


def embedded(tree: object) -> str:
    """Return JSON that is safe inside a `script` element."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def chosen(verdicts: Verdicts) -> tuple[int, ...]:
    """Return the indices of the items to show: at most `MOST_ITEMS`, flagged items first."""
    rank = np.array([WORDS.index(kind[0]) for kind in verdicts.kinds], dtype=np.int64)
    order = np.argsort(rank[verdicts.which], kind="stable")[:MOST_ITEMS]
    return tuple(np.sort(order).tolist())


def island_of(
    name: str,
    rows: Sequence[Row],
    items: Sequence[Item],
    verdicts: Verdicts,
    positions: Sequence[int],
    cloze_excluded: Mapping[str, str],
) -> dict[str, Any]:
    """Return the JSON values of the page for the items at `positions`.

    `rows` are their rows of `evidence.jsonl`. `counts` has all items of the run by verdict. The page's script and the gate
    recognise an item by its field names.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if "alike" in row:
            alike[row["alike"]].append(row["item"])
    found = []
    for short, i in zip(rows, positions, strict=True):
        like = alike[short["alike"]] if "alike" in short else ()
        row = with_item(short, items[i], verdicts[i].reason, like, cloze_excluded)
        p, cues = row.get("p_shortcut"), row.get("cues")
        found.append({
            "id": shown(row["item"]), "verdict": row["verdict"], "reason": shown(row["reason"]),
            "topic": shown(row["topic"] or ""), "stem": shown(row["stem"]), "choices": list(map(shown, row["choices"])),
            "key": row["key"], "votes": list(row["votes"].values()), "pick": row["pick"], "p_pick": row.get("p_pick"),
            "shortcut": p, "likely": "" if p is None else likely(p),
            "cue": "" if row["pick"] is None else cues[0]["cue"] if cues else "none", "inferred": row.get("inferred"),
            "mends": row["mends"], "says": [shown(line) for line in said_of(row)],
        })  # fmt: skip
    counts = Counter(verdicts.kinds[kind][0] for kind in verdicts.which.tolist())
    return {
        "name": plain(name),
        "counts": {word: counts[word] for word in WORDS},
        "voters": [plain(voter) for voter in rows[0]["votes"]] if rows else [],
        "labels": cue_words("label"),
        "items": found,
    }


def shown(text: str) -> str:
    """Escape characters that hide or reorder text. Line ends and tabs are kept."""
    if text.isprintable():
        return text
    # `plain` escapes one character, but would replace a space by `(blank)`.
    return "".join(c if c in "\n\t " else " " if c.isspace() else plain(c) for c in text)


def askings(record: Transcript, items: Sequence[Item], positions: Sequence[int]) -> dict[str, Any]:
    """Return the prompts and replies of the items at `positions` in the format of the page's script.

    `asked` has a list per item with a list per asking: the order of the options (0 for the benchmark's order), then one
    cell per model. `examples` is null if the page lacks some of the solved examples in the prompts.
    """
    row_of = {items[i].id: row for row, i in enumerate(positions)}
    rows = np.array([row_of.get(name, -1) for name in record.answers.items], dtype=np.int64)
    models: dict[tuple[View, str], list[str]] = defaultdict(list)
    for view, model, name in record.answers.askings():
        if view in VIEWS:
            models[view, name].append(model)
    missing = record.answers.table.filter(pc.is_valid(record.answers.table["error"]))
    keys = zip(*(missing[name].to_pylist() for name in ("item", "view", "model", "template")), strict=True)
    reasons = dict(zip(keys, map(spaced, missing["error"].to_pylist()), strict=True))
    asked: list[list[list[Cell]]] = [[] for _ in positions]
    about = []
    for (view, name), who in models.items():
        table: list[list[Cell]] = [[0] * (1 + len(who)) for _ in positions]
        blocks = [record.answers.block(view, model, name) for model in who]
        for column, block in enumerate(blocks, 1):
            first = block.first()
            for i, order, cell in zip(first.item.tolist(), first.order, _cells(first, view), strict=True):
                if rows[i] >= 0:
                    why = (record.answers.items[i], view, who[column - 1], name)
                    table[rows[i]][column] = reasons.get(why, "unknown") if cell is None else cell
                    own = [at for at in order.tolist() if at >= 0]
                    table[rows[i]][0] = 0 if own == sorted(own) else own
        for mine, line in zip(asked, table, strict=True):
            mine.append(line if any(line[1:]) else [])
        prompt = None
        if name in names(view) and record.digests.get(f"{view}/{name}") == template(view, name).digest:
            source = files("robustify.items") / "templates" / view / f"{name}.yaml"
            prompt = dict(yaml.safe_load(source.read_text("utf-8")))
        about.append(
            {
                "label": catalogue()["askings"][view].format(hidden=record.hidden),
                "by": "text" if view in BY_TEXT else "letter",
                "models": [plain(model) for model in who],
                "orders": max((int(np.bincount(block.item).max(initial=0)) for block in blocks), default=0),
                "chat": [plain(model) for model, block in zip(who, blocks, strict=True) if block.draws.any()],
                "prompt": prompt,
            }
        )
    shown = all(at == i for i, at in enumerate(positions[: record.shots + 1]))
    return {"askings": about, "examples": record.shots if shown else None, "byChat": BY_CHAT, "asked": asked}


def _cells(block: Block, view: str) -> list[Cell]:
    text = view in BY_TEXT
    share = np.exp(row_preferences(block, "text" if text else "letter"))
    found: list[Cell] = []
    for i, (pick, tie, k, draws) in enumerate(
        zip(*(values.tolist() for values in (block.pick, block.tie, block.k, block.draws)), strict=True)
    ):
        if pick < 0:
            found.append(None)
        elif tie > 1:
            found.append(-tie)
        elif not block.scores.shape[1] or np.isnan(block.scores[i, pick]):
            found.append([pick])
        elif draws:
            # The count of each letter was increased by one half.
            count = np.exp(block.scores[i, pick]) * (draws + k / 2) - 0.5
            found.append([pick, round(float(count)), draws])
        else:
            found.append([pick, round(100 * float(share[i, pick]))])
    return found
