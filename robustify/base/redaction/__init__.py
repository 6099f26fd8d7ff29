"""Redaction of item text in messages, logs and reprs, and muting of other code.

`Item` keeps its stem and choices in an `ItemText`, and a test ensures that only `Item` opens it. The opened text is a plain
`str`, because a template that calls `str()` on a redacting one would send `<text redacted>` to a model.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

REDACTED = "<text redacted>"


class HoldsText:
    """Base class of frozen values that contain item text. They cannot be pickled, a copy is the same object,
    and dataclasses with `repr=False` show only their name."""

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
    """A stem and its choices, which are read only through `open_text`. `question_at` is the offset of the question in the
    stem, or 0 if no passage precedes it."""

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
    """Discard the output of the enclosed code, including that of C code and child processes. `UNMUTED` still prints."""
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
