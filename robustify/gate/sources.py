"""What is scanned (files, the index, a range of commits, a push, a message, standard input), and the policy for it.

A symbolic link is never followed: its own text is what a commit holds. A folder, a pipe or a device is refused.
"""

import errno
import os
import re
import stat
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path

from robustify.errors import DataError, UsageError
from robustify.files import read_regular
from robustify.gate.git import NO_COMMIT, Ref, Repository, TreeEntry, work_tree
from robustify.gate.opaque import MOST_BYTES, SUBMODULE
from robustify.gate.policy import NAME, AllowEntry, Policy, legible, parse_policy, policy_of

_SCISSORS = re.compile(rb"^\S{1,4} -{20,} >8 -{20,}\r?\n((?:[^\w\s].*\n?)*)(?=diff --git |\Z)", re.M)
"""Git's scissors line and the comment below it, where nothing follows but the diff that `git commit -v` shows. A line
that a person wrote cuts nothing: git keeps it and what follows."""
_REFS = ("refs/heads", "refs/tags")
REMOTE_VARIABLE = "PRE_COMMIT_REMOTE_NAME"


@dataclass(frozen=True, slots=True, repr=False)
class Blob:
    """What one path holds. `data` is None if it is larger than the gate reads; `named`: the path is a file's."""

    path: str
    data: bytes | None
    size: int
    named: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be scanned, the policy that counts for it, and what a reader must know of the choice of both."""

    contents: Iterator[Blob]
    policy: Policy
    notes: tuple[str, ...] = ()


def of_files(names: Iterable[str], root: Path | None) -> Iterator[Blob]:
    """Yield named files; their paths are relative to the repository's root if they lie in it."""
    for i, name in enumerate(names, 1):
        data, size = _read(name, f"argument {i}")
        yield Blob(_relative(name, root), data, size)


def of_named(names: Sequence[str], root: Path) -> Iterator[Blob]:
    """Yield named files, and submodules by their folder."""
    repository = Repository(root)
    for name in names:
        path = _relative(name, root)
        links = [entry for entry in repository.tracked() if entry.is_submodule and entry.path == path]
        yield from of_entries(repository, links) if links else of_files([name], root)


def _relative(name: str, root: Path | None) -> str:
    path = Path(os.path.abspath(name))
    return path.relative_to(root).as_posix() if root is not None and path.is_relative_to(root) else name


def _read(name: str, argument: str) -> tuple[bytes | None, int]:
    """Return the bytes of a file, or a link's own text. Raises `UsageError`, without the name if that could be text."""
    shown = legible(name) if len(name) <= 120 and len(name.split()) <= 6 else f"<{argument}>"
    try:
        status = os.lstat(name)
        if stat.S_ISLNK(status.st_mode):
            link = os.fsencode(os.readlink(name))
            return link, len(link)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UsageError(f"{shown} is {kind}; expected files (all that git tracks: robustify gate --all)")
        data = read_regular(name, MOST_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return None, status.st_size
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise UsageError(f"{shown} cannot be read ({why}); expected a file") from None
    return data, len(data)


def of_stdin() -> Iterator[Blob]:
    """Yield standard input, to its end."""
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    yield Blob("<stdin>", data if len(data) <= MOST_BYTES else None, len(data), named=False)


def of_message(name: str) -> Iterator[Blob]:
    """Yield a commit message being written, without the diff that `git commit -v` shows below it."""
    data, size = _read(name, "the message file")
    cut = _SCISSORS.search(data) if data else None
    yield Blob("<commit message>", data[: cut.start()] if data and cut else data, size, named=False)


def of_entries(repository: Repository, entries: Iterable[TreeEntry]) -> Iterator[Blob]:
    """Yield the contents of git's entries; a submodule is a pointer to a commit elsewhere."""
    files = []
    for entry in entries:
        if entry.is_submodule:
            pointer = SUBMODULE + entry.object.encode() + b"\n"
            yield Blob(entry.path, pointer, len(pointer))
        else:
            files.append(entry)
    read = repository.contents([entry.object for entry in files], MOST_BYTES)
    for entry, (_, size, data) in zip(files, read, strict=True):
        yield Blob(entry.path, data, size)


def of_commits(repository: Repository, commits: list[str]) -> Iterator[Blob]:
    """Yield what commits bring: every content of every path, then their messages."""
    yield from of_entries(repository, repository.changed(commits))
    for name, size, data in repository.contents(commits, MOST_BYTES):
        yield Blob(f"commit {name[:12]}", _message(data), size, named=False)


def _message(data: bytes | None) -> bytes | None:
    return data.partition(b"\n\n")[2] if data is not None else None


def of_refs(repository: Repository, refs: Sequence[Ref], other_names: Sequence[str] = ()) -> Iterator[Blob]:
    """Yield the names of branches and tags, the messages of annotated tags, and what a tag of no commit holds."""
    names = "\n".join(dict.fromkeys((*(ref.name for ref in refs), *other_names))).encode("utf-8", "replace")
    yield Blob("<names of branches and tags>", names, len(names), named=False)
    tags = [ref.object for ref in refs if ref.kind == "tag"]
    while tags:
        inner = []
        for name, size, data in repository.contents(tags, MOST_BYTES):
            yield Blob(f"tag {name[:12]}", _message(data), size, named=False)
            head = (data or b"").partition(b"\n\n")[0]
            fields = dict(line.split(b" ", 1) for line in head.splitlines() if b" " in line)
            inner += [fields[b"object"].decode()] if fields.get(b"type") == b"tag" else []
        tags = inner
    for ref in refs:
        if ref.target_kind == "tree":
            yield from of_entries(repository, repository.within(ref.target))
        elif ref.target_kind == "blob":
            yield from of_entries(repository, [TreeEntry(f"tag {ref.object[:12]}", ref.target, "100644")])


def task_of(asked: Namespace) -> Task:
    """Return the one mode that was asked for.

    Raises:
        UsageError: no repository where one is needed, or no range.
        DataError: a policy that cannot be trusted.
    """
    if asked.staged or asked.all:
        repository = Repository(Path.cwd())
        tracked = repository.tracked()
        entry = next((entry for entry in tracked if entry.path == NAME), None)
        return Task(
            of_entries(repository, repository.staged() if asked.staged else tracked),
            _policy(repository, entry),
        )
    if asked.pushed:
        return _of_push(Repository(Path.cwd()), asked.policy_from)
    if asked.range is not None:
        return _of_range(Repository(Path.cwd()), asked.range, asked.policy_from)
    root = work_tree(Path.cwd())
    if asked.commit_msg is not None:
        contents = of_message(asked.commit_msg)
    else:
        contents = of_stdin() if asked.stdin else of_files(asked.files, root)
    return Task(contents, policy_of(root))


def _of_range(repository: Repository, bounds: str, policy_from: str) -> Task:
    lower, dots, upper = bounds.partition("..")
    if not dots or not lower or upper.startswith("."):
        raise UsageError("the range is not of the form A..B; expected two commits, as in main..HEAD")
    upper = upper or "HEAD"
    commits = repository.commits(lower, upper)
    policy, notes = _policy_between(repository, commits, lower, upper, policy_from)
    refs = [ref for ref in repository.refs(*_REFS, "refs/remotes") if ref.target in frozenset(commits)]
    return Task(chain(of_commits(repository, commits), of_refs(repository, refs)), policy, notes)


def _of_push(repository: Repository, policy_from: str) -> Task:
    """Return every ref that a push may publish.

    Git names each on standard input. pre-commit keeps that to itself and names one; `git push --all` or `--tags` may
    take any other, so that every branch and tag is scanned as far as the remote is not known to have it.
    """
    lower, upper = (os.environ.get(f"PRE_COMMIT_{end}_REF", "") for end in ("FROM", "TO"))
    names = [os.environ.get(f"PRE_COMMIT_{end}_BRANCH", "") for end in ("LOCAL", "REMOTE")]
    if not (lower or upper or names[0]):
        return _of_named_refs(repository, policy_from)
    if names[0] and not lower:  # everything is new
        lower, upper = NO_COMMIT, names[0]
    named = repository.commits(lower, upper)
    remote = os.environ.get(REMOTE_VARIABLE)
    known = [f"--remotes={remote}"] if remote else []
    known += [repository.commit(lower)] if lower.strip("0") else []
    commits = list(dict.fromkeys(named + repository.listed("--branches", "--tags", "--not", *known)))
    return _of_refs_and(repository, commits, (repository.refs(*_REFS), names), (lower, upper, policy_from))


def _of_named_refs(repository: Repository, policy_from: str) -> Task:
    """Return the refs that git names to its hook: local name, object, remote name, object, one push per line."""
    rows = [line.rsplit(" ", 3) for line in sys.stdin.read().splitlines()]
    if not rows or any(len(row) != 4 for row in rows):
        raise UsageError("nothing says what is pushed; without a pre-push hook: --range origin/main..HEAD")
    refs = [repository.ref(name, one) for name, one, _, _ in rows if one.strip("0")]  # the others are deleted
    known = [one for *_, one in rows if one.strip("0") and repository.has(f"{one}^{{commit}}")]
    tips = [ref.target for ref in refs if ref.target_kind == "commit"]
    commits = repository.listed(*tips, *(f"^{one}" for one in known)) if tips else []
    bounds = (known[0] if known else NO_COMMIT, tips[0] if tips else "HEAD", policy_from)
    return _of_refs_and(repository, commits, (refs, [row[2] for row in rows]), bounds)


def _of_refs_and(
    repository: Repository,
    commits: list[str],
    named: tuple[Sequence[Ref], Sequence[str]],
    bounds: tuple[str, str, str],
) -> Task:
    """Return commits and refs under the policy between two commits. Raises `UsageError` if the history is cut."""
    if repository.cut(commits):
        raise UsageError("the history is cut within what is pushed (shallow clone); fetch all: fetch-depth 0")
    policy, notes = _policy_between(repository, commits, *bounds)
    return Task(chain(of_commits(repository, commits), of_refs(repository, *named)), policy, notes)


def _policy_between(
    repository: Repository, commits: list[str], lower: str, upper: str, policy_from: str
) -> tuple[Policy, tuple[str, ...]]:
    """Return the policy of a range, and what to say of it.

    `base` is the policy that the range begins with. `head` adds every entry that one of its commits had, so that a
    content which a later commit replaced keeps its entry. `apart` adds them only from commits that change nothing else.
    """
    old = _entries_at(repository, lower) if lower.strip("0") else frozenset()
    if policy_from == "base":
        return Policy(tuple(old)), ()
    new, together = set[AllowEntry](), set[AllowEntry]()
    at_end = frozenset(_policy_at(repository, upper).entries)
    for commit in repository.touching(NAME, commits):
        alone = {entry.path for entry in repository.changed([commit])} == {NAME}
        (new if alone or policy_from == "head" else together).update(_entries_at(repository, commit))
    new = (new | at_end if policy_from == "head" else new) - old
    dropped = len((together & at_end) - new - old)
    notes = []
    if new and policy_from == "apart":
        notes.append(
            f"{len(new)} entries of the allow list are newer than the base: a person must look at them"
        )
    if dropped:
        notes.append(
            f"{dropped} new entries of the allow list do not count: they came in one commit with something else;"
            f" commit {NAME} alone"
        )
    return Policy((*old, *new)), tuple(notes)


def _entries_at(repository: Repository, commit: str) -> frozenset[AllowEntry]:
    """Return the entries of a commit's policy; none if it cannot be trusted."""
    try:
        return frozenset(_policy_at(repository, commit).entries)
    except DataError:
        return frozenset()


def _policy_at(repository: Repository, commit: str) -> Policy:
    """Return the policy of a commit; none if the commit has no such file or there is no commit yet."""
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
