"""Calls of every public function of `import robustify` on the files of the folder of seeds."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

import robustify as rb
from robustify.items.item import Item


def _open() -> None:
    found = rb.open("run")
    for name in ("answers", "verdicts", "evidence", "summary", "verdict", "passed"):
        with suppress(rb.RobustifyError):
            getattr(found, name)
    print(found, len(found._repr_html_()))


def _given() -> object:
    with open("items.json", encoding="utf-8", errors="replace") as file, suppress(ValueError):
        return json.load(file)
    return None


def _items() -> None:
    import pandas as pd

    frame = pd.DataFrame()
    with suppress(ValueError):
        frame = pd.read_csv("items.csv", on_bad_lines="skip")
    rb.heuristics(frame)
    rb.heuristics([Item("a", "Which?", ("one", "two"), 0, "")])


CALLS: Mapping[str, Callable[[], object]] = {
    "open": _open,
    "judge": lambda: rb.judge("run", criterion="majority").verdict,
    "heuristics": lambda: rb.heuristics(_given()),  # type: ignore[arg-type]
    "audit": lambda: rb.audit(_given(), public=True),  # type: ignore[arg-type]
    "import_logs": lambda: rb.import_logs("picks.csv", data="items.jsonl").verdict,
    "items": _items,
}
