"""Small valid inputs of every type, and the commands and functions that read them; all made up.

The files are those that people write by hand for a command, and all those that a run, an import and a grading write.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from robustify.models.engines.cache import Cache
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

WRITTEN = {".json": "json", ".jsonl": "jsonl", ".parquet": "parquet", ".csv": "text"}
FORMS = {**WRITTEN, ".tsv": "text", ".md": "text", ".yaml": "yaml"}
"""How a structured change reads a file; of the written files, only these are read again."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "HF_HUB_OFFLINE": "1"}
CONFIG = """\
name: boxes
sensitivity: public
data: items.jsonl
screen: {criterion: unanimous}
probe: {folds: 5}
limits: {min_robust: 1, min_items: 1}
free: {answers: [predictions.jsonl]}
"""
QUESTIONS = [
    {
        "id": "q1",
        "type": "mcq",
        "topic": "light",
        "question": "Which is a colour?\n(A) stone\n(B) green",
        "answer": "B",
    },
    {"id": "q2", "type": "numeric", "question": "How far is 5 m and 3 m?", "answer": "8", "unit": "m"},
    {"id": "q3", "type": "explanation", "question": "Why is grass green?", "answer": "It reflects green."},
]
NOBODY = "http://127.0.0.1:9/v1"
NUGGETS = {
    "id": "n",
    "query": "Why?",
    "passage": "It is so.",
    "nuggets": [{"text": "so", "importance": "vital"}],
}
ON_RUNS: Mapping[str, tuple[str, ...]] = {
    "judge": ("judge", "run", "-o", "out"),
    "judge again": ("judge", "run"),
    "check": ("check", "run"),
    "explain": ("explain", "run", "i0"),
    "agree": ("agree", "run", "labels.csv"),
    "compare": ("compare", "run", "other", "--html", "compare.html"),
    "dashboard": ("dashboard", "."),
    **{
        f"export {what}": ("export", what, "run", "-o", "out", "--force")
        for what in ("lm-eval", "inspect", "dataset")
    },
    "export instruct": ("export", "instruct", "run", "-o", "out.jsonl", "--force"),
    "export sarif": ("export", "sarif", "run", "--data", "made.jsonl", "-o", "out.sarif"),
    "api open": ("api", "open"),
    "api judge": ("api", "judge"),
}
BY_HAND: Mapping[str, tuple[str, ...]] = {
    "init": ("init", "items.csv", "-o", "new.yaml"),
    "heuristics": ("heuristics", "items.csv", "--items"),
    "audit": ("items.csv", "--public", "-o", "out", "--no-progress"),
    "config": ("run", "c.yaml", "-o", "out", "--no-progress"),
    "dry run": ("run", "c.yaml", "--dry-run"),
    "validate config": ("validate", "c.yaml"),
    "labels": ("agree", "run", "labels.csv"),
    "free grade": ("free", "grade", "rows.jsonl", "--items", "questions.json", "-o", "out", "--max-unscored", "1"),
    "free grade table": ("free", "grade", "rows.csv", "--items", "questions.json", "-o", "out", "--max-unscored", "1"),
    "free config": ("free", "grade", "rows.jsonl", "--items", "questions.json", "--config", "free.yaml", "-o", "out"),
    "free people": ("free", "grade", "rows.jsonl", "--items", "questions.json", "--human", "human.jsonl", "-o", "out"),
    "free nuggets": ("free", "nuggets", "nuggets.jsonl", "--judge", NOBODY, "--judge-model", "m", "-o", "out"),
    "free agree": ("free", "agree", "graded/free.jsonl", "--human", "human.jsonl"),
    "gate": ("gate", "notes.md", "items.jsonl"),
    **{f"api {name}": ("api", name) for name in ("heuristics", "audit", "items")},
}  # fmt: skip
READS: Mapping[str, tuple[str, ...]] = {
    "init": ("items.csv",), "heuristics": ("items.csv",), "audit": ("items.csv",),
    "config": ("c.yaml", "items.jsonl", "predictions.jsonl"), "dry run": ("c.yaml",), "validate config": ("c.yaml",),
    "labels": ("labels.csv",), "free grade": ("rows.jsonl", "questions.json"), "free grade table": ("rows.csv",),
    "free config": ("free.yaml",), "free people": ("human.jsonl",), "free nuggets": ("nuggets.jsonl",),
    "free agree": ("graded/free.jsonl", "human.jsonl"), "gate": ("notes.md", "items.jsonl"),
    "api heuristics": ("items.json",), "api audit": ("items.json",), "api items": ("items.csv",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid input: `file` (in the folder of seeds) is changed, then `arguments` are run beside it.

    `model`: the command loads torch, so it is tried less often. Arguments that begin with "api" name a function of
    `interface`.
    """

    name: str
    file: str
    arguments: tuple[str, ...]
    model: bool = False

    @property
    def form(self) -> str:
        """How a structured change reads the file."""
        return FORMS.get(Path(self.file).suffix, "header")


def _items(home: Path) -> None:
    rows = [
        {"id": i.id, "question": i.stem, "choices": list(i.choices), "answer": i.key, "topic": i.topic}
        for i in boxes(12)
    ]
    jsonl(home / "items.jsonl", rows)
    (home / "items.json").write_text(json.dumps(rows, indent=1))
    pq.write_table(pa.Table.from_pylist(rows), home / "items.parquet")
    lines = ["question,A,B,C,D,answer"]
    lines += [",".join([r["question"], *r["choices"], "ABCD"[r["answer"]]]) for r in rows]
    (home / "items.csv").write_text("\n".join(lines) + "\n")
    (home / "items.tsv").write_text("\n".join(lines).replace(",", "\t") + "\n")


def _logs(home: Path) -> None:
    items = boxes(12)
    picks = [i % 4 for i in range(12)]
    for name in ("alpha", "beta"):
        rows = [
            lm_eval_row(i, at, s, hidden=True)
            for at, (i, s) in enumerate(zip(items, scores_for(picks), strict=True))
        ]
        jsonl(home / f"samples_{name}.jsonl", rows)
    tree = inspect_tree([inspect_sample(i, "ABCD"[p]) for i, p in zip(items, picks, strict=True)])
    (home / "inspect.json").write_text(json.dumps(tree))
    lighteval_parquet(home / "details_boxes.parquet", items, scores_for(picks), letters=True)
    table = ["model,view,item,k,key,pick"]
    table += [
        f"m,choices_only,{i.id},4,{'ABCD'[i.key]},{'ABCD'[p]}" for i, p in zip(items, picks, strict=True)
    ]
    (home / "picks.csv").write_text("\n".join(table) + "\n")


def _by_hand(home: Path) -> None:
    (home / "c.yaml").write_text(CONFIG)
    (home / "free.yaml").write_text("free: {rel_tol: 0.01, mode: auto, max_tokens: 64}\n")
    (home / "notes.md").write_text("# Notes\n\nA page.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    (home / "labels.csv").write_text("".join(f"i{n},{'shortcut' if n % 3 else 'not'}\n" for n in range(30)))
    (home / "questions.json").write_text(json.dumps(QUESTIONS))
    rows = [{"id": q["id"], "model": "m", "prediction": q["answer"]} for q in QUESTIONS]
    jsonl(home / "rows.jsonl", rows)
    table = ["config,question_id,predicted", *(f"m,{row['id']},{row['prediction']}" for row in rows)]
    (home / "rows.csv").write_text("\n".join(table) + "\n")
    verdicts = ("correct", "incorrect", "correct")
    people = [
        {"item_id": q["id"], "model": "m", "annotator": who, "verdict": verdict}
        for q, verdict in zip(QUESTIONS, verdicts, strict=True)
        for who in ("ann", "bob")
    ]
    jsonl(home / "human.jsonl", people)
    jsonl(home / "nuggets.jsonl", [NUGGETS])
    answers = [{"id": item.id, "model": "m", "prediction": item.choices[item.key]} for item in boxes(12)]
    jsonl(home / "predictions.jsonl", answers)


def _written(home: Path) -> None:
    """Write the files of a run with written answers, of a grading, and of their caches."""
    with Cache(home / "scores") as scores, Replies(home / "scores") as replies:
        keys = [bytes([n]) * 32 for n in range(40)]
        scores.put({key: Logprob(-1.5, 1) for key in keys}, "m", 0.1)
        scores.set_aliases({bytes([9]) * 32: keys[0]})
        replies.put([(key, "a reply") for key in keys])
    shutil.copy(made_run(home / "made").folder.parent / "items.jsonl", home / "made.jsonl")
    shutil.move(home / "made" / "run", home / "run")
    shutil.rmtree(home / "made")
    shutil.copytree(home / "run", home / "other")
    for arguments, out in ((BY_HAND["config"], "worded"), (BY_HAND["free grade"], "graded")):
        words = [out if word == "out" else word for word in arguments]
        command = [sys.executable, "-m", "robustify", *words]
        subprocess.run(command, cwd=home, env=ENVIRONMENT, capture_output=True, check=False)


def _model(home: Path) -> Iterator[Seed]:
    from tests.support.model_cache import tiny_llama

    tiny_llama(home / "model")
    (home / "asked.yaml").write_text(
        "name: asked\nsensitivity: public\ndata: items.jsonl\nmodels: [{name: tiny, model: model}]\n"
        "limits: {min_robust: 1}\n"
    )
    ask = ("run", "asked.yaml", "-o", "out", "--cache-dir", "scores", "--limit", "2", "--no-progress")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        yield Seed(f"model {name}", f"model/{name}", ask, model=True)


def _files(home: Path, folder: str) -> list[str]:
    return [
        str(path.relative_to(home)) for path in sorted((home / folder).rglob("*")) if path.suffix in WRITTEN
    ]


def _seeds(home: Path) -> Iterator[Seed]:
    for path in sorted(home.glob("items.*")):
        yield Seed(f"validate {path.name}", path.name, ("validate", path.name))
    for log in ("samples_alpha.jsonl", "inspect.json", "details_boxes.parquet", "picks.csv"):
        yield Seed(f"import {log}", log, ("import", log, "--data", "items.jsonl", "--name", "b", "-o", "out"))
    yield Seed("api import_logs", "picks.csv", ("api", "import_logs"))
    for name, files in READS.items():
        yield from (Seed(f"{name} {file}", file, BY_HAND[name]) for file in files)
    for name, arguments in ON_RUNS.items():
        yield from (Seed(f"{name} {file}", file, arguments) for file in _files(home, "run"))
    for name in ("judge", "judge again", "check", "dashboard"):
        arguments = tuple("worded" if word == "run" else word for word in ON_RUNS[name])
        yield from (Seed(f"{name} {file}", file, arguments) for file in _files(home, "worded"))
    for file in ("scores.sqlite", "replies.sqlite"):
        for command in ("info", "clear"):
            yield Seed(
                f"cache {command} {file}",
                f"scores/{file}",
                ("models", "cache", command, "--cache-dir", "scores"),
            )
    for file in _files(home, "graded"):
        yield Seed(f"dashboard {file}", file, ON_RUNS["dashboard"])


def seeds(home: Path, *, models: bool = True) -> tuple[Seed, ...]:
    """Fill `home` with one valid input of every type."""
    home.mkdir(parents=True)
    for fill in (_items, _logs, _by_hand, _written):
        fill(home)
    return (*_seeds(home), *(_model(home) if models else ()))
