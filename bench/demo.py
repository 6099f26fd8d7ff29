"""Measure the cost of the demo for a new user: `python -m bench.demo`.

It clones this commit and runs `make demo` in the clone, with a new environment and an empty cache. Installation, downloads
and conversion therefore count. Writes `results/bench/demo.json`. Run it on an idle machine.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from robustify.base.files import write_json

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "demo.json"
PAGE = Path("runs", "benign_demo", "report.html")
GOALS = {"seconds": 300, "processor_seconds": 500, "gibibytes": 2.5, "first_page_seconds": 60}
_STEP = 0.2


def main() -> int:
    """Measure one cold demo; `first_page_seconds` starts when the models are installed."""
    with tempfile.TemporaryDirectory() as folder:
        clone, seen = Path(folder, "robustify"), dict[str, float]()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        commit = subprocess.run(
            ["git", "-C", str(clone), "rev-parse", "--short", "HEAD"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        cache = Path(folder, "cache")
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "HF_HUB_OFFLINE")}
        load, start, ended = os.getloadavg()[0], time.monotonic(), threading.Event()
        watch = threading.Thread(target=_watch, args=(cache, clone / PAGE, seen, ended))
        watch.start()
        try:
            done = subprocess.run(
                ["make", "demo"],
                cwd=clone,
                env={**environment, "ROBUSTIFY_CACHE": str(cache)},
                stdout=sys.stderr,
                check=False,
            )
        finally:
            ended.set()
            watch.join()
        seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            return done.returncode
        figures = {
            "seconds": round(seconds),
            "processor_seconds": round(used.ru_utime + used.ru_stime),
            "gibibytes": round(used.ru_maxrss / 2**20, 2),
            "first_page_seconds": round(seen["page"] - seen["models"], 1),
        }
        write_json(
            RESULT, {"commit": commit, "load_before": round(load, 1), "measured": figures, "goals": GOALS}
        )
        print(json.dumps(figures))
    return 0


def _watch(cache: Path, page: Path, seen: dict[str, float], ended: threading.Event) -> None:
    # A model's folder and the page are moved to their final path once they are complete.
    places = {"models": [cache / "models" / name for name in _models()], "page": [page]}
    while not ended.wait(_STEP):
        for name, paths in places.items():
            if name not in seen and all(path.exists() for path in paths):
                seen[name] = time.monotonic()


def _models() -> list[str]:
    from robustify.models.downloads import ENCODER, KNOWN

    return [*KNOWN, ENCODER.name]


if __name__ == "__main__":
    sys.exit(main())
