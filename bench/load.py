"""Measure the cost of large inputs: `python -m bench.load [PART...]` writes results/bench/load.json.

The parts are validate, heuristics, planning, judging, importing, weighing, encoding, and auditing. Each command runs in a
separate process. The results are wall time, processor time, peak memory, and the load average before the command. All input
is made up except the encoded options (of ARC) and the audited items (of MMLU-Pro, without a language model). `--quick` uses
a thousandth of the items and writes nothing.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases import folder as shared
from robustify.items.answers import SCHEMA, Answers
from robustify.items.item import Item
from robustify.items.views import View
from robustify.judging.stats.balance import balancing, weights, worth
from robustify.models.asking import Asking, plan
from robustify.models.folder import cache_folder
from robustify.reading.loaders import Source, load
from tests.support.fake_logs import jsonl, lm_eval_row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "load.json"
MILLION, ASKED, LOGGED = 1_000_000, 100_000, 100_000
VOTERS = ("one", "two", "three")
CHOICES, TOPICS = 4, 20
SHAPES: dict[str, tuple[int, tuple[View, ...]]] = {
    "five models": (5, ("choices_only",)),
    "one view": (1, ("full",)),
    "four views": (1, ("full", "cloze", "choices_only", "choices_only_text")),
}
"""Models of a log and the views in which each item is asked; they share the logged rows."""
ENCODED, COLUMNS, WEIGHED, AUDITED = 10_000, 9, 2_000, 12_032

Measured = dict[str, float | int]


def measured(*arguments: str, module: str = "robustify") -> Measured:
    """Run a module and return its exit code, wall and processor seconds, and peak memory in MiB."""
    start, load = time.monotonic(), os.getloadavg()[0]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": used.ru_maxrss // 1024,
        "load_before": round(load, 2),
    }


def made_up(n: int, draw: random.Random) -> Iterator[Item]:
    """Yield items of random words, with the typical length of public benchmarks."""
    letters = "abcdefghijklmnoprstuvw"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(4000)]
    for i in range(n):
        choices: dict[str, None] = {}
        while len(choices) < CHOICES:
            choices.setdefault(" ".join(draw.choices(words, k=draw.randint(1, 9))))
        stem = " ".join(draw.choices(words, k=draw.randint(8, 35))) + f" {i}?"
        yield Item(f"i{i}", stem, tuple(choices), draw.randrange(CHOICES), f"topic {i % TOPICS}")


def write_items(path: Path, n: int) -> None:
    """Write made-up items as JSON Lines."""
    with path.open("w") as file:
        for item in made_up(n, random.Random(1)):
            fields = {name: getattr(item, name) for name in ("id", "stem", "choices", "key", "topic")}
            file.write(json.dumps(fields) + "\n")


def write_answers(path: Path, n: int) -> None:
    """Write an answer table in which every voter knows a tenth of the items and guesses partly alike."""
    rng = np.random.default_rng(0)
    key, known = rng.integers(CHOICES, size=n), rng.random(n) < 0.1
    shared = rng.normal(size=(n, CHOICES))
    starts = pa.array(np.arange(0, n * CHOICES + 1, CHOICES, dtype=np.int32))
    lists = partial(pa.ListArray.from_arrays, starts)
    lengths = lists(pa.array(np.full(n * CHOICES, 20, dtype=np.int32)))
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for voter in VOTERS:
            scores = 0.7 * shared + 0.7 * rng.normal(size=(n, CHOICES))
            scores[np.arange(n), key] += np.where(known, 3.0, 0.0)
            scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
            pick = scores.argmax(axis=1)
            columns = {
                "item": pa.array([f"item-{i:07}" for i in range(n)]),
                "view": pa.repeat("choices_only", n),
                "model": pa.repeat(voter, n),
                "order": lists(pa.array(np.tile(np.arange(CHOICES, dtype=np.int16), n))),
                "template": pa.repeat("made-up", n),
                "key": pa.array(key.astype(np.int16)),
                "pick": pa.array(pick.astype(np.int16)),
                "correct": pa.array((pick == key).astype(np.float64)),
                "scores": lists(pa.array(scores.ravel())),
                **dict.fromkeys(("n_chars", "n_bytes", "n_tokens"), lengths),
                "tie": pa.repeat(np.int16(1), n),
                "error": pa.nulls(n, pa.string()),
            }
            writer.write_table(pa.table(columns).cast(SCHEMA))


def judge_table(path: str) -> None:
    """Judge an answer table without texts, like `robustify judge`, and write the results beside it."""
    from robustify.base.files import write_json
    from robustify.judging.context import Facts, Rules
    from robustify.judging.judgement import judge
    from robustify.pipeline.public import write_verdicts

    answers = Answers.read(Path(path))
    topics = dict(zip(answers.items, cycle([f"topic-{t}" for t in range(TOPICS)]), strict=False))
    found = judge(answers, Facts("made up", topics), Rules())
    write_verdicts(Path(path).with_name("verdicts.csv"), found, topics)
    write_json(Path(path).with_name("summary.json"), found.summary.tree())


def weigh_columns(n: str) -> None:
    """Weigh n items by made-up columns: gains of a scorer, and of rules that gain on two fifths of the items."""
    draw = np.random.default_rng(0)
    gains = draw.normal(0.2, 1.0, (int(n), 5)), (draw.random((int(n), COLUMNS - 5)) < 0.4) - 0.25
    columns = np.concatenate(gains, axis=1)
    columns /= columns.std(axis=0)
    print(worth(weights(columns, balancing(columns))))


def weigh_items(path: str) -> None:
    """Weigh the items of a file by their texts, and audit the weights with other probes."""
    from robustify.pipeline.asked import weighed
    from robustify.pipeline.config import config_for

    found = weighed(load(Source(path=path)), config_for(path, public=True), Path(path).parent)
    print(found and found.part.worth)


def encode_options(n: str) -> None:
    """Encode the first n distinct options of ARC."""
    from robustify.pipeline.by_meaning import text_vectors

    sets = (shared() / "arc" / name for name in ("ARC-Challenge-Test.jsonl", "arc_easy.jsonl"))
    choices = (
        choice for path in sets for item in load(Source(path=str(path))).items for choice in item.choices
    )
    texts = list(dict.fromkeys(choices))[: int(n)]
    if text_vectors(texts, cache_folder(None), keep=False) is None:
        raise SystemExit("The encoder is not installed. Run `robustify models pull minilm-l6-v2`.")


def plan_requests(path: str) -> None:
    """Load a benchmark and plan every request of the default settings."""
    print(sum(len(one.requests) for one in plan(load(Source(path=path)).items, Asking())))


def write_logs(folder: Path, shape: str, rows: int) -> list[str]:
    """Write lm-eval logs of a shape and return their names for the command line."""
    models, views = SHAPES[shape]
    draw = random.Random(0)
    items = list(made_up(rows // (models * len(views)), draw))
    named = []
    for model, view in product(range(models), views):
        path = folder / f"samples_{view}{model}_2026-01-01T00-00-00.000000.jsonl"
        texts, hidden = view in ("cloze", "choices_only_text"), view.startswith("choices_only")
        scores = [[str(-round(draw.uniform(0.1, 40), 6)) for _ in item.choices] for item in items]
        log = [lm_eval_row(item, at, scores[at], texts=texts, hidden=hidden) for at, item in enumerate(items)]
        jsonl(path, log)
        named.append(f"voter{model}={view}:{path}")
    return named


def _on_items(folder: Path, n: int, *command: str, module: str = "robustify") -> dict[str, Measured]:
    path = folder / "items.jsonl"
    write_items(path, n)
    return {f"{n:,} items": measured(*command, str(path), module=module)}


def _growing(folder: Path, n: int, command: str) -> dict[str, Measured]:
    return {name: one for size in (n // 10, n) for name, one in _on_items(folder, size, command).items()}


def _auditing(folder: Path, n: int) -> dict[str, Measured]:
    (folder / "cache").mkdir()
    (folder / "cache" / "models").symlink_to(cache_folder(None) / "models")
    items = shared() / "mmlu_pro_models" / "items.jsonl"
    options = ("--public", "--limit", str(n), "-o", str(folder / "run"), "--cache-dir", str(folder / "cache"))
    return {f"{n:,} items of MMLU-Pro": measured("run", str(items), *options)}


def _judging(folder: Path, n: int) -> dict[str, Measured]:
    out = {}
    for size in (n // 100, n // 10, n):
        path = folder / "answers.parquet"
        write_answers(path, size)
        out[f"{size:,} items, {len(VOTERS)} voters"] = measured("judge", str(path), module="bench.load")
    return out


def _importing(folder: Path, rows: int) -> dict[str, Measured]:
    out = {}
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            logs = write_logs(Path(place), shape, rows)
            out[f"{rows:,} rows, {shape}"] = measured("import", *logs, "-o", f"{place}/out")
    return out


def _weighing(folder: Path, n: int) -> dict[str, Measured]:
    texts = _on_items(folder, max(n * WEIGHED // MILLION, 200), "weigh", module="bench.load")
    columns = measured("columns", str(n), module="bench.load")
    return {f"{n:,} items, {COLUMNS} columns": columns, **{f"{of}, texts": one for of, one in texts.items()}}


PARTS: Mapping[str, tuple[int, Callable[[Path, int], dict[str, Measured]]]] = {
    "validate": (MILLION, lambda folder, n: _growing(folder, n, "validate")),
    "heuristics": (MILLION, lambda folder, n: _growing(folder, n, "heuristics")),
    "planning": (ASKED, lambda folder, n: _on_items(folder, n, "plan", module="bench.load")),
    "judging": (MILLION, _judging),
    "importing": (LOGGED, _importing),
    "weighing": (MILLION, _weighing),
    "encoding": (ENCODED, lambda _, n: {f"{n:,} options": measured("encode", str(n), module="bench.load")}),
    "auditing": (AUDITED, _auditing),
}


def main(arguments: list[str]) -> int:
    """Measure the named parts, or all parts."""
    quick = "--quick" in arguments
    named = [word for word in arguments if word != "--quick"]
    if unknown := set(named) - set(PARTS):
        raise SystemExit(f"Unknown parts: {', '.join(sorted(unknown))}. Expected some of {', '.join(PARTS)}.")
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in named or PARTS:
        size, part = PARTS[name]
        with tempfile.TemporaryDirectory() as folder:
            kept[name] = part(Path(folder), size // 1000 if quick else size)
        print(json.dumps({name: kept[name]}), flush=True)
        if not quick:
            RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


WORK: Mapping[str, Callable[[str], None]] = {
    "judge": judge_table, "plan": plan_requests, "columns": weigh_columns, "weigh": weigh_items, "encode": encode_options,
}  # fmt: skip
"""What a measured process does."""

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in WORK:
        WORK[sys.argv[1]](sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
