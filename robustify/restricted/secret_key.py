"""The evaluator's secret: where it comes from, how one is made; and the seal of a restricted run made with it.

It comes from a file of mode 0600, never from an argument, a variable or a config, and passphrases are refused.
The gate has a key of its own: CI needs that one, and CI must not be able to open lists of ids. Subkeys are used in
its place: "ids", "cache", "manifest", "releases".

The seal is an HMAC over run.json, which holds the label and the digest of every other file. Without the key nobody
changes a label, number or digest unseen. It keeps nobody from reading; what was edited is not built upon.
"""

import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError
from robustify.files import write_new
from robustify.gate import key_file
from robustify.gate.git import work_tree
from robustify.gate.key_file import Key

FILE_VARIABLE = key_file.IDS_VARIABLES[0]
MAC = "mac"
LABELS = ("sensitivity", "key_id", "adapter", "release", MAC)


def evaluator_key(path: Path | str | None = None) -> Key:
    """Return the key of a given file, or of `$ROBUSTIFY_KEY_FILE`.

    Raises:
        AuthorisationError: none is set, or the one that is must not be used: a link, no regular file, somebody
            else's, readable by others, inside a git work tree, damaged or weak, or the gate's own key.
    """
    named = str(path or os.environ.get(FILE_VARIABLE) or "")
    key = key_file.load_key(named) if named else None
    if key is None:
        raise AuthorisationError(
            f"no key: ${FILE_VARIABLE} is not set; expected a key file of mode 0600: "
            "robustify restricted key new --out FILE"
        )
    if key.id == _gate_key_id():
        raise AuthorisationError(
            f"the key {key.id} is the gate's key too; expected a separate one: anyone who scans with the gate's key "
            "could open the lists of ids (robustify restricted key new --out FILE)"
        )
    return key


def new_key(out: Path) -> Key:
    """Make a key in a new file of mode 0600.

    Raises:
        AuthorisationError: the place lies inside a git work tree.
        UsageError: the file is there already; a key is never overwritten.
        ResourceError: the file cannot be written.
    """
    if work_tree(out.resolve().parent) is not None:
        raise AuthorisationError(
            f"{str(out)!a}: lies inside a git work tree, one `git add` away from a commit; choose another place"
        )
    key = Key.of(os.urandom(key_file.SIZE))
    write_new(out, key.as_text())
    return key


def sealed(manifest: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """Return the manifest of a run with its HMAC-SHA-256 under the subkey for manifests."""
    return {**manifest, MAC: _mac(manifest, key)}


def marked(manifest: Mapping[str, Any]) -> bool:
    """Return whether anything in run.json says that the run is restricted; the highest label wins."""
    files = manifest.get("files")
    names = list(files) if isinstance(files, Mapping) else []
    return any(name in manifest for name in LABELS) or any(n.startswith("splits/") for n in names)


def require_seal(folder: Path, manifest: Mapping[str, Any]) -> Key:
    """Return the key under which this run.json was sealed.
    Raises `AuthorisationError`: no key, another key, or a manifest that was edited."""
    key = evaluator_key()
    if manifest.get("key_id") != key.id:
        raise AuthorisationError(
            f"{folder}: was sealed under another key than {key.id}; expected the key of the run (${FILE_VARIABLE})"
        )
    mac = manifest.get(MAC)
    labelled = manifest.get("sensitivity") == "restricted"
    if not labelled or not isinstance(mac, str) or not hmac.compare_digest(_mac(manifest, key), mac):
        raise AuthorisationError(
            f"{folder}/run.json: is not as the run sealed it (a label or a digest was edited); run the same command again"
        )
    return key


def _mac(manifest: Mapping[str, Any], key: Key) -> str:
    bare = {name: value for name, value in manifest.items() if name != MAC}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key.derived("manifest"), text.encode(), "sha256").hexdigest()


def _gate_key_id() -> str | None:
    try:
        gate = key_file.load_key()
    except AuthorisationError:
        # The gate itself reports what is wrong with its own key.
        return None
    return None if gate is None else gate.id
