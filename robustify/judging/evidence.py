"""Evidence for flagged items: the option picked without the question, its probability, and the cues that explain the
pick. It has numbers and codes from the question-free scorer's ranking and from the votes."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import compress

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.texts import EDGES
from robustify.items.item import Item
from robustify.judging.baselines.features import first_numbers
from robustify.judging.baselines.wording import ABSOLUTES, FUNCTION_WORDS, HEDGES, NEGATIONS, UNIT, words_of
from robustify.judging.baselines.words import KeyWords
from robustify.judging.cloze import refer_to_others
from robustify.judging.context import Parts
from robustify.judging.lint import cues
from robustify.judging.lint.findings import cues_of, marks_of
from robustify.judging.lint.rules import clearest_cue
from robustify.judging.readers.fits import item_sample
from robustify.judging.readers.reader_rows import INFERRED, INFERRED_TEMPLATES, LEAST_LIKENESS
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.decoy_filter import FilterDecision
from robustify.judging.screen.item_screen import ItemScreen
from robustify.judging.screen.ranking import Ranking
from robustify.judging.screen.votes import Votes, models_asked
from robustify.judging.summary import screen_parts as entries
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.screen_parts import CUES, CueCode, WholeCue

LISTED = 20
"""Number of items listed in the summary."""
MOST_NAMED = 3
NO_CUE = -1
SURFACE = "surface"
LEAST_SHARE = 0.25
"""Minimum share of the support for a pick that makes a cue worth reporting."""
_FEATURES: dict[CueCode, str] = {
    "length": "characters words longer_than_longest_other longer_than_shortest_other",
    "word_length": "mean_word_length longest_word",
    "certainty": "hedges absolutes negations",
    "numbers": "digits numbers unit far_from_middle_number",
    "form": "commas other_punctuation brackets full_stop capital_first capitals odd_form",
    "shared_words": "mean_likeness greatest_likeness same_first_word same_last_word contains_another",
    "grammar": "article_first",
    "repetition": "repeated_words",
    "function_words": "function_words",
    "pointer": "points_elsewhere",
    "outer_space": "outer_space",
    "odd_characters": "invisible_characters odd_spaces compatibility_forms mixed_alphabets combining_marks",
}
CUE_OF = {name: cue for cue, names in _FEATURES.items() for name in names.split()}
"""Cue of each surface feature. Features of the same property share a cue."""
PART_OF: dict[str, CueCode] = {"words": "words", "text votes": "text_votes", "letter votes": "letter_votes"}
"""Cue of each other part of the scorer."""
BY_LENGTH = ("words", "commas", "other_punctuation", "brackets", "repeated_words", "odd_form", "longest_word")
"""Features that grow with an option's length, including words in no list. In a much longer option they count as length."""
BY_MARK = (*BY_LENGTH, *f"{_FEATURES['length']} {_FEATURES['word_length']}".split())
"""Features that a mark changes too. If only the pick has the mark, and is not the longest without it, they count as its."""
MARKS: Mapping[CueCode, re.Pattern[str]] = {
    "form": re.compile(r"\s*[(\[{].*[)\]}]"),
    "numbers": re.compile(r"(?<=\d)\s*(?:[%°]|[^\W\d_]+)"),
    "certainty": re.compile(rf"\b(?:{'|'.join(sorted(HEDGES | ABSOLUTES | NEGATIONS))})\b", re.IGNORECASE),
}
"""Marks that a single option may have, by their cue: brackets, a unit, and a hedge, an absolute word or a negation."""
MUCH_LONGER, MORE_CHARACTERS = 1.5, 10
"""Ratio to the next longest option, and difference in characters, that make an option much longer."""
TEXTUAL = tuple(c for c in CUES if c not in ("text_votes", "letter_votes", "none"))
"""Cues in the item's own text."""


@dataclass(frozen=True, repr=False)
class EvidenceTable:
    """Columns that `verdicts.csv` and `evidence.jsonl` share, with a value for each item (n,). `pick` is negative if
    there is none, and unknown values are NaN."""

    pick: Ints
    p_pick: Floats
    chance: Floats
    posterior: Floats
    p_shortcut: Floats
    picked_by: tuple[tuple[str, ...], ...]
    cue: tuple[CueCode, ...]
    p_key: Floats


@dataclass(frozen=True, repr=False)
class ItemEvidence:
    """Evidence on each item: its rank without the question, the filter's decision, the votes, and the cues. `carried`
    (n, c) is each cue's contribution to the pick's logit, relative to the mean of the options, and `features` has
    (n,) by surface feature. `likeness` (n,) by kind is the question's similarity to those that models inferred."""

    ranking: Ranking
    decision: FilterDecision
    votes: Votes
    cues: tuple[CueCode, ...]
    carried: Floats
    features: Mapping[str, Floats]
    likeness: Mapping[str, Floats] = field(default_factory=dict)

    @cached_property
    def table(self) -> EvidenceTable:
        """Rows of the run's files on each item, built once."""
        ranking, decision = self.ranking, self.decision
        shares = ranking.p_pick, ranking.null, decision.posterior, decision.shortcut
        return EvidenceTable(ranking.top, *shares, self.picked_by, self.leading, ranking.p_key)

    @property
    def inferred(self) -> Floats:
        """Whether a model inferred the question (n,): 1 or 0, or NaN if no model tried. Meaning precedes words."""
        kind = next(iter(self.likeness))
        return np.where(np.isnan(self.likeness[kind]), np.nan, self.likeness[kind] >= LEAST_LIKENESS[kind])

    @cached_property
    def picked_by(self) -> tuple[tuple[str, ...], ...]:
        """Voters that agree with the ranking's pick, for each item."""
        pick = self.ranking.top[:, None]
        # Items share a few sets of voters.
        named = cache(lambda row: tuple(compress(self.votes.voters, row)))
        return tuple(named(row.tobytes()) for row in (pick >= 0) & (self.votes.pick == pick))

    @cached_property
    def reported(self) -> Ints:
        """Indices of the reported cues in `cues`, the most important first, padded with -1 (n, MOST_NAMED). A cue is
        reported if it has at least `LEAST_SHARE` of the support for the pick, or most. Textual cues come before votes."""
        n, c = self.carried.shape
        named = np.full((n, MOST_NAMED), NO_CUE, dtype=np.int8)
        if not c:
            return named
        support = np.maximum(np.nan_to_num(self.carried), 0.0)
        total = support.sum(axis=1, keepdims=True)
        share = np.divide(support, total, out=np.zeros_like(support), where=total > 0)
        enough = (share >= LEAST_SHARE) | (share == share.max(axis=1, keepdims=True)) & (share > 0)
        rank = np.where(enough, share + np.isin(self.cues, TEXTUAL), -1.0)
        order = np.argsort(-rank, axis=1, kind="stable")[:, :MOST_NAMED]
        is_named = np.take_along_axis(rank, order, axis=1) > 0
        named[:, : order.shape[1]] = np.where(is_named, order, NO_CUE)
        return named

    @cached_property
    def leading(self) -> tuple[CueCode, ...]:
        """First reported cue of each item, or "none"."""
        # Index -1 gives "none".
        return tuple(map((*self.cues, "none").__getitem__, self.reported[:, 0].tolist()))


def item_evidence(responses: ResponseData, screen: ItemScreen) -> ItemEvidence | None:
    """Return the evidence on each item, or None if the ranking has no picks. If item texts are known, features caused
    by something else count as its cue (`_brought_by`)."""
    ranking, items, pick = screen.ranking, responses.items, screen.ranking.top
    if not (pick >= 0).any():
        return None
    features = ranking.surface
    parts = {name: own for name, own in ranking.parts.items() if name != SURFACE}
    bringer = np.full(len(pick), "none") if items is None else _brought_by(items, pick)
    by_cue: dict[CueCode, Floats] = {}
    # A feature and a part share a name.
    named = [(CUE_OF[n], n, v) for n, v in features.items()] + [(PART_OF[n], n, v) for n, v in parts.items()]
    for cue, name, values in named:
        marked = ~np.isin(bringer, ("length", "none"))
        brought = (bringer == "length") & (name in BY_LENGTH) | marked & (name in BY_MARK)
        by_cue[cue] = by_cue.get(cue, 0.0) + np.where(brought, 0.0, values)
        for target in CUES if brought.any() else ():
            if (selected := brought & (bringer == target)).any():
                by_cue[target] = by_cue.get(target, 0.0) + np.where(selected, values, 0.0)
    if items is not None and "numbers" in by_cue:
        numbers = zip(by_cue["numbers"], items, strict=True)
        every = np.array([x > 0 and not any(map(math.isnan, first_numbers(i.choices))) for x, i in numbers])
        by_cue |= {"number_values": by_cue["numbers"] * every, "numbers": by_cue["numbers"] * ~every}
    if items is not None and "pointer" in by_cue:
        refers = np.array(
            [p >= 0 and refer_to_others(i.choices)[p] for p, i in zip(pick, items, strict=True)]
        )
        for cue in by_cue.keys() & set(TEXTUAL) - {"pointer"}:
            moved = by_cue[cue] * refers
            by_cue |= {"pointer": by_cue["pointer"] + moved, cue: by_cue[cue] * ~refers}
    cues = tuple(cue for cue in CUES if cue in by_cue)
    carried = np.column_stack([np.empty((len(pick), 0)), *(by_cue[cue] for cue in cues)])
    likeness: dict[str, Floats] = {}
    for kind, template in INFERRED_TEMPLATES.items():
        blocks = [
            responses.answers.block(INFERRED, m, template)
            for m in models_asked(responses.answers, INFERRED, template)
        ]
        if blocks:
            likeness[kind] = np.fmax.reduce(
                [responses.index.spread(block, block.correct) for block in blocks]
            )
    return ItemEvidence(ranking, screen.decision, screen.votes, cues, carried, features, likeness)


def inference(evidence: ItemEvidence, parts: Parts) -> entries.Inference | None:
    """Return the shares of flagged items and of other items whose question was inferred, or None if no model tried."""
    if not evidence.likeness:
        return None
    inferred, kind = evidence.inferred, next(iter(evidence.likeness))
    return entries.Inference(
        by=kind,
        least=LEAST_LIKENESS[kind],
        flagged=Quantity.from_rate(parts.rate(inferred, parts.flagged)),
        others=Quantity.from_rate(parts.rate(inferred, ~parts.flagged)),
        unasked=int(np.count_nonzero(np.isnan(inferred))),
    )


def cue_counts(
    evidence: ItemEvidence, parts: Parts, items: Sequence[Item] | None = None
) -> entries.CueCounts:
    """Count the flagged items by leading cue, name the cues if the texts are known, and list the most likely shortcuts."""
    flagged = parts.flagged
    counted = flagged & (evidence.ranking.top >= 0)
    first = evidence.reported[:, 0]
    leads: dict[CueCode, Bools] = {cue: first == i for i, cue in enumerate(evidence.cues)}
    leads["none"] = first == NO_CUE
    shown = {
        cue: Quantity.from_rate(parts.rate(leads[cue].astype(np.float64), counted))
        for cue in CUES
        if cue in leads
    }
    top, leading = evidence.ranking.top, evidence.leading
    cued_picks = [(i, int(top[i]), leading[i]) for i in np.flatnonzero(counted).tolist()]
    p_shortcut = evidence.decision.shortcut
    likely = np.where(flagged, np.nan_to_num(p_shortcut, nan=-1.0), -1.0)
    order = np.lexsort((-np.nan_to_num(evidence.ranking.p_pick), -likely))[:LISTED].tolist()
    names = evidence.ranking.items
    return entries.CueCounts(
        n=int(np.count_nonzero(counted)),
        cues={c: shown[c] for c in sorted(shown, key=lambda c: -(shown[c].value or 0.0)) if shown[c].value},
        names={} if items is None else cue_names(items, cued_picks, evidence.ranking.group),
        whole=None if items is None else whole_cue(items),
        likeliest=tuple(
            entries.LikelyItem(item=names[i], p_shortcut=float(p_shortcut[i]), cue=leading[i])
            for i in order
            if likely[i] > 0
        ),
    )


def _brought_by(items: Sequence[Item], pick: Ints) -> npt.NDArray[np.str_]:
    """Return the cue that causes other features of each pick (n,). It is `length` for a much longer pick, the cue of a mark
    that only the pick has, if it is not the longest without it, `numbers` if all options are, or "none"."""
    out = np.full(len(items), "none", dtype=f"<U{max(map(len, CUES))}")
    for i, (item, picked) in enumerate(zip(items, pick.tolist(), strict=True)):
        if picked < 0:
            continue
        choices = [choice.strip() for choice in item.choices]
        own = choices.pop(picked)
        longest = max(map(len, choices))
        numeric = all(2 * sum(map(str.isdigit, text)) >= len(text) for text in (own, *choices))
        marked = ((cue, mark.sub("", own)) for cue, mark in MARKS.items()
                 if mark.search(own) and not any(map(mark.search, choices)))  # fmt: skip
        cue, unmarked = next(marked, ("numbers" if numeric else "none", own))
        if len(unmarked) >= max(MUCH_LONGER * longest, longest + MORE_CHARACTERS):
            out[i] = "length"
        elif numeric or len(unmarked) <= longest:
            out[i] = cue
    return out


MOST_NAMES = 3
_BLANKS = {"a space": " ", "a tab": "\t", "a line break": "\r\n", "a no-break space": "\xa0"}
_BLANKS["another blank character"] = "".join(set(EDGES).difference(*_BLANKS.values()))


def _at_end(end: int, blanks: str) -> cues.Marks:
    return lambda choices, _: [bool(choice) and choice[end] in blanks for choice in choices]


def _most_digits(choices: Sequence[str], _: str) -> Sequence[bool]:
    digits = [sum(map(str.isdigit, choice)) for choice in choices]
    return [own == max(digits) for own in digits]


def _inside(choices: Sequence[str], _: str) -> Sequence[bool]:
    values = first_numbers(choices)
    return [min(values) < own < max(values) for own in values]


TRAITS: Mapping[CueCode, Sequence[cues.Cue]] = {
    "length": (cues.LONGEST, cues.SHORTEST),
    "certainty": (cues.ABSOLUTE, cues.HEDGE, cues.NEGATION),
    "numbers": (cues.NUMBER,),
    "number_values": (
        cues.Cue(_most_digits, "is written with the most digits"),
        cues.Cue(_inside, "is between other numbers"),
        cues.Cue(lambda choices, _: [UNIT.search(choice) is not None for choice in choices], "has a unit"),
    ),
    "form": cues.FORM,
    "grammar": (cues.ARTICLE,),
    "repetition": (cues.REPEAT,),
    "pointer": (cues.POINTER,),
    "outer_space": tuple(
        cues.Cue(_at_end(end, blanks), f"{does} with {name}")
        for end, does in ((0, "begins"), (-1, "ends"))
        for name, blanks in _BLANKS.items()
    ),
    "odd_characters": (cues.ODD_CHARACTER,),
}
"""Traits of each cue that an option either has or lacks."""


def cue_names(
    items: Sequence[Item], cued_picks: Sequence[tuple[int, int, CueCode]], group: Ints
) -> dict[CueCode, dict[str, int]]:
    """Count the words or traits behind each cue, and keep the `MOST_NAMES` commonest of them. `cued_picks` has the index,
    the pick, and the cue of each item, which counts once for each of its words or traits. Without any, it counts for its
    clearest cue of `lint`. `group` (n,) is the representative of each item's group of near-duplicates. A name completes
    "the key ..."."""
    words = KeyWords(items, group) if any(cue == "words" for *_, cue in cued_picks) else None
    counts: dict[CueCode, Counter[str]] = defaultdict(Counter)
    for index, pick, cue in cued_picks:
        uses = words.supporting(index, pick)[:1] if cue == "words" and words is not None else ()
        traits = {f"{'has' if use.picked else 'has no'} “{use.word}”" for use in uses}
        traits.update(trait_names(cue, items[index].choices, pick))
        item = items[index]
        if not traits and (clearest := clearest_cue(item.choices, item.question or item.stem, pick)):
            traits = {clearest[1]}
        counts[cue].update(traits)
    ranked = {cue: sorted(of.items(), key=lambda entry: (-entry[1], entry[0])) for cue, of in counts.items()}
    return {cue: dict(of[:MOST_NAMES]) for cue, of in ranked.items() if of}


def trait_names(cue: CueCode, choices: Sequence[str], pick: int) -> Iterator[str]:
    """Yield the traits in which the pick differs from other options. Words and references to options are quoted."""
    options = [*choices[:pick], *choices[pick + 1 :]]
    match cue:
        case "word_length" | "function_words":
            own, mean = averages(cue, choices[pick], options)
            longer, more = ("longer", "more") if own > mean else ("shorter", "fewer")
            yield f"has {longer} words" if cue == "word_length" else f"has {more} function words"
        case "shared_words":
            others = set().union(*map(words_of, options))
            yield f"shares {'words' if others.intersection(words_of(choices[pick])) - FUNCTION_WORDS else 'no words'}"
    for trait in TRAITS.get(cue, ()):
        marks = trait.marks(choices, "")
        if len(set(marks)) < 2 or (trait.ahead and not marks[pick]):
            continue
        texts = [choices[pick]] if marks[pick] else list(compress(choices, marks))
        has = "has" if marks[pick] else "has no"
        if cue == "pointer":
            yield from (f"{has} “{' '.join(words_of(text))}”" for text in texts)
        elif trait.names_in:
            yield from (f"{has} {name}" for text in texts for name in trait.names_in(text))
        else:
            yield trait.having if marks[pick] else trait.lacking


def averages(cue: CueCode, picked: str, options: Sequence[str]) -> tuple[float, float]:
    """Return the mean of a cue over the words of the picked option, and the average of that mean over the other options:
    the letters of a word, or the share of function words."""
    of = len if cue == "word_length" else FUNCTION_WORDS.__contains__
    mean, *others = (sum(map(of, words)) / max(len(words), 1) for words in map(words_of, (picked, *options)))
    return mean, sum(others) / len(others)


def whole_cue(items: Sequence[Item]) -> WholeCue | None:
    """Return the cue in which keys differ most from chance, if there is one. It reads at most `MOST_FITTED` items."""
    sample = [items[i] for i in item_sample(np.ones(len(items), dtype=bool)).tolist()]
    use_of = cues_of(marks_of(sample), sample)
    clearest = max(use_of, key=lambda code: abs(use_of[code].keys - use_of[code].expected), default="")
    if not clearest:
        return None
    use = use_of[clearest]
    return WholeCue(rule=clearest, keys=use.keys, n=use.n, expected=use.expected, of=len(sample))
