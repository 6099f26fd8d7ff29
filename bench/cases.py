"""Real items, and the workloads of the speed table: the items under our own templates."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robustify.base.arrays import Ints
from robustify.items.item import Item
from robustify.items.views import Asking, Request, View
from robustify.models.asking import plan
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.support import shared_data

SHOTS = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table: views, number of items, and the target ratio."""

    name: str
    items: int
    goal: float
    says: str
    requests: Callable[[], list[Request]]


def arc(n: int) -> list[Item]:
    """Return the first n items of the test file of ARC-Challenge."""
    return list(load(Source(path=str(folder() / "arc" / "ARC-Challenge-Test.jsonl")), UNGUARDED).items[:n])


def history(n: int) -> list[Item]:
    """Return the first n items of MMLU's US history, whose stems have several hundred tokens."""
    return list(
        load(Source(path=str(folder() / "mmlu" / "high_school_us_history_test.csv")), UNGUARDED).items[:n]
    )


def folder() -> Path:
    """Return the folder of the real benchmark files, or exit if they are missing."""
    if found := shared_data():
        return found
    raise SystemExit(
        "The real benchmark files are missing. Expected them in ../shared/data or in $ROBUSTIFY_DATA."
    )


def json_lines(*place: str) -> list[dict[str, Any]]:
    """Return the rows of a file of the folder."""
    with folder().joinpath(*place).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def items_at(*place: str) -> list[Item]:
    """Return the items of a file of the folder, as they are."""
    return [
        Item(str(row["id"]), row["stem"], tuple(row["choices"]), row["key"], row.get("topic", ""))
        for row in json_lines(*place)
    ]


def picks_at(items: Sequence[Item], *place: str, view: str = "full") -> dict[str, Ints]:
    """Return the index of each model's pick (n,) under a view, -1 if none was read, from a table of letters."""
    import pandas as pd  # type: ignore[import-untyped]

    path, at = folder().joinpath(*place), {item.id: i for i, item in enumerate(items)}
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
    found: dict[str, Ints] = {}
    for model, of in table[table["view"] == view].dropna(subset="pick").groupby("model", sort=False):
        picks = found.setdefault(str(model), np.full(len(items), -1))
        picks[[at[name] for name in of["item"]]] = [ord(pick.strip()) - ord("A") for pick in of["pick"]]
    return found


def asked(items: list[Item], views: tuple[View, ...], shots: int = 0) -> list[Request]:
    """Return the requests of these views for all items but the first `shots`.

    The first `shots` items are shown as examples, as in a few-shot split, so that all requests share one prefix.
    """
    shown = {item.id for item in items[:shots]}
    askings = plan(items, Asking(views=views, orders=1, shots=shots))
    return [request for asking in askings if asking.item.id not in shown for request in asking.requests]


def _case(name: str, n: int, goal: float, says: str, views: tuple[View, ...], shots: int = 0) -> Case:
    items = history if name == "long_stems" else arc
    return Case(name, n, goal, says, lambda: asked(items(n + shots), views, shots))


_TWO: tuple[View, ...] = ("full", "cloze")
_AUDIT: tuple[View, ...] = ("choices_only", "full", "cloze")

CASES = (
    _case("zero_shot", 100, 2.5, "cloze + full, ARC-Challenge", _TWO),
    _case("long_stems", 50, 3.5, "cloze + full, MMLU US history", _TWO),
    _case("five_shot", 30, 10.0, "cloze + full, ARC-Challenge, five-shot", _TWO, SHOTS),
    _case("audit", 30, 2.0, "whole audit, ARC-Challenge", _AUDIT),
    _case("audit_five_shot", 12, 8.0, "whole audit, ARC-Challenge, five-shot", _AUDIT, SHOTS),
)
