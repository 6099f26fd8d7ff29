"""The robust items of a task that lm-eval has itself, as the file of sample numbers that its `--samples` reads.

The file holds no text and no ids, so it can be published beside any benchmark. lm-eval counts samples by their row, so
the run must hold every row of the file that it audited.
"""

from pathlib import Path

from robustify.errors import DataError
from robustify.export.writing import files_of, heading_of, require_public, staged
from robustify.files import write_json
from robustify.run import VERDICTS, Run

SPLITS = ("robust", "shortcut")


def export_sample_numbers(run: Run, folder: Path, task: str, force: bool = False) -> list[Path]:
    """Write `TASK_SPLIT.json` for each of the two splits, each `{TASK: [row, ...]}` counted from 0. Return their paths.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed, flags no row as robust, or does not hold every row of one file.
        GuardrailError: a guardrail halts the export and `force` is not given.
        UsageError, ResourceError: as `staged`.
    """
    require_public(run)
    heading_of(run, force)
    run.require_unchanged("summary.json", VERDICTS)
    if missing := _missing(run):
        raise DataError(f"{run.folder}: {missing}, so its rows are not those of lm-eval's own set; expected one file "
                        "of which every row is an item")  # fmt: skip
    rows = list(run.verdicts.values())
    numbers = {split: [at for at, verdict in enumerate(rows) if verdict == split] for split in SPLITS}
    if not numbers["robust"]:
        raise DataError(f"{run.folder}: no item is robust; expected a run that kept some")
    with staged(folder) as staging:
        for split, samples in numbers.items():
            if samples:
                write_json(staging / f"{task}_{split}.json", {task: samples})
    return files_of(folder)


def _missing(run: Run) -> str:
    """Say why a row of the run may not be the same row of the file, "" if it is."""
    data, origin = run.manifest["data"], run.manifest.get("import")
    if len(run.manifest["config"]["data"]) > 1:
        return "audited several files"
    if data["quarantined"]:
        return f"set {len(data['quarantined'])} rows aside"
    if origin and (origin["items"]["from"] != "data" or origin["items"]["left_out"]):
        return "was imported from logs that need not hold every item"
    return ""
