"""Kill runs, change files, and vary surroundings: `make torture` writes results/bench/torture.json.

`python -m bench.torture PART...` repeats these parts (surroundings, files, kills) and keeps the others in the file.
`--short` takes a few minutes and writes nothing. `--again SEED KIND DRAW` repeats one draw and shows its output.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from itertools import repeat
from pathlib import Path

from bench.results import RESULTS, Tree, commit, machine, measure, read
from bench.torture.runs import killed_often, undisturbed
from bench.torture.seeds import Seed, seeds
from bench.torture.trial import MEMORY, SECONDS, Fault, forking, surrounded, tried

FILE = RESULTS / "bench" / "torture.json"
SLOWER = 20
"""A command that loads torch is tried this many times less often."""
KILLS = 200
FULL, SHORT = {"bytes": 5_000, "structured": 10_000}, {"bytes": 60, "structured": 120}
"""Numbers of changed files of each kind."""
PARTS = ("surroundings", "files", "kills")


def draws(found: tuple[Seed, ...], total: int) -> list[tuple[Seed, int]]:
    """Divide `total` draws among the seeds, with fewer for those that load torch, or draw that many of more seeds."""
    if total < len(found):
        return [(seed, 0) for seed in random.Random(total).sample(found, total)]
    shares = [1 / SLOWER if s.model else 1.0 for s in found]
    counts = [max(1, round(total * share / sum(shares))) for share in shares]
    return [(seed, draw) for seed, n in zip(found, counts, strict=True) for draw in range(n)]


def fuzzed(
    found: tuple[Seed, ...], amount: Mapping[str, int], workers: int
) -> tuple[dict[str, int], list[Fault]]:
    """Run every draw of both types, and return their numbers and the faults."""
    todo = {kind: draws(found, total) for kind, total in amount.items()}
    with forking(workers) as pool:
        ended = [
            pool.map(tried, *zip(*some, strict=True), repeat(kind), chunksize=8)
            for kind, some in todo.items()
        ]
        faults = [fault for faults in ended for fault in faults if fault]
    return {kind: len(some) for kind, some in todo.items()}, faults


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="run for a few minutes and write nothing")
    parser.add_argument("--again", nargs=3, metavar=("SEED", "KIND", "DRAW"), help="repeat one draw")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="torture-") as made:
        folder = Path(made)
        found = seeds(folder / "seeds", models=not given.short)
        if given.again:
            name, kind, draw = given.again
            seed = next(s for s in found if s.name == name)
            with forking(1) as pool:
                print(pool.submit(tried, seed, int(draw), kind).result() or "every promise was kept")
            return 0
        if given.short:
            counts, faults = fuzzed(found, SHORT, 1)
            print(json.dumps(counts))
            print(*faults, sep="\n", file=sys.stderr)
            return int(bool(faults))
        stamp = {
            "limits": {"processor_seconds": SECONDS, "more_memory_mib": MEMORY >> 20},
            "seeds": [s.name for s in found],
            "machine": machine(),
        }
        parts = {name: partial(_part, name, folder, found) for name in PARTS}
        code = measure(FILE, parts, given.parts, lambda: stamp)
    return code or int(any(read(FILE)[name]["faults"] for name in given.parts or PARTS))


def _part(name: str, folder: Path, found: tuple[Seed, ...]) -> Tree:
    """Run a part, and return its counts and faults."""
    begin, faults = time.monotonic(), list[Fault]()
    match name:
        case "surroundings":
            n, faults = surrounded(folder / "seeds", folder)
            counts = {"tried": n}
        case "files":
            counts, faults = fuzzed(found, FULL, 2)
        case _:
            # It raises if the bytes differ or a score was lost.
            started = killed_often(undisturbed(folder / "killed"), folder, KILLS)
            counts = {"killed": KILLS, "started": started}
    return {
        "commit": commit(), **counts, "faults": [asdict(fault) for fault in faults],
        "minutes": round((time.monotonic() - begin) / 60, 1), "load_after": round(os.getloadavg()[0], 2),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
