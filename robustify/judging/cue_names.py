"""What the cues of flagged items consist of: a word, the text of an option, or a property of its form.

The traits of cues are also those of the sentences about single items.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np

from robustify.base.arrays import Ints
from robustify.base.texts import EDGES
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import drawn
from robustify.judging.baselines.features import first_numbers
from robustify.judging.baselines.wording import UNIT, words_of
from robustify.judging.baselines.words import KeyWords
from robustify.judging.lint import cues
from robustify.judging.lint.findings import cues_of, marks_of
from robustify.judging.summary.screened import CueCode, WholeCue

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
        cues.Cue(lambda choices, _: [UNIT.search(one) is not None for one in choices], "has a unit"),
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
}
"""Traits of each cue that an option either has or lacks."""


def cue_names(
    items: Sequence[Item], found: Sequence[tuple[int, int, CueCode]], group: Ints
) -> dict[CueCode, dict[str, int]]:
    """Count the items whose cue is the same word or trait, the commonest first, at most `MOST_NAMES` for each cue.

    `found` has the index, the pick, and the cue of each item, which counts once for each of its words or traits. `group`
    (n,) is the representative of each item's group of near-duplicates. A name completes "the key ...".
    """
    words = KeyWords(items, group) if any(cue == "words" for *_, cue in found) else None
    counts: dict[CueCode, Counter[str]] = defaultdict(Counter)
    for at, pick, cue in found:
        uses = words.of(at, pick)[:1] if cue == "words" and words is not None else ()
        own = {f"{'has' if use.picked else 'has no'} “{use.word}”" for use in uses}
        counts[cue].update(own.union(trait_names(cue, items[at].choices, pick)))
    ranked = {cue: sorted(of.items(), key=lambda one: (-one[1], one[0])) for cue, of in counts.items()}
    return {cue: dict(names[:MOST_NAMES]) for cue, names in ranked.items() if names}


def trait_names(cue: CueCode, choices: Sequence[str], pick: int) -> Iterator[str]:
    """Yield the traits in which the pick is unlike other options, by the words of a list or by a pointing text if any."""
    for trait in TRAITS.get(cue, ()):
        marks = trait.marks(choices, "")
        if len(set(marks)) < 2 or (trait.ahead and not marks[pick]):
            continue
        texts = [choices[pick]] if marks[pick] else list(compress(choices, marks))
        has = "has" if marks[pick] else "has no"
        if cue == "pointer":
            yield from (f"{has} “{' '.join(words_of(text))}”" for text in texts)
        elif trait.words:
            yield from (
                f"{has} “{word}”" for text in texts for word in trait.words.intersection(words_of(text))
            )
        else:
            yield trait.having if marks[pick] else trait.lacking


def whole_cue(items: Sequence[Item]) -> WholeCue | None:
    """Return the rule of `lint` whose cue marks the most keys beyond chance, on at most `MOST_FITTED` items, or None."""
    some = [items[at] for at in drawn(np.ones(len(items), dtype=bool)).tolist()]
    found = cues_of(marks_of(some), some)
    code = max(found, key=lambda one: abs(found[one].keys - found[one].expected), default="")
    if not code:
        return None
    at = found[code]
    return WholeCue(rule=code, keys=at.keys, n=at.n, expected=at.expected, of=len(some))
