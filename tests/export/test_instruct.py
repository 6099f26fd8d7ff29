"""Instructions to train on: Mistral's text to the letter, and nothing that ends it early."""

from dataclasses import replace
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.export.instruct import BY_LETTER, WARNING, export_instruct, mistral, write_instruct
from robustify.export.writing import Heading
from robustify.freeform.questions import convert_item
from robustify.runs.run import Run
from robustify.runs.stored import split_items
from tests.support.exported_run import lines, made_up

HEADING = Heading("made-up", "s", "passed")


def test_the_text_is_mistral_s_and_an_empty_input_leaves_no_blank_line() -> None:
    assert mistral("Say it.", "This.", "That.") == "[INST] Say it.\n\nThis. [/INST] That."
    assert mistral("Say it.", "", "That.") == "[INST] Say it. [/INST] That."


def test_with_choices_the_output_is_the_letter_of_the_key(run: Run, tmp_path: Path) -> None:
    export_instruct(run, tmp_path / "out")
    assert WARNING in (tmp_path / "out" / "README.md").read_text()
    items = list(split_items(run.folder / "kept.jsonl"))
    fields, texts = (lines(tmp_path / "out" / f"{name}.jsonl") for name in ("instruct", "mistral"))
    assert [f["id"] for f in fields] == [t["id"] for t in texts] == [i.id for i in items]
    for item, field, text in zip(items, fields, texts, strict=True):
        assert field["instruction"] == BY_LETTER
        shown = str(field["input"]).splitlines()
        assert shown[0] == item.stem
        assert f"{field['output']}. {item.choices[item.key]}" in shown
        assert len(shown) == item.k + 2
        assert text["text"] == f"[INST] {BY_LETTER}\n\n{field['input']} [/INST] {field['output']}"


def test_without_choices_there_is_no_input_and_what_cannot_be_asked_is_counted(
    run: Run, tmp_path: Path
) -> None:
    export_instruct(run, tmp_path / "out", form="free", split="cloze")
    items = {i.id: i for i in split_items(run.folder / "cloze.jsonl")}
    asked = {name for name, item in items.items() if not convert_item(item).excluded_reason}
    fields = lines(tmp_path / "out" / "instruct.jsonl")
    assert {f["id"] for f in fields} == asked
    for field in fields:
        item = items[str(field["id"])]
        assert (field["instruction"], field["input"], field["output"]) == (
            item.stem,
            "",
            item.choices[item.key],
        )
    assert f"{len(asked)} of {len(items)} items" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("mark", ["[/INST]", "[inst]", "</s>", "<s>"])
def test_an_item_that_holds_a_mark_is_refused_by_its_id_alone(tmp_path: Path, mark: str) -> None:
    items = made_up(4)
    items[2] = replace(items[2], stem=f"Which word ends {mark} here?")
    with pytest.raises(DataError, match=r"^i2: contains a marker of Mistral's format") as told:
        write_instruct(tmp_path, HEADING, items, "mcq")
    assert "Which word" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_split_without_items_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this split has no suitable item"):
        write_instruct(tmp_path, HEADING, [], "mcq")
