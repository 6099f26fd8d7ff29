"""What each model scores on All, Shortcut and Robust under every view it was asked, and which of two models is better.

A part is never compared with the whole that holds it as if they were two sets: random removals of the same size and
topics stand beside it (`removal`). What a model was not asked is absent, not zero. Of two models only the items that one
got right and the other wrong say anything: exact McNemar on the items that both answered.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import NORMS, Norm, credit, normalised
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FULL_OF, VIEW_OF, Mode, ScreenRules, TextNorm
from robustify.screen.votes import averaged, first_block, first_template, models_asked
from robustify.stats.intervals import FEWEST_CLUSTERS, clusters, interval, rate, resampled
from robustify.stats.tests import (
    LEVEL,
    Difference,
    detectable,
    holm,
    independent_difference,
    minimum_detectable_difference,
    paired_difference,
    sign_flip,
)
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import (
    Accuracy,
    AgainstChance,
    FreeScores,
    Pair,
    PairOnAll,
    PairOnRobust,
    PairView,
    ViewScores,
)

VIEWS = ("full", "full_text", "choices_only", "choices_only_text", "cloze")
PAIRED = ("full", "cloze_chars")
"""The measures in which two models are compared."""

Credits = Mapping[str, Floats | None]
"""By measure (`full`, `choices_only`, `cloze_chars`, ...): credits (n,), None where it was not asked.

`full` is the full question in the run's mode, `full_other` in the other one.
"""


@dataclass(frozen=True)
class Parts:
    """Which items are what, (n,) each.

    `shortcut` flagged, `robust` kept, `cloze` fit for cloze; `longest` the credit of the longest answer (NaN if
    unknown), `topic` its number, `groups` what is resampled together (None: every item for itself), `k` the
    number of choices (None: chance is not given), `agreed` the one option that the filter would flag, were it the key,
    below 0 where there is none.
    """

    shortcut: Bools
    robust: Bools
    cloze: Bools
    longest: Floats
    topic: Ints
    groups: Ints | None = None
    k: Ints | None = None
    agreed: Ints | None = None


def everyone(answers: Answers) -> tuple[str, ...]:
    """Every model that was asked any view, in the order of its first row."""
    return tuple(dict.fromkeys(m for v, m, _ in answers.askings() if v in VIEWS))


def credits(
    answers: Answers,
    index: ItemIndex,
    model: str,
    template: str | None,
    rules: ScreenRules | None = None,
    mode: Mode = "letter",
    voted: Bools | None = None,
) -> dict[str, Floats | None]:
    """One model's tie-fair credits by measure; `template` is that of the screen under `rules` (None: by letter).

    `voted` (n, K): of a voter of this screen the options that share its best score, where they are known already.

    `mode` is that of the full question; texts are compared per character. `full` and cloze count the first row of an
    item, its own order; `choices_only` the average over rotations. The screen's own view takes its template and its
    norm, so that a voter has one number; the other view has no template of its own.
    """
    by_text = rules is not None and rules.mode == "text"
    norm = rules.norm if rules is not None and by_text else "chars"
    letters, texts = (None, template) if by_text else (template, None)
    won: dict[str, Floats | None] = {
        "full": _full(answers, index, model, FULL_OF[mode]),
        "full_other": _full(answers, index, model, FULL_OF["text" if mode == "letter" else "letter"]),
        "choices_only": _screened(answers, index, model, "letter", letters, best=None if by_text else voted),
        "choices_only_text": _screened(
            answers, index, model, "text", texts, norm, voted if by_text else None
        ),
    }
    block = first_block(answers, "cloze", model).first()
    alone = first_block(answers, "choices_only_text", model)
    return won | {f"cloze_{norm}": _cloze(block, norm, alone, index) for norm in NORMS}


def accuracy(credits: Credits, parts: Parts, free: FreeScores | None = None, *, is_voter: bool) -> Accuracy:
    """The rates of one model on All, Shortcut and Robust; cloze counts only items fit for cloze."""
    other = credits.get("full_other")
    measures = {
        name: None if won is None else _measure(name, won, parts)
        for name, won in credits.items()
        if name != "full_other"
    }
    return Accuracy(
        is_voter=is_voter,
        **measures,
        full_other=None if other is None else against_chance(other, parts.k, parts.groups),
        free=free,
        format_gap=format_gap(credits, parts),
    )


def format_gap(credits: Credits, parts: Parts) -> DifferenceQuantity | None:
    """`full` less `cloze_chars` on the items fit for cloze that were answered in both; None where one was not asked."""
    full, cloze = credits.get("full"), credits.get("cloze_chars")
    if full is None or cloze is None:
        return None
    both = paired_difference(np.where(parts.cloze, full, np.nan), cloze, parts.groups)
    return DifferenceQuantity.from_stats(both)


def heuristic_gap(won: Floats, longest: Floats, groups: Ints | None = None) -> DifferenceQuantity | None:
    """Accuracy where the longest answer is right minus where it is wrong.

    Both are credits (n,); a tied longest answer counts on both sides by its credit. None where either side is
    empty. The interval is Newcombe's, with groups a bootstrap of groups; None below 10 items (or groups of
    them), or where nothing in the groups varies. `mde`: where it includes 0, the gap that 80 % power would
    detect.
    """
    there = ~np.isnan(won) & ~np.isnan(longest)
    a, c = won[there], longest[there]
    right, wrong = float(c.sum()), float((1 - c).sum())
    if not right or not wrong:
        return None
    plain = independent_difference(float(a @ c), right, float(a @ (1 - c)), wrong)
    if groups is None:
        return DifferenceQuantity.from_stats(plain)
    if clusters(len(a), groups[there]) < FEWEST_CLUSTERS:
        return DifferenceQuantity(value=plain.value, n=plain.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.column_stack([a * c, c, a * (1 - c), 1 - c])
        draws = ratio_gap(resampled(table, groups[there]))
    error = float(np.nanstd(draws))
    ci = interval(draws) if error else None
    return DifferenceQuantity.from_stats(Difference(plain.value, plain.n, ci, error))


def _full(answers: Answers, index: ItemIndex, model: str, view: str) -> Floats | None:
    block = first_block(answers, view, model).first()
    return index.spread(block, block.correct) if len(block) else None


def _screened(
    answers: Answers,
    index: ItemIndex,
    model: str,
    mode: Mode,
    template: str | None,
    norm: TextNorm = "chars",
    best: Bools | None = None,
) -> Floats | None:
    if best is None:
        view = VIEW_OF[mode]
        if template is None or model not in models_asked(answers, view, template):
            template = first_template(answers, view, (model,))
        block = answers.block(view, model, template)
        if not len(block):
            return None
        best = averaged(block, mode, index, norm)
    tied = best.sum(axis=1)
    right = best[np.arange(len(index)), np.maximum(index.key, 0)]
    return np.where(tied > 0, right / np.maximum(tied, 1), np.nan)


def _cloze(block: Block, norm: Norm, alone: Block, index: ItemIndex) -> Floats | None:
    if not len(block):
        return None
    won = credit(normalised(block, norm, alone), block.key, block.k)[0]
    if norm == "chars":
        # An imported log may give the pick without the scores behind it.
        won = np.where(np.isnan(won) & np.isnan(block.scores).all(axis=1), block.correct, won)
    return None if np.isnan(won).all() else index.spread(block, won)


def _measure(name: str, won: Floats, parts: Parts) -> ViewScores:
    inside = parts.cloze if name.startswith("cloze") else np.ones(len(won), dtype=bool)

    def on(mask: Bools) -> AgainstChance:
        k, groups = (None if of is None else of[mask] for of in (parts.k, parts.groups))
        return against_chance(won[mask], k, groups)

    return ViewScores(
        all=on(inside),
        shortcut=on(inside & parts.shortcut),
        robust=on(inside & parts.robust),
        heuristic_gap=heuristic_gap(
            won[inside], parts.longest[inside], None if parts.groups is None else parts.groups[inside]
        ),
    )


def against_chance(won: Floats, k: Ints | None, groups: Ints | None = None) -> AgainstChance:
    """A rate (n,) with `chance`, mean(1/k) over the items in it, and whether it differs from that significantly.

    Significant is what the score test rejects, as Wilson's interval of independent items shows. Under exchangeable keys
    that test holds for any one fixed set of picks, however items depend on one another; shared credits and unequal k
    vary less, which makes it cautious. The interval, of a rate that other passages would give, rests on `groups`. `mde`:
    where the difference is not significant, the rise above chance that 80 % power would detect. On Shortcut and Robust
    `chance` knows nothing of selection: the audit gives chance after it.
    """
    measured, alone = rate(won, groups), rate(won).ci
    if k is None or alone is None:
        return AgainstChance.of(measured)
    chance = float(np.mean(1 / k[~np.isnan(won)]))
    significant = not alone[0] <= chance <= alone[1]
    rise = math.nan if significant else minimum_detectable_difference(measured.n, chance)
    mde = None if math.isnan(rise) else rise
    return AgainstChance.of(measured, chance=chance, significant=significant, mde=mde)


def ratio_gap(means: Floats) -> Floats:
    """The first column over the second less the third over the fourth, (draws,)."""
    return means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two models on `difference.n` common items: `b` only the first got right, `c` only the second, and `tied`
    items with a shared credit. `p` is None where no item has whole credits on both sides.
    """

    b: int
    c: int
    tied: int
    difference: Difference
    p: float | None

    def entry(self, p_holm: float | None, level: float) -> dict[str, Any]:
        """The fields of a table entry; the detectable difference is given beside a null result only."""
        null = p_holm is not None and p_holm > LEVEL and self.difference.error is not None
        return {
            "n": self.difference.n,
            "b": self.b,
            "c": self.c,
            "tied": self.tied,
            "difference": Quantity.of(self.difference),
            "p": self.p,
            "p_holm": p_holm,
            "mde": detectable(self.difference.error or 0.0, level) if null else None,
        }


def pairs(credits: Mapping[str, Credits], parts: Parts, voters: Sequence[str] = ()) -> dict[str, Pair] | None:
    """Which of two models is better, for every pair by "A vs B"; None below two models. `credits` are each model's, (n,).

    A difference is never read off two separate intervals, and no pair is tested as if it were the only one: `p_holm` is
    adjusted over all pairs, views and splits of the table. `mde`: where `p_holm` is above 0.05, the difference that 80 %
    power would detect at this n and this share of discordant items, at the level that Holm asks of the smallest p.
    """
    models = [m for m, c in credits.items() if any(c.get(view) is not None for view in PAIRED)]
    leaves: dict[tuple[str, str, str, str], Compared] = {}
    for (a, b), view in product(combinations(models, 2), PAIRED):
        one, two = credits[a].get(view), credits[b].get(view)
        if one is None or two is None:
            continue
        inside = parts.cloze if view == "cloze_chars" else np.ones(len(one), dtype=bool)
        for split, mask in (("all", inside), ("robust", inside & parts.robust)):
            groups = None if parts.groups is None else parts.groups[mask]
            leaves[a, b, view, split] = compare_pair(one[mask], two[mask], groups)
    tested = {place: leaf.p for place, leaf in leaves.items() if leaf.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    level = 1 - LEVEL / max(1, len(tested))
    entries = {place: leaf.entry(adjusted.get(place), level) for place, leaf in leaves.items()}
    table = {}
    for a, b in combinations(models, 2):
        voter = a in voters or b in voters
        views = {
            view: PairView(
                all=PairOnAll(**entries[a, b, view, "all"]),
                robust=PairOnRobust(**entries[a, b, view, "robust"], voter=voter),
            )
            for view in PAIRED
            if (a, b, view, "all") in entries
        }
        table[f"{a} vs {b}"] = Pair(models=(a, b), is_voter=voter, **views)
    return table or None


def compare_pair(one: Floats, two: Floats, groups: Ints | None = None) -> Compared:
    """Two models' credits (n,) against each other, NaN where unanswered.

    McNemar (1947, exact) needs right or wrong, so an item on which either model shares its credit among equal
    choices counts as `tied` and in neither b nor c; the difference counts it by its credits. With `groups`
    (n,) p is the exact sign-flip test of the groups' sums, which is McNemar's where each item is a group.
    """
    there = ~np.isnan(one) & ~np.isnan(two)
    one, two = one[there], two[there]
    whole = _whole(one) & _whole(two)
    better = np.where(whole, np.sign(one - two), 0.0).astype(np.int64)
    b, c = int(np.count_nonzero(better > 0)), int(np.count_nonzero(better < 0))
    together = None if groups is None else groups[there]
    p = sign_flip(better, together) if whole.any() else None
    return Compared(b, c, int(np.count_nonzero(~whole)), paired_difference(one, two, together), p)


def _whole(credit: Floats) -> Bools:
    return np.asarray((credit == 0) | (credit == 1))
