"""Made-up archives of harmless items in the shapes of Every Eval Ever, OpenCompass and OpenEval, after their own schemas
and examples; no text here is of a real benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.items.item import Item
from tests.support.cases import shape
from tests.support.fake_logs import boxes, jsonl

Replies = Mapping[str, Sequence[str]]
"""The reply of each model to each item."""


def prompt(item: Item, answer: str = "") -> str:
    """A question with its options as HELM and OpenCompass print it."""
    options = "".join(f"{'ABCDEFGHIJ'[j]}. {choice}\n" for j, choice in enumerate(item.choices))
    return f"Question: {item.stem}\n{options}Answer:{answer}"


def after_examples(item: Item) -> str:
    shown = "\n\n".join(prompt(one, " B") for one in boxes(9)[7:])
    return f"The following are multiple choice questions (with answers).\n\n{shown}\n\n{prompt(item)}"


def right(item: Item, reply: str) -> bool:
    return reply.strip() == "ABCDEFGHIJ"[item.key]


def eee_row(item: Item, model: str, reply: str, **shown: Any) -> dict[str, Any]:
    """A record of Every Eval Ever."""
    is_right = right(item, reply)
    row = shape(
        "every_eval_ever", model=model, id=item.id, prompt=after_examples(item), right=item.choices[item.key],
        choices=list(item.choices), reply=reply, score=float(is_right), is_right=is_right,
    )  # fmt: skip
    row["input"] |= shown
    return row


def eee(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
    return [
        jsonl(folder / f"{n}_samples.jsonl", [eee_row(i, m, r) for i, r in zip(items, said, strict=False)])
        for n, (m, said) in enumerate(replies.items())
    ]


def opencompass(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
    """A file for each model."""
    paths = [folder / "predictions" / model.replace("/", "_") / "boxes.json" for model in replies]
    for path, said in zip(paths, replies.values(), strict=True):
        rows = {
            str(at): shape(
                "opencompass", example=prompt(boxes(9)[7]), prompt=prompt(item), reply=reply, letter="ABCDEFGHIJ"[item.key]
            )
            for at, (item, reply) in enumerate(zip(items, said, strict=False))
        }  # fmt: skip
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(rows, indent=4, ensure_ascii=False))
    return paths


def openeval(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
    """One file of records of HELM's items."""
    records = []
    for at, item in enumerate(items):
        references = [
            {"output": {"text": text}, "tags": ["correct"] * (j == item.key)}
            for j, text in enumerate(item.choices)
        ]
        responses = [
            shape("openeval_response", at=at, model=model, prompt=after_examples(item), reply=said[at],
                  references=references, score=int(right(item, said[at])))
            for model, said in replies.items() if at < len(said)
        ]  # fmt: skip
        records.append(shape("openeval_item", at=at, stem=item.stem, responses=responses))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "items.json"
    path.write_text(json.dumps(records, indent=4))
    return [path]


ARCHIVES = {"every-eval-ever": eee, "opencompass": opencompass, "openeval": openeval}
