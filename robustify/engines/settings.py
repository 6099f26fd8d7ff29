"""What the settings of the engines that take a model's files have in common."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class ModelSettings(BaseModel):
    """A model that is loaded from its files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN)
    engine: str
    model: str = ""
    role: Literal["voter", "under_test"] = "voter"

    @property
    def reference(self) -> str:
        """What `robustify.models` looks up."""
        return self.model or self.name


class TransformersSettings(ModelSettings):
    """A model that is run with transformers, in this process or in others."""

    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_batch_tokens: int | None = Field(default=None, ge=64)
    section: int

    @property
    def budget(self) -> int:
        """Tokens of one forward pass."""
        return self.max_batch_tokens or (2048 if self.device == "cpu" else 8192)
