"""Read and write secret keys, and recognize published lists of keyed IDs.

The gate and the item IDs have separate keys, because CI needs the gate's key but must not be able to read lists of IDs. A
key comes from a file or a secret store, never from an argument or a config.
"""

import base64
import contextlib
import hmac
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from robustify.base.errors import AuthorisationError, Notice
from robustify.base.files import OWNED, open_descriptor
from robustify.base.git import repository_around

FILE_VARIABLE = "ROBUSTIFY_GATE_KEY_FILE"
VARIABLE = "ROBUSTIFY_GATE_KEY"
IDS_FILE_VARIABLE, IDS_VARIABLE = "ROBUSTIFY_KEY_FILE", "ROBUSTIFY_KEY"
"""Variables for the key of item IDs: its file, and the key itself."""
SIZE = 32
"""Number of bytes in a secret."""
_FORM = re.compile(r"rbk1:([0-9a-f]{16}):([A-Za-z0-9_-]{43})=?\s*\Z")
_MOST = 4096
SPLIT = "robustify.hashed-split/1"
"""Format of a hashed split, the one file of a restricted set that may be published."""
ID_PREFIX = "rb1_"
KEYED_ID = re.compile(rf"{ID_PREFIX}[a-z2-7]{{26}}(?![a-z0-9])")
_SPLIT_KEYS = {"format", "dataset", "dataset_version", "split", "canon", "key_id", "n", "ids"}
_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")


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


def load_key(
    path: str | None = None, file_variable: str = FILE_VARIABLE, variable: str = VARIABLE
) -> Key | None:
    """Return the key from the file `path`, from the file that the environment variable `file_variable` names, or from the
    environment variable `variable`. Return None if none is set. Raise `AuthorisationError` if the key is damaged or weak,
    was given as a path, or `read_private` refuses its file."""
    name = path or os.environ.get(file_variable)
    if not name:
        text = os.environ.get(variable)
        return _parsed(text, f"${variable}") if text else None
    if "rbk1:" in name:
        fault = "A key was given instead of the name of its file, and others may have seen it"
        raise AuthorisationError(
            f"{fault}. Create a new key with `robustify restricted key new --out FILE`.",
            code="key-given-as-path",
        )
    source = f"key file {name!a}"
    return _parsed(read_private(name, source, _MOST), source)


def evaluator_key(path: Path | str | None = None) -> Key:
    """Load the evaluator's key from a file, by default from `$ROBUSTIFY_KEY_FILE`. Raise `AuthorisationError` if the key is
    missing, damaged, weak, or also the gate's key, or if `read_private` refuses its file."""
    named = str(path or os.environ.get(IDS_FILE_VARIABLE) or "")
    key = load_key(named) if named else None
    if key is None:
        raise AuthorisationError(
            f"${IDS_FILE_VARIABLE} is not set; expected the path of a key file of mode 0600. "
            "To create a key, run `robustify restricted key new --out FILE`.",
            code="missing-ids-key",
        )
    gate = None
    with contextlib.suppress(AuthorisationError):  # the gate itself reports a fault of its key
        gate = load_key()
    if gate is not None and key.id == gate.id:
        raise AuthorisationError(
            f"Key {key.id} is also the gate's key, so anyone who has the gate's key could read the lists of IDs. "
            "Create a separate key with `robustify restricted key new --out FILE`.",
            code="shared-key",
        )
    return key


def read_private(name: str, source: str, most: int) -> str:
    """Return the ASCII text of a file that only its owner may read. Errors call it `source`. Raise `AuthorisationError` if
    the file is a link, is not regular, belongs to another user, is readable by others, or is in a Git work tree."""
    try:
        handle = open_descriptor(name, os.O_RDONLY)
    except OSError as error:
        cause = "is a symbolic link" if os.path.islink(name) else f"cannot be opened ({error.strerror})"
        raise AuthorisationError(
            f"{source} {cause}. Expected a file that you own, with mode 0600.", code="private-file-not-opened"
        ) from None
    try:
        status = os.fstat(handle)
        if (fault := _exposed(status, name)) is not None:
            raise AuthorisationError(f"{source} {fault}", code=fault.code)
        return os.read(handle, most).decode("ascii", "replace")
    finally:
        os.close(handle)


def _exposed(status: os.stat_result, name: str) -> Notice | None:
    """Return the reason why others may be able to read a file, or None if only its owner can."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        text, code = "is not a regular file. Expected a regular file with mode 0600.", "not-a-regular-file"
        return Notice(text, code=code)
    if not OWNED:
        text = "cannot be checked: this system has no file modes. Use Linux, macOS, or WSL."
        return Notice(text, code="no-file-modes")
    if status.st_uid != os.geteuid():
        return Notice(
            f"belongs to user {status.st_uid}. Expected a file that you own.", code="file-of-another-user"
        )
    if mode & 0o077:
        text = f"has mode {mode:04o}, so others may read it. Expected mode 0600 (`chmod 600`)."
        return Notice(text, code="readable-by-others")
    if repository_around(Path(name).resolve().parent) is not None:
        text = "is inside a Git work tree, where it could be committed by mistake. Move it elsewhere."
        return Notice(text, code="private-file-in-git")
    return None


def _parsed(text: str, source: str) -> Key:
    match, new = _FORM.match(text), "`robustify restricted key new`"
    if match is None:
        fault = f"{source} does not contain a key (rbk1:ID:SECRET, 256 bits)"
        raise AuthorisationError(f"{fault}. To create a key, run {new}.", code="no-key-in-file")
    key = Key.of(base64.urlsafe_b64decode(match[2] + "="))
    if len(set(key.secret)) < SIZE // 2:
        raise AuthorisationError(
            f"{source} contains a weak secret. Expected 32 random bytes. To create a new key, run {new}.",
            code="weak-key",
        )
    if not hmac.compare_digest(key.id, match[1]):
        raise AuthorisationError(
            f"{source} is damaged: the ID does not match the secret. Restore it.", code="damaged-key"
        )
    return key


def is_split(tree: object) -> bool:
    """Return whether an object is a published split: sorted keyed IDs, and no unexpected fields."""
    if not isinstance(tree, dict) or set(tree) != _SPLIT_KEYS or tree["format"] != SPLIT:
        return False
    ids = tree["ids"]
    names = [tree[name] for name in ("dataset", "dataset_version", "split", "canon", "key_id")]
    return (
        isinstance(ids, list)
        and all(isinstance(id, str) and KEYED_ID.fullmatch(id) for id in ids)
        and ids == sorted(set(ids))
        and tree["n"] == len(ids)
        and all(isinstance(name, str) and _WORD.fullmatch(name) for name in names)
    )
