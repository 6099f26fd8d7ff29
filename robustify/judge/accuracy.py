"""What each model scores on All, Shortcut and Robust under every view it was asked, and what that is worth.

A part is never compared with the whole that holds it as if they were two sets: random removals of the same
size and topics stand beside it. What a model was not asked is absent, not zero.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import stdtr, stdtrit

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import NORMS, Norm, credit, normalised
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FULL_OF, VIEW_OF, Mode, ScreenRules, TextNorm
from robustify.screen.votes import averaged, first_template, models_asked
from robustify.stats import tests
from robustify.stats.distributions import LEAST_LATTICE_P, central, removal, total
from robustify.stats.intervals import FEWEST_CLUSTERS, clusters, interval, rate, resampled
from robustify.stats.tests import (
    LEVEL,
    detectable,
    independent_difference,
    minimum_detectable_difference,
    paired_difference,
)
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import Accuracy, AgainstChance, ByDecoys, FreeScores, RandomRemoval, ViewScores

VIEWS = ("full", "full_text", "choices_only", "choices_only_text", "cloze")
FEWEST_DECOYS = 10
"""Flagged items and decoys below which they are not compared."""
_FINEST = 5040
"""Parts of a credit that the sums of credits are counted in, at most; a finer credit is rounded."""

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
) -> dict[str, Floats | None]:
    """One model's tie-fair credits by measure; `template` is that of the screen under `rules` (None: by letter).

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
        "choices_only": _screened(answers, index, model, "letter", letters),
        "choices_only_text": _screened(answers, index, model, "text", texts, norm),
    }
    block = answers.block("cloze", model, first_template(answers, "cloze", (model,))).first()
    alone = answers.block("choices_only_text", model, first_template(answers, "choices_only_text", (model,)))
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
        draws = _gap(resampled(table, groups[there]))
    error = float(np.nanstd(draws))
    ci = interval(draws) if error else None
    return DifferenceQuantity.from_stats(tests.Difference(plain.value, plain.n, ci, error))


def random_removal(
    credits: Credits, parts: Parts, pick: Ints | None = None, *, is_voter: bool | None = None
) -> RandomRemoval | None:
    """What random removals of as many items of each topic leave: the exact distribution.

    Measured on `full`, else on cloze by characters; None where neither was asked or nothing is kept.
    `percentile` (0 to 100): the share of removals that leave an accuracy no higher than the one on Robust;
    `p`: how often they leave one as far out on its side, doubled; `mde`: where p is above
    0.05, the difference that 80 % power would detect, None where no removal changes anything. What a voter
    scores on Robust is low by selection, which no random removal shows.

    The removals know nothing of the answers. A model that errs as the voters do is right where chance flagged an
    item, so on a set without a shortcut it falls too, and p calls it a fall. `by_decoys` does not: see there. `pick`
    (n,) is what it picked on `full`, below 0 where that is not known.
    """
    view = next((v for v in ("full", "cloze_chars") if credits.get(v) is not None), None)
    won = credits.get(view) if view is not None else None
    if won is None:
        return None
    inside = ~np.isnan(won) & (parts.cloze if view == "cloze_chars" else True)
    kept = inside & parts.robust
    if not kept.any():
        return None
    unit, credit = _counted(won, inside)
    by_topic = [
        (inside & (parts.topic == name), kept & (parts.topic == name))
        for name in np.unique(parts.topic[kept])
    ]
    first, mass = total(removal(credit[of], int(stay.sum())) for of, stay in by_topic)
    sums, here = first + np.arange(len(mass)), int(credit[kept].sum())
    at_most, at_least = float(mass[sums <= here].sum()), float(mass[sums >= here].sum())
    p = min(1.0, max(LEAST_LATTICE_P, 2 * min(at_most, at_least)))
    scale = unit * int(kept.sum())
    mean = float(sums @ mass) / scale
    error = math.sqrt(max(0.0, float((sums / scale - mean) ** 2 @ mass)))
    low, high = ((first + end) / scale for end in central(mass))
    return RandomRemoval(
        view=view,
        is_voter=is_voter,
        robust=Quantity.of(rate(won[kept], None if parts.groups is None else parts.groups[kept])),
        mean=mean,
        ci=(low, high),
        percentile=min(100.0, 100 * at_most),
        p=p,
        mde=detectable(error) if p > LEVEL and len(mass) > 1 else None,
        by_decoys=by_decoys(won, pick, parts) if pick is not None and view == "full" else None,
    )


def by_decoys(won: Floats, pick: Ints, parts: Parts) -> ByDecoys | None:
    """Accuracy on the flagged items against what it were, had chance flagged them all.

    Decoys are items on which the voters agree on a wrong option: as many stand for each flag by chance as for any other
    option, so they show how the model answers where the voters guess alike. It picks their option with frequency f. It
    knows the key with frequency a = P(key) - P(another option) / (k - 2), because what it guesses otherwise falls on
    the key as often as on any other option. Where such an agreement falls on the key it is right with a + f. `won` and
    `pick` (n,). A decoy weighs 1 / (k - 1), the flags by chance that it stands for. The error is that of an item (or
    group) bootstrap with Student's t. Items of two options have no third one and are left out; None below 10 flagged
    items, decoys, or groups of them.
    """
    if parts.agreed is None or parts.k is None:
        return None
    here = (parts.agreed >= 0) & (parts.k >= 3) & (pick >= 0) & ~np.isnan(won)
    hit, agreed, k = parts.shortcut[here], parts.agreed[here], parts.k[here]
    right, weight = won[here], np.where(hit, 0.0, 1 / (k - 1))
    expected = np.where((right == 1) | (pick[here] == agreed), 1.0, -1 / (k - 2))
    groups = None if parts.groups is None else parts.groups[here]
    sides = [clusters(int(m.sum()), None if groups is None else groups[m]) for m in (hit, ~hit)]
    if min(sides) < FEWEST_DECOYS:
        return None
    table = np.column_stack([hit * right, hit, weight * expected, weight])
    draws = resampled(table, groups)
    with np.errstate(invalid="ignore"):
        drawn, alone = float(np.nanstd(_gap(draws))), float(np.nanstd(draws[:, 2] / draws[:, 3]))
    # Where nearly all are right too little varies: on either side one item more may have gone the other way.
    error = math.hypot(drawn, *(1 / (side + 2) for side in sides))
    found, by_chance = float(right[hit].mean()), float(np.average(expected, weights=weight))
    off, t = found - by_chance, float(stdtrit(min(sides) - 1, 0.975))
    half = t * math.hypot(alone, 1 / (sides[1] + 2))
    gap = tests.Difference(off, len(right), (off - t * error, off + t * error), error)
    return ByDecoys(
        flagged=Quantity.of(rate(right[hit], None if groups is None else groups[hit])),
        expected=Quantity(value=by_chance, n=int((~hit).sum()), ci=(by_chance - half, by_chance + half)),
        difference=DifferenceQuantity.from_stats(gap),
        p=float(2 * stdtr(min(sides) - 1, -abs(off) / error)),
    )


def full_picks(answers: Answers, index: ItemIndex, model: str, mode: Mode = "letter") -> Ints | None:
    """What a model picked on the full question in the own order, (n,); -1 where unknown or tied, None if not asked."""
    view = FULL_OF[mode]
    block = answers.block(view, model, first_template(answers, view, (model,))).first()
    if not len(block):
        return None
    pick = index.spread(block, np.where(block.tie > 1, -1.0, block.pick))
    return np.where(np.isnan(pick), -1, pick).astype(np.int64)


def _counted(won: Floats, inside: Bools) -> tuple[int, Ints]:
    """Credits (n,) as whole numbers of a unit, 1 / the first number."""
    values = np.unique(won[inside]).tolist()
    unit = min(math.lcm(*(Fraction(x).limit_denominator(64).denominator for x in values)), _FINEST)
    return unit, np.rint(np.where(inside, won, 0.0) * unit).astype(np.int64)


def _full(answers: Answers, index: ItemIndex, model: str, view: str) -> Floats | None:
    block = answers.block(view, model, first_template(answers, view, (model,))).first()
    return index.spread(block, block.correct) if len(block) else None


def _screened(
    answers: Answers, index: ItemIndex, model: str, mode: Mode, template: str | None, norm: TextNorm = "chars"
) -> Floats | None:
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


def _gap(means: Floats) -> Floats:
    return means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
