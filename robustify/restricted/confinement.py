"""What holds sensitive text: a process that is offline and dumps nothing, and a folder that its owner alone reads.

The process is set up before the engines are imported, because the libraries read these variables once, when they are
loaded. Refused are folders that others may enter, that git would take up, or that a web server shows.
"""

import contextlib
import ctypes
import os
import resource
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from robustify.errors import AuthorisationError, ResourceError
from robustify.gate.git import work_tree
from robustify.restricted.secret_key import SECRETS, kept_from_children

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
PROXIES = tuple(
    name
    for kind in ("http", "https", "all", "ws", "wss")
    for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY")
)
"""Variables that would send what goes to a permitted host through another one. They are out of the environment of a
restricted run, and of its children."""
TEMPORARY = ".run-tmp-"
"""Begins the name of the folder, in the run's own, where everything temporary lies and nothing stays."""
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_WEB_ROOTS = ("public_html", "htdocs", "wwwroot", "webroot", "docroot")
_WEB_FOLDERS = (Path("/var/www"), Path("/srv/http"), Path("/srv/www"), Path("/usr/share/nginx"))


@contextlib.contextmanager
def confined(folder: Path) -> Iterator[None]:
    """No network for model hubs, no proxy, no key in the environment, no crash dumps, files for their owner alone,
    temporary ones inside `folder`.

    The folder is made (0700) if it is not there, and is gone again if nothing was left in it. On leaving everything
    is as before, but for the limit on dumps.

    Raises:
        ResourceError: the folder cannot be written.
    """
    folder = folder.resolve()
    with kept_from_children():
        yield from _confined(folder)


def _confined(folder: Path) -> Iterator[None]:
    mask = os.umask(0o077)
    changed = (*OFFLINE, "TMPDIR", *PROXIES)
    before, temporary = {name: os.environ.get(name) for name in changed}, tempfile.tempdir
    was_there = folder.is_dir()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    dumpable = _dumpable(0)
    try:
        tempfile.tempdir = str(_temporary(folder))
        os.environ.update({**OFFLINE, "TMPDIR": tempfile.tempdir})
        for name in PROXIES:
            os.environ.pop(name, None)
        yield
    finally:
        shutil.rmtree(folder / f"{TEMPORARY}{os.getpid()}", ignore_errors=True)
        if not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()
        _dumpable(dumpable)
        tempfile.tempdir = temporary
        os.umask(mask)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _temporary(folder: Path) -> Path:
    """A fresh folder for this process; what killed runs left behind is removed."""
    place = folder / f"{TEMPORARY}{os.getpid()}"
    try:
        for left in folder.glob(f"{TEMPORARY}*"):
            if left == place or not _alive(left.name.removeprefix(TEMPORARY)):
                shutil.rmtree(left, ignore_errors=True)
        place.mkdir(parents=True)
    except OSError as error:
        raise ResourceError(
            f"{folder}: cannot be written ({error.strerror}); expected a folder of yours (-o DIR)"
        ) from None
    return place


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _dumpable(value: int) -> int:
    """A limit of 0 does not stop a dump that is piped to a program (systemd, apport); this does, on Linux. What was set
    before."""
    try:
        call = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return value
    before = int(call(_PR_GET_DUMPABLE, 0, 0, 0, 0))
    call(_PR_SET_DUMPABLE, value, 0, 0, 0)
    return before


def require_private(folder: Path) -> None:
    """Refuse a folder for a restricted set's results that is not private; nothing is made or changed.

    Raises:
        AuthorisationError: a link, no folder, others may enter it, inside a work tree that does not ignore it, or
            on a web root.
    """
    shown = f"{str(folder)!a}"
    if folder.is_symlink():
        raise AuthorisationError(f"{shown}: is a symbolic link; expected a folder of your own (-o DIR)")
    if folder.exists():
        _require_mine(folder, shown)
    place = folder.resolve()
    if _on_the_web(place):
        raise AuthorisationError(f"{shown}: lies on a web root; expected a private folder elsewhere (-o DIR)")
    tree = work_tree(place)
    if tree is not None and not _ignored(tree, place):
        raise AuthorisationError(
            f"{shown}: lies inside a git work tree that does not ignore it, one `git add` away from a commit; "
            "expected a folder elsewhere (-o DIR), or an entry in .gitignore"
        )


def _require_mine(folder: Path, shown: str) -> None:
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise AuthorisationError(f"{shown}: is no folder; expected one of your own (-o DIR)")
    if status.st_uid != os.geteuid():
        raise AuthorisationError(
            f"{shown}: belongs to user {status.st_uid}; expected a folder of your own (-o DIR)"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise AuthorisationError(
            f"{shown}: has mode {mode:04o}: others may enter it; expected 0700 (chmod 700, or a new -o DIR)"
        )


def _on_the_web(place: Path) -> bool:
    below = any(place.is_relative_to(root) for root in _WEB_FOLDERS)
    return below or any(part.lower() in _WEB_ROOTS for part in place.parts)


def _ignored(tree: Path, place: Path) -> bool:
    """Whether git would leave out a file in this folder; where git cannot be asked, it would not."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-C", str(tree)]
    clean = {n: value for n, value in os.environ.items() if not n.startswith("GIT_") and n not in SECRETS}
    try:
        done = subprocess.run(
            [*command, "check-ignore", "--quiet", "--", str(place / "run.json")],
            env={**clean, "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
