"""How long the gate takes for 20 files of about 2 MB, with its start-up, beside detect-secrets on the same files.

Also how long its modules take to load, and how long pre-commit takes to install its hook and run it for the first time.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.gate.corpus import Made
from tests.gate.repo import Repo, hook_repo
from tests.gate.sets import key_file

ROOT = Path(__file__).parents[1]
GOAL_SECONDS = 1.0
GOAL_IMPORT = 0.15
_IMPORT = "import time as t; a = t.perf_counter(), t.process_time(); import robustify.gate.command; "
_IMPORT += "print(t.perf_counter() - a[0], t.process_time() - a[1])"
_FILES = 20
_THEIR_RUNS = 2
"""It takes tens of seconds."""
BUSY = 4
"""Processes that never wait, beside which our hook is timed once more."""
_SMALL, _LARGE = 80_000, 120_000


def speed(files: Sequence[Path], folder: Path, items: Sequence[Made], runs: int) -> dict[str, Any]:
    """Median seconds of whole processes, ours and theirs in turns. `theirs` is null where it is not installed."""
    chosen = [path for path in files if path.suffix == ".py" and _SMALL < path.stat().st_size < _LARGE][
        :_FILES
    ]
    names = [str(shutil.copy(path, folder / f"{i}.py")) for i, path in enumerate(chosen)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "ROBUSTIFY_GATE_KEY_FILE": str(key_file(folder)),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),  # modules are compiled once, as an installer does
    }
    items_file = folder / "mock.jsonl"
    items_file.write_text("".join(json.dumps(item.texts) + "\n" for item in items))
    gate = [sys.executable, str(ROOT / "robustify" / "gate" / "hook.py")]  # what pre-commit runs
    subprocess.run(
        [*gate, "index", str(items_file), "-o", str(folder / "index")],
        env=env,
        check=True,
        capture_output=True,
    )
    env["ROBUSTIFY_GATE_INDEX"] = str(folder / "index")
    theirs = os.environ.get("DETECT_SECRETS") or shutil.which("detect-secrets")
    commands = {
        "ours": [*gate, "-q", *names],
        "ours_without_fingerprints": ["env", "-u", "ROBUSTIFY_GATE_INDEX", *gate, "-q", *names],
        "start_up": [*gate, "--explain", "RBG101"],
        **({"detect_secrets": [theirs, "scan", *names]} if theirs else {}),
    }
    before = os.getloadavg()[0]
    timed: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for name in commands.keys() - {"detect_secrets"}:
        _timed(commands[name], env, folder)  # the first run compiles the modules
    for turn in range(runs):
        for name, command in commands.items():
            if name != "detect_secrets" or turn < _THEIR_RUNS:
                timed[name].append(_timed(command, env, folder))
    loads = [round(load, 2) for load in (before, os.getloadavg()[0])]
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        beside = [_timed(commands["ours"], env, folder) for _ in range(runs)]
    finally:
        for other in others:
            other.kill()
            other.wait()
    version = (
        subprocess.run([theirs, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        if theirs
        else None
    )
    return {
        "files": len(names),
        "megabytes": round(sum(Path(name).stat().st_size for name in names) / 1e6, 2),
        "index_bytes": (folder / "index").stat().st_size,
        "cores": len(os.sched_getaffinity(0)),
        "goal_seconds": GOAL_SECONDS,
        "detect_secrets_version": version,
        "load": loads,
        "goal_import_seconds": GOAL_IMPORT,
        "import": _summary([_imported(env, folder) for _ in range(runs)]),
        "hook_first_seconds": hook(folder),
        "busy": {"processes": BUSY, **_summary(beside)},
        **{name: _summary(runs_of) for name, runs_of in timed.items()},
    }


def _timed(command: Sequence[str], env: dict[str, str], folder: Path) -> tuple[float, float]:
    """Seconds on the clock, and of the processor (its children included), of one whole process."""
    begin, before = time.perf_counter(), os.times()
    subprocess.run(command, env=env, check=False, capture_output=True, cwd=folder)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begin, used


def _imported(env: dict[str, str], folder: Path) -> tuple[float, float]:
    """The same for the loading of the gate's modules alone, measured by the process itself."""
    command = [sys.executable, "-c", _IMPORT]
    done = subprocess.run(
        command, env={**env, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True, cwd=folder
    )
    clock, used = map(float, done.stdout.split())
    return clock, used


def hook(folder: Path) -> float | None:
    """Seconds of pre-commit's first run of our hook in another repository; None where it is not installed."""
    if find_spec("pre_commit") is None:
        return None
    gate = hook_repo(folder / "gate")
    (folder / "other").mkdir()
    other = Repo(folder / "other")
    other.commit(README="harmless")
    other.write("notes.md", "harmless")
    other.git("add", "-A")
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pre_commit", "try-repo", str(gate.place), "robustify-gate"],
        env={**os.environ, "PRE_COMMIT_HOME": str(folder / "home"), "PIP_NO_INDEX": "1"},
        cwd=other.place,
        check=True,
        capture_output=True,
    )
    return round(time.perf_counter() - begin, 2)


def _summary(timings: Sequence[tuple[float, float]]) -> dict[str, Any]:
    clock = [seconds for seconds, _ in timings]
    return {
        "runs": len(timings),
        "median": round(statistics.median(clock), 3),
        "range": [round(min(clock), 3), round(max(clock), 3)],
        "processor_median": round(statistics.median(used for _, used in timings), 3),
    }
