"""The folder of a restricted run: what the evaluator may see, a draft of what may be published, and no item in either.

Answers, verdicts and texts are not written at all: judging anew asks the cache again. The seal goes on last.
"""

import contextlib
import hmac
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from robustify.config import Config
from robustify.disclosure import PRINTED, Level, cell_of
from robustify.disclosure.remade import described, feature_classes
from robustify.errors import DataError, UnaskableError
from robustify.export.lm_eval_tasks import write_restricted_tasks
from robustify.files import write_json, write_text
from robustify.gate.key_file import Key
from robustify.judge.judgement import Judgement
from robustify.loaders import Loaded, load_many
from robustify.logs.replay import ReplayModel
from robustify.report import write_report
from robustify.restricted.access import Access
from robustify.restricted.confinement import confined
from robustify.restricted.ids import NAMES, Split, hashed, separable
from robustify.restricted.secret_key import require_seal, sealed
from robustify.run import Run, open_run, replacing
from robustify.summary.format_1 import read
from robustify.summary.result import Summary
from robustify.writers.public import Asked, manifest_of
from robustify.writers.releases import (
    DRAFT,
    LOG,
    drafted,
    owner_only,
    print_level,
    provenance,
    read_tree,
    released,
)

PLACES: dict[Level, str] = {"evaluator": ".", "published": "published"}
"""Where a run's printings are. Runs made before there was a ledger hold the published one too."""
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
        shown = released(judgement, "evaluator", k, manifest["signature"])
        if config.limit is not None:
            shown = _unpublished(shown)
        too_small = shown.release is not None and shown.release.too_small
        lists = [] if too_small else _splits(judgement, self.access, k)
        halted = any(c.halts_export and not c.passed for c in judgement.checks)
        with private(folder), replacing(folder, manifest, finish=partial(sealed, key=key)) as place:
            print_level(place, shown, manifest)
            if config.limit is None:
                write_json(place / DRAFT, drafted(judgement, asked, key, k, manifest["signature"]))
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
    summaries = {level: str(Path(PLACES[level], "summary.json")) for level in PRINTED if level in there}
    run.require_unchanged(*summaries.values())
    bare = {name: value for name, value in run.manifest.items() if name != "files"}
    with (
        private(run.folder),
        replacing(run.folder, bare, beside=run.manifest["files"], finish=partial(sealed, key=key)) as place,
    ):
        for level, name in summaries.items():
            write_report(place / PLACES[level], read(read_tree(run.folder / name)), provenance(level, bare))
    return open_run(run.folder)


@contextlib.contextmanager
def private(folder: Path) -> Iterator[None]:
    """Files made inside are 0600 and folders 0700, `folder` itself too."""
    with owner_only():
        os.chmod(folder, 0o700)
        yield


def _unpublished(summary: Summary) -> Summary:
    """A part of the set (`limit`) is not for publication: it would describe the few items beside it."""
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
    about = {
        "sensitivity": "restricted",
        "adapter": {"id": access.manifest.id, "version": access.manifest.version},
        "key_id": access.key_id,
        "release": {"levels": {"evaluator": "."}, "min_cell": cell_of(access.manifest.min_cell)},
    }
    data = {name: asked.data[name] for name in ("layout", "n_items")}
    data["hmac_sha256"] = asked.data["sha256"]
    return {**manifest_of(config, asked, settings, **about), "data": data}


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


def _digest(what: str, plain: str, key: Key) -> str:
    # A plain digest would show anyone with a copy that it is this one, and which edition.
    return hmac.new(key.derived("manifest"), f"{what}/{plain}".encode(), "sha256").hexdigest()
