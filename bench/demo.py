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
import time
from pathlib import Path

from robustify.base.files import write_json
from robustify.models.names import ENCODER, KNOWN

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "demo.json"
GOALS = {"seconds": 220, "processor_seconds": 330, "gibibytes": 2, "first_page_seconds": 60}


def main() -> int:
    """Measure one cold demo; `first_page_seconds` starts when the models are installed."""
    with tempfile.TemporaryDirectory() as folder:
        clone, cache = Path(folder, "robustify"), Path(folder, "cache")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        # A model's folder and the page are moved to their final path once they are complete.
        models = [cache / "models" / name for name in (*KNOWN, ENCODER.name)]
        places = {"models": models, "page": [clone / "runs" / "benign_demo" / "report.html"]}
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "HF_HUB_OFFLINE")}
        load, start, seen = os.getloadavg()[0], time.monotonic(), dict[str, float]()
        demo = subprocess.Popen(
            ["make", "demo"], cwd=clone, env={**kept, "ROBUSTIFY_CACHE": str(cache)}, stdout=sys.stderr
        )
        while demo.poll() is None:
            time.sleep(0.2)
            there = [name for name, paths in places.items() if all(path.exists() for path in paths)]
            seen |= {name: time.monotonic() for name in there if name not in seen}
        seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if not demo.returncode:
        figures = {
            "seconds": round(seconds),
            "processor_seconds": round(used.ru_utime + used.ru_stime),
            "gibibytes": round(used.ru_maxrss / 2**20, 2),
            "first_page_seconds": round(seen["page"] - seen["models"], 1),
        }
        commit = subprocess.check_output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], text=True)
        write_json(
            RESULT,
            {"commit": commit.strip(), "load_before": round(load, 1), "measured": figures, "goals": GOALS},
        )
        print(json.dumps(figures))
    return demo.returncode


if __name__ == "__main__":
    sys.exit(main())
