"""What a model's reply names: a letter, a number or the text of a choice -> the place as shown.

It reads and never guesses: a reply that names no choice, or several, is no answer.
"""

import re
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

from robustify.item import unspaced

_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")


def place_named(said: object, k: int, choices: Sequence[str] = (), *, lettered: bool = True) -> int | None:
    """The place from 0 that a reply names among `k` choices; None where it names none, or several.

    `lettered`: replies are letters, so that "C" is the third choice even where another one's text is "C".
    """
    if not isinstance(said, str) or not said.strip():
        return None
    text = said.strip()
    found = _LETTER.fullmatch(text)
    place = ascii_uppercase.index(found[1].upper()) if found else None
    by_letter = [place] if place is not None and place < k else []
    by_text = [j for j, choice in enumerate(choices) if unspaced(choice) == unspaced(text)]
    named = (by_letter or by_text) if lettered else (by_text or by_letter)
    return named[0] if len(named) == 1 else None


def mostly_letters(replies: Iterable[object]) -> bool:
    """Whether most of the replies that are there, one at least, are a letter each."""
    texts = [text.strip() for text in replies if isinstance(text, str) and text.strip()]
    return sum(_LETTER.fullmatch(text) is not None for text in texts) * 2 > len(texts)


def are_letters(texts: Sequence[str]) -> bool:
    """Whether these are the letters from A on, or the numbers from 1 on, in whatever brackets."""
    bare = [text.strip().strip("().:").strip() for text in texts]
    if bare[:1] not in ([], ["A"], ["1"]):
        return False
    numbers = [str(n) for n in range(1, len(bare) + 1)]
    return bare in (list(ascii_uppercase[: len(bare)]), numbers)
