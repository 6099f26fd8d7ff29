"""Items whose key deserves a second look: every strong model picks the same other option.

Agreement of models is no proof that a key is wrong: they share errors, and a hard item can mislead all of
them. What is counted here is a list for review; nothing is corrected and no item is moved.
"""

from collections.abc import Mapping

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Ints
from robustify.judge.accuracy import Credits, Parts
from robustify.screen.item_index import ItemIndex
from robustify.screen.votes import first_template
from robustify.stats.differences import Difference, independent_difference
from robustify.stats.intervals import rate

Tree = dict[str, object]

FEWEST = 2
LISTED = 1_000
"""So many items are listed at most; `flagged` counts them all."""


def label_noise(
    answers: Answers, held: ItemIndex, found: Mapping[str, Credits], parts: Parts, *, list_items: bool
) -> Tree | None:
    """Items that every strong model answers alike and not with the key, asked the full question.

    `{strong, n, flagged, all_wrong, expected, in_robust, in_shortcut, difference, items, reason}`; None where
    no model was asked the full question. `strong`: the models whose lower Wilson bound on `full` is above
    chance; with fewer than two of them nothing is judged and `reason` says so. `n`: items that all strong
    models answered; a shared pick agrees with nothing. `all_wrong`: those on which each has one pick and none
    is the key. `expected`: how many of these would be flagged if the wrong picks were independent and even
    over the wrong options, the sum of (k - 1) ** (1 - models). Models share their errors, so that is a floor
    of what happens without a wrong key, and with two options it is all of it. Exchangeable keys, the null of
    `chance`, are no yardstick here: strong models know most keys, and that null would flag (k - 1) / k of
    whatever they agree on. `difference`: the share flagged among the robust items less the share
    among the shortcuts. A wrong key is hardly ever flagged as a shortcut, so wrong keys gather in Robust; so
    do hard items. `items` are ids, at most 1,000, and null where `list_items` is false.
    """
    asked = [name for name, c in found.items() if c.get("full") is not None]
    if not asked:
        return None
    strong = [name for name in asked if _is_strong(found[name], held)]
    if len(strong) < FEWEST:
        reason = f"{len(strong)} of {len(asked)} models told from chance on the full question; expected 2"
        return {"strong": strong, **dict.fromkeys(_NAMES), "reason": reason}
    picks = np.column_stack([_picks(answers, held, name) for name in strong])
    there = (picks != _UNANSWERED).all(axis=1) & (held.key >= 0)
    wrong = there & (picks >= 0).all(axis=1) & (picks != held.key[:, None]).all(axis=1)
    flagged = wrong & (picks == picks[:, :1]).all(axis=1)
    by_luck = (held.k[wrong] - 1.0) ** (1 - len(strong))
    ids = [held.items[i] for i in np.flatnonzero(flagged)[:LISTED].tolist()]
    return {
        "strong": strong,
        "n": int(np.count_nonzero(there)),
        "flagged": rate(flagged[there].astype(np.float64)).json(),
        "all_wrong": int(np.count_nonzero(wrong)),
        "expected": float(by_luck.sum()),
        "in_robust": rate(flagged[there & parts.robust].astype(np.float64)).json(),
        "in_shortcut": rate(flagged[there & parts.shortcut].astype(np.float64)).json(),
        "difference": _difference(flagged, there & parts.robust, there & parts.shortcut),
        "items": ids if list_items else None,
        "reason": None,
    }


_NAMES = ("n", "flagged", "all_wrong", "expected", "in_robust", "in_shortcut", "difference", "items")
_UNANSWERED, _SHARED = -1, -2


def _is_strong(credits: Credits, held: ItemIndex) -> bool:
    won = credits["full"]
    if won is None:
        return False
    there = ~np.isnan(won) & (held.k > 0)
    found = rate(won[there])
    return found.ci is not None and found.ci[0] > float(np.mean(1 / held.k[there]))


def _picks(answers: Answers, held: ItemIndex, model: str) -> Ints:
    """One pick an item, (n,): -1 unanswered, -2 where choices share the best score."""
    block = answers.block("full", model, first_template(answers, "full", (model,))).first()
    pick = np.where(block.pick < 0, _UNANSWERED, np.where(block.tie == 1, block.pick, _SHARED))
    spread = held.spread(block, pick.astype(np.float64))
    return np.where(np.isnan(spread), _UNANSWERED, spread).astype(np.int64)


def _difference(flagged: Bools, robust: Bools, shortcut: Bools) -> Tree:
    if not robust.any() or not shortcut.any():
        return Difference(None, 0, None).json()
    x, y = float(flagged[robust].sum()), float(flagged[shortcut].sum())
    return independent_difference(x, float(robust.sum()), y, float(shortcut.sum())).json()
