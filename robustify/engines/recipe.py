"""What a model's numbers depend on, known without opening the model: files, precision, software, batch size."""

import hashlib
import os
from importlib.metadata import version
from pathlib import Path

from robustify.engines.plan import SECTION
from robustify.engines.settings import TransformersSettings
from robustify.models.folder import digests

VERSION = "hf-2"
"""Of the engine: another one is another recipe, whose scores are kept apart."""
_WEIGHTS = (".safetensors",)
_TOKENIZER = ("tokenizer", "vocab", "merges", "special_tokens", "chat_template", "added_tokens")


def recipe(model: TransformersSettings, folder: Path, n_threads: int | None = None) -> dict[str, str]:
    """Return everything by name that a change of the numbers of this model in this folder would have to come from."""
    return {
        "engine": VERSION,
        **file_digests(folder),
        "dtype": model.dtype,
        "device": model.device,
        "threads": str(n_threads or threads()),
        "max_batch_tokens": str(model.budget),
        # Left out where it is as it always was: caches of that time stay good.
        **({"section": str(model.section)} if model.section != SECTION else {}),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def near(dtype: str) -> float:
    """Return how far two computations of one log-probability may be apart, in nats: wrong attention is off by whole
    nats, float32 in other batches by less than a thousandth, half precision wanders by tenths."""
    return 1e-3 if dtype == "float32" else 1.0


def drift(n_tokens: int) -> float:
    """Return the factor of `near` for a sum over so many tokens: errors of 32 tokens and more add up. (A float32 model of
    270 M parameters: 0.003 nats over 278 tokens, computed in another batch.)"""
    return max(1.0, n_tokens / 32)


def threads() -> int:
    """Return the number of cores for this process, unless OMP_NUM_THREADS says otherwise."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdigit() and int(value):
        return int(value)
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1


def file_digests(folder: Path) -> dict[str, str]:
    """Return one digest each for weights, config and tokenizer: everything in the folder that numbers depend on."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    known = digests(
        folder, [n for n in names if n.endswith(_WEIGHTS) or n.startswith(("config.json", *_TOKENIZER))]
    )
    return {
        "weights": _joint({n: d for n, d in known.items() if n.endswith(_WEIGHTS)}),
        "config": known["config.json"],
        "tokenizer": _joint({n: d for n, d in known.items() if n.startswith(_TOKENIZER)}),
    }


def _joint(files: dict[str, str]) -> str:
    if len(files) == 1:
        return next(iter(files.values()))
    return hashlib.sha256("".join(f"{name} {files[name]}\n" for name in sorted(files)).encode()).hexdigest()
