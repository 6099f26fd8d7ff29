"""What gives an item's key away, in words, and how it would no longer: for each cue, from the item's own options.

The fitted model says how much a cue carried; these sentences say what of it stands in the text. Each is true of the
options by itself, whatever was fitted. The option that is spoken of is the one that was picked without the question.
Whether a mend helps a new run of the changed item says.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from robustify.baselines.wording import (
    ABSOLUTES,
    ARTICLES,
    FUNCTION_WORDS,
    HEDGES,
    NEGATIONS,
    count_numbers,
    form,
    jaccard,
    points_elsewhere,
    words_of,
)
from robustify.baselines.words import WordUse
from robustify.report.format import counted, plain
from robustify.summary.screened import CueCode

T = TypeVar("T")

LABELS: dict[CueCode, str] = {
    "length": "length",
    "word_length": "long or short words",
    "certainty": "absolute words, hedges, negations",
    "numbers": "numbers and units",
    "form": "punctuation, capitals, odd form",
    "shared_words": "words shared between options",
    "grammar": "opens with an article",
    "repetition": "repeated words in an option",
    "function_words": "share of function words",
    "pointer": "an option speaks of the others",
    "words": "words that mark keys",
    "text_votes": "models, by the options' text",
    "letter_votes": "models, by letter",
    "none": "no cue stands out",
}
"""The cues as tables name them."""
_MOST_WORDS, _LONGEST_WORD, _TENTH = 3, 40, 0.1
_FORMS = (
    ("begins with a capital letter", "does not begin with a capital letter"),
    ("ends with a punctuation mark", "does not end with a punctuation mark"),
    ("holds a number", "holds no number"),
    ("has a comma", "has no comma"),
    ("has a bracket", "has no bracket"),
    ("has a hyphen or dash", "has no hyphen or dash"),
    ("is a single word", "is more than one word"),
    ("is in capital letters", "is not in capital letters"),
)
"""For each trait of `form`, what is said of an option that has it and of one that has not."""


@dataclass(frozen=True, repr=False)
class Options:
    """The options of an item and the one that is spoken of; `subject` is what it is called. Its repr shows no text."""

    choices: tuple[str, ...]
    pick: int
    subject: str

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each option."""
        return [words_of(choice) for choice in self.choices]

    def apart(self, values: Sequence[T]) -> tuple[T, list[T]]:
        """The value of the option that is spoken of, and those of the others."""
        return values[self.pick], [v for j, v in enumerate(values) if j != self.pick]


def cue_sentence(
    code: CueCode, choices: Sequence[str], pick: int, *, is_key: bool, uses: Sequence[WordUse] = ()
) -> str:
    """What of this cue stands in these options, without a full stop; `uses` are the words that speak for the pick."""
    item = Options(tuple(c.strip() for c in choices), pick, "the key" if is_key else "the option picked")
    found = list(_SAYS[code](item) if code in _SAYS else _beyond(code, uses))
    return ", and ".join(found[:2]) or f"the options differ a little in {LABELS[code]}"


def _length(item: Options) -> Iterator[str]:
    own, others = item.apart([len(c) for c in item.choices])
    if own > max(others):
        yield f"{item.subject} is the longest, {_against(own, max(others))}"
    elif own < min(others):
        yield f"{item.subject} is the shortest, {_against(own, min(others))}"
    else:
        yield f"{item.subject} has {counted(own, 'character')}, the others {min(others)} to {max(others)}"


def _against(own: int, next_: int) -> str:
    ratio = own / max(next_, 1)
    return (
        f"{ratio:.1f} x the next"
        if abs(ratio - 1) >= _TENTH
        else f"by {counted(abs(own - next_), 'character')}"
    )


def _word_length(item: Options) -> Iterator[str]:
    own, others = item.apart([sum(map(len, w)) / max(len(w), 1) for w in item.words])
    mean = sum(others) / len(others)
    yield f"the words of {item.subject} have {own:.1f} letters on average, those of the others {mean:.1f}"


def _certainty(item: Options) -> Iterator[str]:
    for kinds, one in ((ABSOLUTES, "an absolute word"), (HEDGES, "a hedge"), (NEGATIONS, "a negation")):
        own, others = item.apart([[w for w in words if w in kinds] for words in item.words])
        having = [words for words in others if words]
        if own and not having:
            yield f"only option with {one} ({_quoted(own)})"
        elif having and not own:
            shown = _quoted([w for words in having for w in words])
            if len(having) == len(others):
                yield f"only option without {one} (others: {shown})"
            else:
                yield f"{item.subject} has no word like {shown}, unlike {_of(len(having), len(others))}"
    if not any({*ABSOLUTES, *HEDGES, *NEGATIONS} & set(words) for words in item.words):
        yield "no option has an absolute word, a hedge or a negation"


def _numbers(item: Options) -> Iterator[str]:
    own, others = item.apart([count_numbers(c) for c in item.choices])
    yield from _only(item, [count_numbers(c) > 0 for c in item.choices], "holds a number", "holds no number")
    if own and all(others):
        yield f"{item.subject} differs from the others in its number, its digits or its unit"


def _form(item: Options) -> Iterator[str]:
    traits = [form(c) for c in item.choices]
    for trait, (having, lacking) in enumerate(_FORMS):
        yield from _only(item, [one[trait] for one in traits], having, lacking)


def _shared_words(item: Options) -> Iterator[str]:
    sets = [frozenset(words) - FUNCTION_WORDS for words in item.words]
    own, others = item.apart(sets)
    in_others = {w: sum(w in one for one in others) for w in sorted(own)}
    shared = sorted((w for w, n in in_others.items() if n), key=lambda w: (-in_others[w], -len(w), w))
    alike = [[jaccard(a, b) for b in sets] for a in sets]
    mine, rest = item.apart([(sum(row) - 1) / (len(sets) - 1) for row in alike])
    if shared and mine > max(rest):
        n = in_others[shared[0]]
        words = _quoted([w for w in shared if in_others[w] == n])
        yield f"{item.subject} shares most words with the other options: {words} with {n} of {len(others)}"
    elif shared:
        n = in_others[shared[0]] + 1
        yield f"{n} options share {_quoted([w for w in shared if in_others[w] + 1 == n])}, {item.subject} among them"
    else:
        among = sorted({w for one in others for w in one if sum(w in o for o in others) > 1})
        common = f", which share {_quoted(among)}" if among else ""
        yield f"{item.subject} shares no word with the others{common}"


def _grammar(item: Options) -> Iterator[str]:
    opens = [bool(words) and words[0] in ARTICLES for words in item.words]
    yield from _only(item, opens, "opens with an article", "does not open with an article")


def _repetition(item: Options) -> Iterator[str]:
    repeats = [len(set(words)) < len(words) for words in item.words]
    yield from _only(item, repeats, "repeats a word", "repeats no word")


def _function_words(item: Options) -> Iterator[str]:
    share = [sum(w in FUNCTION_WORDS for w in words) / max(len(words), 1) for words in item.words]
    own, others = item.apart(share)
    yield (
        f"{100 * own:.0f} % of the words of {item.subject} are function words, of the others' "
        f"{100 * sum(others) / len(others):.0f} %"
    )


def _pointer(item: Options) -> Iterator[str]:
    points = [points_elsewhere(c) for c in item.choices]
    yield from _only(item, points, "speaks of the other options", "does not speak of the other options")


def _beyond(code: CueCode, uses: Sequence[WordUse]) -> Iterator[str]:
    """Cues that no list names."""
    match code:
        case "words":
            yield from (_use(use) for use in uses[:_MOST_WORDS])
            if not uses:
                yield "its words and pieces of words together, of which none stands out alone"
        case "text_votes":
            yield "models find its text the most likely without the question"
        case "letter_votes":
            yield "models pick it by letter without the question"
        case _:
            yield "nothing in particular speaks for it"


def _use(use: WordUse) -> str:
    word = plain(use.word, _LONGEST_WORD)
    whose = "" if use.picked else ", which another option has,"
    often = f"{use.keys} of {use.items} other items, {use.expected:.1f} expected"
    return f"\u201c{word}\u201d{whose} stands in the key in {often}"


def _only(item: Options, has: Sequence[bool], having: str, lacking: str) -> Iterator[str]:
    """Said where the option that is spoken of differs from all others, or from some of them."""
    own, others = item.apart(has)
    differ = sum(other != own for other in others)
    if differ == len(others):
        yield f"only {item.subject} {having if own else lacking}"
    elif differ:
        yield f"{item.subject} {having if own else lacking}, unlike {_of(differ, len(others))}"


def _of(n: int, others: int) -> str:
    return f"{n} of the {others} others"


def _quoted(words: Sequence[str]) -> str:
    shown = list(dict.fromkeys(plain(w, _LONGEST_WORD) for w in words))[:_MOST_WORDS]
    return ", ".join(f"\u201c{w}\u201d" for w in shown)


_SAYS: dict[CueCode, Callable[[Options], Iterator[str]]] = {
    "length": _length,
    "word_length": _word_length,
    "certainty": _certainty,
    "numbers": _numbers,
    "form": _form,
    "shared_words": _shared_words,
    "grammar": _grammar,
    "repetition": _repetition,
    "function_words": _function_words,
    "pointer": _pointer,
}


# Mends

_MODELS = "Replace the wrong options by ones that are as likely to a reader who has not seen the question."
_MENDS: dict[CueCode, str] = {
    "word_length": "Use words of about the same length in all options.",
    "certainty": "Put absolute words, hedges and negations into all options or into none.",
    "numbers": "Give all options numbers and units of one form, and set the key's among the others.",
    "form": "Write all options in one form: the same capitals, punctuation and number of words.",
    "shared_words": "Spread shared words evenly: no option nearest to all others, and none apart from them.",
    "grammar": "Open all options alike, with an article or without.",
    "repetition": "Repeat words in all options or in none.",
    "function_words": "Write all options in one style, as sentences or as key words.",
    "pointer": "Replace the option that speaks of the others by an answer of its own.",
    "words": "Use the words that mark keys in wrong options too, or take them out of the key.",
    "text_votes": _MODELS,
    "letter_votes": _MODELS,
    "none": _MODELS,
}
_ASK_AS_CLOZE = "Or ask it without its options: it can be asked as cloze."
_SETTLE_KEY = "Settle its key: the same question and options have another key elsewhere."


def mends(
    verdict: str, reason: str, cues: Sequence[CueCode], choices: Sequence[str], key: int, *, cloze: bool
) -> tuple[str, ...]:
    """How this item would no longer give its key away; empty where it does not.

    `reason`: of the verdict. `cues`: those that are named for the key, the first first; `cloze`: the item can be asked
    without its options.
    """
    if reason.startswith("conflicting_key"):
        return (_SETTLE_KEY,)
    if verdict != "shortcut":
        return ()
    found = [_even_length(choices, key) if cue == "length" else _MENDS[cue] for cue in cues or ("none",)]
    return (*dict.fromkeys(found), *([_ASK_AS_CLOZE] if cloze else []))


def _even_length(choices: Sequence[str], key: int) -> str:
    sizes = [len(choice.strip()) for choice in choices]
    own = sizes.pop(key)
    if own > max(sizes):
        return f"Shorten the key from {own} to about {max(sizes)} characters, or lengthen the other options."
    if own < min(sizes):
        return f"Lengthen the key from {own} to about {min(sizes)} characters, or shorten the other options."
    return "Bring all options to about the same length."
