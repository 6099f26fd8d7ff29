"""Everything a leak could start from: a restricted set, a public one, their defective copies, logs, a tiny model.

All texts are nonsense. Every stem and choice holds a canary of its own, and one in another script; restricted ids too.
"""

import json
import os
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.item import Item
from tests.cli.test_bad_input import BAD_ROWS
from tests.support import fake_logs, restricted_set
from tests.support.model_cache import tiny_llama

SEED = 2026
CONTROL = ("<|im_end|>", "[INST]", "</s>", "{{ stem }}", "{0}", "%(stem)s", "<script>", "' OR 1=1 --", "\\n")
_make = restricted_set.items
ASKING = "asking: {rotations: one, orders: 1}\nscreen: {criterion: unanimous}\nlimits: {min_robust: 1}\n"


@dataclass(frozen=True, slots=True)
class Planted:
    """`inputs` is the folder of what was planted, `environment` what points to it, `secrets` the texts that must not
    show, `public` those that may show in the split files of a public run and nowhere else."""

    inputs: Path
    environment: dict[str, str]
    secrets: tuple[str, ...]
    public: tuple[str, ...]
    model: Path


def items(n: int = 200, seed: int = SEED) -> list[dict[str, Any]]:
    """The rows of the mock restricted set, with canaries in other scripts and text that looks like control."""
    rng = random.Random(f"scripts/{seed}")
    # `export instruct` refuses the marks of a chat format, rightly.
    control = CONTROL if seed == SEED else CONTROL[3:]
    return [
        {
            **row,
            "question": f"{row['question'][:-1]} {_foreign(rng, i)} {control[i % len(control)]}?",
            "choices": [f"{c} {_foreign(rng, i + j)}" for j, c in enumerate(row["choices"])],
        }
        for i, row in enumerate(_make(n, seed))
    ]


def _foreign(rng: random.Random, i: int) -> str:
    match i % 3:
        case 0:
            return "щю" + "".join(chr(rng.randrange(0x430, 0x44F)) for _ in range(10))
        case 1:
            return "水" + "".join(chr(rng.randrange(0x4E00, 0x9F00)) for _ in range(11))
        case _:
            return "🜁" + "".join(chr(rng.randrange(0x1F700, 0x1F770)) for _ in range(7))


def plant(folder: Path, n: int = 200) -> Planted:
    """Write it all into `folder`."""
    folder.mkdir(parents=True)
    model = tiny_llama(folder / "model", length=2048, chat=True)
    restricted_set.items = items
    try:
        environment = restricted_set.prepared(folder, n)
    finally:
        restricted_set.items = _make
    secret = items(n)
    public = items(n, seed=7)
    plain = [{**row, "id": f"p{i}"} for i, row in enumerate(public)]
    _jsonl(folder / "public.jsonl", plain)
    models = f"models: [{{name: tiny, model: {model}, max_batch_tokens: 4096}}]\n"
    (folder / "mock.yaml").write_text(
        f"name: mock\nadapter: {restricted_set.ADAPTER}\n{models}{ASKING}", "utf-8"
    )
    (folder / "public.yaml").write_text(
        f"name: seen\nsensitivity: public\ndata: public.jsonl\n{models}{ASKING}", "utf-8"
    )
    _undeclared(folder, models, n)
    _logs(folder, plain)
    _defects(folder, public)
    other = restricted_set.key_text(bytes(range(32)))
    for name, text, mode in (
        ("other.key", other, 0o600),
        ("open.key", other, 0o644),
        ("short.key", "rbk1:x:eA", 0o600),
    ):
        (folder / name).write_text(text, "ascii")
        os.chmod(folder / name, mode)
    return Planted(
        folder, environment, tuple(_texts(secret, ids=True)), tuple(_texts(public, ids=False)), model
    )


def _texts(rows: Iterable[dict[str, Any]], *, ids: bool) -> Iterable[str]:
    for row in rows:
        yield row["question"]
        yield from row["choices"]
        if ids:
            yield row["id"]


def _jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def _undeclared(folder: Path, models: str, n: int) -> None:
    """A config that calls the restricted file public, and one with a question where its file belongs."""
    data = folder / "data" / "mock" / "items.jsonl"
    (folder / "undeclared.yaml").write_text(f"name: u\nsensitivity: public\ndata: {data}\n{models}", "utf-8")
    stem = items(n)[0]["question"]
    for name, tree in {
        "text-as-path": {"name": "t", "sensitivity": "public", "data": stem},
        "text-as-name": {"name": stem, "sensitivity": "public", "data": "public.jsonl"},
        "text-as-key": {"name": "t", "sensitivity": "public", "data": "public.jsonl", stem: 1},
        "text-as-model": {"name": "t", "sensitivity": "public", "data": "public.jsonl", "models": [stem]},
        "text-as-value": {"name": "t", "sensitivity": stem, "data": "public.jsonl"},
        "text-as-field": {"name": "t", "sensitivity": "public",
                          "data": [{"path": "public.jsonl", "fields": {"stem": stem}}]},
        "text-as-adapter": {"name": "t", "adapter": stem},
        "text-as-template": {"name": "t", "sensitivity": "public", "data": "public.jsonl",
                             "asking": {"letter_templates": [stem]}, "models": ["smollm2-135m"]},
    }.items():  # fmt: skip
        (folder / f"{name}.yaml").write_text(json.dumps(tree, ensure_ascii=False), "utf-8")
    (folder / "broken.yaml").write_text(f"name: t\ndata: [{stem}\n  : {{{stem}\n", "utf-8")


def _defects(folder: Path, rows: list[dict[str, Any]]) -> None:
    """A file for each rule of the loaders: good rows around one that breaks it, canaries in all of them."""
    place = folder / "defects"
    place.mkdir()
    for i, (bad, _) in enumerate(BAD_ROWS.values()):
        row = rows[i % len(rows)]
        texts = [row["question"], *row["choices"]]
        # Each ZQX of the made-up bad row becomes another text of the item.
        for text in texts:
            bad = bad.replace("ZQX", json.dumps(text, ensure_ascii=False)[1:-1], 1)
        bad = bad.replace("ZQX", json.dumps(row["question"])[1:-1])
        good = [{**rows[-1], "id": "first"}, {**rows[-2], "id": "last"}]
        house = [
            json.dumps({"id": g["id"], "stem": g["question"], "choices": g["choices"], "key": g["answer"]})
            for g in good
        ]
        (place / f"{i:02}.jsonl").write_text("\n".join([house[0], bad, house[1]]) + "\n", "utf-8")


def _logs(folder: Path, rows: list[dict[str, Any]]) -> None:
    found = [Item(r["id"], r["question"], tuple(r["choices"]), r["answer"], r["topic"]) for r in rows]
    made = [
        fake_logs.lm_eval_row(item, i, scores)
        for i, (item, scores) in enumerate(
            zip(found, fake_logs.scores_for([i % 4 for i in range(len(found))]), strict=True)
        )
    ]
    fake_logs.jsonl(folder / "samples_seen_2026-01-01T00-00-00.000000.jsonl", made)
    broken = [
        {**row, "doc": {**row["doc"], "answer": row["doc"]["question"]}, "resps": [row["arguments"]]}
        for row in made
    ]
    fake_logs.jsonl(folder / "samples_broken_2026-01-01T00-00-00.000000.jsonl", broken)
