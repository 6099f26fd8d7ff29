"""The score cache: log-probabilities by what was asked, so that nothing is asked twice.

A row's key is a digest over the model's fingerprint and the exact context and continuation tokens; its value
is the sum and the number of tokens. There is no text, no token and no item id in the file. Every row carries
a checksum, because SQLite pages have none. A value is never overwritten, because byte-identical runs
depend on it; one that comes back further off than rounding is an error.

Scores of a restricted set lie in a file of their own, for its owner alone, and their keys are HMACs under a subkey of
the evaluator's key: with the file and the questions, but without the key, one cannot find out whether one was scored.
"""

import hashlib
import hmac
import os
import sqlite3
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from robustify.engines.plan import Encoded
from robustify.engines.protocols import Closing, Logprob
from robustify.engines.recipe import near
from robustify.errors import ModelError, ResourceError

FILE = "scores.sqlite"
SEALED_FILE = "scores-restricted.sqlite"
APPLICATION = 0x52425354
_VALUE = struct.Struct("<dI")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS score(key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS path(model BLOB PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)
_MANY = 500


@dataclass(frozen=True, slots=True)
class Info:
    """What `robustify cache info` prints: rows, bytes on disk, rows whose checksum does not match."""

    path: str
    rows: int
    size: int
    damaged: int | None = None


class Cache(Closing):
    """One SQLite file, shared by any number of runs.

    `seal`: the subkey of a restricted set's owner, under which the keys of its rows are HMACs.

    Raises:
        ResourceError: the file cannot be opened or written, or the disk is full; rows committed before stay.
    """

    def __init__(self, folder: Path, seal: bytes | None = None) -> None:
        self.file = folder / (FILE if seal is None else SEALED_FILE)
        self._seal = seal
        self._db = _opened(self.file, private=seal is not None)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @property
    def label(self) -> str:
        """Whose scores the file holds: `public` or `restricted`."""
        return str(self._db.execute("SELECT value FROM meta WHERE name = 'sensitivity'").fetchone()[0])

    def named(self, digest: bytes) -> bytes:
        """The key of a row whose question has this digest: the digest itself, or its HMAC under the seal."""
        return digest if self._seal is None else hmac.digest(self._seal, digest, "sha256")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Logprob]:
        """The values that are there and whole; a damaged row counts as absent and is computed again."""
        values: dict[bytes, Logprob] = {}
        for start in range(0, len(keys), _MANY):
            part = keys[start : start + _MANY]
            marks = ",".join("?" * len(part))
            rows = self._db.execute(f"SELECT key, value, checksum FROM score WHERE key IN ({marks})", part)
            values |= {
                key: _read(value) for key, value, checksum in rows if checksum == _checksum(key, value)
            }
        return values

    def put(self, rows: Mapping[bytes, Logprob], model: str, near: float) -> dict[bytes, Logprob]:
        """Keep these values, all in one transaction, and return what is there now: of a key that was there
        already, its value stays.

        `near`: how far the new value of such a key may be from it, in nats. The last bits of a value depend on
        the batch that it was computed in; the first one that is kept is the one that all runs use.

        Raises:
            ModelError: a key is there with a value further off: the model is not deterministic.
            ResourceError: the disk is full; nothing of this call is kept.
        """
        try:
            with self._db:
                # Nobody else writes between the look and the writing.
                self._db.execute("BEGIN IMMEDIATE")
                known = self.get(list(rows))
                self._refuse_other(known, rows, model, near)
                written = [(key, _written(value)) for key, value in rows.items() if key not in known]
                self._db.executemany(
                    "INSERT OR REPLACE INTO score VALUES (?, ?, ?)",
                    [(key, value, _checksum(key, value)) for key, value in written],
                )
        except sqlite3.Error as error:
            raise ResourceError(
                f"{self.file}: cannot be written ({error}); free space, rows kept so far stay"
            ) from None
        return {**rows, **known}

    def _refuse_other(
        self, known: Mapping[bytes, Logprob], rows: Mapping[bytes, Logprob], model: str, near: float
    ) -> None:
        other = [key for key, value in known.items() if not _alike(value, rows[key], near)]
        if other:
            raise ModelError(
                f"{model}: not deterministic: {len(other)} log-probabilities differ from the cached ones; "
                f"expected the same within {near:g} (clear {self.file.name} if the machine's software changed)"
            )

    def path(self, model: bytes) -> str | None:
        """By which path this model was scored before."""
        row = self._db.execute("SELECT path FROM path WHERE model = ?", (model,)).fetchone()
        return None if row is None else str(row[0])

    def set_path(self, model: bytes, path: str) -> None:
        """Remember by which path this model is scored."""
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO path VALUES (?, ?)", (model, path))

    def info(self, *, verify: bool = False) -> Info:
        """How much the cache holds; `verify` reads every row and checks it."""
        rows = self._db.execute("SELECT count(*) FROM score").fetchone()[0]
        damaged = None
        if verify:
            every = self._db.execute("SELECT key, value, checksum FROM score")
            damaged = sum(1 for key, value, checksum in every if checksum != _checksum(key, value))
        return Info(str(self.file), rows, self.file.stat().st_size, damaged)

    def clear(self) -> int:
        """Forget everything; the number of rows that were there."""
        n = int(self._db.execute("SELECT count(*) FROM score").fetchone()[0])
        with self._db:
            self._db.execute("DELETE FROM score")
        self._db.execute("VACUUM")
        # The journal holds what was written before, until it is cut.
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n


@contextmanager
def every(folder: Path) -> Iterator[list[Cache]]:
    """The caches of a folder: the public one and, where there is one, the restricted one. To count and to clear them
    no key is needed.
    """
    with Cache(folder) as scores:
        if not (folder / SEALED_FILE).is_file():
            yield [scores]
            return
        with Cache(folder, b"") as sealed:
            yield [scores, sealed]


class KeptScores:
    """The cache as one model sees it; without a cache nothing is known and nothing is kept."""

    def __init__(self, cache: Cache | None, fingerprint: Mapping[str, str], name: str) -> None:
        self._cache = cache
        self._name = name
        self._near = near(fingerprint.get("dtype", "float32"))
        self._head = hashlib.sha256(b"robustify/score/1")
        for key, value in sorted(fingerprint.items()):
            _add(self._head, key.encode())
            _add(self._head, value.encode())

    def known(self, requests: Iterable[Encoded]) -> dict[Encoded, Logprob]:
        """What is there of these requests."""
        if self._cache is None:
            return {}
        keys = {self._key(request): request for request in requests}
        return {keys[key]: value for key, value in self._cache.get(list(keys)).items()}

    def keep(self, scored: Mapping[Encoded, Logprob]) -> dict[Encoded, Logprob]:
        """Keep these, in one transaction, and return what is kept; see `Cache.put`."""
        if self._cache is None:
            return dict(scored)
        keys = {self._key(request): request for request in scored}
        rows = {key: scored[request] for key, request in keys.items()}
        return {keys[key]: value for key, value in self._cache.put(rows, self._name, self._near).items()}

    @property
    def path(self) -> str | None:
        """By which path the model was scored before."""
        return None if self._cache is None else self._cache.path(self._head.digest())

    @path.setter
    def path(self, path: str) -> None:
        if self._cache is not None:
            self._cache.set_path(self._head.digest(), path)

    def _key(self, request: Encoded) -> bytes:
        digest = self._head.copy()
        for tokens in (request.context, request.continuation):
            _add(digest, struct.pack(f"<{len(tokens)}i", *tokens))
        return digest.digest() if self._cache is None else self._cache.named(digest.digest())


def _add(digest: "hashlib._Hash", part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big") + part)


def _alike(kept: Logprob, fresh: Logprob, near: float) -> bool:
    # Equal: two numbers that were not shown (minus infinity) have no difference.
    return kept == fresh or (kept.n_tokens == fresh.n_tokens and abs(kept.total - fresh.total) <= near)


def _written(value: Logprob) -> bytes:
    return _VALUE.pack(value.total, value.n_tokens)


def _read(value: bytes) -> Logprob:
    return Logprob(*_VALUE.unpack(value))


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=8).digest()


def _opened(path: Path, *, private: bool) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connected(path, private=private)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = set_aside(path)
            print(
                f"robustify: {path.name} is damaged: set aside as {aside.name}, starting a new one",
                file=sys.stderr,
            )
            return _connected(path, private=private)
    except (OSError, sqlite3.OperationalError) as error:
        raise ResourceError(f"{path}: cannot be opened ({error}); choose another --cache-dir") from None


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
        db.execute("SELECT count(*) FROM score").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def set_aside(path: Path) -> Path:
    """Rename a damaged file; what its name is then.

    Raises:
        OSError: it cannot be renamed.
    """
    n = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{n}")).exists():
        n += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside
