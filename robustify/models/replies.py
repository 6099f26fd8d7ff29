"""Cache of generated replies, so that an interrupted run repeats no prompt.

Replies of a restricted set are never stored on disk, because they may contain item text.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.base.errors import DataError
from robustify.base.redaction import muted
from robustify.models.engines.cache import Database
from robustify.models.engines.protocols import Progress, Writer

FILE = "replies.sqlite"
_TABLE = "CREATE TABLE IF NOT EXISTS reply (key BLOB PRIMARY KEY, said TEXT) WITHOUT ROWID"
BATCH = 8
"""Number of prompts per batch."""


def reply_key(*parts: Any) -> bytes:
    """Hash everything that a reply depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


class Replies(Database):
    """Cache of replies, with digests of their prompts as keys. It is in memory if no folder can be written. Raise the
    errors of `Database`."""

    def __init__(self, folder: Path | None) -> None:
        kept = folder is not None and (not folder.is_dir() or os.access(folder, os.W_OK))
        super().__init__(folder / FILE if folder is not None and kept else None, _TABLE)

    def get(self, key: bytes) -> dict[str, Any] | None:
        """Return the cached reply as an object with `text`, or None if it is unknown or unreadable."""
        query = ("SELECT said FROM reply WHERE key = ?", (key,))
        row = self.done(lambda db: db.execute(*query).fetchone())
        with suppress(ValueError, TypeError):
            said = None if row is None else json.loads(row[0])
            return said if isinstance(said, dict) and isinstance(said.get("text"), str) else None
        return None

    def put(self, rows: Sequence[tuple[bytes, Any]]) -> None:
        """Store new replies. Known replies are not overwritten."""
        written = [(key, json.dumps(said)) for key, said in rows]
        self.done(lambda db: db.executemany("INSERT OR IGNORE INTO reply VALUES (?, ?)", written))


@dataclass(frozen=True, slots=True)
class Purpose:
    """Purpose of generated replies, which are reused only for the same `kind`. `origin` identifies a model that only
    writes, so that its fingerprint, which probes how a server scores, is not taken."""

    kind: str
    max_tokens: int
    origin: str | None = None


def replies_to(
    prompts: Sequence[str], writer: Writer, kept: Replies, purpose: Purpose, progress: Progress
) -> list[dict[str, Any]]:
    """Return a reply to each prompt, from the cache if it has one."""
    known_as: object = purpose.origin or getattr(writer, "fingerprint", dict)()
    max_tokens = purpose.max_tokens
    keys = [reply_key(purpose.kind, writer.name, known_as, prompt, max_tokens) for prompt in prompts]
    known = {key: said for key in keys if (said := kept.get(key)) is not None}
    left = list(dict.fromkeys(place for place, key in enumerate(keys) if key not in known))
    progress(len(prompts) - len(left))
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        written = _written([prompts[place] for place in batch], writer, max_tokens)
        fresh = [(keys[place], said) for place, said in zip(batch, written, strict=True)]
        kept.put(fresh)
        known |= dict(fresh)
        progress(len(batch))
    return [known[key] for key in keys]


def _written(prompts: Sequence[str], writer: Writer, max_tokens: int) -> list[dict[str, Any]]:
    try:
        with muted():
            replies = writer.write(prompts, max_tokens=max_tokens)
    except DataError:
        if len(prompts) == 1:
            return [{"text": "", "error": "prompt_too_long"}]
        return [said for prompt in prompts for said in _written([prompt], writer, max_tokens)]
    return [{"text": str(text), "finish_reason": getattr(text, "finish_reason", None)} for text in replies]


def forget(folder: Path) -> bool:
    """Delete the cached replies of a folder. Return whether there were any."""
    found = (folder / FILE).is_file()
    for file in folder.glob(f"{FILE}*"):
        file.unlink()
    return found
