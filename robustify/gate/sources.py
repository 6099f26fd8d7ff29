"""Where the gate's contents come from: named files, the index, a range of commits, a message, standard input.

A symbolic link is never followed: its own text is what a commit holds. A folder, a pipe or a device is refused.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from robustify.errors import UsageError
from robustify.gate.decode.unpack import MOST_BYTES
from robustify.gate.findings import shown
from robustify.gate.git import Entry, Repository

SCISSORS = b"# ------------------------ >8 ------------------------"


@dataclass(frozen=True, slots=True, repr=False)
class Content:
    """What one path holds. `data` is None where it is larger than the gate reads; `named`: the path is a file's."""

    path: str
    data: bytes | None
    size: int
    named: bool = True


def of_files(names: Iterable[str], root: Path | None) -> Iterator[Content]:
    """Named files; their paths are told from the repository's root where they lie in it."""
    for i, name in enumerate(names, 1):
        data, size = _read(name, f"argument {i}")
        yield Content(_relative(name, root), data, size)


def _relative(name: str, root: Path | None) -> str:
    place = Path(os.path.abspath(name))
    if root is not None and place.is_relative_to(root):
        return place.relative_to(root).as_posix()
    return name


def _read(name: str, argument: str) -> tuple[bytes | None, int]:
    """The bytes of a file, or a link's own text. Raises `UsageError` without the name where that could be text."""
    told = shown(name) if len(name) <= 120 and len(name.split()) <= 6 else f"<{argument}>"
    try:
        found = os.lstat(name)
        if stat.S_ISLNK(found.st_mode):
            link = os.fsencode(os.readlink(name))
            return link, len(link)
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise UsageError(f"{told} is {kind}; expected files (all that git tracks: robustify gate --all)")
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no path"
        raise UsageError(f"{told} cannot be read ({why}); expected a file") from None
    with os.fdopen(opened, "rb") as file:
        data = file.read(MOST_BYTES + 1) if found.st_size <= MOST_BYTES else b""
    whole = found.st_size <= MOST_BYTES and len(data) <= MOST_BYTES
    return (data, len(data)) if whole else (None, max(found.st_size, len(data)))


def of_stdin() -> Iterator[Content]:
    """Standard input, to the end."""
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    yield Content("<stdin>", data if len(data) <= MOST_BYTES else None, len(data), named=False)


def of_message(name: str) -> Iterator[Content]:
    """A commit message being written; what git cuts off below the scissors line is not part of it."""
    data, size = _read(name, "the message file")
    yield Content("<commit message>", data.split(SCISSORS)[0] if data else data, size, named=False)


def of_entries(repository: Repository, entries: Iterable[Entry]) -> Iterator[Content]:
    """The contents of git's entries; a submodule holds none here."""
    held = [entry for entry in entries if not entry.is_submodule]
    read = repository.contents([entry.object for entry in held], MOST_BYTES)
    for entry, (_, size, data) in zip(held, read, strict=True):
        yield Content(entry.path, data, size)


def of_commits(repository: Repository, commits: list[str]) -> Iterator[Content]:
    """What commits bring: every content of every path, then their messages."""
    yield from of_entries(repository, repository.changed(commits))
    for name, size, data in repository.contents(commits, MOST_BYTES):
        message = data.partition(b"\n\n")[2] if data is not None else None
        yield Content(f"commit {name[:12]}", message, size, named=False)
