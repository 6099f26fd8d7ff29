"""The tokenizer of a model that runs in another program: from a model's folder, without its weights.

It is loaded by transformers once and then kept as the local engine keeps its own, so that a warm run imports nothing.
"""

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from robustify.engines.tokens import Saved, Speller, Transformers, save
from robustify.errors import ModelError
from robustify.models import locate
from robustify.models.folder import digests

_FILES = ("tokenizer", "vocab", "merges", "special_tokens", "added_tokens")
_NO_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Spelling:
    """A tokenizer and the digest of its files."""

    speller: Speller
    digest: str


def spelling(reference: str, cache: Path | None) -> Spelling:
    """The tokenizer of a known name, a folder or `hf:owner/name@revision`; without a cache, of a folder.

    Raises:
        ModelError: it is not there or cannot be loaded, or transformers is not installed.
    """
    folder = Path(reference) if Path(reference).is_dir() or cache is None else locate(reference, cache)
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.name.startswith(_FILES))
    if not names:
        raise ModelError(f"{folder}: holds no tokenizer; expected tokenizer.json or the like")
    found = digests(folder, names)
    digest = hashlib.sha256("".join(f"{name} {found[name]}\n" for name in names).encode()).hexdigest()
    try:
        told = f"{digest} transformers {version('transformers')}"
    except PackageNotFoundError:
        raise ModelError(
            f"tokenizer {reference}: needs transformers: pip install 'robustcbrn-eval[hf]', or leave out `tokenizer`"
        ) from None
    if cache is None:
        return Spelling(Transformers(_loaded(folder)), digest)
    place = cache / "tokenizers" / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"
    return Spelling(_saved(place) or _kept(folder, place), digest)


def _saved(place: Path) -> Speller | None:
    if not place.is_file():
        return None
    try:
        return Saved(place)
    # A damaged file is made again; the tokenizers library raises plain exceptions.
    except Exception:
        place.unlink(missing_ok=True)
        return None


def _kept(folder: Path, place: Path) -> Speller:
    tokenizer = _loaded(folder)
    save(tokenizer, _NO_LENGTH, place)
    return Transformers(tokenizer)


def _loaded(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # transformers and tokenizers raise many kinds of error; all mean the same here.
    except Exception as error:
        raise ModelError(
            f"{folder}: transformers cannot load its tokenizer ({type(error).__name__}); expected a model's folder"
        ) from error
