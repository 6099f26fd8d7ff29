"""A key file or key variable, read and checked: the only place that knows what a key must be.

The gate has a key of its own, separate from the key of item ids (`restricted/secret_key.py`, which reads its own through
`load_key` too): CI needs the gate's key, and CI must not be able to open lists of ids. A key comes from a file or
from a secret store, never from an argument or a config.
"""

import base64
import binascii
import hmac
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.gate.git import work_tree

FILE_VARIABLE = "ROBUSTIFY_GATE_KEY_FILE"
VARIABLE = "ROBUSTIFY_GATE_KEY"
IDS_VARIABLES = ("ROBUSTIFY_KEY_FILE", "ROBUSTIFY_KEY")
"""The same two for the key of item ids."""
SIZE = 32
"""Bytes of a secret."""
_FORM = re.compile(r"rbk1:([0-9a-f]{16}):([A-Za-z0-9_-]{43}=?)\s*\Z")
_MOST = 4096
_PREFIX = re.compile(r"rbk1\W{0,4}:")
_BETWEEN = re.compile(r"[\s\"'`\\+,#>|()]+")
"""What stands between the parts of a key that is broken over lines: blanks, quotes, marks of comments."""
_BARE = re.compile(r"(?<![\w-])[\w-]{43}=?(?![\w-])", re.ASCII)
_SECRET = re.compile(r"[0-9a-f]{16}:[\w-]{43}", re.ASCII)
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
_MOST_BARE = 5000


@dataclass(frozen=True, slots=True)
class Key:
    """A 256-bit secret and its public id. Its repr shows the id only."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> "Key":
        """The key of a secret. Its id is the first 8 bytes of HMAC-SHA256(secret, "robustify/v1/key-id")."""
        return cls(hmac.digest(secret, b"robustify/v1/key-id", "sha256")[:8].hex(), secret)

    def derived(self, purpose: str) -> bytes:
        """The subkey of one purpose, 32 bytes: HMAC-SHA256(secret, "robustify/v1/" + purpose)."""
        return hmac.digest(self.secret, f"robustify/v1/{purpose}".encode(), "sha256")

    def as_text(self) -> str:
        """The key as its file holds it: `rbk1:ID:SECRET` and a newline."""
        return f"rbk1:{self.id}:{base64.urlsafe_b64encode(self.secret).decode().rstrip('=')}\n"


def keys_in(text: str, known: Sequence[Key] = ()) -> Iterator[int]:
    """Yield where a text holds a key: with its prefix, without it beside its id, or the secret of a `known` key alone.

    Each form may be broken over lines. The secret alone of another key looks like any other 43 letters.
    """
    for match in _PREFIX.finditer(text) if "rbk1" in text else ():
        if _SECRET.match(_BETWEEN.sub("", text[match.end() : match.end() + 240])):
            yield match.start()
    for match in islice(_BARE.finditer(text), _MOST_BARE) if _ID.search(text) else ():
        if _id_of(match[0]) in text:
            yield match.start()
    for key in known:
        coded = base64.urlsafe_b64encode(key.secret).decode().rstrip("=")
        for secret in (coded, coded.replace("-", "+").replace("_", "/"), key.secret.hex()):
            for at in {text.find(secret[:8]), text.find(secret[-8:])} - {-1}:
                near = text[max(at - 2 * len(secret), 0) : at + 2 * len(secret)]
                if secret in re.sub(r"[^\w/+-]+", "", near) or secret in _BETWEEN.sub("", near):
                    yield at


def _id_of(coded: str) -> str:
    return Key.of(base64.urlsafe_b64decode(coded.rstrip("=") + "=")).id


def load_key(
    path: str | None = None, file_variable: str = FILE_VARIABLE, variable: str = VARIABLE
) -> Key | None:
    """The key of a given file, of the file that `$file_variable` names, or in `$variable`; None where none is set.

    Raises `AuthorisationError` (exit 4) for a key that must not be used: a link, no regular file, somebody else's,
    readable by others, inside a git work tree, damaged or weak, or a key where the name of its file is expected.
    """
    name = path or os.environ.get(file_variable)
    if not name:
        text = os.environ.get(variable)
        return _parsed(text, f"${variable}") if text else None
    if "rbk1:" in name:
        raise AuthorisationError(
            "a key stands where the name of its file is expected, and others may have seen it there; make a new one: "
            "robustify restricted key new --out FILE"
        )
    source = f"key file {name!a}"
    return _parsed(read_private(name, source, _MOST), source)


def read_private(name: str, source: str, most: int) -> str:
    """Return the ASCII text of a file that its owner alone may read. `source` names it in an error.
    Raises `AuthorisationError`: a link, no regular file, somebody else's, readable by others, or inside a git work tree."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "is a symbolic link" if os.path.islink(name) else f"cannot be opened ({error.strerror})"
        raise AuthorisationError(f"{source} {why}; expected a file of yours, mode 0600") from None
    try:
        fault = _fault(name, os.fstat(handle))
        if fault:
            raise AuthorisationError(f"{source} {fault}")
        return os.read(handle, most).decode("ascii", "replace")
    finally:
        os.close(handle)


def _fault(name: str, status: os.stat_result) -> str:
    """Return why a secret must not be read from this file; empty where it may."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file; expected one of mode 0600"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}; expected your own file"
    if mode & 0o077:
        return f"has mode {mode:04o}: others may read it; expected 0600 (chmod 600)"
    if work_tree(Path(name).resolve().parent) is not None:
        return "lies inside a git work tree; move it out, one `git add` away is too near"
    return ""


def _parsed(text: str, source: str) -> Key:
    match = _FORM.match(text)
    if match is None:
        raise AuthorisationError(
            f"{source} holds no key of the form rbk1:ID:SECRET (256 bits); make one: robustify restricted key new"
        )
    try:
        secret = base64.urlsafe_b64decode(match[2].rstrip("=") + "=")
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != SIZE or len(set(secret)) < SIZE // 2:
        raise AuthorisationError(
            f"{source} holds a weak secret; expected 32 random bytes: robustify restricted key new"
        )
    key = Key.of(secret)
    if not hmac.compare_digest(key.id, match[1]):
        raise AuthorisationError(f"{source} is damaged: its id is not the id of its secret; restore it")
    return key
