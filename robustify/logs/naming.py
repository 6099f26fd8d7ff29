"""How a log names choices: by letter, by number or by their text -> the place of a choice.

It reads and never guesses: what names no choice, or several, is no answer. In a table the form is that of most
cells, so that one odd cell is not read in another way than its neighbours; whole numbers that may count from 0 or
from 1 are refused.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Literal

from robustify.errors import DataError, UsageError
from robustify.item import unspaced
from robustify.loaders.answer_keys import letter_index

_DIGITS = re.compile(r"([0-9]{1,2})(?:\.0*)?")


def place_named(said: object, k: int, choices: Sequence[str] = (), *, lettered: bool = True) -> int | None:
    """The place from 0 that a reply names among `k` choices; None where it names none, or several.

    `lettered`: replies are letters, so that "C" is the third choice even where another one's text is "C".
    """
    if not isinstance(said, str) or not said.strip():
        return None
    text = said.strip()
    place = letter_index(text)
    by_letter = [place] if place is not None and place < k else []
    by_text = [j for j, choice in enumerate(choices) if unspaced(choice) == unspaced(text)]
    named = (by_letter or by_text) if lettered else (by_text or by_letter)
    return named[0] if len(named) == 1 else None


def mostly_letters(replies: Iterable[object]) -> bool:
    """Whether most of the replies that are there, one at least, are a letter each."""
    texts = [text.strip() for text in replies if isinstance(text, str) and text.strip()]
    return sum(letter_index(text) is not None for text in texts) * 2 > len(texts)


def are_letters(texts: Sequence[str]) -> bool:
    """Whether these are the letters from A on, or the numbers from 1 on, in whatever brackets."""
    bare = [text.strip().strip("().:").strip() for text in texts]
    if bare[:1] not in ([], ["A"], ["1"]):
        return False
    numbers = [str(n) for n in range(1, len(bare) + 1)]
    return bare in (list(ascii_uppercase[: len(bare)]), numbers)


@dataclass(frozen=True, slots=True)
class Naming:
    """The form of most cells of a column, and what whole numbers count from."""

    form: Literal["letter", "number", "text"]
    first: int = 0

    def place(self, said: object, k: int, choices: Sequence[str]) -> int | None:
        """The place from 0 that a cell names among `k` choices; None where it names none, or several."""
        number = whole_number(said)
        if number is not None and (self.form == "number" or not isinstance(said, str)):
            return number - self.first if 0 <= number - self.first < k else None
        return place_named(said, k, choices, lettered=self.form != "text")


def naming(file: str, keys: Sequence[object], picks: Sequence[object], first: str) -> tuple[Naming, Naming]:
    """How keys and how picks are named. `first`: what the user says that numbers count from, "" for nothing.

    Raises:
        DataError: whole numbers, and nothing says what they count from.
        UsageError: `first` is neither 0 nor 1.
    """
    if first not in ("", "=0", "=1"):
        raise UsageError(f"--map first={first}: expected first==0 or first==1")
    forms = [_form(cells) for cells in (keys, picks)]
    numbers = {
        number
        for cells, form in zip((keys, picks), forms, strict=True)
        for cell in cells
        if (number := whole_number(cell)) is not None and (form == "number" or not isinstance(cell, str))
    }
    if not first and numbers and 0 not in numbers:
        raise DataError(
            f"{file}: keys and picks are whole numbers and never 0, so that they may count from 0 or from 1; "
            "expected it to be said: --map first==0 or --map first==1"
        )
    start = int(first[1:] or 0)
    return Naming(forms[0], start), Naming(forms[1], start)


def whole_number(said: object) -> int | None:
    """A whole number, also one written as text or as 2.0 (a column with gaps); None for anything else."""
    match said:
        case bool():
            return None
        case int():
            return said
        case float() if said.is_integer():
            return int(said)
        case str() if match := _DIGITS.fullmatch(said.strip()):
            return int(match[1])
        case _:
            return None


def _form(cells: Sequence[object]) -> Literal["letter", "number", "text"]:
    filled = [cell for cell in cells if cell is not None and str(cell).strip()]
    if sum(whole_number(cell) is not None for cell in filled) * 2 > len(filled):
        return "number"
    return "letter" if mostly_letters(filled) else "text"
