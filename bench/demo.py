"""How long the demo takes, by step, and how much memory: writes results/bench/demo.json.

Every step is its own process, so that each pays for its own imports, as a user does.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEPS = {
    "audit": ["demo_benign.yaml", "--out", "OUT", "--quiet"],
    "judge": ["judge", "OUT", "-o", "AGAIN"],
    "report": ["report", "OUT"],
}


def main() -> int:
    measured: dict[str, object] = {
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, words in STEPS.items():
            command = [w.replace("OUT", f"{folder}/out").replace("AGAIN", f"{folder}/again") for w in words]
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "robustify", *command], check=True, capture_output=True, cwd=ROOT
            )
            measured[f"{name}_seconds"] = round(time.perf_counter() - start, 2)
            print(name, measured[f"{name}_seconds"], flush=True)
    # In kilobytes on Linux: the largest of the processes that have ended.
    measured["peak_gib"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2)
    path = ROOT / "results" / "bench" / "demo.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
