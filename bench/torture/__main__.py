"""Kill runs, change files, pair runs, and vary surroundings: `make torture` writes results/bench/torture.json.

`python -m bench.torture PART...` repeats these parts (surroundings, files, pairs, kills) and keeps the others in the file.
`--short` takes a few minutes and writes nothing. `--again SEED KIND DRAW` repeats one draw and shows its output.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.torture.runs import killed_often, undisturbed
from bench.torture.seeds import Seed, seeds
from bench.torture.surroundings import COMMANDS, SURROUNDINGS, pairs, surrounded
from bench.torture.trial import CODES, MEMORY, SECONDS, Fault, tried

RESULTS = Path(__file__).parents[2] / "results" / "bench" / "torture.json"
SLOWER = 20
"""A command that loads torch is tried this many times less often."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Numbers of kills, byte changes, structural changes, and pairs of runs."""

    kills: int
    bytes: int
    structured: int
    pairs: int


PARTS = ("surroundings", "files", "pairs", "kills")
FULL, SHORT = Amount(200, 5_000, 10_000, 20), Amount(0, 120, 240, 0)


def draws(found: tuple[Seed, ...], total: int) -> list[tuple[Seed, int]]:
    """Divide `total` draws among the seeds, with fewer for those that load torch."""
    shares = [1 / SLOWER if s.model else 1.0 for s in found]
    counts = [max(1, round(total * share / sum(shares))) for share in shares]
    return [(seed, draw) for seed, n in zip(found, counts, strict=True) for draw in range(n)]


def _one(home: Path, kind: str, one: tuple[Seed, int]) -> Fault | None:
    return tried(home, one[0], kind, one[1])


def fuzzed(
    home: Path, found: tuple[Seed, ...], amount: Amount, workers: int
) -> tuple[dict[str, int], list[Fault]]:
    """Run every draw of both types, and return their numbers and the faults."""
    faults: list[Fault] = []
    counts = {}
    with ProcessPoolExecutor(workers, initializer=_imports) as pool:
        for kind, total in (("bytes", amount.bytes), ("structured", amount.structured)):
            todo = draws(found, total)
            counts[kind] = len(todo)
            faults += [f for f in pool.map(partial(_one, home, kind), todo, chunksize=8) if f]
    return counts, faults


def _imports() -> None:
    """Import the modules that every forked command needs, except torch, whose threads do not survive a fork."""
    import numpy
    import pandas
    import pyarrow.parquet
    import scipy.stats

    import robustify.cli

    del numpy, pandas, pyarrow, scipy, robustify


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="run for a few minutes and write nothing")
    parser.add_argument("--again", nargs=3, metavar=("SEED", "KIND", "DRAW"), help="repeat one draw")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="torture-") as made:
        folder = Path(made)
        found = seeds(folder / "seeds", models=not given.short)
        if given.again:
            name, kind, draw = given.again
            print(
                tried(folder / "seeds", next(s for s in found if s.name == name), kind, int(draw))
                or "every promise was kept"
            )
            return 0
        if given.short:
            counts, faults = fuzzed(folder / "seeds", found, SHORT, given.workers)
            for fault in faults:
                print(fault, file=sys.stderr)
            print(json.dumps(counts))
            return int(bool(faults))
        return _full([p for p in PARTS if p in given.parts or not given.parts], folder, found, given.workers)


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.check_output(command, cwd=RESULTS.parent, text=True).strip()


def _full(parts: Sequence[str], folder: Path, found: tuple[Seed, ...], workers: int) -> int:
    """Run these parts in turn and save after each, so that an interrupted run keeps its results."""
    made = folder / "seeds"
    n_faults = 0
    for part in parts:
        begin = time.monotonic()
        faults: list[Fault] = []
        counts: dict[str, int] = {}
        match part:
            case "surroundings":
                counts["tried"], faults = surrounded(made, folder)
            case "files":
                counts, faults = fuzzed(made, found, FULL, workers)
            case "pairs":
                counts["tried"] = FULL.pairs
                faults = pairs(undisturbed(folder / "paired"), folder, FULL.pairs)
            case _:
                # It raises if the bytes differ or a score was lost.
                started = killed_often(undisturbed(folder / "killed"), folder, FULL.kills)
                counts = {"killed": FULL.kills, "started": started}
        for fault in faults:
            print(fault, file=sys.stderr)
        n_faults += len(faults)
        measured = {
            "commit": _commit(),
            **counts,
            "faults": [asdict(fault) for fault in faults],
            "minutes": round((time.monotonic() - begin) / 60, 1),
            "load_after": round(os.getloadavg()[0], 2),
        }
        result = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        result |= {
            part: measured,
            "commands": len(COMMANDS),
            "documented_codes": sorted(CODES),
            "limits": {"processor_seconds": SECONDS, "more_memory_mib": MEMORY >> 20},
            "seeds": [s.name for s in found],
            "surroundings_named": [s.name for s in SURROUNDINGS],
            "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        }
        RESULTS.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        print(json.dumps({part: {**measured, "faults": len(faults)}}), flush=True)
    return int(bool(n_faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
