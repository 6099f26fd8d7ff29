"""Rules for worded answers: an answer is decided only if it is certainly one option, by its text or its shown letter."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from robustify.freeform.grade.findings import (
    Finding,
    agreed,
    core_texts,
    plain_text,
    right,
    said,
    undecided,
    wrong,
)
from robustify.marks.labelling import LETTERS
from robustify.marks.picks import Picked, read_pick
from robustify.texts import in_words

_ARTICLE = re.compile(r"(?:[Tt]he|[Aa]n|a)\s+(?=\w\w)")
_WORD = re.compile(r"\w+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words and numbers of a text with folded case, without articles."""
    return tuple(word for word in _WORD.findall(in_words(text)) if word not in ("a", "an", "the"))


def find_choice(
    answer: str, options: Sequence[str], correct: int, aliases: Sequence[str] = (), question: str = "", shown: bool = False,
) -> Finding:  # fmt: skip
    """Decide whether an answer is the correct option, one of its aliases, or certainly another option.

    With `shown`, the model saw lettered options, so that a letter is an answer.
    """
    text = said(answer)
    if isinstance(text, Finding):
        return text
    known = _Options(tuple(map(plain_text, (*options, *aliases))), len(options), correct, question)
    if shown:
        letters = LETTERS[: len(options)]
        found = read_pick(text, options, letters)
        if isinstance(found, Picked) and found.how == "explained" and _other_mark(text, letters, found.index):
            return undecided("several_results", text)
        return known.found(found.index, text) if isinstance(found, Picked) else undecided("no_option", text)
    return agreed(text, known.find)


def find_explanation(answer: str, reference: str) -> Finding:
    """Accept an explanation that repeats the reference word for word. Any other explanation needs a judge."""
    if not words_of(reference):
        return Finding("reference_error", None, None, "reference_is_empty")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    same = _bare(text).casefold() == _bare(reference).casefold()
    return right("equal", text) if same else undecided("explanation", text)


def _other_mark(text: str, letters: Sequence[str], index: int) -> bool:
    """Return whether a text has the letter of another option than the one at `index`. The "A" of "A stone" is none."""
    marks = re.findall(r"\b[A-Z]\b(?!\s[a-z])", text)
    return any(mark.casefold() in letters and mark.casefold() != letters[index] for mark in marks)


def _bare(text: str) -> str:
    return _ARTICLE.sub("", plain_text(text), count=1).rstrip(".")


@dataclass(frozen=True, slots=True, repr=False)
class _Options:
    """The options of one item and the aliases of the correct one, in the form of `plain_text`."""

    texts: tuple[str, ...]
    k: int
    correct: int
    question: str

    def find(self, claim: str) -> Finding:
        """Find the option that a claim names by its text."""
        plain = plain_text(claim)
        for core in core_texts(plain, self.question):
            named = self._named(core)
            if named is not None:
                left = words_of(plain.replace(core, " ", 1))
                # "Yes, no" names two options, and so does "It is right" of a hand.
                other = any(set(words) <= set(left) for text in self.texts if (words := words_of(text)))
                return undecided("several_results", claim) if other else self.found(named, claim)
        return undecided("no_option", claim)

    def found(self, option: int, claim: str) -> Finding:
        """Return the finding for an option, or for an alias behind the options."""
        return (
            right("equal", claim)
            if option == self.correct or option >= self.k
            else wrong("other_option", claim)
        )

    def _named(self, core: str) -> int | None:
        """Return the index of the only option with a text, apart from its article and free case."""
        bare, texts = _bare(core), tuple(map(_bare, self.texts))
        exact = [at for at, text in enumerate(self.texts) if text == core]
        exact = exact or [at for at, text in enumerate(texts) if text == bare]
        loose = [at for at, text in enumerate(texts) if text.casefold() == bare.casefold()]
        same = {at if at < self.k else self.correct for at in exact or loose}
        return same.pop() if len(same) == 1 and (exact or _case_is_free(bare, texts[loose[0]])) else None


def _case_is_free(text: str, other: str) -> bool:
    """Return whether two texts differ only in the case of longer words. "CO" differs from "Co" and "5 MW" from "5 mW"."""
    pairs = list(zip(_WORD.findall(text), _WORD.findall(other), strict=True))
    return all(
        a == b or (len(a) > 2 and not (at and pairs[at - 1][0][-1].isdigit()))
        for at, (a, b) in enumerate(pairs)
    )
