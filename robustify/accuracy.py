"""What each model scores on All, Shortcut and Robust under every view it was asked, and what that is worth.

A part is never compared with the whole that holds it as if they were two sets: random removals of the same
size and topics stand beside it. What a model was not asked is absent, not zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from robustify.answers import Answers, Block
from robustify.ballot import Roll, averaged, first_template, models
from robustify.cloze import NORMS, Norm, credit, normalised
from robustify.stats import FEWEST_CLUSTERS, bootstrap, clusters, rate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

VIEWS = ("full", "choices_only", "choices_only_text", "cloze")
DRAWS = 1_000

Credits = Mapping[str, Floats | None]
"""By measure (`full`, `choices_only`, `cloze_chars`, ...): credits (n,), None where it was not asked."""


@dataclass(frozen=True)
class Parts:
    """Which items are what, (n,) each.

    `shortcut` flagged, `robust` kept, `cloze` fit for cloze; `longest` the credit of the longest answer (NaN if
    unknown), `topic` its number, `groups` what is resampled together (None: every item for itself).
    """

    shortcut: Bools
    robust: Bools
    cloze: Bools
    longest: Floats
    topic: Ints
    groups: Ints | None = None


def everyone(answers: Answers) -> tuple[str, ...]:
    """Every model that was asked any view, in the order of its first row."""
    return tuple(dict.fromkeys(m for v, m, _ in answers.askings() if v in VIEWS))


def credits(answers: Answers, held: Roll, model: str, letters: str | None) -> dict[str, Floats | None]:
    """One model's tie-fair credits by measure; `letters` is the template of the letter screen.

    `full` and cloze count the first row of an item, its own order; `choices_only` the average over rotations.
    """
    found: dict[str, Floats | None] = {
        "full": _full(answers, held, model),
        "choices_only": _screened(answers, held, model, "letter", letters),
        "choices_only_text": _screened(answers, held, model, "text", None),
    }
    block = answers.block("cloze", model, first_template(answers, "cloze", (model,))).first()
    alone = answers.block("choices_only_text", model, first_template(answers, "choices_only_text", (model,)))
    return found | {f"cloze_{norm}": _cloze(block, norm, alone, held) for norm in NORMS}


def scored(found: Credits, parts: Parts) -> dict[str, object]:
    """The rates of one model on All, Shortcut and Robust; cloze counts only items fit for cloze.

    `free` is null: answers in free words are asked of nobody.
    """
    measures = {name: None if c is None else _measure(name, c, parts) for name, c in found.items()}
    return {**measures, "free": None}


def heuristic_gap(won: Floats, longest: Floats, groups: Ints | None = None) -> dict[str, object] | None:
    """Accuracy where the longest answer is right minus where it is wrong.

    Both are credits (n,); a tied longest answer counts on both sides by its credit. None where either side is
    empty. The interval is an item bootstrap, None below 10 items (or groups of them).
    """
    there = ~np.isnan(won) & ~np.isnan(longest)
    a, c = won[there], longest[there]
    if not c.sum() or not (1 - c).sum():
        return None
    table = np.column_stack([a * c, c, a * (1 - c), 1 - c])
    gap = _gap(table.mean(axis=0)[None, :])
    together = None if groups is None else groups[there]
    few = clusters(len(a), together) < FEWEST_CLUSTERS
    ci = None if few else list(bootstrap(table, _gap, groups=together))
    return {"value": float(gap[0]), "n": len(a), "ci": ci}


def random_removal(
    found: Credits, parts: Parts, seed: int = 0, draws: int = DRAWS
) -> dict[str, object] | None:
    """What `draws` random removals of as many items of each topic leave.

    Measured on `full`, else on cloze by characters; None where neither was asked or nothing is kept.
    `percentile` (0 to 100): the share of removals that leave an accuracy no higher than the one on Robust.
    """
    view = next((v for v in ("full", "cloze_chars") if found.get(v) is not None), None)
    won = found.get(view) if view is not None else None
    if won is None:
        return None
    inside = ~np.isnan(won) & (parts.cloze if view == "cloze_chars" else True)
    kept = inside & parts.robust
    if not kept.any():
        return None
    rng = np.random.default_rng(seed)
    total = np.zeros(draws)
    for topic in np.unique(parts.topic[kept]):
        here = inside & (parts.topic == topic)
        values, counts = np.unique(won[here], return_counts=True)
        # How many of each credit stay is multivariate hypergeometric, so no item is ever shuffled.
        stay = rng.multivariate_hypergeometric(
            counts, int((here & kept).sum()), size=draws, method="marginals"
        )
        total += stay @ values
    means = total / int(kept.sum())
    here = float(won[kept].mean())
    low, high = np.quantile(means, [0.025, 0.975])
    return {
        "view": view,
        "robust": rate(won[kept]).json(),
        "draws": draws,
        "mean": float(means.mean()),
        "ci": [float(low), float(high)],
        "percentile": 100 * float(np.mean(means <= here + 1e-12)),
    }


def _full(answers: Answers, held: Roll, model: str) -> Floats | None:
    block = answers.block("full", model, first_template(answers, "full", (model,))).first()
    return held.spread(block, block.correct) if len(block) else None


def _screened(
    answers: Answers, held: Roll, model: str, mode: Literal["letter", "text"], template: str | None
) -> Floats | None:
    view = "choices_only" if mode == "letter" else "choices_only_text"
    if template is None or model not in models(answers, view, template):
        template = first_template(answers, view, (model,))
    block = answers.block(view, model, template)
    if not len(block):
        return None
    best = averaged(block, mode, held)
    tied = best.sum(axis=1)
    right = best[np.arange(len(held)), np.maximum(held.key, 0)]
    return np.where(tied > 0, right / np.maximum(tied, 1), np.nan)


def _cloze(block: Block, norm: Norm, alone: Block, held: Roll) -> Floats | None:
    if not len(block):
        return None
    won = credit(normalised(block, norm, alone), block.key, block.k)[0]
    if norm == "chars":
        # An imported log may hold the pick without the scores behind it.
        won = np.where(np.isnan(won) & np.isnan(block.scores).all(axis=1), block.correct, won)
    return None if np.isnan(won).all() else held.spread(block, won)


def _measure(name: str, won: Floats, parts: Parts) -> dict[str, object]:
    inside = parts.cloze if name.startswith("cloze") else np.ones(len(won), dtype=bool)
    return {
        "all": rate(won[inside]).json(),
        "shortcut": rate(won[inside & parts.shortcut]).json(),
        "robust": rate(won[inside & parts.robust]).json(),
        "heuristic_gap": heuristic_gap(
            won[inside], parts.longest[inside], None if parts.groups is None else parts.groups[inside]
        ),
    }


def _gap(means: Floats) -> Floats:
    return means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
