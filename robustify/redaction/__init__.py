"""Keep item text out of messages, logs and reprs: a value that shows nothing, and silence around the code of others.

`Item` keeps its stem and choices in an `ItemText` and opens it in one place; a test holds that nobody else does. What is
opened is plain `str`, on purpose: a `str` that redacts itself would be half sealed (the C code of `json` and `re` reads it
all the same), and a template that calls `str()` on it would ask a model `<text redacted>`.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

REDACTED = "<text redacted>"


class KeptHere:
    """The base of frozen values that hold text: they are not pickled, and a copy of one is itself.

    A dataclass of it with `repr=False` shows its name alone.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({REDACTED})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds item text; it is never pickled")

    def __copy__(self) -> "KeptHere":
        return self

    def __deepcopy__(self, memo: object) -> "KeptHere":
        return self


class ItemText(KeptHere):
    """A stem and its choices. Equal texts are equal; that is all one may learn of it but by `open_text`.

    `question_at`: where in the stem the question begins, 0 if no passage comes before it.
    """

    __slots__ = ("__texts", "question_at")

    def __init__(self, stem: str, choices: tuple[str, ...], question_at: int = 0) -> None:
        self.__texts = (stem, choices)
        self.question_at = question_at

    def __repr__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return REDACTED

    def __getstate__(self) -> NoReturn:
        raise TypeError("item text is never pickled")

    def __eq__(self, other: object) -> bool:
        return self.__texts == other.__texts if isinstance(other, ItemText) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__texts)

    def open_text(self) -> tuple[str, tuple[str, ...]]:
        """Return the stem and the choices. `Item` alone may ask."""
        return self.__texts


_heard: TextIO | None = None


@contextmanager
def muted() -> Iterator[None]:
    """Send what the code inside prints, from Python, from C or from a child, nowhere. `UNMUTED` is heard all the same."""
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
    # A stream that is not file 2 (of a test, of a notebook) is heard as it is.
    own = 2 in saved and getattr(outer[1], "name", None) == "<stderr>"
    _heard = os.fdopen(os.dup(saved[2]), "w", errors="backslashreplace", buffering=1) if own else outer[1]
    with open(os.devnull, "w") as nowhere:
        for number in saved:
            os.dup2(nowhere.fileno(), number)
        sys.stdout = sys.stderr = nowhere
        try:
            yield
        finally:
            # What waits in a buffer would be heard as soon as the way out is open again.
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
        # Nobody may hear it any more (a closed terminal, a full disk); the work goes on.
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
"""stderr as it was before anything was muted: for our own messages, progress bars and log lines."""


def _flush(*streams: TextIO) -> None:
    import ctypes

    for stream in (*streams, sys.__stdout__, sys.__stderr__, sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)
