"""Permission to read a restricted set. It needs accepted terms, pinned data, a key, and a private folder, in this order.

They prove acceptance and possession, not identity, so the file system controls access. Items are parsed only when terms are
accepted, so that a copy of the set is recognized from then on. Hosts are checked before any model is looked up, because
that already contacts its server.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from robustify.base.errors import AuthorisationError, Notice, RobustifyError, UsageError, counted
from robustify.base.files import sha256
from robustify.base.key_file import Key, evaluator_key
from robustify.base.redaction import muted
from robustify.base.settings_files import shipped
from robustify.items.item import Item
from robustify.models.model_settings import ModelSettings
from robustify.reading.columns import only_known_names
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load_many
from robustify.restricted import ids, terms
from robustify.restricted.adapters import FILE, Adapter, Manifest, find_adapter, unplaced
from robustify.restricted.confinement import require_private
from robustify.restricted.recognition import not_attested, recognised
from robustify.restricted.terms import Acceptance, Pin, accepted, require


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Permission to read one restricted set. The repr shows the set and the ID of the key, but not the key."""

    manifest: Manifest
    key: Key
    sources: tuple[Source, ...]
    records: int

    def __repr__(self) -> str:
        return f"Access({self.manifest.id!r}, key {self.key.id})"

    def read(self, *, skip_bad: bool = False) -> Loaded:
        """Read the items of the set, and give them keyed IDs. Invalid rows are left out if `skip_bad`. Marks of
        earlier versions are renewed. Raise `AuthorisationError` if the number of records differs from the pinned one,
        and `DataError` if a file cannot be loaded."""
        about = self.manifest
        skip_bad |= about.data.skip_bad
        bench = _load([source.model_copy(update={"skip_bad": skip_bad}) for source in self.sources])
        _require_records(about.id, len(bench.items) + len(bench.quarantined), self.records)
        terms.renew(about.id, bench.items)
        return ids.keyed(bench, self.key.derived("ids"), about.id, about.version, skip_bad=skip_bad)


_OFF = ("", "0", "f", "false", "n", "no", "off")
"""Values of SAFE_DEMO that ask for nothing."""


def require_no_demo(name: str, safe_demo: bool = False) -> None:
    """Raise `AuthorisationError` if `--safe-demo` or SAFE_DEMO allows only public sets."""
    if safe_demo or os.environ.get("SAFE_DEMO", "").strip().lower() not in _OFF:
        raise AuthorisationError(
            f"{name} is a restricted set, but --safe-demo (or SAFE_DEMO=1) allows only public sets. For a demonstration, "
            "run `robustify demo_benign.yaml`. To read the restricted set, unset SAFE_DEMO.",
            code="no-safe-demo",
        )


def authorised(name: str, adapter: str | None, folder: Path | None, *, public: bool) -> Access | None:
    """Return permission to read a restricted set and to write into `folder`. Return None for a public set.

    `folder` is None if nothing is written. `public` is the claim of the config, but it cannot lower the label of the
    manifest, which is read for every call. Raise `AuthorisationError` if a restricted set has no adapter, a requirement is
    not met, such as data as pinned, or SAFE_DEMO is set, and `UsageError` if the adapter or a data file is invalid.
    """
    loaded = None if adapter is None else find_adapter(adapter)
    if not public or (loaded and loaded.manifest.restricted):
        require_no_demo(name)
        return admitted(name, loaded, folder)
    if loaded and any(r.id == loaded.manifest.id and r.manifest_sha256 != loaded.sha256 for r in accepted()):
        raise AuthorisationError(
            f"{loaded.manifest.id}: The manifest now says public, but the terms were accepted for a restricted set. "
            "Restore the manifest, or use another ID.",
            code="relabelled-set",
        )
    return None


def admitted(name: str, adapter: Adapter | None, folder: Path | None) -> Access:
    """Return permission to read a set as restricted, whatever its adapter says. Raises the same errors as `authorised`."""
    if adapter is None:
        raise AuthorisationError(
            f"{name} is a restricted set, so nothing was read. Add `adapter: NAME` to the config (`robustify "
            "restricted adapter list` shows the names), and follow the four steps in docs/adapters.md.",
            code="missing-adapter",
        )
    pins = require(adapter).files
    sources = _sources(adapter, pins)
    key = evaluator_key()
    if folder is not None:
        require_private(folder)
    return Access(
        adapter.manifest, key, sources, sum(pins[file.path].records for file in adapter.manifest.data.files)
    )


def accept(adapter: Adapter, name: str) -> Acceptance:
    """Record a person's acceptance of a set's terms, with pins of its data and fingerprints of its items. Raise as
    `record_acceptance`, and `AuthorisationError` if a data file is missing, has no pin, or differs from its pin."""
    if adapter.manifest.data.root_env is None:
        return terms.record_acceptance(adapter, name, {}, ())
    return terms.record_acceptance(adapter, name, *_read(adapter))


def _load(sources: Sequence[Source]) -> Loaded:
    """Load files of a restricted set. Raises as `load_many`, with no names in messages that may be words of items."""
    with only_known_names():
        return load_many(sources, UNGUARDED)


def _read(adapter: Adapter) -> tuple[dict[str, Pin], list[Item]]:
    """Read the files of a set. Return the pin (digest and record count) of each file, and the items. Raises as `accept`."""
    manifest, pins, items = adapter.manifest, dict[str, Pin](), list[Item]()
    own = adapter.folder.resolve().parent != shipped("adapters").resolve()
    for file, source in zip(manifest.data.files, _sources(adapter, {}), strict=True):
        with muted():
            bench = _load([source])
        pin = Pin(sha256(Path(source.path)), len(bench.items) + len(bench.quarantined))
        # Nobody can add a digest to a manifest that ships with robustify, so the acceptance alone pins it.
        if file.records is None or (file.sha256 is None and own):
            raise AuthorisationError(
                f"{manifest.id}: {file.path} has no pin, so partial data would go unnoticed. If the data are complete, "
                f"write `sha256: {pin.sha256}` and `records: {pin.records}` into its entry in {FILE}.",
                code="unpinned-data",
            )
        _require_records(f"{manifest.id}: {file.path}", pin.records, file.records)
        pins[file.path] = pin
        items += bench.items
    return pins, items


def _require_records(name: str, n_records: int, pinned: int) -> None:
    if n_records != pinned:
        raise AuthorisationError(
            f"{name} has {n_records:,} records; expected {pinned:,}, as pinned. Use the complete published set.",
            code="partial-data",
        )


def _sources(adapter: Adapter, pins: Mapping[str, Pin]) -> tuple[Source, ...]:
    """Return the files of a set after checking that they are regular, are below the root, and match their pins."""
    manifest, variable = adapter.manifest, adapter.manifest.data.root_env
    root = Path(os.environ.get(variable or "") or ".")
    if not root.is_absolute() or not root.is_dir():
        fault = (
            f"${variable} is not the absolute path of a folder. Set it to"
            if variable
            else "data.root_env is null. Name a variable in it, and set that variable to"
        )
        raise AuthorisationError(
            f"{manifest.id}: {fault} the folder with your copy of the data.",
            code="missing-data-folder",
        )
    for file in manifest.data.files:
        digest = pins[file.path].sha256 if file.path in pins else file.sha256
        _require(f"{manifest.id}: {file.path}", root.resolve(), file.path, digest)
    return manifest.sources(root.resolve())


def _require(name: str, root: Path, path: str, digest: str | None) -> None:
    place = root / path
    if not os.path.lexists(place):
        raise AuthorisationError(
            f"{name} is not in the data folder. Copy it there; it is never downloaded.",
            code="missing-data-file",
        )
    if not place.resolve().is_relative_to(root) or place.is_symlink() or not place.is_file():
        raise UsageError(
            f"{name} is not a regular file in the data folder. Copy the file itself there, not a link.",
            code="irregular-data-file",
        )
    try:
        pinned = digest is None or sha256(place) == digest
    except OSError as error:
        raise AuthorisationError(
            f"{name} cannot be read ({error.strerror}). Check its permissions.", code="unreadable-data-file"
        ) from None
    if not pinned:
        raise AuthorisationError(
            f"The SHA-256 of {name} differs from its pin. Use the complete published set.",
            code="data-not-as-pinned",
        )


def require_inside(models: Iterable[ModelSettings], manifest: Manifest) -> None:
    """Refuse models that would send prompts unencrypted, or to a host that the manifest does not name. The Ray engine
    checks traffic inside a cluster. Raise `AuthorisationError` with one line per refused model."""
    refused = []
    for model, address in ((each, address) for each in models for address in each.hosts):
        bare = address.split("://")[-1]
        host = (urlsplit(f"//{bare}").hostname or bare).casefold()
        sent = f"{model.name} would send the items of {manifest.id} to {host!a}"
        if host not in manifest.egress:
            fault = f"{sent}, which `egress` in the manifest does not name. Use a model on this machine."
            refused.append(Notice(fault, code="host-not-allowed"))
        elif urlsplit(address).scheme == "http":
            refused.append(Notice(f"{sent} unencrypted; expected https.", code="unencrypted-host"))
    if refused:
        raise AuthorisationError(*refused)


def check_requirements(name: str, out: Path | None) -> dict[str, Any]:
    """Check every requirement for reading a set, without asking a model. Return `{adapter, sensitivity, facts: [{fact,
    holds, says}], content_sha256}`. A fact that does not hold also has a `code`. Raises as `find_adapter`."""
    adapter, content = find_adapter(name), None
    manifest = adapter.manifest
    if manifest.restricted:
        facts = [
            _fact("license", lambda: _accepted_by(require(adapter))),
            _fact("data", lambda: _pinned(adapter)),
            _fact("key", lambda: f"key {evaluator_key().id}"),
        ]
        if all(fact["holds"] for fact in facts):
            facts.append(_fact("records", lambda: _distinct(adapter)))
        if out is not None:
            facts.append(_fact("folder", lambda: _private(out)))
    else:
        bench = load_many(unplaced(adapter), UNGUARDED)
        content, names = bench.sha256, [manifest.id, *manifest.names]
        signs = not_attested(recognised(bench, unplaced(adapter), names), bench, name)
        terms = f"{manifest.licence.name}, {len(adapter.licence):,} characters, matches the pin"
        plain = [] if signs else [(True, f"{len(bench.items):,} items without a sign, or attested")]
        rows = [*((False, f"looks sensitive (sign {row.code}): {row.says}") for row in signs), *plain]
        facts = [_fact_row("license", True, terms), *(_fact_row("content", *row) for row in rows)]
    about = {"adapter": manifest.id, "sensitivity": manifest.sensitivity}
    return {**about, "facts": facts, "content_sha256": content}


def _accepted_by(row: Acceptance) -> str:
    old = (
        ""
        if row.parts
        else ", by a version that does not recognize edited copies (renewed when the set is opened)"
    )
    return f"accepted by {row.name}{old}"


def _pinned(adapter: Adapter) -> str:
    try:
        pins = require(adapter).files
    except AuthorisationError:
        return f"{counted(len(_read(adapter)[0]), 'file')}, which the acceptance of the terms will pin"
    return f"{counted(len(_sources(adapter, pins)), 'file')}, as pinned"


def _distinct(adapter: Adapter) -> str:
    items = admitted(adapter.manifest.id, adapter, None).read().items
    return f"{len(items):,} records, each with a distinct ID"


def _private(out: Path) -> str:
    require_private(out)
    return "private"


def _fact(name: str, ask: Callable[[], str]) -> dict[str, Any]:
    try:
        return _fact_row(name, True, ask())
    except RobustifyError as error:
        return {**_fact_row(name, False, "; ".join(error.lines)), "code": error.code}


def _fact_row(name: str, holds: bool, says: str) -> dict[str, Any]:
    return {"fact": name, "holds": holds, "says": says}
