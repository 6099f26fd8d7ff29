"""Reading and validation of keys from key files and environment variables.

The gate and the item IDs have separate keys, because CI needs the gate's key but must not be able to read lists of IDs.
`restricted/secret_key.py` loads the key of the item IDs with `load_key` too. A key comes from a file or a secret store,
never from an argument or a config.
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
"""Variables for the key of item IDs: its file, and the key itself."""
SIZE = 32
"""Number of bytes in a secret."""
_FORM = re.compile(r"rbk1:([0-9a-f]{16}):([A-Za-z0-9_-]{43}=?)\s*\Z")
_MOST = 4096
_PREFIX = re.compile(r"rbk1\W{0,4}:")
_BETWEEN = re.compile(r"[\s\"'`\\+,#>|()]+")
"""Characters between the parts of a key that is split over lines: blanks, quotes, comment marks."""
_BARE = re.compile(r"(?<![\w-])[\w-]{43}=?(?![\w-])", re.ASCII)
_SECRET = re.compile(r"[0-9a-f]{16}:[\w-]{43}", re.ASCII)
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
_MOST_BARE = 5000


@dataclass(frozen=True, slots=True)
class Key:
    """A 256-bit secret and its public ID. The repr shows only the ID."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> "Key":
        """Derive a key from a secret. Its ID is the first 8 bytes of HMAC-SHA256(secret, "robustify/v1/key-id")."""
        return cls(hmac.digest(secret, b"robustify/v1/key-id", "sha256")[:8].hex(), secret)

    def derived(self, purpose: str) -> bytes:
        """Return the 32-byte subkey for a purpose: HMAC-SHA256(secret, "robustify/v1/" + purpose)."""
        return hmac.digest(self.secret, f"robustify/v1/{purpose}".encode(), "sha256")

    def as_text(self) -> str:
        """Return the text of the key file: `rbk1:ID:SECRET` and a newline."""
        return f"rbk1:{self.id}:{base64.urlsafe_b64encode(self.secret).decode().rstrip('=')}\n"


def keys_in(text: str, known: Sequence[Key] = ()) -> Iterator[int]:
    """Yield the offset of each key in a text.

    A key is found by its prefix, or without a prefix if its ID is in the text. A secret alone is found only if its key is
    `known`, because it looks like any other 43 letters. Each form may be split over lines.
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
    """Return the key in a file, in the file that `$file_variable` names, or in `$variable`. Return None if none is set.
    Raises `AuthorisationError` (exit 4) if the key is damaged or weak, was given as a path, or has an unsafe file: a link,
    not a regular file, of another user, readable by others, or in a Git work tree."""
    name = path or os.environ.get(file_variable)
    if not name:
        text = os.environ.get(variable)
        return _parsed(text, f"${variable}") if text else None
    if "rbk1:" in name:
        raise AuthorisationError(
            "A key was given instead of the name of its file, and others may have seen it. "
            "Make a new key: `robustify restricted key new --out FILE`."
        )
    source = f"key file {name!a}"
    return _parsed(read_private(name, source, _MOST), source)


def read_private(name: str, source: str, most: int) -> str:
    """Return the ASCII text of a file that only its owner may read. Errors call the file `source`. Raises
    `AuthorisationError` for a file that is a link, not regular, of another user, readable by others, or in Git."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "is a symbolic link" if os.path.islink(name) else f"cannot be opened ({error.strerror})"
        raise AuthorisationError(f"{source} {why}. Expected a file that you own, with mode 0600.") from None
    try:
        fault = _fault(name, os.fstat(handle))
        if fault:
            raise AuthorisationError(f"{source} {fault}")
        return os.read(handle, most).decode("ascii", "replace")
    finally:
        os.close(handle)


def _fault(name: str, status: os.stat_result) -> str:
    """Return the reason why a file is not safe for a secret, or an empty string."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file. Expected a regular file with mode 0600."
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}. Expected a file that you own."
    if mode & 0o077:
        return f"has mode {mode:04o}, so others may read it. Expected mode 0600 (`chmod 600`)."
    if work_tree(Path(name).resolve().parent) is not None:
        return "is inside a Git work tree, one `git add` away from a commit. Move it elsewhere."
    return ""


def _parsed(text: str, source: str) -> Key:
    match = _FORM.match(text)
    if match is None:
        raise AuthorisationError(
            f"{source} does not contain a key (rbk1:ID:SECRET, 256 bits). "
            "To make one, run `robustify restricted key new`."
        )
    try:
        secret = base64.urlsafe_b64decode(match[2].rstrip("=") + "=")
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != SIZE or len(set(secret)) < SIZE // 2:
        raise AuthorisationError(
            f"{source} contains a weak secret. Expected 32 random bytes, as from `robustify restricted key new`."
        )
    key = Key.of(secret)
    if not hmac.compare_digest(key.id, match[1]):
        raise AuthorisationError(f"{source} is damaged: the ID does not match the secret. Restore it.")
    return key
