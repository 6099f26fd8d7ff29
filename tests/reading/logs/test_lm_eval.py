"""lm-eval's logs, of today and of its first versions: whose they are, how they were asked, what was picked."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.logs import Log, LogOptions, gather, read_log
from tests.support.cases import codes, refuses
from tests.support.fake_logs import boxes, jsonl, lm_eval_row, scores_for, written_row

PICKS = [0, 1, 1, 3, 2, 2]
DATE = "2026-07-09T22-44-17.123456"


def log_of(path: Path, rows: list[dict[str, object]], **wanted: object) -> Log:
    return read_log(jsonl(path, rows), LogOptions(**wanted))


def logged(**more: bool) -> list[dict[str, Any]]:
    """The rows of the boxes, answered as in `PICKS`."""
    pairs = zip(boxes(), scores_for(PICKS), strict=True)
    return [lm_eval_row(item, at, scores, **more) for at, (item, scores) in enumerate(pairs)]


def picks_of(log: Log) -> list[int | None]:
    rows = gather([log], None).answers.table
    return rows["pick"].to_pylist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "owner__name" / f"samples_boxes_{DATE}.jsonl"


def test_a_log_of_our_own_prompts_is_known_word_for_word(path: Path) -> None:
    items = boxes()
    for view in ("choices_only", "full", "cloze", "choices_only_text"):
        for name in names(view):
            rows = [ours(item, at, view, name) for at, item in enumerate(items)]
            log = log_of(path, rows)
            assert {(r.view, r.template) for r in log.replies} == {(view, name)}
            assert log.templates == {f"{view}/{name}": template(view, name).digest}
            assert codes(log.notes) == ["model-named-by-folder"]


def ours(item: Item, at: int, view: View, name: str) -> dict[str, object]:
    asked = template(view, name).requests(item, own(item.k))
    row = lm_eval_row(item, at, scores_for([0])[0], texts=not template(view, name).by_letter)
    pairs = {f"gen_args_{j}": {"arg_0": r.context, "arg_1": r.continuation} for j, r in enumerate(asked)}
    return {**row, "arguments": pairs}


def test_one_other_word_in_a_prompt_and_it_is_not_ours(path: Path) -> None:
    rows = [ours(item, at, "choices_only", "d4-like-v1") for at, item in enumerate(boxes())]
    rows[3]["arguments"]["gen_args_0"]["arg_0"] += " "
    log = log_of(path, rows)
    assert {(r.view, r.template) for r in log.replies} == {("choices_only", "lm-eval")}
    assert "view-without-question" in codes(log.notes)
    assert {r.view for r in log_of(path, rows, view="full").replies} == {"full"}
    assert {r.view for r in log_of(path, rows, view="choices_only").replies} == {"choices_only"}

    rows = [ours(item, at, "choices_only", "d4-like-v1") for at, item in enumerate(boxes())]
    with refuses("contradicted-view"):
        log_of(path, rows, view="full")


def test_one_filter_of_several_is_taken_and_the_others_are_named(path: Path) -> None:
    items = boxes(3)
    rows = [
        written_row(item, at, said, name, 1.0)
        for at, (item, told) in enumerate(
            zip(items, [("(A)", "A"), ("[invalid]", "B"), ("C", "C")], strict=True)
        )
        for name, said in zip(("strict-match", "flexible-extract"), told, strict=True)
    ]
    log = log_of(path, rows)
    assert picks_of(log) == [0, None, 2]
    assert "several-filters" in codes(log.notes)
    assert picks_of(log_of(path, rows, filter="flexible-extract")) == [0, 1, 2]
    with refuses("unknown-filter"):
        log_of(path, rows, filter="none")


def test_the_second_half_of_acc_mutual_info_is_kept_apart(path: Path) -> None:
    items, rows = boxes(), []
    for item, row in zip(items, logged(texts=True), strict=True):
        alone = {
            f"gen_args_{item.k + j}": {"arg_0": "", "arg_1": f" {c}"} for j, c in enumerate(item.choices)
        }
        row["arguments"] |= alone
        row["resps"] += [[[str(-9.0 - j), "False"]] for j in range(item.k)]
        rows.append(row)
    found = gather([log_of(path, rows)], None)
    cloze = found.answers.block("cloze", "owner/name")
    alone = found.answers.block("choices_only_text", "owner/name")
    assert cloze.scores.tolist() == scores_for(PICKS)
    assert alone.scores.tolist() == [[-9.0, -10.0, -11.0, -12.0]] * 6
    assert "unconditioned-scores" in codes(found.notes)


def test_ten_choices_keep_their_order(path: Path) -> None:
    item = Item("x", "Which number is meant?", tuple(f"number {j:02}" for j in range(12)), 11)
    pairs = {f"gen_args_{j}": {"arg_0": item.stem, "arg_1": f" {c}"} for j, c in enumerate(item.choices)}
    row = {
        "doc_id": 0,
        "doc": {"question": item.stem, "choices": list(item.choices), "answer": 11},
        "arguments": dict(sorted(pairs.items())),
        "resps": [[[str(-12.0 + j), "False"]] for j in range(12)],
        "acc": 1.0,
    }
    found = gather([log_of(path, [row])], None)
    assert found.answers.table["scores"].to_pylist() == [[-12.0 + j for j in range(12)]]


def test_scores_are_put_back_where_the_texts_were_asked_in_another_order(path: Path) -> None:
    row = lm_eval_row(boxes()[1], 0, scores_for([1])[0], texts=True)
    pairs = list(row["arguments"].values())
    row["arguments"] = {f"gen_args_{j}": pair for j, pair in enumerate(pairs[::-1])}
    row["resps"] = row["resps"][::-1]
    log = log_of(path, [row])
    assert not log.faults
    assert log.replies[0].scores == tuple(scores_for([1])[0])


def test_logs_in_one_list_are_read_too(tmp_path: Path) -> None:
    rows = logged(old=True)
    path = tmp_path / "pretrained=tiny_boxes.jsonl"
    path.write_text(json.dumps(rows, indent=2))
    assert picks_of(read_log(path, LogOptions(model="tiny"))) == PICKS
