"""The evaluator's key, and the seal of restricted runs.

The key comes from a file of mode 0600, never from an argument, a variable or a config. The gate has another key, because
CI needs that key but must not be able to read lists of IDs. The seal is an HMAC over run.json, which contains the label
and the digest of every other file. Without the key, nobody can change a label, number or digest undetected.
"""

import contextlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustify.base import key_file
from robustify.base.errors import AuthorisationError
from robustify.base.files import write_new
from robustify.base.git import work_tree
from robustify.base.key_file import Key

FILE_VARIABLE = key_file.IDS_VARIABLES[0]
_MAC = "mac"
_LABELS = ("sensitivity", "key_id", "adapter", "release", _MAC)


def evaluator_key(path: Path | str | None = None) -> Key:
    """Load the key from a file, by default from `$ROBUSTIFY_KEY_FILE`. Raise `AuthorisationError` if the variable is
    not set, or the key is unsafe: its file is a link or not regular, belongs to another user, is readable by others
    or is in a Git work tree; the key is damaged, weak, or the gate's key."""
    named = str(path or os.environ.get(FILE_VARIABLE) or "")
    key = key_file.load_key(named) if named else None
    if key is None:
        raise AuthorisationError(
            f"${FILE_VARIABLE} is not set; expected the path of a key file of mode 0600. "
            "To make a key, run `robustify restricted key new --out FILE`."
        )
    gate = None
    with contextlib.suppress(AuthorisationError):  # the gate itself reports a fault of its key
        gate = key_file.load_key()
    if gate is not None and key.id == gate.id:
        raise AuthorisationError(
            f"The key {key.id} is the gate's key too, so anyone who scans with it could open the lists of IDs. "
            "Make a separate key with `robustify restricted key new --out FILE`."
        )
    return key


def new_key(out: Path) -> Key:
    """Create a key in a new file of mode 0600. Raise `AuthorisationError` if the folder is in a Git work tree. Raise
    `UsageError` if the file exists already. A key is never overwritten. Raise `ResourceError` if the file cannot be
    written."""
    if work_tree(out.resolve().parent) is not None:
        raise AuthorisationError(
            f"{str(out)!a} is inside a Git work tree, one `git add` away from a commit. Choose another folder."
        )
    key = Key.of(os.urandom(key_file.SIZE))
    write_new(out, key.as_text())
    return key


def sealed(manifest: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """Return the manifest of a run with its HMAC-SHA256 under the subkey for manifests."""
    return {**manifest, _MAC: _mac(manifest, key)}


def marked(manifest: Mapping[str, Any]) -> bool:
    """Return whether any field of run.json indicates a restricted run."""
    files = manifest.get("files")
    names = list(files) if isinstance(files, Mapping) else []
    return any(name in manifest for name in _LABELS) or any(n.startswith("splits/") for n in names)


def require_seal(folder: Path, manifest: Mapping[str, Any]) -> Key:
    """Return the key that sealed a run.json. Raises `AuthorisationError` if the key is missing or different, or if the
    manifest was edited."""
    key = evaluator_key()
    if manifest.get("key_id") != key.id:
        raise AuthorisationError(
            f"{folder} was sealed with a different key than {key.id}. Set ${FILE_VARIABLE} to the key of the run."
        )
    mac = manifest.get(_MAC)
    labelled = manifest.get("sensitivity") == "restricted"
    if not labelled or not isinstance(mac, str) or not hmac.compare_digest(_mac(manifest, key), mac):
        raise AuthorisationError(
            f"{folder}/run.json was edited after the run sealed it (a label or a digest differs). Run the same command "
            "again."
        )
    return key


def _mac(manifest: Mapping[str, Any], key: Key) -> str:
    bare = {name: value for name, value in manifest.items() if name != _MAC}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key.derived("manifest"), text.encode(), "sha256").hexdigest()
