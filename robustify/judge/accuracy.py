"""What each model scores on All, Shortcut and Robust under every view it was asked, and what that is worth.

A part is never compared with the whole that holds it as if they were two sets: random removals of the same
size and topics stand beside it. What a model was not asked is absent, not zero.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import NORMS, Norm, credit, normalised
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FULL_OF, VIEW_OF, Mode, ScreenRules, TextNorm
from robustify.screen.votes import averaged, first_template, models_asked
from robustify.stats import differences
from robustify.stats.differences import detectable, independent_difference, paired_difference
from robustify.stats.intervals import FEWEST_CLUSTERS, clusters, interval, rate, resampled
from robustify.stats.tests import minimum_detectable_difference
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import Accuracy, AgainstChance, FreeScores, RandomRemoval, ViewScores

VIEWS = ("full", "full_text", "choices_only", "choices_only_text", "cloze")
DRAWS = 1_000

Credits = Mapping[str, Floats | None]
"""By measure (`full`, `choices_only`, `cloze_chars`, ...): credits (n,), None where it was not asked.

`full` is the full question in the run's mode, `full_other` in the other one.
"""


@dataclass(frozen=True)
class Parts:
    """Which items are what, (n,) each.

    `shortcut` flagged, `robust` kept, `cloze` fit for cloze; `longest` the credit of the longest answer (NaN if
    unknown), `topic` its number, `groups` what is resampled together (None: every item for itself), `k` the
    number of choices (None: chance is not given).
    """

    shortcut: Bools
    robust: Bools
    cloze: Bools
    longest: Floats
    topic: Ints
    groups: Ints | None = None
    k: Ints | None = None


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
        full_other=None if other is None else against_chance(other, parts.k),
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
    return DifferenceQuantity.from_stats(differences.Difference(plain.value, plain.n, ci, error))


def random_removal(
    credits: Credits, parts: Parts, seed: int = 0, draws: int = DRAWS, *, is_voter: bool | None = None
) -> RandomRemoval | None:
    """What `draws` random removals of as many items of each topic leave.

    Measured on `full`, else on cloze by characters; None where neither was asked or nothing is kept.
    `percentile` (0 to 100): the share of removals that leave an accuracy no higher than the one on Robust;
    `p`: how often they leave one as far from what they leave on average, two-sided; `mde`: where p is above
    0.05, the difference that 80 % power would detect, None where no removal changes anything. What a voter
    scores on Robust is low by selection, which no random removal shows.

    The removals know nothing of the answers. A model that errs as the voters do is right where chance flagged an
    item, so on a set without a shortcut it falls too, and p calls it a fall. Keys drawn anew cannot mend this: which
    of its right answers it knew, and which it guessed as the voters do, its answers do not tell.
    """
    view = next((v for v in ("full", "cloze_chars") if credits.get(v) is not None), None)
    won = credits.get(view) if view is not None else None
    if won is None:
        return None
    inside = ~np.isnan(won) & (parts.cloze if view == "cloze_chars" else True)
    kept = inside & parts.robust
    if not kept.any():
        return None
    means = _left(won, inside, kept, parts.topic, np.random.default_rng(seed), draws)
    here = float(won[kept].mean())
    below, above = np.mean(means <= here + 1e-12), np.mean(means >= here - 1e-12)
    p = min(1.0, 2 * (1 + draws * float(min(below, above))) / (1 + draws))
    return RandomRemoval(
        view=view,
        is_voter=is_voter,
        robust=Quantity.of(rate(won[kept])),
        draws=draws,
        mean=float(means.mean()),
        ci=interval(means),
        percentile=100 * float(below),
        p=p,
        mde=detectable(float(means.std())) if p > 0.05 and means.std() > 0 else None,
    )


def _left(
    won: Floats, inside: Bools, kept: Bools, topic: Ints, rng: np.random.Generator, draws: int
) -> Floats:
    total = np.zeros(draws)
    for name in np.unique(topic[kept]):
        here = inside & (topic == name)
        values, counts = np.unique(won[here], return_counts=True)
        # How many of each credit stay is multivariate hypergeometric, so no item is ever shuffled.
        stay = rng.multivariate_hypergeometric(
            counts, int((here & kept).sum()), size=draws, method="marginals"
        )
        total += stay @ values
    return np.asarray(total / int(kept.sum()))


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
        return against_chance(won[mask], None if parts.k is None else parts.k[mask])

    return ViewScores(
        all=on(inside),
        shortcut=on(inside & parts.shortcut),
        robust=on(inside & parts.robust),
        heuristic_gap=heuristic_gap(
            won[inside], parts.longest[inside], None if parts.groups is None else parts.groups[inside]
        ),
    )


def against_chance(won: Floats, k: Ints | None) -> AgainstChance:
    """A rate (n,) with `chance`, mean(1/k) over the items in it, and whether it differs from that significantly.

    Wilson's interval leaves chance out exactly where the score test rejects it. Under exchangeable keys that
    test holds for any one fixed set of picks, however items depend on one another; shared credits and unequal k vary
    less, which makes it cautious. `mde`: where the difference is not significant, the rise above chance that 80 %
    power would detect. On Shortcut and Robust `chance` knows nothing of selection: the audit gives chance after it.
    """
    measured = rate(won)
    if k is None or measured.ci is None:
        return AgainstChance.of(measured)
    chance = float(np.mean(1 / k[~np.isnan(won)]))
    significant = not measured.ci[0] <= chance <= measured.ci[1]
    rise = math.nan if significant else minimum_detectable_difference(measured.n, chance)
    mde = None if math.isnan(rise) else rise
    return AgainstChance.of(measured, chance=chance, significant=significant, mde=mde)


def _gap(means: Floats) -> Floats:
    return means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
