"""How long `robustify import` takes on 100,000 logged rows: writes results/bench/importing.json.

`python -m bench.importing [CHECKOUT]` makes up lm-eval logs in several shapes and imports each in a process of its own,
and in the same run by the code of another checkout, whose run folders must have the same bytes; `--quick` takes small logs
and writes nothing. The texts are random words and the scores random numbers: only time and memory are measured. CPU
seconds are given beside the clock, which says less on a machine that others use.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from robustify.item import Item
from robustify.views import View
from tests.support.fake_logs import jsonl, lm_eval_row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "importing.json"
ROWS, QUICK = 100_000, 2_000
GOAL_SECONDS = 20.0
"""Processor seconds, of the first shape."""
SHAPES: dict[str, tuple[int, tuple[View, ...]]] = {
    "five_models": (5, ("choices_only",)),
    "one_view": (1, ("full",)),
    "four_views": (1, ("full", "cloze", "choices_only", "choices_only_text")),
}
"""Models, and the views that each item is asked in, one log a model and view; the rows are shared among them."""
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


def main(quick: bool, before: Path | None) -> int:
    """Measure every shape; `before`: another checkout to compare with."""
    rows = QUICK if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        shapes = [_measured(Path(folder), shape, rows, before) for shape in SHAPES]
    result = {
        "says": "robustify import of lm-eval logs, from the files to the printed run, start of the process included",
        "goal_seconds": GOAL_SECONDS,
        "met": shapes[0]["cpu_seconds"] <= GOAL_SECONDS,
        "met_by_every_shape": all(one["cpu_seconds"] <= GOAL_SECONDS for one in shapes),
        "machine": {"cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]},
        "rows": shapes,
    }
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def write(folder: Path, shape: str, rows: int) -> list[str]:
    """The logs of a shape, as they are named on the command line."""
    models, views = SHAPES[shape]
    items = list(made_up(rows // (models * len(views))))
    named = []
    for model, view in product(range(models), views):
        path = folder / shape / f"samples_{view}{model}_2026-01-01T00-00-00.000000.jsonl"
        texts, hidden = view in ("cloze", "choices_only_text"), view.startswith("choices_only")
        jsonl(
            path, [lm_eval_row(i, at, _scores(i.k), texts=texts, hidden=hidden) for at, i in enumerate(items)]
        )
        named.append(f"voter{model}={view}:{path}")
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


def _measured(folder: Path, shape: str, rows: int, before: Path | None) -> dict[str, Any]:
    logs = write(folder, shape, rows)
    size = sum(path.stat().st_size for path in (folder / shape).iterdir())
    load = round(os.getloadavg()[0], 2)
    models, views = SHAPES[shape]
    found: dict[str, Any] = {
        "shape": shape,
        "rows": rows,
        "items": rows // (models * len(views)),
        "megabytes": round(size / 1e6, 1),
        **_imported(ROOT, logs, folder / "now"),
        "load_before": load,
    }
    if before is not None:
        found["before"] = _imported(before, logs, folder / "before")
        found["ratio"] = round(found["before"]["cpu_seconds"] / found["cpu_seconds"], 2)
        found["files_that_differ"] = _different(folder / "now", folder / "before")
    for place in ("now", "before"):
        shutil.rmtree(folder / place, ignore_errors=True)
    print(json.dumps(found), flush=True)
    return found


def _imported(checkout: Path, logs: list[str], out: Path) -> dict[str, float]:
    """The cost of one import by the code of this checkout."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, "import", *logs, "-o", str(out)],
        capture_output=True, text=True, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)},
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    if done.returncode not in (0, 7):
        raise SystemExit(done.stderr)
    cpu, peak = done.stderr.split()[-2:]
    return {"seconds": round(seconds, 1), "cpu_seconds": float(cpu), "peak_gib": round(int(peak) / 2**20, 2)}


def _different(one: Path, other: Path) -> list[str]:
    """The files of two runs whose bytes differ; times of day are in run.log alone."""
    names = {
        path.relative_to(at).as_posix() for at in (one, other) for path in at.rglob("*") if path.is_file()
    }
    pairs = {name: [at / name for at in (one, other)] for name in names - {"run.log"}}
    return sorted(
        name
        for name, (a, b) in pairs.items()
        if not a.is_file() or not b.is_file() or a.read_bytes() != b.read_bytes()
    )


if __name__ == "__main__":
    checkouts = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    sys.exit(main("--quick" in sys.argv[1:], checkouts[0] if checkouts else None))
