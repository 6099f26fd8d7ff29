"""How continuations are compared: norms, ties and tie-fair credit.

Scores are those of the continuation alone: nothing here ever sees the probability of a stem.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from robustify.arrays import RELATIVE_TIE, Bools, Floats, Ints

if TYPE_CHECKING:
    from robustify.answers import Block

Norm = Literal["chars", "tokens", "bytes", "sum", "pmi"]
NORMS: tuple[Norm, ...] = ("chars", "tokens", "bytes", "sum", "pmi")
BY_TEXT = ("choices_only_text", "full_text", "cloze")
"""The views in which each choice's own text is scored."""


def normalised(block: "Block", norm: Norm, unconditional: "Block | None" = None) -> Floats:
    """Return the scores by which choices are compared, (r, K), NaN where something needed is absent.

    `chars` divides by code points (lm-eval's acc_norm), `bytes` by UTF-8 bytes, `tokens` by tokens; `sum`
    leaves the sum of log probabilities as it is; `pmi` subtracts the score of the same choice without the
    stem, taken from `unconditional` (the first row of each item there).
    """
    match norm:
        case "sum":
            return block.scores
        case "chars":
            return _per(block.scores, block.n_chars)
        case "bytes":
            return _per(block.scores, block.n_bytes)
        case "tokens":
            return _per(block.scores, block.n_tokens)
        case "pmi":
            return _pmi(block, unconditional)


def as_compared(block: "Block", view: str) -> "Block":
    """Return the block with the scores by which its choices were compared: of views by text those per character."""
    return block.scored(normalised(block, "chars")) if view in BY_TEXT else block


def per_character(scores: Sequence[float], n_chars: Sequence[int]) -> list[float]:
    """Return scores in nats divided by code points, both (k,), as lm-eval's acc_norm does."""
    return [score / n for score, n in zip(scores, n_chars, strict=True)]


def _per(scores: Floats, lengths: Floats) -> Floats:
    return np.asarray(scores / np.where(lengths > 0, lengths, np.nan))


def _pmi(block: "Block", unconditional: "Block | None") -> Floats:
    out: Floats = np.full(block.scores.shape, np.nan)
    if unconditional is None or not len(unconditional) or not len(block):
        return out
    plain = unconditional.first()
    row_of = np.full(int(max(block.item.max(), plain.item.max())) + 1, -1)
    row_of[plain.item] = np.arange(len(plain))
    row = row_of[block.item]
    there = (row >= 0) & (plain.k[row] == block.k)
    width = min(out.shape[1], plain.scores.shape[1])
    out[there, :width] = block.scores[there][:, :width] - plain.scores[row[there]][:, :width]
    return out


def best(scores: Floats, k: Ints) -> Bools:
    """Return which of the first `k` (r,) choices share the best score (r, K), equal within a relative 1e-6.

    A row with a score missing, or without a finite best one, has none: it is unanswered.
    """
    there = np.arange(scores.shape[1]) < k[:, None]
    whole = ~(np.isnan(scores) & there).any(axis=1) & (k > 0)
    present = np.where(there & whole[:, None], scores, -np.inf)
    top = present.max(axis=1, initial=-np.inf)
    readable = np.isfinite(top)
    top = np.where(readable, top, 0.0)
    slack = RELATIVE_TIE * np.maximum(np.abs(top), 1e-300)
    return np.asarray((top[:, None] - present <= slack[:, None]) & readable[:, None])


def credit(scores: Floats, key: Ints, k: Ints) -> tuple[Floats, Ints, Ints]:
    """Return tie-fair credit, pick and tie of each row: 1/t if the key is among the t best, else 0.

    `scores` (r, K), `key` and `k` (r,). An unanswered row has credit NaN, pick -1 and tie 0.
    """
    top = best(scores, k)
    tie = top.sum(axis=1)
    if not scores.shape[1]:
        return np.full(len(key), np.nan), np.full(len(key), -1), tie
    won = np.take_along_axis(top, key[:, None], axis=1)[:, 0]
    share = np.where(tie > 0, won / np.maximum(tie, 1), np.nan)
    return share, np.where(tie > 0, top.argmax(axis=1), -1), tie
