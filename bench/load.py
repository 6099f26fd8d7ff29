"""Time and memory of a million made-up items: `python -m bench.load validate` writes its part of results/bench/load.json.

Each command is a process of its own; seconds are its user and system time and the clock's, memory is its peak.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "load.json"
ITEMS = 1_000_000
_WORDS = (
    "lamp",
    "cup",
    "red",
    "blue",
    "garden",
    "stone",
    "river",
    "wheel",
    "paper",
    "candle",
    "spoon",
    "window",
    "north",
)

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


def measured(*arguments: str) -> Measured:
    """The cost of `robustify ARGUMENTS...`: seconds, processor seconds and the peak of memory in MiB."""
    start = time.monotonic()
    command = [sys.executable, "-m", "robustify", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, status, used = os.wait4(process.pid, 0)
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": used.ru_maxrss // 1024,
    }


def validate(folder: Path) -> dict[str, Measured]:
    """`robustify validate` of a million items, of 200 bytes and of 2,000 each."""
    out = {}
    for size in (200, 2000):
        path = folder / "items.jsonl"
        write_items(path, ITEMS, size)
        out[f"{ITEMS:,} items of {size:,} bytes"] = {
            "bytes": path.stat().st_size,
            **measured("validate", str(path)),
        }
        path.unlink()
    return out


PARTS: Mapping[str, Callable[[Path], dict[str, Measured]]] = {"validate": validate}


def main(names: list[str]) -> None:
    """Measure these parts, or all, and put them beside the others in the file."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            kept[name] = PARTS[name](Path(folder))
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
