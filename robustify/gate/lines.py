"""Which line of a text an offset lies in, found quickly however often it is asked."""

import re
from bisect import bisect_left

_NEWLINE = re.compile("\n")


class Lines:
    """The lines of one text. The places of its newlines are found at the first question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def of(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        if self._ends is None:
            self._ends = [match.start() for match in _NEWLINE.finditer(self._text)]
        return bisect_left(self._ends, offset) + 1
