"""The data set folder: loaded offline by `datasets`, described by Croissant, and its card tells no more than is known."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from robustify.errors import DataError
from robustify.export.dataset_folder import NO_ADDRESS, NOT_SET, croissant, write_hf
from robustify.export.heading import Heading, Publication
from robustify.export.writing import export_hf
from robustify.item import Item
from robustify.report.reasons import guardrail_sentence
from robustify.run import Run, split_items
from tests.support.exported_run import TOPICS

SPLITS = ("robust", "shortcut", "undecided", "cloze")
PUBLISHED = Publication("cc-by-4.0", "https://example.org/set", "The authors", "2026-01-31")
CHECK = os.environ.get("ROBUSTIFY_TEST_CROISSANT_PYTHON") or (
    sys.executable if importlib.util.find_spec("mlcroissant") else None
)


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hf") / "out"
    export_hf(run, place, about=Publication(published="2026-01-31"))
    return place


def front(folder: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((folder / "README.md").read_text("utf-8").split("---\n")[1]))


def body(folder: Path) -> str:
    return (folder / "README.md").read_text("utf-8").split("---\n", 2)[2]


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_datasets_loads_the_folder_offline_with_every_item(folder: Path, run: Run, tmp_path: Path) -> None:
    code = (
        "import json, sys, datasets; d = datasets.load_dataset(sys.argv[1]); "
        "print(json.dumps({'features': {k: str(v) for k, v in d['robust'].features.items()}, "
        "'rows': {s: d[s].to_list() for s in d}}))"
    )
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert list(told["rows"]) == list(SPLITS)
    for split, rows in told["rows"].items():
        ours = list(split_items(run.folder / f"{split}.jsonl"))
        theirs = [
            Item(r["id"], r["stem"], tuple(r["choices"]), r["key"], r["topic"], r["group"]) for r in rows
        ]
        assert theirs == ours
    assert told["features"]["key"] == "Value('int64')"
    assert told["features"]["choices"].startswith(("List(Value('string')", "Sequence("))


def test_the_head_of_the_card_agrees_with_the_files(folder: Path) -> None:
    head = front(folder)
    files = {d["split"]: d["path"] for d in head["configs"][0]["data_files"]}
    assert tuple(files) == SPLITS
    rows = {split: pq.read_metadata(folder / path).num_rows for split, path in files.items()}
    assert {s["name"]: s["num_examples"] for s in head["dataset_info"]["splits"]} == rows
    names = [f["name"] for f in head["dataset_info"]["features"]]
    assert names == pq.read_schema(folder / files["robust"]).names
    assert head["dataset_info"]["download_size"] == sum((folder / p).stat().st_size for p in files.values())


def test_the_licence_is_the_author_s(folder: Path, run: Run, tmp_path: Path) -> None:
    assert "license" not in front(folder)
    assert "**No licence is set.**" in body(folder)
    assert json.loads((folder / "croissant.json").read_text())["license"] == NOT_SET
    export_hf(run, tmp_path / "out", about=PUBLISHED)
    assert front(tmp_path / "out")["license"] == "cc-by-4.0"
    assert "No licence is set" not in body(tmp_path / "out")
    tree = json.loads((tmp_path / "out" / "croissant.json").read_text())
    assert (tree["license"], tree["url"], tree["creator"]["name"]) == (
        "cc-by-4.0",
        PUBLISHED.url,
        "The authors",
    )


def test_the_card_prints_the_numbers_of_the_summary(folder: Path, run: Run) -> None:
    text, typed = body(folder).replace("\\", ""), run.summary
    summary = typed.tree()
    assert summary["signature"] in text
    flagged = summary["screen"]["flagged"]
    lo, hi = (100 * end for end in flagged["ci"])
    assert f"removed: {100 * flagged['value']:.1f} % (n = {flagged['n']}, {lo:.1f} to {hi:.1f})" in text
    for split in SPLITS:
        assert re.search(rf"\| `{split}` \| {summary['splits'][split]} \|", text)
    for guardrail in typed.guardrails:
        assert guardrail_sentence(guardrail) in text
    for topic, entry in summary["topics"]["by_topic"].items():
        assert f"| {entry['before']} | {entry['after']} |" in text, topic


def test_no_item_s_text_stands_on_the_card_or_in_the_metadata(folder: Path, run: Run) -> None:
    told = (folder / "README.md").read_text("utf-8") + (folder / "croissant.json").read_text("utf-8")
    for item in run.items or ():
        assert not any(text in told for text in (item.stem, *(c for c in item.choices if len(c) > 4)))


def test_names_are_no_markup(folder: Path) -> None:
    text = body(folder)
    assert "<b>" not in text.replace("\\<b\\>", "")
    cells = [line for line in text.splitlines() if "bold" in line]
    assert cells
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in cells)
    assert any(line.startswith("| =cmd\\|") for line in text.splitlines()), TOPICS[2]


def test_an_evil_benchmark_name_ends_no_block(run: Run, tmp_path: Path) -> None:
    heading = Heading("x\n---\nlicense: mit\n# <script>", "s```\nevil", "w\n# big")
    (tmp_path / "out").mkdir()
    write_hf(tmp_path / "out", heading, run.summary, {"robust": list(run.items or ())}, Publication())
    assert "license" not in front(tmp_path / "out")
    assert "<script>" not in body(tmp_path / "out")
    fence = body(tmp_path / "out").rstrip().splitlines()
    assert (fence[-1], fence[-3]) == ("```", "```text")
    assert "\n# big" not in body(tmp_path / "out")


def test_a_split_without_items_has_no_file_and_none_at_all_is_refused(run: Run, tmp_path: Path) -> None:
    items = list(run.items or ())
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    heading = Heading("x", "s")
    write_hf(tmp_path / "a", heading, run.summary, {"robust": items, "undecided": []}, Publication())
    assert [p.name for p in (tmp_path / "a" / "data").iterdir()] == ["robust.parquet"]
    with pytest.raises(DataError, match="no split holds an item"):
        write_hf(tmp_path / "b", heading, run.summary, {"robust": []}, Publication())
    half = [replace(items[0], topic="half \ud800")]
    with pytest.raises(DataError, match=r"^i\d+: holds half of a surrogate pair"):
        write_hf(tmp_path / "c", heading, run.summary, {"robust": half}, Publication())


def test_the_metadata_has_what_croissant_1_0_requires(folder: Path) -> None:
    tree = json.loads((folder / "croissant.json").read_text("utf-8"))
    required = {"@context", "@type", "conformsTo", "description", "license", "name", "url", "creator"}
    assert required | {"datePublished"} <= {name for name, value in tree.items() if value}
    assert (tree["@type"], tree["conformsTo"]) == ("sc:Dataset", "http://mlcommons.org/croissant/1.0")
    assert tree["url"] == NO_ADDRESS
    schemas = {}
    for file in tree["distribution"]:
        assert file["@type"] == "cr:FileObject"
        assert {"@id", "name", "contentUrl", "encodingFormat", "sha256"} <= set(file)
        assert hashlib.sha256((folder / file["contentUrl"]).read_bytes()).hexdigest() == file["sha256"]
        schemas[file["@id"]] = pq.read_schema(folder / file["contentUrl"])
    assert [r["@id"] for r in tree["recordSet"]] == list(SPLITS)
    for records in tree["recordSet"]:
        assert records["@type"] == "cr:RecordSet"
        fields = {f["@id"]: f for f in records["field"]}
        assert records["key"]["@id"] in fields
        for field in fields.values():
            assert {"@type", "@id", "name", "description", "dataType", "source"} <= set(field)
            schema = schemas[field["source"]["fileObject"]["@id"]]
            column = schema.field(field["source"]["extract"]["column"])
            assert (field.get("repeated") is True) == (str(column.type) == "list<element: string>")
            assert (field["dataType"] == "sc:Integer") == (str(column.type) == "int64")


def test_a_date_that_nobody_gave_is_left_out() -> None:
    assert "datePublished" not in croissant(Heading("x", "s"), {}, Publication())


@pytest.mark.skipif(
    CHECK is None, reason="mlcroissant is not here (ROBUSTIFY_TEST_CROISSANT_PYTHON names a Python)"
)
def test_mlcroissant_reads_the_metadata_and_every_record(run: Run, tmp_path: Path) -> None:
    export_hf(run, tmp_path / "out", about=PUBLISHED)
    code = (
        "import json, sys, mlcroissant as m; d = m.Dataset(jsonld=sys.argv[1]); "
        "print(json.dumps([sorted(d.metadata.issues.errors), "
        "{r.id: [x[f'{r.id}/id'].decode() for x in d.records(r.id)] for r in d.metadata.record_sets}]))"
    )
    done = subprocess.run(
        [str(CHECK), "-c", code, str(tmp_path / "out" / "croissant.json")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    errors, ids = json.loads(done.stdout.splitlines()[-1])
    assert errors == []
    assert ids == {s: [i.id for i in split_items(run.folder / f"{s}.jsonl")] for s in SPLITS}
