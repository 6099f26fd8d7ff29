"""Whether a worded answer is right, without a judge: an option's words, and around them nothing but harmless ones.

Words are compared as whole tokens, formulas character by character, and signs, short symbols and the words after a number
as they are cased. A lone letter is no answer unless options were shown or it is an option's own text. What is not
certainly one option is undecided.
"""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from robustify.freeform.answer_text import (
    Finding,
    is_refusal,
    is_symbolic,
    no_answer,
    normalize_tokens,
    plain_text,
    right,
    said,
    squash,
    undecided,
    written_tokens,
    wrong,
)
from robustify.freeform.grade.claims import agreed, cores

_BULLET = re.compile(r"^\s*[-*+•]\s+(?!\d)")
_LETTER = re.compile(
    r"(?:(?:option|choice)\s*:?\s*)?[(\[]?([A-Za-z])(?:[)\]]?[.:]?|[)\].:]+\s*(\S.*))", re.IGNORECASE
)
_FIRST = re.compile(r"^\W*(\w+)")
_JOINT = re.compile(r"\s*(?:,\s|;|\b(?:and/or|and|or|und|oder|et|ou|y|o|e)\b)\s*", re.IGNORECASE)
_HARMLESS = frozenset(" .,;:!'\"()[]{}*_`-–—…«»„“”‘’、。，：·•")
# "A-" and "f'" are not "A" and "f"; 5' are minutes or feet.
_SIGNIFICANT = re.compile(r"(?<=\w)[-–](?!\w)|(?<=\d)['\"’]|(?<![^\W_])[^\W_]['’](?!\w)")


def find_choice(
    answer: str, options: Sequence[str], correct: int, aliases: Sequence[str] = (), question: str = "", shown: bool = False,
) -> Finding:  # fmt: skip
    """Whether an answer is the option `correct`, one of its `aliases`, or certainly another one.

    `question` may be repeated around the option; `shown`: the model saw lettered options, so that a letter is one.
    """
    text = said(answer)
    if isinstance(text, Finding):
        return text
    tokens = set(normalize_tokens(question))
    # A question that names an option itself ("gold or lead?") says nothing when it is repeated.
    naming = any(set(normalize_tokens(option)) <= tokens for option in (*options, *aliases))
    lettered = any(re.match(r"[B-HJ-Z]\b", option) for option in options)
    known = _Options(tuple(options), correct, tuple(aliases), "" if naming else question, shown, lettered)
    found = agreed(text, known.find)
    if found.score is None and is_refusal(text):
        return no_answer("refusal")
    return found


def find_explanation(answer: str, reference: str) -> Finding:
    """Whether an explanation has the reference's words; everything else is left to a judge."""
    if not normalize_tokens(reference):
        return Finding("reference_error", None, None, "reference_is_empty")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    if same_words(text, reference):
        return right("equal", text)
    return no_answer("refusal") if is_refusal(text) else undecided("explanation", text)


@dataclass(frozen=True, slots=True, repr=False)
class _Options:
    """The options of one item, and whether a claim is certainly one of them."""

    options: tuple[str, ...]
    correct: int
    aliases: tuple[str, ...]
    question: str
    shown: bool
    lettered: bool
    """Whether options begin with letters, so that an "A" is none of the articles ("A positive")."""

    def find(self, claim: str) -> Finding:
        """What one claim says."""
        for core in cores(_BULLET.sub("", plain_text(claim)), self.question):
            letter = _LETTER.fullmatch(core)
            if letter is not None and letter[1].upper() not in string.ascii_uppercase[: len(self.options)]:
                letter = None
            # "A. green" is no article where options were shown.
            named = None if letter is not None and letter[2] and self.shown else self._named(core)
            if named is not None:
                return right("equal", claim) if named == self.correct else wrong("other_option", claim)
            if letter is not None:
                return self._lettered(letter[1].upper(), letter[2], claim)
        parts = _JOINT.split(core) if len(core) <= 1000 else []
        listed = {self._named(part) for part in parts}
        mine = sorted(normalize_tokens(self.options[self.correct]))
        # A key of several parts may be given in another order.
        if len(listed) > 1 and None not in listed and sorted(normalize_tokens(core)) != mine:
            return wrong("multiple_options", claim)
        return undecided("symbolic" if is_symbolic(core) else "no_option_alone", claim)

    def _named(self, core: str) -> int | None:
        """The one option that a text is, or None: also where two options are the same but for case or signs."""
        wordings = [*enumerate(self.options), *((self.correct, alias) for alias in self.aliases)]
        named = {i for i, wording in wordings if same_words(core, wording, self.lettered)}
        if len(named) > 1:
            named = {i for i, wording in wordings if plain_text(wording).rstrip(".") == core.rstrip(".")}
        return named.pop() if len(named) == 1 else None

    def _lettered(self, letter: str, rest: str | None, claim: str) -> Finding:
        place, by_text = string.ascii_uppercase.index(letter), None if rest is None else self._named(rest)
        if not self.shown and by_text is None:
            # "C" may stand for "vitamin C".
            within = any(letter.lower() in normalize_tokens(o) for o in (*self.options, *self.aliases))
            return undecided("letter", claim) if rest or within else no_answer("letter_without_options")
        if self.shown and rest is not None and by_text != place:
            return undecided("letter_and_text_differ", claim)
        chosen = place if by_text is None else by_text
        return right("letter", claim) if chosen == self.correct else wrong("other_option", claim)


def same_words(text: str, wording: str, lettered: bool = False) -> bool:
    """Whether two texts have the same words and signs, articles and harmless marks aside.

    A formula is compared character by character. Of words, those up to two letters and those after a number are
    compared as they are cased ("CO" and "Co", "5 MW" and "5 mW"). `lettered`: a first "A" is no article.
    """
    if is_symbolic(wording) or is_symbolic(text):
        return squash(text) == squash(wording)
    if normalize_tokens(text) != normalize_tokens(wording) or _marks(text) != _marks(wording):
        return False
    mine, theirs = written_tokens(text), written_tokens(wording)
    if lettered and _FIRST.findall(text)[:1] != _FIRST.findall(wording)[:1]:
        return False
    return bool(mine) and all(
        _same_case(a, b, place, theirs) for place, (a, b) in enumerate(zip(mine, theirs, strict=True))
    )


def _same_case(a: str, b: str, place: int, words: Sequence[str]) -> bool:
    """Whether two words that fold alike are the same: a symbol, or a unit after a number, is as it is cased."""
    letters = len(b.rstrip(string.digits))
    if a == b or letters > 3:
        return True
    if place and words[place - 1][-1].isdigit():
        return False
    return letters > 2 or (len(words) > 1 and (a.islower() or b.islower()))


@lru_cache(maxsize=1024)
def _marks(text: str) -> str:
    """The characters of a text that are neither words nor harmless."""
    plain = plain_text(text)
    signs = _SIGNIFICANT.findall(plain)
    return "".join([*(c for c in plain if not c.isalnum() and c not in _HARMLESS), *signs])
