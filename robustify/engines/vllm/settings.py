"""The settings of a model that is run here with vLLM, without a server."""

from typing import Literal

from pydantic import Field

from robustify.engines.settings import ModelSettings


class VLLMModel(ModelSettings):
    """A model run in this process with vLLM (`LLM(...)`), on one or more devices of this machine.

    `model`: as for the engine hf, a known name, a folder, a GGUF file or `hf:owner/name@revision`.
    `tensor_parallel_size`: devices that share it; `max_model_len`: of one prompt in tokens, the model's own where left
    out; `gpu_memory`: the share of each device's memory that is taken; `eager`: without compiled graphs.
    """

    engine: Literal["vllm"]
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    tensor_parallel_size: int = Field(default=1, ge=1, le=64, strict=True)
    max_model_len: int | None = Field(default=None, ge=64, strict=True)
    gpu_memory: float = Field(default=0.9, gt=0, le=1)
    eager: bool = False
