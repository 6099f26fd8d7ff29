"""How long judging takes as the benchmark grows: writes results/bench/judging.json.

`python -m bench.judging` makes answer tables of 10,000, 100,000 and 1,000,000 items and judges each in a
process of its own, three times, from the Parquet file to the written verdicts; `--quick` takes small ones and writes
nothing. The tables are made up, and so are the verdicts: only time and memory are measured here.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from robustify.answers import SCHEMA
from robustify.arrays import Floats

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "judging.json"
SIZES = (10_000, 100_000, 1_000_000)
QUICK = (1_000, 2_000)
VOTERS = ("one", "two", "three")
CHOICES, TOPICS, TIMES = 4, 20, 3
GOAL_SECONDS, GOAL_GIB = 30.0, 2.0
CASES = {"screen": ("choices_only",), "whole": ("choices_only", "full", "cloze")}
"""Which views each voter answered, once an item; the goal is for `screen`."""
WHOLE = 100_000
"""The largest size that is judged with all views."""


def main(quick: bool) -> int:
    """Measure every size of every case."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for n in QUICK if quick else SIZES:
                if case == "whole" and n > WHOLE:
                    continue
                path = Path(folder) / f"{case}-{n}.parquet"
                write(path, n, CASES[case])
                rows.append({"case": case, "items": n, **_median([_process(path) for _ in range(TIMES)])})
                path.unlink()
                print(json.dumps(rows[-1]), flush=True)
    top = max((r for r in rows if r["case"] == "screen"), key=lambda r: r["items"])
    met = top["seconds"] <= GOAL_SECONDS and top["peak_gib"] <= GOAL_GIB
    result = {
        "says": "from answers.parquet to written verdicts and summary, start of the process included",
        "voters": len(VOTERS),
        "goal_seconds": GOAL_SECONDS,
        "goal_gib": GOAL_GIB,
        "met": met,
        "machine": {"cores": os.cpu_count(), "load_after": round(os.getloadavg()[0], 2)},
        "rows": rows,
    }
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def write(path: Path, n: int, views: tuple[str, ...]) -> None:
    """A made-up answer table: every voter knows a tenth of the items and guesses the rest, in part alike."""
    rng = np.random.default_rng(0)
    key = rng.integers(CHOICES, size=n)
    shared = rng.normal(size=(n, CHOICES))
    known = rng.random(n) < 0.1
    items = pa.array([f"item-{i:07}" for i in range(n)])
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for view in views:
            for voter in VOTERS:
                scores = 0.7 * shared + 0.7 * rng.normal(size=(n, CHOICES))
                scores[np.arange(n), key] += np.where(known, 3.0, 0.5 if view != "choices_only" else 0.0)
                scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
                writer.write_table(_table(items, view, voter, key, scores))


def judged(path: Path) -> None:
    """Judge a table as `robustify judge` does where there is no text, and write what it says."""
    from robustify.answers import Answers
    from robustify.files import write_json
    from robustify.judge.judgement import Facts, Rules, judge
    from robustify.writers.verdict_table import write_verdicts

    answers = Answers.read(path)
    topics = dict(zip(answers.items, cycle([f"topic-{t}" for t in range(TOPICS)]), strict=False))
    judgement = judge(answers, Facts("made up", topics), Rules())
    write_verdicts(
        path.parent / "verdicts.csv", judgement.verdicts, judgement.cloze_excluded, topics, judgement.evidence
    )
    write_json(path.parent / "summary.json", judgement.summary.tree())
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()]))


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run of median seconds, and the range."""
    ordered = sorted(runs, key=lambda run: run["seconds"])
    return {**ordered[len(ordered) // 2], "range": [ordered[0]["seconds"], ordered[-1]["seconds"]]}


def _process(path: Path) -> dict[str, Any]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "bench.judging", "judge", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    seconds = time.perf_counter() - start
    kib, processor = json.loads(done.stdout)
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "peak_gib": round(kib / 2**20, 2),
    }


def _table(items: pa.Array, view: str, voter: str, key: npt.NDArray[np.int64], scores: Floats) -> pa.Table:
    n = len(items)
    pick = scores.argmax(axis=1)
    own = pa.array(np.tile(np.arange(CHOICES, dtype=np.int16), n))
    chars = pa.array(np.full(n * CHOICES, 20, dtype=np.int32))
    starts = pa.array(np.arange(0, n * CHOICES + 1, CHOICES, dtype=np.int32))

    def lists(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(starts, values)

    columns = {
        "item": items,
        "view": pa.repeat(view, n),
        "model": pa.repeat(voter, n),
        "order": lists(own),
        "template": pa.repeat("made-up", n),
        "key": pa.array(key.astype(np.int16)),
        "pick": pa.array(pick.astype(np.int16)),
        "correct": pa.array((pick == key).astype(np.float64)),
        "scores": lists(pa.array(scores.ravel())),
        "n_chars": lists(chars),
        "n_bytes": lists(chars),
        "n_tokens": lists(chars),
        "tie": pa.repeat(np.int16(1), n),
        "error": pa.nulls(n, pa.string()),
    }
    return pa.table(columns).cast(SCHEMA)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["judge", path]:
            judged(Path(path))
        case arguments:
            sys.exit(main("--quick" in arguments))
