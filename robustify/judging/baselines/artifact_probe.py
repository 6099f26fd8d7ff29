"""Readers that are trained on the options alone: the artifact probe, and the sentence encoder. They see
neither the stem nor the position. The probe is a cross-fitted conditional logit, and the encoder takes no
part in the filter. With too few items, they make no prediction and say why in the row. A row of likeness says
how similar an inferred question is to the real one."""

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items import orders
from robustify.items.answers import Answer, Asked, answer, unanswered
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.conditional_logit import (
    FEWEST_ITEMS,
    FEWEST_TRAINING_ITEMS,
    Fits,
    centred,
    coefficients,
    cross_fitted,
    log_probabilities,
)
from robustify.judging.baselines.features import matrix
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups
from robustify.judging.baselines.wording import FUNCTION_WORDS
from robustify.judging.text_overlap import search_words

VIEW = "probe"
NAME = "probe"
TEMPLATE = "probe-v1"

SHRINKAGE = 5.0
"""Ridge penalty for features standardised within the item."""
UNFITTED = f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on"


class ProbeSettings(BaseModel):
    """Settings of the artifact probe and of its refits. `folds` and `seed` are those of the cross-fit. The
    residual audit compares its new probe with `refits` fits with permuted keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(default=5, ge=5, le=20)
    seed: int = Field(default=0, ge=0)
    refits: int = Field(default=999, ge=199, le=9999)


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """Answer every item with the artifact probe, and return one row per item. The scores are log
    probabilities of the choices."""
    return fitted_rows(items, matrix(items), (VIEW, NAME, TEMPLATE), SHRINKAGE, settings)


@kept_for_last
def form_fits(items: Sequence[Item]) -> Fits:
    """Return an empty store in which the probe and the ranking share the fitted coefficients (f,) of `matrix`."""
    return {}


def fitted_rows(
    items: Sequence[Item], x: Floats, asked: tuple[str, str, str], ridge: float, settings: ProbeSettings
) -> list[Answer]:
    """Cross-fit a conditional logit on option features, and return one answer row per item. `x` is (sum of k, f), and
    scores are log probabilities. With fewer than 50 items, nothing is fitted, and each row contains the reason."""
    view, name, template = asked
    k = np.array([item.k for item in items], dtype=np.int64)
    key = np.array([item.key for item in items], dtype=np.int64)
    if len(items) < FEWEST_ITEMS:
        scores, why = np.full(int(k.sum()), np.nan), f"{len(items)} items; the {name} needs {FEWEST_ITEMS}"
    else:
        fits = form_fits(items) if view == VIEW else None
        scores, why = crossfit(x, k, key, folds(items, settings), ridge, fits), UNFITTED

    def row(item: Item, own_scores: Floats) -> Answer:
        what = Asked(item.id, view, name, orders.own(item.k), template, item.key)
        if np.isnan(own_scores).any():
            return unanswered(what, why)
        return answer(what, own_scores.tolist())

    ends = np.cumsum(k).tolist()
    return [row(item, scores[end - item.k : end]) for item, end in zip(items, ends, strict=True)]


def crossfit(
    x: Floats, k: Ints, key: Ints, fold: Ints, ridge: float = SHRINKAGE, fits: Fits | None = None
) -> Floats:
    """Predict each item with a model fitted on the other folds. Return log probabilities (sum of k,), NaN if too few."""
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    wide = padded(x, there)

    def fit(train: Bools, test: Bools) -> Floats:
        if np.count_nonzero(train) < FEWEST_TRAINING_ITEMS:
            return np.full((int(np.count_nonzero(test)), there.shape[1]), np.nan)
        return np.asarray(wide[test] @ coefficients(wide, key, there, ridge, train, fits))

    logits = cross_fitted(fit, fold)
    return np.asarray(log_probabilities(logits, there)[there], dtype=np.float64)


def padded(x: Floats, there: Bools) -> Floats:
    """Arrange option features by item, with zeros for missing options. The shape (sum of k, f) becomes (n, K, f)."""
    if there.all():
        return x.reshape(*there.shape, -1)
    out = np.zeros((*there.shape, x.shape[1]))
    out[there] = x
    return out


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """Assign each item to a fold of the cross-fit (n,). Copies and items of one passage share a fold."""
    return balanced_folds(fold_groups(items), content_hashes(items), settings.folds, settings.seed)


MEANING = "meaning"
MEANING_TEMPLATE = "meaning-v1"
AXES = 64
_RIDGE = 10.0
MOST_ENCODED, MOST_OPTIONS = 5_000, 20_000
"""Most items, and most of their options, that are encoded. A larger set is sampled."""


def encoded(items: Sequence[Item]) -> list[Item]:
    """Return the items for the sentence encoder, or a sample if there are too many items or options. The limits are
    `MOST_ENCODED` and `MOST_OPTIONS`, and the seed is fixed."""
    order = np.random.default_rng(0).permutation(len(items))[:MOST_ENCODED]
    within = np.cumsum([items[at].k for at in order.tolist()]) <= MOST_OPTIONS
    return [items[at] for at in np.sort(order[within]).tolist()]


def meaning(items: Sequence[Item], vectors: Floats, model: str, settings: ProbeSettings) -> list[Answer]:
    """Return the sentence encoder's cross-fitted answers, one row per item. `vectors` (sum of k, d) have unit length."""
    k = np.array([item.k for item in items], dtype=np.int64)
    there = np.arange(int(k.max())) < k[:, None]
    return fitted_rows(
        items, places(vectors, there)[there], (MEANING, model, MEANING_TEMPLATE), _RIDGE, settings
    )


def places(vectors: Floats, there: Bools) -> Floats:
    """Return each option's coordinates relative to its item: principal axes, and mean similarity (n, K, axes
    + 1). Vectors are centred within the item, which removes the topic that all options share."""
    wide = padded(vectors.astype(np.float64, copy=False), there)
    k: Ints = there.sum(axis=1)
    like = np.einsum("nkd,nd->nk", wide, wide.sum(axis=1)) - (wide**2).sum(axis=2)
    alike = _scaled(centred(like / np.maximum(k - 1, 1)[:, None], there)[:, :, None], there)
    inside = np.moveaxis(centred(np.moveaxis(wide, 2, 0), there), 0, 2)
    rows = inside[there]
    axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :AXES]
    return np.concatenate([_scaled(inside @ axes, there), alike], axis=2)


def _scaled(x: Floats, there: Bools) -> Floats:
    spread = float(x[there].std())
    return x / spread if spread > ROUNDING else np.zeros_like(x)


INFERRED = "infer_question"
INFERRED_TEMPLATES = {"meaning": "meaning-v1", "words": "words-v1"}
"""Template of each similarity measure. The first one decides."""
LEAST_LIKENESS = {"meaning": 0.5, "words": 0.25}
"""Smallest similarity of a question that counts as inferred."""
NO_QUESTION = "no_question"


def likeness_by_words(one: str, two: str) -> float:
    """Return the Dice coefficient of two questions' words, ignoring function words."""
    a, b = (set(search_words(text)) - FUNCTION_WORDS for text in (one, two))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def likeness_rows(items: Sequence[Item], model: str, kind: str, likeness: Floats) -> Iterator[Answer]:
    """Yield one row per item that records how similar the inferred question is to the real one. The `likeness`
    (n,) is its credit, so that judging needs no text. NaN means that no question was written. An item is not
    flawed because a reader, who may know the answer, can infer its question (Balepur et al. 2024)."""
    for item, like in zip(items, np.clip(likeness, 0.0, 1.0).tolist(), strict=True):
        asked = Asked(item.id, INFERRED, model, orders.own(item.k), INFERRED_TEMPLATES[kind], item.key)
        yield unanswered(asked, NO_QUESTION) if np.isnan(like) else Answer(*asked, item.key, like, ())
