"""The score cache: log-probabilities by what was asked, so that nothing is asked twice.

A row's key is a digest of the model's fingerprint and the exact context and continuation tokens; its value is the sum and
the number of tokens. The file holds no text, no token and no item id. A value is never overwritten, because byte-identical
runs depend on it; a value that comes back further off than rounding is an error.

Scores of a restricted set are kept in a file of their own, for its owner alone, and their keys are HMACs under a subkey of
the evaluator's key: without the key, nobody can find out whether a known question was scored.
"""

import hashlib
import hmac
import math
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from robustify.engines import score_file
from robustify.engines.plan import Encoded
from robustify.engines.protocols import Closing, Logprob
from robustify.engines.recipe import drift, near
from robustify.engines.score_file import DAMAGE, looked_up, row_count, write
from robustify.errors import ModelError, ResourceError
from robustify.views import Request

T = TypeVar("T")
FILE = "scores.sqlite"
SEALED_FILE = "scores-restricted.sqlite"
_VALUE = struct.Struct("<dI")
_DRAWS = 20
"""Bits of the second number that count tokens; above them are the replies that were read."""


class Cache(Closing):
    """One SQLite file, shared by any number of runs. A damaged file is set aside, and an empty one goes on.

    `seal`: the subkey of a restricted set's owner, under which the keys of its rows are HMACs.
    Raises `ResourceError`: the file cannot be opened, read or written, or the disk is full; rows committed before stay.
    """

    def __init__(self, folder: Path, seal: bytes | None = None) -> None:
        self.file = folder / (FILE if seal is None else SEALED_FILE)
        self._seal = seal
        self._open(score_file.opened(self.file, private=seal is not None))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def named(self, digest: bytes) -> bytes:
        """Return the key of a row whose question has this digest: the digest itself, or its HMAC under the seal."""
        return digest if self._seal is None else hmac.digest(self._seal, digest, "sha256")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Logprob]:
        """Return the values that are there."""
        found = self._done(lambda db: looked_up(db, "score", keys))
        return {key: _read(value) for key, value in found.items()}

    def put(self, rows: Mapping[bytes, Logprob], model: str, near: float) -> dict[bytes, Logprob]:
        """Keep these values in one transaction and return what is there now; a value that was there stays.

        `near`: how far a new value may be from it, in nats, times `drift`: last bits depend on the batch.
        Raises `ModelError`: a value is further off, so the model is not deterministic.
        """

        def kept(db: sqlite3.Connection) -> dict[bytes, Logprob]:
            # Nobody else writes between the look and the writing.
            db.execute("BEGIN IMMEDIATE")
            known = {key: _read(value) for key, value in looked_up(db, "score", list(rows)).items()}
            other = sum(not _alike(value, rows[key], near) for key, value in known.items())
            if other:
                raise ModelError(
                    f"{model}: not deterministic: {other} log-probabilities differ from the cached ones; "
                    f"expected the same within {near:g} (clear {self.file.name} if the machine's software changed)"
                )
            fresh = {
                key: _VALUE.pack(value.total, value.draws << _DRAWS | value.n_tokens)
                for key, value in rows.items()
                if key not in known
            }
            write(db, "score", fresh)
            return {**rows, **known}

        return self._done(kept)

    def aliases(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the keys of scores by the keys of texts."""
        return self._done(lambda db: looked_up(db, "alias", keys))

    def set_aliases(self, rows: Mapping[bytes, bytes]) -> None:
        """Remember by which texts these scores are asked for."""
        self._done(lambda db: write(db, "alias", rows))

    def path(self, model: bytes) -> str | None:
        """Return by which path this model was scored before."""
        row = self._done(lambda db: db.execute("SELECT path FROM path WHERE model = ?", (model,)).fetchone())
        return None if row is None else str(row[0])

    def set_path(self, model: bytes, path: str) -> None:
        """Remember by which path this model is scored."""
        self._done(lambda db: db.execute("INSERT OR REPLACE INTO path VALUES (?, ?)", (model, path)))

    def info(self) -> dict[str, Any]:
        """Return what `robustify models cache info` prints: path, rows, and bytes on disk."""
        return {"path": str(self.file), "rows": self._done(row_count), "size": self.file.stat().st_size}

    def clear(self) -> int:
        """Forget everything, also damaged files that were set aside. Return the number of rows, 0 for a damaged file."""
        try:
            n = row_count(self._db)
            with self._db:
                self._db.execute("DELETE FROM score")
                self._db.execute("DELETE FROM alias")
            self._db.execute("VACUUM")
            # The journal holds what was written before, until it is cut.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except DAMAGE:
            n = 0
            self._replace()
        score_file.remove_damaged(self.file)
        return n

    def _open(self, db: sqlite3.Connection) -> None:
        self._db, self._inode = db, self.file.stat().st_ino

    def _replace(self) -> None:
        self._db.close()
        self._open(score_file.replaced(self.file, self._inode, private=self._seal is not None))

    def _done(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what this work gives, in one transaction; of an empty file if this one is damaged."""
        try:
            try:
                with self._db:
                    return work(self._db)
            except DAMAGE as error:
                if not score_file.is_damaged(self._db, error):
                    raise
            self._replace()
            with self._db:
                return work(self._db)
        except (OSError, *DAMAGE) as error:
            raise ResourceError(
                f"{self.file}: cannot be read or written ({error!a}); free space, rows kept so far stay"
            ) from None


@contextmanager
def every(folder: Path) -> Iterator[list[Cache]]:
    """Open the caches of a folder: the public one and any restricted one. Counting and clearing need no key."""
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
        # Replies that are drawn differ from one time to the next: the first that are kept are those that count.
        drawn = "samples" in fingerprint
        self._near = math.inf if drawn else near(fingerprint.get("dtype", "float32"))
        self._head = hashlib.sha256(b"robustify/score/1")
        for key, value in sorted(fingerprint.items()):
            _add(self._head, key.encode())
            _add(self._head, value.encode())

    def known(self, requests: Iterable[Encoded]) -> dict[Encoded, Logprob]:
        """Return what is there of these requests."""
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

    def known_texts(self, requests: Sequence[Request]) -> list[Logprob] | None:
        """Return the scores of these requests if all of them were asked before: a known text needs no tokens."""
        if self._cache is None or not requests:
            return None
        keys = [self._text_key(request) for request in requests]
        scores = self._cache.aliases(list(dict.fromkeys(keys)))
        values = (
            self._cache.get(list(dict.fromkeys(scores.values()))) if len(scores) == len(set(keys)) else {}
        )
        found = [values[scores[key]] for key in keys if scores.get(key) in values]
        return found if len(found) == len(requests) else None

    def keep_texts(self, requests: Sequence[Request], encoded: Sequence[Encoded]) -> None:
        """Remember whose scores these texts have, by digests or, for a restricted set, by HMACs."""
        if self._cache is not None:
            keys = {one: self._key(one) for one in set(encoded)}
            pairs = zip(requests, encoded, strict=True)
            self._cache.set_aliases({self._text_key(request): keys[one] for request, one in pairs})

    @property
    def path(self) -> str | None:
        """By which path the model was scored before."""
        return None if self._cache is None else self._cache.path(self._head.digest())

    @path.setter
    def path(self, path: str) -> None:
        if self._cache is not None and self.path != path:
            self._cache.set_path(self._head.digest(), path)

    def _key(self, request: Encoded) -> bytes:
        packed = (
            struct.pack(f"<{len(tokens)}i", *tokens) for tokens in (request.context, request.continuation)
        )
        return self._named(packed)

    def _text_key(self, request: Request) -> bytes:
        texts = (text.encode("utf-8", "surrogatepass") for text in (request.context, request.continuation))
        return self._named((b"text", _spelled_by(), *texts))

    def _named(self, parts: Iterable[bytes]) -> bytes:
        digest = self._head.copy()
        for part in parts:
            _add(digest, part)
        return digest.digest() if self._cache is None else self._cache.named(digest.digest())


@cache
def _spelled_by() -> bytes:
    """Return what else the tokens of a text depend on than a recipe says."""
    try:
        return version("tokenizers").encode()
    except PackageNotFoundError:
        return b""


def _add(digest: "hashlib._Hash", part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big") + part)


def _alike(kept: Logprob, fresh: Logprob, near: float) -> bool:
    # Equal: two that are no numbers (minus infinity) have no difference.
    return (
        kept == fresh
        or near == math.inf
        or (kept.n_tokens == fresh.n_tokens and abs(kept.total - fresh.total) <= near * drift(kept.n_tokens))
    )


def _read(value: bytes) -> Logprob:
    total, counts = _VALUE.unpack(value)
    return Logprob(total, counts & ((1 << _DRAWS) - 1), counts >> _DRAWS)
