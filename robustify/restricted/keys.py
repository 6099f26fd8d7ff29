"""The evaluator's secret: where it comes from, how one is made, and the subkeys that are used instead of it.

It comes from a file of mode 0600 or a CI secret, never from an argument or a config, and passphrases are refused.
The gate has a key of its own: CI needs that one, and CI must not be able to open id lists.
"""

import base64
import contextlib
import hmac
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from robustify.errors import AuthorisationError, ResourceError, UsageError
from robustify.files import write_new
from robustify.gate import key_file
from robustify.gate.git import work_tree

FILE_VARIABLE = "ROBUSTIFY_KEY_FILE"
VARIABLE = "ROBUSTIFY_KEY"
SIZE = 32

SECRETS = (VARIABLE, key_file.VARIABLE)
"""Variables that hold a key itself and not the name of its file."""
_HELD: "list[Key]" = []

Purpose = Literal["ids", "cache", "manifest", "baseline", "free"]


@dataclass(frozen=True, slots=True)
class Key:
    """A 256-bit secret and its public id. Its repr shows the id only."""

    id: str
    secret: bytes = field(repr=False)

    def derived(self, purpose: Purpose) -> bytes:
        """The subkey of one purpose, 32 bytes: HMAC-SHA256(secret, "robustify/v1/" + purpose)."""
        return hmac.digest(self.secret, f"robustify/v1/{purpose}".encode(), "sha256")


def load_key(path: str | None = None) -> Key:
    """The key: from a given file, `$ROBUSTIFY_KEY_FILE` or `$ROBUSTIFY_KEY`.

    Raises:
        AuthorisationError: none is set, or the one that is must not be used: a link, no regular file, somebody
            else's, readable by others, inside a git work tree, damaged or weak, or the gate's own key.
    """
    if path is None and _HELD:
        return _HELD[-1]
    found = key_file.load_key(path, FILE_VARIABLE, VARIABLE)
    if found is None:
        raise AuthorisationError(
            f"no key: neither ${FILE_VARIABLE} nor ${VARIABLE} is set; expected a key file of mode 0600: "
            "robustify key new --out FILE"
        )
    _refuse_the_gate_s(found.id)
    return Key(found.id, found.secret)


@contextlib.contextmanager
def kept_from_children() -> Iterator[None]:
    """A key that stands in the environment itself is out of it inside, so that no child (git, Ray, vLLM) has it;
    `load_key` has it still.

    Raises:
        AuthorisationError: as `load_key`.
    """
    direct = bool(os.environ.get(VARIABLE)) and not os.environ.get(FILE_VARIABLE)
    held = [load_key()] if direct else []
    secrets = {name: os.environ.pop(name) for name in SECRETS if name in os.environ}
    _HELD.extend(held)
    try:
        yield
    finally:
        os.environ.update(secrets)
        del _HELD[len(_HELD) - len(held) :]


def new_key(out: Path) -> Key:
    """A fresh key in a new file of mode 0600.

    Raises:
        AuthorisationError: the place lies inside a git work tree.
        UsageError: the file is there already; a key is never overwritten.
        ResourceError: the file cannot be written.
    """
    tree = work_tree(out.resolve().parent)
    if tree is not None:
        raise AuthorisationError(
            f"{str(out)!a}: lies inside a git work tree, one `git add` away from a commit; choose another place"
        )
    secret = os.urandom(SIZE)
    key = Key(key_file.Key.of(secret).id, secret)
    try:
        write_new(out, text(key))
    except FileExistsError:
        raise UsageError(
            f"{str(out)!a}: is there already; a key is never overwritten: choose another name"
        ) from None
    except OSError as error:
        raise ResourceError(f"{str(out)!a}: cannot be written ({error.strerror})") from None
    return key


def text(key: Key) -> str:
    """The key as its file holds it: `rbk1:ID:SECRET`."""
    return f"rbk1:{key.id}:{base64.urlsafe_b64encode(key.secret).decode().rstrip('=')}\n"


def _refuse_the_gate_s(name: str) -> None:
    try:
        gate = key_file.load_key()
    except AuthorisationError:
        # The gate tells what is wrong with its own key.
        return
    if gate is not None and gate.id == name:
        raise AuthorisationError(
            f"the key {name} is the gate's key too; expected a separate one: whoever scans with the gate's key "
            "could open the lists of ids (robustify key new --out FILE)"
        )
