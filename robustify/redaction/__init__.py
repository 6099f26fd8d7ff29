"""Item text never reaches a message, a log or a repr: text as a value that gives nothing away, and silence around code of
others that is given item text.

`Item` keeps its stem and choices in a `ItemText` and opens it in one place, the properties `Item.stem` and
`Item.choices`; a test holds that nobody else does. What is opened is plain `str`, on purpose. A `str` that redacts
itself would be half sealed (the C code of `json` and `re` reads it all the same) and dangerous where it works: a
template engine that calls `str()` on it would ask a model `<text redacted>`, and the score would look like one.
So a value at rest is sealed here, and `firewall.py` keeps what is opened out of messages.

Silence mutes this process and the children that it starts meanwhile. It cannot keep a library from writing files.
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
    """A stem and its choices. Equal texts are equal; that is all one may learn of it but by `open_text`."""

    __slots__ = ("__texts",)

    def __init__(self, stem: str, choices: tuple[str, ...]) -> None:
        self.__texts = (stem, choices)

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
        """The stem and the choices. `Item` alone may ask."""
        return self.__texts


_kept: TextIO | None = None


@contextmanager
def muted() -> Iterator[None]:
    """What the code inside prints, from Python, from C or from a child, goes nowhere; `UNMUTED` is heard all the same.

    For code of others that is given item text.
    """
    global _kept
    if _kept is not None:
        yield
        return
    outer = sys.stdout, sys.stderr
    _flush(*outer)
    saved: dict[int, int] = {}
    for fd in (1, 2):
        with suppress(OSError):
            saved[fd] = os.dup(fd)
    _kept = _unmuted(sys.stderr, saved.get(2))
    with open(os.devnull, "w") as nowhere:
        for fd in saved:
            os.dup2(nowhere.fileno(), fd)
        sys.stdout = sys.stderr = nowhere
        try:
            yield
        finally:
            # What was printed waits in the buffers of C and of streams that somebody kept, and would be heard when
            # the way out is open again.
            _flush(*outer, *filter(None, (sys.__stdout__, sys.__stderr__)))
            _flush_c()
            sys.stdout, sys.stderr = outer
            for fd, copy in saved.items():
                os.dup2(copy, fd)
                os.close(copy)
            if _kept is not outer[1]:
                _kept.close()
            _kept = None


class UnmutedStderr(io.TextIOBase):
    """stderr as it was before anything was muted: for our own messages, progress bars and log lines.

    Where nobody hears it any more (a closed terminal, a full disk), nothing is said and the work goes on.
    """

    @property
    def _now(self) -> TextIO:
        return sys.stderr if _kept is None else _kept

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of stderr."""
        return getattr(self._now, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """As of a file."""
        with suppress(OSError):
            return self._now.write(text)
        return len(text)

    def flush(self) -> None:
        """As of a file."""
        with suppress(OSError):
            self._now.flush()

    def isatty(self) -> bool:
        """Whether somebody looks at it."""
        return self._now.isatty()

    def fileno(self) -> int:
        """The number of the file that is heard."""
        return self._now.fileno()


UNMUTED = UnmutedStderr()


def _unmuted(stream: TextIO, copy: int | None) -> TextIO:
    """A stream that is heard while file 2 is muted."""
    try:
        if copy is None or stream.fileno() != 2:
            return stream
    except (OSError, ValueError, AttributeError):
        return stream
    return open(os.dup(copy), "w", encoding=stream.encoding, errors="backslashreplace", buffering=1)


def _flush(*streams: TextIO) -> None:
    for stream in streams:
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _flush_c() -> None:
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)
