"""From a local folder to a model in memory: what may be opened, where, in which precision.

It refuses pickled weights, custom code and missing tensors, and never asks a hub.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from robustify.errors import ModelError, UsageError

_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_UNKNOWN_LENGTH = 2048
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 2**30


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
        raise _cannot_load(folder, error) from None
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
    if n := len(told["missing_keys"]) + len(told["mismatched_keys"]):
        raise ModelError(
            f"{folder}: {n} tensors are missing or misshapen; expected all that the config names"
        )
    return tokenizer, model.to(device).eval()


def opened_tokenizer(folder: Path) -> tuple[Any, int]:
    """Only the tokenizer, and the model's context in tokens.

    Raises:
        ModelError: transformers cannot load them.
    """
    where = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **where)
        config = AutoConfig.from_pretrained(folder, **where)
    # As in `opened`: errors of many kinds, of one meaning.
    except Exception as error:
        raise _cannot_load(folder, error) from None
    return tokenizer, max_length(config, tokenizer)


def _cannot_load(folder: Path, error: Exception) -> ModelError:
    first = (str(error).splitlines() or [""])[0][:200]
    return ModelError(f"{folder}: transformers cannot load this model ({type(error).__name__}: {first})")


def max_length(config: Any, tokenizer: Any) -> int:
    """The model's context in tokens, found as lm-eval finds it (`resolve_max_length`)."""
    text = getattr(config, "text_config", None) or config
    for name in _LENGTHS:
        if (length := getattr(text, name, None)) is not None:
            return int(length)
    length = int(tokenizer.model_max_length)
    return length if length < 10**9 else _UNKNOWN_LENGTH


def device_of(name: str) -> torch.device:
    """The device of this name, if torch can use it here.

    Raises:
        UsageError: it cannot.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UsageError(
            f"device {name!r}: torch cannot use it here; expected cpu, cuda or another that torch has"
        ) from None
    return device


def keep_memory() -> None:
    """Let the C library keep the buffers that every layer frees, for the next layer to use.

    glibc gives them back to the system, which then clears them page by page again and again. Where there is no
    glibc nothing happens.
    """
    try:
        tune = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
        tune(option, _KEPT_BYTES)
