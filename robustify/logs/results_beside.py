"""The `results_*.json` that lm-eval writes beside its logged rows: whose they are, and how they were made.

Its numbers are not taken over; they are made again from the rows. A model's folder on somebody's machine is not
handed on: of a path only its last part is kept.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOGGED = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?")
_ABSOLUTE = re.compile(r"(?:[/~.\\]|[A-Za-z]:[\\/]|__)")


@dataclass(frozen=True, slots=True)
class Beside:
    """`model` "" where nothing names it; `n` rows that the task has, None where that is not said."""

    task: str
    model: str = ""
    n: int | None = None
    facts: Mapping[str, str] | None = None


def beside(path: Path) -> Beside:
    """What stands beside a log of lm-eval, and else what its name and its folder say."""
    found = _LOGGED.fullmatch(path.stem)
    task, date = (found["task"], found["date"]) if found else (path.stem, None)
    tree = _results(path.parent, task, date)
    if tree is None:
        return Beside(task, plain_model(path.parent.name))
    config = _mapping(tree.get("config"))
    counted = _mapping(_mapping(tree.get("n-samples")).get(task)).get("effective")
    model = tree.get("model_name") or _pretrained(config.get("model_args")) or path.parent.name
    return Beside(
        task,
        plain_model(str(model)),
        counted if isinstance(counted, int) else None,
        _facts(tree, config, task),
    )


def _results(folder: Path, task: str, date: str | None) -> Mapping[str, Any] | None:
    """The results of the same run: the same date, else the only file that knows the task."""
    same = folder / f"results_{date}.json"
    places = [same] if same.is_file() else sorted(folder.glob("results*.json"))
    trees = [tree for place in places if task in _mapping((tree := _read(place)).get("results"))]
    return trees[0] if len(trees) == 1 else None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def _facts(tree: Mapping[str, Any], config: Mapping[str, Any], task: str) -> dict[str, str]:
    found = {
        "lm_eval": tree.get("lm_eval_version"),
        "task_version": _mapping(tree.get("versions")).get(task),
        "shots": _mapping(tree.get("n-shot")).get(task),
        "backend": tree.get("model_source") or config.get("model"),
        "dtype": str(config.get("model_dtype") or "").removeprefix("torch.") or None,
        "revision": config.get("model_sha") or config.get("model_revision"),
        # Shortened: many models share one template, and a digest of a file would make them one model.
        "chat_template": str(tree.get("chat_template_sha") or "")[:16],
        "transformers": tree.get("transformers_version"),
    }
    return {n: str(v) for n, v in found.items() if v not in (None, "") and _plain_value(str(v))}


def _plain_value(text: str) -> bool:
    # A hash, a version, a name; never a path or a sentence.
    return re.fullmatch(r"[\w.+:-]{1,64}", text) is not None


def _pretrained(arguments: object) -> str:
    match arguments:
        case {"pretrained": str(name)} | {"model": str(name)}:
            return name
        case str():
            found = re.search(r"(?:^|,)(?:pretrained|model)=([^,]+)", arguments)
            return found[1] if found else ""
        case _:
            return ""


def plain_model(name: str) -> str:
    """`owner/name` as it is; of a path, or of a path as lm-eval makes it a folder's name, the last part."""
    if _ABSOLUTE.match(name) or "//" in name:
        return re.split(r"[\\/]|__", name.rstrip("/\\"))[-1]
    return name.replace("__", "/")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
