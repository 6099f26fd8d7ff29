"""Typed errors, each with an exit code. Messages never contain item text, because they end up in logs and screenshots."""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class RobustifyError(Exception):
    """Base class of errors that the user can fix. `lines` are printed to stderr, and `exit_code` is the exit status."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines: tuple[str, ...] = lines


class UsageError(RobustifyError):
    """Invalid command line or config, or a named file that does not exist."""

    exit_code = 2


class DataError(RobustifyError):
    """File with missing or invalid contents."""

    exit_code = 3

    @classmethod
    def gather(cls, faults: Sequence[str], *, most: int = 20) -> "DataError":
        """Combine the faults of a file into one error. Only the number of faults beyond `most` is given."""
        more = len(faults) - most
        return cls(*faults[:most], *([f"... and {more} more faults of this kind"] if more > 0 else []))


class RequestError(DataError):
    """Requests that a model cannot accept. `faults` maps positions to reasons, which the message lines repeat."""

    def __init__(self, *lines: str, faults: Mapping[int, str] | None = None) -> None:
        super().__init__(*lines)
        self.faults = dict(faults or {})

    @classmethod
    def of(cls, faults: Mapping[int, str]) -> "RequestError":
        """Build an error with one line per faulty request, given the faults by position."""
        return cls(*(f"request {place}: {fault}" for place, fault in faults.items()), faults=faults)


class UnaskableError(DataError):
    """Items that a model cannot be asked about, listed by ID. `counted` is a message without IDs or lengths."""

    def __init__(self, *lines: str, counted: str) -> None:
        super().__init__(*lines)
        self.counted = counted


class ItemError(DataError):
    """Data that cannot become an item. The message gives the reason without the item's text."""


class AuthorisationError(RobustifyError):
    """Refusal: the gate objects, or a restricted set lacks terms, data, a key, or a private folder, or would leave it."""

    exit_code = 4


class ModelError(RobustifyError):
    """Model or server that is missing, damaged, refused, or lost, or that returns unusable numbers."""

    exit_code = 5


class ResourceError(RobustifyError):
    """Problem with disk space, a lock, or memory."""

    exit_code = 6


class GuardrailError(RobustifyError):
    """Bad news: a failed audit or guardrail, a lint warning, too many ungraded answers, or worse scores (`--alert`)."""

    exit_code = 7


def first_line(error: BaseException) -> str:
    """Return the start of another library's error message. Do not use this for code that receives item text."""
    return (str(error).splitlines() or [""])[0][:200]


DISTRIBUTION = "robustcbrn-eval"
"""Name of this package for pip. On the public index, `robustify` is somebody else's package."""


def installing(extras: str) -> str:
    """Return the `pip` command that installs the named extras, for use in a message."""
    return f"`pip install '{DISTRIBUTION}[{extras}]'`"


def counted(n: int, one: str) -> str:
    """Format a count with its noun, such as `1 item` or `1,200 items`."""
    return f"{n:,} {one}{'s' * (n != 1)}"
