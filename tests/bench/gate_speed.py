"""How long the gate takes for 20 files of about 2 MB, with its start-up, beside detect-secrets on the same files."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.gate_corpus import Made
from tests.gate_sets import key_file

ROOT = Path(__file__).parent.parent.parent
GOAL_SECONDS = 1.0
_FILES = 20
_THEIR_RUNS = 2
"""It takes tens of seconds."""
_SMALL, _LARGE = 80_000, 120_000


def speed(files: Sequence[Path], folder: Path, items: Sequence[Made], runs: int) -> dict[str, Any]:
    """Median seconds of whole processes, ours and theirs in turns. `theirs` is null where it is not installed."""
    chosen = [path for path in files if path.suffix == ".py" and _SMALL < path.stat().st_size < _LARGE][
        :_FILES
    ]
    names = [str(shutil.copy(path, folder / f"{i}.py")) for i, path in enumerate(chosen)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "ROBUSTIFY_GATE_KEY_FILE": str(key_file(folder)),
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),  # modules are compiled once, as an installer does
    }
    items_file = folder / "mock.jsonl"
    items_file.write_text("".join(json.dumps(item.texts) + "\n" for item in items))
    gate = [sys.executable, "-m", "robustify.gate"]
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
        "ours_without_fingerprints": [*gate, "-q", "--index", "", *names],
        "start_up": [*gate, "--explain", "RBG101"],
        **({"detect_secrets": [theirs, "scan", *names]} if theirs else {}),
    }
    timed: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for name in commands.keys() - {"detect_secrets"}:
        _timed(commands[name], env, folder)  # the first run compiles the modules
    for turn in range(runs):
        for name, command in commands.items():
            if name != "detect_secrets" or turn < _THEIR_RUNS:
                timed[name].append(_timed(command, env, folder))
    version = (
        subprocess.run([theirs, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        if theirs
        else None
    )
    return {
        "files": len(names),
        "megabytes": round(sum(Path(name).stat().st_size for name in names) / 1e6, 2),
        "index_bytes": (folder / "index").stat().st_size,
        "goal_seconds": GOAL_SECONDS,
        "detect_secrets_version": version,
        "load": round(os.getloadavg()[0], 2),
        **{name: _told(held) for name, held in timed.items()},
    }


def _timed(command: Sequence[str], env: dict[str, str], folder: Path) -> tuple[float, float]:
    """Seconds on the clock, and of the processor (its children included), of one whole process."""
    begin, before = time.perf_counter(), os.times()
    subprocess.run(command, env=env, check=False, capture_output=True, cwd=folder)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begin, used


def _told(held: Sequence[tuple[float, float]]) -> dict[str, Any]:
    clock = [seconds for seconds, _ in held]
    return {
        "runs": len(held),
        "median": round(statistics.median(clock), 3),
        "range": [round(min(clock), 3), round(max(clock), 3)],
        "processor_median": round(statistics.median(used for _, used in held), 3),
    }
