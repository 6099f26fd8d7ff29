"""Run folder of a restricted set, and publication of its released page and hashed splits.

Answers, verdicts and texts are not written, because the cache has what judging needs. The seal is added last. The page
and splits are published after an entry in the record of releases.
"""

import contextlib
import hmac
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from robustify.base.errors import (
    AuthorisationError,
    DataError,
    GuardrailError,
    Notice,
    UnaskableError,
    UsageError,
)
from robustify.base.files import owner_only, write_json, write_text
from robustify.base.key_file import Key, evaluator_key
from robustify.base.redaction import muted
from robustify.export.tasks import write_restricted_tasks
from robustify.export.writing import Heading
from robustify.export.writing import staged as new_folder
from robustify.judging import Judgement
from robustify.judging.summary.result import Summary
from robustify.models.forecast import Forecast
from robustify.pipeline.config import Config, edited
from robustify.pipeline.manifest import manifest_of
from robustify.pipeline.run_input import RunInput
from robustify.reading.guard import Guard
from robustify.reading.loaders import Loaded
from robustify.report.printing import guardrail_label, label
from robustify.restricted.access import Access, authorised, require_inside
from robustify.restricted.confinement import TEMPORARY, confined, require_private
from robustify.restricted.disclosure.item_words import ItemWords
from robustify.restricted.disclosure.record import (
    Release,
    SplitOf,
    digest,
    record,
    record_file,
    refusal,
    releases_of,
    remember,
    require_newest,
    split_of,
)
from robustify.restricted.disclosure.released import CELL, Candidates, candidates
from robustify.restricted.disclosure.released_page import read_released, write_released
from robustify.restricted.ids import NAMES, Split, hashed, read_split
from robustify.runs.run import MANIFEST, Run, open_run, replacing
from robustify.runs.seal import seal

CLAIM, CLAIM_FORMAT = "release.json", "robustify.release-claim/1"
"""File of a run that identifies its set and split by keyed digests for the record of releases."""
CANDIDATES = "candidates.json"
"""File of a run with all numbers that may be released, of which a page shows those that fit into the budget."""
_SETTINGS = (
    "name", "sensitivity", "asking", "screen", "alternatives", "cloze", "probe", "encoder", "limits", "limit",
)  # fmt: skip
"""Sections of a config that a restricted run.json repeats. The others contain paths or free text."""


@dataclass(frozen=True, slots=True)
class RestrictedPolicy:
    """Policy of a restricted set: keyed IDs, a confined process, a keyed cache, and errors without IDs."""

    config: Config
    access: Access
    guard: Guard
    keeps_texts: bool = False

    @property
    def identity(self) -> Mapping[str, object]:
        """Adapter and key of the run."""
        set_ = self.access.manifest
        return {"adapter": {"id": set_.id, "version": set_.version}, "key_id": self.access.key.id}

    @property
    def cache_key(self) -> bytes | None:
        """Subkey of the score cache."""
        return self.access.key.derived("cache")

    @contextlib.contextmanager
    def inside(self, folder: Path) -> Iterator[None]:
        """Confine the process, mute other code, and make errors count items instead of naming them. A warning
        or traceback may quote an item, and a length could identify one."""
        with confined(folder), muted():
            try:
                yield
            except UnaskableError as error:
                raise DataError(error.counted, code=error.code) from None

    def read(self) -> Loaded:
        """Load the items of the adapter's files with keyed IDs."""
        with muted():
            return self.access.read(skip_bad=any(source.skip_bad for source in self.config.data))

    def require_public(self) -> None:
        """Refuse a restricted set, because its numbers may appear only on the page of a run, within the budget."""
        about = self.access.manifest.id
        raise AuthorisationError(
            f"{self.config.name} is a restricted set; expected a public set. To check its data, run `robustify restricted "
            f"adapter check {about}`. You can see numbers of this set only on the page that a run publishes.",
            code="restricted-set",
        )

    def notes(self, bench: Loaded) -> Sequence[str]:
        """Return no notes, because notes may quote column names."""
        return ()

    def first_page(self, folder: Path, forecast: Forecast) -> None:
        """Return None, because only finished runs have a released page."""

    def write(self, folder: Path, inputs: RunInput, judgement: Judgement) -> Run:
        """Write the folder of a restricted run (mode 0700, files 0600). Splits of fewer than `min_cell` items are
        left out, and if a guardrail stops exports, all splits and tasks. Temporary folders of killed runs are
        removed. Raise `DataError` if an ID is not keyed, and `ResourceError` if the folder cannot be written."""
        key = self.access.key
        # Anyone with a copy of the data could compare a plain digest.
        sealed_data = hmac.new(key.derived("manifest"), f"data/{inputs.data['sha256']}".encode(), "sha256")
        masked = replace(inputs, data={**inputs.data, "sha256": sealed_data.hexdigest()})
        manifest = self._manifest(masked)
        numbers = self._candidates(inputs, judgement.summary, manifest)
        page = numbers.filled()
        verdicts = {v.item: v.verdict for v in judgement.verdicts}
        splits = {} if page.available is None or page.halting else self._splits(verdicts)
        with _replacing(folder, manifest, key) as staged:
            write_released(staged, page, manifest)
            write_json(staged / CANDIDATES, numbers.model_dump(mode="json"))
            if inputs.items is not None:
                claim = asdict(split_of(key, inputs.items, verdicts))
                write_json(staged / CLAIM, {"format": CLAIM_FORMAT, **claim})
            for name, split in splits.items():
                (staged / "splits").mkdir(exist_ok=True)
                write_text(staged / "splits" / f"{name}.json", split.text)
            if splits:
                write_restricted_tasks(
                    staged / "lm_eval_tasks",
                    Heading(page.name, page.signature, page.state),
                    splits=list(splits),
                    profile=self.config.cloze.profile,
                    hidden=self.config.hidden,
                )
        with owner_only():
            inputs.log(folder)
        for remains in folder.glob(f"{TEMPORARY}*"):
            if str(remains.resolve()) != tempfile.gettempdir():
                shutil.rmtree(remains, ignore_errors=True)
        return open_run(folder, self.guard)

    def _candidates(self, inputs: RunInput, summary: Summary, manifest: Mapping[str, Any]) -> Candidates:
        """Return the numbers that may be released, under names that contain no word of an item. The record of
        releases knows them by the real names, so that a name that is listed later costs nothing."""
        about, key = self.access.manifest, self.access.key
        listed = {*about.topics, *(file.topic for file in about.data.files if file.topic)}
        words = ItemWords.of(inputs.items or (), listed)
        real = candidates(summary, label, ItemWords(), about.min_cell).numbers
        shown = candidates(summary, label, words, about.min_cell)
        models = words.models(dict.fromkeys([*summary.models, *manifest["models"]]))
        name = words.shown(self.config.name, about.id)
        parts = dict(part.split(":", 1) for part in manifest["signature"].split("|"))
        parts |= {"set": name, "voters": ",".join(models.get(v, v) for v in parts["voters"].split(","))}
        about_page = {
            "name": name,
            "models": {models[m]: facts.get("engine", "") for m, facts in manifest["models"].items()},
            "signature": "|".join(f"{part}:{value}" for part, value in parts.items()),
        }
        return shown.model_copy(
            update={
                "page": shown.page.model_copy(update=about_page),
                "marks": tuple(tuple(digest(key, each) for each in number.identities) for number in real),
                "codes": tuple(digest(key, number.code) for number in real),
            }
        )

    def _splits(self, verdicts: Mapping[str, str]) -> dict[str, Split]:
        # Cloze items are not listed: the text alone decides which items these are, so the list would identify items in
        # the other lists. The loader selects cloze items from the local text.
        about, key_id = self.access.manifest, self.access.key.id
        ids = {name: [item for item, verdict in verdicts.items() if verdict == name] for name in NAMES}
        return {
            name: hashed(about.id, about.version, name, key_id, listed)
            for name, listed in ids.items()
            if len(listed) >= about.min_cell
        }

    def _manifest(self, inputs: RunInput) -> dict[str, Any]:
        config, set_ = self.config, self.access.manifest
        tree = config.model_dump(mode="json")
        settings = {name: tree[name] for name in _SETTINGS} | {"adapter": set_.id}
        settings = edited(settings, ["cloze", "labels"], lambda file: Path(file).name)
        settings["models"] = [{"name": m.name, "engine": m.engine, "role": m.role} for m in config.models]
        about = {
            "sensitivity": "restricted",
            **self.identity,
            "release": {"min_cell": set_.min_cell},
        }
        data = {name: inputs.data[name] for name in ("layout", "n_items")}
        data["hmac_sha256"] = inputs.data["sha256"]
        return {**manifest_of(config, inputs, settings, **about), "data": data}


def policy_of(config: Config, folder: Path | None, guard: Guard) -> RestrictedPolicy | None:
    """Return the policy of a restricted set, or None for a public set. No item is read before. Raise
    `AuthorisationError` if a restricted set lacks a required fact, or a model would send prompts to another host."""
    access = authorised(config.name, config.adapter, folder, public=config.sensitivity == "public")
    if access is None:
        return None
    require_inside(config.models, access.manifest)
    return RestrictedPolicy(config, access, guard)


@contextlib.contextmanager
def _replacing(folder: Path, manifest: Mapping[str, Any], key: Key) -> Iterator[Path]:
    """Replace the files of a run, and check every path before and after it is moved. If a path is no longer private, remove
    the files of the run and raise `AuthorisationError`."""
    with owner_only():
        os.chmod(folder, 0o700)
        with replacing(folder, manifest, finish=partial(seal, key=key)) as staged:
            yield staged
            names = [path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file()]
            require_private(folder, names)
        try:
            require_private(folder, names)
        except AuthorisationError:
            for name in (MANIFEST, *names):
                (folder / name).unlink(missing_ok=True)
            raise


def publish(run: Run, folder: Path, groups: Sequence[str] = ()) -> Release:
    """Record a release, and write the released page of a restricted run into a new folder.

    By default, all numbers are published. Naming `groups` spends less of the budget. Raise `UsageError` if the run is
    public, or the folder is not empty, `DataError` if a file of the run was changed, `AuthorisationError` if the run
    has a `limit`, or the record refuses the page, and `ResourceError` if the folder or the record cannot be written.
    """
    new, file = _release(run, "page"), record_file()
    available = _candidates_of(run)
    earlier = releases_of(evaluator_key(), file)
    fit = available.shown(groups, *new.room(earlier))
    page = available.published(groups, fit)
    require_newest(evaluator_key(), file, run.folder, folder, page.signature)
    if groups and not fit:
        reason = f"fits into the budget that is left: {'; '.join(page.withheld)}"
        reason = reason if page.withheld else f"is in {', '.join(groups)}"
        fault = Notice(f"{run.folder}: No number {reason}. Nothing was published.", code="no-number-fits")
        fault = refusal(new, earlier) or fault
        raise AuthorisationError(fault, code=fault.code)
    content = digest(
        evaluator_key(), ["page", page.model_dump(mode="json", exclude={"signature", "releases"})]
    )
    again = any((release.of, release.content) == (new.of, content) for release in earlier)
    numbers = tuple((available.marks[i][0], available.numbers[i].bits) for i in fit)
    new = replace(new, content=content, numbers=numbers, codes=tuple(available.codes[i] for i in fit))
    with owner_only(), new_folder(folder) as place:
        counted_page = page.model_copy(update={"releases": len(earlier) + (not again)})
        write_released(place, counted_page, run.manifest)
        return _recorded(run, new, {available.marks[i][0]: available.marks[i][1:] for i in fit})


def emit_split(run: Run, name: str) -> Split:
    """Record the release of a hashed split of a restricted run, and return the split. Raise the same errors as
    `publish`, `DataError` if the split has too few items, and `GuardrailError` if a guardrail stops exports."""
    new, file = _release(run, name), f"splits/{name}.json"
    if halting := read_released(run).halting:
        end = "failed, so no list is published. See the report."
        lines = (f"The guardrail “{guardrail_label(name)}” {end}" for name in halting)
        raise GuardrailError(*lines, code="failed-guardrail")
    if file not in run.manifest["files"]:
        raise DataError(
            f"The split {name} has fewer items than min_cell, so it was not written to {run.folder}.",
            code="missing-split",
        )
    run.require_unchanged(file)
    split = read_split(run.folder / file)
    require_newest(evaluator_key(), record_file(), run.folder)
    _recorded(run, replace(new, content=digest(evaluator_key(), [name, sorted(split.ids)])))
    return split


def _candidates_of(run: Run) -> Candidates:
    run.require_unchanged(CANDIDATES)
    try:
        return Candidates.model_validate_json((run.folder / CANDIDATES).read_bytes())
    except ValidationError:
        old = "was not written by this version of robustify. Repeat the command that made the run."
        raise DataError(f"{run.folder / CANDIDATES} {old}", code="other-candidates-format") from None


def _recorded(run: Run, new: Release, former: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Release:
    key, file = evaluator_key(), record_file()
    recorded = record(key, file, new, former)
    remember(key, file, run.folder)
    return recorded


def _claim(run: Run) -> SplitOf:
    if not run.restricted:
        raise UsageError(
            f"{run.folder} is a public run; expected a run of a restricted set.", code="public-run"
        )
    if run.manifest["config"].get("limit") is not None:
        raise AuthorisationError(
            f"{run.folder} used only a part of the set. Comparing its numbers with those of the full set would reveal "
            "single items. Run without `limit`.",
            code="part-of-set",
        )
    if CANDIDATES not in run.manifest["files"]:
        raise DataError(
            f"{run.folder} has no {CANDIDATES}, because an earlier version wrote it. Repeat the command that made the run.",
            code="run-without-candidates",
        )
    run.require_unchanged(CLAIM, "summary.json")
    tree: Any = json.loads((run.folder / CLAIM).read_text(encoding="utf-8"))
    return SplitOf(tree["items"], tuple(tree["digests"]), tree["split"])


def _release(run: Run, what: str) -> Release:
    """Return the record of a release of this run, except for its content."""
    of, about, page = _claim(run), run.manifest["adapter"], read_released(run)
    # The bits owed for the verdict and the number of flags are the same in every release of a split.
    budget, cell = (page.available or 0.0) - page.owed, max(CELL, run.manifest["release"]["min_cell"])
    return Release(about["id"], about["version"], what, "", bits=0.0, of=of, budget=budget, cell=cell)
