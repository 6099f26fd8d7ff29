"""Parts of the summary about the benchmark, the screen, the splits, the topics, and the cues."""

from typing import Literal, get_args

from pydantic import Field

from robustify.items.scoring import TextNorm
from robustify.judging.summary.quantity import Nats, P, Part, Quantity, Share


class DefectCount(Part):
    """Number of items with a defect, and at most 20 of their IDs."""

    n: int
    items: tuple[str, ...]


class KeysAmong(Part):
    """Share of keys at each position, among items with the same number of options."""

    n: int
    shares: tuple[Share, ...]


class OffPosition(Part):
    """Position (from 0) whose share of keys differs most from an even spread, if the difference is significant."""

    position: int
    share: Share
    even: Share


class KeySpread(Part):
    """Key positions in the benchmark's own order, null if no key is known. `p` tests an even spread."""

    n: int
    shares: tuple[Share, ...] | None = None
    by_options: dict[str, KeysAmong] | None = None
    p: P | None = None
    test: Literal["drawn", "chi-square"] | None = None
    off: OffPosition | None = None


class Benchmark(Part):
    """Composition of the benchmark. `chance_accuracy` is the mean of 1/k. `parallel_items` look like translations.
    `groups` counts the independent groups of items, null if every item is one."""

    name: str
    n_items: int
    groups: int | None = None
    n_quarantined: int
    option_counts: dict[str, int]
    chance_accuracy: Share | None
    topics: dict[str, int]
    key_positions: tuple[Share, ...] | None
    key_spread: KeySpread
    defects: dict[str, DefectCount]
    parallel_items: int = 0


class FavouredPosition(Part):
    """Position (from 0) that has more than half of a voter's picks. Shares are means over items."""

    position: int
    picked: Quantity
    keys: Share
    excess: Quantity


class Voter(Part):
    """Voter of the screen, whose accuracy is the measure `choices_only`. `position_share` and `favoured` are null in text
    mode. If it returns no probabilities, its scores are shares of up to `replies` replies."""

    answered: int
    position_share: tuple[Share, ...] | None
    favoured: FavouredPosition | None = None
    unanswered: int
    ties: int
    replies: int | None = None


class ExcessOverChance(Quantity):
    """Flagged minus expected items, as a share of all items. `p` is the probability of as many or more by chance."""

    p: P | None


class ByPosition(Part):
    """Flags of a rule compared with a null that uses the positions of the keys. `expected_flags` assumes that every key is
    drawn again, also of shortcuts, so that it does not count clean items lost."""

    expected_flags: Quantity | None
    excess_over_chance: ExcessOverChance | None
    latent_shortcut_rate: Quantity
    key_position: OffPosition | None


class Flags(Part):
    """Flags of a rule compared with chance. `by_position` is null if no voter could see positions."""

    flagged: Quantity
    false_share: Quantity
    expected_flags: Quantity | None
    excess_over_chance: ExcessOverChance | None
    latent_shortcut_rate: Quantity
    by_position: ByPosition | None


class D4Rule(Flags):
    """Flags of the rule in appendix D.4 of Deep Ignorance: all voters are right by letter, in one order."""

    template: str


class Independence(Part):
    """Share of items that independent voters would all get right, with their own accuracies or by guessing."""

    unanimous_by_accuracy: Share | None
    unanimous_by_chance: Share | None


class VoterAgreement(Part):
    """How often all voters pick the same option, compared with the agreement that position preferences alone explain."""

    n: int | None
    observed: Share | None
    independent: Share | None
    ratio: float | None
    fleiss_kappa: float | None
    all_right: Share | None


class DecoyCut(Part):
    """Cutoff that `criterion: fdr` sets in the ranking for the false share `q`. `ranked` counts the items with a favorite.
    `hits` and `misses` are above `threshold`, a mean rank from 0 to 1. Misses represent `decoys` chance hits, with
    `margin` misses for safety. `groups` counts the independent groups if they are too few to evaluate anything (0 if
    unknown)."""

    q: Share
    ranked: int
    threshold: P | None
    hits: int
    misses: int
    decoys: float
    false_share: Quantity
    groups: int | None = None
    margin: float = 1.0


class CutAt(Part):
    """Flags of `criterion: fdr` at another false share `q`, with the number due to chance."""

    q: Share
    flagged: int
    by_chance: float


class Screen(Flags):
    """Results of the screen: its rule, its voters, its flags, and the flags that chance explains. `hidden` is what voters
    did not see of an item. `answered` counts the items whose outcome depends on no missing answer. `cut` is null if votes
    are counted, `norm` in letter mode, `template` if none was asked, and `d4_rule` if a voter was not asked by letter."""

    criterion: str
    hidden: Literal["question", "passage", "context", "image"] = "question"
    mode: Literal["letter", "text"]
    norm: TextNorm | None
    template: str | None
    rotations: int
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
    """Number of items in each split, and reasons for exclusion from cloze. `cloze` is null without the items' text."""

    all: int
    flagged: int
    kept: int
    undecided: int
    cloze: int | None
    cloze_excluded: dict[str, int]


class TopicRow(Part):
    """Items of a topic before and after the filter. `p_bh` is adjusted (Benjamini and Hochberg), `units` an effective
    number."""

    before: int
    after: int
    retention: Quantity
    p: P | None
    p_bh: P | None
    units: float | None = None


class Topics(Part):
    """Topic mix before and after the filter: KL(after || before) and its mean under random removal, in nats."""

    by_topic: dict[str, TopicRow]
    kl_nats: Nats | None
    kl_null: Nats | None
    p: P | None


CueCode = Literal[
    "length", "word_length", "certainty", "numbers", "number_values", "form", "shared_words", "grammar", "repetition",
    "function_words", "pointer", "outer_space", "odd_characters", "words", "text_votes", "letter_votes", "none"
]  # fmt: skip
"""`certainty` means absolute words, hedges and negations. `number_values` are rank or precision, if all options have a
number. `pointer` is an option that refers to others. `outer_space` is white space at the ends of options. `odd_characters`
are invisible or look like others. `words` are words and pieces of words in no list. `text_votes` and `letter_votes` are
models. `none` means that nothing supports the option.
"""
CUES: tuple[CueCode, ...] = get_args(CueCode)


class LikelyItem(Part):
    """Flagged item with the probability that it has a shortcut, and the cue that contributed most."""

    item: str
    p_shortcut: P
    cue: CueCode


class Inference(Part):
    """Shares of flagged and other items whose question a model inferred from the options alone. A question counts as
    inferred if its similarity to the real one, `by` meaning or words, is at least `least`."""

    by: str
    least: float
    flagged: Quantity
    others: Quantity
    unasked: int


class WholeCue(Part):
    """How often keys have the cue of a `lint` rule. Options differ in it in `n` of all `of` items, and `keys` of
    these have it."""

    rule: str
    keys: int
    n: int
    expected: float
    of: int


class CueCounts(Part):
    """Share of each leading cue among the `n` flagged items that the scorer ranked, largest first. `names` counts the
    commonest words or traits behind a cue. `whole` is the cue that marks the most keys of the set."""

    n: int
    cues: dict[CueCode, Quantity]
    names: dict[CueCode, dict[str, int]] = Field(default_factory=dict)
    whole: WholeCue | None = None
    likeliest: tuple[LikelyItem, ...]
