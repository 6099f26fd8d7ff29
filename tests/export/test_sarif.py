"""Findings on the lines of the file that was audited."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import pytest

from robustify.base.errors import AuthorisationError, DataError
from robustify.export.sarif import export_sarif
from robustify.report.explaining import explained
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD
from tests.support.command import invoked
from tests.support.exported_run import made_up


@pytest.fixture(scope="module")
def tree(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("sarif") / "findings.sarif"
    said = export_sarif(run, path, [run.folder.parent / "items.jsonl"])
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert said == [f"{path}: findings {len(found['runs'][0]['results'])}"]
    return found


def test_every_flagged_item_is_shown_on_its_line(tree: dict[str, Any], run: Run) -> None:
    lines = (run.folder.parent / "items.jsonl").read_text("utf-8").splitlines()
    shown = {}
    for one in tree["runs"][0]["results"]:
        place = one["locations"][0]["physicalLocation"]
        item = json.loads(lines[place["region"]["startLine"] - 1])["id"]
        assert one["message"]["text"].startswith(f"{item}: ")
        assert place["artifactLocation"]["uri"].endswith("items.jsonl")
        if one["ruleId"].startswith("flagged/"):
            shown[item] = one
            assert explained(run, item)[0]["mends"][0] in one["message"]["text"]
    assert set(shown) == {item for item, verdict in run.verdicts.items() if verdict == "flagged"}


def test_other_bytes_than_those_audited_are_refused(run: Run, tmp_path: Path) -> None:
    changed = tmp_path / "items.jsonl"
    changed.write_text("\n" + (run.folder.parent / "items.jsonl").read_text("utf-8"))
    with pytest.raises(DataError, match="differs from the data"):
        export_sarif(run, tmp_path / "x.sarif", [changed])
    assert not (tmp_path / "x.sarif").exists()


def test_a_restricted_run_has_no_findings(run: Run, tmp_path: Path) -> None:
    config = {**run.manifest["config"], "sensitivity": "restricted"}
    with pytest.raises(AuthorisationError):
        export_sarif(Run(run.folder, {**run.manifest, "config": config}, run.guard), tmp_path / "x.sarif", [])


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
    results = json.loads(Path("x.sarif").read_text("utf-8"))["runs"][0]["results"]
    (uri,) = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results}
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri)
    assert unquote(urljoin("file:///repository/", uri)) == f"file:///repository/{name}"


def test_files_of_one_name_keep_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    items = made_up()
    for folder, part in (("a", items[:40]), ("b", items[40:])):
        Path(folder).mkdir()
        write_items(
            Path(folder, "items.jsonl"), [replace(i, choices=(*i.choices[:-1], i.choices[0])) for i in part]
        )
    config = "name: two\nsensitivity: public\ndata: [a/items.jsonl, b/items.jsonl]\n"
    Path("c.yaml").write_text(config)
    invoked("run", "c.yaml", "-o", "run")
    export_sarif(
        open_run(Path("run"), GUARD), Path("x.sarif"), [Path("a/items.jsonl"), Path("b/items.jsonl")]
    )
    results = json.loads(Path("x.sarif").read_text("utf-8"))["runs"][0]["results"]
    places = [
        one["locations"][0]["physicalLocation"] for one in results if one["ruleId"].startswith("defect/")
    ]
    shown = {(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places}
    assert shown == {
        (f"{name}/items.jsonl", n + 1) for name, n_rows in (("a", 40), ("b", 20)) for n in range(n_rows)
    }
