"""Remove item text from messages, logs, reprs, and bug reports, and mute other libraries.

`Item` keeps its stem and choices in an `ItemText`, and a test ensures that only `Item` opens it. The opened text is a plain
`str`, because a template that calls `str()` on a redacting one would send `<text redacted>` to a model.

Of 40 common errors, 26 quote the failing value, which may be the text of an item. A report of a bug therefore gives only
the type of the error and its location in the code.
"""

import io
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TextIO

REDACTED = "<text redacted>"
MORE = "ROBUSTIFY_TRACEBACK"
"""If set to 1, every code location on the way to a bug is printed. Locations are safe for restricted sets."""
MOST_CHARS, MOST_WORDS = 120, 6
"""Maximum number of characters and words in a value that is shown. A longer value may be the text of an item."""
LONG_VALUES: set[str] = set()
"""Values of configs that may be text. Every message is printed without them."""
_PACKAGE = Path(__file__).resolve().parents[1]


class HoldsText:
    """Base class of frozen values that contain item text. They cannot be pickled, and a copy is the same object.
    Dataclasses with `repr=False` show only their class name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({REDACTED})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} contains item text and cannot be pickled.")

    def __copy__(self) -> "HoldsText":
        return self

    def __deepcopy__(self, memo: object) -> "HoldsText":
        return self


class ItemText(HoldsText):
    """Stem and choices of an item, which only `open_text` can read. `question_at` is the offset of the question in the
    stem, or 0 if no passage precedes the question."""

    __slots__ = ("__texts", "question_at")

    def __init__(self, stem: str, choices: tuple[str, ...], question_at: int = 0) -> None:
        self.__texts = (stem, choices)
        self.question_at = question_at

    def __repr__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return REDACTED

    def __getstate__(self) -> NoReturn:
        raise TypeError("Item text cannot be pickled.")

    def __eq__(self, other: object) -> bool:
        return self.__texts == other.__texts if isinstance(other, ItemText) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__texts)

    def open_text(self) -> tuple[str, tuple[str, ...]]:
        """Return the stem and the choices. Only `Item` may call this method."""
        return self.__texts


_heard: TextIO | None = None


@contextmanager
def muted() -> Iterator[None]:
    """Discard all output of the enclosed code, including output of C code and child processes. `UNMUTED` still prints."""
    global _heard
    if _heard is not None:
        yield
        return
    outer = sys.stdout, sys.stderr
    saved: dict[int, int] = {}
    for number in (1, 2):
        with suppress(OSError):
            saved[number] = os.dup(number)
    _flush()
    # A stream that is not file 2, as in a test or notebook, is used unchanged.
    own = 2 in saved and getattr(outer[1], "name", None) == "<stderr>"
    _heard = os.fdopen(os.dup(saved[2]), "w", errors="backslashreplace", buffering=1) if own else outer[1]
    with open(os.devnull, "w") as nowhere:
        for number in saved:
            os.dup2(nowhere.fileno(), number)
        sys.stdout = sys.stderr = nowhere
        try:
            yield
        finally:
            # Otherwise buffered text would be printed after the streams are restored.
            _flush(*outer)
            sys.stdout, sys.stderr = outer
            for number, copy in saved.items():
                os.dup2(copy, number)
                os.close(copy)
            if own:
                _heard.close()
            _heard = None


class _Unmuted(io.TextIOBase):
    def _now(self) -> TextIO:
        return sys.stderr if _heard is None else _heard

    def write(self, text: str) -> int:
        # The work continues if the terminal is closed or the disk is full.
        with suppress(OSError):
            self._now().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._now().flush()

    def isatty(self) -> bool:
        return self._now().isatty()

    def fileno(self) -> int:
        return self._now().fileno()


UNMUTED = _Unmuted()
"""Standard error as it was before muting, for our messages, progress bars and log lines."""


def _flush(*streams: TextIO) -> None:
    import ctypes

    for stream in (*streams, sys.__stdout__, sys.__stderr__, sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    with suppress(OSError, AttributeError, TypeError):  # Windows has no library without a name
        ctypes.CDLL(None).fflush(None)


def quieten_others() -> None:
    """Discard warnings and log records of other libraries, and send log records of robustify to `UNMUTED`."""
    warnings.simplefilter("ignore")
    ours = logging.getLogger("robustify")
    if not ours.handlers:
        logging.getLogger().addHandler(logging.NullHandler())
        ours.addHandler(handler := logging.StreamHandler(UNMUTED))
        handler.setFormatter(logging.Formatter("robustify: %(message)s"))
        ours.propagate = False


def bug_lines(error: BaseException) -> list[str]:
    """Describe an exception by its type and location. With `ROBUSTIFY_TRACEBACK=1`, add the locations of the callers."""
    frames = traceback.walk_tb(error.__traceback__)
    steps = [(Path(frame.f_code.co_filename), line) for frame, line in frames] or [(Path("nowhere"), 0)]
    ours = [step for step in steps if _PACKAGE in step[0].parents] or steps
    line = f"a bug in robustify ({_kind(error)} at {_place(*ours[-1])}; details omitted: they may contain item text)"
    shown = steps if os.environ.get(MORE, "0") not in ("", "0") else []
    return [line, *(f"  {_place(*step)}" for step in shown)]


def may_be_text(value: str) -> bool:
    """Return whether a value is so long that it may be the text of an item."""
    return len(value) > MOST_CHARS or len(value.split()) > MOST_WORDS


def withhold(tree: object) -> None:
    """Exclude the long values and keys of a config from all later messages."""
    waiting, seen = [tree], set()
    while waiting:
        match branch := waiting.pop():
            case str() if may_be_text(branch):
                LONG_VALUES.add(branch)
            # With YAML aliases, a tree may contain itself, or one branch many times.
            case Mapping() | list() | tuple() if id(branch) not in seen:
                seen.add(id(branch))
                waiting += [*branch, *branch.values()] if isinstance(branch, Mapping) else branch


def _kind(error: BaseException) -> str:
    # A class created at run time may have any name.
    name = type(error).__name__
    return name if re.fullmatch(r"[A-Za-z_]\w{0,79}", name, re.ASCII) else "an error"


def _place(file: Path, line: int) -> str:
    name = file.relative_to(_PACKAGE).as_posix() if _PACKAGE in file.parents else "/".join(file.parts[-2:])
    return f"{name if re.fullmatch(r'[A-Za-z0-9_./<>+-]{1,80}', name) else 'a file'}:{line}"
