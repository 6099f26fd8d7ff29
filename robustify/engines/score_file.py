"""SQLite file of the score cache, which is replaced if it is damaged.

SQLite pages have no checksums, so an overwritten page would be an error in every run that reads it. Therefore, every row
has a checksum. A file with a damaged page or row is renamed, and an empty file is created.
"""

import contextlib
import hashlib
import os
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from robustify.errors import ResourceError
from robustify.files import locked

APPLICATION = 0x52425354
VERSION = 1
"""Version of the tables. A file of a later version is refused and not changed."""
_MANY = 500
"""Number of keys per query."""
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""Errors raised for a damaged file. SQLite quotes bytes in its messages that may not be valid text."""


class DamagedRow(sqlite3.DatabaseError):
    """Row whose checksum is wrong."""


_TABLES = (
    "CREATE TABLE IF NOT EXISTS score(key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID",
    # Maps the digest of a request's text to the key of its score.
    "CREATE TABLE IF NOT EXISTS alias(key BLOB PRIMARY KEY, score BLOB NOT NULL, checksum BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS path(model BLOB PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)


def opened(path: Path, *, private: bool) -> sqlite3.Connection:
    """Open the file, creating it if it is missing and replacing it if it is damaged. If `private` is true, only the owner
    can read the file. Raise `ResourceError` if the file cannot be opened or created."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        inode = path.stat().st_ino if path.exists() else None
        try:
            return _connected(path, private=private)
        except DAMAGE as error:
            if isinstance(error, sqlite3.OperationalError) and "decode" not in str(error):
                raise
            return replaced(path, inode, private=private)
    except (OSError, *DAMAGE) as error:
        raise ResourceError(
            f"{path}: cannot open the score cache ({error!a}). Choose another folder with --cache-dir."
        ) from None


def is_damaged(db: sqlite3.Connection, error: Exception) -> bool:
    """Return whether the error reports a damaged row, or SQLite's integrity check of the file fails."""
    if isinstance(error, DamagedRow):
        return True
    try:
        return bool(db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",))
    except sqlite3.OperationalError as error:
        return "locked" not in str(error)
    except DAMAGE:
        return True


def replaced(path: Path, inode: int | None, *, private: bool) -> sqlite3.Connection:
    """Rename the damaged file with this inode and open an empty one, unless another process has already done so."""
    with locked(path.with_name(f".{path.name}.lock"), wait=True):
        if not path.exists() or path.stat().st_ino == inode:
            n = 1
            while (aside := path.with_name(f"{path.name}.corrupt-{n}")).exists():
                n += 1
            path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
            for part in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    path.with_name(path.name + part).rename(aside.with_name(aside.name + part))
            print(
                f"robustify: {path.name} is damaged and was renamed to {aside.name}; its scores are computed again",
                file=sys.stderr,
            )
        return _connected(path, private=private)


def remove_damaged(path: Path) -> None:
    """Remove damaged versions of this file that were renamed earlier."""
    for aside in path.parent.glob(f"{path.name}.corrupt-*"):
        with aside.open("rb") as file:
            header = file.read(100)
        # A file of this name may belong to another program, and then it is not removed.
        if not header.startswith(b"SQLite") or header[68:72] in (bytes(4), APPLICATION.to_bytes(4, "big")):
            aside.unlink()
            aside.with_name(f"{aside.name}-wal").unlink(missing_ok=True)


def looked_up(db: sqlite3.Connection, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the values of the keys that exist in the table. Raise `DamagedRow` if the checksum of a row is wrong."""
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _MANY):
        part = keys[start : start + _MANY]
        marks = ",".join("?" * len(part))
        rows = db.execute(f"SELECT * FROM {table} WHERE key IN ({marks})", part)
        found |= dict(map(_checked, rows))
    return found


def write(db: sqlite3.Connection, table: str, rows: Mapping[bytes, bytes]) -> None:
    """Write rows with their checksums within the caller's transaction."""
    db.executemany(
        f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",
        [(key, value, _checksum(key, value)) for key, value in rows.items()],
    )


def row_count(db: sqlite3.Connection) -> int:
    """Return the number of scores."""
    return int(db.execute("SELECT count(*) FROM score").fetchone()[0])


def require_version(db: sqlite3.Connection, path: Path | None) -> None:
    """Raise `ResourceError` if a later version wrote the file. Otherwise, write the current version into it."""
    if (version := db.execute("PRAGMA user_version").fetchone()[0]) > VERSION:
        raise ResourceError(
            f"{path}: the file was written by a later robustify (version {version}, expected at most "
            f"{VERSION}). Upgrade robustify, or choose another folder with --cache-dir."
        )
    db.execute(f"PRAGMA user_version={VERSION}")


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=8).digest()


def _checked(row: tuple[object, ...]) -> tuple[bytes, bytes]:
    # A damaged page may contain anything, even text.
    match row:
        case (bytes() as key, bytes() as value, sum_) if sum_ == _checksum(key, value):
            return key, value
    raise DamagedRow("a row is damaged")


def _connected(path: Path, *, private: bool) -> sqlite3.Connection:
    if private:
        # Create the file before SQLite does, because its journal inherits the mode of the file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    db = sqlite3.connect(path, timeout=30)
    try:
        if private:
            db.execute("PRAGMA secure_delete=ON")
        # On a network file system, SQLite chooses another mode, which is correct there.
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA trusted_schema=OFF")
        if db.execute("PRAGMA application_id").fetchone()[0] not in (0, APPLICATION):
            raise sqlite3.DatabaseError("the database belongs to another program")
        require_version(db, path)
        db.execute(f"PRAGMA application_id={APPLICATION}")
        for table in _TABLES:
            db.execute(table)
        if db.execute("SELECT count(*) FROM meta").fetchone()[0] == 0:
            label = "restricted" if private else "public"
            db.execute("INSERT OR IGNORE INTO meta VALUES ('sensitivity', ?)", (label,))
            db.commit()
    except BaseException:
        db.close()
        raise
    return db
