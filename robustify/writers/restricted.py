"""The folder of a restricted run, and what leaves it: a published report, a hashed list; no item in any of them.

Answers, verdicts and texts are not written at all: judging anew asks the cache again. Beside run.json is what the
evaluator may see, and a draft of what may be published (`release.json`); the seal goes on last. `published` and `emitted`
let something out, once the ledger of releases has recorded it.
"""

import contextlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from robustify import __version__
from robustify.config import Config
from robustify.disclosure.differencing import SUMMARY, UNKNOWN, Cell, Release, as_one, cells_of, require_apart
from robustify.disclosure.ledger import Entry, beside, content, digest, ledger_file, record
from robustify.disclosure.release import PRINTED, Level, budgeted, cell_of, released_summary
from robustify.disclosure.remade import described, feature_classes
from robustify.disclosure.select import Tree
from robustify.errors import AuthorisationError, DataError, GuardrailError, UnaskableError, UsageError
from robustify.export.lm_eval_tasks import write_restricted_tasks
from robustify.export.writing import staged
from robustify.files import write_json, write_text
from robustify.gate.key_file import Key
from robustify.item import Item
from robustify.judge.judgement import Judgement
from robustify.loaders import Loaded, load_many
from robustify.logs.replay import ReplayModel
from robustify.report import write_report
from robustify.restricted.access import Access
from robustify.restricted.confinement import confined
from robustify.restricted.ids import NAMES, Split, hashed, read_split, separable
from robustify.restricted.secret_key import key_named, require_seal, sealed
from robustify.run import FORMAT, Run, open_run, replacing, versions
from robustify.summary.format_1 import read
from robustify.summary.result import Summary
from robustify.writers.public import Asked, signature

PLACES: dict[Level, str] = {"evaluator": ".", "published": "published"}
"""Where a run's printings are. Runs made before there was a ledger hold the published one too."""
DRAFT, DRAFT_FORMAT = "release.json", "robustify.release-draft/1"
LOG = "log_hmac_sha256"
SETTINGS = ("name", "sensitivity", "adapter", "asking", "screen", "alternatives", "cloze", "probe", "heads",
            "limits", "limit")  # fmt: skip
"""The sections of a config that a restricted run.json repeats; the others name paths, or hold free words."""


@dataclass(frozen=True, slots=True)
class RestrictedWriter:
    """The writer of a restricted set: keyed ids, a confined process, a sealed cache, and errors without ids."""

    config: Config
    access: Access

    @property
    def cache_key(self) -> bytes | None:
        """The subkey of the score cache."""
        return self.access.key.derived("cache")

    @property
    def keeps_vectors(self) -> bool:
        """Vectors of options are not kept: they stand for their texts."""
        return False

    def inside(self, folder: Path) -> AbstractContextManager[None]:
        """A confined process."""
        return confined(folder)

    def read(self) -> Loaded:
        """The items of the adapter's files under keyed ids."""
        skip_bad = any(source.skip_bad for source in self.config.data)
        access = self.access.skipping_bad() if skip_bad else self.access
        return access.keyed(load_many(access.sources))

    def described(self, bench: Loaded) -> dict[str, Any]:
        """Counts of `min_cell` or more."""
        return described(bench, self.access.manifest.min_cell)

    def features(self, table: dict[str, Any]) -> dict[str, Any]:
        """Classes of surface features, in whole percents."""
        return feature_classes(table, self.access.manifest.min_cell)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """An error inside counts items instead of naming them: a length is a way to find an item."""
        try:
            yield
        except UnaskableError as error:
            raise DataError(error.counted) from None

    def write(self, folder: Path, asked: Asked, judgement: Judgement) -> Run:
        """Write the folder of a restricted run (0700, files 0600).

        The ids in `asked` and `judgement` are keyed ones. Splits with fewer than `min_cell` items are left out, all of
        them where a total is too small; tasks for lm-eval are left out too where a guardrail halts the export. Of
        a run with a `limit` nothing is printed for publication.

        Raises:
            AuthorisationError: a manifest with a cell below the floor.
            DataError: an id that is not keyed.
            ResourceError: the folder cannot be written.
        """
        config, key = self.config, self.access.key
        k = cell_of(self.access.manifest.min_cell)
        masked = replace(
            asked,
            data={**asked.data, "sha256": _digest("data", asked.data["sha256"], key)},
            fingerprints=_fingerprints(config, asked, key),
        )
        manifest = _manifest(config, masked, self.access)
        shown = _released(judgement, "evaluator", k, manifest["signature"])
        if config.limit is not None:
            shown = _unpublished(shown)
        lists = _splits(judgement, self.access, k) if not _too_small(shown) else []
        halted = any(c.halts_export and not c.passed for c in judgement.checks)
        with private(folder), replacing(folder, manifest, finish=partial(sealed, key=key)) as place:
            _print(place, shown, manifest)
            if config.limit is None:
                write_json(place / DRAFT, _drafted(judgement, asked, key, k, manifest["signature"]))
            for split in lists:
                (place / "splits").mkdir(exist_ok=True)
                write_text(place / "splits" / f"{split.name}.json", split.text)
            if lists and not halted:
                write_restricted_tasks(
                    place / "lm_eval_tasks",
                    config.name,
                    signature=manifest["signature"],
                    there=[s.name for s in lists],
                    profile=config.cloze.profile,
                )
        return open_run(folder)


def reprint_restricted(run: Run) -> Run:
    """Print both reports again, from their summaries alone.

    Raises:
        AuthorisationError: no key, another one, or a manifest that was edited.
        DataError: a summary that is not as the run left it.
    """
    key = require_seal(run.folder, run.manifest)
    there = run.manifest["release"]["levels"]
    summaries = {level: _summary_name(PLACES[level]) for level in PRINTED if level in there}
    run.require_unchanged(*summaries.values())
    bare = {name: value for name, value in run.manifest.items() if name != "files"}
    with (
        private(run.folder),
        replacing(run.folder, bare, beside=run.manifest["files"], finish=partial(sealed, key=key)) as place,
    ):
        for level, name in summaries.items():
            write_report(place / PLACES[level], read(_read(run.folder / name)), _at(level, bare))
    return open_run(run.folder)


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
    cells = tuple(Cell(**cell) for cell in draft["cells"])
    manifest = {name: value for name, value in run.manifest.items() if name not in ("files", "mac")}
    with _owner_only(), staged(folder) as place:
        _print(place, read(draft["summary"]), _at("published", manifest))
        return _recorded(run, SUMMARY, tree, draft["bits"], cells, despite)


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
        cells = as_one(Cell(**cell) for cell in _draft(run)["cells"])
        _recorded(run, name, sorted(cells[0].digests[name]), 0.0, cells, despite)
    return made


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
    cells = as_one([Cell("all", {verdict: tuple(digests) for verdict, digests in found.items()})])
    named = content(key, split.name, sorted(found[split.name]))
    release = Release(split.name, split.dataset, split.version, named, 0.0, cells)
    return record(key, beside(key_file), release, k, despite)


@contextlib.contextmanager
def private(folder: Path) -> Iterator[None]:
    """Files made inside are 0600 and folders 0700, `folder` itself too."""
    with _owner_only():
        os.chmod(folder, 0o700)
        yield


@contextlib.contextmanager
def _owner_only() -> Iterator[None]:
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _drafted(judgement: Judgement, asked: Asked, key: Key, k: int, signed: str) -> Tree:
    """What may be published, and of which items: keyed digests by the cells in which a release counts them."""
    summary = _released(judgement, "published", k, signed)
    plan = budgeted(judgement.summary.tree(), "published", k)
    cells: tuple[Cell, ...] = ()
    if plan.parts is not None and judgement.summary.screen is not None:
        assert asked.items is not None
        verdict = {v.item: v.verdict for v in judgement.verdicts}
        cells = cells_of(plan.parts, ((i.topic, verdict[i.id], digest(key, i)) for i in asked.items))
    return {
        "format": DRAFT_FORMAT,
        "bits": plan.spending.spent if cells else 0.0,
        "cells": [asdict(cell) for cell in cells],
        "summary": without_nulls(summary.tree()),
    }


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
    return _read(run.folder / DRAFT)


def _recorded(
    run: Run, what: str, shown: object, bits: float, cells: tuple[Cell, ...], despite: str
) -> Entry:
    key = key_named(run.manifest["key_id"])
    about = run.manifest["adapter"]
    release = Release(what, about["id"], about["version"], content(key, what, shown), bits, cells)
    return record(key, ledger_file(key.id), release, cell_of(run.manifest["release"]["min_cell"]), despite)


def _released(judgement: Judgement, level: Level, k: int, signed: str) -> Summary:
    return released_summary(judgement.summary, level, k).model_copy(update={"signature": signed})


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


def _print(place: Path, summary: Summary, manifest: Mapping[str, Any]) -> None:
    place.mkdir(exist_ok=True)
    write_json(place / "summary.json", without_nulls(summary.tree()))
    write_report(place, summary, manifest)


def _unpublished(summary: Summary) -> Summary:
    """A part of the set (`limit`) is not for publication: beside the whole, or a part of another size, it describes
    the few items between them."""
    assert summary.release is not None
    return summary.model_copy(update={"release": summary.release.model_copy(update={"published": False})})


def _splits(judgement: Judgement, access: Access, k: int) -> list[Split]:
    # No list of the cloze items: only its text says which item is one, so that list would name known items in
    # the others, and less the others the undecided. The loader makes it from the local text.
    ids: dict[str, list[str]] = {name: [] for name in NAMES}
    for v in judgement.verdicts:
        ids[v.verdict].append(v.item)
    name, version = access.manifest.id, access.manifest.version
    return separable([hashed(name, version, split, access.key_id, ids[split]) for split in ids], k)


def _manifest(config: Config, asked: Asked, access: Access) -> dict[str, Any]:
    tree = config.model_dump(mode="json")
    settings = {name: tree[name] for name in SETTINGS if name in tree}
    if settings["cloze"].get("labels"):
        settings["cloze"]["labels"] = Path(settings["cloze"]["labels"]).name
    settings["adapter"] = access.manifest.id
    settings["models"] = [{"name": m.name, "engine": m.engine, "role": m.role} for m in config.models]
    return {
        "format": FORMAT,
        "robustify": __version__,
        "sensitivity": "restricted",
        "adapter": {"id": access.manifest.id, "version": access.manifest.version},
        "key_id": access.key_id,
        "release": {
            "levels": {"evaluator": "."},
            "min_cell": cell_of(access.manifest.min_cell),
        },
        "signature": signature(config, asked),
        "versions": versions(),
        "config": settings,
        "models": {name: dict(print_) for name, print_ in asked.fingerprints.items()},
        "templates": dict(asked.templates),
        "data": {
            "layout": asked.data["layout"],
            "n_items": asked.data["n_items"],
            "hmac_sha256": asked.data["sha256"],
        },
    }


def _fingerprints(config: Config, asked: Asked, key: Key) -> dict[str, Mapping[str, str]]:
    """The facts of each model; of one that is replayed its engine, its format and a keyed digest.

    A log holds the texts: its plain digest, its file's name, its tasks and what of it matched describe the set.
    """
    replays = {model.name for model in config.models if isinstance(model, ReplayModel)}
    prints: dict[str, Mapping[str, str]] = dict(asked.fingerprints)
    for name in replays & prints.keys():
        facts = prints[name]
        prints[name] = {
            "engine": "replay",
            "format": facts["engine"].replace("replay of ", ""),
            LOG: _digest("log", facts["log"], key),
        }
    return prints


def _at(level: Level, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance that a report of this level prints: what is published does not say which log was replayed."""
    if level == "evaluator":
        return dict(manifest)
    models = {
        name: {fact: value for fact, value in facts.items() if fact != LOG}
        for name, facts in manifest["models"].items()
    }
    return {**manifest, "models": models}


def _digest(what: str, plain: str, key: Key) -> str:
    # A plain digest would show anyone with a copy that it is this one, and which edition.
    return hmac.new(key.derived("manifest"), f"{what}/{plain}".encode(), "sha256").hexdigest()


def _too_small(summary: Summary) -> bool:
    return summary.release is not None and summary.release.too_small is True


def _read(path: Path) -> Tree:
    tree: Tree = json.loads(path.read_text(encoding="utf-8"))
    return tree


def _summary_name(place: str) -> str:
    return "summary.json" if place == "." else f"{place}/summary.json"
