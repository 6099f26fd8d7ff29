"""Cues: differences between an item's options that may give its key away, with the words that describe them.

The sentences about an item's cues and the rules of `lint` are about the same differences. Grammar is recognized by lists
and endings of English words, without a parser, so a finding about one item is only a hint.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, compress
from string import ascii_uppercase
from sys import intern

from robustify.base.odd_characters import character_name, hidden_characters, odd_characters
from robustify.base.redaction import HoldsText
from robustify.base.texts import EDGES
from robustify.items.item import MOST
from robustify.judging.baselines.wording import (
    ABSOLUTES,
    ARTICLES,
    HEDGES,
    NEGATIONS,
    count_numbers,
    points_elsewhere,
    word_set,
    words_of,
)
from robustify.judging.cloze import refer_to_others

Marks = Callable[[Sequence[str], str], Sequence[bool]]
"""Function of options and their question that returns which options have a cue, or () if that is unknown."""
SHORTEST_TYPED, SHORTEST_EDITED = 5, 7
"""Fewest letters of a word in which two neighboring letters may be swapped, or one missing, added, or replaced."""
MOST_NAMED = 3
CLEARLY, FEWEST_CHARS = 0.4, 10
"""Smallest difference in length that stands out: a share of the next length, and a number of characters."""

_BLANK, _BLANKS = re.compile(r"_{2,}|\.{3,}|…"), ("__", "...", "…")
_ENGLISH = word_set("the of is are which what who in to and an that this these does do was were")
_ASKS = re.compile(r"(?:what|which|who) (is|was|are|were)\b", re.IGNORECASE)
_SINGULAR = word_set("is was a an this each every has includes")
_PLURAL = word_set("are were these those have include many several")
_PLURAL_NOUNS = word_set("men women people children mice feet teeth bacteria fungi algae")
_SINGULAR_NOUNS = word_set("physics mathematics species series news gas lens bus this its as has was")
_AFTER_NOUN = re.compile(
    r"\s(?:of|in|on|at|with|for|from|to|by|between|that|which|who|because)\s.*", re.DOTALL
)
_THEY, _IT = word_set("they we you i"), word_set("it he she")
_OF_IT = word_set("can could will would may might must had did")
_BEFORE_BASE = word_set("to will can could should must may might would did does do cannot")
_NEEDING_A_VERB = _THEY | _IT | _BEFORE_BASE
_VOWEL = re.compile(
    r"(?!uni(?![nmd])|us[aeu]|ut[eio]|eu|ew|ubi|ur[aeo]|on[ce]+\b)[aeiou]|hour|hono|honest|heir"
)
_UNSURE = re.compile(r"[A-Z]{2,}|[A-Za-z]\b|[^A-Za-z]|an\b|the\b")
"""Start of an option whose sound is unknown, or which has an article."""


@dataclass(frozen=True, repr=False)
class SetTexts(HoldsText):
    """Options and question of each item in a set, and properties of the texts that several cues use."""

    choices: Sequence[Sequence[str]]
    questions: Sequence[str]

    @cached_property
    def options(self) -> list[str]:
        """Options of all items, one after another."""
        return list(chain.from_iterable(self.choices))

    @cached_property
    def option_words(self) -> list[list[str]]:
        """Words of each option."""
        return _shared_words(self.options)

    @cached_property
    def question_words(self) -> list[list[str]]:
        """Words of each question."""
        return _shared_words(self.questions)

    @cached_property
    def gaps(self) -> list[list[str]]:
        """Words before the gap of each question."""
        return list(map(_before_gap, self.questions, self.question_words))

    @cached_property
    def pointers(self) -> bytes:
        """One byte per option: 1 if the option refers to other options, and otherwise 0."""
        return bytes(chain.from_iterable(map(refer_to_others, self.choices)))

    def marked(self, rows: Iterable[Sequence[bool]]) -> bytes:
        """Concatenate the marks of all items, one byte per option. If an item's row is empty, its marks are 0."""
        return b"".join(bytes(row or len(own)) for row, own in zip(rows, self.choices, strict=True))


def _shared_words(texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text. Equal words are the same object, because most words occur in many texts."""
    return [list(map(intern, words_of(text))) for text in texts]


@dataclass(frozen=True, slots=True)
class Cue:
    """Trait that some options of an item have and others lack. `having` completes "the key ..." for an option that has it.

    `names_in` returns the listed words or the characters that make it in an option. `ahead` returns by how many characters
    an option is longer or shorter than the next, and their share of the next length. `among` marks the options of many
    items, one byte for each, like `marks` but faster, or also by what other items show.
    """

    marks: Marks
    having: str
    names_in: Callable[[str], set[str]] | None = None
    ahead: Callable[[Sequence[str], int], tuple[int, float]] | None = None
    among: Callable[[SetTexts], bytes] | None = None

    def marks_among(self, texts: SetTexts) -> bytes:
        """Return one byte per option of all items: whether the option has the cue."""
        rows = map(self.marks, texts.choices, texts.questions)
        return self.among(texts) if self.among else texts.marked(rows)

    @property
    def lacking(self) -> str:
        """Description of an option without the cue, such as `has no number` for `has a number`."""
        verb, what = self.having.split(" ", 1)
        match verb:
            case "has" | "holds":
                return f"{verb} no {what.removeprefix('a ').removeprefix('an ')}"
            case "is":
                return f"is not {what}"
        return f"does not {verb[:-1]} {what}"

    def unlike(self, subject: str, choices: Sequence[str], pick: int, marks: Sequence[int]) -> str:
        """Describe how the option `pick` differs from some or all other options. Return "" if it does not differ."""
        others, differ = len(choices) - 1, sum(mark != marks[pick] for mark in marks)
        if not differ or (self.ahead and not marks[pick]):
            return ""
        says = f"{subject} {self.having if marks[pick] else self.lacking}"
        if self.names_in:
            texts = [choices[pick]] if marks[pick] else compress(choices, marks)
            names = sorted(set(chain.from_iterable(map(self.names_in, texts))))
            says += f" ({', '.join(names[:MOST_NAMED])})" if names else ""
        if self.ahead:
            return f"{says} by {100 * self.ahead(choices, pick)[1]:.0f} %"
        return f"only {says}" if differ == others else f"{says}, unlike {differ} of the {others} others"

    def stands_out(self, choices: Sequence[str], pick: int, marks: Sequence[int]) -> bool:
        """Return whether only the option `pick` has or lacks the cue, or is clearly longer or shorter than all others."""
        if self.ahead:
            by, share = self.ahead(choices, pick)
            return by >= FEWEST_CHARS and share >= CLEARLY
        return sum(mark != marks[pick] for mark in marks) == len(choices) - 1


def _trait(
    test: Callable[[str], bool], having: str, names_in: Callable[[str], set[str]] | None = None
) -> Cue:
    """Return the cue of options that pass a test."""
    return Cue(
        lambda choices, _: [test(choice) for choice in choices],
        having,
        names_in,
        among=lambda texts: bytes(map(test, texts.options)),
    )


_words = lru_cache(2 * MOST)(words_of)
"""Words of a text, which several cues of an item read. No caller changes them."""


def _certainty(listed: frozenset[str], having: str) -> Cue:
    """Return the cue of a listed word. The option "none of the above" does not have this cue, because it is a `POINTER`."""

    def marks(choices: Sequence[str], _: str) -> Sequence[bool]:
        has = [not listed.isdisjoint(_words(choice)) for choice in choices]
        return [a and not b for a, b in zip(has, refer_to_others(choices), strict=True)] if any(has) else has

    def names(choice: str) -> set[str]:
        return (
            set()
            if points_elsewhere(choice)
            else {f"“{word}”" for word in listed.intersection(_words(choice))}
        )

    def among(texts: SetTexts) -> bytes:
        has = (not listed.isdisjoint(words) for words in texts.option_words)
        return bytes(a and not b for a, b in zip(has, texts.pointers, strict=True))

    return Cue(marks, having, names, among=among)


def _odd_in(choice: str) -> set[str]:
    return {character_name(sign) for _, sign in odd_characters(choice.strip(EDGES))}


def characters_named(choices: Sequence[str]) -> str:
    """Describe the hidden characters of each option by code point and count. Options are named by letter."""
    rows = zip(ascii_uppercase, hidden_characters(choices), strict=False)
    return "; ".join(
        f"option {letter} has {', '.join(f'{n} x {character_name(sign)}' for sign, n in counts.items())}"
        for letter, counts in rows
        if counts
    )


def _sign(signs: str, having: str) -> Cue:
    return _trait(lambda choice: any(map(choice.__contains__, signs)), having)


def _extreme(which: str, sign: int) -> Cue:
    """Return the cue of being the longest option (`sign` 1) or the shortest (-1). Tied options do not have it."""

    def ahead(choices: Sequence[str], pick: int) -> tuple[int, float]:
        others = [sign * len(choice.strip(EDGES)) for choice in choices]
        by = others.pop(pick) - max(others)
        return by, by / max(1, abs(max(others)))

    def marks(choices: Sequence[str], _: str) -> Sequence[bool]:
        sizes = [sign * len(choice.strip(EDGES)) for choice in choices]
        most = max(sizes)
        return [size == most for size in sizes] if sizes.count(most) == 1 else [False] * len(sizes)

    return Cue(marks, f"is the {which} option", ahead=ahead)


def _before_gap(question: str, words: list[str] | None = None) -> list[str]:
    """Return the two words before the gap in an English sentence, or [] for any other question. `words` are those of the
    question, if they are known."""
    is_filled = not any(map(question.__contains__, _BLANKS))
    before = question if is_filled else _BLANK.split(question, maxsplit=1)[0]
    if before.rstrip().endswith("?"):
        return []
    words = words if words is not None and len(before) == len(question) else words_of(before)
    return [] if len(_ENGLISH.intersection(words)) < 2 else words[-2:]


def _grammar(fits: Callable[[Sequence[str], str, list[str]], Sequence[bool]], having: str) -> Cue:
    """Return the cue of options that fit their question and the words before its gap."""
    return Cue(
        lambda choices, question: fits(choices, question, _before_gap(question)),
        having,
        among=lambda texts: texts.marked(map(fits, texts.choices, texts.questions, texts.gaps)),
    )


def _after_article(choices: Sequence[str], _: str, gap: list[str]) -> Sequence[bool]:
    articles = [word for word in gap if word in ("a", "an")]
    # A careful author writes "a/an".
    if not articles or articles != gap[-1:] or any(_UNSURE.match(choice.strip()) for choice in choices):
        return ()
    return [
        (_VOWEL.match(choice.strip().casefold()) is not None) == (articles == ["an"]) for choice in choices
    ]


def _in_number(choices: Sequence[str], question: str, gap: list[str]) -> Sequence[bool]:
    asks = _ASKS.match(question)
    demands = {*gap[-1:], *([asks[1].casefold()] if asks else [])}
    if bool(demands & _SINGULAR) == bool(demands & _PLURAL):
        return ()
    return [_is_plural(choice) == bool(demands & _PLURAL) for choice in choices]


def _is_plural(choice: str) -> bool:
    words = words_of(_AFTER_NOUN.sub("", choice.strip())) or [""]
    by_ending = _ends_in_s(words[-1]) and not words[-1].endswith("is") and words[-1] not in _SINGULAR_NOUNS
    return by_ending or "and" in words or words[-1] in _PLURAL_NOUNS


def _ends_in_s(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us"))


def _as_verb(choices: Sequence[str], _: str, gap: list[str]) -> Sequence[bool]:
    last = "".join(gap[-1:])
    if last not in _NEEDING_A_VERB:
        return ()
    firsts = [(_words(choice) or [""])[0] for choice in choices]
    if last in _THEY:
        return [not _ends_in_s(word) for word in firsts]
    if last in _IT:
        return [_ends_in_s(word) or word.endswith("ed") or word in _OF_IT for word in firsts]
    return [not word.endswith(("ing", "ed")) or len(word) < 5 for word in firsts]


def _typing_errors(texts: SetTexts) -> bytes:
    """Mark the options that have a typing error, which is found by comparing words across all items.

    It is a word that occurs only once in all texts and is one error from a word that occurs more often. The first two and
    the last two letters are right unless two are swapped, because endings make other words.
    """
    times = Counter(chain.from_iterable(chain(texts.option_words, texts.question_words)))
    often = {word for word, n in times.items() if n > 1 and len(word) >= SHORTEST_TYPED}
    gaps = {gap for word in often if len(word) >= SHORTEST_EDITED for gap in _without_a_letter(word)}
    shorter = {letters for _, letters in gaps}

    def is_error(word: str) -> bool:
        if len(word) < SHORTEST_TYPED or not word.isalpha():
            return False
        swapped = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(1, len(word) - 1)]
        if not often.isdisjoint(swapped) or len(word) < SHORTEST_EDITED:
            return not often.isdisjoint(swapped)
        return word in shorter or any(gap in gaps or gap[1] in often for gap in _without_a_letter(word))

    errors = {word for word, n in times.items() if n == 1 and is_error(word)}
    return bytes(not errors.isdisjoint(words) for words in texts.option_words)


def _without_a_letter(word: str) -> list[tuple[int, str]]:
    return [(i, word[:i] + word[i + 1 :]) for i in range(2, len(word) - 2)]


LONGEST, SHORTEST = _extreme("longest", 1), _extreme("shortest", -1)
ABSOLUTE = _certainty(ABSOLUTES, "has an absolute word")
HEDGE, NEGATION = _certainty(HEDGES, "has a hedge"), _certainty(NEGATIONS, "has a negation")
NUMBER = _trait(lambda choice: count_numbers(choice) > 0, "holds a number")
CAPITAL = _trait(lambda choice: choice.strip()[:1].isupper(), "begins with a capital letter")
FINAL_MARK = _trait(
    lambda choice: choice.strip().endswith((".", "!", "?", ";")), "ends with a punctuation mark"
)
COMMA = _trait(lambda choice: "," in choice, "has a comma")
BRACKET = _trait(lambda choice: "(" in choice, "has a bracket")
HYPHEN = _sign("-–", "has a hyphen or dash")
DASH = _sign("–—", "has a dash")
CURLY = _sign("‘’“”", "has a curly quotation mark")
ONE_WORD = _trait(lambda choice: len(choice.split()) == 1, "is a single word")
CAPITALS = _trait(lambda choice: choice.strip().isupper(), "is in capital letters")
ARTICLE = _trait(lambda choice: not ARTICLES.isdisjoint(words_of(choice)[:1]), "begins with an article")
REPEAT = _trait(lambda choice: len(set(words_of(choice))) < len(words_of(choice)), "repeats a word")
POINTER = Cue(
    lambda choices, _: refer_to_others(choices),
    "refers to the other options",
    among=lambda texts: texts.pointers,
)
ODD_CHARACTER = _trait(
    lambda choice: bool(_odd_in(choice)), "has an invisible or look-alike character", _odd_in
)
OUTER_SPACE = _trait(lambda choice: choice.strip(EDGES) != choice, "has white space at an end")
FORM = (CAPITAL, FINAL_MARK, NUMBER, COMMA, BRACKET, HYPHEN, ONE_WORD, CAPITALS)
TYPING_ERROR = Cue(lambda choices, _: (), "has a typing error", among=_typing_errors)
AFTER_ARTICLE = _grammar(_after_article, "fits “a” or “an” in the question")
IN_NUMBER = _grammar(_in_number, "is singular or plural as the question asks")
AS_VERB = _grammar(_as_verb, "begins with the verb form that the question needs")
