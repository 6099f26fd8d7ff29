"""Embed texts with the sentence encoder."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.files import write_atomic
from robustify.base.processor import processor_words
from robustify.items.item import Item
from robustify.judging.readers.reader_rows import encoded
from robustify.models.engines.local.vectors import encoding
from robustify.models.engines.protocols import Progress, no_progress
from robustify.models.folder import encoder, has_encoder
from robustify.models.names import ENCODER

MANY_OPTIONS = 5_000
"""Number of options from which a forecast names the faster type of numbers, and the encoder gets a process of its own."""

_DIGEST = hashlib.sha256().digest_size


def options_for_bfloat16(items: Sequence[Item]) -> int:
    """Return the number of options that the encoder would embed faster in bfloat16, or 0 if this saves little time."""
    if len(items) * 2 < MANY_OPTIONS or not _has_bfloat16():
        return 0
    n_options = len({choice for item in encoded(items) for choice in item.choices})
    return n_options if n_options >= MANY_OPTIONS else 0


def _has_bfloat16() -> bool:
    return bool({"avx512_bf16", "amx_bf16"} & processor_words())


def embed_texts(texts: Sequence[str], cache: Path, *, keep: bool) -> Floats | None:
    """Return the vector of each text (n_texts, width), or None if the encoder is not available."""
    with embedding(texts, cache, keep=keep) as embedded:
        return embedded(no_progress)


@contextmanager
def embedding(
    texts: Sequence[str], cache: Path, *, keep: bool, dtype: str = "float32", leave_core: bool = False
) -> Iterator[Callable[[Progress], Floats | None]]:
    """Start the sentence encoder on texts, and yield a function that waits for their vectors (n_texts, width). The function
    returns None if the encoder is not available. Many texts are embedded in a separate process.

    If `keep`, vectors are cached under a digest of the texts and the `dtype` in which the encoder multiplies, which those
    of a restricted set must not be. Raise `ModelError` if the encoder files are damaged, and as `encoding`.
    """
    folder = encoder(cache)
    if folder is None or not has_encoder(cache):
        yield _nothing
        return
    recipe = ENCODER.sha256 if dtype == "float32" else f"{ENCODER.sha256} {dtype}"
    digest = hashlib.sha256("\0".join((recipe, *texts)).encode("utf-8", "surrogatepass"))
    file = cache / "vectors" / f"{digest.hexdigest()}.f32"
    stored = _stored(file, len(texts)) if keep else None
    if stored is not None:
        yield lambda _: stored
        return

    def vectors(progress: Progress) -> Floats:
        computed = received(progress)
        if computed is None:
            from robustify.models.engines.local.sentence_encoder import sentence_vectors  # imports torch

            computed = sentence_vectors(folder, texts, progress, dtype=dtype)
        if keep:
            data = computed.astype("<f4").tobytes()
            # Without this file, a later run takes longer.
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(file, data + hashlib.sha256(data).digest(), sync=False)
        return computed.astype(np.float64)

    many = len(texts) >= MANY_OPTIONS
    begun = encoding(folder, texts, dtype=dtype, leave_core=leave_core) if many else nullcontext(_nothing)
    with begun as received:
        yield vectors


def _nothing(_: Progress) -> None:
    """Return None, because no process computes vectors."""


def _stored(file: Path, n_texts: int) -> Floats | None:
    """Return the vectors in a file of the cache, or None if the file is missing or damaged (after a power failure)."""
    data = b""
    with suppress(OSError):
        data = file.read_bytes()
    vectors, digest = data[:-_DIGEST], data[-_DIGEST:]
    if not vectors or hashlib.sha256(vectors).digest() != digest:
        return None
    return np.frombuffer(vectors, dtype="<f4").reshape(n_texts, -1).astype(np.float64)
