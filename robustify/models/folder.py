"""A model's folder: where it is, the record beside its weights, and whether the files still match it.

It refuses pickled weights, custom model code and files that differ from the record. It loads no model.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robustify.errors import ModelError
from robustify.files import sha256, write_atomic
from robustify.models.names import known

RECORD = "robustify-model.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


@dataclass(frozen=True, slots=True)
class Record:
    """What `robustify-model.json` says: `files` maps each file's name to its sha256."""

    name: str
    source: str
    gguf_sha256: str
    files: dict[str, str]
    licence: str
    converted_with: dict[str, str]


def cache_folder(given: Path | None = None) -> Path:
    """Return the cache: `given`, else $ROBUSTIFY_CACHE, else $XDG_CACHE_HOME/robustify, else ~/.cache/robustify."""
    if given is not None:
        return given.expanduser()
    if own := os.environ.get("ROBUSTIFY_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "robustify"


def models_folder(cache: Path) -> Path:
    """Return the folder of a cache that holds its models."""
    return cache / "models"


def write_record(folder: Path, record: Record) -> None:
    """Put the record beside the weights."""
    text = json.dumps(asdict(record), indent=2, sort_keys=True) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")


def read_record(folder: Path) -> Record | None:
    """Return the record of a folder, or None if it has none. Raises `ModelError`: the record is damaged."""
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        return Record(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as e:
        raise ModelError(f"{path}: is not a model record; delete its folder and pull the model again") from e


def check_folder(folder: Path) -> None:
    """Refuse what must not be loaded, and what is not as it was recorded.
    Raises `ModelError`: files missing, pickled weights only, custom code asked for, or a digest that does not match."""
    config = folder / "config.json"
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        if any(path for pattern in _PICKLES for path in folder.glob(pattern)):
            raise ModelError(f"{folder}: pickled weights are never loaded; convert to safetensors")
        raise ModelError(f"{folder}: has no *.safetensors; expected a model's folder")
    if not config.is_file():
        raise ModelError(f"{folder}: has no config.json; expected a model's folder")
    for name in ("config.json", "tokenizer_config.json"):
        _check_no_code(folder / name)
    record = read_record(folder)
    if record is not None:
        _check_digests(folder, record)


def has_chat_template(folder: Path) -> bool:
    """Return whether the model's tokenizer brings a chat template, by its files: nothing is loaded."""
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    try:
        return bool(
            json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template")
        )
    except (OSError, ValueError, AttributeError):
        return False


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of these files. A file whose size and time are as last seen is not read again."""
    path = _seen_file(folder)
    try:
        seen = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        seen = {}
    fresh = {}
    for name in names:
        stat = (folder / name).stat()
        stamp = f"{stat.st_size}:{stat.st_mtime_ns}"
        entry = seen.get(name)
        if entry is None or entry["stamp"] != stamp:
            entry = {"stamp": stamp, "sha256": sha256(folder / name)}
        fresh[name] = entry
    if any(seen.get(name) != entry for name, entry in fresh.items()):
        # A cache that cannot be written costs time: the files are hashed each time.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps({**seen, **fresh}, sort_keys=True).encode(), sync=False)
    return {name: entry["sha256"] for name, entry in fresh.items()}


def _check_no_code(path: Path) -> None:
    if not path.is_file():
        return
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise ModelError(f"{path}: is not JSON; expected a model's settings") from e
    if isinstance(tree, dict) and "auto_map" in tree:
        raise ModelError(f"{path}: asks for custom code (auto_map); only what transformers knows is loaded")


def _check_digests(folder: Path, record: Record) -> None:
    mend = f"run: robustify models pull {record.name}"
    missing = [name for name in sorted(record.files) if not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{folder}: {', '.join(missing)} missing; {mend}")
    sums = digests(folder, sorted(record.files))
    wrong = [
        f"{folder / name}: sha256 {sums[name][:12]}..., expected {digest[:12]}...; {mend}"
        for name, digest in sorted(record.files.items())
        if sums[name] != digest
    ]
    if wrong:
        raise ModelError(*wrong)


def _seen_file(folder: Path) -> Path:
    # Nothing is written into a folder that is not ours: a user's own model, or the hub's cache.
    if (folder / RECORD).is_file():
        return folder / ".digests.json"
    key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
    return cache_folder() / "digests" / f"{key}.json"


def info(name: str, cache: Path) -> dict[str, Any]:
    """Return what is known about an embedded model: source, licence, terms, and the digests of its files if it is here.

    Raises:
        UsageError: no embedded model has this name.
        ModelError: its record is damaged.
    """
    model = known(name)
    folder = models_folder(cache) / model.name
    record = read_record(folder)
    return {
        "name": model.name,
        "licence": model.licence,
        "present": record is not None,
        "bytes": sum(p.stat().st_size for p in folder.iterdir()) if record else None,
        "gguf_sha256": model.sha256,
        "title": model.title,
        "source": model.source,
        "terms": model.terms,
        "folder": str(folder),
        "files": record.files if record else None,
        "converted_with": record.converted_with if record else None,
    }
