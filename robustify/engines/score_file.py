"""The SQLite file of the score cache: opened, found damaged, set aside, and begun anew with the rows that can be read.

SQLite's pages have no checksum: a page that was overwritten is an error in every run that reads it. So the file is
renamed, and what can be read is copied: rows up to the first damaged page and, from behind, down to the last one.
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
_MANY = 500
"""Keys of one search."""
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises: SQLite quotes bytes in its messages, which may be no text."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS score(key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID",
    # By the digest of a request's text: the key of its score.
    "CREATE TABLE IF NOT EXISTS alias(key BLOB PRIMARY KEY, score BLOB NOT NULL, checksum BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS path(model BLOB PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)


def opened(path: Path, *, private: bool) -> sqlite3.Connection:
    """The file, made where it is not there, begun anew where it is damaged; `private`: for its owner alone.
    Raises `ResourceError`: it cannot be opened or made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = path.stat().st_ino if path.exists() else None
        try:
            return _connected(path, private=private)
        except DAMAGE as error:
            if isinstance(error, sqlite3.OperationalError) and "decode" not in str(error):
                raise
            return begun_anew(path, there, private=private)
    except (OSError, *DAMAGE) as error:
        raise ResourceError(f"{path}: cannot be opened ({error!a}); choose another --cache-dir") from None


def is_damaged(db: sqlite3.Connection) -> bool:
    """Whether SQLite's own check of every page and index finds a fault, or cannot be finished."""
    try:
        return bool(db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",))
    except sqlite3.OperationalError as error:
        return "locked" not in str(error)
    except DAMAGE:
        return True


def begun_anew(path: Path, known: int | None, *, private: bool) -> sqlite3.Connection:
    """A new file in the place of the damaged one, whose readable rows it has, and one line on stderr.

    `known`: the inode of the damaged one. Where another process has replaced it already, its file is opened.
    """
    with locked(path.with_name(f".{path.name}.lock"), wait=True):
        if known is not None and path.exists() and path.stat().st_ino != known:
            return _connected(path, private=private)
        aside = set_aside(path)
        db = _connected(path, private=private)
        n = _copied(aside, db)
    print(
        f"robustify: {path.name} is damaged: set aside as {aside.name}; {n:,} scores could be read and stay, others are "
        "computed again",
        file=sys.stderr,
    )
    return db


def remove(path: Path) -> None:
    """Remove the file and its journal."""
    for part in ("", "-wal", "-shm"):
        path.with_name(path.name + part).unlink(missing_ok=True)


def remove_set_aside(path: Path) -> None:
    """Remove the damaged files that were set aside from this one."""
    for aside in path.parent.glob(f"{path.name}.corrupt-*"):
        with aside.open("rb") as file:
            header = file.read(100)
        # A file of another program that had this name is not ours to remove.
        if not header.startswith(b"SQLite") or header[68:72] in (bytes(4), APPLICATION.to_bytes(4, "big")):
            aside.unlink()
            aside.with_name(f"{aside.name}-wal").unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file and its journal; what its name is then. Raises `OSError`: it cannot be renamed."""
    n = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{n}")).exists():
        n += 1
    path.rename(aside)
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.with_name(f"{path.name}-wal").rename(aside.with_name(f"{aside.name}-wal"))
    return aside


def checksum(key: bytes, value: bytes) -> bytes:
    """The checksum of a row, 8 bytes."""
    return hashlib.blake2b(key + value, digest_size=8).digest()


def is_whole(row: tuple[object, ...]) -> bool:
    """Whether a row (key, value, checksum) is as it was written. A damaged page may show anything, also text."""
    match row:
        case (bytes() as key, bytes() as value, bytes() as sum_):
            return sum_ == checksum(key, value)
        case _:
            return False


def looked_up(db: sqlite3.Connection, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """The values of these keys, of rows that are there and whole."""
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _MANY):
        part = keys[start : start + _MANY]
        marks = ",".join("?" * len(part))
        rows = db.execute(f"SELECT * FROM {table} WHERE key IN ({marks})", part)
        found |= {row[0]: row[1] for row in rows if is_whole(row)}
    return found


def write(db: sqlite3.Connection, table: str, rows: Mapping[bytes, bytes]) -> None:
    """Write these rows with their checksums; the caller has the transaction."""
    db.executemany(
        f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",
        [(key, value, checksum(key, value)) for key, value in rows.items()],
    )


def row_counts(db: sqlite3.Connection, *, verify: bool) -> tuple[int, int | None]:
    """How many scores there are and, where they are read to verify them, how many are damaged."""
    n = int(db.execute("SELECT count(*) FROM score").fetchone()[0])
    return n, sum(not is_whole(row) for row in db.execute("SELECT * FROM score")) if verify else None


def _copied(aside: Path, db: sqlite3.Connection) -> int:
    """How many scores could be copied from the damaged file; none where the table of paths cannot be read: a score
    without the path that it was computed by would make another run of the same one."""
    with contextlib.suppress(*DAMAGE), contextlib.closing(sqlite3.connect(aside, timeout=1)) as old:
        if old.execute("PRAGMA application_id").fetchone() == (APPLICATION,):
            paths = old.execute("SELECT model, path FROM path").fetchall()
            db.executemany("INSERT OR IGNORE INTO path VALUES (?, ?)", paths)
            for table in ("score", "alias"):
                for way in ("ASC", "DESC"):
                    with contextlib.suppress(*DAMAGE):
                        rows = old.execute(f"SELECT * FROM {table} ORDER BY key {way}")
                        whole = (row for row in rows if is_whole(row))
                        db.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)", whole)
    db.commit()
    return int(db.execute("SELECT count(*) FROM score").fetchone()[0])


def _connected(path: Path, *, private: bool) -> sqlite3.Connection:
    if private:
        # Before SQLite makes it: the journal beside a file has the file's own mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    db = sqlite3.connect(path, timeout=30)
    try:
        if private:
            db.execute("PRAGMA secure_delete=ON")
        # A network file system answers with another mode, and then that one is right.
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA trusted_schema=OFF")
        owner = db.execute("PRAGMA application_id").fetchone()[0]
        if owner not in (0, APPLICATION):
            raise sqlite3.DatabaseError("another program's database")
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
