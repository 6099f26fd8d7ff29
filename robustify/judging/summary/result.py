"""Complete content of `summary.json`, with the audits, the guardrails, and the state of the run."""

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from robustify.base.errors import DataError
from robustify.judging.summary.model_parts import (
    CalibrationViews,
    ItemAnalysis,
    LabelNoise,
    Model,
    Pair,
    Permutation,
    PositionBias,
    RandomRemoval,
)
from robustify.judging.summary.quantity import Measures, P, Part, Quantity, Reason, Share
from robustify.judging.summary.screen_parts import Benchmark, CueCounts, Inference, Screen, Splits, Topics

FORMAT = 5
AGAIN = "run `robustify judge` on the run's folder"
State = Literal["passed", "failed", "not evaluated"]
"""State of a check, of an audit, or of a run. What cannot be judged is not evaluated."""
AUDIT = "residual_shortcuts"
"""Guardrail that has the state of the audit of the kept items."""


class AuditorResult(Quantity):
    """Accuracy of an auditor on the kept items, and on all items (`before`). `chance` is the expected rate given the
    selection, and `free` counts the items on which the pick was not ruled out. `p` is exact, or uses `refits` with
    permuted keys. `noticeable` is the smallest rate detectable with 80 % power."""

    chance: Share | None
    free: int | None
    p: P | None
    refits: int | None
    before: Quantity | None
    noticeable: Share | None


class Residual(Part):
    """Residual audit of the kept items. `non_voters` are models that did not vote. `chance` is mean(1/k). `heuristics`
    has the rule that is furthest above chance, with p corrected for all rules. `encoder` takes no part in any filter."""

    leave_one_out: dict[str, AuditorResult]
    non_voters: dict[str, AuditorResult]
    heuristics: dict[str, AuditorResult] | None
    probe: AuditorResult | None
    encoder: AuditorResult | None = None
    others: dict[str, AuditorResult] | None = None
    probe_voted: bool
    chance: Share | None
    margin: Share
    state: State
    reasons: tuple[Reason, ...]

    @property
    def independent(self) -> tuple[AuditorResult, ...]:
        """Auditors, except rules, that took no part in the choice of the kept items."""
        probe = None if self.probe_voted else self.probe
        rated = (*self.non_voters.values(), self.encoder, probe)
        return tuple(auditor for auditor in rated if auditor is not None)


class OtherRule(Part):
    """Flags of a rule other than the run's own. `jaccard` is their overlap with the flags of the run's rule."""

    name: str
    flagged: Quantity
    expected: Quantity | None
    jaccard: Share | None


class TextFile(Part):
    """Text file that was searched for items."""

    name: str
    sha256: str
    bytes: int
    words: int


class ShortMode(Part):
    """Result for items that are too short for n-grams and were compared as complete texts."""

    n: int
    found: Quantity


class TextOverlap(Part):
    """Items found in text files by n-grams of `ngram` words. `coverage` is the mean share of a stem's n-grams that were
    found. `parts` are the shares of items whose stem, stem with key, or choices were found."""

    files: tuple[TextFile, ...]
    ngram: int
    n: int
    found: Quantity
    short_mode: ShortMode
    not_checkable: int
    coverage: Quantity
    parts: dict[str, Quantity]
    in_kept: Quantity
    in_flagged: Quantity
    items: tuple[str, ...]


class Contamination(Part):
    """Signs that a model may have seen the benchmark."""

    overlap: TextOverlap


class Guardrail(Part):
    """Result of one guardrail."""

    name: str
    state: State
    value: float | str | None
    limit: int | float | str
    reason: Reason


class Summary(Part):
    """Content of `summary.json`. Parts that were not measured are null, and models that were not asked are absent.
    `state` is that of the audit, lowered by failed guardrails. `measures` is of `judging/measures.py`."""

    format: Literal[5] = 5
    benchmark: Benchmark
    screen: Screen | None = None
    splits: Splits
    full_mode: Literal["letter", "text"]
    models: dict[str, Model]
    measures: Measures
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
    state: State = "not evaluated"
    reasons: tuple[Reason, ...] = ()
    signature: str | None = None

    @property
    def trial(self) -> bool:
        """Whether the run, or its part of the benchmark, is too small to be judged."""
        return any(reason.code == "trial_run" for reason in self.reasons)

    @property
    def by_letter(self) -> bool:
        """Whether the run is not evaluated because voters pick one position, and letters were not forced."""
        return any(r.code == "one_position" and not r.params["forced"] for r in self.reasons)

    @property
    def halting(self) -> tuple[Guardrail, ...]:
        """Failed guardrails of a failed run, which stop every export. In other runs, failed guardrails are notes."""
        return tuple(g for g in self.guardrails if g.state == "failed") if self.state == "failed" else ()


def read(tree: object) -> Summary:
    """Return the summary in a parsed `summary.json`, ignoring unknown fields. Raise `DataError` for another format."""
    version = tree.get("format") if isinstance(tree, Mapping) else None
    if version != FORMAT:
        raise DataError(
            f"summary.json: format {version!r} is not supported; expected {FORMAT}. To write it, {AGAIN}.",
            code="unsupported-summary-format",
        )
    try:
        return Summary.model_validate(tree, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            f"summary.json is invalid at {where} ({first['type']}; {error.error_count()} errors in all). To write it "
            f"again, {AGAIN}.",
            code="invalid-summary",
        ) from None
