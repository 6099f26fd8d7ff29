"""Answers in the schema of Every Eval Ever, as its converters of HELM, lm-eval and Inspect write them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robustify.errors import DataError
from robustify.item import Item
from robustify.logs import LogPath
from robustify.logs.every_eval_logs import shown_item
from robustify.run import Run, write_items
from robustify.writers.from_logs import import_logs
from tests.support.fake_logs import boxes, jsonl

ITEMS = boxes(8)
PICKS = [i.key if n % 2 == 0 else (i.key + 1) % 4 for n, i in enumerate(ITEMS)]
UNREADABLE = 5
SHOT = "Question: Which thing lies in the first box?\nA. tin\nB. wood\nC. wool\nD. glass\nAnswer: B\n\n"


def lettered(item: Item) -> str:
    return "\n".join(f"{'ABCD'[j]}. {c}" for j, c in enumerate(item.choices))


def row(
    item: Item, said: str, right: bool, raw: str, reference: str, choices: list[str], **more: Any
) -> dict[str, Any]:
    return {
        "schema_version": "0.2.2",
        "evaluation_id": "boxes/owner/model/1767225600",
        "model_id": "owner/model",
        "evaluation_name": "boxes",
        "sample_id": item.id,
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": [reference], "choices": choices},
        "output": {"raw": [said]},
        "answer_attribution": [
            {"turn_idx": 0, "source": "output.raw", "extracted_value": said,
             "extraction_method": "exact_match", "is_terminal": True}
        ],
        "evaluation": {"score": float(right), "is_correct": right},
        **more,
    }  # fmt: skip


def helm(item: Item, pick: int | None) -> list[dict[str, Any]]:
    """The whole prompt with an example, texts as choices and reference, one row for each metric."""
    raw = (
        f"The following are questions about boxes.\n\n{SHOT}Question: {item.stem}\n{lettered(item)}\nAnswer:"
    )
    said = " none of them, I think" if pick is None else f" {'ABCD'[pick]}"
    args = (item, said.strip(), pick == item.key, raw, item.choices[item.key], list(item.choices))
    graded = row(*args, evaluation_result_id="rouge_l:test", evaluation={"score": 0.25, "is_correct": False})
    return [row(*args, evaluation_result_id="exact_match:test"), graded]


def lm_eval(item: Item, pick: int | None) -> list[dict[str, Any]]:
    """The whole prompt, letters as choices, an index as reference."""
    raw = f"{SHOT}{item.stem}\n{lettered(item)}\nAnswer:"
    said = "[]" if pick is None else "ABCD"[pick]
    return [row(item, said, pick == item.key, raw, str(item.key), list("ABCD"))]


def inspect(item: Item, pick: int | None) -> list[dict[str, Any]]:
    """The question, texts as choices, a letter as reference; what the scorer read as the answer."""
    said = "I cannot say." if pick is None else "ABCD"[pick]
    return [row(item, said, pick == item.key, item.stem, "ABCD"[item.key], list(item.choices))]


def imported(folder: Path, rows: list[dict[str, Any]], *, data: bool) -> Run:
    write_items(folder / "items.jsonl", ITEMS)
    log = jsonl(folder / "answers.jsonl", rows)
    return import_logs(
        [LogPath(log)], folder / "run", data=[folder / "items.jsonl"] if data else [], name="boxes"
    )


@pytest.mark.parametrize("data", [True, False], ids=["with items", "alone"])
@pytest.mark.parametrize("write", [helm, lm_eval, inspect])
def test_what_a_converter_writes_comes_back_as_the_picks(
    write: Callable[[Item, int | None], list[dict[str, Any]]], data: bool, tmp_path: Path
) -> None:
    picks = [None if n == UNREADABLE else pick for n, pick in enumerate(PICKS)]
    rows = [one for item, pick in zip(ITEMS, picks, strict=True) for one in write(item, pick)]
    run = imported(tmp_path, rows, data=data)
    found = {r["item"]: r["pick"] for r in run.answers.table.to_pylist() if r["model"] == "owner/model"}
    assert found == {item.id: pick for item, pick in zip(ITEMS, picks, strict=True)}
    accuracy = run.summary.tree()["accuracy"]["owner/model"]["full"]["all"]
    answered = [pick == item.key for item, pick in zip(ITEMS, picks, strict=True) if pick is not None]
    assert (accuracy["value"], accuracy["n"]) == (pytest.approx(sum(answered) / len(answered)), len(answered))
    assert {i.id: i.choices for i in run.items or ()} == {i.id: i.choices for i in ITEMS}


def test_a_row_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    rows = [helm(item, pick)[0] for item, pick in zip(ITEMS, PICKS, strict=True)]
    rows[2]["evaluation"] = {"score": 0.0, "is_correct": False}
    with pytest.raises(DataError, match=r"answers\.jsonl:3: is_correct is false"):
        imported(tmp_path, rows, data=True)


def test_the_file_of_scores_is_refused_by_name(tmp_path: Path) -> None:
    tree = {"schema_version": "0.2.2", "eval_library": {}, "evaluation_results": []}
    with pytest.raises(DataError, match=r"expected the \.jsonl of single answers"):
        imported(tmp_path, [tree, tree], data=True)


def test_the_last_block_of_a_prompt_is_the_question() -> None:
    raw = f"{SHOT}Question: Which?\n(A) one\n(B) two\nAnswer:"
    assert shown_item(raw, ["A", "B"]) == ("Which?", ["one", "two"])
    assert shown_item("Which?", ["one", "two"]) == ("Which?", ["one", "two"])
    assert shown_item("Which?", None) == ("Which?", None)
