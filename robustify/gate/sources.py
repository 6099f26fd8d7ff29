"""What is scanned (files, the index, a range of commits, a push, a message), and the policy for it.

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
from pathlib import Path

from robustify.errors import DataError, UsageError
from robustify.files import read_regular
from robustify.gate.git import Entry, Repository, work_tree
from robustify.gate.opaque import MOST_BYTES, SUBMODULE
from robustify.gate.policy import NAME, AllowEntry, Policy, legible, parse_policy, policy_of

_SCISSORS = re.compile(rb"^\S{1,4} -{20,} >8 -{20,}\r?\n((?:[^\w\s].*\n?)*)(?=diff --git |\Z)", re.M)
"""Git's scissors line and the comment below it, where nothing follows but the diff that `git commit -v` shows. A line
that a person wrote cuts nothing: git keeps it and what follows."""
_DULL = re.compile(
    rb"^(?:tree|parent|object|type) [\w-]+\n"
    rb"|^gpgsig\S* -----BEGIN \w+ SIGNATURE-----\n(?: Version: .{1,40}\n)?(?: [\w+/=]*\n){1,40}"
    rb" -----END \w+ SIGNATURE-----\n|[\d +-]+$",
    re.M,
)
"""What the head of a commit or tag holds that nobody writes: digests, a signature, times."""
_REFS = ("refs/heads", "refs/tags", "refs/notes", "refs/stash")
"""What a push may publish."""
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


def task_of(asked: Namespace) -> Task:
    """Return the one mode that was asked for.

    Raises:
        UsageError: no repository where one is needed, or no range.
        DataError: a policy that cannot be trusted.
    """
    if asked.staged or asked.all:
        repository = Repository(Path.cwd())
        return Task(
            of_entries(repository, repository.indexed(changed=asked.staged)), _policy_at(repository, "")
        )
    if asked.pushed is not None:
        return _of_push(Repository(Path.cwd()), asked.pushed)
    if asked.range is not None:
        return _of_range(Repository(Path.cwd()), asked.range, asked.policy_from)
    root = work_tree(Path.cwd())
    contents = of_files(asked.files, root) if asked.commit_msg is None else of_message(asked.commit_msg)
    return Task(contents, policy_of(root))


def of_files(names: Iterable[str], root: Path | None) -> Iterator[Blob]:
    """Yield named files; their paths are relative to the repository's root if they lie in it."""
    for i, name in enumerate(names, 1):
        data, size = _read(name, f"argument {i}")
        yield Blob(_relative(name, root), data, size)


def of_named(names: Sequence[str], root: Path) -> Iterator[Blob]:
    """Yield named files, and submodules by their folder."""
    repository = Repository(root)
    links = {entry.path: entry for entry in repository.indexed(changed=False) if entry.is_submodule}
    for name in names:
        link = links.get(_relative(name, root))
        yield from of_entries(repository, [link]) if link else of_files([name], root)


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


def of_message(name: str) -> Iterator[Blob]:
    """Yield a commit message being written, without the diff that `git commit -v` shows below it."""
    data, size = _read(name, "the message file")
    cut = _SCISSORS.search(data) if data else None
    yield Blob("<commit message>", data[: cut.start()] if data and cut else data, size, named=False)


def of_entries(repository: Repository, entries: Iterable[Entry]) -> Iterator[Blob]:
    """Yield the contents of git's entries; a submodule is a pointer to a commit elsewhere."""
    files = []
    for entry in entries:
        if entry.is_submodule:
            pointer = SUBMODULE + entry.object.encode() + b"\n"
            yield Blob(entry.path, pointer, len(pointer))
        else:
            files.append(entry)
    contents = repository.contents([entry.object for entry in files], MOST_BYTES)
    for entry, (_, size, data) in zip(files, contents, strict=True):
        yield Blob(entry.path, data, size)


def of_tips(
    repository: Repository, tips: Sequence[str], known: Sequence[str], names: Iterable[str]
) -> Iterator[Blob]:
    """Yield what tips bring beside what is known: every content of every path of their commits, messages and authors of
    commits and tags, what a tag of no commit holds; and the names of refs."""
    changed = repository.changed(repository.commits(tips, known))
    yield from of_entries(repository, changed)
    seen, heads = {entry.object for entry in changed}, set[bytes]()
    others = [entry for entry in repository.objects(tips, known) if entry.object not in seen]
    for entry, (kind, size, data) in zip(
        others, repository.contents([e.object for e in others], MOST_BYTES), strict=True
    ):
        if kind == "blob":
            yield Blob(entry.path or f"object {entry.object[:12]}", data, size)
        elif kind != "tree":
            head, _, message = (data or b"").partition(b"\n\n")
            heads.update(_DULL.sub(b"", head).splitlines())
            yield Blob(f"{kind} {entry.object[:12]}", None if data is None else message, size, named=False)
    for says, lines in (("names of refs", [os.fsencode(name) for name in names]), ("authors", sorted(heads))):
        data = b"\n".join(lines)
        yield Blob(f"<{says}>", data, len(data), named=False)


def _of_range(repository: Repository, bounds: str, policy_from: str) -> Task:
    """Return A..B; A all zeros (a new branch) means every commit of B. Tags and names of refs in the range belong to it."""
    lower, dots, upper = bounds.partition("..")
    if not dots or not lower or upper.startswith("."):
        raise UsageError("the range is not of the form A..B; expected two commits, as in main..HEAD")
    known = [repository.commit(lower)] if lower.strip("0") else []
    tips = [repository.commit(upper or "HEAD")]
    commits = frozenset(repository.commits(tips, known))
    refs = [ref for ref in repository.refs(*_REFS[:2], "refs/remotes") if ref[2] in commits]
    tips += [one for _, one, _ in refs]
    contents = of_tips(repository, tips, known, [name for name, _, _ in refs])
    return Task(contents, *_policy_between(repository, known, repository.commits(tips, known), policy_from))


def _of_push(repository: Repository, remote: str) -> Task:
    """Return what a push publishes.

    Git names each ref on standard input. pre-commit keeps that to itself and names the first; the push may take any
    other, so that every branch, tag, note and stash is scanned as far as the remote is not known to have it.
    """
    lower, upper = (os.environ.get(f"PRE_COMMIT_{end}_REF", "") for end in ("FROM", "TO"))
    names = [os.environ.get(f"PRE_COMMIT_{end}_BRANCH", "") for end in ("LOCAL", "REMOTE")]
    remote = remote or os.environ.get(REMOTE_VARIABLE, "")
    known = [one for _, one, _ in repository.refs(f"refs/remotes/{remote}")] if remote else []
    if upper or names[0]:
        first = repository.ask("rev-parse", "--verify", "--quiet", "--end-of-options", upper or names[0])
        if first is None:
            raise UsageError("what pre-commit says is pushed is not here; run the hook through git push")
        refs = repository.refs(*_REFS)
        pushed, tips = [first], [first, *(one for _, one, _ in refs)]
        tips += (repository.ask("log", "-g", "--format=%H", "refs/stash", "--") or "").split()
        names += [name for name, _, _ in refs]
        known += [repository.commit(lower)] if lower.strip("0") else []
    else:
        rows = [line.rsplit(" ", 3) for line in sys.stdin.read().splitlines()]
        if not rows or any(len(row) != 4 for row in rows):
            raise UsageError(
                "nothing says what is pushed; without a pre-push hook: --range origin/main..HEAD"
            )
        pushed = tips = [one for _, one, _, _ in rows if one.strip("0")]  # the others are deleted
        names = [name for row in rows for name in (row[0], row[2])]
        theirs = (repository.ask("rev-parse", "--verify", "--quiet", f"{row[3]}^{{commit}}") for row in rows)
        known += [one for one in theirs if one]
    contents = of_tips(repository, tips, known, names)
    return Task(contents, *_policy_between(repository, pushed, repository.commits(tips, known), "head"))


def _policy_between(
    repository: Repository, start: Iterable[str], commits: Sequence[str], policy_from: str
) -> tuple[Policy, tuple[str, ...]]:
    """Return the policy for new commits, and what to say of it: that of where they start, and perhaps their own.

    `base` adds nothing. `head` adds every entry that one of the commits had, so that a content which a later commit
    replaced keeps its entry. `apart` adds them only from commits that change nothing else.
    """
    old = {entry for commit in start for entry in _entries_at(repository, commit)}
    new, together = set[AllowEntry](), set[AllowEntry]()
    for commit in repository.touching(NAME, commits) if policy_from != "base" else ():
        alone = {entry.path for entry in repository.changed([commit])} == {NAME}
        (new if alone or policy_from == "head" else together).update(_entries_at(repository, commit))
    notes = []
    if policy_from == "apart" and (n := len(new - old)):
        notes.append(f"{n} entries of the allow list are newer than the base: a person must look at them")
    if n := len(together - new - old):
        why = f"they came in one commit with something else; commit {NAME} alone"
        notes.append(f"{n} new entries of the allow list do not count: {why}")
    return Policy((*old, *new)), tuple(notes)


def _entries_at(repository: Repository, commit: str) -> tuple[AllowEntry, ...]:
    """Return the entries of a commit's policy; none if it cannot be trusted."""
    try:
        return _policy_at(repository, commit).entries
    except DataError:
        return ()


def _policy_at(repository: Repository, commit: str) -> Policy:
    """Return the policy of a commit, or of the index for an empty name; none if it has no such file."""
    data = repository.at(commit, NAME)
    where = f"{NAME} (as committed)"
    return (
        parse_policy(data.decode("utf-8", "replace"), where, date.today()) if data is not None else Policy()
    )
