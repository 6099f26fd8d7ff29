"""One small valid input of every kind that a command reads, and the command that reads it; all made up."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.exported_run import made_run, made_up
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lighteval_parquet,
    lm_eval_row,
    scores_for,
)

CONFIG = """\
name: boxes
sensitivity: public
data:
  files: [items.jsonl]
screen: {criterion: unanimous}
limits:
  min_robust: 1
"""


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid input: `file` (in the folder of seeds) is changed, then `arguments` are run beside it.

    `form`: how a structured change reads it. `model`: the command loads torch, so it is tried less often.
    """

    name: str
    file: str
    form: str
    arguments: tuple[str, ...]
    model: bool = False


def _items(home: Path) -> tuple[Seed, ...]:
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
    blocks = [
        f"Question: {r['question']}\n"
        + "".join(f"{'ABCD'[j]}. {c}\n" for j, c in enumerate(r["choices"]))
        + f"ANSWER: {'ABCD'[r['answer']]}\n"
        for r in rows
    ]
    (home / "items.txt").write_text("\n".join(blocks))
    forms = {
        "jsonl": "jsonl",
        "json": "json",
        "csv": "text",
        "tsv": "text",
        "txt": "text",
        "parquet": "parquet",
    }
    return tuple(
        Seed(f"{command} {end}", f"items.{end}", form, (command, f"items.{end}"))
        for end, form in forms.items()
        for command in (("validate", "heuristics") if end in ("jsonl", "csv") else ("validate",))
    )


def _logs(home: Path) -> tuple[Seed, ...]:
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
    forms = {
        "samples_alpha.jsonl": "jsonl", "inspect.json": "json",
        "details_boxes.parquet": "parquet", "picks.csv": "text",
    }  # fmt: skip
    return tuple(
        Seed(
            f"import {file}",
            file,
            form,
            ("import", file, "--data", "items.jsonl", "--name", "b", "-o", "out"),
        )
        for file, form in forms.items()
    )


def _run(home: Path) -> tuple[Seed, ...]:
    made_run(home / "made")
    shutil.move(home / "made" / "run", home / "run")
    shutil.copytree(home / "run", home / "other")
    commands: Mapping[str, tuple[str, ...]] = {
        "judge": ("judge", "run", "-o", "out"),
        "check": ("check", "run"),
        "report": ("report", "run"),
        "compare": ("compare", "run", "other"),
        "explain": ("explain", "run", made_up()[0].id),
        "export": ("export", "lm-eval", "run", "-o", "out"),
    }
    read = {
        "judge": ("run.json", "answers.parquet", "items.jsonl"),
        "check": ("summary.json", "run.json"),
        "report": ("summary.json", "run.json"),
        "compare": ("summary.json", "verdicts.csv"),
        "explain": ("evidence.jsonl", "verdicts.csv"),
        "export": ("verdicts.csv", "items.jsonl", "run.json"),
    }
    forms = {".json": "json", ".jsonl": "jsonl", ".parquet": "parquet", ".csv": "text"}
    return tuple(
        Seed(f"{name} {file}", f"run/{file}", forms[Path(file).suffix], commands[name])
        for name, files in read.items()
        for file in files
        if (home / "run" / file).is_file()
    )


def _others(home: Path) -> tuple[Seed, ...]:
    (home / "c.yaml").write_text(CONFIG)
    (home / "notes.md").write_text(
        "# Notes\n\nA harmless page with a table.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    (home / "nuggets.jsonl").write_text(
        json.dumps(
            {"id": "a", "model": "m", "reply": "It is 5 m.", "question": "How long?", "reference": "5 m"}
        )
        + "\n"
    )
    return (
        Seed("config", "c.yaml", "yaml", ("run", "c.yaml", "-o", "out", "--no-progress")),
        Seed("gate", "notes.md", "text", ("gate", "notes.md")),
        Seed("gate items", "items.jsonl", "jsonl", ("gate", "items.jsonl")),
        Seed("free prepare", "items.jsonl", "jsonl", ("free", "prepare", "items.jsonl", "-o", "out.jsonl")),
    )


def _model(home: Path) -> tuple[Seed, ...]:
    from tests.support.model_cache import tiny_llama

    tiny_llama(home / "model")
    (home / "asked.yaml").write_text(
        "name: asked\nsensitivity: public\ndata: items.jsonl\nmodels: [{name: tiny, model: model}]\n"
        "limits: {min_robust: 1}\n"
    )
    ask = ("run", "asked.yaml", "-o", "out", "--cache-dir", "scores", "--limit", "2", "--no-progress")
    files = {
        "config.json": "json",
        "tokenizer.json": "json",
        "tokenizer_config.json": "json",
        "model.safetensors": "header",
    }
    return tuple(
        Seed(f"model {file}", f"model/{file}", form, ask, model=True)
        for file, form in files.items()
        if (home / "model" / file).is_file()
    )


def seeds(home: Path, *, models: bool = True) -> tuple[Seed, ...]:
    """Fill `home` with one valid input of every kind."""
    home.mkdir(parents=True)
    found = (*_items(home), *_logs(home), *_run(home), *_others(home))
    return (*found, *_model(home)) if models else found
