"""Errors that the user can fix, each with an exit code. Messages never contain item text, because they end up in logs
and screenshots."""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class Notice(str):
    """A sentence for the user, and the `code` of its kind (such as `few-choices`), which stays when the words change."""

    __slots__ = ("code",)
    code: str

    def __new__(cls, text: str, *, code: str) -> "Notice":
        """Return `text` with a code of lower-case words joined by hyphens."""
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, str]]:
        """Return the values from which copies and other processes rebuild the message."""
        return (str(self),), {"code": self.code}


def notice_code(line: str) -> str:
    """Return the code of a message, or an empty string for a line without one."""
    return line.code if isinstance(line, Notice) else ""


class RobustifyError(Exception):
    """Base class of errors that the user can fix. `lines` are printed to stderr, and `exit_code` is the exit status.

    `code` names the kind of error. A line that is a `Notice` has a code of its own, and `codes` are those of all lines.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *lines: str, code: str = "") -> None:
        super().__init__("\n".join(lines))
        self.lines: tuple[str, ...] = lines
        self.code = code or next(filter(None, map(notice_code, lines)), "")

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Lines with their codes. A first line without one has that of the error."""
        first, *others = self.lines or ("",)
        codes = (notice_code(first) or self.code, *map(notice_code, others))
        return tuple(Notice(line, code=code) for line, code in zip((first, *others), codes, strict=True))

    @property
    def reason(self) -> Notice:
        """First line with its code, for messages that quote this error."""
        return self.notices[0]

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the lines, in order."""
        return tuple(filter(None, (notice.code for notice in self.notices)))


class UsageError(RobustifyError):
    """The command line or config is invalid, or a named file does not exist."""

    exit_code = 2


class DataError(RobustifyError):
    """A file has missing or invalid contents."""

    exit_code = 3

    @classmethod
    def gather(cls, faults: Sequence[str], *, most: int = 20, code: str = "") -> "DataError":
        """Combine the faults of a file into one error. Only the number of faults beyond `most` is given."""
        more = len(faults) - most
        counts = [f"... and {more} more faults of this kind"] if more > 0 else []
        return cls(*faults[:most], *counts, code=code)


class RequestError(DataError):
    """Requests that a model cannot accept. `faults` maps positions to reasons, which the message lines repeat."""

    def __init__(self, *lines: str, faults: Mapping[int, str] | None = None, code: str = "") -> None:
        super().__init__(*lines, code=code)
        self.faults = dict(faults or {})

    @classmethod
    def of(cls, faults: Mapping[int, str]) -> "RequestError":
        """Build an error with one line per faulty request, given the faults by position."""
        lines = (
            Notice(f"request {place}: {fault}", code=notice_code(fault) or "unfit-request")
            for place, fault in faults.items()
        )
        return cls(*lines, faults=faults)


class UnaskableError(DataError):
    """Error for items that a model cannot be asked about, listed by ID. `counted` is a message without IDs or lengths."""

    def __init__(self, *lines: str, counted: str, code: str = "") -> None:
        super().__init__(*lines, code=code)
        self.counted = counted


class ItemError(DataError):
    """Data that cannot become an item. The message gives the reason without the item's text."""


class AuthorisationError(RobustifyError):
    """The gate refused content, or a restricted set was refused, because its terms, data, secret key, or private folder is
    missing, or its text would leave the machine."""

    exit_code = 4


class ModelError(RobustifyError):
    """A model or server is missing, damaged, refused, or lost, or returns unusable numbers."""

    exit_code = 5


class ResourceError(RobustifyError):
    """Disk space or memory is exhausted, or a file or folder is locked or cannot be written."""

    exit_code = 6


class GuardrailError(RobustifyError):
    """An audit or guardrail failed, `lint` warned, too many answers are ungraded, or a run got worse (`--alert`)."""

    exit_code = 7


def first_line(error: BaseException) -> str:
    """Return the start of another library's error message. Do not use this for code that receives item text."""
    return (str(error).splitlines() or [""])[0][:200]


DISTRIBUTION = "robustcbrn-eval"
"""Name of this package for pip. On the public index, `robustify` is somebody else's package."""


def installing(extras: str) -> str:
    """Return the `pip` command that installs the named extras, for use in a message."""
    return f"`pip install '{DISTRIBUTION}[{extras}]'`"


def counted(n: int, noun: str) -> str:
    """Format a count with its noun, such as `1 item` or `1,200 items`."""
    return f"{n:,} {noun}{'s' * (n != 1)}"
