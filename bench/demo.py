"""Measure the cost of the demo for a new user: `python -m bench.demo`.

It clones this commit and runs `make demo` in the clone, with a new environment and an empty cache. Installation, downloads
and conversion therefore count. Writes `results/bench/demo.json`. Run it on an idle machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.results import RESULTS, ROOT, commit, measured
from robustify.base.files import write_json
from robustify.models.names import ENCODER, KNOWN

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
        seen: dict[str, float] = {}

        def look(_: int) -> None:
            there = [name for name, paths in places.items() if all(path.exists() for path in paths)]
            seen.update({name: time.monotonic() for name in there if name not in seen})

        how = {
            "cwd": clone,
            "env": {**kept, "ROBUSTIFY_CACHE": str(cache)},
            "stdout": sys.stderr,
            "stderr": None,
        }
        took = measured(["make", "demo"], look, **how)
    if not took["exit_code"]:
        figures = {
            "seconds": round(took["seconds"]),
            "processor_seconds": round(took["processor_seconds"]),
            "gibibytes": round(took["peak_mib"] / 2**10, 2),
            "first_page_seconds": round(seen["page"] - seen["models"], 1),
        }
        tree = {
            "commit": commit(),
            "load_before": round(took["load_before"], 1),
            "measured": figures,
            "goals": GOALS,
        }
        write_json(RESULTS / "bench" / "demo.json", tree)
        print(json.dumps(figures))
    return int(took["exit_code"])


if __name__ == "__main__":
    sys.exit(main())
