"""Read-only access to Git objects through plumbing commands.

All settings with which a hostile repository could run code are off. Blobs are read from the object store, so that no
filter, text conversion or external diff changes what is scanned. Nothing is written or fetched.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from robustify.errors import ResourceError, UsageError

_KEPT = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
         "GIT_COMMON_DIR", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_CONFIG_GLOBAL",
         "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}  # fmt: skip
"""Variables that Git sets for its hooks, or that name the user's own settings. Any other GIT_ variable could name a
program or a replacement object."""
_OFF = {
    **dict.fromkeys(("core.hooksPath", "core.attributesFile", "diff.orderFile"), os.devnull),
    **dict.fromkeys(("core.fsmonitor", "core.commitGraph", "core.sshCommand", "core.alternateRefsCommand", "core.askPass",
                     "gpg.program", "log.showSignature", "submodule.recurse"), "false"),
    **dict.fromkeys(("credential.helper", "diff.external"), ""),
    "core.pager": "cat",
    "protocol.allow": "never",
}  # fmt: skip
_DIFF = (
    "-z",
    "--raw",
    "--no-renames",
    "--no-abbrev",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
)
_CHUNK, _MOST = 1 << 20, 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A path and the ID of its Git object."""

    path: str
    object: str
    is_submodule: bool = False
    """Whether the object is a commit of another repository."""


Content = tuple[str, int, bytes | None]
"""Type of an object (commit, tag, tree or blob), its size, and its bytes (None if too large)."""


class Repository:
    """Git repository that contains a folder. Raises `UsageError` (exit 2) if the folder is in none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if self.ask("rev-parse", "--git-dir") is None:
            seen = subprocess.run(
                command(("rev-parse",)), cwd=folder, env=environment(), capture_output=True, check=False
            )
            if b"ownership" in seen.stderr or b"unsafe repository" in seen.stderr:
                raise UsageError(
                    "Git does not read this repository, because it belongs to another owner. If you trust it, run "
                    "`git config --global --add safe.directory FOLDER`."
                )
            raise UsageError("This is not a Git repository. To scan files, run `robustify gate FILES`.")

    def indexed(self, *, changed: bool) -> list[Entry]:
        """Return every path in the index, or only those that the next commit adds or changes."""
        beside = "HEAD" if changed and self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") else ""
        beside = beside or self._run("hash-object", "-t", "tree", "--stdin").decode().strip()
        return _entries(self._run("diff-index", "--cached", *_DIFF, beside, "--"))

    def commit(self, name: str) -> str:
        """Return the commit ID of a revision. Raises `UsageError` if the revision does not exist."""
        safe = bool(name) and not name.startswith("-")
        found = self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") if safe else None
        if found is None:
            raise UsageError("The range names a missing commit, perhaps because this clone is shallow.")
        return found

    def commits(self, tips: Iterable[str], known: Iterable[str]) -> list[str]:
        """Return the commits reachable from `tips` but not from `known`, newest first. Raises `UsageError` if the parents
        of one of them are missing in a shallow clone."""
        commits = self._run("rev-list", "--stdin", given=_lines(tips, known)).decode().split()
        shallow = self._folder / (self.ask("rev-parse", "--git-path", "shallow") or "")
        if shallow.is_file() and not set(shallow.read_text(encoding="ascii").split()).isdisjoint(commits):
            raise UsageError("This shallow clone lacks commits of the range. Fetch all (fetch-depth: 0).")
        return commits

    def objects(self, tips: Iterable[str], known: Iterable[str]) -> list[Entry]:
        """Return the objects (commits, tags, trees, files) reachable from `tips` but not from `known`, with paths."""
        rows = rows_of(self._run("rev-list", "--objects", "--stdin", given=_lines(tips, known)))
        return [Entry(path, name) for name, _, path in (row.partition(" ") for row in rows)]

    def changed(self, commits: Iterable[str]) -> list[Entry]:
        """Return each path and content that the commits add, without duplicates. Merges are compared with every parent."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", *_DIFF)
        return list(dict.fromkeys(_entries(self._run(*shown, given=_lines(commits)))))

    def touching(self, path: str, commits: Sequence[str]) -> list[str]:
        """Return the commits that change a path."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--name-only", "--", path)
        rows = self._run(*shown, given=_lines(commits)).decode("utf-8", "replace").split()
        return list(dict.fromkeys(row for row in rows if row in frozenset(commits)))

    def refs(self, *folders: str) -> list[tuple[str, str, str]]:
        """Return the refs under the given prefixes as (name, object ID, peeled object ID)."""
        refs: dict[str, tuple[str, str]] = {}
        for one, _, name in (row.partition(" ") for row in (self.ask("show-ref", "-d") or "").split("\n")):
            name = name.removesuffix("^{}")
            refs[name] = (refs.get(name, (one,))[0], one)
        return [(name, *objects) for name, objects in refs.items() if name.startswith(folders)]

    def known_to(self, remote: str, url: str) -> list[str] | None:
        """Return the commits and tags of this repository that a remote has, or None if it does not answer.

        The remote itself is asked, with the user's settings as in the push before: what this repository remembers of it
        may be of another URL or out of date. What only some of its push URLs have does not count.
        """
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        urls = (
            [url] if url else (self.ask("remote", "get-url", "--push", "--all", remote) or remote).split("\n")
        )
        theirs: set[str] | None = None
        for one in urls:
            line = ["git", "ls-remote", "--quiet", "--", one]
            try:
                said = subprocess.run(
                    line,
                    cwd=self._folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=60,
                    check=True,
                )
            except (OSError, subprocess.SubprocessError):
                return None
            names = {row.partition("\t")[0] for row in rows_of(said.stdout)}
            theirs = names if theirs is None else theirs & names
        check = self._run("cat-file", "--batch-check", given=_lines(sorted(theirs or ())))
        return [row.split()[0] for row in rows_of(check) if row.split()[1] in ("commit", "tag")]

    def at(self, commit: str, path: str) -> bytes | None:
        """Return the content of a path in a commit, or in the index if `commit` is empty.

        Raises:
            ResourceError: The content is too large to read.
        """
        name = self.ask("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
        for _, size, data in self.contents([name], _MOST) if name else ():
            if data is None:
                raise ResourceError(
                    f"{path} has {size:,} bytes. Expected at most {_MOST >> 20} MiB. Remove entries."
                )
            return data
        return None

    def contents(self, names: Iterable[str], most: int) -> Iterator[Content]:
        """Yield the type, size and bytes of each object. The bytes are None if there are more than `most`.

        Raises:
            ResourceError: An object is missing, damaged or incomplete (exit 6).
        """
        names = list(names)
        with self._opened(("cat-file", "--batch"), _lines(names)) as process:
            for head in (_stdout(process).readline().split() for _ in names):
                if len(head) != 3:
                    raise ResourceError("An object is damaged or missing (a partial clone?). Run `git fsck`.")
                size, kept, last = int(head[2]), b"", b""
                left = size + 1
                while part := _stdout(process).read(min(left, _CHUNK)):
                    left, last = left - len(part), part[-1:]
                    kept += part if size <= most else b""
                if left or last != b"\n":
                    raise ResourceError("Git returned only a part of an object. Run `git fsck`.")
                yield head[1].decode(), size, kept[:-1] if size <= most else None

    def ask(self, *args: str) -> str | None:
        """Return the output of a Git command, or None if the command fails."""
        with self._opened(args, b"") as process:
            answer = os.fsdecode(_stdout(process).read().strip())
            return answer if process.wait() == 0 else None

    def _run(self, *args: str, given: bytes = b"") -> bytes:
        with self._opened(args, given) as process:
            answer = _stdout(process).read()
            if code := process.wait():
                raise ResourceError(f"`git {args[0]}` failed with exit code {code}. Run it to see why.")
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
                raise ResourceError(f"Git cannot be started ({error.strerror}). Install Git.") from None


def _stdout(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _lines(names: Iterable[str], known: Iterable[str] = ()) -> bytes:
    return "".join(f"{name}\n" for name in (*names, *(f"^{name}" for name in known))).encode()


def rows_of(answer: bytes) -> list[str]:
    """Return the lines of an answer. Only newlines end a line, because names may contain any other separator."""
    return [row for row in os.fsdecode(answer).split("\n") if row]


def command(args: Sequence[str]) -> list[str]:
    """Return the command line of a Git call that switches off every setting that runs a program."""
    settings = [*(f"{name}={value}" for name, value in _OFF.items()), *_trusted_folders()]
    return ["git", *(part for setting in settings for part in ("-c", setting)), *args]


def _trusted_folders() -> Iterator[str]:
    """Yield each setting `safe.directory` from the environment, where CI systems set it. Others are dropped."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for i in range(int(count) if count.isdecimal() and len(count) < 4 else 0):
        if os.environ.get(f"GIT_CONFIG_KEY_{i}", "").lower() == "safe.directory":
            yield f"safe.directory={os.environ.get(f'GIT_CONFIG_VALUE_{i}', '')}"
    with suppress(ValueError):
        for setting in shlex.split(os.environ.get("GIT_CONFIG_PARAMETERS", "")):
            if setting.lower().startswith("safe.directory="):
                yield setting


def environment() -> dict[str, str]:
    """Return the environment of a Git call: no replaced objects, no fetching, no variables that name programs."""
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
    """Parse the entries in `--raw -z` output, except deletions and unmerged paths."""
    parts = iter(raw.split(b"\0")[:-1])
    entries = []
    for meta in parts:
        path = next(parts)
        _old, mode, _before, name, status = meta.decode().lstrip(":").split(" ")
        if status[0] not in "DU":
            entries.append(Entry(os.fsdecode(path), name, mode == "160000"))
    return entries


def work_tree(folder: Path) -> Path | None:
    """Return the Git work tree that contains a folder, or None."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
