"""The settings of a model that is run in this process with transformers."""

from typing import Literal

from pydantic import Field

from robustify.engines.settings import TransformersSettings


class HFModel(TransformersSettings):
    """A model run here with transformers.

    `model` is a known name (`robustify models list`), `hf:owner/name@revision`, a folder or a GGUF file;
    `role` says whether it votes in the screen or is only evaluated. `max_batch_tokens` bounds one forward pass;
    without it 2,048 tokens on a CPU and 8,192 elsewhere. `section`: batches after which a shared beginning is computed
    anew, as in the engine ray, whose numbers are the same to the bit where this is the same.
    """

    engine: Literal["hf"] = "hf"
    section: int = Field(default=64, ge=1, le=4096, strict=True)
