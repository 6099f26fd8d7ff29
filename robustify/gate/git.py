"""Git, asked through its plumbing with everything switched off that a hostile repository could set to run code.

Blobs are read from the object store, never from the work tree, so that no filter, text conversion or external diff
changes what the gate sees. Nothing is written and nothing is fetched.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A path with the object that it holds."""

    path: str
    object: str
    is_submodule: bool = False
    """Whether the object is another repository's commit."""


Content = tuple[str, int, bytes | None]
"""The kind of an object (commit, tag, tree or blob), its size, and its bytes unless they are too many."""


class Repository:
    """One repository, by a folder in it. Raises `UsageError` (exit 2) where git knows none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if self.ask("rev-parse", "--git-dir") is None:
            raise UsageError("not inside a git repository; name files instead: robustify gate FILES")

    def indexed(self, *, changed: bool) -> list[Entry]:
        """Return every path of the index, or those that the next commit would add or change."""
        beside = "HEAD" if changed and self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") else ""
        beside = beside or self._run("hash-object", "-t", "tree", "--stdin").decode().strip()
        return _entries(self._run("diff-index", "--cached", *_DIFF, beside, "--"))

    def commit(self, name: str) -> str:
        """Return the commit of a name. Raises `UsageError` for a name that is none here."""
        safe = bool(name) and not name.startswith("-")
        found = self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if safe else None
        if found is None:
            raise UsageError("the range names no commit that is here (a shallow clone?); expected A..B")
        return found

    def commits(self, tips: Iterable[str], known: Iterable[str]) -> list[str]:
        """Return the commits of the tips that are not of the known ones, the newest first.

        Raises `UsageError` where a shallow clone has lost the parents of one of them.
        """
        commits = self._run("rev-list", "--stdin", given=_lines(tips, known)).decode().split()
        shallow = self._folder / (self.ask("rev-parse", "--git-path", "shallow") or "")
        if shallow.is_file() and not set(shallow.read_text(encoding="ascii").split()).isdisjoint(commits):
            raise UsageError(
                "the history is cut within what is asked for (shallow clone); fetch all: fetch-depth 0"
            )
        return commits

    def objects(self, tips: Iterable[str], known: Iterable[str]) -> list[Entry]:
        """Return every object of the tips that is not of the known ones: commits, tags, trees and files, with a path."""
        rows = os.fsdecode(
            self._run("rev-list", "--objects", "--stdin", given=_lines(tips, known))
        ).splitlines()
        return [Entry(path, name) for name, _, path in (row.partition(" ") for row in rows)]

    def changed(self, commits: Iterable[str]) -> list[Entry]:
        """Return every path and content that any of the commits brings, each once; merges against every parent."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", *_DIFF)
        return list(dict.fromkeys(_entries(self._run(*shown, given=_lines(commits)))))

    def touching(self, path: str, commits: Sequence[str]) -> list[str]:
        """Return those of the commits that change a path."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--name-only", "--", path)
        rows = self._run(*shown, given=_lines(commits)).decode("utf-8", "replace").split()
        return list(dict.fromkeys(row for row in rows if row in frozenset(commits)))

    def refs(self, *folders: str) -> list[tuple[str, str, str]]:
        """Return the name of each ref of some folders, the object that it names, and the one behind its tags."""
        refs: dict[str, tuple[str, str]] = {}
        for one, _, name in (row.partition(" ") for row in (self.ask("show-ref", "-d") or "").splitlines()):
            name = name.removesuffix("^{}")
            refs[name] = (refs.get(name, (one,))[0], one)
        return [(name, *objects) for name, objects in refs.items() if name.startswith(folders)]

    def at(self, commit: str, path: str) -> bytes | None:
        """Return what a path holds in a commit, or in the index for an empty name of one."""
        name = self.ask("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
        return next((data for _, _, data in self.contents([name], _CHUNK)), None) if name else None

    def contents(self, names: Iterable[str], most: int) -> Iterator[Content]:
        """Yield each object; no content if it has more than `most` bytes.

        Raises:
            ResourceError: an object is not here, or git does not give it whole (exit 6).
        """
        names = list(names)
        with self._opened(("cat-file", "--batch"), _lines(names)) as process:
            for head in (_stdout(process).readline().split() for _ in names):
                if len(head) != 3:
                    raise ResourceError("an object is missing (a partial clone?) or damaged; run git fsck")
                size, kept, last = int(head[2]), b"", b""
                left = size + 1
                while part := _stdout(process).read(min(left, _CHUNK)):
                    left, last = left - len(part), part[-1:]
                    kept += part if size <= most else b""
                if left or last != b"\n":
                    raise ResourceError("git stopped before it gave an object whole; run git fsck")
                yield head[1].decode(), size, kept[:-1] if size <= most else None

    def ask(self, *args: str) -> str | None:
        """Return what git answers, or None where it ends with an error."""
        with self._opened(args, b"") as process:
            answer = os.fsdecode(_stdout(process).read().strip())
            return answer if process.wait() == 0 else None

    def _run(self, *args: str, given: bytes = b"") -> bytes:
        with self._opened(args, given) as process:
            answer = _stdout(process).read()
            if code := process.wait():
                raise ResourceError(f"git {args[0]} ended with {code}; run it by hand to see why")
            return answer

    def _opened(self, args: Sequence[str], given: bytes) -> "subprocess.Popen[bytes]":
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            line, out, err = command(args), subprocess.PIPE, subprocess.DEVNULL
            try:
                return subprocess.Popen(
                    line, cwd=self._folder, env=environment(), stdin=file, stdout=out, stderr=err
                )
            except OSError as error:
                raise ResourceError(f"git cannot be started ({error.strerror}); install git") from None


def _stdout(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _lines(names: Iterable[str], known: Iterable[str] = ()) -> bytes:
    return "".join(f"{name}\n" for name in (*names, *(f"^{name}" for name in known))).encode()


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


def _entries(raw: bytes) -> list[Entry]:
    """Return the entries of `--raw -z` output that a change leaves behind: deletions and unmerged paths leave none."""
    parts = iter(raw.split(b"\0")[:-1])
    entries = []
    for meta in parts:
        path = next(parts)
        _old, mode, _before, name, status = meta.decode().lstrip(":").split(" ")
        if status[0] not in "DU":
            entries.append(Entry(os.fsdecode(path), name, mode == "160000"))
    return entries


def work_tree(folder: Path) -> Path | None:
    """Return the nearest folder above (or this one) that git calls a work tree."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
