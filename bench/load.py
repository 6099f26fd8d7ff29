"""Measure the cost of large inputs: `python -m bench.load [PART...]` writes results/bench/load.json.

The parts are validate, heuristics, planning, linting, judging, importing, encoding, and auditing. Each command runs in a
separate process. The results are wall time, processor time, peak memory, and the load average before the command. All input
is made up except the encoded options (of ARC) and the items of MMLU-Pro. Audits have no language model. `--quick` uses a
thousandth of the items and writes nothing.
"""

import argparse
import csv
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench.cases import folder as shared
from bench.results import RESULTS, ROOT, Tree, measure, measured
from robustify.base.files import cache_folder
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.views import Asking, View
from robustify.models.asking import plan
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.support.fake_logs import jsonl, lm_eval_row

MILLION, ASKED, LINTED, LOGGED = 1_000_000, 100_000, 100_000, 100_000
CHOICES, TOPICS = 4, 20
SHAPES: dict[str, tuple[int, tuple[View, ...]]] = {
    "five models": (5, ("choices_only",)),
    "one view": (1, ("full",)),
    "four views": (1, ("full", "cloze", "choices_only", "choices_only_text")),
}
"""Models of a log and the views in which each item is asked; they share the logged rows."""
ENCODED, AUDITED = 10_000, 12_032


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


def write_answers(path: str, n: str) -> None:
    """Write an answer table in which every voter knows a tenth of the items and guesses partly alike. More than a million
    items are several draws, whose number begins each ID."""
    from bench.simulate.drawing import draw
    from bench.simulate.parameters import Simulation

    size, tables = min(int(n), MILLION), []
    for seed in range(int(n) // size):
        table = (
            draw(Simulation(items=size, seed=seed, asked="own", graded=True, outside=0, tested=0))
            .answers()
            .table
        )
        at = table.column_names.index("item")
        tables.append(table.set_column(at, "item", pc.binary_join_element_wise(str(seed), table["item"], "")))
    voters = (table.slice(start, size) for start in range(0, len(tables[0]), size) for table in tables)
    Answers(pa.concat_tables(voters)).write(Path(path))


def judge_table(path: str) -> None:
    """Judge an answer table without texts, like `robustify judge`, and write the results beside it."""
    from robustify.base.files import write_json
    from robustify.judging import judge
    from robustify.judging.context import Rules
    from robustify.judging.response_data import Facts
    from robustify.pipeline.public import write_verdicts

    answers = Answers.read(Path(path))
    topics = dict(zip(answers.items, cycle([f"topic-{t}" for t in range(TOPICS)]), strict=False))
    found = judge(answers, Facts("made up", topics), Rules())
    write_verdicts(Path(path).with_name("verdicts.csv"), found, topics)
    write_json(Path(path).with_name("summary.json"), found.summary.tree())


def encode_options(n: str) -> None:
    """Encode the first n distinct options of ARC."""
    from robustify.pipeline.encoder import embed_texts

    sets = (shared() / "arc" / name for name in ("ARC-Challenge-Test.jsonl", "arc_easy.jsonl"))
    choices = (
        choice
        for path in sets
        for item in load(Source(path=str(path)), UNGUARDED).items
        for choice in item.choices
    )
    texts = list(dict.fromkeys(choices))[: int(n)]
    if embed_texts(texts, cache_folder(None), keep=False) is None:
        raise SystemExit("The encoder is not installed. Run `robustify models pull minilm-l6-v2`.")


def plan_requests(path: str) -> None:
    """Load a benchmark and plan every request of the default settings."""
    print(sum(len(one.requests) for one in plan(load(Source(path=path), UNGUARDED).items, Asking())))


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


def _command(*words: str, **environment: str) -> Tree:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return measured([sys.executable, "-m", "robustify", *words], env=env)


def _work(name: str, *words: str) -> Tree:
    """Run a function of `WORK` in a process of its own, and return what it takes."""
    return measured([sys.executable, "-m", "bench.load", "--work", name, *words])


def _on_items(folder: Path, n: int, work: Callable[[str], Tree]) -> Tree:
    path = folder / "items.jsonl"
    write_items(path, n)
    return {f"{n:,} items": work(str(path))}


def _growing(command: str, folder: Path, n: int) -> Tree:
    found = Tree()
    for size in (n // 100, n // 10, n):
        found |= _on_items(folder, size, partial(_command, command))
    return found


def _linting(folder: Path, n: int) -> Tree:
    return _on_items(folder, n, partial(_command, "lint"))


def _planning(folder: Path, n: int) -> Tree:
    return _on_items(folder, n, partial(_work, "plan"))


def _judging(folder: Path, n: int) -> Tree:
    out, path = Tree(), folder / "answers.parquet"
    for size in (n // 100, n // 10, n):
        _work("answers", str(path), str(size))
        out[f"{size:,} items, 3 voters"] = _work("judge", str(path))
    return out


def _importing(folder: Path, rows: int) -> Tree:
    out = Tree()
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            logs = write_logs(Path(place), shape, rows)
            out[f"{rows:,} rows, {shape}"] = _asked_anew(Path(place), "import", *logs, "-o", f"{place}/out")
    return out


def _asked_anew(folder: Path, *words: str) -> Tree:
    """Run a command with a cache that has the models, but no score or vector of an earlier run."""
    (folder / "cache").mkdir()
    (folder / "cache" / "models").symlink_to(cache_folder(None) / "models")
    return _command(*words, ROBUSTIFY_CACHE=str(folder / "cache"))


def _encoding(_: Path, n: int) -> Tree:
    return {f"{n:,} options": _work("encode", str(n))}


def _auditing(folder: Path, n: int) -> Tree:
    ready, table = shared() / "mmlu_pro_models" / "items.jsonl", folder / "items.csv"
    n_rows = ASKED * n // AUDITED
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", *"ABCD", "answer", "topic"))
        for item in made_up(n_rows, random.Random(1)):
            rows.writerow((item.id, item.stem, *item.choices, "ABCD"[item.key], item.topic))
    out = Tree()
    for path, limit, name in ((ready, n, "MMLU-Pro"), (table, n_rows, "a CSV")):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            words = (str(path), "--public", "--limit", str(limit), "-o", f"{place}/run")
            out[f"{limit:,} items of {name}"] = _asked_anew(Path(place), "run", *words)
    return out


PARTS: Mapping[str, tuple[int, Callable[[Path, int], Tree]]] = {
    "validate": (10 * MILLION, partial(_growing, "validate")),
    "heuristics": (10 * MILLION, partial(_growing, "heuristics")),
    "planning": (ASKED, _planning),
    "linting": (LINTED, _linting),
    "judging": (10 * MILLION, _judging),
    "importing": (LOGGED, _importing),
    "encoding": (ENCODED, _encoding),
    "auditing": (AUDITED, _auditing),
}
WORK: Mapping[str, Callable[..., None]] = {
    "answers": write_answers, "judge": judge_table, "plan": plan_requests, "encode": encode_options,
}  # fmt: skip
"""Work for a process of its own. What needs much memory must not be done here, because children inherit the peak."""


def _part(name: str, share: int) -> Tree:
    size, part = PARTS[name]
    with tempfile.TemporaryDirectory() as folder:
        return part(Path(folder), size // share)


def main(arguments: list[str]) -> int:
    """Measure the named parts, or all parts."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        WORK[given.work[0]](*given.work[1:])
        return 0
    parts = {name: partial(_part, name, 1000 if given.quick else 1) for name in PARTS}
    return measure(None if given.quick else RESULTS / "bench" / "load.json", parts, given.parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
