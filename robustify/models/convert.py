"""GGUF to safetensors, once: the weights are dequantised to float32 and saved with their tokenizer.

It runs transformers' own reader and refuses custom code. It imports torch, so only `pull` and `locate` load it,
and only when there is something to convert.
"""

import importlib.metadata
import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging as transformers_logging

from robustify.errors import ModelError

_PARTS = ("gguf", "safetensors", "tokenizers", "torch", "transformers")


def to_safetensors(gguf: Path, folder: Path) -> None:
    """Write model.safetensors (float32), config.json and the tokenizer's files into `folder`.

    Raises:
        ModelError: transformers cannot read this GGUF file.
    """
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        with redirect_stderr(io.StringIO()):  # progress bars that no setting of transformers silences
            _convert(gguf, folder)
    except Exception as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise  # the disk, not the file
        first = (str(e).splitlines() or [""])[0][:200]
        raise ModelError(
            f"{gguf.name}: transformers cannot convert this GGUF file ({type(e).__name__}: {first})"
        ) from None
    finally:
        transformers_logging.set_verbosity(level)


def versions() -> dict[str, str]:
    """The versions of what the conversion depends on."""
    return {name: importlib.metadata.version(name) for name in _PARTS}


def _convert(gguf: Path, folder: Path) -> None:
    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **where
    )
    model.save_pretrained(folder)
    del model
    AutoTokenizer.from_pretrained(gguf.parent, **where).save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)
