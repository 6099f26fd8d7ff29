"""What this account knows to be restricted: every record that was once read through an authorised adapter.

A copy of a restricted file under another name, or a part of it, is then recognised whatever its config says. Only
keyed digests are kept, under a secret of this file's own (mode 0600): no text, and no digest that somebody else could
compute.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError, ItemError, UsageError
from robustify.files import read_expected
from robustify.item import Item
from robustify.restricted.ids import PREFIX, item_id
from robustify.restricted.terms import settings_folder, write_private

FORMAT = "robustify.registered/1"
_MOST = 256 << 20
_LETTERS = 20
"""Letters of a digest that are kept: 100 bits."""


def place() -> Path:
    """Where it is kept: `registered.json` beside the record of accepted terms."""
    return settings_folder() / "registered.json"


def register_items(name: str, items: Sequence[Item]) -> None:
    """Remember the records of a restricted set; what is known of it already stays.

    Raises:
        ResourceError: the file cannot be written.
        AuthorisationError: the file that is there is damaged.
    """
    record = _read() or {"format": FORMAT, "secret": secrets.token_hex(32), "sets": {}}
    known = set(record["sets"].get(name, ()))
    now = known | _digests(bytes.fromhex(record["secret"]), items)
    if now != known:
        write_private(place(), {**record, "sets": {**record["sets"], name: sorted(now)}})


def matches(items: Sequence[Item]) -> dict[str, int]:
    """How many of these records belong to each registered set; sets without any are left out.

    Raises:
        AuthorisationError: the record is damaged: without it nobody can say.
    """
    record = _read()
    if record is None:
        return {}
    own = _digests(bytes.fromhex(record["secret"]), items)
    counts = {str(name): len(own.intersection(digests)) for name, digests in record["sets"].items()}
    return {name: n for name, n in counts.items() if n}


def _digests(secret: bytes, items: Sequence[Item]) -> set[str]:
    return {digest for item in items if (digest := _digest(secret, item)) is not None}


def _digest(secret: bytes, item: Item) -> str | None:
    try:
        return item_id(secret, "registered", "1", item.stem, item.choices)[len(PREFIX) :][:_LETTERS]
    except ItemError:  # text without a canonical form is in no authorised set
        return None


def _read() -> dict[str, Any] | None:
    path = place()
    if not path.exists() and not path.is_symlink():
        return None
    try:
        tree: Any = json.loads(read_expected(path, "the record of restricted sets", _MOST))
        if tree["format"] != FORMAT or len(bytes.fromhex(tree["secret"])) != 32:
            raise ValueError
        return {"format": FORMAT, "secret": tree["secret"], "sets": dict(tree["sets"])}
    except (UsageError, ValueError, KeyError, TypeError):
        raise AuthorisationError(
            f"{path}: no record of restricted sets as robustify writes it; restore it, or move it away and run "
            "robustify adapter check on each restricted set"
        ) from None
