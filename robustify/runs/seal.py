"""Seal of restricted runs: an HMAC over run.json, which contains the label and the digest of every other file."""

import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustify.base.errors import AuthorisationError
from robustify.runs.stored import SEAL

if TYPE_CHECKING:
    from robustify.base.key_file import Key


def seal(manifest: Mapping[str, Any], key: "Key") -> dict[str, Any]:
    """Return the manifest of a run with its seal: an HMAC-SHA256 under the subkey for manifests."""
    return {**manifest, SEAL: _mac(manifest, key)}


def require_seal(folder: Path, manifest: Mapping[str, Any]) -> "Key":
    """Return the key that sealed a run.json. Raise `AuthorisationError` if that key is missing, or run.json was edited."""
    from robustify.base.key_file import IDS_FILE_VARIABLE, evaluator_key

    key = evaluator_key()
    if manifest.get("key_id") != key.id:
        raise AuthorisationError(
            f"{folder} was sealed with a different key than {key.id}. Set ${IDS_FILE_VARIABLE} to the path of the key file "
            "that belongs to this run.",
            code="other-run-key",
        )
    mac = manifest.get(SEAL)
    labelled = manifest.get("sensitivity") == "restricted"
    if not labelled or not isinstance(mac, str) or not hmac.compare_digest(_mac(manifest, key), mac):
        raise AuthorisationError(
            f"{folder}/run.json was edited after the run sealed it (a label or a digest differs). Repeat the "
            "command that made the run.",
            code="edited-run",
        )
    return key


def _mac(manifest: Mapping[str, Any], key: "Key") -> str:
    bare = {name: value for name, value in manifest.items() if name != SEAL}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key.derived("manifest"), text.encode(), "sha256").hexdigest()
