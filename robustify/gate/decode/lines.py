"""Which line of a text an offset lies in, found quickly however often it is asked."""

import re
from bisect import bisect_left

_NEWLINE = re.compile("\n")


_FEW = 8


class Lines:
    """The lines of one text. The places of its newlines are found once the questions are more than a few."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._asked = 0
        self._ends: list[int] | None = None

    def of(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        self._asked += 1
        if self._asked <= _FEW:
            return self._text.count("\n", 0, offset) + 1
        if self._ends is None:
            self._ends = [match.start() for match in _NEWLINE.finditer(self._text)]
        return bisect_left(self._ends, offset) + 1
