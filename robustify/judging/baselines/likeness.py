"""Similarity of inferred questions to the real ones, measured by words and by a sentence encoder.

An item is not flawed because a reader can infer its question (Balepur et al. 2024), since that reader may know the
answer. The similarity is stored as the credit of an answer row with view `VIEW`, so that judging needs no text.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from robustify.base.arrays import Floats
from robustify.items.answers import Answer, Asked, unanswered
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.judging.baselines.wording import FUNCTION_WORDS
from robustify.judging.ngrams.text import search_words

VIEW = "infer_question"
TEMPLATES = {"meaning": "meaning-v1", "words": "words-v1"}
"""Template of each similarity measure. The first one decides."""
LEAST = {"meaning": 0.5, "words": 0.25}
"""Smallest similarity of a question that counts as inferred."""
NO_QUESTION = "no_question"


def likeness_by_words(one: str, two: str) -> float:
    """Return the Dice coefficient of the words of two questions, without function words."""
    a, b = (set(search_words(text)) - FUNCTION_WORDS for text in (one, two))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def likeness_rows(items: Sequence[Item], model: str, kind: str, likeness: Floats) -> Iterator[Answer]:
    """Yield one answer row per item, with the `likeness` (n,) as credit. NaN means that no question was written."""
    for item, like in zip(items, np.clip(likeness, 0.0, 1.0).tolist(), strict=True):
        asked = Asked(item.id, VIEW, model, own(item.k), TEMPLATES[kind], item.key)
        yield unanswered(asked, NO_QUESTION) if np.isnan(like) else Answer(*asked, item.key, like, ())
