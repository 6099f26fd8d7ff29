"""Typography of options: quotes, dashes, spaces, final periods, and first letters.

Writers differ in typography, which would tell the key from the distractors of another writer. All options of an item
therefore get the same.
"""

import re
from collections.abc import Sequence

from robustify.base.texts import bare, straight
from robustify.judging.baselines.wording import FUNCTION_WORDS

_DASH, _HYPHENS, _SPACES = re.compile(r"\s*[—―]\s*"), re.compile("[‐‑‒–]"), re.compile(r"[^\S\n]+")
_ENDED = re.compile(r"(?<=[^\W\d_]{2})\.$|(?<=[\d)\]\"'%])\.$")
"""A final period after a word, a number, or a closing mark. A period after a single letter may belong to it, as in U.S."""
_WORD = re.compile(r"[^\W\d_A-Z]{3}")
_SMALL = re.compile(r"([a-z]+)(?=$|[\s,;:.])")
"""First word without capitals. What continues it, as in `sin(x)` or `m/s`, makes it a name or unit."""
_SYMBOLS = frozenset(
    ("sin", "cos", "tan", "log", "exp", "max", "min", "mod", "det", "lim", "mol", "rad", "bar", "ppm")
)


def typed_plainly(text: str) -> str:
    """Return a text with straight quotes, hyphens for all dashes, and single spaces, without blanks at its ends."""
    text = _HYPHENS.sub("-", _DASH.sub(" - ", straight(text)))
    return bare(_SPACES.sub(" ", text))


def same_form(text: str) -> str:
    """Return the form in which two options are equal: without differences in typography, a final period, and case if there
    are words. Options such as TT, Tt, and tt differ."""
    form = unended(typed_plainly(text))
    return form.casefold() if _WORD.search(form) else form


def unended(text: str) -> str:
    """Return a text without its final period, unless the period may belong to an abbreviation."""
    return _ENDED.sub("", text)


def alike(options: Sequence[str]) -> tuple[str, ...]:
    """Return options in the same typography.

    If any option begins with a capital, all do, unless one begins with a unit or symbol such as pH or kg. Final periods
    are taken off, because adding one would lengthen a key.
    """
    same = tuple(unended(typed_plainly(option)) or option for option in options)
    small = [one for one in same if one[:1].islower()]
    if len(small) < sum(one[:1].isalpha() for one in same) and all(map(_is_word_first, small)):
        return tuple(one[:1].upper() + one[1:] if one[:1].islower() else one for one in same)
    return same


def _is_word_first(text: str) -> bool:
    """Return whether a text begins with a word that may be written with a capital."""
    found = _SMALL.match(text)
    word = found[1] if found else ""
    return word in FUNCTION_WORDS or (len(word) > 2 and word not in _SYMBOLS)
