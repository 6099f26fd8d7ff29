"""A folder that only its owner reads: where the results of a restricted run may lie.

Refused are folders that others may enter, that git would take up, or that a web server shows. Nothing is made or
changed here.
"""

import os
import stat
import subprocess
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.gate.git import work_tree
from robustify.restricted.keys import SECRETS

_WEB_ROOTS = ("public_html", "htdocs", "wwwroot", "webroot", "docroot")
_WEB_FOLDERS = (Path("/var/www"), Path("/srv/http"), Path("/srv/www"), Path("/usr/share/nginx"))


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
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise AuthorisationError(f"{shown}: is no folder; expected one of your own (-o DIR)")
    if found.st_uid != os.geteuid():
        raise AuthorisationError(
            f"{shown}: belongs to user {found.st_uid}; expected a folder of your own (-o DIR)"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise AuthorisationError(
            f"{shown}: has mode {mode:04o}: others may enter it; expected 0700 (chmod 700, or a new -o DIR)"
        )


def _on_the_web(place: Path) -> bool:
    if any(place.is_relative_to(root) for root in _WEB_FOLDERS):
        return True
    return any(part.lower() in _WEB_ROOTS for part in place.parts)


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
