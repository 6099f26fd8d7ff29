"""Write files atomically, lock files, and read regular files safely. Also find the cache folder, and escape CSV cells.

Unless documented otherwise, functions raise `OSError`. The gate uses this module, so that it imports only the standard
library.
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

from robustify.base.errors import DataError, Notice, ResourceError, UsageError

OTHER_FOLDER = "choose a writable folder with -o DIR"
"""Hint for a results folder that cannot be written."""
MORE_SPACE = "free some disk space"
_FULL = (errno.ENOSPC, errno.EDQUOT)
OWNED = hasattr(os, "geteuid")
"""Whether files have an owner and a mode that can be checked, as on Linux and macOS. Windows has neither."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FORMULA = re.compile("'*[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
_QUOTED = re.compile("'+[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")


@contextlib.contextmanager
def writing(path: Path, *, private: bool = False, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` at the end of the block. If the block raises an error, the temporary file
    is removed. With `private`, its mode is 0600. With `sync`, it is flushed to disk first, which caches can skip."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with os.fdopen(open_descriptor(part, _CREATE, 0o600 if private else 0o666), "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def writable(what: Path | str, hint: str = "") -> Iterator[None]:
    """Turn a failure to write `what` inside the block into a `ResourceError`. Its message ends with `hint`, or with advice
    to free space if the disk is full."""
    try:
        yield
    except OSError as error:
        cause = error.strerror or type(error).__name__
        hints = [MORE_SPACE] * (error.errno in _FULL) + [hint] * bool(hint)
        end = f"; {', or '.join(hints)}" if hints else ""
        raise ResourceError(f"{what} cannot be written ({cause}){end}", code="file-not-writable") from None


def write_atomic(path: Path, data: bytes, *, private: bool = False, sync: bool = True) -> None:
    """Write bytes to a file atomically, with the same options as `writing`."""
    with writing(path, private=private, sync=sync) as file:
        file.write(data)


def replace_text(path: Path, text: str) -> None:
    """Write text to a file that the user named. If writing fails, an existing regular file stays unchanged."""
    if path.exists() and not path.is_file():
        path.write_text(
            text, encoding="utf-8", errors="surrogatepass", newline="\n"
        )  # a pipe cannot be flushed to disk
    else:
        write_atomic(path.resolve(), text.encode("utf-8", "surrogatepass"))


def write_new(path: Path, text: str) -> None:
    """Write a new file with mode 0600 and flush it to disk. After an error, no file remains. Raise `UsageError` if the file
    already exists, and `ResourceError` if it cannot be written."""
    name = f"{str(path)!a}"
    with writable(name, "choose another place"), contextlib.ExitStack() as undo:
        try:
            new = open_descriptor(path, _CREATE)
        except FileExistsError:
            raise UsageError(
                f"{name} already exists and is never overwritten. Choose a new file name.", code="file-exists"
            ) from None
        undo.callback(path.unlink, missing_ok=True)
        with os.fdopen(new, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        undo.pop_all()


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Create files inside the block with mode 0600, and folders with mode 0700."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8 with LF line endings, and flush the file to disk."""
    write_texts(path, (text,))


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write several texts to one file, in order, as `write_text` does."""
    with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.writelines(texts)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: object) -> None:
    """Write indented JSON. Raise `ValueError` for NaN, which is a bug."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextlib.contextmanager
def staging(folder: Path, prefix: str = ".staging-") -> Iterator[Path]:
    """Create a temporary folder inside `folder`. Its files are moved up when all are written. Temporary folders of killed
    processes are removed, so the caller must hold a lock on `folder` or be its only writer."""
    for abandoned in folder.glob(f"{prefix}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def move_up(place: Path, folder: Path, name: str) -> None:
    """Move a file or folder from a staging folder to the same relative path (`name`) in `folder`."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    os.replace(place / name, folder / name)


def open_descriptor(path: str | Path, flags: int, mode: int = 0o600, *, follow: bool = False) -> int:
    """Open a file in binary mode, and return a descriptor that child processes do not inherit. Opening a pipe does not
    block. Raise `OSError` for a symbolic link, unless `follow` is set."""
    # Windows lacks some of the flags.
    if not follow and not hasattr(os, "O_NOFOLLOW") and os.path.islink(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT", *(() if follow else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    return os.open(path, flags, mode)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Lock the file `path`, which is created if missing and never deleted. Raise `BlockingIOError` if `wait` is false and
    another process holds the lock."""
    from filelock import FileLock, Timeout  # local, because the gate only has the standard library

    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path)) from None
    try:
        yield
    finally:
        lock.release()


def open_regular(path: str | Path, *, follow: bool = False) -> BinaryIO:
    """Open a regular file for binary reading. Raise `OSError` with `ELOOP` for a link, unless `follow` is set, and with
    `EINVAL` for a folder, pipe, or device."""
    file = open_descriptor(path, os.O_RDONLY, follow=follow)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_regular(path: str | Path, most: int, *, follow: bool = False) -> bytes:
    """Read a regular file. Raise `OSError` like `open_regular`, and with `EFBIG` if the file has more than `most` bytes."""
    with open_regular(path, follow=follow) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most >> 20} MiB")
    return data


def read_expected(path: Path, what: str, most: int) -> bytes:
    """Read a file that the user named. Errors call it `what`. Raise `UsageError` if the file is a link, pipe, or device, is
    larger than `most` bytes, or cannot be read."""
    try:
        return read_regular(path, most)
    except OSError as error:
        match error.errno:
            case errno.EINVAL:
                fault = Notice("is a folder, pipe, or device", code="not-a-regular-file")
            case errno.EFBIG:
                fault = Notice(f"is {path.stat().st_size:,} bytes", code="file-too-large")
                what = f"{what} no larger than {most:,} bytes"
            case _ if path.is_symlink():
                fault = Notice("is a symbolic link", code="symbolic-link")
            case _:
                cause = error.strerror or type(error).__name__
                fault = Notice(f"cannot be opened ({cause})", code="file-not-readable")
        raise UsageError(f"{str(path)!a} {fault}; expected {what}", code=fault.code) from None


def text_lines(path: Path, what: str) -> list[str]:
    """Read the lines of a UTF-8 file, without its byte-order mark. Errors call it `what`. Raise `UsageError` if the file
    does not exist, and `DataError` if it cannot be read as UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; expected {what}", code="no-such-file") from None
    except (OSError, UnicodeDecodeError) as error:
        cause = type(error).__name__
        raise DataError(
            f"{path} cannot be read as UTF-8 text ({cause}). Save it as UTF-8.", code="not-utf-8"
        ) from None


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


QUOTED = "quoted for spreadsheets"
"""Name of an empty column in a file of items whose cells all went through `neutral`, so that loaders undo it only there."""


def neutral(text: str) -> str:
    """Add a leading quote to a CSV cell that a spreadsheet would read as a formula (OWASP ASVS 5.0, 1.2.10). A cell that
    already looks quoted gets one more quote, so that `original` restores every text."""
    return f"'{text}" if _FORMULA.match(text) else text


def original(cell: str) -> str:
    """Remove the leading quote that `neutral` added to a CSV cell."""
    return cell[1:] if _QUOTED.match(cell) else cell


def cache_folder(given: Path | None = None) -> Path:
    """Return the cache folder: `given`, or else $ROBUSTIFY_CACHE, $XDG_CACHE_HOME/robustify, or ~/.cache/robustify."""
    if given is not None:
        return given.expanduser()
    if own := os.environ.get("ROBUSTIFY_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "robustify"
