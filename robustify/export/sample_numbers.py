"""Export of robust items as row numbers for lm-eval's `--samples` option and its built-in tasks.

The file contains neither text nor IDs, so it can be published with any benchmark. lm-eval counts samples by row, so the
run must contain every row of the audited file.
"""

from pathlib import Path

from robustify.errors import DataError
from robustify.export.writing import files_of, heading_of, require_public, staged
from robustify.files import write_json
from robustify.run import VERDICTS, Run

SPLITS = ("robust", "shortcut")


def export_sample_numbers(run: Run, folder: Path, task: str, force: bool = False) -> list[Path]:
    """Write `TASK_SPLIT.json` for each of two splits, as `{TASK: [row, ...]}` with zero-based rows. Return the paths.

    Raises:
        RobustifyError: the run cannot be exported, has no robust items, or does not contain every row of one file.
    """
    require_public(run)
    heading_of(run, force)
    run.require_unchanged("summary.json", VERDICTS)
    if missing := _missing(run):
        raise DataError(f"{run.folder}: the run {missing}, so its row numbers differ from lm-eval's. Expected a run of one "
                        "file in which every row is an item.")  # fmt: skip
    rows = list(run.verdicts.values())
    numbers = {split: [at for at, verdict in enumerate(rows) if verdict == split] for split in SPLITS}
    if not numbers["robust"]:
        raise DataError(
            f"{run.folder}: no item is robust, so there is nothing to export. Choose another run."
        )
    with staged(folder) as staging:
        for split, samples in numbers.items():
            if samples:
                write_json(staging / f"{task}_{split}.json", {task: samples})
    return files_of(folder)


def _missing(run: Run) -> str:
    """Return the reason why the run's row numbers may differ from the file's, or ""."""
    data, origin = run.manifest["data"], run.manifest.get("import")
    if len(run.manifest["config"]["data"]) > 1:
        return "audited several files"
    if data["quarantined"]:
        return f"set {len(data['quarantined'])} rows aside"
    if origin and (origin["items"]["from"] != "data" or origin["items"]["left_out"]):
        return "was imported from logs that may lack items"
    return ""
