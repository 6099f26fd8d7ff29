"""Plain tables of picks, beside those of the corpus: marks and words, items in another file, and rules."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.reading.columns import NAMES
from robustify.reading.logs import LogOptions, gather, mapping, read_log
from robustify.reading.logs.tables.pick_rules import RULES, Profile, decide
from tests.support.fake_logs import boxes, sheet

DRESSED = {
    "bold": "**{mark}**", "dollars": "${mark}$", "boxed": r"\boxed{{{mark}}}", "with its text": "{mark}) {text}",
    "of two lines": "{mark}\nAnswer text: {text}", "announced": "The answer is ({mark}).", "its text": "{text}",
}  # fmt: skip


@pytest.mark.parametrize("dress", DRESSED)
@pytest.mark.parametrize("marks", ["ABCD", "abcd", "أبجد", "АБВГ", "ابتث", ["i", "ii", "iii", "iv"]])
def test_an_answer_counts_in_whatever_words_it_names_one_choice(
    tmp_path: Path, dress: str, marks: Sequence[str]
) -> None:
    picks = [(at + at % 3) % 4 for at in range(8)]
    rows = [
        {"model": "m", "question": item.stem, "options": json.dumps(item.choices), "key": marks[item.key],
         "pick": DRESSED[dress].format(mark=marks[pick], text=item.choices[pick]) if at % 2 else marks[pick]}
        for at, (item, pick) in enumerate(zip(boxes(8), picks, strict=True))
    ]  # fmt: skip
    table = gather([read_log(sheet(tmp_path / "a.csv", rows), LogOptions(view="full"))], None).answers.table
    assert table.select(["key", "pick"]).to_pydict() == {
        "key": [item.key for item in boxes(8)],
        "pick": picks,
    }


@pytest.mark.parametrize(
    ("key", "pick"),
    [("answer", "response"), ("ground_truth", "model_output"), ("correct_option", "selected_option"),
     ("gold_label", "generated_text"), ("correct_answer", "predicted_answer")],
)  # fmt: skip
def test_a_table_needs_no_map_for_the_columns_of_answers_that_scripts_write(
    tmp_path: Path, key: str, pick: str
) -> None:
    rows = [
        {
            "question": item.stem,
            "choices": json.dumps(item.choices),
            key: "ABCD"[item.key],
            "llm": "m",
            pick: "B",
        }
        for item in boxes(8)
    ]
    table = gather([read_log(sheet(tmp_path / "a.csv", rows), LogOptions(view="full"))], None).answers.table
    assert table.select(["key", "pick"]).to_pydict() == {
        "key": [item.key for item in boxes(8)],
        "pick": [1] * 8,
    }


def test_probabilities_become_logarithms(tmp_path: Path) -> None:
    rows = [
        {"q": item.stem, "a": item.choices[0], "b": item.choices[1], "x_pA": 0.9, "x_pB": 0.1, "x_picked": "A",
         "y_pA": 0.0, "y_pB": 1.0, "y_picked": "B"}
        for item in boxes(4)
    ]  # fmt: skip
    columns = mapping(("stem=q", "choices=a,b", "key==A", "pick=*_picked", "scores=*_pA,*_pB"))
    answers = gather([read_log(sheet(tmp_path / "a.csv", rows), LogOptions(columns=columns))], None).answers
    scores = [answers.block("full", model).scores[0].tolist() for model in "xy"]
    assert scores[0] == pytest.approx([-0.10536, -2.302585], abs=1e-5)
    assert scores[1] == pytest.approx([-27.631, 0.0], abs=1e-3)


def test_every_rule_of_a_table_has_a_name_and_a_reason_and_can_decide() -> None:
    assert {rule.part for rule in RULES} == {part[6:] for part in NAMES if part.startswith("picks.")}
    assert len({(rule.part, rule.name) for rule in RULES}) == len(RULES)
    assert all(rule.reason for rule in RULES)
    profile = Profile("a", ("alpha_pick", "beta_pick", "key", "A", "B", "who"), ({"who": {"id": 1}},))
    because = {"choices": "one column each", "id": "mapped", "key": "usual name", "pick": "per model"}
    assert decide(profile, {"id": "who.id"}).because == because
