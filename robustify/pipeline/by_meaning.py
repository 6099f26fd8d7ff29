"""Answers of the sentence encoder from options alone, and comparison of inferred questions with the real ones.

The filter does not use its rows.
"""

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.errors import UsageError
from robustify.base.files import write_atomic
from robustify.base.settings_files import Settings
from robustify.items.answers import Answer
from robustify.items.item import Item
from robustify.items.views import inferring_prompt
from robustify.judging.readers.reader_rows import (
    ProbeSettings,
    encoded,
    likeness_by_words,
    likeness_rows,
    meaning,
)
from robustify.models import downloads
from robustify.models.engines.protocols import Progress, Writer, no_progress
from robustify.models.names import ENCODER
from robustify.models.replies import Purpose, Replies, replies_to


def can_audit(cache: Path) -> bool:
    """Return whether the sentence encoder was downloaded and torch is installed."""
    return downloads.encoder(cache) is not None and importlib.util.find_spec("torch") is not None


def ask_by_meaning(
    items: Sequence[Item],
    settings: ProbeSettings,
    cache: Path,
    *,
    keep: bool,
    progress: Progress = no_progress,
) -> list[Answer]:
    """Return the sentence encoder's answer to each item, or none if it is not available. Raise as `text_vectors`."""
    chosen = encoded(items)
    texts = [choice for item in chosen for choice in item.choices]
    vectors = text_vectors(texts, cache, keep=keep, progress=progress)
    return [] if vectors is None else meaning(chosen, vectors, ENCODER.name, settings)


def text_vectors(
    texts: Sequence[str], cache: Path, *, keep: bool, progress: Progress = no_progress
) -> Floats | None:
    """Embed each text with the sentence encoder (n_texts, width). Return None if the encoder is not available.

    If `keep`, they are cached under a digest of the texts, which a restricted set must not be. Raise `ModelError` if the
    encoder files are damaged.
    """
    folder = downloads.encoder(cache)
    if folder is None or not can_audit(cache):
        return None
    digest = hashlib.sha256("\0".join((ENCODER.sha256, *texts)).encode("utf-8", "surrogatepass"))
    file = cache / "vectors" / f"{digest.hexdigest()}.f32"
    if keep and file.is_file() and file.stat().st_size % (4 * max(len(texts), 1)) == 0:
        return np.frombuffer(file.read_bytes(), dtype="<f4").reshape(len(texts), -1).astype(np.float64)
    from robustify.models.engines.local.model import sentence_vectors  # imports torch

    found = sentence_vectors(folder, texts, progress)
    if keep:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, found.astype("<f4").tobytes(), sync=False)
    return found.astype(np.float64)


MOST_TOKENS = 40
"""Maximum number of tokens of an inferred question."""
Inferred = dict[str, dict[str, str]]
"""Inferred questions by model and item ID."""


class Inferring(Settings):
    """Choice of the models that infer questions. By default, these are all models that can generate text."""

    models: tuple[str, ...] = ()


def inferred_by(
    model: object, settings: Inferring, items: Sequence[Item], kept: Replies, progress: Progress = no_progress
) -> Inferred:
    """Ask a model to infer questions from choices. Return none if it is not selected or cannot generate text.
    Raise `UsageError` if the settings name this model, but its engine cannot generate text."""
    name: str = getattr(model, "name", "")
    if not isinstance(model, Writer):
        if name in settings.models:
            raise UsageError(
                f"infer_question.models: the engine of {name} cannot generate text. Remove this model."
            )
        return {}
    if settings.models and name not in settings.models:
        return {}
    prompts = [inferring_prompt(item) for item in items]
    said = replies_to(prompts, model, kept, Purpose("infer_question", MOST_TOKENS), progress)
    return {name: {item.id: _first_line(one["text"]) for item, one in zip(items, said, strict=True)}}


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def like_the_real(
    items: Sequence[Item], inferred: Mapping[str, Mapping[str, str]], cache: Path, *, keep: bool
) -> Iterator[Answer]:
    """Yield how similar each inferred question is to the real one, by words, and by meaning if the encoder is available."""
    for model, texts in inferred.items():
        written = [texts.get(item.id, "").strip() for item in items]
        some = np.array([bool(text) for text in written])
        by_words = [likeness_by_words(item.stem, text) for item, text in zip(items, written, strict=True)]
        yield from likeness_rows(items, model, "words", np.where(some, by_words, np.nan))
        vectors = text_vectors([item.stem for item in items] + written, cache, keep=keep)
        if vectors is not None:
            one, two = np.split(vectors, 2)
            yield from likeness_rows(items, model, "meaning", np.where(some, (one * two).sum(axis=1), np.nan))
