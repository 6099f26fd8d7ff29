"""Errors that the user can fix, each with an exit code. Messages never contain item text, because they end up in logs
and screenshots."""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class Notice(str):
    """Sentence for the user, with a `code` that names its kind (such as `few-choices`) and survives rewording."""

    __slots__ = ("code",)
    code: str

    def __new__(cls, text: str, *, code: str) -> "Notice":
        """Return `text` as a notice with this code. A code consists of lowercase words joined by hyphens."""
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, str]]:
        """Return the arguments of `__new__`, which copying and pickling need."""
        return (str(self),), {"code": self.code}


def notice_code(line: str) -> str:
    """Return the code of a message, or an empty string if the message has no code."""
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
        """Lines with their codes. If the first line has no code, it gets the code of the error."""
        first, *others = self.lines or ("",)
        codes = (notice_code(first) or self.code, *map(notice_code, others))
        return tuple(Notice(line, code=code) for line, code in zip((first, *others), codes, strict=True))

    @property
    def reason(self) -> Notice:
        """Return the first line of the error with that line's code, for messages that quote the error."""
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
        """Combine the faults of a file into one error. Faults after the first `most` are only counted."""
        more = len(faults) - most
        counts = [f"... and {more} more faults of this kind"] if more > 0 else []
        return cls(*faults[:most], *counts, code=code)


class RequestError(DataError):
    """Raised if a model cannot accept some requests. `faults` maps the position of each such request to the reason."""

    def __init__(self, *lines: str, faults: Mapping[int, str] | None = None, code: str = "") -> None:
        super().__init__(*lines, code=code)
        self.faults = dict(faults or {})

    @classmethod
    def of(cls, faults: Mapping[int, str]) -> "RequestError":
        """Build an error with one line per faulty request. `faults` maps the position of a request to its fault."""
        lines = (
            Notice(f"request {place}: {fault}", code=notice_code(fault) or "unfit-request")
            for place, fault in faults.items()
        )
        return cls(*lines, faults=faults)


class UnaskableError(DataError):
    """Raised if a model cannot be asked about the items in `lines`. `counted` is a message without IDs or lengths."""

    def __init__(self, *lines: str, counted: str, code: str = "") -> None:
        super().__init__(*lines, code=code)
        self.counted = counted


class ItemError(DataError):
    """Raised if data cannot become an item. The message gives the reason, but not the item's text."""


class AuthorisationError(RobustifyError):
    """The gate refused content, or the use of a restricted set is not allowed: its terms, data, secret key, or private
    folder is missing, or its text would leave the machine."""

    exit_code = 4


class ModelError(RobustifyError):
    """A model or server is missing, damaged, or unavailable, refuses requests, or returns unusable numbers."""

    exit_code = 5


class ResourceError(RobustifyError):
    """Disk space or memory is exhausted, or a file or folder is locked or cannot be written."""

    exit_code = 6


class GuardrailError(RobustifyError):
    """An audit or guardrail failed, `lint` warned, too many answers are ungraded, or a run got worse (`--alert`)."""

    exit_code = 7


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error message. Do not use this for code that receives item text."""
    return (str(error).splitlines() or [""])[0][:200]


DISTRIBUTION = "robustcbrn-eval"
"""Name of this package for pip. On the public index, `robustify` is somebody else's package."""


def installing(extras: str) -> str:
    """Return the `pip` command that installs the named extras. Messages quote it."""
    return f"`pip install '{DISTRIBUTION}[{extras}]'`"


def counted(n: int, noun: str) -> str:
    """Format a count with its noun, such as `1 item` or `1,200 items`."""
    return f"{n:,} {noun}{'s' * (n != 1)}"
