"""Seal of restricted runs: an HMAC over run.json, which contains the label and the digest of every other file.

Any field of a restricted run marks a run.json, so that removing one of them does not make the run public.
"""

import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustify.base.errors import AuthorisationError

if TYPE_CHECKING:
    from robustify.base.key_file import Key

_MAC = "mac"
_LABELS = ("sensitivity", "key_id", "adapter", "release", _MAC)


def seal(manifest: Mapping[str, Any], key: "Key") -> dict[str, Any]:
    """Return the manifest of a run with its seal: an HMAC-SHA256 under the subkey for manifests."""
    return {**manifest, _MAC: _mac(manifest, key)}


def is_restricted(manifest: Mapping[str, Any]) -> bool:
    """Return whether any field of run.json indicates a restricted run."""
    files = manifest.get("files")
    names = list(files) if isinstance(files, Mapping) else []
    return any(name in manifest for name in _LABELS) or any(n.startswith("splits/") for n in names)


def require_seal(folder: Path, manifest: Mapping[str, Any]) -> "Key":
    """Return the key that sealed a run.json. Raise `AuthorisationError` if it is missing or different, or run.json was
    edited."""
    from robustify.base.key_file import IDS_FILE_VARIABLE, evaluator_key

    key = evaluator_key()
    if manifest.get("key_id") != key.id:
        raise AuthorisationError(
            f"{folder} was sealed with a different key than {key.id}. Set ${IDS_FILE_VARIABLE} to the key of the run.",
            code="other-run-key",
        )
    mac = manifest.get(_MAC)
    labelled = manifest.get("sensitivity") == "restricted"
    if not labelled or not isinstance(mac, str) or not hmac.compare_digest(_mac(manifest, key), mac):
        raise AuthorisationError(
            f"{folder}/run.json was edited after the run sealed it (a label or a digest differs). Run the same command "
            "again.",
            code="edited-run",
        )
    return key


def _mac(manifest: Mapping[str, Any], key: "Key") -> str:
    bare = {name: value for name, value in manifest.items() if name != _MAC}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key.derived("manifest"), text.encode(), "sha256").hexdigest()
