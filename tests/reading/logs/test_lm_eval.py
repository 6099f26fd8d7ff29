"""lm-eval's logs, of today and of its first versions: whose they are, how they were asked, what was picked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.base.errors import DataError, UsageError
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.logs import Log, LogOptions, gather, read_log
from tests.support.fake_logs import boxes, jsonl, lm_eval_row, results, scores_for, written_row

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


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("texts", [False, True])
def test_rows_old_and_new_give_the_picks_and_scores_that_they_log(path: Path, old: bool, texts: bool) -> None:
    items = boxes()
    rows = logged(old=old, texts=texts)
    found = gather([log_of(path, rows)], None)
    assert [(i.stem, i.choices, i.key, i.topic) for i in found.items or ()] == [
        (i.stem, i.choices, i.key, i.topic) for i in items
    ]
    table = found.answers.table
    assert table["scores"].to_pylist() == scores_for(PICKS)
    assert table["view"].to_pylist() == ["cloze" if texts else "full"] * 6
    assert table["order"].to_pylist() == [[0, 1, 2, 3]] * 6
    # The choices of a box have 5, 7, 6 and 6 characters, so that per character another one may win.
    per_char = [
        np.argmax([s / len(c) for s, c in zip(scores, i.choices, strict=True)])
        if texts
        else np.argmax(scores)
        for i, scores in zip(items, scores_for(PICKS), strict=True)
    ]
    assert table["pick"].to_pylist() == [int(p) for p in per_char]
    assert table["correct"].to_pylist() == [float(p == i.key) for p, i in zip(per_char, items, strict=True)]


def test_a_log_of_our_own_prompts_is_known_word_for_word(path: Path) -> None:
    items = boxes()
    for view in ("choices_only", "full", "cloze", "choices_only_text"):
        for name in names(view):
            rows = [ours(item, at, view, name) for at, item in enumerate(items)]
            log = log_of(path, rows)
            assert {(r.view, r.template) for r in log.replies} == {(view, name)}
            assert log.templates == {f"{view}/{name}": template(view, name).digest}
            assert log.notes == (
                "there is no results file beside the log, so the name of the folder is used as the model name",
            )


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
    assert "6 of 6 inspected prompts do not show the question" in " ".join(log.notes)
    assert {r.view for r in log_of(path, rows, view="full").replies} == {"full"}
    assert {r.view for r in log_of(path, rows, view="choices_only").replies} == {"choices_only"}


def test_a_view_that_the_prompts_belie_is_refused(path: Path) -> None:
    plain = logged()
    with pytest.raises(DataError, match="6 of 6 inspected prompts show the question"):
        log_of(path, plain, view="choices_only")
    rows = [ours(item, at, "choices_only", "d4-like-v1") for at, item in enumerate(boxes())]
    with pytest.raises(UsageError, match="d4-like-v1"):
        log_of(path, rows, view="full")


def test_the_results_beside_a_log_say_whose_it_is(path: Path) -> None:
    rows = logged()
    results(jsonl(path, rows).parent, DATE, "boxes", "/somewhere/on/a/disk/tiny-model", 6)
    log = read_log(path, LogOptions())
    assert {r.model for r in log.replies} == {"tiny-model"}
    assert log.facts == {
        "lm_eval": "0.4.13", "task_version": "2.0", "shots": "5", "backend": "hf", "dtype": "float32",
        "revision": "0123abcd", "transformers": "5.23.0",
    }  # fmt: skip
    assert {r.model for r in read_log(path, LogOptions(model="mine")).replies} == {"mine"}


@pytest.mark.parametrize(
    ("folder", "name"), [("owner__name", "owner/name"), ("__root__models__tiny", "tiny"), ("tiny", "tiny")]
)
def test_without_results_the_folder_names_the_model(tmp_path: Path, folder: str, name: str) -> None:
    assert log_of(tmp_path / folder / "samples_boxes.jsonl", logged()).replies[0].model == name


def test_a_log_with_fewer_rows_than_its_results_count_is_no_whole_log(path: Path) -> None:
    rows = logged()
    results(jsonl(path, rows).parent, DATE, "boxes", "tiny", 9)
    assert [f.reason for f in read_log(path, LogOptions()).faults] == [
        "the log contains 6 items, but the results file counts 9; expected all items"
    ]


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
    assert any("strict-match was used, not flexible-extract" in note for note in log.notes)
    assert picks_of(log_of(path, rows, filter="flexible-extract")) == [0, 1, 2]
    with pytest.raises(UsageError, match="expected one of strict-match, flexible-extract"):
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
    assert any("choices_only_text" in note for note in found.notes)


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


def test_texts_that_are_not_the_choices_are_taken_in_their_order_and_it_is_said(path: Path) -> None:
    rows = logged(texts=True)
    for pair in rows[1]["arguments"].values():
        pair["arg_1"] = " and so on"
    log = log_of(path, rows)
    assert any(note.endswith("(assumed to be in the order of the choices): 1") for note in log.notes)
    assert log.replies[1].scores == tuple(scores_for(PICKS)[1])


@pytest.mark.parametrize(
    "marks", ["abcd", "أبجد", "АБВГ", "0123", "1234", ["i", "ii", "iii", "iv"], ["(A)", "(B)", "(C)", "(D)"]]
)
def test_scored_labels_of_any_kind_are_letters_and_not_texts(path: Path, marks: Sequence[str]) -> None:
    rows = logged()
    for row in rows:
        for mark, pair in zip(marks, row["arguments"].values(), strict=True):
            pair["arg_1"] = f" {mark}"
    log = log_of(path, rows)
    assert {reply.view for reply in log.replies} == {"full"}
    assert picks_of(log) == PICKS


@pytest.mark.parametrize("view", [None, "cloze"])
def test_rows_without_their_prompts_are_letters_unless_the_view_says_texts(
    path: Path, view: str | None
) -> None:
    items = boxes(3)
    rows = [lm_eval_row(i, at, [-4.5, -5.0, -9.0, -9.0], texts=True) for at, i in enumerate(items)]
    for row in rows:
        del row["arguments"]
    log = log_of(path, rows, view=view)
    assert not log.faults
    # Of 5 and 7 characters: the second choice is the likelier one per character.
    assert picks_of(log) == ([1, 1, 1] if view else [0, 0, 0])
    assert {r.view for r in log.replies} == {view or "full"}


def test_scores_are_put_back_where_the_texts_were_asked_in_another_order(path: Path) -> None:
    row = lm_eval_row(boxes()[1], 0, scores_for([1])[0], texts=True)
    pairs = list(row["arguments"].values())
    row["arguments"] = {f"gen_args_{j}": pair for j, pair in enumerate(pairs[::-1])}
    row["resps"] = row["resps"][::-1]
    log = log_of(path, [row])
    assert not log.faults
    assert log.replies[0].scores == tuple(scores_for([1])[0])


@pytest.mark.parametrize("printed", ["np.float64({})", "tensor({}, device='cuda:0')", "({}, False)"])
def test_numbers_as_numpy_or_pytorch_print_them_are_scores(path: Path, printed: str) -> None:
    rows = logged()
    for row in rows:
        row["resps"] = row["filtered_resps"] = [[printed.format(pair[0])] for (pair,) in row["resps"]]
    assert picks_of(log_of(path, rows)) == picks_of(log_of(path, logged()))


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf", "None"])
def test_a_score_that_is_no_number_is_no_answer(path: Path, bad: str) -> None:
    rows = logged()
    rows[2]["resps"][1] = [[bad, "False"]]
    table = gather([log_of(path, rows)], None).answers.table
    assert table["pick"].to_pylist() == [0, 1, None, 3, 2, 2]
    assert table["error"].to_pylist()[2] == "a score that is no finite number"


def test_rows_that_contradict_themselves_are_named_by_line(path: Path) -> None:
    rows = logged()
    rows[4]["acc"] = 1.0 - rows[4]["acc"]
    del rows[1]["resps"][0]
    faults = log_of(path, rows).faults
    assert [f.line for f in faults] == [2, 5]
    assert faults[0].reason == "3 log-likelihoods for 4 choices; expected one per choice"
    assert "key" in faults[1].reason


def test_a_tie_contradicts_nothing_and_is_shared(path: Path) -> None:
    row = lm_eval_row(boxes(2)[1], 0, [-1.0, -1.0, -3.0, -4.0])
    assert row["acc"] == 0.0
    log = log_of(path, [row])
    assert not log.faults
    table = gather([log], None).answers.table
    assert (table["correct"].to_pylist(), table["tie"].to_pylist()) == ([0.5], [2])


def test_the_doc_s_own_fields_can_be_named(path: Path) -> None:
    rows = [lm_eval_row(item, at, [-1.0, -2.0, -3.0, -4.0]) for at, item in enumerate(boxes(2))]
    for row in rows:
        row |= {
            "acc": 1.0,
            "doc": {"asia": row["doc"]["question"], "wahl": row["doc"]["choices"], "oikea": 1},
        }
    with pytest.raises(DataError, match="oikea"):
        log_of(path, rows)
    columns = {"stem": "asia", "choices": "wahl", "key": "oikea", "key_is": "number"}
    log = log_of(path, rows, columns=columns)
    assert [reply.item.key for reply in log.replies] == [0, 0]
    assert not log.faults


def test_logs_in_one_list_are_read_too(tmp_path: Path) -> None:
    rows = logged(old=True)
    path = tmp_path / "pretrained=tiny_boxes.jsonl"
    path.write_text(json.dumps(rows, indent=2))
    assert picks_of(read_log(path, LogOptions(model="tiny"))) == PICKS
