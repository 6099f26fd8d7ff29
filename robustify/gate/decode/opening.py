"""Files that are read whole, within a bound: a pipe, a device or a file without end is an error, never a wait."""

import errno
import os
import stat
from pathlib import Path


def regular(place: Path, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes. Raises `OSError`, whose `strerror` says why not."""
    opened = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with os.fdopen(opened, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(opened)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most >> 20} MiB")
    return data
