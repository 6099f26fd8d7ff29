"""Small valid inputs of every type, and the commands that read them; all made up.

The files are those that people write by hand for a command, and all those that a run, an import and a grading write.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.torture.runs import ENVIRONMENT
from robustify.models.engines.cache import Cache, CachedScores
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob
from robustify.models.replies import Replies
from tests.support.exported_run import made_run
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lighteval_parquet,
    lm_eval_row,
    scores_for,
)
from tests.support.model_cache import tiny_llama

FORMS = {
    ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet", ".csv": "text", ".tsv": "text", ".md": "text",
    ".yaml": "yaml", ".safetensors": "bytes", ".sqlite": "bytes",
}  # fmt: skip
"""How a structured change reads a file."""
KEPT = (".json", ".jsonl", ".parquet", ".csv", ".safetensors", ".sqlite")
"""Of the files in a folder, only these are read again."""
CONFIG = """\
name: boxes
sensitivity: public
data: items.jsonl
screen: {criterion: unanimous}
probe: {folds: 5}
limits: {min_kept: 1, min_items: 1}
free: {answers: [predictions.jsonl]}
"""
ASKED = """\
name: asked
sensitivity: public
data: items.jsonl
models: [{name: tiny, model: model}]
limits: {min_kept: 1}
"""
NOTES = "# Notes\n\nA page.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
QUESTIONS = [
    {"id": "q1", "type": "mcq", "topic": "light", "question": "Which is a colour?\n(A) stone\n(B) green", "answer": "B"},
    {"id": "q2", "type": "numeric", "question": "How far is 5 m and 3 m?", "answer": "8", "unit": "m"},
    {"id": "q3", "type": "explanation", "question": "Why is grass green?", "answer": "It reflects green."},
]  # fmt: skip
NUGGETS = {
    "id": "n",
    "query": "Why?",
    "passage": "It is so.",
    "nuggets": [{"text": "so", "importance": "vital"}],
}
GRADE = ("free", "grade", "rows.jsonl", "--items", "questions.json", "-o", "out", "--max-unscored", "1")
LOGS = ("samples_alpha.jsonl", "inspect.json", "details_boxes.parquet", "picks.csv")
BY_HAND: Mapping[str, tuple[str, ...]] = {
    "init": ("init", "items.csv", "-o", "new.yaml"),
    "heuristics": ("heuristics", "items.csv"),
    "lint": ("lint", "items.csv"),
    "audit": ("items.csv", "--public", "-o", "out", "--no-progress"),
    "config": ("run", "c.yaml", "-o", "out", "--no-progress"),
    "dry run": ("run", "c.yaml", "--dry-run"),
    "validate config": ("validate", "c.yaml"),
    "labels": ("agree", "run", "labels.csv"),
    "free grade": GRADE,
    "free grade table": ("free", "grade", "rows.csv", *GRADE[3:]),
    "free config": (*GRADE[:7], "--config", "free.yaml"),
    "free people": (*GRADE[:7], "--human", "human.jsonl"),
    "free nuggets": (
        "free", "nuggets", "nuggets.jsonl", "--judge", "http://127.0.0.1:9/v1", "--judge-model", "m", "-o", "out",
    ),
    "free agree": ("free", "agree", "graded/free.jsonl", "--human", "human.jsonl"),
    "gate": ("gate", "notes.md", "items.jsonl"),
    **{f"validate {kind}": ("validate", f"items.{kind}") for kind in ("csv", "json", "jsonl", "parquet", "tsv")},
    **{f"import {log}": ("import", log, "--data", "items.jsonl", "--name", "b", "-o", "out") for log in LOGS},
}  # fmt: skip
JUDGED = {"judge": ("-o", "out"), "judge again": (), "check": (), "report": ()}
ON_RUNS: Mapping[str, tuple[str, ...]] = {
    **{
        f"{name} {run}": (name.split()[0], run, *more)
        for name, more in JUDGED.items()
        for run in ("run", "worded")
    },
    "dashboard": ("dashboard", "."),
    "explain": ("explain", "run", "i0"),
    "compare": ("compare", "run", "other", "--html", "compare.html"),
    **{f"export {to}": ("export", to, "run", "-o", "out", "--kept") for to in ("lm-eval", "inspect", "dataset")},
    "export instruct": ("export", "instruct", "run", "-o", "out.jsonl", "--kept"),
    "export sarif": ("export", "sarif", "run", "--data", "made.jsonl", "-o", "out.sarif"),
    **{f"cache {what}": ("models", "cache", what, "--cache-dir", "scores") for what in ("info", "clear")},
}  # fmt: skip
ASK = ("run", "asked.yaml", "-o", "out", "--cache-dir", "scores", "--limit", "2", "--no-progress")


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid input: `file` (in the folder of seeds) is changed, then `arguments` are run beside it.

    `model`: the command loads torch, so it is tried less often.
    """

    name: str
    file: str
    arguments: tuple[str, ...]
    model: bool = False

    @property
    def form(self) -> str:
        """How a structured change reads the file."""
        return FORMS[Path(self.file).suffix]


def _inputs(home: Path) -> None:
    """Write the items, the logs, and what people write by hand."""
    items = boxes(12)
    keys = [{"id": i.id, "question": i.stem, "choices": list(i.choices), "answer": i.key} for i in items]
    rows = [{**row, "topic": item.topic} for row, item in zip(keys, items, strict=True)]
    pq.write_table(pa.Table.from_pylist(rows), home / "items.parquet")
    table = [["question", *"ABCD", "answer"], *([i.stem, *i.choices, "ABCD"[i.key]] for i in items)]
    scored = list(enumerate(zip(items, scores_for([n % 4 for n in range(12)]), strict=True)))
    lighteval_parquet(home / "details_boxes.parquet", items, [s for _, (_, s) in scored], letters=True)
    picked = [["m", "choices_only", i.id, "4", "ABCD"[i.key], "ABCD"[n % 4]] for n, i in enumerate(items)]
    replies = [{"id": q["id"], "model": "m", "prediction": q["answer"]} for q in QUESTIONS]
    people = [
        {"item_id": f"q{n}", "model": "m", "annotator": who, "verdict": "incorrect" if n == 2 else "correct"}
        for n in (1, 2, 3)
        for who in ("ann", "bob")
    ]
    lines: dict[str, list[dict[str, object]]] = {
        "items": rows,
        "rows": replies,
        "human": people,
        "nuggets": [NUGGETS],
        "predictions": [{"id": i.id, "model": "m", "prediction": i.choices[i.key]} for i in items],
        "samples_alpha": [lm_eval_row(i, at, scores, hidden=True) for at, (i, scores) in scored],
    }
    for name, objects in lines.items():
        jsonl(home / f"{name}.jsonl", objects)
    texts = {
        "items.json": json.dumps(rows, indent=1),
        "items.csv": "\n".join(map(",".join, table)),
        "items.tsv": "\n".join(map("\t".join, table)),
        "inspect.json": json.dumps(inspect_tree([inspect_sample(i, "ABCD"[n % 4]) for n, i in enumerate(items)])),
        "picks.csv": "\n".join(map(",".join, [["model", "view", "item", "k", "key", "pick"], *picked])),
        "rows.csv": "config,question_id,predicted\n" + "\n".join(f"m,{r['id']},{r['prediction']}" for r in replies),
        "labels.csv": "\n".join(f"i{n},{'shortcut' if n % 3 else 'not'}" for n in range(30)),
        "questions.json": json.dumps(QUESTIONS),
        "c.yaml": CONFIG,
        "free.yaml": "free: {rel_tol: 0.01, mode: auto, max_tokens: 64}",
        "notes.md": NOTES,
    }  # fmt: skip
    for name, text in texts.items():
        (home / name).write_text(text.rstrip("\n") + "\n")


def _written(home: Path) -> None:
    """Write the files of a run with written answers, of a grading, and of their caches."""
    with Cache(home / "scores") as scores, Replies(home / "scores") as replies:
        CachedScores(scores, {}, "m").keep({Encoded((1,), (n,)): Logprob(-1.5, 1) for n in range(40)})
        replies.put([(bytes([n]) * 32, {"text": "a reply"}) for n in range(40)])
    shutil.copy(made_run(home / "made").folder.parent / "items.jsonl", home / "made.jsonl")
    shutil.move(home / "made" / "run", home / "run")
    shutil.rmtree(home / "made")
    shutil.copytree(home / "run", home / "other")
    for arguments, out in ((BY_HAND["config"], "worded"), (GRADE, "graded")):
        words = [out if word == "out" else word for word in arguments]
        command = [sys.executable, "-m", "robustify", *words]
        subprocess.run(command, cwd=home, env=ENVIRONMENT, capture_output=True, check=False)


def _read(home: Path, word: str) -> Iterator[str]:
    """Find the files that a command reads because of this word: a file, also those named in a config, or a folder."""
    path = home / word
    if word == ".":
        yield from (file for folder in ("run", "worded", "graded") for file in _read(home, folder))
    elif path.is_dir() and word != "other":
        yield from (str(p.relative_to(home)) for p in sorted(path.rglob("*")) if p.suffix in KEPT)
    elif path.is_file():
        yield word
        if path.suffix == ".yaml":
            for inner in re.findall(r"[\w.]+", path.read_text()):
                yield from _read(home, inner)


def _seeds(home: Path, commands: Mapping[str, tuple[str, ...]], *, model: bool = False) -> Iterator[Seed]:
    for name, words in commands.items():
        files = dict.fromkeys(file for word in words[1:] for file in _read(home, word))
        yield from (Seed(f"{name} {file}", file, words, model) for file in files)


def seeds(home: Path, *, models: bool = True) -> tuple[Seed, ...]:
    """Fill `home` with one valid input of every type."""
    home.mkdir(parents=True)
    _inputs(home)
    _written(home)
    found = _seeds(home, {**BY_HAND, **ON_RUNS})
    if not models:
        return tuple(found)
    tiny_llama(home / "model")
    (home / "asked.yaml").write_text(ASKED)
    return (*found, *_seeds(home, {"model": ASK}, model=True))
