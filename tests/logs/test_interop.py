"""docs/interop.md does what it says: every block runs, in order, in a folder of made-up logs."""

import csv
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from robustify.cli import cli
from robustify.item import Item
from robustify.run import open_run, split_items
from tools.docs.interop import PAGE, ROOT, blocks, pick_of, write_inputs

pytestmark = pytest.mark.slow
BLOCKS = blocks()
HAS_LM_EVAL = importlib.util.find_spec("lm_eval") is not None
SHIM = '#!/bin/sh\nexec "{python}" -m {module} "$@"\n'


def name_of(text: str) -> str:
    """Which way a block goes: the runs and exports that it writes."""
    found = re.findall(r"(?:runs|out)/\w+(?=\s|$)", text)
    return next((name for name in found if f"-o {name}" in text or f"--out {name}" in text), text[:20])


NAMES = [name_of(text) for _, text in BLOCKS]


@dataclass(frozen=True, slots=True)
class Ran:
    folder: Path
    done: Mapping[str, "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every block that needs no lm-eval, run as it stands."""
    folder = tmp_path_factory.mktemp("page")
    write_inputs(folder)
    return Ran(
        folder, {name: run_block(folder, text) for name, text in zip(NAMES, texts(), strict=True) if text}
    )


def texts() -> list[str]:
    return ["" if "lm_eval run" in text else text for _, text in BLOCKS]


def run_block(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    shims = folder / ".bin"
    if not shims.is_dir():
        shims.mkdir()
        for name in ("robustify", "lm_eval"):
            (shims / name).write_text(SHIM.format(python=sys.executable, module=name))
        (shims / "python").write_text(SHIM.format(python=sys.executable, module="").replace(" -m  ", " "))
        for path in shims.iterdir():
            path.chmod(0o755)
    env = {**os.environ, "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    env |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / ".datasets")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_page_has_a_block_for_every_way_in_and_out() -> None:
    assert {language for language, _ in BLOCKS} == {"sh"}
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) == {
        *(f"runs/{name}" for name in ("lm_eval", "inspect", "lighteval", "picks", "replay")),
        *(f"out/{name}" for name in ("lm_eval", "inspect", "hf", "instruct")),
    }
    exports = cli.commands["export"].commands
    page = PAGE.read_text("utf-8")
    assert all(f"robustify export {name} " in page for name in exports if name != "published")
    assert all(f"| `export {name}` |" in page for name in exports if name != "published")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "out/lm_eval"])
def test_the_block_runs_as_it_stands(ran: Ran, name: str) -> None:
    done = ran.done[name]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (ran.folder / name).is_dir()


@pytest.mark.skipif(not HAS_LM_EVAL, reason="lm-eval is not installed")
@pytest.mark.proof
@pytest.mark.oracle
def test_the_block_that_needs_lm_eval_runs_as_it_stands(ran: Ran) -> None:
    text = BLOCKS[NAMES.index("out/lm_eval")][1]
    done = run_block(ran.folder, text)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    back = open_run(ran.folder / "out" / "lm_eval" / "back")
    robust = list(split_items(ran.folder / "runs" / "picks" / "robust.jsonl"))
    rows = [r for r in back.answers.table.to_pylist() if r["view"] == "full"]
    assert sorted(r["item"] for r in rows) == sorted(i.id for i in robust)
    assert {(r["template"], tuple(r["order"])) for r in rows} == {("mmlu-v1", (0, 1, 2, 3))}


def test_the_export_of_the_block_that_needs_lm_eval_is_tried_without_it(ran: Ran) -> None:
    first = BLOCKS[NAMES.index("out/lm_eval")][1].splitlines()[0]
    done = run_block(ran.folder, first.replace("out/lm_eval", "out/tasks"))
    assert done.returncode == 0, done.stderr
    assert (ran.folder / "out" / "tasks" / "lm_eval_tasks" / "boxes_robust.yaml").is_file()


@pytest.mark.parametrize(
    ("run", "model", "step"),
    [("lm_eval", "alpha", 1), ("lm_eval", "beta", 2), ("inspect", "gamma", 1), ("lighteval", "delta", 2)],
)
def test_what_the_logs_say_is_what_the_run_says(ran: Ran, run: str, model: str, step: int) -> None:
    items = {i.id: (at, i) for at, i in enumerate(split_items(ran.folder / "items.jsonl"))}
    rows = [
        r
        for r in open_run(ran.folder / "runs" / run).answers.table.to_pylist()
        if r["view"] == "full" and r["model"].endswith(model)
    ]
    assert {r["item"]: r["pick"] for r in rows} == {n: pick_of(*place, step) for n, place in items.items()}


@pytest.mark.parametrize(("run", "steps"), [("lm_eval", (1, 2)), ("picks", (1, 2)), ("replay", (1, 2))])
def test_the_screen_is_that_of_the_picks(ran: Ran, run: str, steps: tuple[int, ...]) -> None:
    items: list[Item] = list(split_items(ran.folder / "items.jsonl"))
    flagged = {i.id for at, i in enumerate(items) if all(pick_of(at, i, step) == i.key for step in steps)}
    with (ran.folder / "runs" / run / "verdicts.csv").open(newline="") as file:
        verdicts = {row["item"]: row["verdict"] for row in csv.DictReader(file)}
    assert {name for name, verdict in verdicts.items() if verdict == "shortcut"} == flagged
    assert len(verdicts) == len(items)
