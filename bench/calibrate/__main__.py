"""`make calibrate`: makes the benchmarks, judges them on all cores, writes results/calibration.

`--scale 0.05` makes a twentieth of them, `--out DIR` writes elsewhere, `--only fdr` (or `grid`) makes a part.
The same code gives the same files, on any number of cores.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.calibrate.arms import Cell, all_cells
from bench.calibrate.decoys import fdr
from bench.calibrate.gather import closing_lines, gathered
from bench.calibrate.plots import draw_all
from bench.calibrate.trial import Trial, trial
from robustify.files import write_json

RESULTS = Path(__file__).parent.parent.parent / "results" / "calibration"
PARTS = ("fdr", "grid")
SEEDS = 100_000
"""Seeds of a cell start here times its place; no two benchmarks share one."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args(arguments)
    parts = (given.only,) if given.only else PARTS
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    if "fdr" in parts:
        with ProcessPoolExecutor(given.jobs) as pool:
            write_json(given.out / "fdr.json", fdr(pool, given.scale))
    if "grid" in parts:
        cells = all_cells(given.scale)
        trials = list(_watched(run(cells, given.jobs), sum(c.repeats for c in cells)))
        files = gathered(cells, trials)
        for name, content in files.items():
            write_json(given.out / f"{name}.json", content)
        print("\n".join(closing_lines(files)))
    draw_all(given.out)
    print(f"{(time.monotonic() - start) / 60:.1f} minutes on {given.jobs} cores", file=sys.stderr)
    return 0


def run(cells: list[Cell], jobs: int) -> Iterator[Trial]:
    """All trials, in one order whatever the number of cores."""
    work = [(i, cell, SEEDS * (i + 1) + r) for i, cell in enumerate(cells) for r in range(cell.repeats)]
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_one, work, chunksize=8)


def _one(work: tuple[int, Cell, int]) -> Trial:
    return trial(*work)


def _watched(trials: Iterator[Trial], total: int) -> Iterator[Trial]:
    from tqdm import tqdm

    yield from tqdm(trials, total=total, unit="benchmark", file=sys.stderr, disable=not sys.stderr.isatty(),
                    mininterval=5)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
