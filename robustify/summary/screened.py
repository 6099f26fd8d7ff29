"""What the benchmark is made of, what rules without a model score on it, what the screen flagged, and by which cue."""

from typing import Annotated, Any, Literal

from pydantic import model_serializer

from robustify.summary.quantity import (
    OUTER,
    Cell,
    Count,
    Hidden,
    HiddenCount,
    HiddenEnds,
    HiddenIds,
    HiddenName,
    HiddenRate,
    OuterP,
    P,
    Part,
    Quantity,
    Rate,
    Setting,
    Share,
    Shares,
    Shown,
    Truth,
    Within,
    Word,
    never,
    remade,
)
from robustify.summary.reason import Sentence

FormerSentence = Annotated[Sentence | None, never("reason")]
"""The sentence of a file of format 1; null in format 2, where the report makes sentences from the numbers."""


class DefectCount(Part):
    """Items with one kind of defect; at most 20 ids."""

    n: Cell = None
    items: HiddenIds = None


class KeysAmong(Part):
    """The share of keys at each position, among the items of one number of options."""

    n: HiddenCount = None
    shares: Annotated[tuple[float, ...] | None, never("share")] = None


class OffPlace(Part):
    """The position whose share of keys differs most from an even spread, where the difference is significant."""

    place: Annotated[int | None, never("number", "position from 0")] = None
    share: Annotated[float | None, never("share")] = None
    even: Annotated[float | None, never("share")] = None


class KeyPlaces(Part):
    """Key positions in the benchmark's own order; `p` of keys spread evenly, by chi-square or by drawing."""

    n: Count = None
    shares: Shares = None
    by_options: dict[str, KeysAmong] | None = None
    chi_square: Hidden = None
    df: Annotated[int | None, never("number", "degrees of freedom")] = None
    p: P = None
    test: Word = None
    off: OffPlace | None = None
    sentence: FormerSentence = None


class Benchmark(Part):
    """What the benchmark is made of; `chance_accuracy` is the mean of 1/k."""

    name: Word = None
    n_items: Count = None
    n_quarantined: Cell = None
    option_counts: Annotated[dict[str, int | Quantity] | None, Shown("cell")] = None
    chance_accuracy: Share = None
    topics: Annotated[dict[str, int] | None, remade("count")] = None
    key_positions: Shares = None
    key_places: KeyPlaces | None = None
    defects: dict[str, DefectCount] | None = None


class HeuristicRow(Quantity):
    """One heuristic on one split. `expected`: its accuracy by chance after selection; p is one-sided."""

    ties: Annotated[int | None, remade("count")] = None
    chance: Annotated[float | None, never("share")] = None
    expected: Annotated[float | None, never("share")] = None
    p: Annotated[float | None, never("p")] = None
    p_holm: Annotated[float | None, remade("p")] = None


HeuristicRows = Annotated[dict[str, HeuristicRow] | None, remade("rate")]


class Heuristics(Part):
    """The heuristics on each split, by name; in a release by class of surface feature."""

    all: HeuristicRows = None
    robust: HeuristicRows = None
    shortcut: HeuristicRows = None
    cloze: HeuristicRows = None


class FavouredPlace(Part):
    """The place, from 0, on which more than half of a voter's picks sit: over items the share of each one's askings."""

    place: Annotated[int | None, never("number", "position from 0")] = None
    picked: HiddenRate = None
    keys: Annotated[float | None, never("share")] = None
    excess: Annotated[Quantity | None, never("difference")] = None


class SampledVoter(Part):
    """A voter whose scores are shares of a server's `replies`, at most so many to an asking.

    `redrawn`: the share of its picks that another drawing of as many replies would change, see `screen/voters.py`.
    """

    replies: Annotated[int | None, Shown("setting")] = None
    redrawn: HiddenRate = None


class Voter(Part):
    """One voter of the screen; `kind` is model or probe. `favoured` is null by text, and where no place is.

    `sampled` is null where its scores are log-probabilities.
    """

    choices_only_accuracy: Rate = None
    position_share: Shares = None
    favoured: FavouredPlace | None = None
    unanswered: Count = None
    ties: Count = None
    kind: Word = None
    sampled: SampledVoter | None = None

    @model_serializer(mode="wrap")
    def _without_sampled(self, handler: Any) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        if tree.get("sampled") is None:
            tree.pop("sampled", None)
        return tree


class ExcessOverChance(Quantity):
    """Flagged minus expected, a share of the items; `p`: how often chance flags as many or more."""

    p: OuterP = None


Excess = Annotated[ExcessOverChance | None, Shown("difference", OUTER)]
Expected = Annotated[Quantity | None, remade("expected count")]
"""Flags expected under the null: were every key drawn anew, shortcuts included. No count of clean items lost."""


class ByPlace(Part):
    """Against chance that knows the key positions; null where no voter could see positions."""

    expected_flags: Expected = None
    excess_over_chance: Excess = None
    latent_shortcut_rate: Annotated[Quantity | None, Shown("rate", OUTER)] = None
    key_places_p: Annotated[float | None, never("p")] = None
    key_place: OffPlace | None = None


class ScreenByPlace(ByPlace):
    """The same, of the run's own rule."""

    latent_shortcut_rate: Annotated[Quantity | None, Shown("rate", "latent rate")] = None
    key_places_p: P = None


class D4Rule(Part):
    """The rule of Deep Ignorance, appendix D.4: one order, letter answers, all voters right."""

    flagged: Annotated[Quantity | None, Shown("rate", OUTER, "answered")] = None
    false_share: HiddenRate = None
    expected_flags: Expected = None
    excess_over_chance: Excess = None
    latent_shortcut_rate: Annotated[Quantity | None, Shown("rate", OUTER)] = None
    by_place: ByPlace | None = None
    template: Word = None


class Independence(Part):
    """The share flagged if voters were independent: at their own accuracies, and if each guessed."""

    unanimous_by_accuracy: Hidden = None
    unanimous_by_chance: Hidden = None


class VoterAgreement(Part):
    """How often all voters pick one option, against position preferences alone; intervals by bootstrap."""

    n: HiddenCount = None
    observed: Hidden = None
    independent: Hidden = None
    ratio: Hidden = None
    fleiss_kappa: Annotated[float | None, Shown("number", OUTER, unit="kappa")] = None
    all_right: Hidden = None
    all_right_independent: Hidden = None
    all_right_ratio: Hidden = None
    observed_ci: HiddenEnds = None
    ratio_ci: HiddenEnds = None
    fleiss_kappa_ci: HiddenEnds = None
    all_right_ci: HiddenEnds = None
    all_right_ratio_ci: HiddenEnds = None


class DecoyCut(Part):
    """The cut of `criterion: fdr` at the share `q`, by e-values where `exact`.

    `ranked` items entered it, one for each group of near-duplicates or of a passage. Above `threshold`, a probability,
    are `hits` and `misses`; the misses stand for `decoys` hits by chance. `false_share`: of the hits, those by chance.
    """

    q: Setting = None
    exact: Truth = None
    ranked: HiddenCount = None
    threshold: Hidden = None
    hits: HiddenCount = None
    misses: HiddenCount = None
    decoys: Hidden = None
    false_share: HiddenRate = None


class Screen(Part):
    """The choices-only screen: its rule, its voters, what it flagged, and how much of that chance explains.

    `answered` counts the items whose outcome depends on no missing answer, `unanswered` the others.
    """

    criterion: Word = None
    mode: Word = None
    norm: Word = None
    template: Word = None
    rotations: Annotated[int | None, Shown("setting")] = None
    rotation: Word = None
    probe_vote: Word = None
    probe_confidence: Setting = None
    force_letters: Truth = None
    voters: dict[str, Voter] | None = None
    asked: Count = None
    answered: Count = None
    unanswered: Count = None
    cut: DecoyCut | None = None
    flagged: Annotated[Quantity | None, remade("rate")] = None
    false_share: HiddenRate = None
    chance_flag_rate: Annotated[float | None, never("share")] = None
    expected_flags: Expected = None
    independence: Independence | None = None
    excess_over_chance: Annotated[ExcessOverChance | None, Shown("difference", "chance")] = None
    latent_shortcut_rate: Annotated[Quantity | None, Shown("rate", "latent rate")] = None
    by_place: Annotated[ScreenByPlace | None, Within("chance, positions known")] = None
    agreement: Annotated[VoterAgreement | None, Within("agreement of voters")] = None
    d4_rule: Annotated[D4Rule | None, Within("D.4's rule")] = None
    level: Annotated[float | None, never("p")] = None
    sentence: FormerSentence = None


class Splits(Part):
    """The number of items of each split, and why items are no cloze."""

    all: Count = None
    shortcut: Annotated[int | None, remade("count")] = None
    robust: Annotated[int | None, remade("count")] = None
    undecided: Count = None
    cloze: Annotated[int | Quantity | None, Shown("count")] = None
    cloze_excluded: Annotated[dict[str, int | Quantity] | None, Shown("cell")] = None


class TopicRow(Part):
    """One topic before and after the filter; `p_bh` after Benjamini and Hochberg."""

    before: Annotated[int | None, remade("count")] = None
    after: Annotated[int | None, remade("count")] = None
    retention: Annotated[Quantity | None, remade("rate")] = None
    p: Annotated[float | None, remade("p")] = None
    p_bh: Annotated[float | None, remade("p")] = None


class Topics(Part):
    """The mix of topics before and after: KL(after || before) and its mean under random removal, in nats."""

    by_topic: Annotated[dict[str, TopicRow] | None, remade("table")] = None
    kl_nats: Annotated[float | None, remade("number", "nats")] = None
    kl_null: Annotated[float | None, remade("number", "nats")] = None
    p: Annotated[float | None, remade("p")] = None


CueCode = Literal[
    "length", "word_length", "certainty", "numbers", "form", "shared_words", "grammar", "repetition", "function_words",
    "pointer", "words", "text_votes", "letter_votes", "vectors", "none",
]  # fmt: skip
"""`certainty`: absolute words, hedges and negations; `pointer`: an option that speaks of the others; `words`: words and
pieces of words that no list names; the last before `none` are models. `none`: nothing speaks for the option."""
CUES: tuple[CueCode, ...] = CueCode.__args__  # type: ignore[attr-defined]


class LikelyItem(Part):
    """An item, the probability that its key was found by a shortcut, and the cue that carried it."""

    item: HiddenName = None
    p_shortcut: Hidden = None
    cue: Annotated[CueCode | None, never("word")] = None


class CueCounts(Part):
    """Of the `n` flagged items that the question-free scorer ranked: the share that each cue carried, most first."""

    n: HiddenCount = None
    cues: Annotated[dict[str, Quantity] | None, never("rate")] = None
    likeliest: tuple[LikelyItem, ...] | None = None
