"""Git, asked through its plumbing with everything switched off that a hostile repository could set to run code.

Blobs are read from the object store, never from the work tree, so that no filter, text conversion or external diff
changes what the gate sees. Nothing is written and nothing is fetched.
"""

import io
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustify.errors import ResourceError, UsageError

_KEPT = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
         "GIT_COMMON_DIR", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"}  # fmt: skip
"""What git itself tells its hooks; every other GIT_ variable could carry a program or a replacement."""
_OFF = {
    **dict.fromkeys(("core.hooksPath", "core.attributesFile", "diff.orderFile"), os.devnull),
    **dict.fromkeys(("core.fsmonitor", "core.commitGraph", "core.sshCommand", "core.alternateRefsCommand", "core.askPass",
                     "gpg.program", "log.showSignature", "submodule.recurse"), "false"),
    **dict.fromkeys(("credential.helper", "diff.external"), ""),
    "core.pager": "cat",
    "protocol.allow": "never",
}  # fmt: skip
_DIFF = ("-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv")
_TOGETHER = 64 << 20
"""Bytes of objects that are in memory at once."""
NO_COMMIT = "0" * 40
"""What git writes where a ref has no commit: a new or a deleted branch."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A path with the object that it holds. A submodule's mode is 160000: its object is another repository's commit."""

    path: str
    object: str
    mode: str

    @property
    def is_submodule(self) -> bool:
        """Whether the path is another repository's commit."""
        return self.mode == "160000"


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or tag. `object` is what it names; `target` the commit (or tree, or blob) behind an annotated tag."""

    name: str
    object: str
    kind: str
    target: str
    target_kind: str


class Repository:
    """One repository, by a folder in it. Raises `UsageError` (exit 2) where git knows none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if self._asked("rev-parse", "--git-dir") is None:
            raise UsageError("not inside a git repository; name files instead: robustify gate FILES")

    def staged(self) -> list[TreeEntry]:
        """Return what the next commit would add or change, as it is in the index."""
        if self._asked("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
            return self.tracked()
        return _entries(self._run("diff-index", "--cached", *_DIFF, "HEAD", "--"))

    def tracked(self) -> list[TreeEntry]:
        """Return every path of the index, from any folder of the repository: the index beside the empty tree."""
        empty = self._run("hash-object", "-t", "tree", "--stdin").decode().strip()
        return _entries(self._run("diff-index", "--cached", *_DIFF, empty, "--"))

    def commits(self, lower: str, upper: str) -> list[str]:
        """Return the commits of LOWER..UPPER; LOWER all zeros (a new branch) means every commit of UPPER.

        Raises `UsageError` for a name that is none here, and for a history that is cut within the range.
        """
        new = bool(lower) and not lower.strip("0")
        top = self.commit(upper)
        commits = self.listed(top) if new else self.listed(top, f"^{self.commit(lower)}")
        if self.cut(commits):
            raise UsageError("the history is cut within the range (shallow clone); fetch all: fetch-depth 0")
        return commits

    def listed(self, *bounds: str) -> list[str]:
        """Return the commits that `git rev-list` names, the newest first."""
        return self._run("rev-list", *bounds, "--").decode().split()

    def touching(self, path: str, commits: Sequence[str]) -> list[str]:
        """Return those of the commits that change a path."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--name-only", "--", path)
        rows = self._run(*shown, given=_lines(commits)).decode("utf-8", "replace").split()
        return list(dict.fromkeys(row for row in rows if row in frozenset(commits)))

    def cut(self, commits: Iterable[str]) -> bool:
        """Return whether a shallow clone has lost the parents of one of the commits."""
        shallow = self._asked("rev-parse", "--git-path", "shallow")
        place = self._folder / os.fsdecode((shallow or b"").strip())
        return place.is_file() and not set(place.read_text(encoding="ascii").split()).isdisjoint(commits)

    def refs(self, *folders: str) -> list[Ref]:
        """Return the refs of some folders, as in refs/heads and refs/tags."""
        parts = "%(objectname) %(objecttype) %(*objectname) %(*objecttype) %(refname)"
        refs = []
        for row in self._run("for-each-ref", f"--format={parts}", *folders).splitlines():
            name, kind, target, target_kind, full = os.fsdecode(row).split(" ", 4)
            refs.append(Ref(full, name, kind, target or name, target_kind or kind))
        return refs

    def hooks(self) -> Path:
        """Return the folder of the hooks that git runs here, wherever a setting puts it."""
        done = _finished(["git", "rev-parse", "--git-path", "hooks"], b"", self._folder)
        return (self._folder / os.fsdecode(done.stdout.strip())).resolve()

    def has(self, name: str) -> bool:
        """Return whether an object is here."""
        return self._asked("cat-file", "-e", name) is not None

    def ref(self, name: str, one: str) -> Ref:
        """Return a ref by its name and the object that it names. Raises `ResourceError` for an object that is not here."""
        kind = self._run("cat-file", "-t", one).decode().strip()
        target = self._run("rev-parse", "--verify", f"{one}^{{}}").decode().strip()
        return Ref(name, one, kind, target, self._run("cat-file", "-t", target).decode().strip())

    def within(self, tree: str) -> list[TreeEntry]:
        """Return every path of a tree."""
        rows = self._run("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")
        return [_tree_entry(row) for row in rows if row]

    def commit(self, name: str) -> str:
        """Return the commit of a name. Raises `UsageError` for a name that is none here."""
        safe = bool(name) and not name.startswith("-")
        found = self._asked("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if safe else None
        if found is None:
            raise UsageError("the range names no commit that is here (a shallow clone?); expected A..B")
        return found.decode().strip()

    def changed(self, commits: Iterable[str]) -> list[TreeEntry]:
        """Return every path and content that any of the commits brings, each once; merges against every parent."""
        raw = self._run(
            "diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", *_DIFF, given=_lines(commits)
        )
        return list(dict.fromkeys(_entries(raw)))

    def at(self, commit: str, path: str) -> TreeEntry | None:
        """Return the entry of a path in a commit."""
        raw = self._run("ls-tree", "-z", "--full-tree", commit, "--", path).split(b"\0")[0]
        return _tree_entry(raw) if raw else None

    def contents(self, names: Sequence[str], most: int) -> Iterator[tuple[str, int, bytes | None]]:
        """Yield the size and content of each object; no content if it has more than `most` bytes.

        Raises:
            ResourceError: an object is not here, or git does not give it whole (exit 6).
        """
        sizes = _sizes(self._run("cat-file", "--batch-check", given=_lines(names)), len(names))
        left = list(zip(names, sizes, strict=True))
        while left:
            n, together = 0, 0  # so many of the next ones are in memory at once
            while n < len(left) and (n == 0 or together + min(left[n][1], most) <= _TOGETHER):
                together += min(left[n][1], most)
                n += 1
            some, left = left[:n], left[n:]
            raw = io.BytesIO(
                self._run("cat-file", "--batch", given=_lines(a for a, size in some if size <= most))
            )
            for name, size in some:
                if size > most:
                    yield name, size, None
                    continue
                _sizes(raw.readline(), 1)
                data = raw.read(size)
                if len(data) != size or raw.read(1) != b"\n":
                    raise ResourceError("git stopped before it gave an object whole; run git fsck")
                yield name, size, data

    def _asked(self, *args: str) -> bytes | None:
        done = self._done(args, b"")
        return done.stdout if done.returncode == 0 else None

    def _run(self, *args: str, given: bytes = b"") -> bytes:
        done = self._done(args, given)
        if done.returncode:
            raise ResourceError(f"git {args[0]} ended with {done.returncode}; run it by hand to see why")
        return done.stdout

    def _done(self, args: Sequence[str], given: bytes) -> "subprocess.CompletedProcess[bytes]":
        return _finished(command(args), given, self._folder)


def _finished(line: Sequence[str], given: bytes, folder: Path) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            line, input=given, capture_output=True, cwd=folder, env=environment(), check=False
        )
    except OSError as error:
        raise ResourceError(f"git cannot be started ({error.strerror}); install git") from None


def _sizes(raw: bytes, n: int) -> list[int]:
    rows = [row.split() for row in raw.splitlines()]
    if len(rows) != n or any(len(row) != 3 for row in rows):
        raise ResourceError("an object is missing (a partial clone?) or damaged; run git fsck")
    return [int(size) for _, _, size in rows]


def _lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()


def command(args: Sequence[str]) -> list[str]:
    """Return the command line of a git call, with every setting that runs a program switched off."""
    return ["git", *(part for name, value in _OFF.items() for part in ("-c", f"{name}={value}")), *args]


def environment() -> dict[str, str]:
    """Return the environment of a git call: no replacements of objects, no fetching, no variable that names a program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    return kept | {
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "LC_ALL": "C",
    }


def _tree_entry(row: bytes) -> TreeEntry:
    meta, _, path = row.partition(b"\t")
    mode, _kind, name = meta.decode().split(" ")
    return TreeEntry(os.fsdecode(path), name, mode)


def _entries(raw: bytes) -> list[TreeEntry]:
    """Return the entries of `--raw -z` output that a change leaves behind: deletions and unmerged paths leave none."""
    parts = iter(raw.split(b"\0")[:-1])
    entries = []
    for meta in parts:
        path = next(parts)
        _old, mode, _before, name, status = meta.decode().lstrip(":").split(" ")
        if status[0] not in "DU":
            entries.append(TreeEntry(os.fsdecode(path), name, mode))
    return entries


def work_tree(folder: Path) -> Path | None:
    """Return the nearest folder above (or this one) that git calls a work tree."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
