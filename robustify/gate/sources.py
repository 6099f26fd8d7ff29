"""Find the contents to scan (files, the index, a range of commits, a push, or a message), and the policy for them.

Symbolic links are not followed, because a commit stores only their target path. Folders, pipes and devices are refused.
"""

import errno
import hashlib
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from robustify.base.errors import DataError, Notice, ResourceError, UsageError
from robustify.base.files import open_regular, read_regular
from robustify.base.git import Repository, TreeEntry, lines_of, work_tree
from robustify.base.texts import escaped
from robustify.gate.check import NAME, AllowEntry, Blob, Policy, parse_policy, read_policy
from robustify.gate.refused_content import MOST_BYTES, SUBMODULE

_SCISSORS = re.compile(rb"^\S{1,4} -{20,} >8 -{20,}\r?\n((?:[^\w\s].*\n?)*)(?=diff --git |\Z)", re.M)
"""Git's scissors line and the comment below it, if only the diff of `git commit -v` follows. Git keeps any other one."""
_MACHINE_WRITTEN = re.compile(
    rb"^(?:tree|parent|object) [0-9a-f]{40,64}\n|^type [a-z]{3,6}\n|(?<=>)[\d +-]+$", re.M
)
"""Parts of the header of a commit or tag that no person writes: digests, kinds, times. An encoding can be any words."""
_ENCODING = re.compile(rb"^encoding (\S+)$", re.M)
_OBJECT = re.compile(r"(?:commit |tag |object )?(\S+)")


Task = tuple[Iterator[Blob], Policy, tuple[str, ...]]
"""Contents to scan, the policy that applies, and notes for the user."""


def scan_task(options: Namespace) -> Task:
    """Return the scan task for the parsed options. Raise `UsageError` if a repository is missing or the range is invalid,
    and `DataError` if the policy is invalid."""
    if options.staged or options.all:
        repository = Repository(Path.cwd())
        policy = _policy_at(repository, "")
        return entry_blobs(repository, repository.indexed(changed=options.staged)), policy, ()
    if options.pushed is not None:
        return _push_task(Repository(Path.cwd()), options.pushed)
    if options.range is not None:
        return _range_task(Repository(Path.cwd()), options.range, options.policy_from)
    root, message = work_tree(Path.cwd()), options.commit_msg
    contents = _file_blobs(options.files, root) if message is None else _message_blob(message, root)
    return contents, read_policy(root), ()


# Files.


def _file_blobs(names: Iterable[str], root: Path | None) -> Iterator[Blob]:
    for i, name in enumerate(names, 1):
        data, size = _read_argument(name, f"argument {i}")
        yield Blob(_relative(name, root), data, size)


def named_blobs(names: Sequence[str], root: Path) -> Iterator[tuple[str, Iterator[Blob]]]:
    """Yield each name with the blobs that it refers to. A name is a file, a folder (without its ignored files), or the ID
    of a commit or tag. Files are read as staged and as in the work tree."""
    repository = Repository(root)
    staged, others = repository.indexed(changed=False), repository.untracked()
    for name in names:
        path = _relative(name, root)
        entries = [entry for entry in staged if entry.path == path or entry.path.startswith(f"{path}/")]
        files = [entry.path for entry in entries if not entry.is_submodule]
        files += [file for file in others if file.startswith(f"{path}/")]
        commit_name = None if entries or files or os.path.lexists(name) else _OBJECT.fullmatch(name)
        commit = repository.named(commit_name[1]) if commit_name else None
        objects = list(_object_blobs(repository, [TreeEntry("", commit)] if commit else []))
        paths = [os.path.join(root, file) for file in files]
        existing_files = [file for file in paths if os.path.lexists(file) and not os.path.isdir(file)]
        if objects:
            yield objects[0].path, iter(objects)
        else:
            named = existing_files if entries or files else [name]
            yield path, chain(entry_blobs(repository, entries), _file_blobs(named, root))


def _relative(name: str, root: Path | None) -> str:
    path = Path(os.path.abspath(name))
    return path.relative_to(root).as_posix() if root is not None and path.is_relative_to(root) else name


def _read_argument(name: str, argument: str) -> tuple[bytes, int]:
    """Return the content of a file (a digest if it is large) or the target of a link, with its size. Errors never show a
    name that could be text."""
    shown = escaped(name) if len(name) <= 120 and len(name.split()) <= 6 else f"<{argument}>"
    try:
        data = os.fsencode(os.readlink(name)) if os.path.islink(name) else read_regular(name, MOST_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            digest = hashlib.sha256()
            with open_regular(name) as file:
                while part := file.read(MOST_BYTES):
                    digest.update(part)
            return digest.digest(), os.stat(name).st_size
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise UsageError(
            f"{shown} cannot be read ({reason}). Name a readable file, or use `--all`.",
            code="path-not-readable",
        ) from None
    return data, len(data)


def _message_blob(name: str, root: Path | None) -> Iterator[Blob]:
    """Yield a commit message without the diff that `git commit -v` adds below it."""
    data, size = _read_argument(name, "the message file")
    cut = _SCISSORS.search(data)
    data = data[: cut.start()] if cut else data
    encoding = Repository(root).ask("config", "i18n.commitEncoding") if root is not None else None
    yield Blob("<commit message>", _in_utf_8(data, encoding or ""), size)


def _in_utf_8(data: bytes, encoding: str) -> bytes:
    """Return a message in UTF-8. Only encodings that keep ASCII are decoded, because others could hide a text."""
    with suppress(UnicodeDecodeError):
        data.decode()
        return data
    ascii = bytes(range(32, 127))
    with suppress(UnicodeError, LookupError, ValueError):
        if ascii.decode(encoding) == ascii.decode():
            return data.decode(encoding).encode()
    return data


# Objects of Git.


def entry_blobs(repository: Repository, entries: Sequence[TreeEntry]) -> Iterator[Blob]:
    """Yield the contents of Git entries. For a submodule, yield a pointer to its commit."""
    for entry in (entry for entry in entries if entry.is_submodule):
        pointer = SUBMODULE + entry.object.encode() + b"\n"
        yield Blob(entry.path, pointer, len(pointer))
    files = [entry for entry in entries if not entry.is_submodule]
    contents = repository.contents([entry.object for entry in files], MOST_BYTES)
    for entry, (_, size, data) in zip(files, contents, strict=True):
        yield Blob(entry.path, data, size)


def _new_blobs(
    repository: Repository, tips: Sequence[str], old_commits: Sequence[str], names: Iterable[str]
) -> Iterator[Blob]:
    """Yield everything reachable from `tips` but not from `old_commits`: file contents, text that people wrote in
    commits and tags, objects of tags that do not point to a commit, and ref names."""
    changed = repository.changed(repository.commits(tips, old_commits))
    yield from entry_blobs(repository, changed)
    seen = {entry.object for entry in changed}
    yield from _object_blobs(
        repository, [e for e in repository.objects(tips, old_commits) if e.object not in seen]
    )
    yield from (Blob(name, b"", 0) for name in names)


def _object_blobs(repository: Repository, entries: Sequence[TreeEntry]) -> Iterator[Blob]:
    contents = repository.contents([entry.object for entry in entries], MOST_BYTES)
    for entry, (kind, size, data) in zip(entries, contents, strict=True):
        if kind == "blob":
            yield Blob(entry.path or f"object {entry.object[:12]}", data, size)
        elif kind != "tree":
            yield Blob(f"{kind} {entry.object[:12]}", _human_text(data) if size <= MOST_BYTES else data, size)


def _human_text(data: bytes) -> bytes:
    """Return the text that people wrote in a commit or tag: the message and parts of the header."""
    head, _, message = data.partition(b"\n\n")
    encoding = _ENCODING.search(head)
    lines = [line for line in _MACHINE_WRITTEN.sub(b"", head).splitlines() if line.strip()]
    named = encoding[1].decode("ascii", "replace") if encoding else ""
    return _in_utf_8(b"\n".join((message, b"", *lines)), named)


def _range_task(repository: Repository, bounds: str, policy_from: str) -> Task:
    lower, dots, upper = bounds.partition("..")
    if not dots or not lower or upper.startswith("."):
        raise UsageError(
            "The range does not have the form A..B. Expected two commits, such as main..HEAD.",
            code="invalid-range",
        )
    old_commits = [repository.commit(lower)] if lower.strip("0") else []
    tips = [repository.commit(upper or "HEAD")]
    commits = frozenset(repository.commits(tips, old_commits))
    refs = [ref for ref in repository.refs("refs/heads", "refs/tags", "refs/remotes") if ref[2] in commits]
    tips += [commit for _, commit, _ in refs]
    contents = _new_blobs(repository, tips, old_commits, [name for name, _, _ in refs])
    policy, notes = _policy_between(
        repository, old_commits, repository.commits(tips, old_commits), policy_from
    )
    return contents, policy, notes


def _push_task(repository: Repository, named: Sequence[str]) -> Task:
    """Return the scan task for a push to a remote, without commits that the remote already has."""
    # Git lists the pushed refs on standard input. pre-commit reads this list itself, and passes on at most one ref of it.
    first, notes = os.environ.get("PRE_COMMIT_TO_REF") or os.environ.get("PRE_COMMIT_LOCAL_BRANCH", ""), []
    if first:
        tip = repository.named(first)
        if tip is None:
            hint = "Fetch it, or run `robustify gate --all`."
            raise UsageError(
                f"pre-commit names a pushed ref that this repository lacks. {hint}", code="missing-pushed-ref"
            )
        tips = [tip]
        names = [os.environ.get(f"PRE_COMMIT_{end}_BRANCH", "") for end in ("LOCAL", "REMOTE")]
        named = [os.environ.get(f"PRE_COMMIT_REMOTE_{what}", "") for what in ("NAME", "URL")]
    else:
        rows = [line.rsplit(" ", 3) for line in lines_of(sys.stdin.buffer.read())]
        if not (rows or any(named)) or any(len(row) != 4 for row in rows):
            hint = "Outside a pre-push hook, use `--range origin/main..HEAD`."
            raise UsageError(f"Standard input lists no pushed refs. {hint}", code="no-pushed-refs")
        tips = [commit for _, commit, _, _ in rows if commit.strip("0")]  # deleted refs have only zeros
        names = [name for row in rows for name in (row[0], row[2])]
        if not rows:  # nothing is new, or another hook has read the list
            note = "Git listed no ref to push, so the current branch is scanned."
            notes.append(Notice(note, code="no-ref-to-push"))
            tips = [repository.commit("HEAD")]
    old_commits = repository.known_to(*named[:2]) if any(named) else []
    if old_commits is None:
        note = "The remote could not be asked, so what it may already have is scanned, too."
        notes.append(Notice(note, code="remote-not-asked"))
    contents, commits = (
        _new_blobs(repository, tips, old_commits or [], names),
        repository.commits(tips, old_commits or []),
    )
    # HEAD counts, too, because a tag or an old branch may be pushed after the branch with its entry.
    policy, others = _policy_between(repository, ("HEAD", *tips), commits, "head")
    return contents, policy, (*notes, *others)


# Policies.


def _policy_between(
    repository: Repository, start: Iterable[str], commits: Sequence[str], policy_from: str
) -> tuple[Policy, tuple[str, ...]]:
    """Return the policy for new commits, and notes for the user. `base` has only the entries at `start`. `head` adds the
    entries of all new commits, and `apart` those of new commits that change nothing else."""
    notes = []
    old = {entry for commit in start for entry in _entries_at(repository, commit)}
    new, mixed = set[AllowEntry](), set[AllowEntry]()
    for commit in repository.touching(NAME, commits) if policy_from != "base" else ():
        alone = {entry.path for entry in repository.changed([commit])} == {NAME}
        (new if alone or policy_from == "head" else mixed).update(_entries_at(repository, commit))
    if policy_from == "apart" and (n := len(new - old)):
        note = f"{n} policy entries are newer than the base of the range. A person must review them."
        notes.append(Notice(note, code="unreviewed-entries"))
    if n := len(mixed - new - old):
        reason = f"because their commits also change other files. Commit {NAME} alone."
        notes.append(Notice(f"{n} new policy entries do not apply, {reason}", code="mixed-commit"))
    return (*old, *new), tuple(notes)


def _entries_at(repository: Repository, commit: str) -> Policy:
    with suppress(DataError):
        return _policy_at(repository, commit)
    return ()


def _policy_at(repository: Repository, commit: str) -> Policy:
    """Return the policy of a commit, or of the index if `commit` is empty."""
    name = repository.named(f"{commit}:{NAME}")
    for _, size, data in repository.contents([name], MOST_BYTES) if name else ():
        if size > MOST_BYTES:
            fault = f"{NAME} has {size:,} bytes. Expected at most {MOST_BYTES >> 20} MiB"
            raise ResourceError(f"{fault}. Remove entries.", code="large-policy")
        return parse_policy(data, f"{NAME} (as committed)")
    return ()
