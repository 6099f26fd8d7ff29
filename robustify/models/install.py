"""A GGUF file becomes a model's folder in the cache: converted once, recorded, put in place whole.

It never leaves half a folder behind: the work is done beside the place and renamed into it.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from robustify.errors import ModelError, ResourceError
from robustify.files import sha256
from robustify.models.folder import Record, mark_seen, write_record

Say = Callable[[str], None]
_NEEDED = ("torch", "transformers", "accelerate", "gguf", "safetensors")


def models_folder(cache: Path) -> Path:
    """Where the models of a cache lie."""
    return cache / "models"


@contextmanager
def room(cache: Path, name: str) -> Iterator[Path]:
    """An empty working folder on the cache's own disk, removed in the end. Hold the lock of `name` around it.

    Raises:
        ResourceError: the disk is full or cannot be written.
    """
    place = models_folder(cache) / f".{name}.partial"
    try:
        shutil.rmtree(place, ignore_errors=True)  # what a killed pull left
        place.mkdir(parents=True)
        yield place
    except OSError as e:
        raise ResourceError(
            f"{place.parent}: {e.strerror or e}; make room, or choose another with --cache-dir"
        ) from e
    finally:
        shutil.rmtree(place, ignore_errors=True)


def check_can_convert(name: str) -> None:
    """Say before anything is fetched that it could not be converted.

    Raises:
        ModelError: the hf extra is not installed.
    """
    missing = [part for part in _NEEDED if importlib.util.find_spec(part) is None]
    if missing:
        raise ModelError(f"{name}: needs {', '.join(missing)}; pip install 'robustcbrn-eval[hf]'")


def install(gguf: Path, folder: Path, *, name: str, source: str, licence: str, digest: str, say: Say) -> Path:
    """Convert `gguf` (sha256 `digest`) and put the result at `folder`. Hold the `room` of `name` around it.

    Raises:
        ModelError: transformers cannot read the file.
    """
    from robustify.models.convert import to_safetensors, versions  # torch: only where there is work for it

    say(f"{name}: converting to float32 safetensors, once (one to two minutes)")
    made = folder.parent / f".{name}.partial" / "made"
    made.mkdir()
    to_safetensors(gguf, made)
    files = {path.name: sha256(path) for path in sorted(made.iterdir())}
    write_record(made, Record(name, source, digest, files, licence, versions()))
    mark_seen(made, files)
    shutil.rmtree(folder, ignore_errors=True)  # a damaged one; a whole one is never replaced
    os.replace(made, folder)
    say(f"{name}: ready in {folder}")
    return folder
