"""Plain tables of picks, beside those of the corpus: marks and words, items in another file, and rules."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load
from robustify.reading.logs import Log, LogOptions, gather, mapping, read_log
from robustify.reading.logs.gathered import rotation_groups
from robustify.reading.logs.pick_rules import RULES, Profile, decide
from robustify.reading.vocabulary import NAMES
from robustify.runs.run import write_items
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


MIXED = [*boxes(3, 2), *(replace(item, id=f"c{item.id}", stem=f"Or {item.stem}") for item in boxes(3, 5))]


def by_id(path: Path, **changed: object) -> Log:
    rows = [{"model": "m", "id": item.id, "pick": "ABCDE"[item.key], **changed} for item in MIXED]
    return read_log(sheet(path, rows), LogOptions(view="full", keyed=True))


def bench(tmp_path: Path) -> Loaded:
    write_items(tmp_path / "items.jsonl", MIXED)
    return load(Source(path=str(tmp_path / "items.jsonl")), UNGUARDED)


def test_rows_with_ids_need_no_number_of_choices_where_the_items_are_given(tmp_path: Path) -> None:
    gathered = gather([by_id(tmp_path / "a.csv")], bench(tmp_path))
    assert gathered.answers.block("full", "m").correct.tolist() == [1.0] * 6
    assert not gathered.set_aside
    # A letter beyond an item's own choices names none of them.
    gathered = gather([by_id(tmp_path / "b.csv", pick="C")], bench(tmp_path))
    assert gathered.answers.block("full", "m").pick.tolist() == [-1] * 3 + [2] * 3


def test_a_key_that_contradicts_the_item_of_its_id_is_refused_by_line(tmp_path: Path) -> None:
    log = by_id(tmp_path / "a.csv", key="A")
    with pytest.raises(DataError) as error:
        gather([log], bench(tmp_path))
    wrong = [n for n, item in enumerate(MIXED, start=2) if item.key]
    assert [line.split(": ")[0] for line in error.value.lines] == [f"a.csv:{n}" for n in wrong]
    assert {*error.value.codes} == {"other-item"}
    assert [row.line for row in gather([log], bench(tmp_path), skip_bad=True).set_aside] == wrong


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


@pytest.mark.parametrize(
    ("names", "bases"),
    [
        (["0", "1", "1000000", "1000001", "2000000"],
         {"0": "0", "1000000": "0", "2000000": "0", "1": "1", "1000001": "1"}),
        (["q1_rot0", "q1_rot1", "q2_rot0"], {"q1_rot0": "q1", "q1_rot1": "q1"}),
        (["a-perm1", "a-perm2"], {"a-perm1": "a", "a-perm2": "a"}),
        (["q1-01", "q1-02", "order-1", "border1"], {}),
        (["5", "1000007", "2000009"], {}),
    ],
)  # fmt: skip
def test_ids_of_rotated_copies_are_one_group(tmp_path: Path, names: list[str], bases: dict[str, str]) -> None:
    assert rotation_groups(names) == bases
    rows = [
        {"model": "m", "view": "full", "item": name, "key": "AB"[at % 2], "pick": "A"}
        for at, name in enumerate(names)
    ]
    assert gather([read_log(sheet(tmp_path / "a.csv", rows), LogOptions())], None).groups == bases
