"""Made-up archives of harmless items in the shapes of other tools, after their own schemas, examples, and code; no text
here is of a real benchmark."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.items.item import Item
from tests.support.cases import shape
from tests.support.fake_logs import boxes, jsonl, sheet

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


def _told(name: str, at: int, item: Item, model: str, reply: str) -> Any:
    """The shape of a sample with the values that any of them has."""
    letters = "ABCDEFGHIJ"[: item.k]
    references = [
        {"output": {"text": text}, "tags": ["correct"] * (j == item.key)}
        for j, text in enumerate(item.choices)
    ]
    mapping = dict(zip(letters, item.choices, strict=True))
    return shape(
        name, at=at, stem=item.stem, model=model, prompt=prompt(item), reply=reply, letter=letters[item.key],
        references=references, mapping=mapping, columns={"question": item.stem, **mapping}, is_right=right(item, reply),
        acc=float(right(item, reply)),
    )  # fmt: skip


Writer = Callable[[Path, Sequence[Item], Replies], list[Path]]
Saver = Callable[[Path, Sequence[Any]], Path]


def _by_model(name: str, place: str, save: Saver) -> Writer:
    """A writer of a file for each model, whose rows have a shape."""

    def write(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
        paths = []
        for model, said in replies.items():
            path = folder / place.format(model)
            path.parent.mkdir(parents=True)
            rows = [
                _told(name, at, *pair, said[at])
                for at, pair in enumerate((i, model) for i in items[: len(said)])
            ]
            paths.append(save(path, rows))
        return paths

    return write


def _json(*names: str) -> Saver:
    """Rows in the members of a JSON document."""

    def save(path: Path, rows: Sequence[Any]) -> Path:
        tree: Any = list(rows)
        for name in reversed(names):
            tree = {"config": {}, name: tree}
        path.write_text(json.dumps(tree))
        return path

    return save


def _events(path: Path, samples: Sequence[Any]) -> Path:
    spec = {"completion_fns": [path.parent.name], "eval_name": "boxes", "run_id": "R"}
    return jsonl(
        path, [{"spec": spec}, {"final_report": {}}, *(event for sample in samples for event in sample)]
    )


ARCHIVES: dict[str, Writer] = {
    "every-eval-ever": eee,
    "opencompass": opencompass,
    "openeval": openeval,
    "helm": _by_model("helm", "{}/boxes/scenario_state.json", _json("request_states")),
    "evalscope": _by_model("evalscope", "reviews/{}/boxes.jsonl", jsonl),
    "evalscope-0": _by_model("evalscope_0", "reviews/{}/boxes.jsonl", jsonl),
    "openai-evals": _by_model("openai_evals", "{}/R.jsonl", _events),
    "promptfoo": _by_model("promptfoo", "{}/boxes.json", _json("results", "results")),
    "deepeval": _by_model("deepeval", "{}/boxes.csv", sheet),
    "wandb": _by_model("wandb", "{}/boxes.jsonl", jsonl),
}
