"""Rows of answers by the probe and the sentence encoder, and rows on the similarity of inferred questions to real ones.

The encoder takes no part in the filter. With too few items, neither makes a prediction, and each row says why. A row of
likeness says how similar an inferred question is to the real one.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify.base.arrays import Floats, Ints
from robustify.items import orders
from robustify.items.answers import Answer, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import (
    FEWEST_ITEMS,
    FEWEST_TRAINING_ITEMS,
    log_probabilities,
)
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups
from robustify.judging.readers import READERS, ReaderFits

VIEW = NAME = "probe"
TEMPLATE = "probe-v1"
MEANING = "meaning"
MEANING_TEMPLATE = "meaning-v1"
MOST_ENCODED, MOST_OPTIONS = 5_000, 20_000
"""Most items, and most of their options, that are encoded. A larger set is sampled."""
UNFITTED = f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on"


class ProbeSettings(BaseModel):
    """Settings of the artifact probe and of its refits. `folds` and `seed` are those of the cross-fit. The
    residual audit compares its new probe with `refits` fits with permuted keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(default=5, ge=5, le=20)
    seed: int = Field(default=0, ge=0)
    refits: int = Field(default=999, ge=199, le=9999)


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """Assign each item to a fold of the cross-fit (n,). Copies and items of one passage share a fold."""
    return balanced_folds(fold_groups(items), content_hashes(items), settings.folds, settings.seed)


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """Answer every item with the artifact probe. Return one row per item, with log probabilities of the choices as
    scores."""
    return _rows("probe", items, (VIEW, NAME, TEMPLATE), settings)


def meaning(items: Sequence[Item], vectors: Floats, model: str, settings: ProbeSettings) -> list[Answer]:
    """Return the sentence encoder's cross-fitted answers, one row per item. `vectors` (sum of k, d) have unit length."""
    return _rows("meaning", items, (MEANING, model, MEANING_TEMPLATE), settings, vectors)


def _rows(
    reader: str, items: Sequence[Item], names: tuple[str, str, str], settings: ProbeSettings, vectors: Floats | None = None
) -> list[Answer]:  # fmt: skip
    view, name, template = names
    if len(items) < FEWEST_ITEMS:
        reason = f"{len(items)} items; the {name} needs {FEWEST_ITEMS}"
        log_p: list[list[float]] = [[np.nan]] * len(items)
    else:
        reading, reason = ReaderFits(READERS[reader], items, vectors), UNFITTED
        log_p = log_probabilities(reading.cross_fit(folds(items, settings)), reading.options.mask).tolist()
    rows = []
    for item, scores in zip(items, log_p, strict=True):
        asking = Asked(item.id, view, name, orders.own(item.k), template, item.key)
        unfitted = np.isnan(scores[0])
        rows.append(unanswered(asking, reason) if unfitted else answer(asking, scores[: item.k]))
    return rows


def encoded(items: Sequence[Item]) -> list[Item]:
    """Return the items for the sentence encoder, or a sample of them if there are too many items or options. The
    limits are `MOST_ENCODED` and `MOST_OPTIONS`, and the seed is fixed."""
    order = np.random.default_rng(0).permutation(len(items))[:MOST_ENCODED]
    within = np.cumsum([items[index].k for index in order.tolist()]) <= MOST_OPTIONS
    return [items[index] for index in np.sort(order[within]).tolist()]


INFERRED = "infer_question"
INFERRED_TEMPLATES = {"meaning": "meaning-v1", "words": "words-v1"}
"""Template of each similarity measure. The first one decides."""
LEAST_LIKENESS = {"meaning": 0.5, "words": 0.25}
"""Smallest similarity of a question that counts as inferred."""
NO_QUESTION = "no_question"


def likeness_rows(items: Sequence[Item], model: str, kind: str, likeness: Floats) -> Iterator[Answer]:
    """Yield one row per item, with the similarity of the inferred question to the real question. The `likeness` (n,)
    is its credit, so that judging needs no text. NaN means that no question was written. An item is not flawed
    because a reader, who may know the answer, can infer its question (Balepur et al. 2024)."""
    for item, credit in zip(items, np.clip(likeness, 0.0, 1.0).tolist(), strict=True):
        asking = Asked(item.id, INFERRED, model, orders.own(item.k), INFERRED_TEMPLATES[kind], item.key)
        yield unanswered(asking, NO_QUESTION) if np.isnan(credit) else Answer(*asking, item.key, credit, ())
