"""What the exports of data hold: a dataset folder, instructions to train on, and answers for item response models."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from robustify.base.errors import DataError
from robustify.export.balanced import cue_columns
from robustify.export.dataset import (
    BY_LETTER,
    WARNING,
    export_dataset,
    export_instruct,
    export_responses,
    mistral,
    write_instruct,
)
from robustify.export.writing import Heading
from robustify.freeform.questions import convert_item
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import listed_credit
from robustify.pipeline.from_logs import run_of_logs
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.reading.logs import LogPath
from robustify.runs.run import Run, open_run
from robustify.runs.stored import split_items
from robustify.wings import GUARD, free_rows
from tests.export.test_export_run import picked
from tests.support.cases import refuses
from tests.support.exported_run import lines, made_run, made_up
from tests.support.fake_archives import openeval
from tests.support.fake_logs import boxes

SPLITS = ("kept", "flagged", "undecided", "cloze")
WORDS = [
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch", "maple",
    "north", "ochre", "pearl",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    export_dataset(run, tmp_path_factory.mktemp("dataset") / "out")
    return tmp_path_factory.getbasetemp() / "dataset0" / "out"


def test_datasets_loads_the_folder_with_every_item(folder: Path, run: Run, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path))
    assert tuple(loaded) == SPLITS
    for split in SPLITS:
        theirs = [Item(**{**row, "choices": tuple(row["choices"])}) for row in loaded[split]]
        assert theirs == list(split_items(run.folder / f"{split}.jsonl", GUARD))


def test_the_card_says_its_numbers_and_no_text_of_an_item(folder: Path, run: Run, tmp_path: Path) -> None:
    card = (folder / "README.md").read_text("utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert "license" not in front
    assert "**No license is set.**" in card
    summary = run.summary.tree()
    for split in SPLITS:
        assert re.search(rf"\| `{split}` \| {summary['splits'][split]} \|", card)
    assert f"{100 * summary['screen']['flagged']['value']:.1f} %" in card
    assert summary["signature"] in card
    for item in run.items or ():
        assert not any(text in card for text in (item.stem, *(c for c in item.choices if len(c) > 4)))
    export_dataset(run, tmp_path / "out", license="cc-by-4.0")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-4.0"
    assert "No licence is set" not in card


def items_with(n: int, longest: float) -> list[Item]:
    """Four options of two to five random words; in a share of the items the key is the longest."""
    draw, made = np.random.default_rng(0), []
    for at in range(n):
        options = [
            " ".join([*draw.choice(WORDS, size), f"{at}{size}"]) for size in draw.permutation([2, 3, 4, 5])
        ]
        key = int(draw.integers(4))
        if draw.random() < longest:
            key = int(np.argmax([len(text) for text in options]))
        made.append(Item(f"i{at}", f"Question {at}?", tuple(options), key))
    return made


def test_no_length_rule_pays_in_the_balanced_subset(tmp_path: Path) -> None:
    items = items_with(400, longest=0.4)
    plain = made_run(tmp_path, items)
    export_dataset(plain, tmp_path / "out", kept=True)
    kept = load(Source(path=str(tmp_path / "out" / "balanced.parquet")), UNGUARDED).items
    assert 150 < len(kept) < 300
    assert {item.id for item in kept} < {item.id for item in items}
    for name, credit in listed_credit(items, ["longest_answer"]).items():
        assert credit.sum() > len(items) / 4 + 50, name
        assert abs(listed_credit(kept, [name])[name].sum() - len(kept) / 4) <= 0.5
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    off = re.search(rf"`balanced` \| {len(kept)} \| .* at most (\d\.\d\d) deviations", card)
    assert off
    assert float(off[1]) <= 0.5


def test_a_set_too_small_for_the_scorer_and_one_without_a_cue_are_exported(tmp_path: Path) -> None:
    few = made_run(tmp_path / "few", items_with(30, longest=0))
    assert cue_columns(few.items, few.answers) is None
    export_dataset(few, tmp_path / "a", kept=True)
    assert not (tmp_path / "a" / "balanced.parquet").exists()
    # Options of one length have no cue of length, so that hardly any item has to go.
    draw = np.random.default_rng(0)
    alike = [
        Item(f"i{at}", f"How many? {at}", tuple(f"{at}{n}" for n in "abcd"), int(draw.integers(4)))
        for at in range(100, 340)
    ]
    run = made_run(tmp_path / "alike", alike)
    export_dataset(run, tmp_path / "b", kept=True)
    kept = load(Source(path=str(tmp_path / "b" / "balanced.parquet")), UNGUARDED).items
    for name, credit in listed_credit(kept, ["longest_answer", "shortest_answer"]).items():
        assert credit.mean() == pytest.approx(0.25), name
    assert len(kept) > 180


def test_an_evil_name_ends_no_block(run: Run, tmp_path: Path) -> None:
    config = {**run.manifest["config"], "name": "x\n---\nlicense: mit\n# <script>"}
    evil = Run(run.folder, {**run.manifest, "config": config, "signature": "s```\nevil"}, run.guard)
    export_dataset(evil, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    _, front, body = card.split("---\n", 2)
    assert "license" not in yaml.safe_load(front)
    assert "<script>" not in body
    assert (body.rstrip().splitlines()[-1], body.rstrip().splitlines()[-3]) == ("```", "```text")


HEADING = Heading("made-up", "s", "passed")


def test_the_text_is_mistral_s_and_an_empty_input_leaves_no_blank_line() -> None:
    assert mistral("Say it.", "This.", "That.") == "[INST] Say it.\n\nThis. [/INST] That."
    assert mistral("Say it.", "", "That.") == "[INST] Say it. [/INST] That."


def test_with_choices_the_output_is_the_letter_of_the_key(run: Run, tmp_path: Path) -> None:
    export_instruct(run, tmp_path / "out", free_rows)
    assert WARNING in (tmp_path / "out" / "README.md").read_text()
    items = list(split_items(run.folder / "kept.jsonl", GUARD))
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
    export_instruct(run, tmp_path / "out", free_rows, form="free", split="cloze")
    items = {i.id: i for i in split_items(run.folder / "cloze.jsonl", GUARD)}
    asked = {name for name, item in items.items() if not convert_item(item).excluded_reason}
    fields = lines(tmp_path / "out" / "instruct.jsonl")
    assert {f["id"] for f in fields} == asked
    for field in fields:
        asks = items[str(field["id"])]
        told = (field["instruction"], field["input"], field["output"])
        assert told == (asks.stem, "", asks.choices[asks.key])
    assert f"{len(asked)} of {len(items)} items" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("mark", ["[/INST]", "[inst]", "</s>", "<s>"])
def test_an_item_that_holds_a_mark_is_refused_by_its_id_alone_and_a_split_without_items(
    tmp_path: Path, mark: str
) -> None:
    items = made_up(4)
    items[2] = replace(items[2], stem=f"Which word ends {mark} here?")
    with pytest.raises(DataError, match=r"^i2: ") as told:
        write_instruct(tmp_path, HEADING, items, "mcq", free_rows)
    assert "Which word" not in str(told.value)
    with refuses("no-suitable-item"):
        write_instruct(tmp_path, HEADING, [], "mcq", free_rows)
    assert list(tmp_path.iterdir()) == []


REPLIES = {"alpha": ["A", "B", "C", "D", "A", "B"], "beta": ["A", "A", "not sure", "A", "A"]}


@pytest.fixture
def imported(tmp_path: Path) -> Run:
    (archive,) = openeval(tmp_path, boxes(), REPLIES)
    return run_of_logs([LogPath(archive)], tmp_path / "run", GUARD)


def test_answers_are_written_for_py_irt_and_as_a_matrix(imported: Run, tmp_path: Path) -> None:
    paths = export_responses(imported, tmp_path / "irt")
    assert [path.name for path in paths] == ["py_irt.jsonlines", "responses.csv"]
    lines = [json.loads(line) for line in paths[0].read_text().splitlines()]
    items = list(imported.answers.items)
    assert lines == [
        {"subject_id": "alpha", "responses": dict.fromkeys(items, 1)},
        {"subject_id": "beta", "responses": dict(zip([items[at] for at in (0, 1, 3, 4)], (1, 0, 0, 1), strict=True))},
    ]  # fmt: skip
    matrix = pd.read_csv(paths[1], index_col="model")
    assert list(matrix.columns) == items
    assert list(matrix.index) == ["alpha", "beta"]
    assert matrix.loc["beta"].isna().tolist() == [False, False, True, False, False, True]
    assert matrix.sum(axis=1).tolist() == [6, 2]


def test_a_run_without_the_full_question_and_a_restricted_run_are_refused(
    tmp_path: Path, restricted: Path
) -> None:
    with refuses("no-full-answers"):
        export_responses(picked(tmp_path), tmp_path / "irt")
    with refuses("restricted-run"):
        export_responses(open_run(restricted / "out" / "run", GUARD), tmp_path / "irt")
    assert not (tmp_path / "irt").exists()
