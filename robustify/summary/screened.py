"""What the benchmark is made of, what rules without a model score on it, what the screen flagged, and by which cue."""

from typing import Literal

from robustify.summary.quantity import Nats, P, Part, Quantity, Share


class DefectCount(Part):
    """Items with one kind of defect; at most 20 ids."""

    n: int
    items: tuple[str, ...]


class KeysAmong(Part):
    """The share of keys at each position, among the items of one number of options."""

    n: int
    shares: tuple[Share, ...]


class OffPlace(Part):
    """The position (from 0) whose share of keys differs most from an even spread, if the difference is significant."""

    place: int
    share: Share
    even: Share


class KeyPlaces(Part):
    """Key positions in the benchmark's own order; `p` of keys spread evenly, by chi-square or by drawing.

    Everything but `n` is null if no item has a key.
    """

    n: int
    shares: tuple[Share, ...] | None = None
    by_options: dict[str, KeysAmong] | None = None
    p: P | None = None
    test: Literal["drawn", "chi-square"] | None = None
    off: OffPlace | None = None


class Benchmark(Part):
    """What the benchmark is made of; `chance_accuracy` is the mean of 1/k."""

    name: str
    n_items: int
    n_quarantined: int
    option_counts: dict[str, int]
    chance_accuracy: Share | None
    topics: dict[str, int]
    key_positions: tuple[Share, ...] | None
    key_places: KeyPlaces
    defects: dict[str, DefectCount]


class HeuristicRow(Quantity):
    """One heuristic on one split. `expected`: its accuracy by chance after selection; p is one-sided."""

    ties: int
    chance: Share | None
    expected: Share | None
    p: P | None
    p_holm: P | None


class Heuristics(Part):
    """The heuristics on each split, by name; null for a split without items."""

    all: dict[str, HeuristicRow] | None
    robust: dict[str, HeuristicRow] | None
    shortcut: dict[str, HeuristicRow] | None
    cloze: dict[str, HeuristicRow] | None


class FavouredPlace(Part):
    """The position, from 0, with more than half of a voter's picks: over items the share of each one's askings."""

    place: int
    picked: Quantity
    keys: Share
    excess: Quantity


class SampledVoter(Part):
    """A voter whose scores are shares of a server's `replies`, at most so many to an asking.

    `redrawn`: the share of its picks that another drawing of as many replies would change, see `screen/voters.py`.
    """

    replies: int
    redrawn: Quantity


class Voter(Part):
    """One voter of the screen. `position_share` and `favoured` are null by text, `sampled` for log-probabilities."""

    choices_only_accuracy: Quantity
    position_share: tuple[Share, ...] | None
    favoured: FavouredPlace | None = None
    unanswered: int
    ties: int
    kind: Literal["model", "probe"]
    sampled: SampledVoter | None = None


class ExcessOverChance(Quantity):
    """Flagged minus expected, a share of the items; `p`: how often chance flags as many or more."""

    p: P | None


class ByPlace(Part):
    """What a rule flags, against chance that knows the key positions.

    `expected_flags`: flags under the null, were every key drawn anew, shortcuts included; not a count of clean items lost.
    """

    expected_flags: Quantity | None
    excess_over_chance: ExcessOverChance | None
    latent_shortcut_rate: Quantity
    key_place: OffPlace | None


class Flags(Part):
    """What a rule flags, against chance. `by_place` is null if no voter could see positions."""

    flagged: Quantity
    false_share: Quantity
    expected_flags: Quantity | None
    excess_over_chance: ExcessOverChance | None
    latent_shortcut_rate: Quantity
    by_place: ByPlace | None


class D4Rule(Flags):
    """The rule of Deep Ignorance, appendix D.4: one order, letter answers, all voters right."""

    template: str


class Independence(Part):
    """The share flagged if voters were independent: at their own accuracies, and if each guessed."""

    unanimous_by_accuracy: Share | None
    unanimous_by_chance: Share | None


class VoterAgreement(Part):
    """How often all voters pick one option, against position preferences alone."""

    n: int | None
    observed: Share | None
    independent: Share | None
    ratio: float | None
    fleiss_kappa: float | None
    all_right: Share | None


class DecoyCut(Part):
    """The cut of `criterion: fdr` at the share `q`, by e-values if `exact`.

    `ranked` items entered it, one for each group of near-duplicates. Above `threshold`, a mean rank from 0 to 1, are
    `hits` and `misses`; the misses stand for `decoys` hits by chance. `false_share`: of the hits, those by chance.
    """

    q: Share
    exact: bool
    ranked: int
    threshold: P | None
    hits: int
    misses: int
    decoys: float
    false_share: Quantity


class CutAt(Part):
    """What `criterion: fdr` flags at another share `q`, near-duplicates once, and how many of these are by chance."""

    q: Share
    flagged: int
    by_chance: float


class Screen(Flags):
    """The screen: its rule, its voters, what it flagged, and how much of that chance explains. `hidden`: what voters
    were not shown of an item; the scorer and probes see its options alone.

    `answered` counts the items whose outcome depends on no missing answer, `unanswered` the others; `n` of the flagged are
    those of which no option ties either. `cut` is null if
    votes are counted, `norm` by letter, `template` if no model was asked, `d4_rule` if a voter was not asked by letter.
    """

    criterion: str
    hidden: Literal["question", "passage", "context", "image"] = "question"
    mode: Literal["letter", "text"]
    norm: str | None
    template: str | None
    rotations: int
    rotation: str
    probe_vote: str
    probe_confidence: Share
    force_letters: bool
    voters: dict[str, Voter]
    asked: int
    answered: int
    unanswered: int
    cut: DecoyCut | None
    cuts: tuple[CutAt, ...] = ()
    independence: Independence
    agreement: VoterAgreement
    d4_rule: D4Rule | None
    level: P


class Splits(Part):
    """The number of items of each split, and why items are no cloze; `cloze` is null without the items' text."""

    all: int
    shortcut: int
    robust: int
    undecided: int
    cloze: int | None
    cloze_excluded: dict[str, int]


class TopicRow(Part):
    """One topic before and after the filter; `p_bh` after Benjamini and Hochberg.

    `units`: how many independent items its items are worth, if items hang together.
    """

    before: int
    after: int
    retention: Quantity
    p: P | None
    p_bh: P | None
    units: float | None = None


class Topics(Part):
    """The mix of topics before and after: KL(after || before) and its mean under random removal, in nats."""

    by_topic: dict[str, TopicRow]
    kl_nats: Nats | None
    kl_null: Nats | None
    p: P | None


CueCode = Literal[
    "length", "word_length", "certainty", "numbers", "form", "shared_words", "grammar", "repetition", "function_words",
    "pointer", "words", "text_votes", "letter_votes", "none",
]  # fmt: skip
"""`certainty`: absolute words, hedges and negations; `pointer`: an option that speaks of the others; `words`: words and
pieces of words that no list names; the last before `none` are models. `none`: nothing speaks for the option."""
CUES: tuple[CueCode, ...] = CueCode.__args__  # type: ignore[attr-defined]


class LikelyItem(Part):
    """An item, the probability that its key was found by a shortcut, and the cue that carried it."""

    item: str
    p_shortcut: P
    cue: CueCode


class Inference(Part):
    """The share of the flagged items, and of the others, whose question models inferred from the options alone.

    A question counts as inferred if its likeness to the real one, `by` meaning or words, is `least` or more; `unasked`
    items have no inferred question.
    """

    by: str
    least: float
    flagged: Quantity
    others: Quantity
    unasked: int


class CueCounts(Part):
    """Of the `n` flagged items that the question-free scorer ranked: the share that each cue carried, most first."""

    n: int
    cues: dict[CueCode, Quantity]
    likeliest: tuple[LikelyItem, ...]
