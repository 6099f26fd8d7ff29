"""Read Git objects through plumbing commands, with all settings disabled that could run code.

Blobs are read from the object store, so that no filter, text conversion or external diff changes what is scanned.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustify.base.errors import ResourceError, UsageError
from robustify.base.texts import escaped

_KEPT = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
         "GIT_COMMON_DIR", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_CONFIG_GLOBAL",
         "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}  # fmt: skip
"""Variables that Git sets for its hooks, or that name the user's own settings. Any other GIT_ variable could name a program
or a replacement object."""
_OFF = {
    **dict.fromkeys(("core.hooksPath", "core.attributesFile", "diff.orderFile"), os.devnull),
    **dict.fromkeys(("core.fsmonitor", "core.commitGraph", "core.sshCommand", "core.alternateRefsCommand", "core.askPass",
                     "gpg.program", "log.showSignature", "submodule.recurse"), "false"),
    **dict.fromkeys(("credential.helper", "diff.external"), ""),
    "core.pager": "cat",
    "protocol.allow": "never",
}  # fmt: skip
_DIFF = [
    "-z",
    "--raw",
    "--no-renames",
    "--no-abbrev",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
]
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """Path and ID of a Git object. For a submodule, the object is a commit of another repository."""

    path: str
    object: str
    is_submodule: bool = False


class Repository:
    """Git repository that contains a folder. Raise `UsageError` if the folder is not in a repository."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        done = self._git(("rev-parse", "--git-dir"))
        if done.returncode:
            stderr = [escaped(line.strip()) for line in lines_of(done.stderr)] or ["it said nothing"]
            remedy = f"If you trust the owner, run `{stderr[-1]}`." if "safe.directory" in stderr[-1] else ""
            remedy = remedy or "To scan files outside a Git repository, run `robustify gate FILES`."
            raise UsageError(
                f"Git cannot read a repository here ({stderr[0]}). {remedy}", code="no-git-repository"
            )

    def indexed(self, *, changed: bool) -> list[TreeEntry]:
        """Return every path in the index, or only those that the next commit adds or changes."""
        beside = self.named("HEAD^{commit}") if changed else None
        beside = beside or self._run("hash-object", "-t", "tree", "--stdin").decode().strip()
        return _entries(self._run("diff-index", "--cached", *_DIFF, beside, "--"))

    def untracked(self) -> list[str]:
        """Return the paths of files that are neither in the index nor ignored."""
        listing = self._run("ls-files", "-z", "--others", "--exclude-standard")
        return [os.fsdecode(path) for path in listing.split(b"\0") if path]

    def named(self, name: str) -> str | None:
        """Return the ID of the object that a revision names, or None if the object does not exist."""
        return None if name.startswith(("-", "^")) else self.ask("rev-parse", "--verify", "--quiet", name)

    def commit(self, name: str) -> str:
        """Return the commit ID of a revision. Raise `UsageError` if the revision does not exist."""
        commit = self.named(f"{name}^{{commit}}")
        if commit is None:
            raise UsageError(
                "This clone lacks a commit of the range. Run `git fetch`, or in GitHub Actions, set `fetch-depth: 0`.",
                code="missing-commit",
            )
        return commit

    def commits(self, tips: Iterable[str], excluded: Iterable[str]) -> list[str]:
        """Return the commits reachable from `tips` but not from `excluded`, newest first. Raise `UsageError` if the clone
        is shallow and lacks the parents of one of these commits."""
        revisions = [*tips, *(f"^{commit}" for commit in excluded)]
        commits = self._run("rev-list", "--stdin", lines=revisions).decode().split()
        shallow = self._folder / (self.ask("rev-parse", "--git-path", "shallow") or "")
        if shallow.is_file() and not set(shallow.read_text(encoding="ascii").split()).isdisjoint(commits):
            raise UsageError(
                "This clone is shallow. Run `git fetch --unshallow`, or in GitHub Actions, set `fetch-depth: 0`.",
                code="shallow-clone",
            )
        return commits

    def objects(self, tips: Iterable[str], excluded: Iterable[str]) -> list[TreeEntry]:
        """Return the objects (commits, tags, trees, files) reachable from `tips` but not from `excluded`, with paths."""
        revisions = [*tips, *(f"^{commit}" for commit in excluded)]
        rows = (
            row.partition(" ")
            for row in lines_of(self._run("rev-list", "--objects", "--stdin", lines=revisions))
        )
        return [TreeEntry(path, name) for name, _, path in rows]

    def changed(self, commits: Iterable[str]) -> list[TreeEntry]:
        """Return the paths and contents that the commits add, without duplicates. Merges are compared with every parent."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", *_DIFF)
        return list(dict.fromkeys(_entries(self._run(*shown, lines=commits))))

    def touching(self, path: str, commits: Sequence[str]) -> list[str]:
        """Return those of the given commits that change a path."""
        shown = ("diff-tree", "--stdin", "-r", "-m", "--root", "--name-only", "--", path)
        rows = lines_of(self._run(*shown, lines=commits))
        return list(dict.fromkeys(row for row in rows if row in frozenset(commits)))

    def refs(self, *folders: str) -> list[tuple[str, str, str]]:
        """Return the refs under the given prefixes as (name, object ID, peeled object ID)."""
        refs = dict[str, tuple[str, str]]()
        for object_id, _, name in (
            row.partition(" ") for row in (self.ask("show-ref", "-d") or "").split("\n")
        ):
            name = name.removesuffix("^{}")
            refs[name] = (refs.get(name, (object_id,))[0], object_id)
        return [(name, *objects) for name, objects in refs.items() if name.startswith(folders)]

    def known_to(self, remote: str, url: str = "") -> list[str] | None:
        """Return the commits and tags of this repository that a remote has, or None if the remote cannot be asked.

        The remote itself is asked, because what this repository remembers of it may be out of date. Without the URL of the
        push, all push URLs of the remote are asked, and what only some of them have does not count. A URL that Git would
        read as another one when it fetches is not asked.
        """
        urls = url or self.ask("remote", "get-url", "--push", "--all", remote) or remote
        theirs = list[set[str]]()
        try:
            for push_url in urls.split("\n"):
                if self._ask_remote("--get-url", "--", push_url) != [push_url]:
                    return None
                theirs.append({row.partition("\t")[0] for row in self._ask_remote("--quiet", "--", push_url)})
        except (OSError, subprocess.SubprocessError):
            return None
        check = self._run("cat-file", "--batch-check", lines=sorted(set.intersection(*theirs)))
        return [row.split()[0] for row in lines_of(check) if row.split()[1] in ("commit", "tag")]

    def _ask_remote(self, *args: str) -> list[str]:
        line, env = ["git", "ls-remote", *args], {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        here, none = self._folder, subprocess.DEVNULL
        return lines_of(subprocess.check_output(line, cwd=here, env=env, stdin=none, stderr=none, timeout=60))

    def contents(self, names: Iterable[str], most: int) -> Iterator[tuple[str, int, bytes]]:
        """Yield the type (commit, tag, tree, or blob), size, and bytes of each object. For more than `most` bytes, yield
        their SHA-256 digest instead. Raise `ResourceError` if an object is missing, damaged, or incomplete."""
        names = list(names)
        with tempfile.TemporaryFile() as file:
            file.write("".join(f"{name}\n" for name in names).encode())
            file.seek(0)
            line, env, pipe = git_command(("cat-file", "--batch")), git_environment(), subprocess.PIPE
            with subprocess.Popen(line, cwd=self._folder, env=env, stdin=file, stdout=pipe) as process:
                assert process.stdout is not None
                for head in (process.stdout.readline().split() for _ in names):
                    if len(head) != 3:
                        raise ResourceError(
                            "A Git object is damaged or missing (is this a partial clone?). Run `git fsck`.",
                            code="damaged-git-object",
                        )
                    n_missing, digest, kept = int(head[2]), hashlib.sha256(), list[bytes]()
                    size, is_small = n_missing, n_missing <= most
                    while part := process.stdout.read(min(n_missing, _CHUNK)):
                        n_missing -= len(part)
                        kept.append(part) if is_small else digest.update(part)
                    if n_missing or process.stdout.read(1) != b"\n":
                        raise ResourceError(
                            "Git returned only part of an object. Run `git fsck`.",
                            code="incomplete-git-object",
                        )
                    yield head[1].decode(), size, b"".join(kept) if is_small else digest.digest()

    def ask(self, *args: str) -> str | None:
        """Return the output of a Git command, or None if the command fails."""
        done = self._git(args)
        return None if done.returncode else os.fsdecode(done.stdout.strip())

    def _run(self, *args: str, lines: Iterable[str] = ()) -> bytes:
        done = self._git(args, "".join(f"{name}\n" for name in lines).encode())
        if done.returncode:
            raise ResourceError(
                f"`git {args[0]}` failed with exit code {done.returncode}. Check the repository with `git status`.",
                code="git-failed",
            )
        return done.stdout

    def _git(self, args: Sequence[str], stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        line, env, here = git_command(args), git_environment(), self._folder
        try:
            return subprocess.run(line, cwd=here, env=env, input=stdin, capture_output=True, check=False)
        except OSError as error:
            raise ResourceError(
                f"Git cannot be started ({error.strerror}). Install Git.", code="git-not-started"
            ) from None


def lines_of(answer: bytes) -> list[str]:
    """Split the output of Git at newlines only, because names may contain any other separator."""
    return [row for row in os.fsdecode(answer).split("\n") if row]


def git_command(args: Sequence[str]) -> list[str]:
    """Return the command line of a Git call, with every setting disabled that could run a program. Of the settings in the
    environment, only `safe.directory` is kept, because CI systems set it there."""
    settings = [f"{name}={value}" for name, value in _OFF.items()]
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for i in range(int(count) if count.isdecimal() and len(count) < 4 else 0):
        name, value = (os.environ.get(f"GIT_CONFIG_{what}_{i}", "") for what in ("KEY", "VALUE"))
        settings += [f"{name}={value}"] if name.lower() == "safe.directory" else []
    return ["git", *(part for setting in settings for part in ("-c", setting)), *args]


def git_environment() -> dict[str, str]:
    """Return an environment in which Git replaces no objects, fetches nothing, and gets no names of programs to run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    on = dict.fromkeys(("GIT_NO_REPLACE_OBJECTS", "GIT_NO_LAZY_FETCH", "GIT_LITERAL_PATHSPECS"), "1")
    off = dict.fromkeys(("GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT"), "0")
    return kept | on | off | {"GIT_GRAFT_FILE": os.devnull, "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}


def _entries(raw: bytes) -> list[TreeEntry]:
    """Parse the entries in the output of `--raw -z`, except deletions and unmerged paths."""
    parts = iter(raw.split(b"\0")[:-1])
    rows = ((meta.decode().split(" "), os.fsdecode(path)) for meta, path in zip(parts, parts, strict=True))
    return [TreeEntry(path, row[3], row[1] == "160000") for row, path in rows if row[4][0] not in "DU"]


def work_tree(folder: Path) -> Path | None:
    """Return the Git work tree that contains a folder, or None. A work tree named by `GIT_WORK_TREE` needs no `.git`."""
    named = os.path.realpath(os.environ.get("GIT_WORK_TREE") or os.devnull)
    places = (folder, *folder.parents)
    return next(
        (place for place in places if (place / ".git").exists() or os.path.realpath(place) == named), None
    )


def repository_around(folder: Path) -> Path | None:
    """Return the Git work tree, bare repository, or separate Git folder that contains a folder, or None."""
    marks = ("HEAD", "objects", "refs")
    bare = (place for place in (folder, *folder.parents) if all((place / name).exists() for name in marks))
    return work_tree(folder) or next(bare, None)
