"""Run folder of a restricted set, with its released page and hashed splits but without items.

Answers, verdicts and texts are not written, because the cache has what judging needs. The seal is added last.
"""

import contextlib
import hmac
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from robustify.ask.forecast import Forecast
from robustify.config import Config
from robustify.disclosure.record import split_of
from robustify.disclosure.released import released
from robustify.disclosure.rounding import described, rounded_rates
from robustify.errors import AuthorisationError, DataError, UnaskableError
from robustify.export.lm_eval_tasks import write_restricted_tasks
from robustify.files import owner_only, write_json, write_text
from robustify.gate.key_file import Key
from robustify.judging.judgement import Judgement
from robustify.loaders import Loaded
from robustify.policy.asked import RunInput
from robustify.policy.manifest import manifest_of
from robustify.policy.releases import CLAIM, CLAIM_FORMAT
from robustify.redaction import muted
from robustify.report.messages import label
from robustify.report.released_page import write_released
from robustify.restricted.access import Access
from robustify.restricted.confinement import confined, require_private
from robustify.restricted.ids import NAMES, Split, hashed
from robustify.restricted.secret_key import sealed
from robustify.run import MANIFEST, Run, open_run, replacing

SETTINGS = ("name", "sensitivity", "adapter", "asking", "screen", "alternatives", "cloze", "probe", "encoder",
            "limits", "limit")  # fmt: skip
"""Sections of a config that a restricted run.json repeats. The others contain paths or free text."""


@dataclass(frozen=True, slots=True)
class RestrictedPolicy:
    """Policy of a restricted set: keyed IDs, a confined process, a keyed cache, and errors without IDs."""

    config: Config
    access: Access
    keeps_texts: bool = False

    @property
    def cache_key(self) -> bytes | None:
        """Subkey of the score cache."""
        return self.access.key.derived("cache")

    @contextlib.contextmanager
    def inside(self, folder: Path) -> Iterator[None]:
        """Confine the process and mute the output of other code, because a warning or traceback may quote an item."""
        with confined(folder), muted():
            yield

    def read(self) -> Loaded:
        """Load the items of the adapter's files with keyed IDs."""
        with muted():
            return self.access.read(skip_bad=any(source.skip_bad for source in self.config.data))

    def require_public(self) -> None:
        """Refuse the set."""
        raise AuthorisationError(f"{self.config.name} is a restricted set; expected a public set")

    def notes(self, bench: Loaded) -> Sequence[str]:
        """Return no notes, because they may quote columns."""
        return ()

    def first_page(self, folder: Path, found: Forecast) -> None:
        """Return None, because only finished runs have a released page."""

    def described(self, bench: Loaded) -> dict[str, Any]:
        """Return a description of the benchmark with counts of at least `min_cell`."""
        return described(bench, self.access.manifest.min_cell)

    def features(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return the rates of the heuristics in whole percents."""
        return rounded_rates(table, self.access.manifest.min_cell)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Make errors count items instead of naming them, because a length could identify an item."""
        try:
            yield
        except UnaskableError as error:
            raise DataError(error.counted) from None

    def write(self, folder: Path, asked: RunInput, judgement: Judgement) -> Run:
        """Write the folder of a restricted run (mode 0700, files 0600).

        IDs in `asked` and `judgement` are keyed. Splits with fewer than `min_cell` items are not written, and neither
        are tasks for lm-eval if a guardrail stops exports. Raise `DataError` if an ID is not keyed, and `ResourceError`
        if the folder cannot be written.
        """
        config, key = self.config, self.access.key
        k = self.access.manifest.min_cell
        masked = replace(
            asked,
            data={**asked.data, "sha256": _digest("data", asked.data["sha256"], key)},
        )
        manifest = _manifest(config, masked, self.access)
        page = released(judgement.summary, label, k).model_copy(update={"signature": manifest["signature"]})
        lists = _splits(judgement, self.access, k) if page.available is not None else []
        with _replacing(folder, manifest, key) as staged:
            write_released(staged, page, manifest)
            if asked.items is not None:
                verdicts = {v.item: v.verdict for v in judgement.verdicts}
                claim = asdict(split_of(key, asked.items, verdicts))
                write_json(staged / CLAIM, {"format": CLAIM_FORMAT, **claim})
            for split in lists:
                (staged / "splits").mkdir(exist_ok=True)
                write_text(staged / "splits" / f"{split.name}.json", split.text)
            if lists and not page.halting:
                write_restricted_tasks(
                    staged / "lm_eval_tasks",
                    config.name,
                    signature=manifest["signature"],
                    there=[s.name for s in lists],
                    profile=config.cloze.profile,
                )
        return open_run(folder)


@contextlib.contextmanager
def _replacing(folder: Path, manifest: Mapping[str, Any], key: Key) -> Iterator[Path]:
    """Replace the files of a run (mode 0600, folders 0700). Every path is checked before and after it is moved into place.
    Raises `AuthorisationError` if a path is no longer private. The files of the run are then removed."""
    with owner_only():
        os.chmod(folder, 0o700)
        with replacing(folder, manifest, finish=partial(sealed, key=key)) as staged:
            yield staged
            names = [str(path.relative_to(staged)) for path in staged.rglob("*") if path.is_file()]
            require_private(folder, names)
        try:
            require_private(folder, names)
        except AuthorisationError:
            for name in (MANIFEST, *names):
                (folder / name).unlink(missing_ok=True)
            raise


def _splits(judgement: Judgement, access: Access, k: int) -> list[Split]:
    # Cloze items are not listed: the text alone decides which items these are, so the list would identify items in the
    # other lists. The loader selects cloze items from the local text.
    ids: dict[str, list[str]] = {name: [] for name in NAMES}
    for v in judgement.verdicts:
        ids[v.verdict].append(v.item)
    name, version = access.manifest.id, access.manifest.version
    return [hashed(name, version, split, access.key.id, ids[split]) for split in ids if len(ids[split]) >= k]


def _manifest(config: Config, asked: RunInput, access: Access) -> dict[str, Any]:
    tree = config.model_dump(mode="json")
    settings = {name: tree[name] for name in SETTINGS if name in tree}
    if settings["cloze"].get("labels"):
        settings["cloze"]["labels"] = Path(settings["cloze"]["labels"]).name
    settings["adapter"] = access.manifest.id
    settings["models"] = [{"name": m.name, "engine": m.engine, "role": m.role} for m in config.models]
    about = {
        "sensitivity": "restricted",
        "adapter": {"id": access.manifest.id, "version": access.manifest.version},
        "key_id": access.key.id,
        "release": {"min_cell": access.manifest.min_cell},
    }
    data = {name: asked.data[name] for name in ("layout", "n_items")}
    data["hmac_sha256"] = asked.data["sha256"]
    return {**manifest_of(config, asked, settings, **about), "data": data}


def _digest(what: str, plain: str, key: Key) -> str:
    # Anyone with a copy of the data could compare a plain digest.
    return hmac.new(key.derived("manifest"), f"{what}/{plain}".encode(), "sha256").hexdigest()
