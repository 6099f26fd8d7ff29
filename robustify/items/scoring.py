"""Compare choices: normalize scores, find ties, and share the credit among tied choices.

Scores are log-probabilities of continuations only. The probability of a stem is never used.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints, tied

if TYPE_CHECKING:
    from robustify.items.answers import Block

Norm = Literal["chars", "tokens", "bytes", "sum", "pmi"]
NORMS: tuple[Norm, ...] = ("chars", "tokens", "bytes", "sum", "pmi")
BY_TEXT = ("choices_only_text", "full_text", "cloze")
"""Views in which the text of each choice is scored."""
Mode = Literal["letter", "text"]
TextNorm = Literal["chars", "tokens", "bytes", "sum"]
VIEW_OF: dict[Mode, str] = {"letter": "choices_only", "text": "choices_only_text"}
FULL_OF: dict[Mode, str] = {"letter": "full", "text": "full_text"}
"""View of the full question, by mode."""


def normalised(block: "Block", norm: Norm, unconditional: "Block | None" = None) -> Floats:
    """Normalize the scores of the choices, so that they can be compared (r, K). Missing values are NaN.

    `chars` divides by code points (lm-eval's acc_norm), and `pmi` subtracts the score of the same choice without the stem,
    from the first row of each item in `unconditional`."""
    match norm:
        case "sum":
            return block.scores
        case "pmi":
            return _pmi(block, unconditional)
    lengths: Floats = getattr(block, f"n_{norm}")
    return np.asarray(block.scores / np.where(lengths > 0, lengths, np.nan))


def as_compared(block: "Block", view: str) -> "Block":
    """Return the block with the scores that determine its picks: per character in text views, and otherwise unchanged."""
    return block.scored(normalised(block, "chars")) if view in BY_TEXT else block


def per_character(scores: Sequence[float], n_chars: Sequence[int]) -> list[float]:
    """Divide scores in nats by the lengths of the choices in code points (k,), as lm-eval's acc_norm does."""
    return [score / n for score, n in zip(scores, n_chars, strict=True)]


def _pmi(block: "Block", unconditional: "Block | None") -> Floats:
    out: Floats = np.full(block.scores.shape, np.nan)
    if unconditional is None or not len(unconditional) or not len(block):
        return out
    plain = unconditional.first()
    row_of = np.full(int(max(block.item.max(), plain.item.max())) + 1, -1)
    row_of[plain.item] = np.arange(len(plain))
    row = row_of[block.item]
    matched = (row >= 0) & (plain.k[row] == block.k)
    width = min(out.shape[1], plain.scores.shape[1])
    out[matched, :width] = block.scores[matched][:, :width] - plain.scores[row[matched]][:, :width]
    return out


def best(scores: Floats, k: Ints) -> Bools:
    """Return a mask of each row's best choices, within a relative 1e-6 (r, K). `k` (r,) is the number of choices.

    A row is unanswered, with no best choice, if a score is missing or the best score is not finite."""
    is_choice = np.arange(scores.shape[1]) < k[:, None]
    complete = ~(np.isnan(scores) & is_choice).any(axis=1) & (k > 0)
    present = np.where(is_choice & complete[:, None], scores, -np.inf)
    top = present.max(axis=1, initial=-np.inf)
    readable = np.isfinite(top)
    top = np.where(readable, top, 0.0)
    return np.asarray(tied(present, top[:, None]) & readable[:, None])


def credit(best: Bools, key: Ints) -> Floats:
    """Return the credit for the key (n, ...): 1/t if it is one of t tied best choices, 0 if it is not, and NaN if there is
    no best choice. `best` is (n, ..., K) and `key` is (n,)."""
    tie = best.sum(axis=-1)
    if not best.shape[-1]:
        return np.full(tie.shape, np.nan)
    key_index = np.maximum(key, 0).reshape(-1, *[1] * (best.ndim - 1))
    key_is_best = np.take_along_axis(best, key_index, axis=-1)[..., 0]
    return np.where(tie > 0, key_is_best / np.maximum(tie, 1), np.nan)


def picks(scores: Floats, key: Ints, k: Ints) -> tuple[Floats, Ints, Ints]:
    """Return the credit, pick, and number of ties of each row. `scores` is (r, K), and `key` and `k` are (r,). An
    unanswered row has credit NaN, pick -1, and tie 0."""
    top = best(scores, k)
    tie = top.sum(axis=1)
    pick = np.where(tie > 0, top.argmax(axis=1), -1) if scores.shape[1] else np.full(len(key), -1)
    return credit(top, key), pick, tie
