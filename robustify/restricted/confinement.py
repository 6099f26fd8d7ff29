"""Confinement of sensitive text: an offline process, and a folder that only its owner can read.

The process is set up before the engines are imported, because libraries read these variables only once.
"""

import contextlib
import os
import re
import secrets
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from robustify.base.errors import AuthorisationError, Notice
from robustify.base.files import OTHER_FOLDER, OWNED, owner_only, writable
from robustify.base.git import git_command, git_environment, repository_around
from robustify.base.key_file import IDS_VARIABLE, VARIABLE

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_SECRETS = (VARIABLE, IDS_VARIABLE)
"""Variables that contain a key, not the name of a key file."""
_PROXIES = tuple(f"{kind}_proxy" for kind in ("http", "https", "all", "ws", "wss"))
"""Variables, in lower or upper case, that would route traffic for a permitted host through another host."""
TEMPORARY = ".run-tmp-"
_NOT_PRIVATE = {
    Notice("is on a web root", code="web-root"): re.compile(
        r"www|public_html|htdocs|wwwroot|webroot|docroot", re.I
    ),
    Notice("is synchronized with other machines", code="synchronised-folder"): re.compile(
        r"dropbox( \(.*\))?|onedrive( ?- ?.*)?|google ?drive.*|my drive|icloud ?drive|mobile documents|com~apple~clouddocs"
        r"|cloudstorage|nextcloud\d*|owncloud\d*|seafile|syncthing|pcloud ?drive|box sync|megasync.*|proton ?drive",
        re.I,
    ),
}
"""Names of folders whose files are published or copied to other machines."""
_OTHER_TREES = (".hg", ".svn", ".jj", ".bzr")
_RESULTS = ("run.json", "summary.json", "splits/kept.json", "lm_eval_tasks/kept.yaml")
"""Files that a run may contain."""
_ENDS = ("json", "jsonl", "html", "md", "yaml", "csv", "parquet", "svg", "png", "log", "tmp")
"""File extensions that a run may contain."""


@contextlib.contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Disable model hubs, proxies and core dumps for the process, and hide keys from child processes.

    New files are readable only by their owner. Temporary files are in `folder`, which is created, and removed
    afterwards if it is empty. On exit, all but the limit on core dumps is restored. Raise `ResourceError` if the folder
    cannot be written.
    """
    folder = folder.resolve()
    was_there = folder.is_dir()
    with contextlib.suppress(ImportError):  # Windows writes no core dumps
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    before, temporary = dict(os.environ), tempfile.tempdir
    with owner_only(), contextlib.ExitStack() as stack:
        with writable(folder, OTHER_FOLDER):
            folder.mkdir(parents=True, exist_ok=True)
            own = stack.enter_context(tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=folder))
        changed = {**OFFLINE, "TMPDIR": own}
        without = [*_SECRETS, *(name for proxy in _PROXIES for name in (proxy, proxy.upper()))]
        try:
            tempfile.tempdir = own
            os.environ.update(changed)
            for name in without:
                os.environ.pop(name, None)
            yield
        finally:
            tempfile.tempdir = temporary
            for name in (*changed, *without):
                os.environ.pop(name, None)
            os.environ.update({name: before[name] for name in (*changed, *without) if name in before})
            stack.close()
            if not was_there:
                with contextlib.suppress(OSError):
                    folder.rmdir()


def require_private(folder: Path, names: Iterable[str] = _RESULTS) -> None:
    """Refuse a folder that is not private enough for files of a restricted set with these `names`.

    Raise `AuthorisationError` if the folder is a link or not a folder, others may enter or replace it, Git does not
    ignore it, it is synchronised with other machines, or it is on a web root.
    """
    if fault := _fault(folder, list(names)):
        remedy = "Choose a private folder that you own (`-o DIR`)."
        raise AuthorisationError(f"{str(folder)!a} {fault}. {remedy}", code=fault.code)


def _fault(folder: Path, names: Sequence[str]) -> Notice | None:
    if folder.is_symlink():
        return Notice("is a symbolic link", code="symbolic-link")
    if not OWNED:
        fault = "cannot be checked: this system has no file modes (use Linux, macOS, or WSL)"
        return Notice(fault, code="no-file-modes")
    if folder.exists():
        status = folder.stat()
        if not stat.S_ISDIR(status.st_mode):
            return Notice("is not a folder", code="not-a-folder")
        if status.st_uid != os.geteuid():
            return Notice(f"belongs to user {status.st_uid}", code="folder-of-another-user")
        if (mode := stat.S_IMODE(status.st_mode)) & 0o077:
            return Notice(
                f"has mode {mode:04o}, so others may enter it (chmod 700)", code="folder-open-to-others"
            )
    place = folder.resolve()
    if any((place / name).resolve() != place / name for name in names):
        return Notice("contains a symbolic link in place of a result", code="linked-result")
    # Check the parents of the given path and, if it is a link, of its target.
    for above in dict.fromkeys([*folder.absolute().parents, *place.parents]):
        mode = above.stat().st_mode if above.exists() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            fault = f"is below a folder of mode {stat.S_IMODE(mode):04o}, in which anybody may replace it"
            return Notice(fault, code="replaceable-folder")
        if any((above / name).is_dir() for name in _OTHER_TREES):
            fault = "is inside a work tree of a version control system other than Git"
            return Notice(fault, code="other-work-tree")
    for notice, pattern in _NOT_PRIVATE.items():
        if place.is_relative_to("/var/www") or any(map(pattern.fullmatch, place.parts)):
            return notice
    tree = repository_around(place)
    if tree is not None and not _ignored(tree, place, names):
        fault = "is inside a Git repository that does not ignore all of it, so it could be committed"
        return Notice(fault, code="folder-not-ignored")
    return None


def _ignored(tree: Path, place: Path, names: Iterable[str]) -> bool:
    """Return whether Git ignores the folder for any file name and tracks no file in it."""
    unknown = f"r{secrets.token_hex(8)}"
    file_names = [unknown, *(f"{unknown}.{end}" for end in _ENDS), f"{unknown}/{unknown}", *names]
    paths = b"".join(os.fsencode(place / name) + b"\0" for name in file_names)
    ignored_paths = _git(tree, "check-ignore", "-z", "--stdin", stdin=paths)
    return ignored_paths == paths and _git(tree, "ls-files", "-z", "--", str(place)) == b""


def _git(tree: Path, *arguments: str, stdin: bytes = b"") -> bytes | None:
    """Return the output of Git with hooks and programs of the repository switched off, or None if Git fails."""
    # A GIT_ variable may name a different repository than the one that contains the folder.
    without = {*_SECRETS, *(name for name in os.environ if name.startswith("GIT_")), "GIT_LITERAL_PATHSPECS"}
    clean = {name: value for name, value in git_environment().items() if name not in without}
    command = git_command(["-C", str(tree), *arguments])
    try:
        process = subprocess.run(command, env=clean, input=stdin, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout if process.returncode == 0 else None
