"""Measure what Ray Data buys for work that needs no other item: writes results/bench/ray_data.json.

Shards of made-up items are read, validated, and scored by each rule that is not fitted to the set: in one process, in two
processes of the standard library, and by Ray Data with two workers. All must count the same hits. Seconds, processor
seconds, and peak memory (shared pages once) are those of all processes, sampled five times a second.

`python -m bench.ray_data [N...]` measures these numbers of items, and keeps the others in the file. Requires psutil and
`ray[data]`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from bench.load import write_items
from bench.results import RESULTS, Tree, measure, measured
from robustify.judging.baselines.heuristics import HEURISTICS, listed_credit
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load

SIZES, SHARD, WORKERS = (200_000, 500_000), 10_000, 2
WAYS = ("one process", "two processes", "Ray Data")
RULES = [rule.name for rule in HEURISTICS if not rule.fitted]
Counts = dict[str, float]


def counted(shard: str) -> Counts:
    """Read a shard, and return its number of items and the hits of each rule."""
    items = load(Source(path=shard), UNGUARDED).items
    return {
        "items": len(items),
        **{name: float(of.sum()) for name, of in listed_credit(items, RULES).items()},
    }


def by_way(way: str, shards: Sequence[str]) -> list[Counts]:
    """Return the counts of the shards, in any order."""
    match way:
        case "one process":
            return list(map(counted, shards))
        case "two processes":
            with ProcessPoolExecutor(WORKERS) as pool:
                return list(pool.map(counted, shards))
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    rows = ray.data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
    return list(rows.map(lambda row: counted(row["shard"]), concurrency=WORKERS).take_all())


def watched(way: str, folder: str) -> tuple[Counts, Tree]:
    """Run a way in a process of its own, and return the total of its counts and what it took."""
    import psutil  # type: ignore[import-untyped]

    used, pages, counts = dict[int, float](), [0], Path(folder, "counts.json")

    def look(process: int) -> None:
        now = 0
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(process)
            for one in (first, *first.children(recursive=True)):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    used[one.pid] = sum(one.cpu_times()[:2])
                    now += one.memory_full_info().pss
        pages.append(now)

    with counts.open("w") as file:
        took = measured([sys.executable, "-m", "bench.ray_data", "--way", way, folder], look, stdout=file)
    took |= {"processor_seconds": round(sum(used.values()), 1), "peak_mib": max(pages) >> 20}
    return json.loads(counts.read_text()), took


def compared(n: int) -> Tree:
    """Return what each way takes for n items."""
    with tempfile.TemporaryDirectory() as folder:
        write_items(Path(folder, "items"), n)
        split = ["split", "-l", str(SHARD), "-a", "4", "--additional-suffix", ".jsonl", "items", "shard-"]
        subprocess.run(split, cwd=folder, check=True)
        found = {way: watched(way, folder) for way in WAYS}
    assert len({json.dumps(counts) for counts, _ in found.values()}) == 1, found
    return {way: took for way, (_, took) in found.items()}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--way", way, folder]:
            counts = by_way(way, sorted(map(str, Path(folder).glob("*.jsonl"))))
            print(json.dumps({name: round(sum(one[name] for one in counts), 3) for name in counts[0]}))
        case names:
            parts = {str(n): partial(compared, n) for n in SIZES}
            path = RESULTS / "bench" / "ray_data.json"
            sys.exit(measure(path, parts, names, lambda: {"ray": version("ray")}))
