"""What each model scores, beside another and when choices move; and whether its probabilities mean what they say."""

from typing import Annotated, Literal

from robustify.summary.quantity import (
    OUTER,
    Cell,
    Count,
    DifferenceQuantity,
    Ends,
    Gap,
    Hidden,
    HiddenCount,
    HiddenIds,
    HiddenName,
    HiddenRate,
    Number,
    OuterShare,
    P,
    Part,
    Quantity,
    Rate,
    Share,
    Shares,
    Shown,
    Truth,
    Within,
    Word,
    never,
    remade,
)
from robustify.summary.reason import NoiseReason
from robustify.summary.screened import FormerSentence


class AgainstChance(Quantity):
    """A rate beside `chance`, mean(1/k); `mde`: where the two do not differ, the rise that 80 % power detects."""

    chance: OuterShare = None
    significant: Annotated[bool | None, Shown("truth", OUTER)] = None
    mde: OuterShare = None


class ViewScores(Part):
    """One model under one view, on All, Shortcut and Robust."""

    all: Annotated[AgainstChance | None, Shown("rate")] = None
    shortcut: Annotated[AgainstChance | None, Shown("rate", OUTER, "shortcut", alone=True)] = None
    robust: Annotated[AgainstChance | None, Shown("rate", OUTER, "robust", alone=True)] = None
    heuristic_gap: Gap = None


class FreeRate(Quantity):
    """Accuracy over the scored answers of `asked`; `lower` and `upper`: every other answer wrong, or right."""

    asked: HiddenCount = None
    lower: Hidden = None
    upper: Hidden = None
    coverage: HiddenRate = None
    by_judge: HiddenRate = None


class FreeScores(Part):
    """One model's graded answers in free words."""

    all: Annotated[FreeRate | None, Shown("rate")] = None
    shortcut: Annotated[FreeRate | None, Shown("rate", OUTER, "shortcut", alone=True)] = None
    robust: Annotated[FreeRate | None, Shown("rate", OUTER, "robust", alone=True)] = None
    heuristic_gap: Gap = None
    full_gap: Annotated[DifferenceQuantity | None, never("difference")] = None
    statuses: Annotated[dict[str, int] | None, never("count")] = None
    kinds: Annotated[dict[str, int] | None, never("count")] = None
    left_out: Annotated[dict[str, int] | None, never("count")] = None
    judges: HiddenIds = None
    judge_status: HiddenName = None
    judge_kappa: Annotated[Quantity | float | None, never("number", "kappa")] = None
    self_judging: HiddenCount = None


ClozeMeasure = Annotated[ViewScores | None, Within("cloze by other norms")]


class Accuracy(Part):
    """One model under every view; `format_gap` is `full` less `cloze_chars` on the items answered both ways.

    `full`: the full question in the run's `full_mode`; `full_other`: in the other mode, on All.
    """

    is_voter: Truth = None
    full: Annotated[ViewScores | None, Within("full question")] = None
    full_other: Annotated[AgainstChance | None, Shown("rate")] = None
    choices_only: Annotated[ViewScores | None, Within("choices only")] = None
    choices_only_text: Annotated[ViewScores | None, Within("choices only")] = None
    cloze_chars: Annotated[ViewScores | None, Within("cloze")] = None
    cloze_tokens: ClozeMeasure = None
    cloze_bytes: ClozeMeasure = None
    cloze_sum: ClozeMeasure = None
    cloze_pmi: ClozeMeasure = None
    free: Annotated[FreeScores | None, Within("cloze by other norms")] = None
    format_gap: Gap = None


class PairOnAll(Part):
    """Two models on `n` common items: exact McNemar of `b` only the first right against `c` only the second."""

    n: Count = None
    b: Cell = None
    c: Cell = None
    tied: Count = None
    difference: Annotated[Quantity | None, Shown("difference")] = None
    p: P = None
    p_holm: P = None
    mde: Share = None


class PairOnRobust(Part):
    """The same on Robust; `voter`: one of the two voted, so the comparison is biased by selection."""

    n: HiddenCount = None
    b: HiddenCount = None
    c: HiddenCount = None
    tied: HiddenCount = None
    difference: Annotated[Quantity | None, Shown("difference", "pairs on Robust", "robust")] = None
    p: Annotated[float | None, never("p")] = None
    p_holm: Annotated[float | None, Shown("p", "pairs on Robust")] = None
    mde: Hidden = None
    voter: Truth = None


class PairView(Part):
    """Two models under one view."""

    all: PairOnAll | None = None
    robust: PairOnRobust | None = None


class Pair(Part):
    """Two models under both views."""

    models: Annotated[tuple[str, ...] | None, Shown("word")] = None
    is_voter: Truth = None
    full: PairView | None = None
    cloze_chars: PairView | None = None


class ByDecoys(Part):
    """Accuracy on the flagged items beside what it were, had chance flagged them all, by the decoys among the kept."""

    flagged: HiddenRate = None
    expected: HiddenRate = None
    difference: Annotated[DifferenceQuantity | None, never("difference")] = None
    p: Annotated[float | None, never("p")] = None


class RandomRemoval(Part):
    """Accuracy on Robust beside all random removals of as many items of each topic.

    `percentile`, 0 to 100, of the removals that leave an accuracy no higher; `p` two-sided, for a model whose errors do
    not hang together with the voters'; `by_decoys` needs no such model.
    """

    view: Word = None
    is_voter: Truth = None
    robust: Annotated[Quantity | None, Shown("rate", "random removal", "robust")] = None
    mean: Annotated[float | None, Shown("share", "random removal")] = None
    ci: Annotated[tuple[float, float] | None, Shown("share", "random removal")] = None
    percentile: Annotated[float | None, never("number", "percent")] = None
    p: Annotated[float | None, Shown("p", "random removal")] = None
    mde: Annotated[float | None, Shown("share", "random removal")] = None
    by_decoys: ByDecoys | None = None


class Orders(Part):
    """Accuracy and picks over a set of orders, on `n` items answered in each of `orders`, of `asked`."""

    mean: Share = None
    mean_ci: Ends = None
    sd: Share = None
    min: Share = None
    max: Share = None
    flip_rate: Rate = None
    consistency: Rate = None
    orders: Count = None
    n: Count = None
    asked: Count = None


class Debiased(Part):
    """Accuracy of the first order without the position prior, beside the raw one on the same items."""

    accuracy: Rate = None
    raw: Rate = None
    difference: Gap = None


class PlaceRecall(Part):
    """Accuracy by key position; `sd_if_even`: the standard deviation that noise alone gives on average."""

    by_place: Shares = None
    sd: Share = None
    sd_if_even: Share = None
    p: P = None
    n: Count = None


class Stability(Orders):
    """One model over random orders (or rotations, where no other was asked) and over all rotations."""

    is_voter: Truth = None
    rotations: Orders | None = None
    position_prior: Shares = None
    prior_n: Count = None
    debiased: Debiased | None = None
    place_recall: PlaceRecall | None = None


class Moved(Part):
    """Of `n` items answered in two orders, those whose cloze pick or score differs between them."""

    n_changed: HiddenCount = None
    n: HiddenCount = None


class Permutation(Part):
    """What the order of the choices does, by model; cloze must be inert."""

    by_model: dict[str, Stability | None] | None = None
    cloze_invariance: Annotated[Literal["inert"] | Moved | None, Shown("word")] = None


class PlaceBias(Part):
    """One position: how often it is picked, how often it has the key, and the accuracy there."""

    picked: Rate = None
    key: Share = None
    excess: Annotated[Quantity | None, Shown("difference")] = None
    p_holm: P = None
    recall: Rate = None


class PositionBias(Part):
    """Picks and keys by position, over the first order of each item; `tied` share their pick."""

    n: Count = None
    asked: Count = None
    tied: Count = None
    places: tuple[PlaceBias, ...] | None = None
    recall_sd: Share = None
    sentence: FormerSentence = None


class CalibrationBin(Part):
    """One bin of the reliability diagram."""

    confidence: Annotated[float | None, remade("share")] = None
    accuracy: Annotated[float | None, remade("share")] = None
    n: Annotated[int | None, remade("count")] = None
    ci: Annotated[tuple[float, float] | None, remade("interval")] = None


class Calibration(Part):
    """Expected calibration error, Brier score and the best temperature, on `n` answered items."""

    ece: Number = None
    ece_ci: Annotated[tuple[float, float] | None, Shown("number")] = None
    ece_if_calibrated: Number = None
    ece_p: P = None
    brier: Number = None
    brier_ci: Annotated[tuple[float, float] | None, Shown("number")] = None
    temperature: Number = None
    ece_scaled: Number = None
    n: Count = None
    bins: Annotated[tuple[CalibrationBin, ...] | None, remade("table")] = None


class CalibrationViews(Part):
    """With the question in the run's mode, and by cloze; texts per character."""

    full: Calibration | None = None
    cloze_chars: Calibration | None = None


class LabelNoise(Part):
    """Items that every strong model answers alike and not with the key; `expected` if errors were independent."""

    strong: Annotated[tuple[str, ...] | None, Shown("word")] = None
    n: Count = None
    flagged: Rate = None
    all_wrong: Cell = None
    expected: Number = None
    in_robust: Annotated[Quantity | None, Shown("rate", "keys to review", "robust")] = None
    in_shortcut: Annotated[Quantity | None, Shown("rate", "keys to review", "shortcut")] = None
    difference: Annotated[DifferenceQuantity | None, Shown("difference", "keys to review")] = None
    items: HiddenIds = None
    reason: NoiseReason | None = None
