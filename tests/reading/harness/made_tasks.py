"""Made-up tasks of lm-eval and Inspect, of `cases/harness_tasks.yaml`, with their data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.cases import contents


def docs(n: int = 24) -> list[dict[str, object]]:
    """Sums with three options, whose key moves."""
    return [
        {
            "question": f"What is {n} plus {n}?",
            "choices": [f"{2 * n + (at - n % 3)} beans" for at in range(3)],
            "answer": n % 3,
        }
        for n in range(n)
    ]


def _unusual(doc: Mapping[str, Any]) -> dict[str, object]:
    texts = dict(zip(("eins", "zwei", "drei"), doc["choices"], strict=True))
    # The usual columns mislead: the key and the options of the task are elsewhere.
    usual = {"question": "Is it?", "choices": doc["choices"][1:], "answer": doc["answer"] % 2}
    return {"frage": doc["question"], **texts, "wahr": 10 * (doc["answer"] + 1), **usual}


def write_tasks(folder: Path) -> None:
    """Write the tasks and their data into a folder."""
    data = {"sums.jsonl": docs(), "unusual.jsonl": map(_unusual, docs())}
    files = {name: "".join(f"{json.dumps(doc)}\n" for doc in rows) for name, rows in data.items()}
    for name, text in {**contents("harness_tasks")["tasks"], **files}.items():
        (folder / name).write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
