"""Why items are flagged, counted: by the cue that carried each of them, and the items most likely to hold a shortcut."""

from typing import Annotated, Literal

from robustify.summary.quantity import Hidden, HiddenCount, HiddenName, Part, Quantity, never

CueCode = Literal[
    "length", "word_length", "certainty", "numbers", "form", "shared_words", "grammar", "repetition", "function_words",
    "pointer", "words", "text_votes", "letter_votes", "vectors", "none",
]  # fmt: skip
"""`certainty`: absolute words, hedges and negations; `pointer`: an option that speaks of the others; `words`: words and
pieces of words that no list names; the last before `none` are models. `none`: nothing speaks for the option."""
CUES: tuple[CueCode, ...] = CueCode.__args__  # type: ignore[attr-defined]


class LikelyItem(Part):
    """An item, the probability that its key was found by a shortcut, and the cue that carried it."""

    item: HiddenName = None
    p_shortcut: Hidden = None
    cue: Annotated[CueCode | None, never("word")] = None


class CueCounts(Part):
    """Of the `n` flagged items that the question-free scorer ranked: the share that each cue carried, most first."""

    n: HiddenCount = None
    cues: Annotated[dict[str, Quantity] | None, never("rate")] = None
    likeliest: tuple[LikelyItem, ...] | None = None
