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
    """Return a hash of everything on which a reply depends."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


class Replies(Database):
    """Cache of replies, with digests of their prompts as keys. The cache is in memory if no folder can be written. Raise
    the errors of `Database`."""

    def __init__(self, folder: Path | None) -> None:
        is_writable = folder is not None and (not folder.is_dir() or os.access(folder, os.W_OK))
        super().__init__(folder / FILE if folder is not None and is_writable else None, _TABLE)

    def get(self, key: bytes) -> dict[str, Any] | None:
        """Return the cached reply as an object with `text`, or None if the reply is unknown or unreadable."""
        query = ("SELECT said FROM reply WHERE key = ?", (key,))
        row = self.run(lambda db: db.execute(*query).fetchone())
        with suppress(ValueError, TypeError):
            reply = None if row is None else json.loads(row[0])
            return reply if isinstance(reply, dict) and isinstance(reply.get("text"), str) else None
        return None

    def put(self, rows: Sequence[tuple[bytes, Any]]) -> None:
        """Store new replies. Known replies are not overwritten."""
        written = [(key, json.dumps(reply)) for key, reply in rows]
        self.run(lambda db: db.executemany("INSERT OR IGNORE INTO reply VALUES (?, ?)", written))


@dataclass(frozen=True, slots=True)
class Purpose:
    """Purpose of generated replies, which are reused only for the same `kind`. `origin` identifies a model that only
    writes, so that its fingerprint, for which a server must be probed, is not needed."""

    kind: str
    max_tokens: int
    origin: str | None = None


def replies_to(
    prompts: Sequence[str], writer: Writer, cache: Replies, purpose: Purpose, progress: Progress
) -> list[dict[str, Any]]:
    """Return a reply to each prompt, from the cache if possible."""
    identity: object = purpose.origin or getattr(writer, "fingerprint", dict)()
    max_tokens = purpose.max_tokens
    keys = [reply_key(purpose.kind, writer.name, identity, prompt, max_tokens) for prompt in prompts]
    replies = {key: reply for key in keys if (reply := cache.get(key)) is not None}
    unanswered = [place for place, key in enumerate(keys) if key not in replies]
    progress(len(prompts) - len(unanswered))
    for start in range(0, len(unanswered), BATCH):
        batch = unanswered[start : start + BATCH]
        written = _write([prompts[place] for place in batch], writer, max_tokens)
        fresh = [(keys[place], reply) for place, reply in zip(batch, written, strict=True)]
        cache.put(fresh)
        replies |= dict(fresh)
        progress(len(batch))
    return [replies[key] for key in keys]


def _write(prompts: Sequence[str], writer: Writer, max_tokens: int) -> list[dict[str, Any]]:
    try:
        with muted():
            replies = writer.write(prompts, max_tokens=max_tokens)
    except DataError:
        if len(prompts) == 1:
            return [{"text": "", "error": "prompt_too_long"}]
        return [reply for prompt in prompts for reply in _write([prompt], writer, max_tokens)]
    return [{"text": str(text), "finish_reason": getattr(text, "finish_reason", None)} for text in replies]


def forget(folder: Path) -> bool:
    """Delete the cached replies of a folder. Return whether there were any."""
    has_replies = (folder / FILE).is_file()
    for file in folder.glob(f"{FILE}*"):
        file.unlink()
    return has_replies
