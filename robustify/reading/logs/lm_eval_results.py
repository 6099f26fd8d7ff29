"""Reader of the model and the task size from the `results_*.json` that lm-eval writes beside its logged samples.

Scores are not read from this file, because they are recomputed from the samples.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.reading.loaders.rows import as_object
from robustify.reading.logs.checked_names import NOTHING, Name, as_name, facts_of, path_name
from robustify.reading.logs.log import plain_model

_LOGGED = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?")


@dataclass(frozen=True, slots=True)
class LmEvalRun:
    """Task, model, number of rows, and text before each choice of an lm-eval run, as far as they are known."""

    task: Name
    model: Name = NOTHING
    n: int | None = None
    facts: Mapping[str, Name] | None = None
    delimiter: str | None = None


def find_run(path: Path) -> LmEvalRun:
    """Return the lm-eval run of a log, as described by its results file or else by the names of the log and its folder."""
    match = _LOGGED.fullmatch(path.stem)
    task, date = (match["task"], match["date"]) if match else (path.stem, None)
    tree = _results(path.parent, task, date)
    config = as_object(tree.get("config"))
    n = as_object(as_object(tree.get("n-samples")).get(task)).get("effective")
    before = as_object(as_object(tree.get("configs")).get(task)).get("target_delimiter")
    model = tree.get("model_name") or _pretrained(config.get("model_args"))
    return LmEvalRun(
        task=path_name(task),
        model=as_name(plain_model(str(model or ""))) or path_name(plain_model(path.parent.name)),
        n=n if isinstance(n, int) else None,
        facts=_facts(tree, config, task) if tree else None,
        delimiter=before if isinstance(before, str) else None,
    )


def _results(folder: Path, task: str, date: str | None) -> Mapping[str, Any]:
    """Return the contents of the results file with the same date, or of the only one that contains the task, or nothing."""
    same = folder / f"results_{date}.json"
    paths = [same] if same.is_file() else sorted(folder.glob("results*.json"))
    trees = [tree for path in paths if task in as_object((tree := _tree(path)).get("results"))]
    return trees[0] if len(trees) == 1 else {}


def _tree(path: Path) -> Mapping[str, Any]:
    try:
        return as_object(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def _pretrained(arguments: object) -> object:
    if isinstance(arguments, str):
        arguments = dict(pair.partition("=")[::2] for pair in arguments.split(","))
    said = as_object(arguments)
    return said.get("pretrained") or said.get("model")


def _facts(tree: Mapping[str, Any], config: Mapping[str, Any], task: str) -> dict[str, Name]:
    return facts_of(
        {
            "lm_eval": tree.get("lm_eval_version"),
            "task_version": as_object(tree.get("versions")).get(task),
            "shots": as_object(tree.get("n-shot")).get(task),
            "backend": tree.get("model_source") or config.get("model"),
            "dtype": str(config.get("model_dtype") or "").removeprefix("torch.") or None,
            "revision": config.get("model_sha") or config.get("model_revision"),
            # Many models share a template. A full digest would look like that of a file and make them the same model.
            "chat_template": str(tree.get("chat_template_sha") or "")[:16],
            "transformers": tree.get("transformers_version"),
        }
    )
