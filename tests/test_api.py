"""`import robustify as rb`: nine names, tables, and of a restricted run what its release level shows."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import robustify as rb
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import rule_table
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support.cases import refuses
from tests.support.exported_run import lines, made_up
from tests.support.fake_logs import jsonl

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "from_python.ipynb"


def test_eight_names_are_public_and_importing_them_loads_nothing() -> None:
    assert len(rb.__all__) == 8
    assert set(dir(rb)) == set(rb.__all__)
    code = "import sys, robustify; print(sorted(m for m in sys.modules if m.startswith('robustify')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "['robustify']"


def test_every_public_name_says_what_it_is_and_type_checkers_see_the_same_names() -> None:
    for name in set(rb.__all__) - {"__version__"}:
        assert len(str(getattr(rb, name).__doc__)) > 60, name
    with pytest.raises(AttributeError, match="nonsense"):
        rb.nonsense  # noqa: B018
    tree = ast.parse((ROOT / "robustify" / "__init__.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
    named = {alias.name for node in imports for alias in node.names}
    assert set(rb.__all__) - {"__version__"} <= named
    assert (ROOT / "robustify" / "py.typed").is_file()


def test_the_tables_are_those_of_the_files(run: Run) -> None:
    found = rb.open(run.folder)
    assert len(found.answers) == len(run.answers)
    assert found.verdicts["verdict"].to_dict() == run.verdicts
    assert found.verdicts["votes"].dtype.kind in "if"
    picks = {row["item"]: row["pick"] for row in lines(run.folder / "evidence.jsonl")}
    evidence = found.evidence["pick"].dropna().astype(int).to_dict()
    assert evidence == {item: pick for item, pick in picks.items() if pick is not None}


def test_the_summary_is_a_table_with_n_and_interval(run: Run) -> None:
    found, flagged = rb.open(run.folder).summary, run.summary.screen.flagged
    assert flagged.ci is not None
    row = found.loc["screen.flagged"]
    assert (row["value"], row["n"]) == (flagged.value, flagged.n)
    assert (row["low"], row["high"]) == flagged.ci
    assert found.loc["benchmark.n_items", "value"] == run.summary.benchmark.n_items
    assert found.index.is_unique
    assert all(pd.notna(found["value"]))


def test_a_notebook_shows_the_first_screen_in_a_frame_of_its_own(run: Run) -> None:
    page = rb.open(run.folder)._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "sandbox" in page
    assert "&lt;h1&gt;made-up" in page
    assert "<script" not in page
    assert "id=&quot;method&quot;" not in page


def test_judging_again_leaves_the_run_as_it_is(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.folder, copy)
    again = rb.judge(copy, criterion="majority")
    assert open_run(copy, GUARD).manifest["config"]["screen"]["criterion"] == "unanimous"
    assert again.run.manifest["config"]["screen"]["criterion"] == "majority"
    place = again.folder
    assert rb.judge(rb.open(copy), criterion="majority", out=tmp_path / "other").folder == tmp_path / "other"
    del again
    assert not place.exists()


def test_a_run_of_another_benchmark_is_replaced_only_by_force(run: Run, tmp_path: Path) -> None:
    other = rb.audit(rows_of(made_up()), public=True, name="boxes", out=tmp_path / "boxes")
    for work in (
        lambda **how: rb.judge(run.folder, out=other.folder, **how),
        lambda **how: rb.audit(rows_of(made_up()), public=True, name="tins", out=other.folder, **how),
        lambda **how: rb.import_logs(run.folder.parent / "picks.jsonl", name="jars", out=other.folder, **how),
    ):
        with pytest.raises(rb.RobustifyError, match="force=True"):
            work()
        assert work(force=True).folder == other.folder
    assert open_run(other.folder, GUARD).manifest["config"]["name"] == "jars"


def rows_of(items: list[Item]) -> list[dict[str, Any]]:
    return [{"id": i.id, "stem": i.stem, "choices": list(i.choices), "key": i.key} for i in items]


@pytest.mark.parametrize("form", ["rows", "items", "frame", "file"])
def test_heuristics_take_items_in_every_form(form: str, tmp_path: Path) -> None:
    items = made_up()
    rows = rows_of(items)
    file = jsonl(tmp_path / "items.jsonl", rows)
    forms = {"rows": rows, "items": items, "frame": pd.DataFrame(rows), "file": file}
    found = rb.heuristics(forms[form])
    expected: Any = rule_table(items)["heuristics"]
    assert found["value"].to_dict() == {name: row["value"] for name, row in expected.items()}
    assert found.attrs["n"] == len(items)


def test_scores_have_a_row_for_each_model_that_saw_the_question() -> None:
    found = rb.open(ROOT / "results" / "benign_demo").scores
    assert list(found.index) == ["smollm2-135m", "gemma3-270m"]
    assert found.loc["gemma3-270m", "full_low"] < found.loc["gemma3-270m", "full"] == pytest.approx(140 / 360)
    assert {"quote", "looks", "looks_high", "looks_state", "looks_sources", "reason", "kind"} <= set(found)


def test_items_in_memory_are_audited_and_nothing_of_them_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = rb.audit(rows_of(made_up()), public=True, name="boxes")
    assert set(found.verdicts.index) == {item.id for item in made_up()}
    assert found.run.manifest["config"]["name"] == "boxes"
    assert found.run.manifest["config"]["data"][0]["path"] == "items.jsonl"
    assert str(found).splitlines()[-1].endswith("report.html")
    del found
    assert list(tmp_path.iterdir()) == []


ODD = [{"frage": f"Which lamp {i}?", "one": "red", "two": "blue", "right": "one"} for i in range(60)]


@pytest.mark.parametrize("form", ["frame", "rows", "file"])
def test_errors_are_in_the_words_of_python(form: str, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "odd set.jsonl", ODD)
    forms = {
        "frame": (pd.DataFrame(ODD), "the DataFrame"),
        "rows": (ODD, "the list"),
        "file": (path, path.name),
    }
    data, name = forms[form]
    for work in (
        lambda **how: rb.audit(data, **how),
        lambda **how: rb.audit(data, public=True, **how),
        lambda **how: rb.heuristics(data),
        lambda **how: rb.audit(data, public=True, fields={"kee": "right"}),
        lambda **how: rb.audit("demo_benign.yaml", fields={"key": "right"}),
    ):
        with pytest.raises(rb.RobustifyError) as refused:
            work()
        text = str(refused.value)
        assert "--" not in text, text
        assert ("config" in text) == ("demo_benign" in text)
    with pytest.raises(rb.RobustifyError, match=f"{name}: the layout is unknown.*`fields={{") as refused:
        rb.heuristics(data)
    assert "items.jsonl" not in str(refused.value)
    fields = {"stem": "frage", "choices": ["one", "two"], "key": "right"}
    assert rb.heuristics(data, fields=fields).attrs["n"] == len(ODD)
    audit = rb.audit(data, public=True, fields=fields, name="my quiz")
    assert audit.run.manifest["config"]["name"] == "my-quiz"


def test_a_single_name_of_a_model_is_no_list_of_its_letters(tmp_path: Path) -> None:
    (tmp_path / "quiz.csv").write_text("question,A,B,answer\nWhich pan?,iron,clay,A\n", "utf-8")
    for names in ("nowhere", ["nowhere"], ("nowhere",)):
        with pytest.raises(rb.RobustifyError) as refused:
            rb.audit(tmp_path / "quiz.csv", public=True, models=names)
        assert "'nowhere'" in str(refused.value)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a file that does not exist": (lambda: rb.audit("nowhere.csv"), "no-such-config"),
    "a folder that does not exist": (lambda: rb.open("nowhere"), "not-a-run"),
    "items of which nobody says that they are public": (lambda: rb.audit(rows_of(made_up())), "not-public"),
    "a cell without JSON": (
        lambda: rb.heuristics([{"stem": "s", "choices": {"x", "y"}, "key": 0}]),
        "items-not-json",
    ),
    "rows that are none": (lambda: rb.heuristics([{"stem": "s"}, None, 42]), "items-not-json"),
    "a number": (lambda: rb.heuristics(42), "items-not-json"),
}


@pytest.mark.parametrize(("work", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_set_of_public_items_and_no_run_is_refused(work: Callable[[], object], code: str) -> None:
    with refuses(code):
        work()


def test_logs_are_judged(run: Run) -> None:
    place = run.folder.parent
    found = rb.import_logs(place / "picks.jsonl", data=place / "items.jsonl", criterion="unanimous")
    assert found.verdicts["verdict"].to_dict() == run.verdicts


def test_answers_and_items_in_memory_are_judged_and_never_shown(run: Run) -> None:
    """A DataFrame was taken for a file name, so that an error of the system quoted its rows."""
    place = run.folder.parent
    items = [json.loads(line) for line in (place / "items.jsonl").read_text("utf-8").splitlines()]
    picks = [json.loads(line) for line in (place / "picks.jsonl").read_text("utf-8").splitlines()]
    for logs, data in ((picks, pd.DataFrame(items)), (pd.DataFrame(picks), items)):
        found = rb.import_logs(logs, data=data, criterion="unanimous")
        assert found.verdicts["verdict"].to_dict() == run.verdicts
    parts = [
        rb.import_logs(*parted, data=items, criterion="unanimous")
        for parted in ([picks[:40], picks[40:]], [picks])
    ]
    assert parts[0].verdicts.equals(parts[1].verdicts)
    with pytest.raises(rb.RobustifyError) as error:
        rb.import_logs(pd.DataFrame(items), data=items)
    assert error.value.code == "no-pick-column"
    assert "jsonl" not in str(error.value)
    assert items[0]["stem"] not in str(error.value)


# Restricted sets


def test_a_restricted_summary_is_what_its_released_page_shows(restricted: Path) -> None:
    run = restricted / "out" / "run"
    found = rb.open(run)
    written = json.loads((run / "summary.json").read_text("utf-8"))
    shown = {n["name"]: n["value"] for n in written["numbers"] if n["value"] is not None}
    assert found.summary["value"].to_dict() == shown
    assert found.state == written["state"]
    assert str(found).splitlines()[0] == f"mock: {written['state']}, 200 items"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=NOTEBOOK.parent)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "report.html" in done.stdout
    assert not any(c.get("outputs") for c in cells)
