"""Let models write the question of which they see the choices alone, and measure how like the real one it is."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robustify.answers import Answer
from robustify.ask.by_meaning import text_vectors
from robustify.baselines.likeness import likeness_by_words, likeness_rows
from robustify.engines.protocols import Progress, Writer, no_progress
from robustify.errors import UsageError
from robustify.freeform.jsonl import read_jsonl
from robustify.freeform.replies import Replies, replies_to
from robustify.item import Item
from robustify.loaders.rows import cell_text
from robustify.settings_files import Settings
from robustify.views import inferring_prompt

MOST_TOKENS = 40
"""Of a question that is written."""
Inferred = dict[str, dict[str, str]]
"""By model and item id the question that it wrote."""


class Inferring(Settings):
    """Who infers the questions from the choices: `models` by name (none: all that can write), and `tables`, files of
    questions that were inferred elsewhere, as JSON lines or CSV with `item`, `model` and `text`."""

    models: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def inferred_by(
    model: object, settings: Inferring, items: Sequence[Item], kept: Replies, progress: Progress = no_progress
) -> Inferred:
    """Return the questions that this model writes; none if the settings name others, or it cannot write.

    Raises:
        UsageError: a model that is named and whose engine only scores.
    """
    name: str = getattr(model, "name", "")
    if not isinstance(model, Writer):
        if name in settings.models:
            raise UsageError(
                f"infer_question.models: the engine of {name} only scores; expected one that writes"
            )
        return {}
    if settings.models and name not in settings.models:
        return {}
    prompts = [inferring_prompt(item) for item in items]
    said = replies_to(prompts, model, kept, "infer_question", MOST_TOKENS, progress)
    return {name: {item.id: _first_line(one["text"]) for item, one in zip(items, said, strict=True)}}


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def questions_in_tables(settings: Inferring | None) -> Inferred:
    """Return the questions in the tables that the settings name.

    Raises:
        DataError: a table cannot be read, or lacks an item, a model or a text in some row.
    """
    found: Inferred = {}
    for path in () if settings is None else settings.tables:
        for item, model, text in read_jsonl(Path(path), _question):
            found.setdefault(model, {})[item] = text
    return found


def _question(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return cell_text(row, "item"), cell_text(row, "model"), cell_text(row, "text")


def like_the_real(
    items: Sequence[Item], inferred: Mapping[str, Mapping[str, str]], cache: Path, *, keep: bool
) -> Iterator[Answer]:
    """Yield how like the real question each inferred one is: by words, and by meaning if the encoder is at hand."""
    for model, texts in inferred.items():
        written = [texts.get(item.id, "").strip() for item in items]
        some = np.array([bool(text) for text in written])
        by_words = [likeness_by_words(item.stem, text) for item, text in zip(items, written, strict=True)]
        yield from likeness_rows(items, model, "words", np.where(some, by_words, np.nan))
        vectors = text_vectors([item.stem for item in items] + written, cache, keep=keep)
        if vectors is not None:
            one, two = np.split(vectors, 2)
            yield from likeness_rows(items, model, "meaning", np.where(some, (one * two).sum(axis=1), np.nan))
