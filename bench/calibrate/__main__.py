"""Make benchmarks, judge them on all cores, and write results/calibration: `make calibrate`.

`--scale 0.05` makes a twentieth of them, `--out DIR` writes elsewhere, and `--only fdr` (or `adjusted`, `real`, `grid`)
makes one part. `adjusted` and `real` need the real sets in $ROBUSTIFY_DATA and are skipped without them. The results do
not depend on the number of cores.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.calibrate.adjusted import adjusted, real
from bench.calibrate.filtering import fdr
from bench.calibrate.grid import all_cells, gathered, trial
from robustify.base.files import write_json

RESULTS = Path(__file__).parent.parent.parent / "results" / "calibration"
PARTS = ("adjusted", "real", "fdr", "grid")
SEEDS = 100_000
"""Distance between the first seeds of two cells, so that no two benchmarks share a seed."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.out.mkdir(parents=True, exist_ok=True)
    start, files = time.monotonic(), {}
    with ProcessPoolExecutor(given.jobs) as pool:
        wanted = PARTS if given.only is None else (given.only,)
        if "adjusted" in wanted and (found := adjusted(pool, given.scale)) is not None:
            files["adjusted"] = found
        if "real" in wanted and (left := real(pool)) is not None:
            files["real"] = left
        if "fdr" in wanted:
            files["fdr"] = fdr(pool, given.scale)
        if "grid" in wanted:
            cells = all_cells(given.scale)
            seeds = [range(SEEDS * (i + 1), SEEDS * (i + 1) + c.repeats) for i, c in enumerate(cells)]
            work = [(cell, seed) for cell, some in zip(cells, seeds, strict=True) for seed in some]
            done = pool.map(trial, *zip(*work, strict=True), chunksize=8)
            files |= gathered(list(zip((cell for cell, _ in work), done, strict=True)))
    for name, content in files.items():
        write_json(given.out / f"{name}.json", content)
    print(f"{(time.monotonic() - start) / 60:.1f} minutes on {given.jobs} cores", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
