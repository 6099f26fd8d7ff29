"""Files: written whole or not at all, locked, opened only where they are regular, and CSV cells that are no formulas.

Functions here raise `OSError`, which a caller words for its user, unless they say otherwise. Only the standard library
is imported, so that the gate can use it, and `filelock` where a lock is taken.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from robustify.errors import DataError, ResourceError, UsageError

_CHUNK = 1 << 20
OTHER_FOLDER = "expected a folder of yours (-o DIR)"
"""What mends a folder of results that cannot be written."""
_FORMULA = re.compile("'*[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
_QUOTED = re.compile("'+[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")


# Writing


@contextlib.contextmanager
def writing(path: Path, *, private: bool = False, sync: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once the block has ended, and is removed when the block raises.

    `private`: mode 0600. `sync`: on the disk before it takes its place; a cache can do without.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with os.fdopen(_new(part, private=private), "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def writable(what: Path | str, mend: str = "") -> Iterator[None]:
    """Word what goes wrong while the block writes `what`; `mend` says what to do then.

    Raises:
        ResourceError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        end = f"; {mend}" if mend else ""
        raise ResourceError(f"{what}: cannot be written ({error.strerror}){end}") from None


def write_atomic(path: Path, data: bytes, *, private: bool = False, sync: bool = True) -> None:
    """The whole file in one step; options as in `writing`."""
    with writing(path, private=private, sync=sync) as file:
        file.write(data)


def write_new(path: Path, text: str) -> None:
    """A new file of mode 0600, on the disk before it returns; what was begun is removed when it cannot be finished.

    Raises:
        UsageError: the file is there already; nothing is ever overwritten.
        ResourceError: it cannot be written.
    """
    name = f"{str(path)!a}"
    with writable(name, "free space or choose another place"):
        try:
            opened = _new(path, private=True)
        except FileExistsError:
            raise UsageError(
                f"{name}: is there already, and is never overwritten; expected a new file"
            ) from None
        try:
            with os.fdopen(opened, "w", encoding="utf-8", newline="\n") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Make files inside with mode 0600 and folders with mode 0700."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_text(path: Path, text: str) -> None:
    """UTF-8 with plain line ends, on the disk before it returns."""
    write_texts(path, (text,))


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """As `write_text`, of texts that are never in memory all at once."""
    with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.writelines(texts)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: object) -> None:
    """Indented JSON; a NaN in it is a bug and raises `ValueError`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def staging(folder: Path, prefix: str = ".staging-") -> Iterator[Path]:
    """A folder inside `folder` for files that are moved up when all of them are there; it is removed at the end.

    Folders of this prefix that killed processes left are removed first, so the caller holds a lock on `folder` or is
    its only writer.
    """
    for left in folder.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def move_up(place: Path, folder: Path, name: str) -> None:
    """Move the file or folder `name` (a relative path) from a staging folder to the same path in `folder`."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    os.replace(place / name, folder / name)


def _new(path: Path, *, private: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600 if private else 0o666)


# Locking


@contextlib.contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock file `path`, which is made and left in place; the lock ends with the process.

    Raises:
        BlockingIOError: another holds it, and `wait` is false.
        OSError: the file cannot be made.
    """
    from filelock import FileLock, Timeout  # here, because the gate needs the standard library alone

    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path)) from None
    try:
        yield
    finally:
        lock.release()


# Reading


def open_regular(path: str | Path, *, follow: bool = False) -> BinaryIO:
    """A regular file opened to read its bytes, without waiting for a pipe; `follow`: also through a symbolic link.

    Raises:
        OSError: it cannot be opened; `errno.ELOOP` for a link, `errno.EINVAL` for a folder, a pipe or a device.
    """
    link = 0 if follow else os.O_NOFOLLOW
    opened = os.open(path, os.O_RDONLY | link | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.fdopen(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


def read_regular(path: str | Path, most: int, *, follow: bool = False) -> bytes:
    """All bytes of a regular file of at most `most` bytes.

    Raises:
        OSError: as `open_regular`; `errno.EFBIG` for a larger file.
    """
    with open_regular(path, follow=follow) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most >> 20} MiB")
    return data


def read_expected(path: Path, what: str, most: int) -> bytes:
    """The bytes of a regular file that a user named; `what` says in an error what was expected.

    Raises:
        UsageError: a link, a pipe or device, more than `most` bytes, or a file that cannot be read.
    """
    name = f"{str(path)!a}"
    try:
        return read_regular(path, most)
    except OSError as error:
        match error.errno:
            case errno.EINVAL:
                raise UsageError(f"{name}: no regular file (a pipe or device); expected {what}") from None
            case errno.EFBIG:
                size = path.stat().st_size
                raise UsageError(f"{name}: {size:,} bytes; expected {what}, at most {most:,}") from None
        why = "is a symbolic link" if path.is_symlink() else f"cannot be opened ({error.strerror})"
        raise UsageError(f"{name}: {why}; expected {what}") from None


def text_lines(path: Path, what: str) -> list[str]:
    """The lines of a UTF-8 file that a user named, without a byte-order mark; `what` says what was expected.

    Raises:
        UsageError: there is no such file.
        DataError: it cannot be read as UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; expected {what}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({type(error).__name__})") from None


def sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


# Cells of a CSV file


def neutral(text: str) -> str:
    """A CSV cell as it is written: with a leading quote where a spreadsheet would take it for a formula.

    Source: OWASP ASVS 5.0, 1.2.10. A cell that already looks quoted in this way gets one more quote, so that
    `original` gives every text back; numbers are written by number formatters and are not passed here.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def original(cell: str) -> str:
    """The text that `neutral` wrote as this cell."""
    return cell[1:] if _QUOTED.match(cell) else cell
