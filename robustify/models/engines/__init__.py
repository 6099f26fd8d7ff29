"""Inference engines and the functions that check and open the models of a config."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from robustify.items.views import Template
from robustify.models.engines.protocols import Scorer
from robustify.models.engines.settings import HFModel, ModelSettings, OpenAIModel, RayModel

ENGINES: dict[str, type[ModelSettings]] = {"hf": HFModel, "ray": RayModel, "openai": OpenAIModel}
"""Settings of a model by the name of its engine. They import the engine when they check or open a model."""


def model_of(value: object) -> ModelSettings:
    """Parse a model's entry in a config into the settings of its engine. Raise `ValidationError` if they are invalid."""
    engine = value.get("engine") if isinstance(value, Mapping) else "hf"
    if engine not in ENGINES:
        unknown = PydanticCustomError("unknown_engine", f"unknown engine; expected {', '.join(ENGINES)}")
        raise ValidationError.from_exception_data(
            "model", [{"type": unknown, "loc": ("engine",), "input": None}]
        )
    return ENGINES[engine].model_validate(value)


def check_model(model: ModelSettings, cache: Path, templates: Sequence[Template] = ()) -> dict[str, str]:
    """Check that a model can be opened and supports the templates. Return what identifies it, such as digests of its files.
    Raise `UsageError` if its name or a view is not supported, `AuthorisationError` if its server or API key is forbidden,
    and `ModelError` if files, a package, or the server cannot be used."""
    return model.check(cache, templates)


@contextmanager
def open_scorer(model: ModelSettings, cache: Path, seal: bytes | None = None) -> Iterator[Scorer]:
    """Open the engine of a model and yield its scorer. Scores are cached, under `seal` if it is given, the key of a
    restricted set. Raise `ModelError` if files or the package of the engine cannot be used."""
    from robustify.models.engines.cache import Cache

    if cache.is_dir() and not os.access(cache, os.W_OK):
        print(f"robustify: the cache folder {cache} is read-only, so scores are not cached", file=sys.stderr)
        with model.open(cache, None) as scorer:
            yield scorer
        return
    with Cache(cache, seal) as scores, model.open(cache, scores) as scorer:
        yield scorer
