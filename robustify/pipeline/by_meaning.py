"""Audit of options with the sentence encoder. The filter does not use its rows."""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.files import write_atomic
from robustify.items.answers import Answer
from robustify.items.item import Item
from robustify.judging.baselines.artifact_probe import ProbeSettings, encoded, meaning
from robustify.models import downloads
from robustify.models.engines.protocols import Progress, no_progress


def can_audit(cache: Path) -> bool:
    """Return whether the encoder was pulled and torch is installed."""
    return downloads.encoder(cache) is not None and importlib.util.find_spec("torch") is not None


def ask_by_meaning(
    items: Sequence[Item],
    settings: ProbeSettings,
    cache: Path,
    *,
    keep: bool,
    progress: Progress = no_progress,
) -> list[Answer]:
    """Return one row per audited item, or no rows if the encoder is not available.
    If `keep` is true, vectors are cached under a digest of the texts. This must be false for a restricted set.
    Raise `ModelError` if the encoder files are damaged."""
    chosen = encoded(items)
    texts = [choice for item in chosen for choice in item.choices]
    vectors = text_vectors(texts, cache, keep=keep, progress=progress)
    return [] if vectors is None else meaning(chosen, vectors, downloads.ENCODER.name, settings)


def text_vectors(
    texts: Sequence[str], cache: Path, *, keep: bool, progress: Progress = no_progress
) -> Floats | None:
    """Return the encoder's vector of each text (n_texts, width), or None if the encoder is not available.
    Raise `ModelError` if the encoder files are damaged."""
    folder = downloads.encoder(cache)
    if folder is None or not can_audit(cache):
        return None
    digest = hashlib.sha256("\0".join((downloads.ENCODER.sha256, *texts)).encode("utf-8", "surrogatepass"))
    file = cache / "vectors" / f"{digest.hexdigest()}.f32"
    if keep and file.is_file() and file.stat().st_size % (4 * max(len(texts), 1)) == 0:
        return np.frombuffer(file.read_bytes(), dtype="<f4").reshape(len(texts), -1).astype(np.float64)
    from robustify.models.engines.local.model import sentence_vectors  # imports torch

    found = sentence_vectors(folder, texts, progress)
    if keep:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, found.astype("<f4").tobytes(), sync=False)
    return found.astype(np.float64)
