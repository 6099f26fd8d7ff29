"""How long `robustify import` takes on 100,000 logged rows: writes results/bench/importing.json.

`python -m bench.importing` makes up lm-eval logs in two shapes and imports each in a process of its own;
`--quick` takes small ones and writes nothing. The texts are random words and the scores random numbers: only time
and memory are measured. CPU seconds are given beside the clock, which says less on a machine that others use.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robustify.item import Item
from tests.support.fake_logs import jsonl, lm_eval_row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "importing.json"
ROWS, QUICK = 100_000, 2_000
GOAL_SECONDS = 20.0
SHAPES = {
    "one_view": ("full",),
    "four_views": ("full", "cloze", "choices_only", "choices_only_text"),
}
"""Views that each item is asked in, one log a view; the rows are shared among them."""
_CHILD = """
import resource, sys
sys.argv[0] = "robustify"
from robustify.__main__ import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(round(used.ru_utime + used.ru_stime, 2), used.ru_maxrss, file=sys.stderr)
"""


def main(quick: bool) -> int:
    """Measure every shape."""
    rows = QUICK if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        shapes = [_measured(Path(folder), shape, rows) for shape in SHAPES]
    result = {
        "says": "robustify import of lm-eval logs, from the files to the printed run, start of the process included",
        "goal_seconds": GOAL_SECONDS,
        "met": all(one["seconds"] <= GOAL_SECONDS for one in shapes),
        "met_in_cpu_seconds": all(one["cpu_seconds"] <= GOAL_SECONDS for one in shapes),
        "machine": {"cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]},
        "rows": shapes,
    }
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def write(folder: Path, shape: str, rows: int) -> list[str]:
    """The logs of a shape, as they are named on the command line."""
    views = SHAPES[shape]
    items = list(made_up(rows // len(views)))
    named = []
    for view in views:
        path = folder / shape / f"samples_{view}_2026-01-01T00-00-00.000000.jsonl"
        texts, hidden = view in ("cloze", "choices_only_text"), view.startswith("choices_only")
        jsonl(
            path, [lm_eval_row(i, at, _scores(i.k), texts=texts, hidden=hidden) for at, i in enumerate(items)]
        )
        named.append(f"voter={view}:{path}")
    return named


def made_up(n: int) -> Iterator[Item]:
    """Items of random words, about as long as those of the field's sets, with keys in every place."""
    words = ["".join(_RANDOM.choices("abcdefghijklmnoprstuvw", k=_RANDOM.randint(2, 9))) for _ in range(4000)]
    for at in range(n):
        choices: dict[str, None] = {}
        while len(choices) < 4:
            choices.setdefault(" ".join(_RANDOM.choices(words, k=_RANDOM.randint(1, 9))))
        stem = " ".join(_RANDOM.choices(words, k=_RANDOM.randint(8, 35))) + f" {at}?"
        yield Item(f"i{at}", stem, tuple(choices), _RANDOM.randrange(4), f"topic {at % 20}")


_RANDOM = random.Random(0)


def _scores(k: int) -> list[str]:
    return [str(-round(_RANDOM.uniform(0.1, 40), 6)) for _ in range(k)]


def _measured(folder: Path, shape: str, rows: int) -> dict[str, Any]:
    logs = write(folder, shape, rows)
    size = sum(path.stat().st_size for path in (folder / shape).iterdir())
    load = round(os.getloadavg()[0], 2)
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, "import", *logs, "-o", str(folder / f"{shape}-run")],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    if done.returncode not in (0, 7):
        raise SystemExit(done.stderr)
    cpu, peak = done.stderr.split()[-2:]
    found = {
        "shape": shape,
        "rows": rows,
        "items": rows // len(SHAPES[shape]),
        "megabytes": round(size / 1e6, 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": float(cpu),
        "peak_gib": round(int(peak) / 2**20, 2),
        "load_before": load,
    }
    print(json.dumps(found), flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main("--quick" in sys.argv[1:]))
