"""Real benchmark files, where they are present: every one is read as its manifest says, or refused by name.

Nothing of their text stands here; a machine without them skips this file with a reason.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError
from robustify.base.texts import folded
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, describe, load
from tests.support.cases import contents, refuses

FILES = contents("real_files")
LAYOUTS, REFUSED = FILES["layouts"], FILES["refused"]


def manifest(data: Path) -> dict[str, Mapping[str, Any]]:
    entries = json.loads((data / "MANIFEST.json").read_text(encoding="utf-8"))["entries"]
    return {entry["file"]: entry for entry in entries}


def opened(data: Path, file: str) -> Loaded:
    return load(Source(path=str(data / file)), UNGUARDED)


def test_every_file_of_the_manifest_that_is_no_prediction_is_accounted_for(data: Path) -> None:
    files = {name for name, entry in manifest(data).items() if entry["kind"] in ("items", "format")}
    assert files <= set(LAYOUTS) | set(REFUSED)


@pytest.mark.parametrize("file", LAYOUTS)
def test_rows_option_counts_and_digest_are_the_manifests(data: Path, file: str) -> None:
    entry = manifest(data).get(file, {})
    loaded = opened(data, file)
    assert loaded.layout == LAYOUTS[file]
    assert loaded.quarantined == ()
    assert len({item.id for item in loaded.items}) == len(loaded.items)
    assert list(loaded.lines) == sorted(set(loaded.lines))
    if "rows" in entry:
        assert len(loaded.items) == entry["rows"]
    if "option_counts" in entry:
        assert describe(loaded)["option_counts"] == entry["option_counts"]
    if entry:
        assert loaded.sha256 == entry["sha256"]


@pytest.mark.parametrize("file", REFUSED)
def test_what_holds_no_items_is_refused_by_name(data: Path, file: str) -> None:
    with refuses(REFUSED[file]) as refusal:
        opened(data, file)
    assert str(refusal.value).startswith(Path(file).name)


def test_predictions_are_not_taken_for_items(data: Path) -> None:
    files = [name for name, entry in manifest(data).items() if entry["kind"] not in ("items", "format")]
    assert files
    for file in files:
        with pytest.raises(DataError) as refusal:
            opened(data, file)
        assert refusal.value.code in ("no-usual-column", "no-key-column")


def test_commonsenseqa_has_24_items_with_two_equal_choices_and_in_6_of_them_it_is_the_key(data: Path) -> None:
    found = opened(data, "commonsenseqa/dev_rand_split.jsonl").defects
    equal, keys = (
        {d.item for d in found if d.kind == kind} for kind in ("repeated_choice", "repeated_key_text")
    )
    assert (len(equal), len(keys), len(found)) == (24, 6, 30)
    assert keys <= equal


def as_written(item: Item) -> tuple[str, tuple[str, ...], int]:
    return folded(item.stem), tuple(map(folded, item.choices)), item.key


def test_two_layouts_of_one_benchmark_give_the_same_items(data: Path) -> None:
    nested = opened(data, "arc/ARC-Challenge-Test.jsonl").items
    folder = opened(data, "formats/arc_challenge_hf_arrow").items
    assert {item.id: as_written(item) for item in nested} == {item.id: as_written(item) for item in folder}
    plain = opened(data, "openbookqa/openbook_qa.jsonl").items
    prose = opened(data, "formats/instruction_openbookqa.json").items
    assert [as_written(item) for item in plain] == [as_written(item) for item in prose]


def test_arc_keys_follow_labels_of_both_kinds(data: Path) -> None:
    path = data / "arc" / "ARC-Challenge-Test.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().decode("utf-8").split("\n") if line]
    by_id = {item.id: item for item in opened(data, "arc/ARC-Challenge-Test.jsonl").items}
    assert {row["answerKey"] for row in rows} >= set("ABCD1234")
    for row in rows:
        item, choices = by_id[row["id"]], row["question"]["choices"]
        assert [item.choices[item.key]] == [c["text"] for c in choices if c["label"] == row["answerKey"]]


def test_prompts_around_stems_are_gone_and_gaps_are_there(data: Path) -> None:
    assert not any(item.stem.startswith("Question:") for item in opened(data, "arc/arc_easy.jsonl").items)
    gaps = opened(data, "formats/winogrande_context_options.jsonl").items
    assert all(item.stem.split().count("_") == 1 for item in gaps)
    # "A." can begin an option for another reason: people in these puzzles are called A, B and C.
    for item in opened(data, "formats/logiqa_8_line_blocks.txt").items:
        assert not any(
            choice.startswith(f"{letter}.") for choice, letter in zip(item.choices[1:], "BCD", strict=True)
        )
