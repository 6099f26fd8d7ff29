"""Cues: differences between the options of an item by which its key may be known, with the words for them.

The sentences about an item's cues and the rules of `lint` are about the same differences.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from robustify.base.texts import EDGES
from robustify.judging.baselines.wording import (
    ABSOLUTES,
    ARTICLES,
    HEDGES,
    NEGATIONS,
    count_numbers,
    points_elsewhere,
    words_of,
)

Marks = Callable[[Sequence[str], str], Sequence[bool]]
"""Function of options and their question that returns which options have a cue, or () if that is unknown."""
CLEARLY, FEWEST_CHARS = 0.4, 10
"""Smallest difference in length that stands out: a share of the next length, and a number of characters."""


@dataclass(frozen=True, slots=True)
class Cue:
    """Difference between options, with texts for an option that has it and for one that lacks it.

    `words` are the listed words that make it. `ahead` returns by how many characters an option is longer or shorter than
    the next, and their share of the next length.
    """

    marks: Marks
    having: str
    lacking: str
    words: frozenset[str] = frozenset()
    ahead: Callable[[Sequence[str], int], tuple[int, float]] | None = None

    def unlike(self, subject: str, choices: Sequence[str], pick: int, stem: str = "") -> str:
        """Describe how the option `pick` differs from some or all others, or return "" if it does not."""
        marks, others = self.marks(choices, stem), len(choices) - 1
        differ = sum(one != marks[pick] for one in marks)
        if not differ or (self.ahead and not marks[pick]):
            return ""
        says = f"{subject} {self.having if marks[pick] else self.lacking}"
        if self.ahead:
            return f"{says} by {100 * self.ahead(choices, pick)[1]:.0f} %"
        return f"only {says}" if differ == others else f"{says}, unlike {differ} of the {others} others"

    def stands_out(self, choices: Sequence[str], pick: int, stem: str = "") -> bool:
        """Return whether only the option `pick` has it or lacks it, or is clearly longer or shorter than all others."""
        if self.ahead:
            by, share = self.ahead(choices, pick)
            return by >= FEWEST_CHARS and share >= CLEARLY
        return self.unlike("", choices, pick, stem).startswith("only")


def _if(test: Callable[[str], bool]) -> Marks:
    """Return the marks of a test of one option."""
    return lambda choices, _: [test(choice) for choice in choices]


def _word(listed: Collection[str], first: int | None = None) -> Marks:
    """Return the options with a listed word among their first words, or among all."""
    return _if(lambda choice: not set(listed).isdisjoint(words_of(choice)[:first]))


def _sign(signs: str) -> Marks:
    return _if(lambda choice: not set(signs).isdisjoint(choice))


def _extreme(which: str, sign: int) -> Cue:
    """Return the cue of the longest option (`sign` 1) or the shortest (-1). Tied options do not have it."""

    def sizes(choices: Sequence[str]) -> list[int]:
        return [sign * len(choice.strip(EDGES)) for choice in choices]

    def marks(choices: Sequence[str], _: str) -> Sequence[bool]:
        found = sizes(choices)
        return [size == max(found) and found.count(size) == 1 for size in found]

    def ahead(choices: Sequence[str], pick: int) -> tuple[int, float]:
        others = sizes(choices)
        by = others.pop(pick) - max(others)
        return by, by / max(1, abs(max(others)))

    return Cue(marks, f"is the {which} option", f"is not the {which} option", ahead=ahead)


LONGEST, SHORTEST = _extreme("longest", 1), _extreme("shortest", -1)
ABSOLUTE = Cue(_word(ABSOLUTES), "has an absolute word", "has no absolute word", ABSOLUTES)
HEDGE = Cue(_word(HEDGES), "has a hedge", "has no hedge", HEDGES)
NEGATION = Cue(_word(NEGATIONS), "has a negation", "has no negation", NEGATIONS)
NUMBER = Cue(_if(lambda one: count_numbers(one) > 0), "holds a number", "holds no number")
CAPITAL = Cue(
    _if(lambda one: one.strip()[:1].isupper()), "begins with a capital letter", "does not begin with a capital letter"
)  # fmt: skip
FINAL_MARK = Cue(
    _if(lambda one: one.strip().endswith((".", "!", "?", ";"))), "ends with a punctuation mark",
    "does not end with a punctuation mark",
)  # fmt: skip
COMMA = Cue(_sign(","), "has a comma", "has no comma")
BRACKET = Cue(_sign("("), "has a bracket", "has no bracket")
HYPHEN = Cue(_sign("-–"), "has a hyphen or dash", "has no hyphen or dash")
DASH = Cue(_sign("–—"), "has a dash", "has no dash")
CURLY = Cue(_sign("‘’“”"), "has a curly quotation mark", "has no curly quotation mark")
ONE_WORD = Cue(_if(lambda one: len(one.split()) == 1), "is a single word", "is more than one word")
CAPITALS = Cue(_if(lambda one: one.strip().isupper()), "is in capital letters", "is not in capital letters")
ARTICLE = Cue(_word(ARTICLES, 1), "begins with an article", "does not begin with an article")
REPEAT = Cue(
    _if(lambda one: len(set(words_of(one))) < len(words_of(one))), "repeats a word", "does not repeat a word"
)
POINTER = Cue(_if(points_elsewhere), "refers to the other options", "does not refer to the other options")
OUTER_SPACE = Cue(
    _if(lambda one: one.strip(EDGES) != one), "begins or ends with white space", "does not begin or end with white space"
)  # fmt: skip
FORM = (CAPITAL, FINAL_MARK, NUMBER, COMMA, BRACKET, HYPHEN, ONE_WORD, CAPITALS)
