"""Findings on the lines of the file that was audited."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import pytest

from robustify.export.sarif import export_sarif
from robustify.report.explaining import explained
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD
from tests.export.test_export_run import labelled
from tests.support.cases import refuses
from tests.support.command import invoked
from tests.support.exported_run import made_up


def results_of(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text("utf-8"))["runs"][0]["results"])


def test_every_flagged_item_is_shown_on_its_line(run: Run, tmp_path: Path) -> None:
    data, path = run.folder.parent / "items.jsonl", tmp_path / "findings.sarif"
    said = export_sarif(run, path, [data])
    assert said == [f"{path}: findings {len(results_of(path))}"]
    lines, shown = data.read_text("utf-8").splitlines(), set()
    for one in results_of(path):
        place = one["locations"][0]["physicalLocation"]
        item = json.loads(lines[place["region"]["startLine"] - 1])["id"]
        assert one["message"]["text"].startswith(f"{item}: ")
        assert place["artifactLocation"]["uri"].endswith("items.jsonl")
        if one["ruleId"].startswith("flagged/"):
            shown.add(item)
            assert explained(run, item)[0]["mends"][0] in one["message"]["text"]
    assert shown == {item for item, verdict in run.verdicts.items() if verdict == "flagged"}


def test_other_bytes_than_those_audited_and_a_restricted_run_are_refused(run: Run, tmp_path: Path) -> None:
    changed = tmp_path / "items.jsonl"
    changed.write_text("\n" + (run.folder.parent / "items.jsonl").read_text("utf-8"))
    for of, files, code in (
        (run, [changed], "other-data"),
        (labelled(run, "restricted"), [], "restricted-run"),
    ):
        with refuses(code):
            export_sarif(of, tmp_path / "x.sarif", files)
    assert not (tmp_path / "x.sarif").exists()


@pytest.mark.parametrize(
    "name", ["a b.jsonl", "50%20.jsonl", "a#b?c&d.jsonl", "a:b.jsonl", "ä/ü [1].jsonl", "x\\y.jsonl"]
)
def test_an_address_names_the_file_whatever_its_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    shutil.copy(run.folder.parent / "items.jsonl", name)
    export_sarif(run, Path("x.sarif"), [Path(name)])
    found = results_of(Path("x.sarif"))
    (uri,) = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in found}
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri)
    assert unquote(urljoin("file:///repository/", uri)) == f"file:///repository/{name}"


def test_files_of_one_name_keep_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    items = made_up()
    paths = [Path("a/items.jsonl"), Path("b/items.jsonl")]
    for path, part in zip(paths, (items[:40], items[40:]), strict=True):
        path.parent.mkdir()
        write_items(path, [replace(i, choices=(*i.choices[:-1], i.choices[0])) for i in part])
    Path("c.yaml").write_text("name: two\nsensitivity: public\ndata: [a/items.jsonl, b/items.jsonl]\n")
    invoked("run", "c.yaml", "-o", "run")
    export_sarif(open_run(Path("run"), GUARD), Path("x.sarif"), paths)
    defects = [one for one in results_of(Path("x.sarif")) if one["ruleId"].startswith("defect/")]
    places = [one["locations"][0]["physicalLocation"] for one in defects]
    shown = {(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places}
    assert shown == {
        (f"{name}/items.jsonl", n + 1) for name, size in (("a", 40), ("b", 20)) for n in range(size)
    }
