"""What leaves a restricted run: a published summary with its report, and hashed lists of ids.

A run's folder holds a draft of what may be published (`release.json`). `published` and `emitted` let something out once the
ledger of releases has recorded it.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robustify.disclosure import Level, budgeted, cell_of, released_summary
from robustify.disclosure.differencing import (
    SUMMARY,
    UNKNOWN,
    Release,
    VerdictCell,
    as_one,
    cells_of,
    require_apart,
)
from robustify.disclosure.ledger import (
    Entry,
    beside,
    content,
    digest,
    ledger_file,
    older_releases,
    read_ledger,
    record,
    under_older_keys,
)
from robustify.disclosure.select import Tree
from robustify.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.export.writing import staged
from robustify.files import write_json
from robustify.gate.key_file import Key
from robustify.item import Item
from robustify.judge.judgement import Judgement
from robustify.report import write_report
from robustify.restricted.ids import Split, read_split
from robustify.restricted.secret_key import key_named
from robustify.run import Run
from robustify.summary.format_1 import read
from robustify.summary.result import Summary
from robustify.writers.public import Asked

DRAFT, DRAFT_FORMAT = "release.json", "robustify.release-draft/1"
LOG = "log_hmac_sha256"
"""The keyed digest of a log whose model is replayed."""


def drafted(judgement: Judgement, asked: Asked, key: Key, k: int, signed: str) -> Tree:
    """What may be published, and of which items: keyed digests by the cells in which a release counts them."""
    summary = released(judgement, "published", k, signed)
    plan = budgeted(judgement.summary.tree(), "published", k)
    cells: tuple[VerdictCell, ...] = ()
    older: dict[str, dict[str, str]] = {}
    if plan.parts is not None and judgement.summary.screen is not None:
        assert asked.items is not None
        verdict = {v.item: v.verdict for v in judgement.verdicts}
        cells = cells_of(plan.parts, ((i.topic, verdict[i.id], digest(key, i)) for i in asked.items))
        older = under_older_keys(asked.items, key)
    return {
        "format": DRAFT_FORMAT,
        "bits": plan.spending.spent if cells else 0.0,
        "cells": [asdict(cell) for cell in cells],
        "older": older,
        "summary": without_nulls(summary.tree()),
    }


def published(run: Run, folder: Path, despite: str = "") -> Entry:
    """Write what of a restricted run may be published into a new folder, once the ledger has recorded it.

    `despite`: a person's reason to publish what the ledger would refuse.

    Raises:
        UsageError: a public run; a folder that holds something already.
        DataError: the run holds no draft, or not as it left it.
        AuthorisationError: a run with a `limit`; or as `ledger.record`.
        ResourceError: the folder or the ledger cannot be written.
    """
    draft = _draft(run)
    tree = {name: value for name, value in draft["summary"].items() if name != "signature"}
    cells = tuple(VerdictCell(**cell) for cell in draft["cells"])
    manifest = {name: value for name, value in run.manifest.items() if name not in ("files", "mac")}
    with owner_only(), staged(folder) as place:
        print_level(place, read(draft["summary"]), provenance("published", manifest))
        return _recorded(run, SUMMARY, tree, draft["bits"], cells, draft.get("older", {}), despite)


def emitted(run: Run, name: str, level: str, previous: Sequence[Path] = (), despite: str = "") -> Split:
    """One split of a restricted run; one that is published is recorded in the ledger first.

    `previous`: what others published under the same key. `despite`: as in `published`.

    Raises:
        UsageError: a public run, whose splits are files of items.
        DataError: the split was left out as too small, or is not as the run left it.
        GuardrailError: a guardrail halts the export, and this is a publication.
        AuthorisationError: a publication of a run with a `limit`; with earlier releases, of whatever split, it
            cuts out fewer items than a cell holds; or as `ledger.record`.
    """
    if not run.restricted:
        raise UsageError(f"{run.folder}: is a public run; its split is {name}.jsonl in that folder")
    file = f"splits/{name}.json"
    if file not in run.manifest["files"]:
        raise DataError(f"{run.folder}: holds no split {name}: it has fewer items than a cell may (min_cell)")
    run.require_unchanged(file, "summary.json")
    if level == "published" and run.manifest["config"].get("limit") is not None:
        raise AuthorisationError(
            f"{run.folder}: is of a part of the set (limit); its lists beside those of the whole describe single items: "
            "run without the limit, or --level evaluator"
        )
    halted = [g.name for g in run.summary.halting]
    if halted and level == "published":
        raise GuardrailError(
            *(f"{guardrail}: says no; nothing is published (see the report)" for guardrail in halted)
        )
    made = read_split(run.folder / file)
    earlier = [read_split(path) for path in previous]
    require_apart(made, earlier, cell_of(run.manifest["release"]["min_cell"]))
    if level == "published":
        draft = _draft(run)
        if not draft["cells"]:
            raise DataError(f"{run.folder}: too few items for a publication; its lists are the evaluator's")
        cells = as_one(VerdictCell(**cell) for cell in draft["cells"])
        _recorded(run, name, sorted(cells[0].digests[name]), 0.0, cells, draft.get("older", {}), despite)
    return made


def require_published(split: Split, items: Sequence[Item]) -> None:
    """Refuse to publish a list under another key that its own key's ledger does not hold; `items` are all of the set.

    Raises:
        AuthorisationError: it is not there, so nothing compared it with earlier releases; or as `ledger.read_ledger`.
    """
    key = key_named(split.key_id)
    listed = set(split.ids)
    named = content(key, split.name, sorted(digest(key, item) for item in items if item.id in listed))
    release = Release(split.name, split.dataset, split.version, named, 0.0, ())
    if not any(one.release.is_again(release) for one in read_ledger(key, ledger_file(key.id)).entries):
        raise AuthorisationError(
            f"{split.dataset} {split.version}, split {split.name}: is not in the ledger of key {key.id}; publish it under "
            "that key first (robustify split emit), or give a reason: --despite WHY"
        )


def record_rekeyed(
    split: Split, items: Sequence[Item], key: Key, key_file: Path, k: int, despite: str = ""
) -> Entry:
    """Record a list that is published under another key in the ledger of that one; `items` are all of the set under it.

    Raises:
        As `ledger.record`.
    """
    listed = set(split.ids)
    found: dict[str, list[str]] = {split.name: [], UNKNOWN: []}
    for item in items:
        found[split.name if item.id in listed else UNKNOWN].append(digest(key, item))
    cells = as_one([VerdictCell("all", {verdict: tuple(digests) for verdict, digests in found.items()})])
    named = content(key, split.name, sorted(found[split.name]))
    release = Release(split.name, split.dataset, split.version, named, 0.0, cells)
    return record(key, beside(key_file), release, k, despite)


def _draft(run: Run) -> Any:
    if not run.restricted:
        raise UsageError(f"{run.folder}: is a public run; expected one of a restricted set")
    if run.manifest["config"].get("limit") is not None:
        raise AuthorisationError(
            f"{run.folder}: is of a part of the set (limit), of which nothing is published: run without the limit"
        )
    if DRAFT not in run.manifest["files"]:
        raise DataError(
            f"{run.folder}: holds no {DRAFT}; it was made before there was a ledger of releases: run the same command again"
        )
    run.require_unchanged(DRAFT)
    return read_tree(run.folder / DRAFT)


def _recorded(
    run: Run,
    what: str,
    shown: object,
    bits: float,
    cells: tuple[VerdictCell, ...],
    digests: Mapping[str, Mapping[str, str]],
    despite: str,
) -> Entry:
    key = key_named(run.manifest["key_id"])
    about, k = run.manifest["adapter"], cell_of(run.manifest["release"]["min_cell"])
    release = Release(what, about["id"], about["version"], content(key, what, shown), bits, cells)
    return record(key, ledger_file(key.id), release, k, despite, lambda: older_releases(key, digests))


def released(judgement: Judgement, level: Level, k: int, signed: str) -> Summary:
    """The summary as this level may show it, under the signature of its run."""
    return released_summary(judgement.summary, level, k).model_copy(update={"signature": signed})


def print_level(place: Path, summary: Summary, manifest: Mapping[str, Any]) -> None:
    """One level: summary.json and the report."""
    place.mkdir(exist_ok=True)
    write_json(place / "summary.json", without_nulls(summary.tree()))
    write_report(place, summary, manifest)


def provenance(level: Level, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance that a report of this level prints: what is published does not say which log was replayed."""
    if level == "evaluator":
        return dict(manifest)
    models = {
        name: {fact: value for fact, value in facts.items() if fact != LOG}
        for name, facts in manifest["models"].items()
    }
    return {**manifest, "models": models}


def without_nulls(node: Any) -> Any:
    """A copy without what is null, but for the parts of a quantity or of a bin."""
    match node:
        case dict():
            quantity = "n" in node and ("value" in node or "confidence" in node)
            kept = {"value", "n", "ci", "confidence", "accuracy"} if quantity else set()
            return {k: without_nulls(v) for k, v in node.items() if v is not None or k in kept}
        case list():
            return [without_nulls(one) for one in node]
    return node


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Files made inside are 0600 and folders 0700."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def read_tree(path: Path) -> Tree:
    """A JSON file of a run."""
    tree: Tree = json.loads(path.read_text(encoding="utf-8"))
    return tree
