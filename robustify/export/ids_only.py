"""Tasks of lm-eval on the robust items of a task that lm-eval has itself: ids alone, no text, no data.

What is written can be published beside any benchmark, whatever its licence: who has the upstream set asks the same items
under its own prompts. An id must be the upstream set's own, so a benchmark whose rows have none cannot be written so.
"""

from importlib.resources import files
from pathlib import Path

from robustify.errors import DataError
from robustify.export.heading import Heading
from robustify.export.lm_eval_tasks import Function, write_yaml
from robustify.export.writing import files_of, heading_of, require_public, staged
from robustify.files import write_json, write_text
from robustify.run import VERDICTS, Run

SPLITS = ("robust", "shortcut")
CODE = "robust_subset"
"""The module beside the tasks; its source is in `templates/`, because lm-eval is not among our packages."""


def export_ids_only(
    run: Run, folder: Path, upstream: str, id_field: str = "id", force: bool = False
) -> list[Path]:
    """Write `UPSTREAM_robust` and `UPSTREAM_shortcut`; the files.

    Args:
        run: a public run, with or without the text of its items.
        folder: a new or empty folder.
        upstream: the task of lm-eval that the benchmark is.
        id_field: the field of the upstream rows that holds an item's id.
        force: write although a guardrail halts the export.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed, or no item of it is robust.
        GuardrailError: a guardrail halts the export and `force` is not given.
        UsageError, ResourceError: as `staged`.
    """
    require_public(run)
    heading = heading_of(run, force)
    run.require_unchanged("summary.json", VERDICTS)
    verdicts = run.verdicts
    parts = {split: sorted(i for i, verdict in verdicts.items() if verdict == split) for split in SPLITS}
    if not parts["robust"]:
        raise DataError(f"{run.folder}: no item is robust; expected a run that kept some")
    with staged(folder) as place:
        source = files("robustify.export") / "templates" / f"{CODE}.py"
        write_text(place / f"{CODE}.py", source.read_text("utf-8"))
        for split, ids in parts.items():
            if ids:
                _write(place, heading, upstream, id_field, split, ids)
    return files_of(folder)


def _write(place: Path, heading: Heading, upstream: str, id_field: str, split: str, ids: list[str]) -> None:
    name = f"{upstream}_{split}"
    write_json(place / f"{name}.json", {"signature": heading.signature, "split": split, "ids": ids})
    head = heading.lines(
        f"{len(ids)} {split} items of lm-eval's {upstream}, by their ids; no text is here.",
        "The prompt, the choices and the metrics are those of the upstream task:",
        f"  lm_eval run --include_path FOLDER --tasks {name} --model hf --model_args pretrained=MODEL",
    )
    tree = {
        "task": name,
        "class": Function(f"{CODE}.RobustSubset"),
        "upstream": upstream,
        "ids": f"{name}.json",
        "id_field": id_field,
    }
    write_yaml(place / f"{name}.yaml", head, tree)
