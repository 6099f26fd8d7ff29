"""Let models infer questions from options alone, and measure the similarity to the real questions. The filter
does not use it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from robustify.base.errors import UsageError
from robustify.items.answers import Answer
from robustify.items.item import Item
from robustify.items.views import inferring_prompt
from robustify.judging.readers.reader_rows import likeness_rows
from robustify.judging.text_overlap import likeness_by_words
from robustify.models.engines.protocols import Progress, Watch, Writer, no_progress
from robustify.models.replies import Purpose, Replies, replies_to
from robustify.pipeline.config import Inferring
from robustify.pipeline.encoder import embed_texts

MOST_TOKENS = 40
"""Maximum number of tokens of an inferred question."""
Inferred = dict[str, dict[str, str]]
"""Inferred questions by model and item ID."""


def infer_questions(
    model: object, settings: Inferring, items: Sequence[Item], kept: Replies, progress: Progress = no_progress
) -> Inferred:
    """Ask a model to infer questions from choices. Return no questions if the model is not selected or cannot generate
    text. Raise `UsageError` if the settings name this model, but its engine cannot generate text."""
    name: str = getattr(model, "name", "")
    if not isinstance(model, Writer):
        if name in settings.models:
            raise UsageError(
                f"infer_question.models: the engine of {name} cannot generate text. Remove this model.",
                code="engine-cannot-generate",
            )
        return {}
    if settings.models and name not in settings.models:
        return {}
    prompts = [inferring_prompt(item) for item in items]
    replies = replies_to(prompts, model, kept, Purpose("infer_question", MOST_TOKENS), progress)
    return {name: {item.id: _first_line(reply["text"]) for item, reply in zip(items, replies, strict=True)}}


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def compare_inferred(
    items: Sequence[Item], inferred: Mapping[str, Mapping[str, str]], cache: Path, *, keep: bool
) -> Iterator[Answer]:
    """Yield each inferred question's similarity to the real question, by words and, if the encoder is there, by meaning."""
    for model, texts in inferred.items():
        written = [texts.get(item.id, "").strip() for item in items]
        some = np.array([bool(text) for text in written])
        by_words = [likeness_by_words(item.stem, text) for item, text in zip(items, written, strict=True)]
        yield from likeness_rows(items, model, "words", np.where(some, by_words, np.nan))
        vectors = embed_texts([item.stem for item in items] + written, cache, keep=keep)
        if vectors is not None:
            real, inferred_vectors = np.split(vectors, 2)
            yield from likeness_rows(
                items, model, "meaning", np.where(some, (real * inferred_vectors).sum(axis=1), np.nan)
            )


class QuestionInference:
    """Questions that the models of one run infer. If `keep` (never for a restricted set), replies are cached."""

    def __init__(self, settings: Inferring, items: Sequence[Item], cache: Path, *, keep: bool) -> None:
        self._settings, self._items, self._cache, self._keep = settings, items, cache, keep
        self._replies, self._inferred = Replies(cache if keep else None), Inferred()

    def ask(self, name: str, model: object, watch: Watch) -> None:
        """Ask a loaded model to infer the questions. Raise the errors of `infer_questions`."""
        with watch(f"{name}, questions from choices", len(self._items)) as progress:
            self._inferred |= infer_questions(model, self._settings, self._items, self._replies, progress)

    def answers(self) -> Iterator[Answer]:
        """Return the similarity of the inferred questions to the real questions."""
        return compare_inferred(self._items, self._inferred, self._cache, keep=self._keep)

    def close(self) -> None:
        """Close the cache of replies."""
        self._replies.close()
