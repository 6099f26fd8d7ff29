"""The gate's own secret: where it comes from, and what a key file must be.

It is a separate key from the one of item ids: CI needs this one, and CI must not be able to open id lists. A key
comes from a file or from a secret store, never from an argument or a config.
"""

import base64
import binascii
import hmac
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from robustify.errors import AuthorisationError

FILE_VARIABLE = "ROBUSTIFY_GATE_KEY_FILE"
VARIABLE = "ROBUSTIFY_GATE_KEY"
_FORM = re.compile(r"rbk1:([0-9a-f]{16}):([A-Za-z0-9_-]{43}=?)\s*\Z")
_MOST = 4096


@dataclass(frozen=True, slots=True)
class Key:
    """A 256-bit secret and its public id. Its repr shows the id only."""

    id: str
    secret: bytes = field(repr=False)

    def derived(self, purpose: str) -> bytes:
        """The subkey of one purpose: HMAC-SHA256 with domain separation."""
        return hmac.digest(self.secret, f"robustify/v1/gate/{purpose}".encode(), "sha256")


def load_key(
    path: str | None = None, file_variable: str = FILE_VARIABLE, variable: str = VARIABLE
) -> Key | None:
    """The gate's key: from a given file, `$ROBUSTIFY_GATE_KEY_FILE` or `$ROBUSTIFY_GATE_KEY`; None where none is set.

    Other variables hold other keys. Raises `AuthorisationError` (exit 4) for a key that is there and must not be used.
    """
    named = path or os.environ.get(file_variable)
    if named:
        return _parsed(_read(named), f"key file {_quoted(named)}")
    held = os.environ.get(variable)
    return _parsed(held, f"${variable}") if held else None


def _quoted(name: str) -> str:
    return ascii(name)


def _read(name: str) -> str:
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "is a symbolic link" if os.path.islink(name) else f"cannot be opened ({error.strerror})"
        raise AuthorisationError(
            f"key file {_quoted(name)} {why}; expected a regular file of yours, mode 0600"
        ) from None
    try:
        _check(name, os.fstat(opened))
        return os.read(opened, _MOST).decode("ascii", "replace")
    finally:
        os.close(opened)


def _check(name: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise AuthorisationError(
            f"key file {_quoted(name)} is not a regular file; make one: robustify key new"
        )
    if found.st_uid != os.geteuid():
        raise AuthorisationError(
            f"key file {_quoted(name)} belongs to user {found.st_uid}; expected your own file"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise AuthorisationError(
            f"key file {_quoted(name)} has mode {mode:04o}: others may read it; expected 0600 (chmod 600)"
        )
    tree = work_tree(Path(name).resolve().parent)
    if tree is not None:
        raise AuthorisationError(
            f"key file {_quoted(name)} lies inside a git work tree; move it out, one `git add` away is too near"
        )


def work_tree(folder: Path) -> Path | None:
    """The nearest folder above (or this one) that git calls a work tree."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def _parsed(text: str, source: str) -> Key:
    match = _FORM.match(text)
    if match is None:
        raise AuthorisationError(
            f"{source} holds no key of the form rbk1:ID:SECRET (256 bits); make one: robustify key new"
        )
    try:
        secret = base64.urlsafe_b64decode(match[2].rstrip("=") + "=")
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != 32 or len(set(secret)) < 16:
        raise AuthorisationError(f"{source} holds a weak secret; expected 32 random bytes: robustify key new")
    if not hmac.compare_digest(key_id(secret), match[1]):
        raise AuthorisationError(f"{source} is damaged: its id is not the id of its secret; restore it")
    return Key(match[1], secret)


def key_id(secret: bytes) -> str:
    """The public id of a secret: the first 8 bytes of HMAC-SHA256(secret, "robustify/v1/key-id")."""
    return hmac.digest(secret, b"robustify/v1/key-id", "sha256")[:8].hex()
