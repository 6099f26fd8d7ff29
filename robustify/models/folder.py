"""Model folders: their location, the record of a model's files, and checks before loading.

Folders with pickled weights, custom model code, or files that differ from the record are refused. No model is loaded.
"""

import hashlib
import importlib.util
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.base.errors import ModelError, Notice
from robustify.base.files import cache_folder, sha256, write_atomic
from robustify.models.names import ENCODER, embedded_model

RECORD = "robustify-model.json"
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_TOKENIZER = ("tokenizer", "vocab", "merges", "special_tokens", "chat_template", "added_tokens")


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """Contents of `robustify-model.json`. `files` maps file names to sha256 digests."""

    name: str
    source: str
    gguf_sha256: str
    files: dict[str, str]
    licence: str
    converted_with: dict[str, str]


def models_folder(cache: Path) -> Path:
    """Return the folder for models inside a cache folder."""
    return cache / "models"


def read_record(folder: Path) -> ModelRecord | None:
    """Return the record of a folder, or None if the folder has no record. Raise `ModelError` if the record is damaged."""
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        return ModelRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as e:
        raise ModelError(
            f"{path}: the file is not a model record. Delete its folder and pull the model again.",
            code="damaged-model-record",
        ) from e


def model_info(name: str, cache: Path) -> dict[str, Any]:
    """Return a summary of an embedded model: source, license, terms, and the digests of its files if it was pulled. Raise
    `UsageError` if no embedded model has this name, and `ModelError` if its record is damaged."""
    model = embedded_model(name)
    folder = models_folder(cache) / model.name
    record = read_record(folder)
    return {
        "name": model.name,
        "licence": model.licence,
        "present": record is not None,
        "bytes": None if record is None else sum(path.stat().st_size for path in folder.iterdir()),
        "gguf_sha256": model.sha256,
        "title": model.title,
        "source": model.source,
        "terms": model.terms,
        "folder": str(folder),
        **{part: getattr(record, part, None) for part in ("files", "converted_with")},
    }


def check_folder(folder: Path) -> None:
    """Check that a model folder is safe to load and matches its record. Raise `ModelError` if files are missing, weights
    are pickled, custom code is requested, or a digest does not match."""
    endings = {path.suffix for path in folder.iterdir()}
    if ".safetensors" not in endings:
        if not endings.isdisjoint(_PICKLES):
            raise ModelError(
                f"{folder}: the weights are pickled, and pickles are never loaded. Convert them to safetensors.",
                code="pickled-weights",
            )
        raise ModelError(
            f"{folder}: no *.safetensors found. Choose a folder with the weights of a model.",
            code="missing-weights",
        )
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{folder}: no config.json found. Choose a complete model folder.", code="missing-model-config"
        )
    for name in ("config.json", "tokenizer_config.json"):
        if "auto_map" in _object_in(folder / name):
            raise ModelError(
                f"{folder / name}: the model needs custom code (auto_map), and such code is never loaded. Use a model that "
                "transformers supports.",
                code="custom-model-code",
            )
    if (record := read_record(folder)) is None:
        return
    mend = f"To restore it, run `robustify models pull {record.name}`."
    if missing := [name for name in sorted(record.files) if not (folder / name).is_file()]:
        raise ModelError(
            f"{folder}: files are missing ({', '.join(missing)}). {mend}", code="missing-model-files"
        )
    changed = [
        Notice(
            f"{folder / name}: found sha256 {digest[:12]}..., expected {record.files[name][:12]}... {mend}",
            code="changed-model-file",
        )
        for name, digest in digests(folder, sorted(record.files)).items()
        if digest != record.files[name]
    ]
    if changed:
        raise ModelError(*changed)


def encoder(cache: Path) -> Path | None:
    """Return the checked folder of the sentence encoder, or None if it is missing. Raise `ModelError` if it is damaged."""
    folder = models_folder(cache) / ENCODER.name
    if not (folder / RECORD).is_file():
        return None
    check_folder(folder)
    return folder


def has_encoder(cache: Path) -> bool:
    """Return whether the sentence encoder was downloaded and torch is installed. Raise the errors of `encoder`."""
    return encoder(cache) is not None and importlib.util.find_spec("torch") is not None


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer files contain a chat template, without loading the tokenizer. Raise `ModelError` if
    `tokenizer_config.json` is damaged."""
    files = (folder / f"chat_template.{ending}" for ending in ("jinja", "json"))
    return any(map(Path.is_file, files)) or bool(
        _object_in(folder / "tokenizer_config.json").get("chat_template")
    )


def file_digests(folder: Path) -> dict[str, str]:
    """Return the digests of the files in a folder on which scores depend: weights, config, and tokenizer."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    weights = [name for name in names if name.endswith(".safetensors")]
    tokenizer = [name for name in names if name.startswith(_TOKENIZER)]
    sums = digests(folder, {*weights, *tokenizer, "config.json"})

    def joint(files: list[str]) -> str:
        if len(files) == 1:
            return sums[files[0]]
        return hashlib.sha256("".join(f"{name} {sums[name]}\n" for name in files).encode()).hexdigest()

    return {"weights": joint(weights), "config": sums["config.json"], "tokenizer": joint(tokenizer)}


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of each file. Files with unchanged size and modification time are not read again."""
    # Never write into a folder that robustify did not create, such as a user's model or the hub cache.
    path = folder / ".digests.json"
    if not (folder / RECORD).is_file():
        key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
        path = cache_folder() / "digests" / f"{key}.json"
    try:
        stored = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        stored = {}
    stats = {name: (folder / name).stat() for name in names}
    stamps = {name: f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats.items()}
    fresh = {stamp: stored.get(stamp) or sha256(folder / name) for name, stamp in stamps.items()}
    if not fresh.items() <= stored.items():
        # If the cache cannot be written, the files are hashed every time.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps({**stored, **fresh}, sort_keys=True).encode(), sync=False)
    return {name: fresh[stamp] for name, stamp in stamps.items()}


def _object_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or an empty object if the file is missing or contains something else."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as e:
        raise ModelError(
            f"{path}: the file is not valid JSON. Copy it again from its source.", code="invalid-json-file"
        ) from e
    return tree if isinstance(tree, dict) else {}
