"""How like a question that was inferred from the choices is to the real one: by words, and by a sentence encoder.

An item is not flawed because a reader can infer its question (Balepur et al. 2024): who infers it may know the answer.
Likeness is kept as the credit of a row whose view is `VIEW`, so that judging needs no text.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from robustify.answers import Answer, Asked, unanswered
from robustify.arrays import Floats
from robustify.baselines.wording import FUNCTION_WORDS
from robustify.item import Item
from robustify.ngrams.text import words_of
from robustify.orders import own

VIEW = "infer_question"
TEMPLATES = {"meaning": "meaning-v1", "words": "words-v1"}
"""The template of each kind of likeness, the one that decides first."""
LEAST = {"meaning": 0.5, "words": 0.25}
"""Likeness from which on a question counts as inferred."""
NO_QUESTION = "no_question"


def likeness_by_words(one: str, two: str) -> float:
    """Return the words that two questions share, as a share of the mean of their distinct words; no function words."""
    a, b = (set(words_of(text)) - FUNCTION_WORDS for text in (one, two))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def likeness_rows(items: Sequence[Item], model: str, kind: str, likeness: Floats) -> Iterator[Answer]:
    """Yield a row for each item with its `likeness`, (n,); NaN if no question was written."""
    for item, like in zip(items, np.clip(likeness, 0.0, 1.0).tolist(), strict=True):
        asked = Asked(item.id, VIEW, model, own(item.k), TEMPLATES[kind], item.key)
        yield unanswered(asked, NO_QUESTION) if np.isnan(like) else Answer(*asked, item.key, like, ())
