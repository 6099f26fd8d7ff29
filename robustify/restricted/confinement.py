"""What holds sensitive text: a process that is offline and dumps nothing, and a folder that its owner alone reads.

The process is set up before the engines are imported, because the libraries read these variables once, when they are
loaded. Refused are folders that others may enter or replace, that a version control or a synchronising program would take
up, or that a web server shows.
"""

import contextlib
import ctypes
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.files import OTHER_FOLDER, writable
from robustify.gate.git import command, work_tree
from robustify.redaction.firewall import no_core_dumps
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
_OTHER_VERSION_CONTROL = (".hg", ".svn", ".jj", ".bzr", "_darcs", ".fslckout", "_FOSSIL_", "CVS")
_SYNCHRONISED = re.compile(
    r"dropbox( \(.*\))?|onedrive( ?- ?.*)?|google ?drive.*|my drive|icloud ?drive|mobile documents|com~apple~clouddocs"
    r"|cloudstorage|nextcloud\d*|owncloud\d*|seafile|syncthing|pcloud ?drive|box sync|megasync.*|synologydrive"
    r"|proton ?drive|tresorit( drive)?",
    re.IGNORECASE,
)
"""Names of folders that programs copy to other machines."""
_SYNC_MARKS = re.compile(
    r"\.dropbox(\.cache|\.device)?|\.stfolder|\.stignore|\.stversions|\.?_?\.?sync_[0-9a-f]+\.db|\.(owncloud|nextcloud)sync\.log"
    r"|\.tmp\.drive(download|upload)|\.849C9593-D756-4E56-8D6E-42412F2A707B|\.SynologyWorkingDirectory|\.seafile-data"
    r"|\.icloud|\.csync_journal.*",
    re.IGNORECASE,
)
"""Files and folders that such programs leave in the folders that they copy."""
_MOST_ASKED = 50
"""So many of the files that are in a folder are asked about; one that is not ignored is enough."""
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
    with kept_from_children(), _set_apart(folder):
        yield


@contextlib.contextmanager
def _set_apart(folder: Path) -> Iterator[None]:
    mask = os.umask(0o077)
    changed = (*OFFLINE, "TMPDIR", *PROXIES)
    before, temporary = {name: os.environ.get(name) for name in changed}, tempfile.tempdir
    was_there = folder.is_dir()
    no_core_dumps()
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
    with writable(folder, OTHER_FOLDER):
        for left in folder.glob(f"{TEMPORARY}*"):
            if left == place or not _alive(left.name.removeprefix(TEMPORARY)):
                shutil.rmtree(left, ignore_errors=True)
        place.mkdir(parents=True)
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
    """A limit of 0 does not stop a dump that is piped to a program (systemd, apport); this does, on Linux."""
    try:
        call = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return value
    before = int(call(_PR_GET_DUMPABLE, 0, 0, 0, 0))
    call(_PR_SET_DUMPABLE, value, 0, 0, 0)
    return before


def require_private(folder: Path, names: Sequence[str] = ("run.json",)) -> None:
    """Refuse a folder for a restricted set's results that is not private; nothing is made or changed.

    `names`: of the files that will be written there.

    Raises:
        AuthorisationError: a link, no folder, others may enter or replace it, inside a work tree that does not ignore
            all that is written there, synchronised with other machines, or on a web root.
    """
    shown = f"{str(folder)!a}"
    if folder.is_symlink():
        raise AuthorisationError(f"{shown}: is a symbolic link; expected a folder of your own (-o DIR)")
    if folder.exists():
        _require_mine(folder, shown)
    place = folder.resolve()
    for fault in (_replaceable(folder, place), _taken_up(place)):
        if fault:
            raise AuthorisationError(f"{shown}: {fault}; expected a private folder elsewhere (-o DIR)")
    tree = work_tree(place)
    if tree is not None and not _ignored(tree, place, names):
        raise AuthorisationError(
            f"{shown}: lies inside a git work tree that does not ignore it, one `git add` away from a commit; "
            "expected a folder elsewhere (-o DIR), or an entry for the whole folder in .gitignore"
        )


def _replaceable(folder: Path, place: Path) -> str:
    """Whether anybody may put another folder in the place of this one or of one above it, on the way there too."""
    for above in dict.fromkeys([*folder.absolute().parents, *place.parents]):
        with contextlib.suppress(OSError):
            mode = above.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"lies below a folder of mode {stat.S_IMODE(mode):04o}, where anybody may replace it"
    return ""


def _taken_up(place: Path) -> str:
    """By what, besides git, the files of a folder would be copied or shown elsewhere."""
    below = any(place.is_relative_to(root) for root in _WEB_FOLDERS)
    if below or any(part.lower() in _WEB_ROOTS for part in place.parts):
        return "lies on a web root"
    if any(_SYNCHRONISED.fullmatch(part) for part in place.parts):
        return "lies in a folder that is synchronised with other machines"
    for above in (place, *place.parents):
        try:
            names = os.listdir(above)
        except OSError:
            continue
        if kind := next((name for name in _OTHER_VERSION_CONTROL if name in names), None):
            return f"lies inside a work tree of another version control ({kind})"
        if any(_SYNC_MARKS.fullmatch(name) for name in names):
            return "lies in a folder that is synchronised with other machines"
    return ""


def _require_mine(folder: Path, shown: str) -> None:
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise AuthorisationError(f"{shown}: is no folder; expected one of your own (-o DIR)")
    if status.st_uid != os.geteuid():
        raise AuthorisationError(f"{shown}: belongs to user {status.st_uid}; expected your own (-o DIR)")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise AuthorisationError(
            f"{shown}: has mode {mode:04o}: others may enter it; expected 0700 (chmod 700, or a new -o DIR)"
        )


def _ignored(tree: Path, place: Path, names: Sequence[str]) -> bool:
    """Whether git would leave out every file in this folder, whatever its name; where git cannot be asked, it would not.

    Asked are the files that will be written, those that are there, and a name that no pattern of endings knows.
    """
    there = sorted(os.listdir(place))[:_MOST_ASKED] if place.is_dir() else []
    unknown = f"r{secrets.token_hex(8)}"
    for name in dict.fromkeys([unknown, f"{unknown}/{unknown}", *names, *there]):
        if _git(tree, "check-ignore", "--quiet", "--", str(place / name)) is None:
            return False
    return _git(tree, "ls-files", "-z", "--", str(place)) == b""


def _git(tree: Path, *asked: str) -> bytes | None:
    """What git says, with the hooks and programs of a repository switched off; None where it fails or says no."""
    clean = {n: value for n, value in os.environ.items() if not n.startswith("GIT_") and n not in SECRETS}
    env = {**clean, "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}
    asking = command(["-C", str(tree), *asked])
    try:
        done = subprocess.run(asking, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
