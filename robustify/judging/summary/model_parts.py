"""Parts of the summary about models: looks, the number to quote, comparisons, effect of the order of choices, and
calibration."""

from typing import Literal

from robustify.judging.summary.quantity import Interval, P, Part, Quantity, Reason, Share

LooksState = Literal["claimed", "wrong picks only", "cannot tell"]
LooksSourceName = Literal["wrong", "blind", "panel"]


class LooksSource(Quantity):
    """Estimate from one source of the share of items that a model got right by looks, and the number of picks that the
    source used."""

    picks: int


class Looks(Quantity):
    """Share of items that a model got right by looks, by the source with the smallest. It is `claimed` if at least two
    sources have a lower limit above 0, and an association if only `wrong` picks are known. The 95 % interval spans
    those of all sources, so that it holds if any of them is sound. Its lower limit alone is one-sided at 97.5 %. With
    `unanswered` rows, it also spans all answers that they could have been.
    `less` is the score less this share, with its own interval. `reason` says why the run cannot tell."""

    state: LooksState
    sources: dict[LooksSourceName, LooksSource]
    wrong_picks: int
    unanswered: int
    reason: Reason | None = None
    less: Quantity | None = None


class Quoted(Quantity):
    """A model's number to quote: its score (minus points of looks if they are claimed), or its cloze score."""

    kind: Literal["score less looks", "score", "cloze"]


def number_to_quote(full: Quantity | None, looks: Looks | None) -> Quoted | None:
    """Return the number to quote, given the score on the full question, or None if the model was not asked this view."""
    if looks is not None and looks.state == "claimed" and looks.less is not None:
        return Quoted.from_rate(looks.less, kind="score less looks")
    return None if full is None or full.value is None else Quoted.from_rate(full, kind="score")


class FreeFacts(Part):
    """Free responses of one model, counted by status and by kind, with the items left out and the judges."""

    statuses: dict[str, int]
    kinds: dict[str, int]
    left_out: dict[str, int]
    judges: tuple[str, ...]
    judge_status: str | None
    judge_kappa: Quantity | float | None
    self_judging: int


class Model(Part):
    """Role, looks, and free responses of a model that was asked. Selection biases a voter's scores on kept and on flagged
    items. `looks` needs the full question. `logged` has the accuracies that imported logs state for cloze, by metric."""

    is_voter: bool
    looks: Looks | None = None
    free: FreeFacts | None = None
    logged: dict[str, Quantity] | None = None


class Paired(Part):
    """McNemar's test of two models on `n` items: only the first got `b` of them right, and only the second got `c`. `p` is
    exact, and `p_mid` is the mid-p, which is adjusted in `p_holm`."""

    n: int
    b: int
    c: int
    tied: int
    difference: Quantity
    p: P | None
    p_mid: P | None = None
    p_holm: P | None
    mde: Share | None


class PairView(Part):
    """Comparison of two models under one view."""

    all: Paired
    kept: Paired


class Pair(Part):
    """Comparison of two models under both views. `looks` is the first's points by looks less the second's. Selection biases
    `kept` if one voted."""

    models: tuple[str, str]
    is_voter: bool
    looks: Quantity | None = None
    full: PairView | None = None
    cloze_chars: PairView | None = None


class RandomRemoval(Part):
    """Accuracy on the kept items, compared with random removals of the same number of items from each topic. `percentile`
    (0 to 100) is the share of removals with an accuracy that is not higher. It is not a test, because selection lowers a
    voter's accuracy."""

    view: str
    is_voter: bool | None
    kept: Quantity
    mean: Share
    ci: Interval
    percentile: float


class Orders(Part):
    """Variation of accuracy and picks over `orders` orders, on the `n` items, out of `asked`, that were answered in every
    order."""

    mean: Share
    mean_ci: Interval | None
    sd: Share
    min: Share
    max: Share
    flip_rate: Quantity
    consistency: Quantity
    orders: int
    n: int
    asked: int


class Stability(Orders):
    """How one model's accuracy and picks vary with the order of choices (rotations, if no random orders were asked)."""

    is_voter: bool | None
    rotations: Orders | None


class Moved(Part):
    """Number of items whose cloze pick or score differs between two orders, out of `n` items answered in both orders."""

    n_changed: int
    n: int


class Permutation(Part):
    """Effect of the order of choices by model, null for a model asked in only one order. Cloze scores must be inert."""

    by_model: dict[str, Stability | None]
    cloze_invariance: Literal["inert"] | Moved | None


class OnePosition(Part):
    """Share of picks and share of keys at one position."""

    picked: Quantity
    key: Share | None
    excess: Quantity
    p_holm: P


class PositionBias(Part):
    """Shares of picks and of keys at each position, in the first order of each item."""

    n: int
    positions: tuple[OnePosition, ...]


class CalibrationBin(Part):
    """Bin of a reliability diagram. All fields except `n` are null if the bin is empty."""

    confidence: Share | None
    accuracy: Share | None
    n: int
    ci: Interval | None


COLDEST, HOTTEST = 1e-3, 1e3
"""Limits of a fitted temperature."""


class Calibration(Part):
    """Calibration of a model on `n` answered items: expected calibration error, Brier score and optimal
    temperature. `scaled` numbers use the temperature of the other half of the items."""

    ece: float
    ece_ci: Interval | None
    ece_if_calibrated: float
    ece_p: P
    brier: float
    brier_ci: Interval | None
    temperature: float
    scaled_ece: float
    scaled_brier: float
    n: int
    bins: tuple[CalibrationBin, ...]


class CalibrationViews(Part):
    """Calibration on all and on kept items, for the full question in the run's mode and for cloze."""

    full: Calibration | None
    cloze_chars: Calibration | None
    full_kept: Calibration | None
    cloze_chars_kept: Calibration | None


class LabelNoise(Part):
    """Keys that may be wrong and should be checked. With five models, those that they contradict most
    (`item_analysis.keys`). With fewer, those of the items that all strong ones answer with the same wrong choice, of
    `all_wrong` items. `expected` assumes independent errors, and `p` is the probability of as many or more."""

    strong: tuple[str, ...]
    n: int | None = None
    flagged: Quantity | None = None
    all_wrong: int | None = None
    expected: float | None = None
    p: P | None = None
    in_kept: Quantity | None = None
    in_flagged: Quantity | None = None
    items: tuple[str, ...] | None = None
    reason: Reason | None = None


class KeysToCheck(Part):
    """Precision of a list of the `n` most doubtful keys. It is the share of wrong keys on such lists, for copies
    of the set in which a share of `planted` keys was made wrong. If it is below a half, no keys are listed."""

    planted: Share
    precision: Quantity


class ItemAnalysis(Part):
    """Item analysis of the models that answered the full question, on `n` items that at least five of them
    answered. `kr20` is the reliability of their scores. Better models get `negative` items wrong more often,
    nobody picks `unpicked` distractors, and on `misled` items the better half picks a distractor most."""

    models: tuple[str, ...]
    n: int
    kr20: Quantity
    negative: Quantity
    unpicked: Quantity
    misled: Quantity
    keys: KeysToCheck


class Gain(Quantity):
    """Gain in accuracy of an auditor over `chance`. `p` is one-sided, and `power` is the probability to see 3 points."""

    chance: Share | None = None
    p: P
    p_holm: P
    power: Share | None = None
