"""Made-up logs of harmless items in the words of other harnesses; no text here is of a real benchmark."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.items.item import Item
from tests.support.cases import shape
from tests.support.tables import parquet

COLOURS = ("red", "green", "blue", "grey", "pink")


def boxes(n: int = 6, k: int = 4) -> list[Item]:
    """Items whose texts all differ, with every place a key in turn."""
    return [
        Item(f"b{i}", f"Which thing lies in box {i}?", tuple(f"{c} {i}" for c in COLOURS[:k]), i % k, "boxes")
        for i in range(n)
    ]


def scores_for(picks: Sequence[int], k: int = 4) -> list[list[float]]:
    """Log-likelihoods whose best choice is the pick; no two are equal."""
    return [[-1.0 if j == pick else -2.0 - j / 8 for j in range(k)] for pick in picks]


def lm_eval_row(
    item: Item,
    at: int,
    scores: Sequence[float | str],
    *,
    old: bool = False,
    texts: bool = False,
    hidden: bool = False,
    **more: object,
) -> dict[str, Any]:
    """A row of `samples_*.jsonl`: of today's lm-eval, or as its first versions wrote it (`old`).

    `texts` are scored instead of letters; `hidden`: the prompt does not show the question.
    """
    shown = "".join(f"{'ABCDE'[j]}. {c}\n" for j, c in enumerate(item.choices))
    context = ("" if hidden else f"Q: {item.stem}\n") + ("" if texts else shown) + "A:"
    said = [f" {c}" for c in item.choices] if texts else [f" {'ABCDE'[j]}" for j in range(item.k)]
    ranked = [float(s) / len(c) for s, c in zip(scores, item.choices, strict=True)] if texts else []
    values = [float(s) for s in scores]
    metrics = {"acc": float(values.index(max(values)) == item.key)}
    if texts:
        metrics["acc_norm"] = float(ranked.index(max(ranked)) == item.key)
    if old:
        asked: Any = [[context, one] for one in said]
        answered: Any = [[[s, False]] for s in scores]
    else:
        asked = {f"gen_args_{j}": {"arg_0": context, "arg_1": one} for j, one in enumerate(said)}
        answered = [[[str(s), "False"]] for s in scores]
    row = shape(
        "lm_eval_row", at=at, stem=item.stem, choices=list(item.choices), key=item.key, topic=item.topic,
        target=str(item.key), asked=asked, answered=answered, filtered=[one[0] for one in answered],
    )  # fmt: skip
    return row | ({} if old else {"filter": "none", "metrics": list(metrics)}) | metrics | more


def written_row(item: Item, at: int, said: str, filter_: str, acc: float) -> dict[str, Any]:
    """A row of a task in which the model writes; one for each filter."""
    return shape(
        "lm_eval_written", at=at, stem=item.stem, choices=list(item.choices), key=item.key, letter="ABCDE"[item.key],
        said=said, filter=filter_, acc=acc,
    )  # fmt: skip


def jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sheet(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A CSV file, whose head has the names of the first row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    return path


def results(folder: Path, date: str, task: str, model: str, n: int) -> Path:
    """The results file that lm-eval writes beside its rows."""
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(shape("lm_eval_results", task=task, model=model, n=n)))
    return path


def inspect_sample(
    item: Item, answer: str | None, order: Sequence[int] | None = None, epoch: int = 1, **more: object
) -> dict[str, Any]:
    """A sample of an Inspect log, its choices shuffled to `order`."""
    shown = item.permuted(order or range(item.k))
    letter = "ABCDE"[shown.key]
    score = {"value": "C" if answer == letter else "I", "answer": answer, "explanation": "made up"}
    score = {name: value for name, value in score.items() if value is not None}
    return shape(
        "inspect_sample", id=item.id, epoch=epoch, stem=item.stem, choices=list(shown.choices), letter=letter,
        score=score, topic=item.topic,
    ) | more  # fmt: skip


def inspect_tree(samples: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """An Inspect log as one JSON document."""
    ids, n = list(dict.fromkeys(s["id"] for s in samples)), len(samples)
    return shape("inspect_log", n_items=len(ids), ids=ids, n=n, samples=list(samples))


def lighteval_row(item: Item, at: int, scores: Sequence[float], *, letters: bool) -> dict[str, Any]:
    """A row of lighteval's details."""
    values = list(scores)
    lines = "".join(f"{'ABCDE'[j]}. {c}\n" for j, c in enumerate(item.choices)) if letters else ""
    said = [f" {'ABCDE'[j]}" if letters else f" {c}" for j, c in enumerate(item.choices)]
    return shape(
        "lighteval_row", stem=item.stem, lines=lines, said=said, key=item.key, at=str(at), values=values,
        acc=float(values.index(max(values)) == item.key), greedy=[False] * item.k,
        unconditioned=None if letters else [-4.0 - j for j in range(item.k)],
    )  # fmt: skip


def old_lighteval_row(
    item: Item, at: int, scores: Sequence[float], *, as_text: bool = False
) -> dict[str, Any]:
    """A row of lighteval's details before 0.10, in some versions of which every cell is a text."""
    row = shape(
        "old_lighteval_row", stem=item.stem, choices=[f" {c}" for c in item.choices], key=item.key,
        values=[[s, False] for s in scores], acc=float(list(scores).index(max(scores)) == item.key),
    )  # fmt: skip
    return {name: str(cell) for name, cell in row.items()} if as_text else row


def lighteval_parquet(
    path: Path, items: Sequence[Item], scores: Sequence[Sequence[float]], *, letters: bool
) -> Path:
    """lighteval's details; its rows stand in no particular order."""
    pairs = enumerate(zip(items, scores, strict=True))
    rows = [lighteval_row(item, at, values, letters=letters) for at, (item, values) in pairs]
    return parquet(path, rows[::-1])
