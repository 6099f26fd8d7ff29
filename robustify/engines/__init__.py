"""Engines: the models a config may name, and how each is opened. One model is in memory at a time."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from robustify.engines.openai import settings as openai_model
from robustify.engines.openai.settings import Asked, OpenAIModel
from robustify.engines.protocols import Scorer
from robustify.engines.ray.settings import RayModel, cluster_host
from robustify.engines.vllm.settings import VLLMModel

if TYPE_CHECKING:
    from robustify.engines.cache import Cache


class HFModel(BaseModel):
    """A model run here with transformers.

    `model` is a known name (`robustify models list`), `hf:owner/name@revision`, a folder or a GGUF file;
    `role` says whether it votes in the screen or is only evaluated. `max_batch_tokens` bounds one forward pass;
    without it 2,048 tokens on a CPU and 8,192 elsewhere. `section`: batches after which a shared beginning is computed
    anew, as in the engine ray, whose numbers are the same to the bit where this is the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    engine: Literal["hf"] = "hf"
    model: str = ""
    role: Literal["voter", "under_test"] = "voter"
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_batch_tokens: int | None = Field(default=None, ge=64)
    section: int = Field(default=64, ge=1, le=4096, strict=True)

    @property
    def budget(self) -> int:
        """Tokens of one forward pass."""
        return self.max_batch_tokens or (2048 if self.device == "cpu" else 8192)

    @property
    def reference(self) -> str:
        """What `robustify.models` looks up."""
        return self.model or self.name


Runnable = HFModel | OpenAIModel | VLLMModel | RayModel
"""The models that are asked, each by its engine."""


def check_model(model: Runnable, cache: Path, told: Sequence[Asked] = ()) -> dict[str, str]:
    """Make sure that the model can be opened later and can serve these templates: its name is known and its files are
    here and whole, or its server answers and scores.

    What says which model it is, by which two names for one model are found.

    Raises:
        UsageError: an unknown name or form, or views that its server cannot serve.
        ModelError: files missing, damaged or refused, a package not installed, a server that cannot be trusted.
    """
    match model:
        case HFModel():
            return _files(model.reference, cache)
        case VLLMModel():
            from robustify.engines.vllm.engine import require_vllm

            require_vllm(model.name)
            return _files(model.reference, cache)
        case RayModel():
            from robustify.engines.ray.cluster import require_ray

            require_ray(model.name)
            return _files(model.reference, cache)
        case OpenAIModel():
            from robustify.engines.openai.engine import check_server

            return check_server(model, cache, told)


@contextmanager
def open_scorer(model: Runnable, cache: Path, seal: bytes | None = None) -> Iterator[Scorer]:
    """The engine of this model, ready to score; its memory is given back on leaving.

    `seal`: the key of a restricted set, under which its scores are kept.

    Raises:
        ModelError: files missing, damaged or refused, or the engine's package not installed.
    """
    with _scores(cache, seal) as scores:
        match model:
            case HFModel():
                from robustify.engines.local.hf import HF
                from robustify.models import locate

                folder = locate(model.reference, cache)
                with HF(
                    model.name, folder, model.device, model.dtype, model.budget, scores, section=model.section
                ) as local:
                    yield local
            case RayModel():
                from robustify.engines.ray.engine import open_remote
                from robustify.models import locate

                with open_remote(model, locate(model.reference, cache), scores) as remote:
                    yield remote
            case VLLMModel():
                from robustify.engines.vllm.engine import VLLM
                from robustify.models import locate

                with VLLM(model, locate(model.reference, cache), scores) as offline:
                    yield offline
            case OpenAIModel():
                from robustify.engines.openai.engine import OpenAIServer

                with OpenAIServer(model, cache, scores) as server:
                    yield server


def remote_host(model: Runnable) -> str | None:
    """The host that the prompts of this model are sent to; None where they stay on this machine."""
    match model:
        case HFModel() | VLLMModel():
            return None
        case RayModel():
            return cluster_host(model)
        case OpenAIModel():
            return openai_model.remote_host(model.base_url)


def _files(reference: str, cache: Path) -> dict[str, str]:
    from robustify.engines.recipe import file_digests
    from robustify.models import locate

    return file_digests(locate(reference, cache))


@contextmanager
def _scores(folder: Path, seal: bytes | None = None) -> "Iterator[Cache | None]":
    from robustify.engines.cache import Cache

    if folder.is_dir() and not os.access(folder, os.W_OK):
        print(f"robustify: {folder} is read-only: scores are not kept", file=sys.stderr)
        yield None
        return
    with Cache(folder) if seal is None else Cache(folder, seal=seal) as scores:
        yield scores
