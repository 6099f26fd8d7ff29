"""Convert library errors raised while a model folder is loaded (damaged files or too little memory) to robustify errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from robustify.base.errors import ModelError, ResourceError, first_line


@contextmanager
def loading(folder: Path, library: str = "transformers") -> Iterator[None]:
    """Convert errors that occur while a model is loaded from the folder. Raise `ResourceError` if the model does not fit
    into memory, and `ModelError` for all other errors."""
    try:
        yield
    # transformers, tokenizers, and safetensors raise errors of many types, which all mean the same here.
    except Exception as error:
        if is_out_of_memory(error):
            size = sum(file.stat().st_size for file in folder.glob("*.safetensors")) >> 20
            raise ResourceError(
                f"{folder}: the model does not fit into memory; expected {size:,} MiB free for its weights. "
                "Use a smaller model, dtype bfloat16, or more memory.",
                code="model-out-of-memory",
            ) from None
        raise ModelError(
            f"{folder}: {library} cannot load this model ({type(error).__name__}: {first_line(error)})",
            code="unloadable-model",
        ) from None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that torch ran out of memory. On a CPU, only the message shows this."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        words in str(error).lower() for words in ("can't allocate memory", "cannot allocate memory")
    )
