"""The whole of `summary.json`: what the audits say, the guardrails, the certificate, and all other parts gathered."""

from typing import Annotated, Any, Literal

from robustify.summary.quantity import (
    OUTER,
    Count,
    HiddenCount,
    HiddenIds,
    HiddenName,
    HiddenP,
    HiddenRate,
    OuterShare,
    P,
    Part,
    Place,
    Quantity,
    Rate,
    Setting,
    Share,
    Shown,
    Truth,
    Within,
    Word,
    never,
    places,
    remade,
)
from robustify.summary.reason import AuditReason, CertificateReason, GuardrailReason, TrialRun
from robustify.summary.scored import (
    Accuracy,
    CalibrationViews,
    LabelNoise,
    Pair,
    Permutation,
    PositionBias,
    RandomRemoval,
)
from robustify.summary.screened import (
    Benchmark,
    CueCounts,
    ExcessOverChance,
    Expected,
    FormerSentence,
    Heuristics,
    Screen,
    Splits,
    Topics,
)

FORMAT = 2
Verdict = Literal["certified", "not certified", "inconclusive"]


class Audit(Quantity):
    """An auditor on the items kept. `chance` is what selection leaves; `free` items where it was not ruled out.

    `p`: how often chance gives as much, exact or by `refits` with permuted keys.
    """

    chance: OuterShare = None
    free: HiddenCount = None
    p: HiddenP = None
    refits: HiddenCount = None


class Auditor(Audit):
    """The same, with its rate on all items, kept or not.

    `sees_from`: of each kind of cue the smallest share of the items that it would have noticed with 80 % power; null
    where it would have noticed none.
    """

    before: Rate = None
    sees_from: Annotated[dict[str, float | None] | None, never("share")] = None


class HeadAuditor(Auditor):
    """A linear probe on a model's vectors; `control`: on the vectors of random weights."""

    control: Annotated[Quantity | None, Shown("rate", OUTER, "robust")] = None


class Residual(Part):
    """The audit of what was kept. `non_voters` are models that did not vote; `chance` is mean(1/k).

    `heuristics`: of the rules without a model the one that is furthest above its chance, p corrected for all.
    """

    leave_one_out: Annotated[dict[str, Auditor] | None, Shown("rate", "other auditors", "own")] = None
    non_voters: Annotated[dict[str, Auditor] | None, Shown("rate", "other auditors", "robust")] = None
    heads: Annotated[dict[str, HeadAuditor] | None, Shown("rate", "other auditors", "robust")] = None
    heuristics: Annotated[dict[str, Auditor] | None, never("rate")] = None
    probe: Annotated[Auditor | None, Shown("rate", "probe on what is left", "robust")] = None
    probe_voted: Truth = None
    chance: Share = None
    margin: Setting = None
    verdict: Annotated[Verdict | None, Shown("word")] = None
    reasons: Annotated[tuple[AuditReason, ...] | None, never("reason")] = None


class RuleByPlace(Part):
    """Another rule against chance that knows the key positions."""

    expected: Expected = None
    excess: Annotated[ExcessOverChance | None, Shown("difference", OUTER)] = None


class RuleRow(Part):
    """What another rule of the screen would have removed; `jaccard` against the run's own."""

    name: Word = None
    differs: Word = None
    automatic: Truth = None
    same_as: Annotated[tuple[str, ...] | None, Shown("word")] = None
    criterion: Word = None
    mode: Word = None
    template: Word = None
    rotation: Word = None
    norm: Word = None
    probe_vote: Word = None
    flagged: Annotated[Quantity | None, Shown("rate", "other rules", "answered")] = None
    expected: Expected = None
    false_share: HiddenRate = None
    excess: Annotated[ExcessOverChance | None, Shown("difference", "other rules")] = None
    by_place: Annotated[RuleByPlace | None, Within("other rules")] = None
    residual_probe: Annotated[Audit | None, Shown("rate", "other rules", "own")] = None
    jaccard: Annotated[float | None, Shown("share", "other rules")] = None


class TextFile(Part):
    """A text file in which items were looked for."""

    name: HiddenName = None
    sha256: Annotated[str | None, never("digest")] = None
    bytes: Annotated[int | None, never("number", "bytes")] = None
    words: Annotated[int | None, never("number", "words")] = None


class ShortMode(Part):
    """Items too short for n-grams, looked for whole."""

    n: Count = None
    found: Rate = None


class TextOverlap(Part):
    """Items in given text files, by n-grams of `ngram` words; `coverage`: the mean share of a stem's n-grams.

    `parts`: the share of items whose stem, stem with key, or choices are there.
    """

    files: tuple[TextFile, ...] | None = None
    ngram: Annotated[int | None, Shown("setting")] = None
    n: Count = None
    found: Rate = None
    short_mode: ShortMode | None = None
    not_checkable: Count = None
    coverage: Rate = None
    parts: Annotated[dict[str, Quantity] | None, Shown("rate")] = None
    in_robust: Annotated[Quantity | None, Shown("rate", "contamination", "robust")] = None
    in_shortcut: Annotated[Quantity | None, Shown("rate", "contamination", "shortcut")] = None
    items: HiddenIds = None


class Recall(Quantity):
    """How often the key's position is found without the options, against permuted keys."""

    unanswered: Count = None
    chance: Share = None
    p: P = None
    mde: Share = None
    p_holm: P = None


class Memorisation(Part):
    """One model in the views without options; `significant`: some `p_holm` is at most 5 %."""

    no_choices: Annotated[Recall | None, Shown("rate")] = None
    gold_repeated: Annotated[Recall | None, Shown("rate")] = None
    empty_choices: Annotated[Recall | None, Shown("rate")] = None
    significant: Truth = None


class Contamination(Part):
    """Signs that a model may have seen the benchmark."""

    overlap: TextOverlap | None = None
    memorisation: dict[str, Memorisation] | None = None
    sentence: FormerSentence = None


class Guardrail(Part):
    """The outcome of one guardrail; with `halts_export` nothing is exported while it fails."""

    name: Word = None
    passed: Truth = None
    value: Annotated[float | str | None, remade("number")] = None
    limit: Annotated[int | float | str | None, Shown("word"), Shown("setting")] = None
    reason: Annotated[GuardrailReason | None, remade("reason")] = None
    halts_export: Truth = None


class Certificate(Part):
    """The audit's verdict, which a failed guardrail can only lower; `not judged` of a trial run, or by such voters."""

    verdict: Annotated[Verdict | Literal["not judged"] | None, Shown("word")] = None
    reasons: Annotated[tuple[CertificateReason, ...] | None, remade("reason")] = None
    sentence: FormerSentence = None


class Bits(Part):
    """The bit budget of a release, in bits."""

    spent: Annotated[int | None, remade("number", "bits")] = None
    available: Annotated[int | None, remade("number", "bits")] = None


class Released(Part):
    """At which level a restricted run is shown, and what was withheld."""

    level: Annotated[str | None, remade("word")] = None
    min_cell: Annotated[int | None, remade("count")] = None
    too_small: Annotated[bool | None, remade("truth")] = None
    topics_merged: Annotated[int | None, remade("count")] = None
    coarser: Annotated[tuple[str, ...] | None, remade("word")] = None
    withheld: Annotated[tuple[str, ...] | None, remade("word")] = None
    bits: Bits | None = None
    published: Annotated[bool | None, remade("truth")] = None


class Summary(Part):
    """`summary.json`. `release` is null for a public set.

    `full_mode`: how the full question was answered, by letter (also where it is null) or by text.
    """

    format: Annotated[Literal[2], Shown("setting")] = 2
    benchmark: Benchmark | None = None
    heuristics: Heuristics | None = None
    screen: Screen | None = None
    splits: Splits | None = None
    full_mode: Word = None
    accuracy: dict[str, Accuracy] | None = None
    pairs: dict[str, Pair] | None = None
    random_removal: dict[str, RandomRemoval] | None = None
    permutation: Permutation | None = None
    position_bias: dict[str, PositionBias | None] | None = None
    calibration: dict[str, CalibrationViews] | None = None
    topics: Topics | None = None
    residual: Residual | None = None
    sensitivity: tuple[RuleRow, ...] | None = None
    evidence: CueCounts | None = None
    label_noise: LabelNoise | None = None
    contamination: Contamination | None = None
    guardrails: tuple[Guardrail, ...] = ()
    certificate: Certificate | None = None
    signature: HiddenName = None
    release: Released | None = None

    @property
    def trial(self) -> bool:
        """Whether the run is too small, or too small a part of its set, to be judged: no guardrail stops it."""
        reasons = (self.certificate or Certificate()).reasons or ()
        return any(isinstance(reason, TrialRun) for reason in reasons)

    @property
    def halting(self) -> tuple[Guardrail, ...]:
        """The failed guardrails that stop an export."""
        return tuple(g for g in self.guardrails if g.halts_export and not g.passed)


def schema() -> dict[str, Any]:
    """The JSON Schema of `summary.json`; `x-kind`, `x-unit` and `x-release` say what each field is."""
    return Summary.model_json_schema(mode="serialization")


PLACES: tuple[Place, ...] = tuple(places(Summary))
"""Every place that may leave a restricted run."""
