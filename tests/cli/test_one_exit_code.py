"""Five runs, each with one state and one exit code in every command."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from robustify.cli.terminal import state_code
from robustify.judging.guardrails import run_state
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import AUDIT, read
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support.exported_run import made_run, renewed
from tests.support.page_text import text_of_page

FIVE = {
    "passed": ("passed", 0),
    "failed audit": ("failed", 7),
    "failed check": ("failed", 7),
    "not evaluated": ("not evaluated", 0),
    "too small": ("not evaluated", 0),
}
"""State and exit code of each run."""


def changed(made: Run, folder: Path, kind: str) -> Run:
    """Return a copy of a run in which the audit has another state, or a check failed, judged by the rule itself."""
    shutil.copytree(made.folder, folder)
    tree: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    audit = {"failed audit": "failed", "passed": "passed", "failed check": "passed"}.get(
        kind, "not evaluated"
    )
    tree["residual"] |= {"state": audit}
    for check in tree["guardrails"]:
        fails = kind in ("failed check", "too small") and check["name"] == "ties_share"
        check["state"] = audit if check["name"] == AUDIT else "failed" if fails else "passed"
        check["reason"] = (
            {"code": "not_judged", "params": {"why": "no_audit"}} if not fails else check["reason"]
        )
    summary = read(tree)
    trial = Reason.of("trial_run", n=8, least=30, part=False) if kind == "too small" else None
    state, reasons = run_state(summary.residual, summary.guardrails, (), trial)
    tree |= {"state": state, "reasons": [reason.model_dump(mode="json") for reason in reasons]}
    (folder / "summary.json").write_text(json.dumps(tree))
    return renewed(folder, "summary.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("kind", FIVE)
def test_one_state_and_one_exit_code_in_every_command(
    robustify, made: Run, tmp_path: Path, kind: str
) -> None:
    state, code = FIVE[kind]
    run = changed(made, tmp_path / "runs" / "run", kind)
    assert (run.state, run.summary.trial) == (state, kind == "too small")
    strict = 0 if state == "passed" else 7
    assert state_code(run.state, strict=True) == strict
    checked = robustify("check", run.folder, "--json")
    assert (checked.code, json.loads(checked.out)["state"]) == (code, state)
    assert robustify("check", run.folder, "--strict").code == strict
    for kept, expected in (("", code), ("--kept", 0)):
        out = tmp_path / f"tasks{kept}"
        assert robustify("export", "lm-eval", run.folder, "-o", out, *[kept] * bool(kept)).code == expected
        assert out.exists() == (expected == 0)
    compared = robustify("compare", run.folder, run.folder).out
    assert re.findall(r"^\[[12]\] .*: (passed|failed|not evaluated)$", compared, re.MULTILINE) == [
        state,
        state,
    ]
    assert robustify("dashboard", run.folder.parent, "-o", tmp_path / "d.html").code == 0
    assert f"Run {state}." in text_of_page((tmp_path / "d.html").read_text())


def test_the_same_run_judged_by_other_limits_exits_by_its_state(robustify, made: Run, tmp_path: Path) -> None:
    config = json.loads((made.folder / "run.json").read_text())["config"]
    assert config["limits"]["min_items"] <= made.summary.splits.all
    done = robustify("judge", made.folder, "-o", tmp_path / "again", "--criterion", "majority", "--json")
    again = open_run(tmp_path / "again", GUARD)
    assert done.code == state_code(again.state)
    assert (again.folder / "lm_eval_tasks").exists() == (again.state != "failed")
    strict = robustify(
        "judge", made.folder, "-o", tmp_path / "more", "--criterion", "majority", "--strict", "-q"
    )
    assert strict.code == state_code(again.state, strict=True)
