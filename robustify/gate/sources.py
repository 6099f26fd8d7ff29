"""What is scanned (named files, the index, a range of commits, a message, standard input), and the policy for it.

A symbolic link is never followed: its own text is what a commit holds. A folder, a pipe or a device is refused.
"""

import errno
import os
import stat
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from robustify.errors import UsageError
from robustify.gate.git import Repository, TreeEntry, work_tree
from robustify.gate.policy import NAME, Policy, parse_policy, shown
from robustify.gate.unpack import MOST_BYTES

SCISSORS = b"# ------------------------ >8 ------------------------"


@dataclass(frozen=True, slots=True, repr=False)
class Blob:
    """What one path holds. `data` is None where it is larger than the gate reads; `named`: the path is a file's."""

    path: str
    data: bytes | None
    size: int
    named: bool = True


def of_files(names: Iterable[str], root: Path | None) -> Iterator[Blob]:
    """Named files; their paths are relative to the repository's root where they lie in it."""
    for i, name in enumerate(names, 1):
        data, size = _read(name, f"argument {i}")
        yield Blob(_relative(name, root), data, size)


def _relative(name: str, root: Path | None) -> str:
    place = Path(os.path.abspath(name))
    if root is not None and place.is_relative_to(root):
        return place.relative_to(root).as_posix()
    return name


def _read(name: str, argument: str) -> tuple[bytes | None, int]:
    """The bytes of a file, or a link's own text. Raises `UsageError` without the name where that could be text."""
    place = shown(name) if len(name) <= 120 and len(name.split()) <= 6 else f"<{argument}>"
    try:
        status = os.lstat(name)
        if stat.S_ISLNK(status.st_mode):
            link = os.fsencode(os.readlink(name))
            return link, len(link)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UsageError(f"{place} is {kind}; expected files (all that git tracks: robustify gate --all)")
        data = read_regular(Path(name), MOST_BYTES, follow=False)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return None, status.st_size
        why = error.strerror if isinstance(error, OSError) else "no path"
        raise UsageError(f"{place} cannot be read ({why}); expected a file") from None
    return data, len(data)


def read_regular(place: Path, most: int, *, follow: bool = True) -> bytes:
    """The bytes of a regular file of at most `most` bytes; `follow`: also through a symbolic link.

    Raises `OSError`, whose `strerror` says why not. A pipe, a device or a file without end is an error, never a wait.
    """
    handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(most + 1) if status.st_size <= most else b""
    finally:
        os.close(handle)
    if status.st_size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most >> 20} MiB")
    return data


def of_stdin() -> Iterator[Blob]:
    """Standard input, to the end."""
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    yield Blob("<stdin>", data if len(data) <= MOST_BYTES else None, len(data), named=False)


def of_message(name: str) -> Iterator[Blob]:
    """A commit message being written; what git cuts off below the scissors line is not part of it."""
    data, size = _read(name, "the message file")
    yield Blob("<commit message>", data.split(SCISSORS)[0] if data else data, size, named=False)


def of_entries(repository: Repository, entries: Iterable[TreeEntry]) -> Iterator[Blob]:
    """The contents of git's entries; a submodule holds none here."""
    files = [entry for entry in entries if not entry.is_submodule]
    read = repository.contents([entry.object for entry in files], MOST_BYTES)
    for entry, (_, size, data) in zip(files, read, strict=True):
        yield Blob(entry.path, data, size)


def of_commits(repository: Repository, commits: list[str]) -> Iterator[Blob]:
    """What commits bring: every content of every path, then their messages."""
    yield from of_entries(repository, repository.changed(commits))
    for name, size, data in repository.contents(commits, MOST_BYTES):
        message = data.partition(b"\n\n")[2] if data is not None else None
        yield Blob(f"commit {name[:12]}", message, size, named=False)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be scanned, and the policy that counts for it. `head` gives the policy of what was committed before:
    where SAFE_DEMO's paths are read from."""

    contents: Iterator[Blob]
    policy: Policy
    head: Callable[[], Policy]


def task_of(asked: Namespace) -> Task:
    """The one mode that was asked for.

    Raises:
        UsageError: no repository where one is needed, or no range. DataError: a policy that cannot be trusted.
    """
    if asked.staged or asked.all:
        repository = Repository(Path.cwd())
        contents = of_entries(repository, repository.staged() if asked.staged else repository.tracked())
        policy = _policy(repository, next((e for e in repository.tracked() if e.path == NAME), None))
        return Task(contents, policy, lambda: _policy_at(repository, "HEAD"))
    if asked.pushed or asked.range is not None:
        return _of_range(
            Repository(Path.cwd()), _pushed() if asked.pushed else asked.range, asked.policy_from
        )
    root = work_tree(Path.cwd())
    if asked.commit_msg is not None:
        contents = of_message(asked.commit_msg)
    else:
        contents = of_stdin() if asked.stdin else of_files(asked.files, root)
    return Task(contents, policy_of(root), lambda: _policy_at(Repository(root), "HEAD") if root else Policy())


def policy_of(root: Path | None) -> Policy:
    """The policy as it lies in a work tree."""
    place = root / NAME if root is not None else None
    if place is None or not place.is_file() or place.is_symlink():
        return Policy()
    return parse_policy(place.read_text(encoding="utf-8", errors="replace"), NAME, date.today())


def _pushed() -> str:
    """The range that pre-commit names; where everything is new it names only the branch."""
    lower, upper = (os.environ.get(f"PRE_COMMIT_{end}_REF", "") for end in ("FROM", "TO"))
    branch = os.environ.get("PRE_COMMIT_LOCAL_BRANCH", "")
    return f"{'0' * 40}..{branch}" if branch and not lower else f"{lower}..{upper}"


def _of_range(repository: Repository, bounds: str, policy_from: str) -> Task:
    lower, dots, upper = bounds.partition("..")
    if not dots or not lower or upper.startswith("."):
        raise UsageError("the range is not of the form A..B; expected two commits, as in main..HEAD")
    upper = upper or "HEAD"
    bound = upper if policy_from == "head" else lower
    policy = _policy_at(repository, bound) if bound.strip("0") else Policy()  # all zeros: a new branch
    return Task(of_commits(repository, repository.commits(lower, upper)), policy, lambda: policy)


def _policy_at(repository: Repository, commit: str) -> Policy:
    """The policy of a commit; none where the commit has no such file or there is no commit yet."""
    try:
        return _policy(repository, repository.at(repository.commit(commit), NAME))
    except UsageError:
        if commit == "HEAD":
            return Policy()
        raise


def _policy(repository: Repository, entry: TreeEntry | None) -> Policy:
    for _, _, data in repository.contents([entry.object], MOST_BYTES) if entry else ():
        return parse_policy((data or b"").decode("utf-8", "replace"), f"{NAME} (as committed)", date.today())
    return Policy()
