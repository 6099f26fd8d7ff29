"""Keep what models wrote in the cache folder, so that a run that was stopped asks nothing twice.

Replies of a restricted set are never kept: the file would hold text.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robustify.engines.protocols import Closing
from robustify.engines.score_file import require_version
from robustify.errors import ResourceError

FILE = "replies.sqlite"


def reply_key(*parts: Any) -> bytes:
    """Return the digest of everything that a reply depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


class Replies(Closing):
    """Replies by the digest of what was asked. Without a folder they are kept until this is closed.

    Raises:
        ResourceError: the file cannot be opened, read or written, or is of a later version.
    """

    def __init__(self, folder: Path | None) -> None:
        kept = folder is not None and (not folder.is_dir() or os.access(folder, os.W_OK))
        self._file = folder / FILE if folder is not None and kept else None
        with self._faults():
            if self._file is not None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self._file or ":memory:", timeout=60)
            require_version(self._db, self._file)
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS reply (key BLOB PRIMARY KEY, said TEXT) WITHOUT ROWID"
            )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, key: bytes) -> dict[str, Any] | None:
        """Return the reply with its `text`, or None if it is not known or cannot be read."""
        with self._faults():
            row = self._db.execute("SELECT said FROM reply WHERE key = ?", (key,)).fetchone()
            said = None if row is None else json.loads(row[0])
        return said if isinstance(said, dict) and isinstance(said.get("text"), str) else None

    def put(self, rows: Sequence[tuple[bytes, Any]]) -> None:
        """Keep these replies; one that is known already stays as it is."""
        written = [(key, json.dumps(said)) for key, said in rows]
        with self._faults(), self._db:
            self._db.executemany("INSERT OR IGNORE INTO reply VALUES (?, ?)", written)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError, sqlite3.Error) as error:
            fault = f"cannot be read or written ({type(error).__name__}); free space, or remove the file"
            raise ResourceError(f"{self._file or 'replies'}: {fault}") from None


def forget(folder: Path) -> bool:
    """Remove the replies of a cache folder; return whether there were any."""
    file = folder / FILE
    found = file.is_file()
    file.unlink(missing_ok=True)
    return found
