"""Sentences about the cues of an item and suggested edits, based on the item's options.

The fitted model estimates how much a cue contributes. These sentences describe the options themselves and are true
whatever model was fitted. Texts that do not depend on an item are in `messages.yaml`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robustify.judging.baselines.wording import FUNCTION_WORDS, words_of
from robustify.judging.baselines.words import WordUse
from robustify.judging.evidence import TRAITS, trait_names
from robustify.judging.summary.screened import CueCode
from robustify.report.format import counted, plain
from robustify.report.messages import catalogue, cue_words

_MOST_WORDS, _LONGEST_WORD, _LONGEST_NAME, _TENTH = 3, 40, 80, 0.1


def cue_sentence(
    code: CueCode, choices: Sequence[str], pick: int, *, is_key: bool, uses: Sequence[WordUse] = ()
) -> str:
    """Describe a cue in these options, without a full stop.

    `pick` is the option that was picked without the question. `uses` are the words that favour it.
    """
    options = [choice if code == "outer_space" else choice.strip() for choice in choices]
    picked = options.pop(pick)
    subject = "the key" if is_key else "the option picked"
    found: list[str] = []
    match code:
        case "length":
            found = [_length(subject, len(picked), [len(one) for one in options])]
        case "word_length":
            own, mean = _averages(len, picked, options)
            found = [
                f"the words of {subject} have {own:.1f} letters on average, those of the others {mean:.1f}"
            ]
        case "function_words":
            own, mean = (100 * x for x in _averages(FUNCTION_WORDS.__contains__, picked, options))
            found = [f"{own:.0f} % of the words of {subject} are function words, of the others' {mean:.0f} %"]
        case "shared_words":
            found = [_shared_words(subject, picked, options)]
        case "words" if uses:
            found = [_use(use) for use in uses]
        case _:
            trimmed = [*options[:pick], picked, *options[pick:]]
            found = [
                one.unlike(subject, trimmed, pick, one.marks(trimmed, "")) for one in TRAITS.get(code, ())
            ]
    usual = cue_words("usual").get(code, f"options differ in {cue_words('label')[code]}")
    return ", and ".join([*filter(None, found)][:2]) or usual


def _length(subject: str, own: int, others: Sequence[int]) -> str:
    if min(others) <= own <= max(others):
        return f"{subject} has {counted(own, 'character')}, the others {min(others)} to {max(others)}"
    most, next_ = ("longest", max(others)) if own > max(others) else ("shortest", min(others))
    ratio = own / max(next_, 1)
    alike = abs(ratio - 1) < _TENTH
    by = f"by {counted(abs(own - next_), 'character')}" if alike else f"{ratio:.1f} x the next"
    return f"{subject} is the {most}, {by}"


def _averages(of: Callable[[str], int], picked: str, options: Sequence[str]) -> tuple[float, float]:
    """Return the mean of a number over the words of the option, and over the other options."""
    own, *others = (sum(map(of, words)) / max(len(words), 1) for words in map(words_of, (picked, *options)))
    return own, sum(others) / len(others)


def _shared_words(subject: str, picked: str, options: Sequence[str]) -> str:
    """Name the words that the option shares with most other options."""
    others = [frozenset(words_of(one)) for one in options]
    own = sorted(frozenset(words_of(picked)) - FUNCTION_WORDS)
    counts = {word: n for word in own if (n := sum(word in one for one in others))}
    most = max(counts.values(), default=0)
    if not most:
        return f"{subject} shares no word with the others"
    shown = [f"\u201c{plain(word, _LONGEST_WORD)}\u201d" for word, n in counts.items() if n == most]
    return f"{subject} shares {', '.join(shown[:_MOST_WORDS])} with {most} of {len(others)} others"


def _use(use: WordUse) -> str:
    whose = "" if use.picked else ", which another option has,"
    often = f"{use.keys} of {use.items} other items, {use.expected:.1f} expected"
    return f"\u201c{plain(use.word, _LONGEST_WORD)}\u201d{whose} occurs in the key of {often}"


def mends(row: Mapping[str, Any], choices: Sequence[str], key: int, *, cloze: bool) -> tuple[str, ...]:
    """Return suggested edits that should stop an item from giving its key away.

    `row` has its verdict with the reason, its pick, and the cues and words of the pick, the strongest first. `cloze` is
    true if the item can be asked without its options.
    """
    if row["reason"].startswith("conflicting_key"):
        return (catalogue()["mends"]["conflicting_key"],)
    if row["verdict"] != "flagged":
        return ()
    cues: list[CueCode] = [cue["cue"] for cue in row.get("cues", ()) if row["pick"] == key] or ["none"]
    words = [f"“{plain(use['word'], _LONGEST_WORD)}”" for use in row.get("words", ())]
    found = [_mend(cue, choices, key, words) for cue in cues]
    return (*dict.fromkeys(found), *([catalogue()["mends"]["cloze"]] if cloze else []))


def _mend(cue: CueCode, choices: Sequence[str], key: int, words: Sequence[str]) -> str:
    """Return the suggested edit for one cue, with the words and traits of the key if it has some."""
    advice = cue_words("advice").get(cue)
    if advice is None:
        return cue_words("mend")[cue]
    if cue == "length":
        return _even_length(choices, key)
    names = [f"the key {plain(name, _LONGEST_NAME)}" for name in sorted({*trait_names(cue, choices, key)})]
    said = ", ".join((words if cue == "words" else names)[:_MOST_WORDS])
    return f"{advice}: {said}." if said else f"{advice}."


def _even_length(choices: Sequence[str], key: int) -> str:
    sizes = [len(choice.strip()) for choice in choices]
    own = sizes.pop(key)
    if min(sizes) <= own <= max(sizes):
        return f"{cue_words('advice')['length']}."
    (do, undo), to = (
        (("Shorten", "lengthen"), max(sizes)) if own > max(sizes) else (("Lengthen", "shorten"), min(sizes))
    )
    return f"{do} the key from {own} to about {to} characters, or {undo} the other options."
