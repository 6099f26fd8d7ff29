"""The sheet of a run: each fact comes from the place that it names, what nobody knows is said, and no name is made up."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import UsageError
from robustify.export.sheet import FILES, criteria_table, find, read_answers, write_sheet
from robustify.reading.guard import UNGUARDED
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support.cases import cases
from tests.support.exported_run import made_run
from tests.support.refusals import refused

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


@pytest.mark.parametrize(("content", "says"), cases("export", "sheet_names"))
def test_an_unknown_name_is_refused_with_the_closest_one(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "sheet.yaml").write_text(content)
    with refused(2, says):
        read_answers(tmp_path / "sheet.yaml")


def test_answers_are_texts_and_blank_ones_are_none(tmp_path: Path) -> None:
    (tmp_path / "sheet.yaml").write_text("disagreement: no\ndate: 2026-11-28\ncost: '  '\n")
    assert read_answers(tmp_path / "sheet.yaml") == {"disagreement": "no", "date": "2026-11-28"}
    with pytest.raises(UsageError):
        read_answers(tmp_path / "absent.yaml")


def test_no_item_of_a_restricted_set_is_taken_as_an_example(tmp_path: Path) -> None:
    (tmp_path / "sheet.yaml").write_text("example: Which lamp is lit first?\n")
    assert set(read_answers(tmp_path / "sheet.yaml")) == {"example"}
    with refused(4, "Remove example"):
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
