"""`action.yml`: its own steps are run here by bash, with a stub for the code host's program."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustify.runs.run import write_items
from tests.support.exported_run import made_up

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}
STUB = """#!/bin/sh
echo "$@" >> "$CALLS"
for one in "$@"; do case "$one" in
  body=@*) cp "${one#body=@}" "$CALLS.body";;
  --body-file) take=1;;
  *) if [ "$take" = 1 ]; then cp "$one" "$CALLS.body"; take=0; fi;;
esac; done
if [ "$1 $2" = "api repos/o/r/issues/5/comments" ] && [ -n "$EXISTING" ]; then echo "$EXISTING"; fi
"""


def step(name: str, place: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run one step as the code host does."""
    bin_ = place / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "gh").write_text(STUB)
    script = f"import sys\nsys.path.insert(1, {str(ROOT)!r})\nfrom robustify.__main__ import main\nmain()\n"
    (bin_ / "robustify").write_text(f"#!{sys.executable}\n{script}")
    (bin_ / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for file in bin_.iterdir():
        file.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(place),
        "GITHUB_OUTPUT": str(place / "output"),
        "GITHUB_STEP_SUMMARY": str(place / "summary"),
        "CALLS": str(place / "calls"),
        **given,
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)


def outputs(place: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (place / "output").read_text().splitlines())


def benchmark(place: Path, sensitivity: str = "public") -> Path:
    write_items(place / "items.jsonl", made_up())
    (place / "boxes.yaml").write_text(f"name: boxes\nsensitivity: {sensitivity}\ndata: items.jsonl\n")
    return place


def test_no_input_is_put_into_a_script_and_every_action_is_pinned() -> None:
    for one in STEPS.values():
        assert "${{" not in one.get("run", "")
        assert "@" in one.get("uses", "@")
    assert {"audit", "comment", "findings", "verdict"} <= set(STEPS)


@pytest.mark.parametrize("name", ["install", pytest.param("audit", marks=pytest.mark.slow)])
def test_nothing_of_the_checked_out_branch_runs(tmp_path: Path, name: str) -> None:
    place = benchmark(tmp_path)
    replaced = (
        "pip", "robustify", "json", "yaml", "pydantic", "numpy", "sitecustomize", "usercustomize", "os",
    )  # fmt: skip
    for module in replaced:
        (place / module).mkdir()
        for file in (f"{module}/__init__.py", f"{module}/__main__.py", f"{module}.py"):
            (place / file).write_text(f"open({str(place / 'ran')!r}, 'w')")
    given = {"EXTRAS": "hf", "ACTION_PATH": str(place / "none"), "CONFIG": "boxes.yaml", "DATA": ""}
    step(name, place, **given, PYTHONPATH=":", PYTHONUSERBASE=".")
    assert not (place / "ran").exists()
    assert name == "install" or outputs(place)["code"] in ("0", "7")


@pytest.mark.slow
def test_a_benchmark_is_audited_and_its_findings_are_written(tmp_path: Path) -> None:
    place = benchmark(tmp_path)
    done = step("audit", place, CONFIG="boxes.yaml", DATA="items.jsonl", PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    said = outputs(place)
    assert said["code"] in ("0", "7")
    assert (place / "summary").read_text("utf-8").startswith("# boxes")
    log = json.loads(Path(said["sarif"]).read_text("utf-8"))
    uris = {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]
    }
    assert uris <= {"items.jsonl"}
    assert step("verdict", place, CODE=said["code"]).returncode == int(said["code"])


def git(place: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *who, *words], cwd=place, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.slow
def test_a_pull_request_that_makes_the_set_worse_fails(tmp_path: Path) -> None:
    """New items that give their keys away left the state at `not evaluated`, so the action exited with 0."""
    place = benchmark(tmp_path)
    git(place, "init", "-q", "-b", "main")
    git(place, "remote", "add", "origin", str(place))
    git(place, "add", "items.jsonl", "boxes.yaml")
    git(place, "commit", "-qm", "Base")
    base = git(place, "rev-parse", "HEAD")
    items = made_up(200)
    plain = [
        replace(item, choices=tuple(f"tin {n * 7 % 31}{j}" for j in range(item.k)))
        for n, item in enumerate(items)
    ]
    clear = [
        replace(i, choices=tuple(f"{c}, as the label says" if j == i.key else c for j, c in enumerate(i.choices)))
        for i in plain[100:]
    ]  # fmt: skip
    codes = {}
    for name, new in (("same", []), ("clear", clear)):
        write_items(place / "items.jsonl", [*made_up(), *new])
        for folder in ("robustify-run", "robustify-before"):
            shutil.rmtree(place / folder, ignore_errors=True)
        (place / "output").unlink(missing_ok=True)
        assert step("audit", place, CONFIG="boxes.yaml", DATA="").returncode == 0
        done = step("compare", place, CONFIG="boxes.yaml", BASE=base, RUN=outputs(place)["run"])
        assert done.returncode == 0, done.stderr
        git(place, "worktree", "remove", "--force", str(place / "robustify-base"))
        codes[name] = outputs(place)["code"], outputs(place)["before"]
    assert [code for code, _ in codes.values()] == ["0", "7"]
    for audit, compared, before, ends in (
        ("7", "0", "7", 0),
        ("7", "0", "0", 7),
        ("0", "7", "0", 7),
        ("3", "", "", 3),
    ):
        assert step("verdict", place, CODE=audit, COMPARED=compared, BEFORE=before).returncode == ends


def test_a_restricted_config_is_refused_and_nothing_is_shown(tmp_path: Path) -> None:
    place = benchmark(tmp_path, "restricted")
    assert step("audit", place, CONFIG="boxes.yaml", DATA="items.jsonl").returncode == 0
    assert outputs(place)["code"] == "4"
    assert not (place / "summary").exists()
    commented = step("comment", place, RUN=outputs(place)["run"], NUMBER="5", REPOSITORY="o/r", GH_TOKEN="t")
    assert commented.returncode == 0
    assert not (place / "calls").exists()


@pytest.mark.parametrize("existing", ["", "71\n72"])
def test_one_comment_holds_the_report_and_is_renewed(tmp_path: Path, existing: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(ROOT / "results" / "benign_demo" / "report.md", run)
    done = step(
        "comment", tmp_path, RUN=str(run), NUMBER="5", REPOSITORY="o/r", GH_TOKEN="t", EXISTING=existing
    )
    assert done.returncode == 0, done.stderr
    last = (tmp_path / "calls").read_text().splitlines()[-1]
    assert ("issues/comments/71 " in last) == bool(existing)
    assert ("pr comment 5" in last) == (not existing)
    body = (tmp_path / "calls.body").read_text("utf-8")
    assert body.startswith("<!-- robustify -->\n# demo-benign")
    assert len(body.encode()) <= 60_000
    assert "![" not in body
