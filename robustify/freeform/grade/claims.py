"""Rules that extract the claims of an answer and decide whether a non-numeric answer is correct.

An answer is decided only if everything around its result is in a list of harmless words or repeats the question. Any
other word leaves the answer undecided, so words such as "hardly", "nicht" and "formerly" need no list. Results that are
announced twice must agree, and the last one does not win. Words are compared as complete tokens, and formulas character
by character. Short symbols and words after a number are case-sensitive. A single letter is an answer only if options
were shown or an option has that text. A text that does not certainly match one option is undecided.
"""

import re
import string
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
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
from robustify.freeform.grade import pattern, word_set
from robustify.marks.labelling import LETTERS
from robustify.marks.picks import split_mark

MOST_CLAIMS = 8
_MOST_STEPS = 12
_LONGEST_TAIL, _LONGEST_LINE = 48, 30


def _expanded(name: str) -> str:
    joined = pattern(name)
    if "{" not in joined:
        return joined
    return joined.replace("{name}", f"(?:{_NAME})").replace("{after}", _AFTER).replace("{is}", f"(?:{_IS})")


_AFTER = rf"(?:\s(?:{_expanded('after')}))?"
_NAME, _IS, _ARTICLE = _expanded("name"), _expanded("is"), _expanded("article")
_MARKER = re.compile(
    rf"\b(?:{_NAME})\b[*_]{{0,3}}{_AFTER}[*_]{{0,3}}\s*(?:(?:{_IS})\b|[:：=])|答案\s?[是为:：]|####|<answer>|\\(?:boxed|fbox)\s?\{{",
    re.IGNORECASE,
)
_NOT = re.compile(r"([^()]{1,200}?)(?:,|\s\(|,?\sand)\s?not\s([^()]{1,200}?)\)?[\s.]*")
_BOUNDARY = re.compile(r"[.!?。]\s+|\n|,\s+(?=(?:so|thus|therefore|hence)\s)", re.IGNORECASE)
_ANOTHER = re.compile(r"[?？]|\b(?:question|frage|pregunta|domanda)\s?\d*\s?:|\bq\d*\s?:", re.IGNORECASE)
# The content may contain one level of braces, such as a fraction. A box with deeper braces is not unwrapped.
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{((?:[^{}]|\{[^{}]{0,200}\}){0,500})\}")
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname|rm)\s?\{([^{}]{0,200})\}")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^“”\n]{1,200})”|„([^“”„\n]{1,200})[“”]|«\s?([^«»\n]{1,200}?)\s?»"
)

_LEAD = re.compile(
    rf"[\s,:;#{{(\[*_`•]+|</?answer>|[-–]\s(?!\s*[\d.])|(?:{_expanded('lead')})(?=[\s,:：;.*_'’\"]|$)|l['’](?=\w)|答案\s?[是为:：]",
    re.IGNORECASE,
)
_TAIL = re.compile(rf"(?:[\s.!,;:}}*_`)\]。、]+|</answer>|{_expanded('tail')})\Z", re.IGNORECASE)
_TURNING = word_set("turning")
CHANGING = _TURNING | word_set("changing")
"""Words that may reverse a statement or change the value of a number."""
_ASKS = word_set("asking")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def agreed(text: str, decide: Callable[[str], Finding]) -> Finding:
    """Return the finding that all claims of a text share. If a claim is undecided or two differ, return undecided."""
    before, parts = _claims(text)
    if not parts:
        return undecided("several_results", text)
    found = [_decided(part, decide) for part in parts]
    # A short first line counts too: a base model may answer there and then continue with questions it invents.
    line = before.strip().partition("\n")[0]
    first = decide(line) if 0 < len(line) <= _LONGEST_LINE else None
    if first is not None and first.status == "scored":
        found.append(first)
    unclear = next((one for one in found if one.score is None), None)
    if unclear is not None:
        return unclear
    return found[0] if len({one.score for one in found}) == 1 else undecided("several_results", text)


def _decided(claim: str, decide: Callable[[str], Finding]) -> Finding:
    """Decide one claim. A contrast such as "24, not 42" counts as "24" if "42" is decided differently."""
    found = decide(claim)
    parts = _NOT.fullmatch(claim) if found.score is None else None
    if parts is None:
        return found
    one, other = decide(parts[1]), decide(parts[2])
    differ = other.score is not None and not one.score == other.score == 1
    return one if one.status == other.status == "scored" and differ else found


def _claims(text: str) -> tuple[str, list[str]]:
    """Return the text before the first announced result, and the sentences that announce results (or all text)."""
    ends = [end.end() for end in _BOUNDARY.finditer(text)]
    starts: list[int] = []
    for mark in _MARKER.finditer(text):
        place = bisect_right(ends, mark.start())
        start = ends[place - 1] if place else 0
        if start not in starts[-1:]:
            starts.append(start)
    if not starts:
        return "", [_unwrapped(text)]
    before = text[: starts[0]]
    if len(starts) > MOST_CLAIMS or _ANOTHER.search(before):
        return before, []
    pieces = zip(starts, [*starts[1:], len(text)], strict=True)
    return before, [_unwrapped(text[start:end]) for start, end in pieces]


def _unwrapped(text: str) -> str:
    text = _WRAPPED.sub(r"\1", _BOX.sub(r"\1", text))
    return _QUOTED.sub(lambda m: next(part for part in m.groups() if part is not None), text).strip()


def cores(claim: str, question: str = "") -> Iterator[str]:
    """Yield a claim, and then ever shorter versions as harmless words are stripped from its ends."""
    text, asked = claim.strip(), _restatable(question)
    yield text
    for _ in range(_MOST_STEPS):
        if (lead := _LEAD.match(text)) is not None and lead.end():
            text = text[lead.end() :]
        elif (tail := _TAIL.search(text, max(0, len(text) - _LONGEST_TAIL))) is not None:
            text = text[: tail.start()]
        elif (shorter := _restated(text, asked) if asked else None) is not None:
            text = shorter
        else:
            return
        yield text


def _restatable(question: str) -> str | None:
    """Normalise a question that an answer may restate. Return None if restating it could reverse its meaning."""
    words = known_words(question)
    return None if not words or words & _TURNING else " ".join(question.lower().split()).rstrip(" ?.:")


@lru_cache(maxsize=1024)
def known_words(question: str) -> frozenset[str]:
    """Return the words of a question that an answer may repeat. A negated question or an unknown language has none."""
    words = frozenset(word.casefold() for word in _WORD.findall(question))
    if not words & _ASKS or any(word.endswith(("n't", "n’t")) for word in words):
        return frozenset()
    return words


def _restated(text: str, asked: str) -> str | None:
    """Remove the restated question from a claim, or return None. "The capital of Norway is Oslo" becomes "Oslo"."""
    folded = text.lower()
    subject = re.match(rf"\w+\s({_IS})\s(?:(?:{_ARTICLE})\s|l['’])?(\S.*)", asked)
    if subject and (stated := re.match(rf"{re.escape(subject[2])}\s{subject[1]}\s", folded)):
        return text[stated.end() :]
    for start in re.finditer(r"\s(?=\S+\s\S)", asked):
        if folded.endswith(asked[start.start() :]):
            return text[: len(text) - len(asked) + start.start()]
    return None


# Worded answers

_BULLET = re.compile(r"^\s*[-*+•]\s+(?!\d)")
_FIRST = re.compile(r"^\W*(\w+)")
_JOINT = re.compile(r"\s*(?:,\s|;|\b(?:and/or|and|or|und|oder|et|ou|y|o|e)\b)\s*", re.IGNORECASE)
_HARMLESS = frozenset(" .,;:!'\"()[]{}*_`-–—…«»„“”‘’、。，：·•")
# "A-" and "f'" are not "A" and "f"; 5' are minutes or feet.
_SIGNIFICANT = re.compile(r"(?<=\w)[-–](?!\w)|(?<=\d)['\"’]|(?<![^\W_])[^\W_]['’](?!\w)")


def find_choice(
    answer: str, options: Sequence[str], correct: int, aliases: Sequence[str] = (), question: str = "", shown: bool = False,
) -> Finding:  # fmt: skip
    """Decide whether an answer names the correct option, one of its aliases, or certainly another option.

    The answer may repeat words of `question`. With `shown`, the model saw lettered options, so a letter is an answer.
    """
    text = said(answer)
    if isinstance(text, Finding):
        return text
    tokens = set(normalize_tokens(question))
    # A question that names an option ("gold or lead?") must not be stripped from the answer.
    naming = any(set(normalize_tokens(option)) <= tokens for option in (*options, *aliases))
    lettered = any(re.match(r"[B-HJ-Z]\b", option) for option in options)
    known = _Options(tuple(options), correct, tuple(aliases), "" if naming else question, shown, lettered)
    found = agreed(text, known.find)
    if found.score is None and is_refusal(text):
        return no_answer("refusal")
    return found


def find_explanation(answer: str, reference: str) -> Finding:
    """Accept an explanation that repeats the reference word for word. Any other explanation needs a judge."""
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
    """The options of one item, matched against the claims of an answer."""

    options: tuple[str, ...]
    correct: int
    aliases: tuple[str, ...]
    question: str
    shown: bool
    lettered: bool
    """Whether options begin with letters, so that a first "A" is not an article ("A positive")."""

    def find(self, claim: str) -> Finding:
        """Find the option that a claim names."""
        before = ""
        for core in cores(_BULLET.sub("", plain_text(claim)), self.question):
            # "Yes, no" and "probably certainly" name two options.
            if core != before and self._named(before.replace(core, "", 1)) is not None:
                return undecided("several_results", claim)
            before = core
            marked = split_mark(core, len(self.options), LETTERS[: len(self.options)])
            # If options were shown, the "A" of "A. green" is not an article.
            named = None if marked is not None and marked[1] and self.shown else self._named(core)
            if named is not None:
                return right("equal", claim) if named == self.correct else wrong("other_option", claim)
            if marked is not None:
                return self._lettered(*marked, claim)
        parts = _JOINT.split(core) if len(core) <= 1000 else []
        listed = {self._named(part) for part in parts}
        mine = sorted(normalize_tokens(self.options[self.correct]))
        # A key with several parts may be given in a different order.
        if len(listed) > 1 and None not in listed and sorted(normalize_tokens(core)) != mine:
            return wrong("multiple_options", claim)
        return undecided("symbolic" if is_symbolic(core) else "no_option_alone", claim)

    def _named(self, core: str) -> int | None:
        """Return the index of the only option that a text matches, or None. Case and signs break ties."""
        wordings = [*enumerate(self.options), *((self.correct, alias) for alias in self.aliases)]
        named = {i for i, wording in wordings if same_words(core, wording, self.lettered)}
        if len(named) > 1:
            named = {i for i, wording in wordings if plain_text(wording).rstrip(".") == core.rstrip(".")}
        return named.pop() if len(named) == 1 else None

    def _lettered(self, place: int, rest: str | None, claim: str) -> Finding:
        by_text = None if rest is None else self._named(rest)
        if not self.shown and by_text is None:
            # "C" may stand for "vitamin C".
            within = any(LETTERS[place] in normalize_tokens(o) for o in (*self.options, *self.aliases))
            return undecided("letter", claim) if rest or within else no_answer("letter_without_options")
        if self.shown and rest is not None and by_text != place:
            return undecided("letter_and_text_differ", claim)
        chosen = place if by_text is None else by_text
        return right("letter", claim) if chosen == self.correct else wrong("other_option", claim)


def same_words(text: str, wording: str, lettered: bool = False) -> bool:
    """Return whether two texts have the same words and signs, apart from articles and harmless punctuation.

    Formulas are compared character by character. Words of up to two letters and words after a number are
    case-sensitive, because "CO" differs from "Co" and "5 MW" from "5 mW". With `lettered`, a first "A" is not an
    article.
    """
    if is_symbolic(wording) or is_symbolic(text):
        return squash(text) == squash(wording)
    if normalize_tokens(text) != normalize_tokens(wording) or _significant_marks(text) != _significant_marks(
        wording
    ):
        return False
    mine, theirs = written_tokens(text), written_tokens(wording)
    if lettered and _FIRST.findall(text)[:1] != _FIRST.findall(wording)[:1]:
        return False
    return bool(mine) and all(
        _same_case(a, b, place, theirs) for place, (a, b) in enumerate(zip(mine, theirs, strict=True))
    )


def _same_case(a: str, b: str, place: int, words: Sequence[str]) -> bool:
    """Return whether two words that fold alike also match in case, which matters for short symbols and units."""
    letters = len(b.rstrip(string.digits))
    if a == b or letters > 3:
        return True
    if place and words[place - 1][-1].isdigit():
        return False
    return letters > 2 or (len(words) > 1 and (a.islower() or b.islower()))


@lru_cache(maxsize=1024)
def _significant_marks(text: str) -> str:
    plain = plain_text(text)
    signs = _SIGNIFICANT.findall(plain)
    return "".join([*(c for c in plain if not c.isalnum() and c not in _HARMLESS), *signs])
