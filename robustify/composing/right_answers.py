"""One right answer: candidates that models which see the question find at least as likely as the key.

A model has a voice only if it finds the key among all candidates in most items, because a weak model would take the best
distractors for second keys. A candidate is a second key only if all voices say so. On the 12,032 questions of MMLU-Pro,
the best of 21 models contradicts 35 % of the keys, but the best three agree on another option in 7 %.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from robustify.base.arrays import RELATIVE_TIE, Floats
from robustify.composing.pool import Pool
from robustify.composing.typography import same_form
from robustify.items.answers import Answers
from robustify.items.item import MOST, Item
from robustify.items.scoring import FULL_OF, Mode, as_compared
from robustify.judging.stats.intervals import Rate, rate
from robustify.models.asking import Asking

MOST_ITEMS = 0.5
"""A model has a voice if it finds the key in more than this share of the items, by the lower bound of its interval."""
ORDERS = 4
"""Number of orders of the options over which probabilities are averaged."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Models that saw the question. `found` is the share of pools in which each prefers the key to all candidates that it
    saw, and `voices` names those that have a voice."""

    found: dict[str, Rate]
    voices: tuple[str, ...]


def asking_with_question(mode: Mode) -> Asking:
    """Return how models are asked for the right one of all candidates."""
    how = {"mode": mode, "views": (FULL_OF[mode],), "orders": ORDERS, "full_rotations": False}
    return Asking.model_validate(how)


def whole_questions(pools: Sequence[Pool]) -> Iterator[Item]:
    """Yield an item with all candidates of each pool, or several for more than 25 candidates. The key is the first
    option of an item, and among the others in most of the orders in which it is asked."""
    for pool in pools:
        (key, *others), about = pool.texts, pool.item
        for start in range(0, len(others), MOST - 1):
            shown = (key, *others[start : start + MOST - 1])
            yield Item(f"{about.id}\0{start}" if start else about.id, about.stem, shown, 0)


def second_keys(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers
) -> tuple[tuple[Pool, ...], Checked]:
    """Check candidates by the answers of models that saw the question, from a run or to `whole_questions`.

    The ratio of a candidate is its probability divided by that of the key or by an even share, whichever is larger: the
    least of all voices, unless an earlier check found more. From 1 on, it is a second key. Candidates are found in the
    options of `items` by their texts.
    """
    by_model = {name: _ratios(pools, items, answers, view, name) for name, view in _views(answers).items()}
    found, voices = dict[str, Rate](), list[str]()
    for name, ratios in by_model.items():
        seen = [some[~np.isnan(some)] for some in ratios]
        found[name] = rate(np.array([float((some < 1).all()) for some in seen if len(some)]))
        if (interval := found[name].ci) is not None and interval[0] > MOST_ITEMS:
            voices.append(name)
    made = list(pools)
    for at, pool in enumerate(pools if voices else ()):
        least = np.fmin.reduce([by_model[name][at] for name in voices])
        ratios = np.fmax(least, [one.ratio for one in pool.candidates]).tolist()
        rated = (replace(one, ratio=r) for one, r in zip(pool.candidates, ratios, strict=True))
        made[at] = replace(pool, candidates=tuple(rated))
    return tuple(made), Checked(found, tuple(voices))


def _views(answers: Answers) -> dict[str, str]:
    """Return the view in which each model saw the question, by letter if possible."""
    asked = answers.askings()
    return {m: view for view in ("cloze", *reversed(FULL_OF.values())) for v, m, _ in asked if v == view}


def _ratios(
    pools: Sequence[Pool], items: Sequence[Item], answers: Answers, view: str, model: str
) -> list[Floats]:
    """Return the ratios of one model, by pool and candidate. A row without scores has only its pick."""
    block = as_compared(answers.block(view, model), view)
    picked = np.arange(block.scores.shape[1]) == block.pick[:, None]
    scores = np.where(np.isnan(block.scores), -np.inf, block.scores)
    bare = np.isneginf(scores).all(axis=1) & (block.pick >= 0)
    scores[bare] = np.where(picked[bare], 0.0, -np.inf)
    shares: dict[str, Floats] = {}
    for row in np.flatnonzero(np.isfinite(scores).any(axis=1)).tolist():
        name = answers.items[block.item[row]]
        shares[name] = shares.get(name, np.zeros(1)) + softmax(scores[row])
    ratios: dict[str, dict[str, float]] = {}
    for item in items:
        if (share := shares.get(item.id)) is not None:
            share, even = share[: item.k] / share[: item.k].sum(), (1 + RELATIVE_TIE) / item.k
            texts = zip(map(same_form, item.choices), share / max(share[item.key], even), strict=True)
            ratios.setdefault(item.id.partition("\0")[0], {}).update(texts)
    seen = [ratios.get(pool.item.id, {}) for pool in pools]
    return [
        np.array([one.get(same_form(text), np.nan) if same_form(key) in one else np.nan for text in others])
        for one, (key, *others) in zip(seen, (pool.texts for pool in pools), strict=True)
    ]
