"""Make benchmarks, judge them on all cores, and write results/calibration: `make calibrate`.

`--scale 0.05` makes a twentieth of them, `--out DIR` writes elsewhere, and `--only PART` makes one of `PARTS`.
`--says TEXT` repeats only the scenarios of fdr.json whose names contain it, and keeps the others. The results do not depend
on the number of cores.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.calibrate.filtering import fdr
from bench.calibrate.grid import grid
from bench.calibrate.looks import looks
from bench.calibrate.looks_pairs import looks_pairs
from bench.calibrate.paired import paired
from bench.results import RESULTS, left_out
from robustify.base.files import write_json

PARTS = {"fdr": fdr, "grid": grid, "looks": looks, "looks_pairs": looks_pairs, "paired": paired}
"""Functions of a pool of processes and a scale that return the content of files by name."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--says", default="")
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        if given.says:
            known = json.loads((given.out / "fdr.json").read_text())
            write_json(given.out / "fdr.json", fdr(pool, given.scale, known, given.says)["fdr"])
            return 0
        for part in [given.only] if given.only else PARTS:
            with left_out(part):
                for name, content in PARTS[part](pool, given.scale).items():
                    write_json(given.out / f"{name}.json", content)
    print(f"{(time.monotonic() - start) / 60:.1f} minutes on {given.jobs} cores", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
