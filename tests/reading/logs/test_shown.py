"""What prompts show decides the view of a log, and what they lack is said: lm-eval, Inspect, lighteval, and archives."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError
from robustify.items.item import Item
from robustify.reading.logs import Log, LogOptions, gather, read_log
from robustify.reading.logs.log import LoggedItem
from robustify.reading.logs.shown import VIEW_RULES, Prompt, PromptEvidence, parts_shown
from tests.support.fake_archives import eee_row
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lm_eval_row,
    scores_for,
    written_row,
)

FULL, BLIND, TEXT_ONLY = "full", "choices_only", "choices_only_text"


def options_of(item: Item, n: int = 4) -> str:
    return "".join(f"{'ABCDEF'[j]}. {choice}\n" for j, choice in enumerate(item.choices[:n]))


def replies(path: Path, prompt: Callable[[Item], str], k: int = 4) -> Log:
    rows = [written_row(item, at, "B", "none", float(item.key == 1)) for at, item in enumerate(boxes(8, k))]
    for row, item in zip(rows, boxes(8, k), strict=True):
        row["arguments"]["gen_args_0"]["arg_0"] = prompt(item)
    return read_log(jsonl(path / "samples_boxes.jsonl", rows), LogOptions())


def chat(text: str) -> str:
    return json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}])


EXAMPLE = "Question: Which thing lies in box 77?\nA. red 77\nB. green 77\nAnswer: B\n\n"


@pytest.mark.parametrize(
    ("prompt", "view"),
    [
        (lambda i: f"{i.stem}\n{options_of(i)}Answer:", FULL),
        (lambda i: f"{EXAMPLE}Question: {i.stem.upper()}\n{options_of(i)}Answer:", FULL),
        (lambda i: chat(f"{i.stem}\n{options_of(i)}"), FULL),
        (lambda i: f"Options:\n{options_of(i)}Answer with a letter.", BLIND),
        (lambda i: f"{EXAMPLE}Options:\n{options_of(i)}Answer:", BLIND),
        (lambda i: chat(f"Which is it?\n{options_of(i)}"), BLIND),
        (lambda i: f"<|im_start|>user\nGuess.\n{options_of(i)}<|im_end|>", BLIND),
    ],
)
def test_replies_are_of_the_view_that_their_prompts_show(
    tmp_path: Path, prompt: Callable[[Item], str], view: str
) -> None:
    log = replies(tmp_path, prompt)
    assert {reply.view for reply in log.replies} == {view}
    assert any("8 of 8 inspected prompts do not show the question" in note for note in log.notes) == (
        view == BLIND
    )


def test_options_that_prompts_lack_are_said(tmp_path: Path) -> None:
    log = replies(tmp_path / "none", lambda i: f"{i.stem}\nAnswer with a letter.")
    assert any("8 of 8 inspected prompts do not show the options" in note for note in log.notes)
    log = replies(tmp_path / "some", lambda i: f"{i.stem}\n{options_of(i, 3)}", k=5)
    assert any("only 3 of 5" in note for note in log.notes)
    log = replies(tmp_path / "all", lambda i: f"{i.stem}\n{options_of(i)}")
    assert not any("do not show" in note for note in log.notes)


@pytest.mark.parametrize(
    ("texts", "hidden", "view"),
    [(False, False, FULL), (False, True, BLIND), (True, False, "cloze"), (True, True, TEXT_ONLY)],
)
def test_scored_rows_are_of_the_view_that_their_prompts_show(
    tmp_path: Path, texts: bool, hidden: bool, view: str
) -> None:
    rows = [
        lm_eval_row(item, at, scores, texts=texts, hidden=hidden)
        for at, (item, scores) in enumerate(zip(boxes(), scores_for([0] * 6), strict=True))
    ]
    log = read_log(jsonl(tmp_path / "samples_boxes.jsonl", rows), LogOptions())
    assert {reply.view for reply in log.replies} == {view}


@pytest.mark.parametrize("shows", [True, False])
def test_the_messages_of_inspect_show_the_view(tmp_path: Path, shows: bool) -> None:
    def turns(item: Item) -> list[dict[str, Any]]:
        text = f"{item.stem if shows else 'Pick one.'}\n{options_of(item)}"
        content = [{"type": "text", "text": text}, {"type": "image", "image": "data:,"}]
        return [{"role": "user", "content": content}, {"role": "assistant", "content": item.stem}]

    samples = [inspect_sample(item, "B", messages=turns(item)) for item in boxes()]
    (tmp_path / "a.json").write_text(json.dumps(inspect_tree(samples)))
    log = read_log(tmp_path / "a.json", LogOptions())
    assert {reply.view for reply in log.replies} == {FULL if shows else BLIND}


def test_an_instruction_above_all_options_of_an_archive_is_no_question(tmp_path: Path) -> None:
    rows = [
        {"origin_prompt": [{"role": "HUMAN", "prompt": f"Guess the right option.\n{options_of(i)}Answer: "}],
         "prediction": "B", "gold": "ABCD"[i.key]}
        for i in boxes()
    ]  # fmt: skip
    path = tmp_path / "predictions" / "m" / "boxes.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({str(at): row for at, row in enumerate(rows)}))
    assert {reply.view for reply in read_log(path, LogOptions()).replies} == {BLIND}


def test_what_a_reply_answers_after_a_made_up_question_is_not_taken_from_an_archive(tmp_path: Path) -> None:
    items = boxes(4)
    rows = [eee_row(item, "m", "C") for item in items]
    for row, item in zip(rows, items, strict=True):
        row["output"]["raw"] = [f" A. {item.choices[0]}\n\nQuestion: Next?\nA. x\nB. y\nC. z\nAnswer: C"]
        row["evaluation"]["is_correct"] = False
    log = read_log(jsonl(tmp_path / "a_samples.jsonl", rows), LogOptions())
    assert [reply.pick for reply in log.replies] == [0] * 4


def test_a_passage_and_a_filled_blank_are_found() -> None:
    passage, question = "Long ago, a fox met a hen.", "Who met the _ first?"
    item = LoggedItem(2, f"{passage}\n{question}", ("fox", "hen"), question_at=len(passage) + 1)
    seen = parts_shown(Prompt(item, ("Who met the hen",), (" first?",)))
    assert (seen.question, seen.passage, seen.n_options) == (True, False, 1)
    seen = parts_shown(Prompt(item, (f"{passage.upper()}  Options: fox, hen",), ("",)))
    assert (seen.question, seen.passage, seen.n_options) == (False, True, 2)


def test_a_hidden_passage_decides_the_view_if_the_user_hides_the_passage(tmp_path: Path) -> None:
    rows = [written_row(item, at, "B", "none", float(item.key == 1)) for at, item in enumerate(boxes())]
    for row in rows:
        row["doc"]["passage"] = f"Once there was a box with the number {row['doc_id']}."
    path = jsonl(tmp_path / "samples_boxes.jsonl", rows)
    assert {r.view for r in read_log(path, LogOptions()).replies} == {FULL}
    assert {r.view for r in read_log(path, LogOptions(hidden="passage")).replies} == {BLIND}


def test_a_view_that_prompts_belie_is_refused_for_replies_too(tmp_path: Path) -> None:
    rows = [written_row(item, at, "B", "none", float(item.key == 1)) for at, item in enumerate(boxes())]
    with pytest.raises(DataError, match="6 of 6 inspected prompts show the question"):
        read_log(jsonl(tmp_path / "samples_boxes.jsonl", rows), LogOptions(view="choices_only"))


# ---- scores ----


def scored(path: Path, change: Callable[[dict[str, Any]], None]) -> Log:
    rows = [lm_eval_row(i, at, s) for at, (i, s) in enumerate(zip(boxes(), scores_for([1] * 6), strict=True))]
    change(rows[2])
    return read_log(jsonl(path / "samples_boxes.jsonl", rows), LogOptions())


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("asked", [True, False])
def test_every_row_needs_one_log_likelihood_per_choice(tmp_path: Path, n: int, asked: bool) -> None:
    def change(row: dict[str, Any]) -> None:
        row["resps"] = [[[str(-1.0 - j), "False"]] for j in range(n)]
        row["filtered_resps"] = [one[0] for one in row["resps"]]
        if asked:
            row["arguments"] = {
                f"gen_args_{j}": {"arg_0": "Q", "arg_1": f" {'ABCDEFGHIJ'[j]}"} for j in range(n)
            }
        else:
            del row["arguments"]

    log = scored(tmp_path, change)
    assert [(fault.line, fault.reason) for fault in log.faults] == [
        (3, f"{n} log-likelihoods for 4 choices; expected one per choice")
    ]


@pytest.mark.parametrize("n_wrong", [2, 3])
def test_a_task_with_several_right_answers_is_named(tmp_path: Path, n_wrong: int) -> None:
    def change(row: dict[str, Any]) -> None:
        choices = ["one", "two", *["x", "y", "z"][:n_wrong]]
        row["doc"]["mc2_targets"] = {"choices": choices, "labels": [1, 1, *[0] * n_wrong]}
        row["resps"] = [[[str(-1.0 - j), "False"]] for j in range(len(choices))]
        row["arguments"] = {f"gen_args_{j}": {"arg_0": "Q", "arg_1": f" {c}"} for j, c in enumerate(choices)}

    (fault,) = scored(tmp_path, change).faults
    assert "texts of `mc2_targets`, of which 2 are right" in fault.reason


def test_one_number_that_was_generated_is_a_reply(tmp_path: Path) -> None:
    rows = [written_row(item, at, "2", "none", 0.0) for at, item in enumerate(boxes())]
    for row in rows:
        row["resps"] = row["filtered_resps"] = [["2"]]
    log = read_log(jsonl(tmp_path / "samples_boxes.jsonl", rows), LogOptions())
    assert (log.faults, {reply.scores for reply in log.replies}) == ((), {()})


def test_the_reply_that_was_used_is_said_if_a_row_has_several(tmp_path: Path) -> None:
    rows = [written_row(item, at, "A", "none", float(item.key == 0)) for at, item in enumerate(boxes())]
    for row in rows:
        row["resps"] = row["filtered_resps"] = [["A", "B", "C"]]
    log = read_log(jsonl(tmp_path / "samples_boxes.jsonl", rows), LogOptions())
    assert [reply.pick for reply in log.replies] == [0] * 6
    assert any("the first one was used: 6" in note for note in log.notes)


def test_a_filter_that_took_the_answer_to_another_question_is_not_believed(tmp_path: Path) -> None:
    rows = [written_row(item, at, "D", "last", float(item.key == 3)) for at, item in enumerate(boxes())]
    for row in rows:
        row["resps"] = [["B\n\nQuestion: Next?\nAnswer: D"]]
    log = read_log(jsonl(tmp_path / "samples_boxes.jsonl", rows), LogOptions())
    assert [reply.pick for reply in log.replies] == [1] * 6
    assert not log.faults
    assert any("run on into another question" in note and note.endswith(": 6") for note in log.notes)
    assert gather([log], None).answers.table["correct"].to_pylist() == [float(i.key == 1) for i in boxes()]


@pytest.mark.parametrize(
    "labels", ["1234", "0123", "abcd", "أبجد", ["i", "ii", "iii", "iv"], ["I", "II", "III", "IV"]]
)
@pytest.mark.parametrize("form", ["{}", "({}) {}", "The answer is {}.", "**{}. {}**"])
def test_replies_use_the_labels_of_their_prompts(tmp_path: Path, labels: Sequence[str], form: str) -> None:
    items, picks = boxes(8), [1, 0, 3, 2, 2, 1, 0, 3]
    rows = []
    for at, (item, pick) in enumerate(zip(items, picks, strict=True)):
        row = written_row(
            item, at, form.format(labels[pick], item.choices[pick]), "none", float(item.key == pick)
        )
        listed = "".join(f"{label}. {choice}\n" for label, choice in zip(labels, item.choices, strict=True))
        row["arguments"]["gen_args_0"]["arg_0"] = f"{item.stem}\n{listed}Answer:"
        rows.append(row)
    log = read_log(jsonl(tmp_path / "samples_boxes.jsonl", rows), LogOptions())
    assert [reply.pick for reply in log.replies] == picks


def test_every_rule_of_the_view_decides_some_log_and_the_first_one_wins() -> None:
    plain, named = LogOptions(), LogOptions(view="cloze")
    logs = {
        "named": PromptEvidence(named, 50, 0),
        "no prompts": PromptEvidence(plain),
        "blind texts": PromptEvidence(plain, 50, 5, by_text=True),
        "blind": PromptEvidence(plain, 50, 5),
        "texts": PromptEvidence(plain, 50, 6, by_text=True),
        "question": PromptEvidence(plain, 50, 50),
    }
    firsts = {
        name: next(rule.name for rule in VIEW_RULES if rule.view(seen) is not None)
        for name, seen in logs.items()
    }
    assert firsts == {name: name for name in logs}
    assert [rule.name for rule in VIEW_RULES] == [*logs]
