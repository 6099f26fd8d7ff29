"""What prompts show decides the view of a log, and what they lack is said: lm-eval, Inspect, lighteval, and archives."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.reading.logs import LogOptions, read_log
from robustify.reading.logs.log import LoggedItem
from robustify.reading.logs.prompts import (
    VIEW_RULES,
    Prompt,
    PromptEvidence,
    decide_presentation,
    parts_shown,
)
from tests.support.fake_logs import boxes, jsonl, written_row


def test_a_passage_and_a_filled_blank_are_found() -> None:
    passage, question = "Long ago, a fox met a hen.", "Who met the _ first?"
    item = LoggedItem(2, f"{passage}\n{question}", ("fox", "hen"), question_at=len(passage) + 1)
    seen = parts_shown(Prompt(item, ("Who met the hen",), (" first?",)))
    assert (seen.question, seen.passage, seen.n_options) == (True, False, 1)
    seen = parts_shown(Prompt(item, (f"{passage.upper()}  Options: fox, hen",), ("",)))
    assert (seen.question, seen.passage, seen.n_options) == (False, True, 2)


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
        "placeholders": PromptEvidence(plain, 50),
        "blind texts": PromptEvidence(plain, 50, 5, by_text=True),
        "blind": PromptEvidence(plain, 50, 0, 50),
        "texts": PromptEvidence(plain, 50, 6, by_text=True),
        "question": PromptEvidence(plain, 50, 50),
    }
    firsts = {
        name: next(rule.name for rule in VIEW_RULES if rule.view(seen) is not None)
        for name, seen in logs.items()
    }
    assert firsts == {name: name for name in logs}
    assert [rule.name for rule in VIEW_RULES] == [*logs]


@pytest.mark.parametrize("written", [True, False])
def test_prompts_with_the_options_in_another_order_are_refused(written: bool) -> None:
    item = LoggedItem(3, "Which box is heavy?", ("red", "green", "blue"), 1)
    context = "Which box is heavy?\nA. blue\nB. red\nC. green\nAnswer:"
    prompt = Prompt(item, (context,), ("",)) if written else Prompt(item, (context,) * 3, (" A", " B", " C"))
    with pytest.raises(DataError) as raised:
        decide_presentation("boxes.jsonl", "lm-eval", [prompt], LogOptions())
    assert raised.value.code == "options-in-two-orders"


@pytest.mark.parametrize(("n", "maps_letters"), [(1, False), (3, True)])
def test_few_turned_prompts_are_noted_and_those_of_a_harness_that_maps_letters_are_not(
    n: int, maps_letters: bool
) -> None:
    item = LoggedItem(3, "Which box is heavy?", ("red", "green", "blue"), 1)
    listed = ["A. blue\nB. red\nC. green"] * n + ["A. red\nB. green\nC. blue"] * (3 - n)
    prompts = [Prompt(item, (f"Which box is heavy?\n{options}\nAnswer:",), ("",)) for options in listed]
    shown = decide_presentation("boxes.jsonl", "lm-eval", prompts, LogOptions(), maps_letters=maps_letters)
    assert ("some-options-in-two-orders" in [note.code for note in shown.notes]) is not maps_letters
