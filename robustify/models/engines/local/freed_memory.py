"""Memory that a model freed: kept for its next batch while it works, and given back when it is closed."""

import ctypes
from collections.abc import Callable
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt` in glibc."""
_ALL, _GIBIBYTE = 2**31 - 1, 1 << 30


def keep_freed() -> None:
    """Keep freed memory in this process. Otherwise the system clears pages again for the output of each layer, which takes
    a tenth of the time of scoring. Only glibc can do this."""

    def keep(library: ctypes.CDLL) -> None:
        library.mallopt(_MMAP_THRESHOLD, _GIBIBYTE)
        library.mallopt(_TRIM_THRESHOLD, _ALL)

    _with_glibc(keep)


def give_back() -> None:
    """Return freed memory to the system, as far as glibc can."""
    _with_glibc(lambda library: library.malloc_trim(0))


def _with_glibc(work: Callable[[ctypes.CDLL], object]) -> None:
    # Windows has no such handle, and other C libraries have no such function.
    with suppress(OSError, TypeError, AttributeError):
        work(ctypes.CDLL(None))
