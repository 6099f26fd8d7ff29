"""Made-up archives of harmless items in the shapes of Every Eval Ever, OpenCompass and OpenEval, after their own schemas
and examples; no text here is of a real benchmark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.items.item import Item
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
    """A record of `instance_level_eval.schema.json` as the converter of HELM writes it."""
    return {
        "schema_version": "0.2.2",
        "evaluation_id": "boxes/1",
        "model_id": model,
        "evaluation_name": "boxes",
        "sample_id": item.id,
        "sample_hash": None,
        "interaction_type": "single_turn",
        "input": {"raw": after_examples(item), "formatted": None, "reference": [item.choices[item.key]],
                  "choices": list(item.choices), **shown},
        "output": {"raw": [f" {reply}"], "reasoning_trace": []},
        "messages": None,
        "answer_attribution": [
            {"turn_idx": 0, "source": "output.raw", "extracted_value": reply, "extraction_method": "exact_match",
             "is_terminal": True}
        ],
        "evaluation": {"score": float(right(item, reply)), "is_correct": right(item, reply)},
        "token_usage": None, "performance": None, "error": None, "metadata": None,
    }  # fmt: skip


def eee(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
    return [
        jsonl(folder / f"{n}_samples.jsonl", [eee_row(i, m, r) for i, r in zip(items, said, strict=False)])
        for n, (m, said) in enumerate(replies.items())
    ]


def opencompass(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
    """A file for each model, as `dump_results_dict` writes it, with a chat of two turns before the question."""
    paths = [folder / "predictions" / model.replace("/", "_") / "boxes.json" for model in replies]
    for path, said in zip(paths, replies.values(), strict=True):
        rows = {
            str(at): {
                "origin_prompt": [{"role": "HUMAN", "prompt": prompt(boxes(9)[7])}, {"role": "BOT", "prompt": "B\n"},
                                  {"role": "HUMAN", "prompt": prompt(item)}],
                "prediction": reply,
                "gold": "ABCDEFGHIJ"[item.key],
            }
            for at, (item, reply) in enumerate(zip(items, said, strict=False))
        }  # fmt: skip
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(rows, indent=4, ensure_ascii=False))
    return paths


def openeval(folder: Path, items: Sequence[Item], replies: Replies) -> list[Path]:
    """One file of item records, as in `item_examples.json`, of HELM's items."""
    records = []
    for at, item in enumerate(items):
        references = [
            {"output": {"text": text}, "tags": ["correct"] * (j == item.key)}
            for j, text in enumerate(item.choices)
        ]
        responses = [
            {
                "response_id": f"boxes_20260221T020401Z_{at}_{model}_0",
                "model": {"name": model, "size": None},
                "item_adaptation": {"input_content": [after_examples(item)], "demonstrations": []},
                "response_content": [{"text": f" {said[at]}", "logprob": -0.4, "tokens": []}],
                "scores": [{"metric": {"name": "exact_match", "references": references, "models": []},
                            "value": int(right(item, said[at]))}],
            }
            for model, said in replies.items() if at < len(said)
        ]  # fmt: skip
        source = {"benchmark_name": "boxes", "benchmark_version": ""}
        records.append({"item_id": f"boxes_20260221T020401Z_{at}", "item_metadata": {"source": source},
                        "item_content": [item.stem], "responses": responses, "schema_version": "v0.1.0"})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "items.json"
    path.write_text(json.dumps(records, indent=4))
    return [path]


ARCHIVES = {"every-eval-ever": eee, "opencompass": opencompass, "openeval": openeval}
