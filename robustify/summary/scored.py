"""What each model scores, beside another and when choices move; and whether its probabilities mean what they say."""

from typing import Literal

from robustify.summary.quantity import DifferenceQuantity, Interval, P, Part, Quantity, Share
from robustify.summary.reason import Reason


class AgainstChance(Quantity):
    """A rate beside `chance`, mean(1/k); `mde`: if the two do not differ, the rise that 80 % power detects."""

    chance: Share | None = None
    significant: bool | None = None
    mde: Share | None = None


class ViewScores(Part):
    """One model under one view, on All, Shortcut and Robust."""

    all: AgainstChance
    shortcut: AgainstChance
    robust: AgainstChance
    heuristic_gap: DifferenceQuantity | None


class FreeRate(Quantity):
    """Accuracy over the scored answers of `asked`; `lower` and `upper`: every other answer wrong, or right.

    `withheld` says why no accuracy is given.
    """

    asked: int
    lower: Share | None
    upper: Share | None
    coverage: Quantity
    by_judge: Quantity
    withheld: str | None


class FreeScores(Part):
    """One model's graded answers in free words."""

    all: FreeRate
    shortcut: FreeRate
    robust: FreeRate
    heuristic_gap: DifferenceQuantity | None
    full_gap: DifferenceQuantity | None
    statuses: dict[str, int]
    kinds: dict[str, int]
    left_out: dict[str, int]
    judges: tuple[str, ...]
    judge_status: str | None
    judge_kappa: Quantity | float | None
    self_judging: int


class Accuracy(Part):
    """One model under every view; `format_gap` is `full` less `cloze_chars` on the items answered both ways.

    `full`: the full question in the run's `full_mode`. `adjusted`: `full` under the weights of `adjustment`;
    `adjusted_choices_only`: without the question, in the screen's mode, under the same weights. A view that the model was
    not asked is null.
    """

    is_voter: bool
    adjusted: Quantity | None = None
    adjusted_choices_only: Quantity | None = None
    full: ViewScores | None = None
    choices_only: ViewScores | None = None
    choices_only_text: ViewScores | None = None
    cloze_chars: ViewScores | None = None
    cloze_tokens: ViewScores | None = None
    cloze_bytes: ViewScores | None = None
    cloze_sum: ViewScores | None = None
    cloze_pmi: ViewScores | None = None
    free: FreeScores | None = None
    format_gap: DifferenceQuantity | None = None


class Paired(Part):
    """Two models on `n` common items: exact McNemar of `b` only the first right against `c` only the second."""

    n: int
    b: int
    c: int
    tied: int
    difference: Quantity
    p: P | None
    p_holm: P | None
    mde: Share | None


class PairView(Part):
    """Two models under one view."""

    all: Paired
    robust: Paired


class AdjustedDifference(Quantity):
    """The weighted mean difference of two models' credits on the items that both answered; `p` two-sided."""

    p: P


class Pair(Part):
    """Two models under both views, and `full` under the weights of the adjusted score; null what was not asked.

    `is_voter`: one of the two voted, so that `robust` is biased by selection.
    """

    models: tuple[str, str]
    is_voter: bool
    adjusted: AdjustedDifference | None = None
    full: PairView | None = None
    cloze_chars: PairView | None = None


class RandomRemoval(Part):
    """Accuracy on Robust beside all random removals of as many items of each topic.

    `percentile`, 0 to 100, of the removals that leave an accuracy no higher. It is not a test: accuracy falls by selection
    alone for a voter, and for a model that errs as the voters do.
    """

    view: str
    is_voter: bool | None
    robust: Quantity
    mean: Share
    ci: Interval
    percentile: float


class Orders(Part):
    """Accuracy and picks over a set of orders, on `n` items answered in each of `orders`, of `asked`."""

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
    """One model over random orders (or rotations, if no other was asked) and over all rotations."""

    is_voter: bool | None
    rotations: Orders | None


class Moved(Part):
    """Of `n` items answered in two orders, those whose cloze pick or score differs between them."""

    n_changed: int
    n: int


class Permutation(Part):
    """What the order of the choices does, by model; null for a model that was asked one order. Cloze must be inert."""

    by_model: dict[str, Stability | None]
    cloze_invariance: Literal["inert"] | Moved | None


class PlaceBias(Part):
    """One position: how often it is picked, and how often it has the key."""

    picked: Quantity
    key: Share | None
    excess: Quantity
    p_holm: P


class PositionBias(Part):
    """Picks and keys by position, over the first order of each item."""

    n: int
    places: tuple[PlaceBias, ...]


class CalibrationBin(Part):
    """One bin of the reliability diagram; all but `n` are null if it is empty."""

    confidence: Share | None
    accuracy: Share | None
    n: int
    ci: Interval | None


class Calibration(Part):
    """Expected calibration error, Brier score and the best temperature, on `n` answered items."""

    ece: float
    ece_ci: Interval | None
    ece_if_calibrated: float
    ece_p: P
    brier: float
    brier_ci: Interval | None
    temperature: float
    n: int
    bins: tuple[CalibrationBin, ...]


class CalibrationViews(Part):
    """With the question in the run's mode, and by cloze; texts per character."""

    full: Calibration | None
    cloze_chars: Calibration | None


class ItemDiscrimination(Part):
    """An item, the share of models that answer it, and the correlation of that with their scores on all other items."""

    item: str
    difficulty: Share
    discrimination: float


class ItemAnalysis(Part):
    """Classical item analysis over `models` in a `view`; `negative`: the share of items with a discrimination below 0.

    `lowest` are the first of these. Items that all models answer, or none, have no discrimination and are in no share.
    """

    models: tuple[str, ...]
    view: Literal["full", "cloze_chars"]
    negative: Quantity
    lowest: tuple[ItemDiscrimination, ...]


class LabelNoise(Part):
    """Items that every strong model answers alike and not with the key; `expected` if errors were independent.

    Everything but `strong` and `reason` is null if fewer than two models are strong.
    """

    strong: tuple[str, ...]
    n: int | None = None
    flagged: Quantity | None = None
    all_wrong: int | None = None
    expected: float | None = None
    in_robust: Quantity | None = None
    in_shortcut: Quantity | None = None
    items: tuple[str, ...] | None = None
    reason: Reason | None = None
