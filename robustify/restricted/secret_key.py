"""The evaluator's secret: where it comes from, how one is made; and the seal of a restricted run made with it.

It comes from a file of mode 0600 or a CI secret, never from an argument or a config, and passphrases are refused.
The gate has a key of its own: CI needs that one, and CI must not be able to open lists of ids. Subkeys are used in
its place: "ids", "cache", "manifest", "baseline", "free".

The seal is an HMAC over run.json, which holds the label and the digest of every other file. Without the key nobody
changes a label, number or digest unseen. It keeps nobody from reading; what was edited is not built upon.
"""

import contextlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError
from robustify.files import write_new
from robustify.gate import key_file
from robustify.gate.git import work_tree
from robustify.gate.key_file import Key

FILE_VARIABLE, VARIABLE = key_file.IDS_VARIABLES
SECRETS = (VARIABLE, key_file.VARIABLE)
"""Variables that hold a key itself and not the name of its file."""
RING = "ROBUSTIFY_KEY_RING"
"""Names a folder of older keys (`*.key`): what was sealed or listed under them still opens."""
MAC = "mac"
LABELS = ("sensitivity", "key_id", "adapter", "release", MAC)
_IN_MEMORY: list[Key] = []


def evaluator_key(path: str | None = None) -> Key:
    """The key: from a given file, `$ROBUSTIFY_KEY_FILE` or `$ROBUSTIFY_KEY`.

    Raises:
        AuthorisationError: none is set, or the one that is must not be used: a link, no regular file, somebody
            else's, readable by others, inside a git work tree, damaged or weak, or the gate's own key.
    """
    if path is None and _IN_MEMORY:
        return _IN_MEMORY[-1]
    key = key_file.load_key(path, FILE_VARIABLE, VARIABLE)
    if key is None:
        raise AuthorisationError(
            f"no key: neither ${FILE_VARIABLE} nor ${VARIABLE} is set; expected a key file of mode 0600: "
            "robustify restricted key new --out FILE"
        )
    _refuse_the_gate_key(key.id)
    return key


def key_named(name: str) -> Key:
    """The key with this public id: the one in force, or an older one on the ring; else the one in force.
    Raises `AuthorisationError`: as `evaluator_key`, also for a key on the ring; a ring that is no folder."""
    return next((key for key, _ in keys() if key.id == name), evaluator_key())


def key_file_named(name: str) -> Path | None:
    """The file that holds the key with this public id; None where it is in no file.
    Raises `AuthorisationError`: as `key_named`."""
    return next((file for key, file in keys() if key.id == name), None)


def keys() -> Iterator[tuple[Key, Path | None]]:
    """The key in force, then those of the ring, each with its file; a file is opened when its turn comes.
    Raises `AuthorisationError`: as `key_named`."""
    named = os.environ.get(FILE_VARIABLE)
    yield evaluator_key(), Path(named) if named else None
    ring = os.environ.get(RING)
    if not ring:
        return
    if not Path(ring).is_dir():
        raise AuthorisationError(f"${RING}: is no folder; expected one that holds the older keys (*.key)")
    for file in sorted(Path(ring).glob("*.key")):
        yield evaluator_key(str(file)), file


@contextlib.contextmanager
def kept_from_children() -> Iterator[None]:
    """Inside, no environment variable holds a key, so that no child (git, Ray, vLLM) has it; `evaluator_key` gives it
    still. Raises `AuthorisationError`: as `evaluator_key`."""
    direct = bool(os.environ.get(VARIABLE)) and not os.environ.get(FILE_VARIABLE)
    keys = [evaluator_key()] if direct else []
    secrets = {name: os.environ.pop(name) for name in SECRETS if name in os.environ}
    _IN_MEMORY.extend(keys)
    try:
        yield
    finally:
        os.environ.update(secrets)
        del _IN_MEMORY[len(_IN_MEMORY) - len(keys) :]


def new_key(out: Path) -> Key:
    """A fresh key in a new file of mode 0600.

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
    """The manifest of a run with its HMAC-SHA-256 under the subkey for manifests."""
    return {**_bare(manifest), MAC: _mac(manifest, key)}


def marked(manifest: Mapping[str, Any]) -> bool:
    """Whether anything in run.json says that the run is restricted; the highest label wins."""
    files = manifest.get("files")
    names = list(files) if isinstance(files, Mapping) else []
    return any(name in manifest for name in LABELS) or any(n.startswith("splits/") for n in names)


def require_seal(folder: Path, manifest: Mapping[str, Any]) -> Key:
    """The key under which this run.json was sealed.
    Raises `AuthorisationError`: no key, another key, or a manifest that was edited."""
    key = key_named(str(manifest.get("key_id")))
    if manifest.get("key_id") != key.id:
        raise AuthorisationError(
            f"{folder}: was sealed under another key than {key.id}; expected the key of the run (${FILE_VARIABLE}, or "
            f"among the older ones in ${RING})"
        )
    mac = manifest.get(MAC)
    labelled = manifest.get("sensitivity") == "restricted"
    if not labelled or not isinstance(mac, str) or not hmac.compare_digest(_mac(manifest, key), mac):
        raise AuthorisationError(
            f"{folder}/run.json: is not as the run sealed it (a label or a digest was edited); run the same command again"
        )
    return key


def _bare(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name != MAC}


def _mac(manifest: Mapping[str, Any], key: Key) -> str:
    text = json.dumps(_bare(manifest), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key.derived("manifest"), text.encode(), "sha256").hexdigest()


def _refuse_the_gate_key(name: str) -> None:
    try:
        gate = key_file.load_key()
    except AuthorisationError:
        # The gate itself reports what is wrong with its own key.
        return
    if gate is not None and gate.id == name:
        raise AuthorisationError(
            f"the key {name} is the gate's key too; expected a separate one: anyone who scans with the gate's key "
            "could open the lists of ids (robustify restricted key new --out FILE)"
        )
