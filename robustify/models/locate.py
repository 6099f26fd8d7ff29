"""From a model's reference to a local folder that is safe to load, and what is known about each model.

It fetches nothing from the package registry: a missing embedded model is an error that names the command. A hub
model is taken from the local hub cache, else from the hub, safetensors and tokenizer only.
"""

from pathlib import Path
from typing import Any

from robustify.errors import ModelError
from robustify.models.folder import LOCAL_GGUF, RECORD, check_folder, digests, read_record
from robustify.models.names import KNOWN, Folder, Gguf, Hub, Known, known, parse_reference
from robustify.models.pull import Say, install, models_folder

# What a model needs, and nothing that could be run: no *.py, no pickles.
_HUB_FILES = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "vocab.txt", "*.jinja"]


def locate(reference: str, cache: Path, say: Say = lambda _: None) -> Path:
    """The folder of a model, checked: safetensors, no custom code, digests as recorded.

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
                    f"model {named.name}: not in {folder.parent}; run: robustify models pull {named.name}"
                )
        case Hub():
            folder = _snapshot(named)
        case Gguf():
            folder = _converted(named.path, cache, say)
        case Folder():
            folder = named.path
    check_folder(folder)
    return folder


def info(name: str, cache: Path) -> dict[str, Any]:
    """What is known about an embedded model: source, licence and terms, and the digests of its files if it is here.

    Raises:
        UsageError: no embedded model has this name.
        ModelError: its record is damaged.
    """
    model = known(name)
    folder = models_folder(cache) / model.name
    record = read_record(folder)
    return {
        **_row(model, cache),
        "title": model.title,
        "source": model.source,
        "terms": model.terms,
        "folder": str(folder),
        "files": record.files if record else None,
        "converted_with": record.converted_with if record else None,
    }


def listing(cache: Path) -> list[dict[str, Any]]:
    """The embedded models: name, licence, whether they are here, bytes on disk, digest of the GGUF file."""
    return [_row(model, cache) for model in KNOWN.values()]


def _row(model: Known, cache: Path) -> dict[str, Any]:
    folder = models_folder(cache) / model.name
    present = (folder / RECORD).is_file()
    return {
        "name": model.name,
        "licence": model.licence,
        "present": present,
        "bytes": sum(p.stat().st_size for p in folder.iterdir()) if present else None,
        "gguf_sha256": model.sha256,
    }


def _converted(gguf: Path, cache: Path, say: Say) -> Path:
    digest = digests(gguf.parent, [gguf.name])[gguf.name]
    return install(
        f"gguf-{digest[:16]}",
        cache,
        lambda folder: (folder / RECORD).is_file(),
        lambda _: gguf,
        source=LOCAL_GGUF,
        licence="unknown",
        digest=digest,
        say=say,
    )


def _snapshot(hub: Hub) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as e:
        raise ModelError(f"hf:{hub.repo}: needs {e.name}; pip install 'robustcbrn-eval[hf]'") from e
    wanted: dict[str, Any] = {"revision": hub.revision, "allow_patterns": _HUB_FILES}
    try:
        return Path(snapshot_download(hub.repo, local_files_only=True, **wanted))
    except LocalEntryNotFoundError:
        pass  # not here yet: ask the hub
    try:
        return Path(snapshot_download(hub.repo, **wanted))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as e:
        raise ModelError(
            f"hf:{hub.repo}@{hub.revision}: not in the local hub cache, and the hub gave no answer"
            f" ({type(e).__name__}); fetch it on a machine with network, or name a local folder"
        ) from e
