"""Prompt templates and answers of a public run for the explorer.

The browser rebuilds each prompt from its template and the item, so that the page contains each text once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow.compute as pc
import yaml

from robustify.answers import Answers, Block
from robustify.item import Item
from robustify.report.format import plain, spaced
from robustify.report.messages import catalogue
from robustify.scoring import BY_TEXT
from robustify.screen.votes import row_preferences
from robustify.views import BY_CHAT, VIEWS, names, template

Cell = Any
"""Answer of one model as a JSON value.

The value is `[pick, percent]`, `[pick, replies, of]` if replies were sampled, `[pick]` if there is no score, `-n` for a
tie of n options, a text if there is no readable answer, or 0 if the model was not asked.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """Answers of a run and the settings of its prompts.

    `digests` are those of the templates by `view/name`. `hidden` is the part of an item that the screen hides. `shots` is
    the number of solved examples in a prompt.
    """

    answers: Answers
    digests: Mapping[str, str]
    hidden: str = "question"
    shots: int = 0


def askings(record: Record, items: Sequence[Item], positions: Sequence[int]) -> dict[str, Any]:
    """Return the prompts and replies of the items at `positions` in the format of the page's script.

    `asked` has a list per item with a list per asking: the order of the options (0 for the benchmark's order), then one
    cell per model. `examples` is null if the page lacks some of the solved examples in the prompts.
    """
    row_of = {items[i].id: row for row, i in enumerate(positions)}
    rows = np.array([row_of.get(name, -1) for name in record.answers.items], dtype=np.int64)
    models: dict[tuple[str, str], list[str]] = defaultdict(list)
    for view, model, name in record.answers.askings():
        if view in VIEWS:
            models[view, name].append(model)
    reasons = _reasons(record.answers)
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
                    table[rows[i]][0] = _order(order)
        for mine, line in zip(asked, table, strict=True):
            mine.append(line if any(line[1:]) else [])
        about.append(
            {
                "label": catalogue()["askings"][view].format(hidden=record.hidden),
                "by": "text" if view in BY_TEXT else "letter",
                "models": [plain(model) for model in who],
                "orders": max((int(np.bincount(block.item).max(initial=0)) for block in blocks), default=0),
                "chat": [plain(model) for model, block in zip(who, blocks, strict=True) if block.draws.any()],
                "prompt": _parts(view, name, record.digests),
            }
        )
    shown = list(positions[: record.shots + 1]) == list(range(len(positions[: record.shots + 1])))
    return {"askings": about, "examples": record.shots if shown else None, "byChat": BY_CHAT, "asked": asked}


def _order(order: np.ndarray[Any, Any]) -> list[int] | int:
    shown = [i for i in order.tolist() if i >= 0]
    return 0 if shown == sorted(shown) else shown


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


def _reasons(answers: Answers) -> dict[tuple[str, ...], str]:
    """Return the reasons for missing answers, by item, view, model, and template."""
    table = answers.table.filter(pc.is_valid(answers.table["error"]))
    columns = (table[name].to_pylist() for name in ("item", "view", "model", "template"))
    return dict(zip(zip(*columns, strict=True), map(spaced, table["error"].to_pylist()), strict=True))


def _parts(view: Any, name: str, digests: Mapping[str, str]) -> dict[str, str] | None:
    """Return the parts of a prompt template, or None if the run used a different template."""
    if name not in names(view) or digests.get(f"{view}/{name}") != template(view, name).digest:
        return None
    source = files("robustify") / "templates" / view / f"{name}.yaml"
    return dict(yaml.safe_load(source.read_text("utf-8")))
