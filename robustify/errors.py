"""Typed errors, one kind for each exit code.

A message names the thing, what was found, what was expected and how to mend it. It never holds the
text of an item: messages end up in logs and screenshots, and a sensitive set must not follow them.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class RobustifyError(Exception):
    """Anything the user can mend. `lines` are printed one by one on stderr; `exit_code` ends the process."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines: tuple[str, ...] = lines


class UsageError(RobustifyError):
    """A wrong command line or config."""

    exit_code = 2


class DataError(RobustifyError):
    """A file that does not hold what it should."""

    exit_code = 3

    @classmethod
    def gather(cls, faults: Sequence[str], *, most: int = 20) -> "DataError":
        """All faults of a file in one error; past `most` only their number is given."""
        more = len(faults) - most
        shown = list(faults[:most]) + ([f"... and {more} more faults of this kind"] if more > 0 else [])
        return cls(*shown)


class RequestError(DataError):
    """Requests that a model cannot take. `faults` says by position what was found; the lines say it too."""

    def __init__(self, *lines: str, faults: Mapping[int, str] | None = None) -> None:
        super().__init__(*lines)
        self.faults = dict(faults or {})

    @classmethod
    def of(cls, faults: Mapping[int, str]) -> "RequestError":
        """One line for each position."""
        return cls(*(f"request {place}: {fault}" for place, fault in faults.items()), faults=faults)


class UnaskableError(DataError):
    """Items that a model cannot be asked, by their ids; `counted` says it without an id or a length."""

    def __init__(self, *lines: str, counted: str) -> None:
        super().__init__(*lines)
        self.counted = counted


class ItemError(DataError):
    """Something that cannot be an item. The message says why, without its text."""


class AuthorisationError(RobustifyError):
    """Refused: a restricted set without its licence, key or private folder; or a gate refusal."""

    exit_code = 4


class ModelError(RobustifyError):
    """A model that is missing, damaged, refused, or that returns unusable numbers."""

    exit_code = 5


class ResourceError(RobustifyError):
    """Disk, lock or memory."""

    exit_code = 6


class GuardrailError(RobustifyError):
    """A guardrail said no. The results are on disk all the same."""

    exit_code = 7


def first_line(error: BaseException) -> str:
    """The beginning of what another library says of an error; never of code that is given item text."""
    return (str(error).splitlines() or [""])[0][:200]


def counted(n: int, one: str) -> str:
    """`1 item`, `1,200 items`."""
    return f"{n:,} {one}{'s' * (n != 1)}"
