"""A run's scores where others keep scores: in the schema of *Every Eval Ever*, version 0.3.0, in MLflow, in wandb.

In that schema each model has a file of scores and one of answers, laid out as in its store:
`data/BENCHMARK/DEVELOPER/MODEL/UUID.json` with `UUID_samples.jsonl` beside it. Each score has its n and its 95 % interval.
The schema knows no unanswered question: such a row has `error` and score 0, and the scores, which leave it out, say how
many were asked.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from robustify import __version__
from robustify.errors import DataError
from robustify.export.writing import files_of, optional_package, require_public, staged
from robustify.files import write_json, write_text
from robustify.item import Item
from robustify.run import Run
from robustify.summary.quantity import Quantity, tabulated
from robustify.summary.scored import Accuracy, ViewScores

VERSION = "0.3.0"
"""Of both files; the reader takes rows of earlier ones too."""
VIEWS: dict[str, str] = {
    "full": "question and choices",
    "choices_only": "choices alone, by letter",
    "choices_only_text": "choices alone, by text",
    "cloze_chars": "cloze, by characters",
}
"""The measures that are written, and what was shown."""
ANSWERED = {"full": ("full", "full_text"), "cloze_chars": ("cloze",)}
"""The views whose first answers are the ones that a measure counts, so that rows and score agree."""
_HERE = ("hf", "vllm", "ray")
"""Engines that run a model's weights themselves."""
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
_METRIC = {
    "metric_id": "accuracy", "metric_name": "Accuracy", "metric_kind": "accuracy", "metric_unit": "proportion",
    "lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 1,
}  # fmt: skip

KEPT = ("summary.json", "report.html", "report.md")
"""The files that a tracker keeps; none has the text of an item."""


def export_every_eval(
    run: Run, folder: Path, *, at: float, organisation: str = "", relationship: Relationship = "other"
) -> list[Path]:
    """Write what each model of a public run scored, and its answers where the run holds the items; the files.

    Args:
        run: the run.
        folder: a new or empty folder.
        at: when the record is made, in seconds since 1970.
        organisation: who ran the evaluation.
        relationship: of that organisation to the models.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed, or no model of it was scored.
        UsageError, ResourceError: as `staged`.
    """
    require_public(run)
    run.require_unchanged("summary.json", "answers.parquet")
    scored = {model: list(_scores(found)) for model, found in (run.summary.accuracy or {}).items()}
    scored = {model: found for model, found in scored.items() if found}
    if not scored:
        raise DataError(f"{run.folder}: scores no model; expected a run that asked or imported one")
    source = {"source_name": "robustify", "source_type": "evaluation_run",
              "source_organization_name": organisation or "not given", "evaluator_relationship": relationship}  # fmt: skip
    items = {item.id: item for item in run.items or ()}
    with staged(folder) as place:
        for model, found in scored.items():
            _write_model(place, run, model, found, items, {"at": f"{at:.0f}", "source": source})
    return files_of(folder)


def _write_model(
    place: Path,
    run: Run,
    model: str,
    found: list[tuple[str, str, Quantity]],
    items: Mapping[str, Item],
    given: Mapping[str, Any],
) -> None:
    fingerprint = run.manifest["models"].get(model, {})
    name = str(run.manifest["config"]["name"])
    # The schema wants owner/name; a model of no owner stands under one that says so.
    owner, _, short = (model if "/" in model else f"unknown/{model}").rpartition("/")
    evaluation = f"{name}/{model}/{given['at']}"
    into = place / "data" / _plain(name) / _plain(owner) / _plain(short)
    into.mkdir(parents=True, exist_ok=True)
    # The store wants version 4, which is drawn; the same run at the same second has the same one here.
    drawn = hashlib.sha256(f"{evaluation}\0{run.manifest['signature']}".encode()).digest()[:16]
    path = into / f"{uuid.UUID(bytes=drawn, version=4)}.json"
    answers = path.with_name(f"{path.stem}_samples.jsonl")
    tree: dict[str, Any] = {
        "schema_version": VERSION,
        "evaluation_id": evaluation,
        "retrieved_timestamp": given["at"],
        "source_metadata": given["source"],
        "eval_library": {
            "name": "robustify",
            "version": __version__,
            "additional_details": {"signature": str(run.manifest["signature"])},
        },
        "model_info": {"name": model, "id": model, "additional_details": _details(fingerprint)},
        "evaluation_results": [_result(run, name, *one) for one in found],
    }
    rows = list(_instances(run, model, name, evaluation, items))
    if rows:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(answers, text)
        tree["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": answers.relative_to(place).as_posix(),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(text.encode("utf-8")).hexdigest(),
            "total_rows": len(rows),
        }
    write_json(path, tree)


def _details(fingerprint: Mapping[str, Any]) -> dict[str, str]:
    """What is known of a model; who may have its weights is not."""
    engine = str(fingerprint.get("engine")).split("-")[0]
    place = "self_deployed" if engine in _HERE else "unknown"
    known = {name: str(value) for name, value in fingerprint.items()}
    return {**known, "deployment_type": place, "model_availability": "unknown"}


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "unknown"


def _scores(found: Accuracy) -> Iterator[tuple[str, str, Quantity]]:
    """Measure, split and score of everything that was measured."""
    for measure in VIEWS:
        scores: ViewScores = getattr(found, measure) or ViewScores()
        for split in ("all", "robust", "shortcut"):
            score: Quantity | None = getattr(scores, split)
            if score is not None and score.value is not None:
                yield measure, split, score


def _result(run: Run, name: str, measure: str, split: str, score: Quantity) -> dict[str, Any]:
    asked = getattr(run.summary.splits, split, None)
    uncertainty: dict[str, Any] = {"num_samples": score.n}
    if score.ci is not None:
        low, high = score.ci
        uncertainty["confidence_interval"] = {
            "lower": low, "upper": high, "confidence_level": 0.95, "method": "Wilson"}  # fmt: skip
    return {
        "evaluation_result_id": f"{measure}:{split}",
        "evaluation_name": f"{name} ({split} items, {VIEWS[measure]})",
        "source_data": {
            "dataset_name": name,
            "source_type": "other",
            "source_version": str(run.manifest["data"].get("sha256")),
        },
        "metric_config": {**_METRIC, "evaluation_description": f"Share of right answers; {VIEWS[measure]}."},
        "score_details": {
            "score": score.value,
            "uncertainty": uncertainty,
            "details": {"split": split, "asked": str(asked), "answered": str(score.n)},
        },
    }


def _instances(
    run: Run, model: str, name: str, evaluation: str, items: Mapping[str, Item]
) -> Iterator[dict[str, Any]]:
    verdicts = run.verdicts if items else {}
    seen: set[tuple[str, str]] = set()
    for row in run.answers.table.to_pylist() if items else ():
        measure = next((m for m, views in ANSWERED.items() if row["view"] in views), None)
        if row["model"] != model or measure is None or (measure, row["item"]) in seen:
            continue
        seen.add((measure, row["item"]))
        item = items[row["item"]]
        said = [] if row["pick"] is None else [item.choices[row["pick"]]]
        right = item.choices[item.key]
        yield {
            "schema_version": VERSION,
            "evaluation_id": evaluation,
            "model_id": model,
            "evaluation_name": f"{name} (all items, {VIEWS[measure]})",
            "evaluation_result_id": f"{measure}:all",
            "sample_id": item.id,
            "sample_hash": hashlib.sha256((item.stem + right).encode("utf-8", "surrogatepass")).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": item.stem, "reference": [right], "choices": list(item.choices)},
            "output": {"raw": said},
            "answer_attribution": [
                {"turn_idx": 0, "source": "output.raw", "extracted_value": text,
                 "extraction_method": "highest log-likelihood", "is_terminal": True}
                for text in said
            ],
            "evaluation": {"score": row["correct"] or 0.0, "is_correct": row["correct"] == 1.0},
            **({} if said else {"error": f"unanswered: {row['error'] or 'no readable answer'}"}),
            "metadata": {"topic": item.topic, "verdict": verdicts[item.id]},
        }  # fmt: skip


# Trackers


def log_to_mlflow(run: Run, experiment: str = "") -> str:
    """Log a run where MLflow is set up to log (`MLFLOW_TRACKING_URI`); the id that MLflow gives it.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed.
        UsageError: MLflow is not installed.
    """
    require_public(run)
    run.require_unchanged(*KEPT)
    mlflow = optional_package("mlflow")
    if experiment:
        mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=str(run.manifest["config"]["name"])) as started:
        mlflow.log_params({"signature": str(run.manifest["signature"])[:6000]})
        mlflow.log_metrics(numbers(run))
        for name in KEPT:
            mlflow.log_artifact(str(run.folder / name))
    return str(started.info.run_id)


def numbers(run: Run) -> dict[str, float]:
    """The numbers of the summary by their dotted names, in characters that trackers take; `NAME.n` is what one rests on."""
    out: dict[str, float] = {}
    for row in tabulated(run.summary):
        name, value = re.sub(r"[^\w./ -]", "_", row["field"]), row["value"]
        if isinstance(value, int | float) and not isinstance(value, bool):
            out[name] = float(value)
            out |= {f"{name}.n": float(row["n"])} if row["n"] is not None else {}
    return out


def log_to_wandb(run: Run, project: str = "robustify") -> str:
    """Log a run to this project, as `wandb` is set up (`WANDB_MODE=offline` keeps it here); the id that it gives it.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed.
        UsageError: wandb is not installed.
    """
    require_public(run)
    run.require_unchanged(*KEPT)
    wandb = optional_package("wandb")
    name = str(run.manifest["config"]["name"])
    config = {"signature": str(run.manifest["signature"])}
    with wandb.init(project=project, name=name, config=config) as started:
        started.summary.update(numbers(run))
        artifact = wandb.Artifact(name, type="robustify-run")
        for file in KEPT:
            artifact.add_file(str(run.folder / file))
        started.log_artifact(artifact)
    return str(started.id)
