"""Which made-up benchmarks are judged, what each interval is an interval of, and when a share of them is as it should be.

The grid, the power curves, correlated errors, and violated assumptions; the words of docs/validity.md. Fixed before
anybody looked at a result. A world that an estimator does not survive stays in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from bench.simulate.parameters import Simulation
from robustify.stats.intervals import wilson

Depth = Literal["screen", "whole", "worded"]
"""What is judged: the screen alone; everything that needs no text; everything."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One world of an arm, what makes it different, and how many benchmarks are made of it."""

    arm: str
    depth: Depth
    labels: Mapping[str, Any]
    sim: Simulation
    repeats: int


ITEMS = (100, 300, 1000)
RATES = (0.0, 0.1, 0.3)
OPTIONS = {"4": (4,), "3 to 5": (3, 4, 5)}
VOTERS = (2, 3, 5)
CORRELATION = {"low": 0.2, "high": 0.8}
PLACES: tuple[Literal["uniform", "skewed"], ...] = ("uniform", "skewed")
REPEATS: dict[Depth, int] = {"screen": 15, "whole": 4, "worded": 1}


def grid() -> Iterator[Cell]:
    """All cells of the grid, judged three times to different depths."""
    for n, s, k, m, c, places in product(ITEMS, RATES, OPTIONS, VOTERS, CORRELATION, PLACES):
        labels = {
            "items": n,
            "shortcut_rate": s,
            "options": k,
            "voters": m,
            "correlation": c,
            "places": places,
        }
        sim = Simulation(
            items=n, shortcut_rate=s, options=OPTIONS[k], voters=m, correlation=CORRELATION[c], places=places
        )
        alone = sim.model_copy(update={"outside": 0, "tested": 0})
        yield Cell("grid", "screen", labels, alone, REPEATS["screen"])
        yield Cell("grid", "whole", labels, sim, REPEATS["whole"])
        yield Cell("grid", "worded", labels, sim, REPEATS["worded"])


def power() -> Iterator[Cell]:
    """How large a set must be before the excess of its shortcuts is significant."""
    sizes, rates = (50, 100, 200, 300, 500, 1000, 2000), (0.02, 0.05, 0.1, 0.2, 0.3)
    for n, s, c in product(sizes, rates, CORRELATION):
        sim = Simulation(items=n, shortcut_rate=s, correlation=CORRELATION[c], outside=0, tested=0)
        yield Cell("power", "screen", {"items": n, "shortcut_rate": s, "correlation": c}, sim, 30)


def correlated() -> Iterator[Cell]:
    """The latent rate as voters err more and more alike."""
    for m, rho in product((2, 3, 5), (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)):
        sim = Simulation(items=1000, correlation=rho, voters=m, outside=0, tested=0)
        yield Cell("correlated", "screen", {"voters": m, "correlation": rho}, sim, 20)


STRESS: dict[str, tuple[Depth, dict[str, Any]]] = {
    "each voter sees four in five shortcuts": ("screen", {"sight": 0.8}),
    "each voter knows the key of one clean item in ten": ("screen", {"knowing": 0.1}),
    "the shared favourite is always a wrong option": ("screen", {"distractors": 1.0}),
    "the shared favourite is always a wrong option, no shortcut": ("screen", {"distractors": 1.0, "shortcut_rate": 0.0}),
    "5 % of the votes missing": ("screen", {"unanswered": 0.05}),
    "10 % of the votes are ties": ("screen", {"ties": 0.1}),
    "passages of 5 items share their kind": ("whole", {"passage": 5}),
    "passages of 20 items share their kind": ("whole", {"passage": 20}),
    "40 items": ("screen", {"items": 40}),
    "nearly all voters alike: correlation 0.98": ("screen", {"correlation": 0.98}),
    "nine in ten items are shortcuts": ("screen", {"shortcut_rate": 0.9}),
    "2 options": ("screen", {"options": (2,)}),
    "10 options": ("screen", {"options": (10,)}),
    "a very good model under test: 97 %": ("whole", {"accuracy": (0.97, 0.99)}),
    "the letter decides 80 % of single askings": ("screen", {"letter_bias": 0.8}),
    "logs in the own order, keys uniform, no shortcut": (
        "screen", {"asked": "own", "letter_bias": 0.3, "shortcut_rate": 0.0},
    ),
    "logs in the own order, keys skewed, no shortcut": (
        "screen", {"asked": "own", "letter_bias": 0.3, "shortcut_rate": 0.0, "places": "skewed"},
    ),
    "logs in the own order, keys skewed, shortcuts": (
        "screen", {"asked": "own", "letter_bias": 0.3, "places": "skewed"},
    ),
    "one item in ten is seen by outside models only": ("whole", {"hidden_rate": 0.1}),
    "one item in five is seen by outside models only": ("whole", {"hidden_rate": 0.2}),
    "two outside models": ("whole", {"outside": 2, "shortcut_rate": 0.0}),
}  # fmt: skip


def stress() -> Iterator[Cell]:
    """Benchmarks that violate what the estimators assume, one thing at a time, at two sizes."""
    for (says, (depth, changed)), n in product(STRESS.items(), (300, 1000)):
        settings = {"items": n, **({} if depth == "whole" else {"outside": 0, "tested": 0}), **changed}
        if n == 300 or "items" not in changed:
            yield Cell(
                "stress", depth, {"says": says, "items": settings["items"]}, Simulation(**settings), 40
            )


def all_cells(scale: float = 1.0) -> list[Cell]:
    """Every cell; `scale` multiplies the number of benchmarks: at least one each, of those with text only some cells."""
    cells = [*grid(), *power(), *correlated(), *stress()]
    every = max(1, round(1 / scale))
    worded = [c for c in cells if c.depth == "worded"][::every]
    return [
        Cell(c.arm, c.depth, c.labels, c.sim, max(1, round(scale * c.repeats)))
        for c in cells
        if c.depth != "worded" or c in worded
    ]


# When a share is as it should be

BAND = (0.93, 0.97)
"""The goal: a 95 % interval covers between these shares."""
ALARM = 0.05


def coverage_verdict(ci: Sequence[float]) -> str:
    """By the Monte Carlo interval of a coverage, never by its point: within 93 to 97 %, outside it, or not decided."""
    if BAND[0] <= ci[0] and ci[1] <= BAND[1]:
        return "yes"
    return "wide" if ci[0] > BAND[1] else "narrow" if ci[1] < BAND[0] else "not excluded"


def alarm_verdict(ci: Sequence[float], level: float = ALARM) -> str:
    """The same of a share of false alarms: at most the level, above it, or not decided."""
    return "yes" if ci[1] <= level else "no" if ci[0] > level else "not excluded"


def rounded(value: float) -> float:
    """A number as it is written."""
    return round(value, 4)


def share_of(said: Sequence[bool]) -> dict[str, Any]:
    """How often something was said, with its Monte Carlo interval."""
    share = sum(said) / len(said)
    return {"share": rounded(share), "ci": [rounded(x) for x in wilson(sum(said), len(said))], "n": len(said)}


ESTIMANDS: dict[str, str] = {
    "flagged_rate": "the probability that an item of this kind of benchmark is flagged by these voters",
    "expected_flags": "the number of flags on a set without shortcuts (an interval of prediction, whole numbers)",
    "excess_over_chance": "P(flagged) less P(flagged, were the key drawn anew)",
    "latent_shortcut_rate": "the mean over items of the excess over 1 - 1/k: the rate of shortcuts that voters see",
    "false_share": "the share of clean items among those flagged in this very benchmark (prediction)",
    "voter_choices_only_accuracy": "the probability that a voter is right without the question",
    "d4_flagged": "as flagged_share, first order only",
    "d4_expected_flags": "as expected_flags, first order only",
    "d4_excess_over_chance": "as the excess, first order only",
    "d4_latent_shortcut_rate": "as the latent rate, first order only",
    "majority_flagged": "as flagged_share, by majority (a row of the sensitivity table)",
    "majority_excess": "as the excess, by majority",
    "excess_over_chance_by_place": "as the excess, keys drawn anew where the keys of the benchmark are",
    "latent_shortcut_rate_by_place": "that excess over what the same null leaves to see",
    "majority_excess_by_place": "as the excess by place, by majority",
    "accuracy_full_all": "P(right) with the question",
    "accuracy_full_robust": "P(right given kept), items and answers drawn anew",
    "accuracy_full_robust_given_the_split": "the mean chance of being right over the very items that were kept",
    "accuracy_full_shortcut": "P(right given flagged)",
    "accuracy_full_shortcut_given_the_split": "the mean chance of being right over the very items that were flagged",
    "accuracy_cloze_chars_all": "P(right) under cloze",
    "accuracy_cloze_chars_robust": "P(right given kept) under cloze",
    "accuracy_cloze_chars_shortcut": "P(right given flagged) under cloze",
    "accuracy_choices_only_all": "P(right) without the question",
    "accuracy_choices_only_robust": "P(right without the question given kept); for voters low by selection",
    "accuracy_choices_only_shortcut": "P(right without the question given flagged), outside models",
    "heuristic_gap_full": "P(right) where the longest answer is right less where it is wrong, shared credit shared",
    "heuristic_gap_cloze_chars": "the same under cloze",
    "heuristic_gap_choices_only": "the same without the question",
    "format_gap": "P(right) with the question less P(right) under cloze",
    "pair_difference_all": "P(right) of one model less that of another",
    "pair_difference_robust": "the same given kept",
    "ece": "the expected calibration error in 15 bins",
    "brier": "the expected Brier score",
    "heuristic_rate_all": "the expected credit of a blind rule",
    "heuristic_rate_robust": "the same on kept items",
    "heuristic_rate_shortcut": "the same on flagged items",
    "topic_retention": "P(kept) of an item of the topic",
    "residual_leave_one_out": "P(a voter is right given that the others keep the item)",
    "residual_before": "an auditor's P(right) on all items",
    "residual_non_voters": "P(an outside model is right given kept)",
    "residual_probe": "mean of 1 / open options over kept items, where no text gives anything away",
    "heuristic_rate_cloze": "the same on items fit for cloze (here all)",
    "label_noise_flagged": "P(all models under test name the same wrong option)",
    "label_noise_in_robust": "the same given kept",
    "label_noise_in_shortcut": "the same given flagged",
    "label_noise_difference": "the one less the other",
    "mean_over_orders": "P(right) with the question, any order",
    "flip_rate": "P(the pick of another order is not that of the first)",
    "consistency": "P(all orders give one pick)",
    "position_picked": "P(a model under test picks a place), keys evenly placed",
    "position_excess": "that less P(the key stands there)",
    "position_recall": "P(right given that the key stands there)",
    "random_removal": "the accuracy that is left when as many items go as on a set without shortcuts (prediction)",
}

TESTS: dict[str, str] = {
    "excess_p": "p of the excess at most 0.05",
    "excess_significant": "the report says that the filter found more than chance",
    "d4_excess_p": "p of D.4's rule at most 0.05",
    "d4_excess_significant": "the same with an interval above zero",
    "majority_excess_p": "p by majority at most 0.05",
    "majority_excess_significant": "the same with an interval above zero",
    "residual_not_certified": "the audit says `not certified`",
    "topic_collapse": "the guardrail halts the export: a topic collapsed",
    "topic_drift": "the guardrail halts the export: the mix of topics moved",
    "topic_mix_p": "p of the mix of topics at most 0.05",
    "topic_any_p_bh": "some topic with an adjusted p of at most 0.05",
    "heuristics_holm_all": "some blind rule beats chance after Holm, keys evenly placed",
    "heuristics_holm_robust": "the same on the robust split",
    "random_removal_p": "Robust differs from random removals, p at most 0.05",
    "random_removal_by_decoys_p": "the flagged items differ from what decoys say of flags by chance, p at most 0.05",
    "position_bias_holm": "a model without a leaning picks some place too often or too rarely, after Holm",
    "pairs_mcnemar_p": "two models of equal skill differ, exact McNemar p at most 0.05",
    "pairs_mcnemar_holm_any": "some pair, view or split differs after Holm",
}
