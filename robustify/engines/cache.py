"""Persistent cache of log-probabilities.

The key of a row is a digest of the model's fingerprint and of the exact context and continuation tokens. Its value is the
summed log-probability and the number of tokens. The file contains no text, tokens, or item IDs. Values are never
overwritten, because byte-identical runs depend on them. A new value that differs by more than rounding is an error.

Scores of a restricted set have a separate file that only its owner can read. Its keys are HMACs under a subkey of the
evaluator's key. Without that key, nobody can find out whether a known question was scored.
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
"""Number of low bits of the second integer that count tokens. The higher bits count the replies that were read."""


class Cache(Closing):
    """SQLite cache of scores that any number of runs can share. A damaged file is renamed and replaced by an empty one. If
    `seal` is given, it is a subkey of the owner of a restricted set, and row keys are HMACs under it. Raise `ResourceError`
    if the file cannot be opened, read, or written, or the disk is full. Committed rows are kept."""

    def __init__(self, folder: Path, seal: bytes | None = None) -> None:
        self.file = folder / (FILE if seal is None else SEALED_FILE)
        self._seal = seal
        self._open(score_file.opened(self.file, private=seal is not None))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def named(self, digest: bytes) -> bytes:
        """Return the row key for a digest: the digest itself, or its HMAC if the cache is sealed."""
        return digest if self._seal is None else hmac.digest(self._seal, digest, "sha256")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Logprob]:
        """Return the cached values of the given keys."""
        found = self._done(lambda db: looked_up(db, "score", keys))
        return {key: _read(value) for key, value in found.items()}

    def put(self, rows: Mapping[bytes, Logprob], model: str, near: float) -> dict[bytes, Logprob]:
        """Store new values in one transaction and return the stored value of every key.
        Existing values are kept. A new value may differ from an existing one by `near` nats times `drift`, because the last
        digits depend on the batch. Raise `ModelError` if a value differs by more, so the model is not deterministic."""

        def kept(db: sqlite3.Connection) -> dict[bytes, Logprob]:
            # No other process can write between this lookup and this write.
            db.execute("BEGIN IMMEDIATE")
            known = {key: _read(value) for key, value in looked_up(db, "score", list(rows)).items()}
            other = sum(not _alike(value, rows[key], near) for key, value in known.items())
            if other:
                raise ModelError(
                    f"{model}: the model is not deterministic: {other} log-probabilities differ from the cached ones by "
                    f"more than {near:g}. If the software of this machine has changed, clear {self.file.name} with "
                    "`robustify models cache clear`."
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
        """Return a mapping from text keys to score keys."""
        return self._done(lambda db: looked_up(db, "alias", keys))

    def set_aliases(self, rows: Mapping[bytes, bytes]) -> None:
        """Store a mapping from text keys to score keys."""
        self._done(lambda db: write(db, "alias", rows))

    def path(self, model: bytes) -> str | None:
        """Return the scoring path that an earlier run used for this model, or None."""
        row = self._done(lambda db: db.execute("SELECT path FROM path WHERE model = ?", (model,)).fetchone())
        return None if row is None else str(row[0])

    def set_path(self, model: bytes, path: str) -> None:
        """Store the scoring path of this model."""
        self._done(lambda db: db.execute("INSERT OR REPLACE INTO path VALUES (?, ?)", (model, path)))

    def info(self) -> dict[str, Any]:
        """Return the file path, number of rows, and size in bytes, as printed by `robustify models cache info`."""
        return {"path": str(self.file), "rows": self._done(row_count), "size": self.file.stat().st_size}

    def clear(self) -> int:
        """Delete all rows and damaged versions of the file. Return the number of deleted scores, or 0 if damaged."""
        try:
            n = row_count(self._db)
            with self._db:
                self._db.execute("DELETE FROM score")
                self._db.execute("DELETE FROM alias")
            self._db.execute("VACUUM")
            # Until it is truncated, the journal contains the deleted rows.
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
        """Run `work` in one transaction and return its result. If the file is damaged, replace it and run `work` again."""
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
                f"{self.file}: cannot read or write the score cache ({error!a}). Free some disk space. Committed "
                "scores are kept."
            ) from None


@contextmanager
def every(folder: Path) -> Iterator[list[Cache]]:
    """Open all caches in a folder, public and restricted, to count or clear their rows. No key is needed."""
    with Cache(folder) as scores:
        if not (folder / SEALED_FILE).is_file():
            yield [scores]
            return
        with Cache(folder, b"") as sealed:
            yield [scores, sealed]


class CachedScores:
    """Cache access for a single model. Without a cache, it finds and stores nothing."""

    def __init__(self, cache: Cache | None, fingerprint: Mapping[str, str], name: str) -> None:
        self._cache = cache
        self._name = name
        # Sampled replies vary from run to run. The first stored scores count.
        drawn = "samples" in fingerprint
        self._near = math.inf if drawn else near(fingerprint.get("dtype", "float32"))
        self._head = hashlib.sha256(b"robustify/score/1")
        for key, value in sorted(fingerprint.items()):
            _add(self._head, key.encode())
            _add(self._head, value.encode())

    def known(self, requests: Iterable[Encoded]) -> dict[Encoded, Logprob]:
        """Return the cached scores of these requests."""
        if self._cache is None:
            return {}
        keys = {self._key(request): request for request in requests}
        return {keys[key]: value for key, value in self._cache.get(list(keys)).items()}

    def keep(self, scored: Mapping[Encoded, Logprob]) -> dict[Encoded, Logprob]:
        """Store these scores in one transaction. Return the stored scores, which may be those of an earlier run."""
        if self._cache is None:
            return dict(scored)
        keys = {self._key(request): request for request in scored}
        rows = {key: scored[request] for key, request in keys.items()}
        return {keys[key]: value for key, value in self._cache.put(rows, self._name, self._near).items()}

    def known_texts(self, requests: Sequence[Request]) -> list[Logprob] | None:
        """Return the cached scores of these requests without tokenizing them, or None unless all are cached."""
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
        """Link the texts of requests to their scores, so that later runs need no tokenizer."""
        if self._cache is not None:
            keys = {one: self._key(one) for one in set(encoded)}
            pairs = zip(requests, encoded, strict=True)
            self._cache.set_aliases({self._text_key(request): keys[one] for request, one in pairs})

    @property
    def path(self) -> str | None:
        """Scoring path that an earlier run used for this model, or None."""
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
        # A recipe does not include this version, on which tokens depend.
        return self._named((b"text", _tokenizers_version(), *texts))

    def _named(self, parts: Iterable[bytes]) -> bytes:
        digest = self._head.copy()
        for part in parts:
            _add(digest, part)
        return digest.digest() if self._cache is None else self._cache.named(digest.digest())


@cache
def _tokenizers_version() -> bytes:
    try:
        return version("tokenizers").encode()
    except PackageNotFoundError:
        return b""


def _add(digest: "hashlib._Hash", part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big") + part)


def _alike(kept: Logprob, fresh: Logprob, near: float) -> bool:
    # The difference of two infinite values is NaN, so compare them directly.
    return (
        kept == fresh
        or near == math.inf
        or (kept.n_tokens == fresh.n_tokens and abs(kept.total - fresh.total) <= near * drift(kept.n_tokens))
    )


def _read(value: bytes) -> Logprob:
    total, counts = _VALUE.unpack(value)
    return Logprob(total, counts & ((1 << _DRAWS) - 1), counts >> _DRAWS)
