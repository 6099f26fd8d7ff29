"""Recipe of a model: the files, precision, software, and batch size that its scores depend on.

A recipe is known without opening the model.
"""

import hashlib
import os
from importlib.metadata import version
from pathlib import Path

from robustify.models.engines.plan import SECTION
from robustify.models.engines.settings import TransformersSettings
from robustify.models.folder import digests

VERSION = "hf-2"
"""Version of the engine. It is part of the recipe, so each version has separate scores."""
_TOKENIZER = ("tokenizer", "vocab", "merges", "special_tokens", "chat_template", "added_tokens")


def recipe(model: TransformersSettings, folder: Path) -> dict[str, str]:
    """Return the recipe of a model in a folder. If its scores change, at least one value of the recipe has changed."""
    return {
        "engine": VERSION,
        **file_digests(folder),
        "dtype": model.dtype,
        "device": model.device,
        "threads": str(getattr(model, "threads", None) or threads()),
        "max_batch_tokens": str(model.budget),
        # The default is left out, so that older caches remain valid.
        **({"section": str(model.section)} if model.section != SECTION else {}),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def tolerance(dtype: str, n_tokens: int) -> float:
    """Return the allowed difference in nats between two computations of a sum of `n_tokens` log-probabilities.
    Wrong attention differs by several nats, float32 in other batches by less than 0.001, and half precision by tenths.
    Errors accumulate beyond 32 tokens: a float32 model of 270 M parameters differed by 0.003 nats over 278 tokens."""
    return (1e-3 if dtype == "float32" else 1.0) * max(1.0, n_tokens / 32)


def threads() -> int:
    """Return the number of cores available to this process, or OMP_NUM_THREADS if it is set."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdigit() and int(value):
        return int(value)
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1


def file_digests(folder: Path) -> dict[str, str]:
    """Return the digests of weights, config, and tokenizer: all files in the folder that scores depend on."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    weights = [name for name in names if name.endswith(".safetensors")]
    tokenizer = [name for name in names if name.startswith(_TOKENIZER)]
    known = digests(folder, {*weights, *tokenizer, "config.json"})
    return {
        "weights": _joint({name: known[name] for name in weights}),
        "config": known["config.json"],
        "tokenizer": _joint({name: known[name] for name in tokenizer}),
    }


def _joint(files: dict[str, str]) -> str:
    """Return one digest for several files: the only one, or that of the list of names and digests."""
    listed = "".join(f"{name} {digest}\n" for name, digest in files.items())
    return next(iter(files.values())) if len(files) == 1 else hashlib.sha256(listed.encode()).hexdigest()
