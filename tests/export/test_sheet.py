"""The sheet of a run, whose facts come from the places that it names, and findings on the lines of the audited file."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import pytest

from robustify.base.errors import UsageError
from robustify.export.sarif import export_sarif
from robustify.export.sheet import FILES, criteria_table, find, read_answers, write_sheet
from robustify.reading.guard import UNGUARDED
from robustify.report.explaining import explained
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD
from tests.export.test_export_run import labelled
from tests.support.cases import cases, refuses
from tests.support.command import invoked
from tests.support.exported_run import made_run, made_up

KEYS = {"name", "group", "of", "asks", "provide", "facts", "released", "private"}
GROUPS = (
    "Threat relevance", "Construction and scoring", "Elicitation", "Performance", "Baselines", "Interpretation",
)  # fmt: skip


def sheet(run: Run, folder: Path, **answers: str) -> dict[str, Any]:
    folder.mkdir()
    write_sheet(folder, run, answers)
    tree: dict[str, Any] = json.loads((folder / FILES[0]).read_text(encoding="utf-8"))
    return tree


def test_the_table_has_only_its_keys_and_stands_in_the_order_of_the_groups() -> None:
    criteria = criteria_table()["criteria"]
    assert len({one["name"] for one in criteria}) == len(criteria)
    assert tuple(dict.fromkeys(one["group"] for one in criteria)) == GROUPS
    for one in criteria:
        assert set(one) <= KEYS, one["name"]
        assert {len(fact) for fact in one.get("facts", ())} <= {3, 4}, one["name"]
        assert all(any(of.startswith(source) for source in criteria_table()["sources"]) for of in one["of"])


def test_every_fact_stands_where_the_sheet_says_and_changes_with_it(tmp_path: Path) -> None:
    run = made_run(tmp_path / "made")
    tree = sheet(run, tmp_path / "sheet")
    facts = [fact for one in tree["criteria"] for fact in one["facts"]]
    assert len(facts) >= 15
    for fact in facts:
        place = tmp_path / "made" / "run" / fact["file"]
        assert find(json.loads(place.read_text()), fact["path"]) == fact["value"], fact["path"]
    places = {"run.json": {("data", "n_items"): 4321}, "summary.json": {("splits", "flagged"): 1234}}
    for file, edits in places.items():
        for (part, name), value in edits.items():
            held = json.loads((run.folder / file).read_text())
            held[part][name] = value
            (run.folder / file).write_text(json.dumps(held))
    sheet(Run(run.folder, run.manifest, run.guard), tmp_path / "again")
    for name in FILES:
        text = (tmp_path / "again" / name).read_text(encoding="utf-8")
        assert [number for number in ("4321", "1234") if number not in text] == [], name


def test_what_only_people_know_is_said_or_asked_for(tmp_path: Path) -> None:
    run = made_run(tmp_path / "made")
    tree = sheet(run, tmp_path / "sheet", capability="Sorting <b>marbles</b> | by *colour*.", items="Sixty.")
    by_name = {one["name"]: one for one in tree["criteria"]}
    assert by_name["capability"]["answer"].startswith("Sorting")
    assert by_name["items"]["facts"]
    open_ones = [one for one in tree["criteria"] if not one["answer"] and not one["facts"]]
    assert {"thresholds", "human_baseline", "date", "cost"} <= {one["name"] for one in open_ones}
    page, text = ((tmp_path / "sheet" / name).read_text(encoding="utf-8") for name in FILES[:0:-1])
    assert page.count("Not provided.") == text.count("Not provided.") == len(open_ones)
    assert "<b>marbles" not in page
    assert r"\<b\>marbles" in text


@pytest.mark.parametrize(("content", "code", "named"), cases("export", "sheet_names"))
def test_an_unknown_name_is_refused_with_the_closest_one(
    tmp_path: Path, content: str, code: str, named: str
) -> None:
    (tmp_path / "sheet.yaml").write_text(content)
    with refuses(code, says=named):
        read_answers(tmp_path / "sheet.yaml")


def test_answers_are_texts_and_blank_ones_are_none(tmp_path: Path) -> None:
    (tmp_path / "sheet.yaml").write_text("disagreement: no\ndate: 2026-11-28\ncost: '  '\n")
    assert read_answers(tmp_path / "sheet.yaml") == {"disagreement": "no", "date": "2026-11-28"}
    with pytest.raises(UsageError):
        read_answers(tmp_path / "absent.yaml")


def test_no_item_of_a_restricted_set_is_taken_as_an_example(tmp_path: Path) -> None:
    (tmp_path / "sheet.yaml").write_text("example: Which lamp is lit first?\n")
    assert set(read_answers(tmp_path / "sheet.yaml")) == {"example"}
    with refuses("restricted-field", says="Remove example"):
        read_answers(tmp_path / "sheet.yaml", lambda _text: [])


def test_prompts_are_quoted_only_if_they_are_those_of_the_run(tmp_path: Path) -> None:
    run = open_run(Path(__file__).parents[2] / "results" / "benign_demo", GUARD)
    prompts = sheet(run, tmp_path / "sheet")["prompts"]
    assert set(prompts) == set(run.manifest["templates"])
    other = {**run.manifest, "templates": dict.fromkeys(run.manifest["templates"], "0" * 64)}
    held = json.loads((run.folder / "summary.json").read_text())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(other))
    (tmp_path / "run" / "summary.json").write_text(json.dumps(held))
    assert sheet(Run(tmp_path / "run", other, UNGUARDED), tmp_path / "again")["prompts"] == {}


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
