"""How keys and picks name choices: by letters, whole numbers, or texts. The cells of a whole column decide."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from robustify.base.errors import DataError, UsageError
from robustify.reading.counting import uncertain_base
from robustify.reading.loaders.rows import as_integer
from robustify.reading.marks.labelling import COUNTED, bare_mark, series_of
from robustify.reading.marks.picks import NoPick, Picked, read_pick
from robustify.reading.marks.reply_parts import quoted_members

_FEWEST_KEYS, _FEWEST_MARKS = 3, 10
"""Least number of different keys, and of picks that are all 0 or 1, for a refusal, because the picks may be marks."""


class NamedChoice(NamedTuple):
    """Index of the choice that a cell names, or None and the `reason` why it names none."""

    pick: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Naming:
    """Format in which a column names choices. `first` is the number of the first choice, or None if numbers are read as
    texts. `letters` is the series of letters, or None if there is none."""

    form: Literal["letter", "number", "text"]
    first: int | None = None
    letters: tuple[str, ...] | None = None

    @classmethod
    def from_cells(
        cls, cells: Iterable[object], first: int | None = None, letters: tuple[str, ...] | None = None
    ) -> "Naming":
        """Return the format of most nonempty cells. If `letters` is not given, the cells show their series."""
        filled = [
            member for cell in cells if (member := only_member(cell)) is not None and str(member).strip()
        ]
        texts = [cell for cell in filled if isinstance(cell, str)]
        if first is not None and sum(whole_number(cell) is not None for cell in filled) * 2 > len(filled):
            return cls("number", first, letters)
        marks = sum(bare_mark(text) is not None for text in texts)
        return cls("letter" if marks * 2 > len(texts) else "text", first, letters or series_of(texts))

    def answer(self, cell: object, k: int, choices: Sequence[str]) -> NamedChoice:
        """Return the choice that a cell names among `k` choices, or the reason why it names none."""
        reading: Picked | NoPick
        first, cell = self.first or 0, only_member(cell)
        number = None if self.first is None else whole_number(cell)
        if isinstance(cell, list):
            reading = NoPick("several options" if cell else "empty")
        elif number is not None and (self.form == "number" or not isinstance(cell, str)):
            reading = Picked(number - first) if 0 <= number - first < k else NoPick("beyond the options")
        else:
            labels = COUNTED[first] if self.form == "number" else self.letters
            prefer: Literal["mark", "text"] = "text" if self.form == "text" else "mark"
            reading = read_pick(cell if isinstance(cell, str) else "", choices or ("",) * k, labels, prefer)
        return (
            NamedChoice(reading.index) if isinstance(reading, Picked) else NamedChoice(None, reading.reason)
        )


def decide_naming(
    file: str, keys: Sequence[object], picks: Sequence[object], first: str
) -> tuple[Naming, Naming]:
    """Return the formats in which keys and picks name choices. `first` is the user's setting for counting, or "".
    Raise `DataError` if it is unknown whether whole numbers count from 0 or 1, and `UsageError` if `first` is neither."""
    if first not in ("", "=0", "=1"):
        raise UsageError(
            f"--map first={first} is not valid; expected --map first==0 or --map first==1",
            code="invalid-first-number",
        )
    start, letters = (
        int(first[1:] or 0),
        series_of(cell for cell in map(only_member, (*keys, *picks)) if isinstance(cell, str)),
    )
    namings = tuple(Naming.from_cells(cells, start, letters) for cells in (keys, picks))
    of_keys, of_picks = (
        {
            n
            for cell in map(only_member, cells)
            if (own.form == "number" or not isinstance(cell, str)) and (n := whole_number(cell)) is not None
        }
        for cells, own in zip((keys, picks), namings, strict=True)
    )
    numbers = of_keys | of_picks
    if not first and uncertain_base(Counter((number, 0) for number in numbers)):
        raise DataError(
            f"{file}: keys and picks are whole numbers and never 0, so they may count from 0 or from 1. Set the first "
            "number with --map first==0 or --map first==1.",
            code="uncertain-key-base",
        )
    if not first and 0 in of_keys and 0 not in of_picks and max(of_picks, default=0) > max(of_keys):
        raise DataError(
            f"{file}: keys count from 0, but picks may count from 1, because none is 0 and some exceed every key. "
            "Write both in one way, or set --map first==0 if picks count from 0, too.",
            code="different-first-numbers",
        )
    by_letter = {mark for key in keys if (mark := bare_mark(str(key))) is not None and mark.isalpha()}
    if not first and of_picks == {0, 1} and len(by_letter) >= _FEWEST_KEYS and len(picks) >= _FEWEST_MARKS:
        raise DataError(
            f"{file}: keys are letters, but all picks are 0 or 1, so they may say whether the answer was right. Map the "
            "column of the answers with --map pick=NAME, or set --map first==0 if 0 and 1 are the first two options.",
            code="picks-may-be-marks",
        )
    return namings[0], namings[1]


def only_member(cell: object) -> object:
    """Return the only member of a list such as `["B"]`, even if written as text, and any other value unchanged."""
    if isinstance(cell, list):
        return cell[0] if len({*map(str, cell)}) == 1 else cell
    members = quoted_members(cell.strip()) if isinstance(cell, str) else None
    return members[0] if members and len(members) == 1 else cell


def whole_number(cell: object) -> int | None:
    """Read a whole number, which may be text, in brackets, or written as 2.0. Return None for any other value."""
    if not isinstance(cell, str):
        return as_integer(cell)
    mark = bare_mark(re.sub(r"\.0*\s*\Z", "", cell))
    return int(mark) if mark is not None and mark.isdecimal() else None
