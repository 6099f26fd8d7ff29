"""Publication of the released page and hashed splits of a restricted run, after an entry in the record of releases."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustify.disclosure.record import Release, SplitOf, digest, record, record_file
from robustify.disclosure.rounding import CELL
from robustify.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.export.writing import staged
from robustify.files import owner_only
from robustify.report.released_page import write_released
from robustify.restricted.ids import Split, read_split
from robustify.restricted.secret_key import evaluator_key
from robustify.run import Run

CLAIM, CLAIM_FORMAT = "release.json", "robustify.release-claim/1"
"""File of a run that identifies its set and split by keyed digests for the record of releases."""


def publish(run: Run, folder: Path, groups: Sequence[str] = ()) -> Release:
    """Write the released page of a restricted run into a new folder, after an entry in the record of releases.

    Without `groups`, all numbers are published. Naming groups spends less of the budget. Raise `UsageError` if the run
    is public, or the folder is not empty, `DataError` if a file of the run was changed, `AuthorisationError` if the run
    has a `limit`, or the record of releases refuses the page, and `ResourceError` if the folder or the record cannot be
    written.
    """
    of, page = _claim(run), run.released.only(groups)
    with owner_only(), staged(folder) as place:
        write_released(place, page, run.manifest)
        content = page.model_dump(mode="json", exclude={"signature"})
        return _recorded(run, "page", content, page.bits, of)


def emit_split(run: Run, name: str) -> Split:
    """Return a hashed split of a restricted run for publication, after an entry in the record of releases. Raise as
    `publish`, `DataError` if the split has too few items, and `GuardrailError` if a guardrail stops exports."""
    of, file = _claim(run), f"splits/{name}.json"
    if file not in run.manifest["files"]:
        raise DataError(f"{run.folder} has no split {name}, because it has too few items (min_cell).")
    run.require_unchanged(file)
    if halting := run.released.halting:
        end = "failed, so nothing is published. See the report."
        raise GuardrailError(*(f"The guardrail {guardrail} {end}" for guardrail in halting))
    made = read_split(run.folder / file)
    _recorded(run, name, sorted(made.ids), 0.0, of)
    return made


def _claim(run: Run) -> SplitOf:
    if not run.restricted:
        raise UsageError(f"{run.folder} is a public run; expected a run of a restricted set.")
    if run.manifest["config"].get("limit") is not None:
        raise AuthorisationError(
            f"{run.folder} used a part of the set (limit), which compared with the full set describes single items. "
            "Run without `limit`."
        )
    if CLAIM not in run.manifest["files"]:
        raise DataError(
            f"{run.folder} has no {CLAIM}, so an earlier version wrote it. Run the same command again."
        )
    run.require_unchanged(CLAIM, "summary.json")
    tree: Any = json.loads((run.folder / CLAIM).read_text(encoding="utf-8"))
    return SplitOf(tree["items"], tuple(tree["digests"]), tree["split"])


def _recorded(run: Run, what: str, shown: object, bits: float, of: SplitOf) -> Release:
    key, about, page = evaluator_key(), run.manifest["adapter"], run.released
    release = Release(about["id"], about["version"], what, digest(key, [what, shown]), bits, of)
    # The bits owed for the verdict and the number of flags are the same in every release of a split.
    budget = (page.available or 0.0) - page.owed
    return record(key, record_file(), release, max(CELL, run.manifest["release"]["min_cell"]), budget)
