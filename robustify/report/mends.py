"""What to do about a flagged item: for each cue that gave it away, how its options would no longer do so.

A mend follows from the options and from the cue that is named. Whether it helps a new run of the changed item says.
"""

from collections.abc import Sequence

from robustify.summary.screened import CueCode

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
    "vectors": _MODELS,
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
    found = [_length(choices, key) if cue == "length" else _MENDS[cue] for cue in cues or ("none",)]
    return (*dict.fromkeys(found), *([_ASK_AS_CLOZE] if cloze else []))


def _length(choices: Sequence[str], key: int) -> str:
    sizes = [len(choice.strip()) for choice in choices]
    own = sizes.pop(key)
    if own > max(sizes):
        return f"Shorten the key from {own} to about {max(sizes)} characters, or lengthen the other options."
    if own < min(sizes):
        return f"Lengthen the key from {own} to about {min(sizes)} characters, or shorten the other options."
    return "Bring all options to about the same length."
