"""Cells of a CSV that a spreadsheet takes for a formula are written as text, and read back as they were.

A leading quote does it (OWASP ASVS 5.0, 1.2.10). A cell that already looks quoted in this way gets one more, so that
nothing is lost; numbers are written by number formatters and never come here.
"""

import re

_FORMULA = re.compile("'*[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
_QUOTED = re.compile("'+[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")


def neutral(text: str) -> str:
    """The cell as it is written: with a leading quote where it would be a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def original(cell: str) -> str:
    """What was written by `neutral`."""
    return cell[1:] if _QUOTED.match(cell) else cell
