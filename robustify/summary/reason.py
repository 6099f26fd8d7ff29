"""Why a guardrail, an audit or a certificate says what it says: codes with typed parameters.

The sentences are made in `robustify/report/reasons.py`. `Sentence` holds one of an older file, whose parameters it does
not give.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from robustify.summary.quantity import Count, Part, Shown

AuditorKind = Literal["leave_one_out", "non_voter", "head", "heuristic", "probe"]


class Coded(Part):
    """A reason; the field that holds it decides who may see it."""

    closed: ClassVar[bool] = True


class Sentence(Coded):
    """A reason of a file of format 1, as it was written there."""

    code: Literal["sentence"] = "sentence"
    text: str


class Plain(Coded):
    """A reason without parameters."""

    code: Literal[
        "no_screen",
        "no_item_kept",
        "no_auditor",
        "no_independent_auditor",
        "nothing_to_see",
        "no_kind_tried",
        "no_kind_seen",
        "probe_voted",
        "not_shown",
    ]


WhyNot = Literal["no_screen", "nothing_kept", "no_topics", "no_item_screened", "no_ties_counted", "no_audit",
                 "no_letters"]  # fmt: skip


class NotJudged(Coded):
    """A guardrail had nothing to judge by; `why` is null in a release."""

    code: Literal["not_judged"] = "not_judged"
    why: WhyNot | None = None


class BelowMargin(Coded):
    """All `auditors` are below chance plus `margin`, bounds included."""

    code: Literal["below_margin"] = "below_margin"
    auditors: int
    margin: float


class ByAuditor(Coded):
    """One auditor's rate `value` of `n` items kept."""

    auditor: str
    kind: AuditorKind
    value: float
    n: int


class AboveChance(ByAuditor):
    """Its lower bound `low` is above `limit`: the smaller of `even`, 1/k, and `expected` under selection.

    Where `p` is given it decides, against `limit`: exact, or by `refits` with permuted keys.
    """

    code: Literal["above_chance"] = "above_chance"
    low: float
    limit: float
    even: float
    expected: float | None
    p: float | None = None
    refits: int | None = None


class NotBelowMargin(ByAuditor):
    """Its upper bound `high` is not below `limit`, chance plus margin; of a rule without a model, `p` decides."""

    code: Literal["not_below_margin"] = "not_below_margin"
    high: float
    limit: float
    p: float | None = None


class UnseenKinds(Coded):
    """The `kinds` of cue that no independent auditor could have seen on at most this `share` of the items kept."""

    code: Literal["unseen_kinds"] = "unseen_kinds"
    kinds: tuple[str, ...]
    share: float


class CouldNotSee(ByAuditor):
    """Its pick was not ruled out beforehand on `free` items only."""

    code: Literal["could_not_see"] = "could_not_see"
    free: int | None


class TopicCount(Coded):
    """A topic that kept `after` of `before` items."""

    name: str
    before: int
    after: int


class TopicsLost(Coded):
    """Topics that lost too much (`topics_lost`), or did so with too few items to judge by (`topics_small`)."""

    code: Literal["topics_lost", "topics_small"]
    topics: tuple[TopicCount, ...]


class TopicsKept(Coded):
    """Every topic kept at least this share of its items."""

    code: Literal["topics_kept"] = "topics_kept"
    share: float


class TopicDrift(Coded):
    """KL in nats, its mean under random removal, and how often that reaches it."""

    code: Literal["topic_drift"] = "topic_drift"
    kl: float
    null: float
    p: float


class RobustItems(Coded):
    """`n` items are robust; `least` are needed."""

    code: Literal["robust_items"] = "robust_items"
    n: int
    least: int


class Unanswered(Coded):
    """`open` of `asked` items depend on missing answers; `voter` left most unanswered, `missing`."""

    code: Literal["unanswered"] = "unanswered"
    open: int
    asked: int
    voter: str
    missing: int


class Ties(Coded):
    """`ties` of the voter's `n` answers are ties."""

    code: Literal["ties"] = "ties"
    voter: str
    ties: int
    n: int


class Undecided(Coded):
    """`n` of `of` items have no verdict."""

    code: Literal["undecided"] = "undecided"
    n: int
    of: int


class BoundedFalseFlags(Coded):
    """`criterion: fdr` flagged so many items at the share `q`; none is no more than chance gives."""

    code: Literal["bounded_false_flags"] = "bounded_false_flags"
    hits: int
    q: float


class Excess(Coded):
    """The excess over chance, a share of the items; `doubt` says why it does not pass."""

    code: Literal["excess"] = "excess"
    value: float
    p: float
    level: float
    doubt: Literal["no_interval", "not_significant"] | None = None


class TrialRun(Coded):
    """Of `n` items nothing is judged: fewer than `least`, or (`part`) those that a limit left of the set."""

    code: Literal["trial_run"] = "trial_run"
    n: int
    least: int
    part: bool


class OnePlace(Coded):
    """A voter's picks sit on one place (from 0): the share `picked` of `n` items, lower bound `low`, of keys `keys`.

    `forced`: it is judged all the same. A release leaves the numbers out.
    """

    code: Literal["one_place"] = "one_place"
    voter: str
    place: int
    picked: float | None = None
    n: int | None = None
    low: float | None = None
    keys: float | None = None
    forced: bool = False


class VotersByPlace(Coded):
    """The voters whose picks sit on one place."""

    code: Literal["voters_by_place"] = "voters_by_place"
    voters: tuple[OnePlace, ...] = ()


class VoterUnderTest(Coded):
    """A model under test that voted in the filter."""

    code: Literal["voter_under_test"] = "voter_under_test"
    name: str


class FewStrongModels(Part):
    """`strong` of `asked` models are above chance on the full question; two are needed."""

    code: Annotated[Literal["few_strong_models"], Shown("word")] = "few_strong_models"
    strong: Count = None
    asked: Count = None


AuditReason = Annotated[
    Sentence | Plain | BelowMargin | UnseenKinds | AboveChance | NotBelowMargin | CouldNotSee,
    Field(discriminator="code"),
]


class AuditVerdict(Coded):
    """The audit's verdict and its reasons."""

    code: Literal["audit"] = "audit"
    verdict: str
    reasons: tuple[AuditReason, ...] = ()


GuardrailReason = Annotated[
    Sentence | Plain | NotJudged | TopicsLost | TopicsKept | TopicDrift | RobustItems | Unanswered | Ties | Undecided
    | Excess | BoundedFalseFlags | AuditVerdict | VotersByPlace,
    Field(discriminator="code"),
]  # fmt: skip


class GuardrailFailed(Coded):
    """A guardrail failed; its reason is null in a release."""

    code: Literal["guardrail_failed"] = "guardrail_failed"
    name: str
    reason: GuardrailReason | None = None


CertificateReason = Annotated[
    Sentence | Plain | BelowMargin | UnseenKinds | AboveChance | NotBelowMargin | CouldNotSee
    | GuardrailFailed | VoterUnderTest | TrialRun | OnePlace,
    Field(discriminator="code"),
]  # fmt: skip
NoiseReason = Annotated[FewStrongModels | Sentence, Field(discriminator="code")]
