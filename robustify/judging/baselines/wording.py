"""Word lists and patterns for choices: words, numbers, units, hedges, absolutes, and references to other choices."""

import re

FEWEST_WORDS = 5
"""Minimum number of words in a searched sequence. A shorter one, such as "the capital of France", is not specific."""
WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
UNIT = re.compile(
    r"\d\s*(?:%|°|(?:[kcmµn]?m|[kmµ]?g|ml|l|s|ms|min|hours?|h|days?|weeks?|months?|years?|[kmg]?hz|"
    r"[km]?w|[km]?v|[km]?j|k?pa|mol|kcal|miles?|feet|ft|inch(?:es)?|pounds?|tons?|percent|degrees?)\b)",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\b(?:all|none|both|neither|any|either|each|some|two|three|one) (?:of )?(?:the |these |those )?"
    r"(?:above|below|preceding|following|foregoing|other (?:choices|options|answers))\b"
    r"|^(?=.*\b(?:these|those|them|choices|options|answers|statements)\b)"
    r"(?:all|none|both|neither|any|either|each)(?: of)?(?: (?:these|those|them|the))?"
    r"(?: (?:choices|options|answers|statements))?(?: (?:is|are) (?:correct|true|right))?\W*$",
    re.IGNORECASE,
)


def word_set(text: str) -> frozenset[str]:
    """Split a list of words that is written as one string."""
    return frozenset(text.split())


HEDGES = word_set(
    "may might could can often usually sometimes generally typically likely probably possibly some most many "
    "tend tends mostly commonly perhaps partly approximately relatively normally frequently mainly largely "
    "roughly somewhat several varies depends"
)
ABSOLUTES = word_set(
    "always never all none every only entirely completely totally must cannot nobody nothing everyone "
    "everybody everything absolutely solely purely exclusively invariably impossible certainly definitely "
    "any anything wholly forever without no"
)
NEGATIONS = word_set("not no nor never none neither without cannot lack lacks fails")
ARTICLES = word_set("a an the")
FUNCTION_WORDS = ARTICLES | word_set(
    "of in on at by for to from with and or as that which it its is are was were be been this these than "
    "into their they he she his her has have had"
)


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded. A hyphen or an apostrophe joins two parts."""
    return WORD.findall(text.casefold())


def count_numbers(text: str) -> int:
    """Count the numbers in a text."""
    return len(NUMBER.findall(text))


# Every match of `_POINTER` contains one of these. None has an i, because `re` ignores case for a dotless i and
# `casefold` does not.
_POINTING = re.compile("these|them|those|above|below|preced|follow|forego|cho|opt|answers|statements")


def points_elsewhere(choice: str) -> bool:
    """Return whether a choice refers to the other choices, such as "all of the above"."""
    if _POINTING.search(choice.casefold()) is None:
        return False
    return _POINTER.search(choice.strip()) is not None
