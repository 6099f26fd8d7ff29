"""Time a run of 1,000 items and its repeat, each in a separate process.

`python -m bench.warm FOLDER` keeps the score cache in FOLDER and prints one JSON line. The time is from the start of the
process to the last answer row. It includes imports, loading the items, opening the engine, and asking.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from robustify.models.downloads import cache_folder

ITEMS = 1000
WARM_RUNS = 3
GOAL, GOAL_SECONDS = 100.0, 5.0


def warm(model: str) -> dict[str, Any]:
    """Measure a cold run and its repeats."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(cache_folder() / "models")
        cold, first = _process(folder, model)
        repeats = [_process(folder, model) for _ in range(WARM_RUNS)]
    seconds = [each for each, _ in repeats]
    return {
        "says": f"warm repeat of a run of {ITEMS} items (choices only in all rotations, full, cloze)",
        "ratio_median": round(cold / statistics.median(seconds), 1),
        "ratio_range": [round(cold / max(seconds), 1), round(cold / min(seconds), 1)],
        "goal": GOAL,
        "goal_seconds": GOAL_SECONDS,
        "pairs": WARM_RUNS,
        "seconds_ours": round(statistics.median(seconds), 2),
        "seconds_peer": round(cold, 2),
        "max_abs_diff": max(abs(a - b) for _, again in repeats for a, b in zip(first, again, strict=True)),
    }


def _process(folder: str, model: str) -> tuple[float, list[float]]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "bench.warm", folder, model]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, json.loads(done.stdout)


def main(folder: str, model: str) -> int:
    """Run the model and print every total."""
    from bench.cases import arc
    from robustify.models.asking import Asking, ask, plan
    from robustify.models.engines import open_scorer
    from robustify.models.engines.settings import HFModel

    planned = plan(arc(ITEMS), Asking(views=("choices_only", "full", "cloze"), orders=1))
    with open_scorer(HFModel(name=model), Path(folder)) as scorer:
        print(json.dumps([total for row in ask(planned, scorer) for total in row.scores or ()]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
