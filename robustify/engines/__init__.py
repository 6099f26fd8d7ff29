"""Engines: the models a config may name, and how each is opened. One model is in memory at a time."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from robustify.engines.base import Scorer

if TYPE_CHECKING:
    from robustify.engines.cache import Cache


class HFModel(BaseModel):
    """A model run here with transformers.

    `model` is a known name (`robustify models list`), `hf:owner/name@revision`, a folder or a GGUF file;
    `role` says whether it votes in the screen or is only evaluated. `max_batch_tokens` bounds one forward pass;
    without it 2,048 tokens on a CPU and 8,192 elsewhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    engine: Literal["hf"] = "hf"
    model: str = ""
    role: Literal["voter", "under_test"] = "voter"
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_batch_tokens: int | None = Field(default=None, ge=64)

    @property
    def budget(self) -> int:
        """Tokens of one forward pass."""
        return self.max_batch_tokens or (2048 if self.device == "cpu" else 8192)

    @property
    def reference(self) -> str:
        """What `robustify.models` looks up."""
        return self.model or self.name


def check_model(model: HFModel, cache: Path) -> dict[str, str]:
    """Make sure that the model can be opened later: its name is known and its files are here and whole.

    The digests of its files, by which two names for one model are found.

    Raises:
        UsageError: an unknown name or form.
        ModelError: files missing, damaged or refused.
    """
    from robustify.engines.recipe import file_digests
    from robustify.models import locate

    return file_digests(locate(model.reference, cache))


@contextmanager
def open_scorer(model: HFModel, cache: Path) -> Iterator[Scorer]:
    """The engine of this model, ready to score; its memory is given back on leaving.

    Raises:
        ModelError: files missing, damaged or refused, or the engine's package not installed.
    """
    from robustify.engines.hf import HF
    from robustify.models import locate

    folder = locate(model.reference, cache)
    with (
        _scores(cache) as scores,
        HF(model.name, folder, model.device, model.dtype, model.budget, scores) as scorer,
    ):
        yield scorer


@contextmanager
def _scores(folder: Path) -> "Iterator[Cache | None]":
    from robustify.engines.cache import Cache

    if folder.is_dir() and not os.access(folder, os.W_OK):
        print(f"robustify: {folder} is read-only: scores are not kept", file=sys.stderr)
        yield None
        return
    with Cache(folder) as scores:
        yield scores
