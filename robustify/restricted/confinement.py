"""Confine what holds sensitive text: a process that is offline, and a folder that its owner alone reads.

The process is set up before the engines are imported, because the libraries read these variables once. Refused are
folders that others may enter or replace, that git would take up, that a program synchronises, or that a web server shows.
"""

import contextlib
import os
import re
import resource
import secrets
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.files import OTHER_FOLDER, owner_only, writable
from robustify.gate.git import command, environment, work_tree
from robustify.gate.key_file import IDS_VARIABLES, VARIABLE

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
SECRETS = (VARIABLE, IDS_VARIABLES[1])
"""Variables that hold a key itself and not the name of its file."""
PROXIES = tuple(f"{kind}_proxy" for kind in ("http", "https", "all", "ws", "wss"))
"""Variables, also in capitals, that would send what goes to a permitted host through another one."""
TEMPORARY = ".run-tmp-"
_NOT_PRIVATE = {
    "is on a web root": re.compile(r"public_html|htdocs|wwwroot|webroot|docroot", re.I),
    "is synchronised with other machines": re.compile(
        r"dropbox( \(.*\))?|onedrive( ?- ?.*)?|google ?drive.*|my drive|icloud ?drive|mobile documents|com~apple~clouddocs"
        r"|cloudstorage|nextcloud\d*|owncloud\d*|seafile|syncthing|pcloud ?drive|box sync|megasync.*|proton ?drive",
        re.I,
    ),
}
"""Names of folders whose files are shown or copied elsewhere."""
_OTHER_TREES = (".hg", ".svn", ".jj", ".bzr")
RESULTS = ("run.json", "summary.json", "splits/robust.json", "lm_eval_tasks/robust.yaml")
"""Files that a run might have."""
_SUFFIXES = (
    "",
    ".json",
    ".jsonl",
    ".html",
    ".md",
    ".yaml",
    ".csv",
    ".parquet",
    ".svg",
    ".png",
    ".log",
    ".tmp",
)
"""Kinds of files that a run might have."""


@contextlib.contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Keep the process off model hubs, proxies and core dumps, and keys out of the environment of children.

    Files are for their owner alone, and temporary ones are inside `folder`, which is made if it is not there and removed
    if nothing was left in it. Everything is undone on leaving, but for the limit on dumps.

    Raises:
        ResourceError: the folder cannot be written.
    """
    folder = folder.resolve()
    was_there = folder.is_dir()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    before, temporary = dict(os.environ), tempfile.tempdir
    with owner_only(), contextlib.ExitStack() as stack:
        with writable(folder, OTHER_FOLDER):
            folder.mkdir(parents=True, exist_ok=True)
            own = stack.enter_context(tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=folder))
        changed = {**OFFLINE, "TMPDIR": own}
        without = [*SECRETS, *(name for proxy in PROXIES for name in (proxy, proxy.upper()))]
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
                if name in before:
                    os.environ[name] = before[name]
            stack.close()
            if not was_there:
                with contextlib.suppress(OSError):
                    folder.rmdir()


def require_private(folder: Path, names: Iterable[str] = RESULTS) -> None:
    """Refuse a folder for the results of a restricted set that is not private; nothing is made or changed.

    `names`: of the files that will be written there, or were.

    Raises:
        AuthorisationError: a link, not a folder, others may enter or replace it, git does not ignore it, it is
            synchronised with other machines, or on a web root.
    """
    if fault := _fault(folder, list(names)):
        raise AuthorisationError(f"{str(folder)!a}: {fault}; expected a private folder of your own (-o DIR)")


def _fault(folder: Path, names: Sequence[str]) -> str:
    if folder.is_symlink():
        return "is a symbolic link"
    if folder.exists():
        status = folder.stat()
        if not stat.S_ISDIR(status.st_mode):
            return "is not a folder"
        if status.st_uid != os.geteuid():
            return f"belongs to user {status.st_uid}"
        if (mode := stat.S_IMODE(status.st_mode)) & 0o077:
            return f"has mode {mode:04o}, so others may enter it (chmod 700)"
    place = folder.resolve()
    if any((place / name).resolve() != place / name for name in names):
        return "holds a symbolic link where results are written"
    # On the way to a link and behind it.
    for above in dict.fromkeys([*folder.absolute().parents, *place.parents]):
        mode = above.stat().st_mode if above.exists() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"is below a folder of mode {stat.S_IMODE(mode):04o}, where anybody may replace it"
        if any((above / name).is_dir() for name in _OTHER_TREES):
            return "is inside a work tree of another version control than git"
    for fault, pattern in _NOT_PRIVATE.items():
        if place.is_relative_to("/var/www") or any(map(pattern.fullmatch, place.parts)):
            return fault
    tree = work_tree(place)
    if tree is not None and not _ignored(tree, place, names):
        return "is inside a git work tree that does not ignore all of it, one `git add` away from a commit"
    return ""


def _ignored(tree: Path, place: Path, names: Iterable[str]) -> bool:
    """Return whether git ignores the folder, whatever a file in it is called, and follows none that is there."""
    unknown = f"r{secrets.token_hex(8)}"
    asked = [f"{unknown}{suffix}" for suffix in _SUFFIXES] + [f"{unknown}/{unknown}", *names]
    paths = b"".join(os.fsencode(place / name) + b"\0" for name in asked)
    said = _git(tree, "check-ignore", "-z", "--stdin", given=paths)
    return said == paths and _git(tree, "ls-files", "-z", "--", str(place)) == b""


def _git(tree: Path, *asked: str, given: bytes = b"") -> bytes | None:
    """Return what git says, with the hooks and programs of a repository switched off; None if it fails or says no."""
    # A variable of git's may name another repository than the one that the folder is in.
    given_here = {name for name in os.environ if name.startswith("GIT_")}
    without = {*SECRETS, *given_here, "GIT_LITERAL_PATHSPECS"}
    clean = {name: value for name, value in environment().items() if name not in without}
    try:
        done = subprocess.run(
            command(["-C", str(tree), *asked]), env=clean, input=given, capture_output=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
