"""The dataset folder is loaded by `datasets` offline, and its card holds numbers but no text of an item."""

import re
from pathlib import Path

import pytest
import yaml

from robustify.export.dataset import export_dataset
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import listed_credit
from robustify.reading.loaders import Source, load
from robustify.runs.run import Run
from robustify.runs.stored import split_items
from tests.judging.test_adjusted import items_with
from tests.support.exported_run import made_run

SPLITS = ("kept", "flagged", "undecided", "cloze")


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
        assert theirs == list(split_items(run.folder / f"{split}.jsonl"))


def test_the_card_says_its_numbers_and_no_text_of_an_item(folder: Path, run: Run, tmp_path: Path) -> None:
    card = (folder / "README.md").read_text("utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert "license" not in front
    assert "**No licence is set.**" in card
    summary = run.summary.tree()
    for split in SPLITS:
        assert re.search(rf"\| `{split}` \| {summary['splits'][split]} \|", card)
    assert f"{100 * summary['screen']['flagged']['value']:.1f} %" in card
    assert summary["signature"] in card
    for item in run.items or ():
        assert not any(text in card for text in (item.stem, *(c for c in item.choices if len(c) > 4)))
    export_dataset(run, tmp_path / "out", licence="cc-by-4.0")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-4.0"
    assert "No licence is set" not in card


def test_no_length_rule_pays_in_the_balanced_subset(tmp_path: Path) -> None:
    items = items_with(400, longest=0.4)
    plain = made_run(tmp_path, items)
    export_dataset(plain, tmp_path / "out", kept=True)
    kept = load(Source(path=str(tmp_path / "out" / "balanced.parquet"))).items
    assert 150 < len(kept) < 300
    assert {item.id for item in kept} < {item.id for item in items}
    for name, credit in listed_credit(items, ["longest_answer"]).items():
        assert credit.sum() > len(items) / 4 + 50, name
        assert abs(listed_credit(kept, [name])[name].sum() - len(kept) / 4) <= 0.5
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    off = re.search(rf"`balanced` \| {len(kept)} \| .* at most (\d\.\d\d) deviations", card)
    assert off
    assert float(off[1]) <= 0.5


def test_an_evil_name_ends_no_block(run: Run, tmp_path: Path) -> None:
    config = {**run.manifest["config"], "name": "x\n---\nlicense: mit\n# <script>"}
    evil = Run(run.folder, {**run.manifest, "config": config, "signature": "s```\nevil"})
    export_dataset(evil, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    _, front, body = card.split("---\n", 2)
    assert "license" not in yaml.safe_load(front)
    assert "<script>" not in body
    assert (body.rstrip().splitlines()[-1], body.rstrip().splitlines()[-3]) == ("```", "```text")
