"""Time and memory of a million made-up items: `python -m bench.load [PART...]` writes its parts of results/bench/load.json.

Each command is a process of its own; seconds are its user and system time and the clock's, memory is its peak. The load
average before it tells how busy the machine was.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import judging
from robustify.ask import Asking, plan
from robustify.loaders import Source, load

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "load.json"
ITEMS, ASKED = 1_000_000, 100_000
_WORDS = (
    "lamp", "cup", "red", "blue", "garden", "stone", "river", "wheel", "paper", "candle", "spoon", "window", "north",
)  # fmt: skip

Measured = dict[str, float | int]


def write_items(path: Path, n: int, size: int) -> None:
    """`n` made-up items of about `size` bytes each, as JSON Lines."""
    draw = random.Random(1)
    with path.open("w") as file:
        for i in range(n):
            filler = " ".join(draw.choices(_WORDS, k=max(1, (size - 150) // 6)))
            item = {
                "id": f"i{i}",
                "stem": f"Which lamp is number {i} {filler}?",
                "choices": [f"{draw.choice(_WORDS)} {j}" for j in range(4)],
                "key": draw.randrange(4),
                "topic": draw.choice(_WORDS),
            }
            file.write(json.dumps(item) + "\n")


def measured(*arguments: str, module: str = "robustify") -> Measured:
    """The cost of `robustify ARGUMENTS...`: seconds, processor seconds and the peak of memory in MiB."""
    start, load = time.monotonic(), os.getloadavg()[0]
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, status, used = os.wait4(process.pid, 0)
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": used.ru_maxrss // 1024,
        "load_before": round(load, 2),
    }


def _of_files(folder: Path, command: str, sizes: Sequence[int]) -> dict[str, Measured]:
    """`robustify COMMAND` of a file of a million items, of so many bytes each."""
    out = {}
    for size in sizes:
        path = folder / "items.jsonl"
        write_items(path, ITEMS, size)
        found = measured(command, str(path))
        out[f"{ITEMS:,} items of {size:,} bytes"] = {"bytes": path.stat().st_size, **found}
        path.unlink()
    return out


def judged(folder: Path) -> dict[str, Measured]:
    """A million items and three voters, from the answer table to the written verdicts, as in `bench.judging`."""
    path = folder / "answers.parquet"
    judging.write(path, ITEMS, judging.CASES["screen"])
    return {
        f"{ITEMS:,} items, {len(judging.VOTERS)} voters": measured("judge", str(path), module="bench.judging")
    }


def planned(folder: Path) -> dict[str, Measured]:
    """Every request of a hundred thousand items under the default settings, made and counted."""
    path = folder / "items.jsonl"
    write_items(path, ASKED, 400)
    return {f"{ASKED:,} items": measured("plan", str(path), module="bench.load")}


def plan_of(path: str) -> None:
    """Load, plan and count, as a run does before it opens a model."""
    items = load(Source(path=path)).items
    print(sum(len(one.requests) for one in plan(items, Asking())))


def replayed(folder: Path) -> dict[str, Measured]:
    """`robustify run` of a hundred thousand items whose three voters are replayed from tables of picks with scores."""
    path, draw = folder / "items.jsonl", random.Random(2)
    write_items(path, ASKED, 400)
    models = []
    for name in judging.VOTERS:
        table = folder / f"{name}.jsonl"
        with table.open("w") as file:
            for i in range(ASKED):
                scores = [round(-draw.expovariate(1) - 1e-6, 6) for _ in range(4)]
                row = {
                    "model": name,
                    "id": f"i{i}",
                    "view": "choices_only",
                    "pick": scores.index(max(scores)),
                }
                file.write(json.dumps({**row, "scores": scores}) + "\n")
        models.append({"name": name, "engine": "replay", "logs": [str(table)]})
    config = folder / "replayed.yaml"
    config.write_text(
        json.dumps(
            {"name": "made-up", "sensitivity": "public", "data": [{"path": str(path)}], "models": models}
        )
    )
    return {
        f"{ASKED:,} items, {len(models)} voters": measured(
            str(config), "--out", str(folder / "out"), "--quiet"
        )
    }


PARTS: Mapping[str, Callable[[Path], dict[str, Measured]]] = {
    "validate": lambda folder: _of_files(folder, "validate", (200, 2000)),
    "heuristics": lambda folder: _of_files(folder, "heuristics", (200,)),
    "judge": judged,
    "planning": planned,
    "replayed": replayed,
}


def main(names: list[str]) -> None:
    """Measure these parts, or all, and put them beside the others in the file."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            kept[name] = PARTS[name](Path(folder))
        print(json.dumps({name: kept[name]}), flush=True)
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["plan", file_of_items]:
            plan_of(file_of_items)
        case parts_named:
            main(parts_named)
