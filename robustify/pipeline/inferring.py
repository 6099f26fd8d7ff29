"""Questions that models infer from the choices alone, and their similarity to the real questions."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from robustify.base.errors import UsageError
from robustify.base.settings_files import Settings
from robustify.items.answers import Answer
from robustify.items.item import Item
from robustify.items.views import inferring_prompt
from robustify.judging.baselines.artifact_probe import likeness_by_words, likeness_rows
from robustify.models.engines.protocols import Progress, Writer, no_progress
from robustify.models.replies import Purpose, Replies, replies_to
from robustify.pipeline.by_meaning import text_vectors

MOST_TOKENS = 40
"""Maximum number of tokens of an inferred question."""
Inferred = dict[str, dict[str, str]]
"""Inferred questions by model and item ID."""


class Inferring(Settings):
    """Models that infer questions: `models` names them (default: all that can generate text)."""

    models: tuple[str, ...] = ()


def inferred_by(
    model: object, settings: Inferring, items: Sequence[Item], kept: Replies, progress: Progress = no_progress
) -> Inferred:
    """Return the questions that this model infers, or no questions if the model is not selected or cannot
    generate text. Raise `UsageError` if the settings name this model, but its engine cannot generate text."""
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
    """Yield the similarity of each inferred question to the real one, by words and, if the encoder is available, by
    meaning."""
    for model, texts in inferred.items():
        written = [texts.get(item.id, "").strip() for item in items]
        some = np.array([bool(text) for text in written])
        by_words = [likeness_by_words(item.stem, text) for item, text in zip(items, written, strict=True)]
        yield from likeness_rows(items, model, "words", np.where(some, by_words, np.nan))
        vectors = text_vectors([item.stem for item in items] + written, cache, keep=keep)
        if vectors is not None:
            one, two = np.split(vectors, 2)
            yield from likeness_rows(items, model, "meaning", np.where(some, (one * two).sum(axis=1), np.nan))
