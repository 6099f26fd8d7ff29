"""A name leaves a restricted run only if no word of it stands in an item, or the manifest lists it by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify.items.item import Item
from robustify.restricted.disclosure.item_words import ItemWords
from robustify.restricted.disclosure.released_page import read_released, released_lines
from robustify.restricted.restricted_folder import publish
from robustify.runs.run import Run
from tests.restricted.conftest import edit, manifest_of
from tests.support import restricted_run, restricted_set

ITEMS = [
    Item("a", "Which lamp glows blue, asked Ärzte?", ("a quiet brass kettle", "TB of 70 kg, thermometers"), 0),
    Item("b", "Who sailed on the ΘΑΛΑΣΣΟΒΡΥΧΟΣ?", ("a", "b"), 0),
]  # fmt: skip


LEAVING = ("harbours", "General questions", "unkettled", "sskett", "blue lamp")
WITHHELD = (
    "brass", "BRASS.", "Kettles", "arzte and others", "k\u200bettle", "kеttle", "knots: quiet", "x" * 61,
    "AQuietBrassKettle", "OfBrassAndTin", "xthermometersx", "quiet-brassk", "Θαλασσόβρυχος", "Blue lamp",
    "k&#101;ttle", "br%61ss", "k e t t l e", "ket<wbr>tle", "<br kettle>", "\\x6bettle",
)  # fmt: skip


@pytest.mark.parametrize("name", [*LEAVING, *WITHHELD])
def test_a_topic_leaves_without_words_of_items_or_by_hand(name: str) -> None:
    words = ItemWords.of(ITEMS, ["blue lamp", "x" * 61])
    assert words.shown(name, "topic 1") == (name if name in LEAVING else "topic 1")


@pytest.mark.parametrize("name", ["gemma3-70b", "Lamp-7B", "two words", "tb-70b"])
def test_the_size_of_a_model_is_no_word_of_an_item(name: str) -> None:
    assert ItemWords.of(ITEMS, ()).models([name]) == {name: name if name == "gemma3-70b" else "model 1"}


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, Run]]:
    """A run whose topics and names stand in its items, and the same run after the manifest listed them."""
    word = restricted_set.items(200)[0]["question"].split()[1]
    monkeypatch.setattr(restricted_run, "NAMES", (word, "stub-b"))
    told: dict[str, Any] = {"name": word, "models": [word, "stub-b"]}
    out = restricted_run.prepare(tmp_path, monkeypatch, topics=[])
    first = restricted_run.run(tmp_path, out / "run", restricted_run.config(**told))
    shown = publish(first, tmp_path / "first")
    topics = [*restricted_set.TOPICS, word]
    manifest = json.loads(manifest_of(tmp_path).read_text())
    edit(tmp_path, topics=topics)
    assert manifest["topics"] == []
    restricted_set.accept(tmp_path)
    second = restricted_run.run(tmp_path, out / "again", restricted_run.config(**told))
    assert word in (second.folder / "report.md").read_text("utf-8")
    assert shown.bits > 0
    return first, second


def test_no_name_with_a_word_of_an_item_is_in_what_leaves(hidden: tuple[Run, Run], tmp_path: Path) -> None:
    word = restricted_set.items(200)[0]["question"].split()[1]
    first, second = hidden
    leaving = [*(tmp_path / "first").iterdir(), *(first.folder / "lm_eval_tasks").iterdir()]
    text = "".join(path.name + path.read_text("utf-8") for path in leaving)
    text += "".join(released_lines(read_released(first), "RUN"))
    for name in (word, *restricted_set.TOPICS):
        assert name not in text, name
    assert "model 1: full question" in text
    assert f"set:{restricted_set.ADAPTER}|" in read_released(first).signature
    assert "topic 1" in read_released(first).replaced
    assert "model 1" in read_released(first).replaced
    assert read_released(second).replaced == ()


def test_the_topic_of_a_file_in_the_manifest_is_listed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restricted_run.prepare(tmp_path, monkeypatch, topics=[])
    word = restricted_set.items(200)[0]["question"].split()[1]
    manifest = json.loads(manifest_of(tmp_path).read_text())
    (file,) = manifest["data"]["files"]
    edit(tmp_path, data={**manifest["data"], "files": [{**file, "topic": word}]})
    restricted_set.accept(tmp_path)
    run = restricted_run.run(tmp_path, tmp_path / "out" / "run")
    assert read_released(run).replaced == ()


def test_a_name_that_is_listed_later_is_the_same_number(hidden: tuple[Run, Run], tmp_path: Path) -> None:
    assert publish(hidden[1], tmp_path / "second").bits == 0
