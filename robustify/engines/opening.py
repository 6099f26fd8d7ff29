"""From a local folder to a model in memory: what may be opened, where, in which precision.

It refuses pickled weights, custom code and missing tensors, and never asks a hub.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from robustify.errors import ModelError, UsageError
from robustify.models.folder import digests

_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_UNKNOWN_LENGTH = 2048
_WEIGHTS = (".safetensors",)
_TOKENIZER = ("tokenizer", "vocab", "merges", "special_tokens", "chat_template", "added_tokens")


def opened(folder: Path, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    """Tokenizer and model, ready to score.

    Raises:
        ModelError: transformers cannot load the folder, or tensors that the config names are missing.
    """
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    where = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **where)
        model, told = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **where
        )
    # transformers, tokenizers and safetensors raise many kinds of error; all mean the same here.
    except Exception as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise ModelError(
            f"{folder}: transformers cannot load this model ({type(error).__name__}: {first})"
        ) from error
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
    if n := len(told["missing_keys"]) + len(told["mismatched_keys"]):
        raise ModelError(
            f"{folder}: {n} tensors are missing or misshapen; expected all that the config names"
        )
    return tokenizer, model.to(device).eval()


def max_length(config: Any, tokenizer: Any) -> int:
    """The model's context in tokens, found as lm-eval finds it (`resolve_max_length`)."""
    text = getattr(config, "text_config", None) or config
    for name in _LENGTHS:
        if (length := getattr(text, name, None)) is not None:
            return int(length)
    length = int(tokenizer.model_max_length)
    return length if length < 10**9 else _UNKNOWN_LENGTH


def dtype_of(name: str) -> torch.dtype:
    """The precision of this name.

    Raises:
        UsageError: another name than float32, bfloat16 and float16.
    """
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise UsageError(f"dtype {name!r}: expected one of {', '.join(known)}")
    return known[name]


def device_of(name: str) -> torch.device:
    """The device of this name, if torch can use it here.

    Raises:
        UsageError: it cannot.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"device {name!r}: torch cannot use it here; expected cpu, cuda or another that torch has"
        ) from error
    return device


def use_all_cores() -> None:
    """As many threads as there are cores for this process, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ:
        able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        torch.set_num_threads(able or 1)


def file_digests(folder: Path) -> dict[str, str]:
    """One digest each for weights, config and tokenizer: everything in the folder that numbers depend on."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    found = digests(
        folder, [n for n in names if n.endswith(_WEIGHTS) or n.startswith(("config.json", *_TOKENIZER))]
    )
    return {
        "weights": _joint({n: d for n, d in found.items() if n.endswith(_WEIGHTS)}),
        "config": found["config.json"],
        "tokenizer": _joint({n: d for n, d in found.items() if n.startswith(_TOKENIZER)}),
    }


def _joint(files: dict[str, str]) -> str:
    if len(files) == 1:
        return next(iter(files.values()))
    return hashlib.sha256("".join(f"{name} {files[name]}\n" for name in sorted(files)).encode()).hexdigest()
