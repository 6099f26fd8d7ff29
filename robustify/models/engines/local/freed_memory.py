"""Keep the memory that a model frees for its next batch, and return it to the system when the model is closed."""

import ctypes
from collections.abc import Callable
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt` in glibc: the free memory above which it gives some back, and the block that it always does."""
_KEPT, _USUAL = (2**31 - 1, 1 << 30), (64 << 20, 32 << 20)
"""Their values while a model works, and those to which glibc raises its own when large blocks are freed, in bytes."""


def keep_freed() -> None:
    """Keep freed memory in this process. Otherwise, the system clears pages again for the output of each layer, which takes
    a tenth of the scoring time. Only glibc can do this."""
    _with_glibc(lambda library: _set(library, _KEPT))


def give_back() -> None:
    """Return freed memory to the system now and from now on, as far as glibc can."""

    def give(library: ctypes.CDLL) -> None:
        _set(library, _USUAL)
        library.malloc_trim(0)

    _with_glibc(give)


def _set(library: ctypes.CDLL, thresholds: tuple[int, int]) -> None:
    for parameter, size in zip((_TRIM_THRESHOLD, _MMAP_THRESHOLD), thresholds, strict=True):
        library.mallopt(parameter, size)


def _with_glibc(work: Callable[[ctypes.CDLL], object]) -> None:
    # Windows has no such handle, and other C libraries have no such function.
    with suppress(OSError, TypeError, AttributeError):
        work(ctypes.CDLL(None))
