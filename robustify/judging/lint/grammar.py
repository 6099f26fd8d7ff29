"""Options that agree with the grammar of an English question, and those that do not.

Words are recognized by lists and endings, without a parser, so a finding about one item is only a hint.
"""

import re
from collections.abc import Sequence

from robustify.judging.baselines.wording import word_set, words_of
from robustify.judging.lint.cues import Cue

_BLANK = re.compile(r"_{2,}|\.{3,}|…")
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
_VOWEL = re.compile(
    r"(?!uni(?![nmd])|us[aeu]|ut[eio]|eu|ew|ubi|ur[aeo]|on[ce]+\b)[aeiou]|hour|hono|honest|heir"
)
_UNSURE = re.compile(r"[A-Z]{2,}|[A-Za-z]\b|[^A-Za-z]|an\b|the\b")
"""Start of an option whose sound is unknown, or which has an article."""


def _ends(stem: str) -> list[str]:
    """Return the last two words before the answer of an English sentence to complete, or [] for any other question."""
    before = _BLANK.split(stem, maxsplit=1)[0]
    words = words_of(before)
    return [] if before.rstrip().endswith("?") or len(_ENGLISH.intersection(words)) < 2 else words[-2:]


def _after_article(choices: Sequence[str], stem: str) -> Sequence[bool]:
    articles = [word for word in _ends(stem) if word in ("a", "an")]
    # A careful author writes "a/an".
    if not articles or articles != _ends(stem)[-1:] or any(_UNSURE.match(one.strip()) for one in choices):
        return ()
    return [(_VOWEL.match(one.strip().casefold()) is not None) == (articles == ["an"]) for one in choices]


def _in_number(choices: Sequence[str], stem: str) -> Sequence[bool]:
    asks = _ASKS.match(stem)
    demands = {*_ends(stem)[-1:], *([asks[1].casefold()] if asks else [])}
    if bool(demands & _SINGULAR) == bool(demands & _PLURAL):
        return ()
    return [_is_plural(one) == bool(demands & _PLURAL) for one in choices]


def _is_plural(choice: str) -> bool:
    words = words_of(_AFTER_NOUN.sub("", choice.strip())) or [""]
    by_ending = _ends_in_s(words[-1]) and not words[-1].endswith("is") and words[-1] not in _SINGULAR_NOUNS
    return by_ending or "and" in words or words[-1] in _PLURAL_NOUNS


def _ends_in_s(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us"))


def _as_verb(choices: Sequence[str], stem: str) -> Sequence[bool]:
    last, firsts = "".join(_ends(stem)[-1:]), [(words_of(one) or [""])[0] for one in choices]
    if last in _THEY:
        return [not _ends_in_s(one) for one in firsts]
    if last in _IT:
        return [_ends_in_s(one) or one.endswith("ed") or one in _OF_IT for one in firsts]
    return [not one.endswith(("ing", "ed")) or len(one) < 5 for one in firsts] if last in _BEFORE_BASE else ()


AFTER_ARTICLE = Cue(_after_article, "fits “a” or “an” in the question")
IN_NUMBER = Cue(_in_number, "is singular or plural as the question asks")
AS_VERB = Cue(_as_verb, "begins with the verb form that the question needs")
