"""The state of a run is one word wherever it is printed: pages, terminal, `check`, exports, `compare`, dashboard."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.summary.result import AUDIT, State, read
from robustify.report import render
from robustify.report.opening import closing
from robustify.restricted.disclosure.released_page import released_lines
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support.exported_run import made_run, renewed
from tests.support.page_text import text_of_page
from tests.support.released import released

ROOT = Path(__file__).parents[2]
FORMER = re.compile(
    r"certif|inconclusive|not judged|\"passed\": (?:true|false)|shortcut\.jsonl", re.IGNORECASE
)
WORD = "(passed|failed|not evaluated)"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made"))


def in_state(made: Run, folder: Path, state: State) -> Run:
    """Return a copy of a run with another state of its audit and of itself. No other guardrail stops an export."""
    shutil.copytree(made.folder, folder)
    tree = json.loads((folder / "summary.json").read_text())
    tree |= {"state": state, "reasons": []}
    tree["residual"] |= {"state": state}
    for check in tree["guardrails"]:
        check["state"] = state if check["name"] == AUDIT else "passed"
    (folder / "summary.json").write_text(json.dumps(tree))
    return renewed(folder, "summary.json")


def said(robustify, run: Run, out: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each place that prints the state of a run, its text, and a pattern of the line with the state."""
    files = render(run.summary, run.manifest)
    yield "page", text_of_page(files["report.html"]), rf"\b{WORD} (?:No auditor|The auditors|Shortcuts still)"
    yield "report.md", files["report.md"], rf"^- \*\*{WORD}\*\* "
    yield "terminal", "\n".join(closing(run.summary, "run")), rf"^{WORD}: \d+ items"
    yield "check", robustify("check", run.folder).out, rf"^{WORD} +run "
    yield "check --json", json.loads(robustify("check", run.folder, "--json").out)["state"], WORD
    yield "compare", robustify("compare", run.folder, run.folder).out, rf"^\[1\] .*: {WORD}$"
    yield "dashboard", dashboard(robustify, run, out), rf"Run {WORD}\."
    page = released(run.summary)
    yield "released page", "\n".join(released_lines(page, "run")), rf"^made-up: {WORD}, "
    for command in ("lm-eval", "inspect", "dataset", "instruct"):
        done = robustify("export", command, run.folder, "-o", out / command, "--kept")
        assert done.code == 0
        yield f"export {command}", done.err, rf"State of the run: {WORD}: "
        for file in (out / command).rglob("*"):
            # The module that finds the data of the tasks says nothing of the run.
            if file.suffix in (".yaml", ".py", ".md") and file.name != "data.py":
                yield f"{command}/{file.name}", file.read_text(), rf"State of the run: {WORD}\b"


def dashboard(robustify, run: Run, out: Path) -> str:
    assert robustify("dashboard", run.folder.parent, "-o", out / "dashboard.html").code == 0
    return (out / "dashboard.html").read_text()


@pytest.mark.parametrize("state", ["passed", "failed", "not evaluated"])
def test_every_place_prints_the_same_word_for_the_state_of_a_run(
    robustify, made: Run, tmp_path: Path, state: State
) -> None:
    run, out = in_state(made, tmp_path / "runs" / "run", state), tmp_path / "out"
    out.mkdir()
    places = {name: (text, pattern) for name, text, pattern in said(robustify, run, out)}
    assert len(places) > 20
    for name, (text, pattern) in places.items():
        assert set(re.findall(pattern, text, re.MULTILINE)) == {state}, name
        assert not FORMER.search(text), name
    assert bool(re.search(r"\brobust\b", places["terminal"][0])) == (state == "passed")
    assert robustify("check", run.folder).code == (7 if state == "failed" else 0)
    assert robustify("check", run.folder, "--strict").code == (0 if state == "passed" else 7)
    refused = robustify("export", "dataset", run.folder, "-o", out / "again")
    assert refused.code == (7 if state == "failed" else 0)
    assert ("--kept" in refused.err) == (state == "failed")


@pytest.mark.parametrize("state", ["passed", "failed", "not evaluated"])
def test_items_are_robust_only_in_a_run_that_passed(
    made: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: State
) -> None:
    from robustify.judging import guardrails
    from robustify.pipeline.steps import rejudge

    monkeypatch.setattr(guardrails, "run_state", lambda *_: (state, ()))
    run = rejudge(made, {}, tmp_path / "run")
    robust = run.folder / "robust.jsonl"
    assert robust.exists() == ("robust.jsonl" in run.manifest["files"]) == (state == "passed")
    assert not robust.exists() or robust.read_bytes() == (run.folder / "kept.jsonl").read_bytes()


def test_a_run_of_an_earlier_version_is_refused_in_a_line_and_judged_again(
    robustify, made: Run, tmp_path: Path
) -> None:
    folder = shutil.copytree(made.folder, tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text())
    manifest["config"]["limits"]["min_robust"] = manifest["config"]["limits"].pop("min_kept")
    for name, former in (("kept", "robust"), ("flagged", "shortcut")):
        (folder / f"{name}.jsonl").rename(folder / f"{former}.jsonl")
        manifest["files"][f"{former}.jsonl"] = manifest["files"].pop(f"{name}.jsonl")
        for file in ("verdicts.csv", "evidence.jsonl"):
            text = (folder / file).read_text()
            (folder / file).write_text(
                text.replace(f",{name},", f",{former},").replace(f'"{name}"', f'"{former}"')
            )
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text()) | {"format": 3}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "run.json").write_text(json.dumps(manifest))
    renewed(folder, "summary.json", "verdicts.csv", "evidence.jsonl")
    for command in (("check",), ("explain",), ("export", "dataset")):
        more = ("-o", tmp_path / "out") if command[0] == "export" else ()
        refused = robustify(*command, folder, *more)
        assert (refused.code, refused.err.count("\n")) == (3, 1)
        assert "robustify judge" in refused.err
    assert robustify("judge", folder).code == (7 if made.state == "failed" else 0)
    again = open_run(folder, GUARD)
    assert again.verdicts == made.verdicts
    assert not (folder / "shortcut.jsonl").exists()
    assert read(json.loads((folder / "summary.json").read_text())) == again.summary
    assert robustify("check", folder).code in (0, 7)
