"""What workers cost against one process with as many threads: writes results/bench/ray.json.

`python -m bench.ray_pool` scores the same requests A B B A: the engine hf with 2 threads and its usual long
sections, and the engine ray with 2 workers of 1 thread each and short ones, both without a score cache. Each side is a
process of its own, which times its start (imports, cluster, model in memory, first requests) with its end, and the
scoring between them. CPU seconds are those of the process and all its children; on a machine that others use they say
more than the clock, but threads that wait for each other burn them too.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.cases import arc, asked
from robustify.engines.local.engine import HF
from robustify.engines.settings import RayModel
from robustify.models import cache_folder, locate

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "bench" / "ray.json"
MODEL = "smollm2-135m"
WORKERS = 2
PAIRS, ITEMS, BUDGET, SECTION = 3, 400, 512, 2
GOAL = 1.15
SIDES = ("local", "ray")


def main(pairs: int, items: int) -> int:
    """Measure pairs, and keep them with their medians."""
    rows: list[dict[str, Any]] = []
    totals: list[list[float]] = []
    for number in range(pairs):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            load = round(os.getloadavg()[0], 2)
            found = _process(side, items)
            totals.append(found.pop("totals"))
            rows.append({"pair": number, "side": side, "load_before": load, **found})
            print(json.dumps(rows[-1]), flush=True)
    result = {
        "says": f"{MODEL}, ARC-Challenge, {items} items, full and cloze, float32; {WORKERS} workers of 1 thread "
        f"against 1 process of {WORKERS} threads; batches of 2,048 tokens alone, of {BUDGET} on workers, in sections of "
        f"{SECTION}",
        "goal": GOAL,
        **{name: _ratio(rows, parts) for name, parts in _KINDS.items()},
        "max_abs_diff": max(abs(a - b) for one in totals for a, b in zip(totals[0], one, strict=True)),
        "rows": rows,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "cpu": platform.machine(),
            **{package: version(package) for package in ("ray", "torch", "transformers")},
            "date": datetime.now(timezone.utc).date().isoformat(),
        },
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


_KINDS = {
    "seconds_with_start": ("start", "scoring"),
    "seconds_without_start": ("scoring",),
    "cpu_seconds_with_start": ("cpu",),
    "cpu_seconds_without_start": ("cpu_scoring",),
}


def _ratio(rows: list[dict[str, Any]], parts: tuple[str, ...]) -> dict[str, Any]:
    """Ray's over the local engine's, pair by pair."""
    took = {(row["pair"], row["side"]): sum(row[part] for part in parts) for row in rows}
    ratios = [took[pair, "ray"] / took[pair, "local"] for pair, side in took if side == "local"]
    return {
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
        "met": statistics.median(ratios) <= GOAL,
        **{side: round(statistics.median(t for (_, s), t in took.items() if s == side), 2) for side in SIDES},
    }


def _process(side: str, items: int) -> dict[str, Any]:
    threads = WORKERS if side == "local" else 1
    done = subprocess.run(
        [sys.executable, "-m", "bench.ray_pool", side, str(items)],
        check=True, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def scored(side: str, items: int) -> None:
    """One side in this process."""
    requests = asked(arc(items), ("full", "cloze"))
    folder = locate(MODEL, cache_folder())
    begun, cpu = time.perf_counter(), _cpu()
    with _engine(side, folder) as engine:
        # As many first requests as workers, so that all of them are ready.
        engine.loglikelihoods(requests[:4])
        if side == "ray":
            engine.opened()._pool.ready(WORKERS)
        started, cpu_started = time.perf_counter(), _cpu()
        found = engine.loglikelihoods(requests)
        ended, cpu_ended = time.perf_counter(), _cpu()
    print(json.dumps({
        "start": round(started - begun + time.perf_counter() - ended, 2),
        "scoring": round(ended - started, 2),
        "cpu_scoring": round(cpu_ended - cpu_started, 2),
        # Without the end: processes of a cluster that has ended are nobody's children.
        "cpu": round(cpu_ended - cpu, 2),
        "requests": len(requests),
        "totals": [one.total for one in found],
    }))  # fmt: skip


def _engine(side: str, folder: Path) -> HF:
    from robustify.engines.ray.engine import Remote

    if side == "local":
        return HF(MODEL, folder)
    model = RayModel(name=MODEL, engine="ray", section=SECTION, workers=WORKERS, max_batch_tokens=BUDGET)
    return HF(
        MODEL,
        folder,
        max_batch_tokens=BUDGET,
        section=SECTION,
        n_threads=1,
        elsewhere=partial(Remote, model, folder),
    )


def _cpu() -> float:
    """CPU seconds of this process and everything below it, living or ended."""
    parents, used = {}, {}
    for process in (p for p in Path("/proc").iterdir() if p.name.isdecimal()):
        with suppress(OSError):  # it has ended meanwhile
            after = (process / "stat").read_text().rpartition(")")[2].split()
            parents[int(process.name)] = int(after[1])
            used[int(process.name)] = sum(int(after[place]) for place in (11, 12, 13, 14))
    family = [os.getpid()]
    for pid in family:
        family.extend(child for child, parent in parents.items() if parent == pid)
    return sum(used[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [("local" | "ray") as one, number]:
            scored(one, int(number))
        case ["--pairs", count, "--items", number]:
            sys.exit(main(int(count), int(number)))
        case _:
            sys.exit(main(PAIRS, ITEMS))
