"""A hashed split on its way out of a run: as the run sealed it, halted by its guardrails, held against earlier ones."""

from collections.abc import Sequence
from pathlib import Path

from robustify.disclosure.release import cell_of
from robustify.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.restricted.hashed_split import Split, read_split, require_apart
from robustify.run import Run


def emitted(run: Run, name: str, level: str, previous: Sequence[Path] = ()) -> Split:
    """One split of a restricted run.

    `previous`: what was published before under the same key. Nothing is remembered between calls, for a list that
    can be deleted would promise more than it holds.

    Raises:
        UsageError: a public run, whose splits are files of items.
        DataError: the split was left out as too small, or is not as the run left it.
        GuardrailError: a guardrail halts the export, and this is a publication.
        AuthorisationError: a publication of a run with a `limit`; or with earlier releases, of whatever split, it
            cuts out fewer items than a cell holds.
    """
    if not run.restricted:
        raise UsageError(f"{run.folder}: is a public run; its split is {name}.jsonl in that folder")
    file = f"splits/{name}.json"
    if file not in run.manifest["files"]:
        raise DataError(f"{run.folder}: holds no split {name}: it has fewer items than a cell may (min_cell)")
    run.require_unchanged(file, "summary.json")
    if level == "published" and run.manifest["config"].get("limit") is not None:
        raise AuthorisationError(
            f"{run.folder}: is of a part of the set (limit); its lists beside those of the whole tell of single items: "
            "run without the limit, or --level evaluator"
        )
    halted = [g["name"] for g in run.summary["guardrails"] if g["halts_export"] and not g["passed"]]
    if halted and level == "published":
        raise GuardrailError(
            *(f"{guardrail}: says no; nothing is published (see the report)" for guardrail in halted)
        )
    made = read_split(run.folder / file)
    earlier = [read_split(path) for path in previous]
    require_apart(made, earlier, cell_of(run.manifest["release"]["min_cell"]))
    return made
