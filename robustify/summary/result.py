"""The whole of `summary.json`: what the audits say, the guardrails, the certificate, and all other parts gathered."""

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from robustify.errors import DataError
from robustify.summary.adjusted import Adjustment
from robustify.summary.quantity import P, Part, Quantity, Share
from robustify.summary.reason import Reason
from robustify.summary.scored import (
    Accuracy,
    CalibrationViews,
    ItemAnalysis,
    LabelNoise,
    Pair,
    Permutation,
    PositionBias,
    RandomRemoval,
)
from robustify.summary.screened import Benchmark, CueCounts, Heuristics, Inference, Screen, Splits, Topics

FORMAT = 2
Verdict = Literal["certified", "not certified", "inconclusive"]


class AuditorResult(Quantity):
    """An auditor on the items kept, and `before`: its rate on all items.

    `chance` is what selection leaves; `free` the items on which its pick was not ruled out. `p`: how often chance gives as
    much, exact or by `refits` with permuted keys. `noticeable`: the rate that it would have noticed with 80 % power.
    """

    chance: Share | None
    free: int | None
    p: P | None
    refits: int | None
    before: Quantity | None
    noticeable: Share | None


class Residual(Part):
    """The audit of what was kept. `non_voters` are models that did not vote; `chance` is mean(1/k).

    `heuristics`: of the rules without a model the one that is furthest above its chance, p corrected for all. `encoder`: a
    sentence encoder, which takes no part in any filter.
    """

    leave_one_out: dict[str, AuditorResult]
    non_voters: dict[str, AuditorResult]
    heuristics: dict[str, AuditorResult] | None
    probe: AuditorResult | None
    encoder: AuditorResult | None = None
    probe_voted: bool
    chance: Share | None
    margin: Share
    verdict: Verdict
    reasons: tuple[Reason, ...]


class OtherRule(Part):
    """What another rule of the screen flags; `jaccard`: of the items that it or the run's rule flags, those in common."""

    name: str
    flagged: Quantity
    expected: Quantity | None
    jaccard: Share | None


class TextFile(Part):
    """A text file in which items were looked for."""

    name: str
    sha256: str
    bytes: int
    words: int


class ShortMode(Part):
    """Items too short for n-grams, looked for whole."""

    n: int
    found: Quantity


class TextOverlap(Part):
    """Items in given text files, by n-grams of `ngram` words; `coverage`: the mean share of a stem's n-grams.

    `parts`: the share of items whose stem, stem with key, or choices are there.
    """

    files: tuple[TextFile, ...]
    ngram: int
    n: int
    found: Quantity
    short_mode: ShortMode
    not_checkable: int
    coverage: Quantity
    parts: dict[str, Quantity]
    in_robust: Quantity
    in_shortcut: Quantity
    items: tuple[str, ...]


class Contamination(Part):
    """Signs that a model may have seen the benchmark."""

    overlap: TextOverlap


class Guardrail(Part):
    """The outcome of one guardrail; with `halts_export` nothing is exported while it fails."""

    name: str
    passed: bool
    value: float | str | None
    limit: int | float | str
    reason: Reason
    halts_export: bool


class Certificate(Part):
    """The audit's verdict, which a failed guardrail can only lower; `not judged` of a trial run, or by such voters."""

    verdict: Verdict | Literal["not judged"]
    reasons: tuple[Reason, ...]


class Summary(Part):
    """`summary.json`. A part that was not measured is null; a model or topic that was not asked is absent.

    `full_mode`: how the full question was answered, by letter or by text.
    """

    format: Literal[2] = 2
    benchmark: Benchmark
    heuristics: Heuristics | None = None
    screen: Screen | None = None
    splits: Splits
    full_mode: Literal["letter", "text"]
    adjustment: Adjustment | None = None
    accuracy: dict[str, Accuracy]
    pairs: dict[str, Pair] | None = None
    random_removal: dict[str, RandomRemoval] | None = None
    permutation: Permutation
    position_bias: dict[str, PositionBias | None] | None = None
    calibration: dict[str, CalibrationViews]
    topics: Topics | None = None
    residual: Residual | None = None
    sensitivity: tuple[OtherRule, ...]
    evidence: CueCounts | None = None
    inference: Inference | None = None
    label_noise: LabelNoise | None = None
    item_analysis: ItemAnalysis | None = None
    contamination: Contamination | None = None
    guardrails: tuple[Guardrail, ...] = ()
    certificate: Certificate | None = None
    signature: str | None = None

    @property
    def trial(self) -> bool:
        """Whether the run is too small, or too small a part of its set, to be judged: no guardrail stops it."""
        reasons = () if self.certificate is None else self.certificate.reasons
        return any(reason.code == "trial_run" for reason in reasons)

    @property
    def halting(self) -> tuple[Guardrail, ...]:
        """The failed guardrails that stop an export."""
        return tuple(g for g in self.guardrails if g.halts_export and not g.passed)


def read(tree: object) -> Summary:
    """Return the summary in a tree of `summary.json`; fields that this version no longer has are left out.

    Raises:
        DataError: the tree is not a summary of this format.
    """
    found = tree.get("format") if isinstance(tree, Mapping) else None
    if found != FORMAT:
        raise DataError(f"summary.json: format {found!r}; expected {FORMAT}")
    try:
        return Summary.model_validate(tree, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            f"summary.json: {where}: {first['type']} ({error.error_count()} faults); if another version of robustify "
            "wrote it, run `robustify judge` on the run's folder"
        ) from None
