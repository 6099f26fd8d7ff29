"""What this account keeps of restricted sets: the terms that were accepted, and the records that were read.

Terms: who accepted which text of which set, and when. A changed text voids it, and so does a changed manifest, for it
names the hosts that may receive the items and the cells that are shown. It is attestation, not authentication: the real
access control is the file system. Nothing is accepted in passing: without a terminal the digest is typed too.

Records: every record that was once read through an authorised adapter. A copy of a restricted file under another name,
or a part of it, is then recognised whatever its config says. Only keyed digests are kept, under a secret of this file's
own (mode 0600): no text, and no digest that somebody else could compute.
"""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from robustify import __version__
from robustify.errors import AuthorisationError, ItemError, UsageError
from robustify.files import locked, read_expected, writable, write_atomic
from robustify.item import Item
from robustify.restricted.adapters import Adapter
from robustify.restricted.ids import PREFIX, item_id
from robustify.settings_files import MOST_BYTES

T = TypeVar("T")
LICENCES_FORMAT = "robustify.licences/1"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One accepted text, under the manifest as it was then."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""


def record() -> Path:
    """Where acceptances are kept: `$XDG_CONFIG_HOME/robustify/licences.json`, else below ~/.config."""
    return settings_folder() / "licences.json"


def settings_folder() -> Path:
    """The user's own folder of this program."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "robustify"


def accepted() -> list[Acceptance]:
    """What was accepted on this account. Raises `AuthorisationError`: the record is no regular file, or is damaged."""
    what, mend = "record of accepted terms", "move it away and accept again: robustify licence accept ID"

    def made(tree: Any) -> list[Acceptance]:
        return [Acceptance(**row) for row in tree["accepted"]]

    return read_private(record(), LICENCES_FORMAT, what, mend, made) or []


def require(adapter: Adapter) -> Acceptance:
    """The acceptance in force of a set's terms.
    Raises `AuthorisationError`: not accepted, or the text or the manifest has changed since."""
    name, digest = adapter.manifest.id, sha256(adapter.licence.encode()).hexdigest()
    mine = [row for row in accepted() if row.id == name]
    same = [row for row in mine if row.licence_sha256 == digest]
    match = next((row for row in same if row.manifest_sha256 == adapter.sha256), None)
    if match is None:
        why = "were changed since they were accepted" if mine else "are not accepted"
        why = "were accepted under another manifest, which was changed since" if same else why
        raise AuthorisationError(
            f"{name}: is a restricted set, and its terms {why}; read and accept them: robustify licence accept {name}"
        )
    return match


def accept(adapter: Adapter, name: str) -> Acceptance:
    """Record that `name` accepts the terms as they are now.

    Raises:
        UsageError: no name.
        ResourceError: the record cannot be written.
    """
    called = " ".join(name.split())
    if not called or not called.isprintable() or len(called) > 100:
        raise UsageError("the name is empty, too long or not printable; expected a person's name")
    digest = sha256(adapter.licence.encode()).hexdigest()
    new = Acceptance(adapter.manifest.id, digest, called, utc_now(), __version__, adapter.sha256)
    others = [row for row in accepted() if (row.id, row.licence_sha256) != (new.id, digest)]
    write_private(record(), {"format": LICENCES_FORMAT, "accepted": [asdict(row) for row in (*others, new)]})
    return new


def utc_now() -> str:
    """The time in a record of this account."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_private(
    place: Path, kind: str, what: str, mend: str, made: Callable[[Any], T], most: int = MOST_BYTES
) -> T | None:
    """What `made` makes of a record of this format; None where there is none.
    Raises `AuthorisationError`: no regular file, another format, or not as it was written."""
    if not place.exists() and not place.is_symlink():
        return None
    try:
        tree = json.loads(read_expected(place, f"the {what}", most))
        if tree["format"] != kind:
            raise ValueError
        return made(tree)
    except (UsageError, ValueError, KeyError, TypeError):
        raise AuthorisationError(f"{place}: no {what} as robustify writes it; {mend}") from None


def write_private(place: Path, tree: Mapping[str, object]) -> None:
    """JSON in a file of mode 0600 in a folder of mode 0700, whole or not at all.
    Raises `ResourceError`: it cannot be written."""
    with writable(place):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(place, json.dumps(tree, indent=1).encode(), private=True)


REGISTERED_FORMAT = "robustify.registered/1"
_MOST = 256 << 20
_LETTERS = 20
"""Letters of a digest that are kept: 100 bits."""


def registered() -> Path:
    """Where known records are kept: `registered.json` beside the record of accepted terms."""
    return settings_folder() / "registered.json"


def register_items(name: str, items: Sequence[Item]) -> None:
    """Remember the records of a restricted set; what is known of it already stays.

    Raises:
        ResourceError: the file cannot be written.
        AuthorisationError: the file that is there is damaged.
    """
    place = registered()
    with writable(place):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(place.with_name(f"{place.name}.lock"), wait=True):
            fresh: dict[str, Any] = {"format": REGISTERED_FORMAT, "secret": secrets.token_hex(32), "sets": {}}
            record = _registered() or fresh
            known = set(record["sets"].get(name, ()))
            now = known | _digests(bytes.fromhex(record["secret"]), items)
            if now != known:
                write_private(place, {**record, "sets": {**record["sets"], name: sorted(now)}})


def registered_sets() -> Callable[[Sequence[Item]], dict[str, int]]:
    """A function of items: how many of them belong to each registered set; sets without any are left out.
    Raises `AuthorisationError`: the record is damaged: without it nobody can say."""
    record = _registered() or {"secret": "", "sets": {}}
    secret, sets = bytes.fromhex(record["secret"]), record["sets"]

    def matches(items: Sequence[Item]) -> dict[str, int]:
        own = _digests(secret, items) if sets else set()
        counts = {str(name): len(own.intersection(digests)) for name, digests in sets.items()}
        return {name: n for name, n in counts.items() if n}

    return matches


def _digests(secret: bytes, items: Sequence[Item]) -> set[str]:
    found = set()
    for item in items:
        with suppress(ItemError):  # text without a canonical form is in no authorised set
            name = item_id(secret, "registered", "1", item.stem, item.choices)
            found.add(name.removeprefix(PREFIX)[:_LETTERS])
    return found


def _registered() -> dict[str, Any] | None:
    def made(tree: Any) -> dict[str, Any]:
        if len(bytes.fromhex(tree["secret"])) != 32:
            raise ValueError
        return {"format": REGISTERED_FORMAT, "secret": tree["secret"], "sets": dict(tree["sets"])}

    mend = "restore it, or move it away and run robustify adapter check on each restricted set"
    return read_private(registered(), REGISTERED_FORMAT, "record of restricted sets", mend, made, _MOST)
