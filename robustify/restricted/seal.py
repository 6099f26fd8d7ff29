"""The seal of a restricted run: an HMAC over run.json, which holds the label and the digest of every other file.

Whoever has no key can change no label, number or digest unseen. It keeps nobody from reading; it refuses to build on
what was edited.
"""

import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError
from robustify.restricted.keys import Key, load_key

MAC = "mac"
LABELS = ("sensitivity", "key_id", "adapter", "release", MAC)


def sealed(manifest: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """The manifest with its HMAC-SHA-256 under the subkey for manifests."""
    bare = {name: value for name, value in manifest.items() if name != MAC}
    return {**bare, MAC: _mac(bare, key)}


def marked(manifest: Mapping[str, Any]) -> bool:
    """Whether anything in run.json says that the run is restricted; the highest label found wins."""
    files = manifest.get("files")
    names = list(files) if isinstance(files, Mapping) else []
    return any(name in manifest for name in LABELS) or any(n.startswith("splits/") for n in names)


def require_seal(folder: Path, manifest: Mapping[str, Any]) -> Key:
    """The key under which this run.json was sealed.

    Raises:
        AuthorisationError: no key, another key, or a manifest that was edited.
    """
    key = load_key()
    if manifest.get("key_id") != key.id:
        raise AuthorisationError(
            f"{folder}: was sealed under another key than {key.id}; expected the key of the run ($ROBUSTIFY_KEY_FILE)"
        )
    found = manifest.get(MAC)
    bare = {name: value for name, value in manifest.items() if name != MAC}
    labelled = manifest.get("sensitivity") == "restricted"
    if not labelled or not isinstance(found, str) or not hmac.compare_digest(_mac(bare, key), found):
        raise AuthorisationError(
            f"{folder}/run.json: is not as the run sealed it (a label or a digest was edited); run the same command again"
        )
    return key


def _mac(bare: Mapping[str, Any], key: Key) -> str:
    told = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key.derived("manifest"), told.encode(), "sha256").hexdigest()
