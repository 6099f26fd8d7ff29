"""Publish what may leave a restricted run: its page, and hashed lists of ids, once the record of releases has them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustify.disclosure.record import Entry, Release, SplitOf, digest, record, record_file
from robustify.disclosure.released import Released
from robustify.disclosure.rounding import CELL
from robustify.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.export.writing import staged
from robustify.files import owner_only
from robustify.report.released import write_released
from robustify.restricted.ids import Split, read_split
from robustify.restricted.secret_key import evaluator_key
from robustify.run import Run

CLAIM, CLAIM_FORMAT = "release.json", "robustify.release-claim/1"
"""The file of a run that names its set and its split in keyed digests, for the record."""


def publish(run: Run, folder: Path, groups: Sequence[str] = ()) -> Entry:
    """Write the released page of a restricted run into a new folder, once the record has it.

    `groups`: only the numbers of these groups, which spends less; all of them if none is named.

    Raises:
        UsageError: a public run, or a folder that holds something already.
        DataError: a file that is not as the run left it.
        AuthorisationError: a run with a `limit`, or as `record`.
        ResourceError: the folder or the record cannot be written.
    """
    of = _claim(run)
    page = run.released.only(groups)
    with owner_only(), staged(folder) as place:
        write_released(place, page, run.manifest)
        content = page.model_dump(mode="json", exclude={"signature"})
        return _recorded(run, "page", content, page.bits, of)


def emit_split(run: Run, name: str) -> Split:
    """Return one hashed split of a restricted run, to be published, once the record has it.

    Raises:
        UsageError: a public run, whose splits are files of items.
        DataError: the split has too few items, or is not as the run left it.
        GuardrailError: a guardrail stops exports.
        AuthorisationError: a run with a `limit`, or as `record`.
    """
    of = _claim(run)
    file = f"splits/{name}.json"
    if file not in run.manifest["files"]:
        raise DataError(f"{run.folder}: holds no split {name}: it has fewer items than a cell may (min_cell)")
    run.require_unchanged(file)
    if run.released.halting:
        raise GuardrailError(
            *(
                f"{guardrail}: says no; nothing is published (see the report)"
                for guardrail in run.released.halting
            )
        )
    made = read_split(run.folder / file)
    _recorded(run, name, sorted(made.ids), 0.0, of)
    return made


def _claim(run: Run) -> SplitOf:
    if not run.restricted:
        raise UsageError(f"{run.folder}: is a public run; expected one of a restricted set")
    if run.manifest["config"].get("limit") is not None:
        raise AuthorisationError(
            f"{run.folder}: is of a part of the set (limit), which beside the whole describes single items: run without "
            "the limit"
        )
    if CLAIM not in run.manifest["files"]:
        raise DataError(
            f"{run.folder}: holds no {CLAIM}; expected a run of this version: run the same command again"
        )
    run.require_unchanged(CLAIM, "summary.json")
    tree: Any = json.loads((run.folder / CLAIM).read_text(encoding="utf-8"))
    return SplitOf(tree["items"], tuple(tree["digests"]), tree["split"])


def _recorded(run: Run, what: str, shown: object, bits: float, of: SplitOf) -> Entry:
    key, about = evaluator_key(), run.manifest["adapter"]
    release = Release(about["id"], about["version"], what, digest(key, [what, shown]), bits, of)
    page: Released = run.released
    # What is owed in any case (the verdict, the count of flags) is the same in every release of a split.
    budget = (page.available or 0.0) - page.owed
    return record(key, record_file(), release, max(CELL, run.manifest["release"]["min_cell"]), budget)
