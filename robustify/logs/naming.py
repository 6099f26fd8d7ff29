"""How a table names choices: by letter, by number or by their text -> the place of a choice.

The form is that of most cells, so that one odd cell is not read in another way than its neighbours. Whole
numbers that may count from 0 or from 1 are refused, not guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from robustify.errors import DataError, UsageError
from robustify.logs.letters import mostly_letters, place_named

_DIGITS = re.compile(r"([0-9]{1,2})(?:\.0*)?")


@dataclass(frozen=True, slots=True)
class Naming:
    """The form of most cells of a column, and what whole numbers count from."""

    form: Literal["letter", "number", "text"]
    first: int = 0

    def place(self, said: object, k: int, choices: Sequence[str]) -> int | None:
        """The place from 0 that a cell names among `k` choices; None where it names none, or several."""
        number = whole(said)
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
        if (number := whole(cell)) is not None and (form == "number" or not isinstance(cell, str))
    }
    if first:
        start = int(first[1:])
    elif not numbers or 0 in numbers:
        start = 0
    else:
        raise DataError(
            f"{file}: keys and picks are whole numbers and never 0, so that they may count from 0 or from 1; "
            "expected to be told: --map first==0 or --map first==1"
        )
    return Naming(forms[0], start), Naming(forms[1], start)


def whole(said: object) -> int | None:
    """A whole number, also one written as text or as 2.0 (a column with gaps); None for anything else."""
    match said:
        case bool():
            return None
        case int():
            return said
        case float() if said.is_integer():
            return int(said)
        case str() if found := _DIGITS.fullmatch(said.strip()):
            return int(found[1])
        case _:
            return None


def _form(cells: Sequence[object]) -> Literal["letter", "number", "text"]:
    held = [cell for cell in cells if cell is not None and str(cell).strip()]
    if sum(whole(cell) is not None for cell in held) * 2 > len(held):
        return "number"
    return "letter" if mostly_letters(held) else "text"
