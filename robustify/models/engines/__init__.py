"""Inference engines, and the functions that check and open the models of a config."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from robustify.items.views import Template
from robustify.models.engines.protocols import Scorer
from robustify.models.model_settings import (
    HFModel,
    ModelSettings,
    OpenAIModel,
    RayModel,
    TransformersSettings,
    refuse_servers,
)

if TYPE_CHECKING:
    from robustify.models.engines.cache import Cache

M = TypeVar("M", bound=ModelSettings)
_FIRST_TRIES = 2
"""Maximum number of retries of the first contact, so that a wrong address is reported soon."""


@dataclass(frozen=True, slots=True)
class Engine(Generic[M]):
    """Engine of models with these settings.

    `check` checks that a model can be opened and supports templates, and returns what identifies it. `open` opens a model,
    whose finished scores are kept in a cache. Both get the cache folder, and import the code of the engine themselves, so
    that reading a config imports none.
    """

    settings: type[M]
    check: Callable[[M, Path, Sequence[Template]], dict[str, str]]
    open: Callable[[M, Path, "Cache | None"], AbstractContextManager[Scorer]]


def model_of(value: object) -> ModelSettings:
    """Parse a model's entry in a config into the settings of its engine. Raise `ValidationError` if it is invalid."""
    engine = value.get("engine") if isinstance(value, Mapping) else "hf"
    if engine not in ENGINES:
        unknown = PydanticCustomError("unknown_engine", f"unknown engine; expected {', '.join(ENGINES)}")
        raise ValidationError.from_exception_data(
            "model", [{"type": unknown, "loc": ("engine",), "input": None}]
        )
    settings: type[ModelSettings] = ENGINES[engine].settings
    return settings.model_validate(value)


def check_model(model: ModelSettings, cache: Path, templates: Sequence[Template] = ()) -> dict[str, str]:
    """Check that a model can be opened and supports the templates. Return properties that identify the model, such as
    digests of its files. Raise `UsageError` if its name or a view is not supported, `AuthorisationError` if its server or
    API key is forbidden, and `ModelError` if files, a package, or the server cannot be used."""
    return ENGINES[model.engine].check(model, cache, templates)


@contextmanager
def open_scorer(model: ModelSettings, cache: Path, seal: bytes | None = None) -> Iterator[Scorer]:
    """Open the engine of a model, and yield its scorer. Scores are cached, for a restricted set under the key `seal`. Raise
    `ModelError` if files or the package of the engine cannot be used."""
    from robustify.models.engines.cache import Cache

    engine = ENGINES[model.engine]
    if cache.is_dir() and not os.access(cache, os.W_OK):
        print(f"robustify: the cache folder {cache} is read-only, so scores are not cached", file=sys.stderr)
        with engine.open(model, cache, None) as scorer:
            yield scorer
        return
    with Cache(cache, seal) as scores, engine.open(model, cache, scores) as scorer:
        yield scorer


def _check_files(model: TransformersSettings, cache: Path, _: Sequence[Template]) -> dict[str, str]:
    from robustify.models.downloads import locate
    from robustify.models.folder import file_digests

    return file_digests(locate(model.reference, cache))


def _open_local(model: HFModel, cache: Path, scores: "Cache | None") -> AbstractContextManager[Scorer]:
    from robustify.models.downloads import locate
    from robustify.models.engines.local.engine import HF

    return HF(model, locate(model.reference, cache), scores)


def _check_ray(model: RayModel, cache: Path, templates: Sequence[Template]) -> dict[str, str]:
    from robustify.models.engines.ray_workers import require_ray

    if model.hosts:
        refuse_servers(model.name)
    require_ray(model.name)
    return _check_files(model, cache, templates)


def _open_ray(model: RayModel, cache: Path, scores: "Cache | None") -> AbstractContextManager[Scorer]:
    from robustify.models.downloads import locate
    from robustify.models.engines.local.engine import HF
    from robustify.models.engines.ray_workers import Remote

    folder = locate(model.reference, cache)
    return HF(model, folder, scores, elsewhere=partial(Remote, model, folder))


def _check_server(model: OpenAIModel, _: Path, templates: Sequence[Template]) -> dict[str, str]:
    from robustify.models.engines.openai.engine import OpenAIServer

    with OpenAIServer(model.model_copy(update={"retries": min(model.retries, _FIRST_TRIES)})) as server:
        server.capabilities.require(model.name, templates)
        return server.fingerprint()


def _open_server(model: OpenAIModel, _: Path, scores: "Cache | None") -> AbstractContextManager[Scorer]:
    from robustify.models.engines.openai.engine import OpenAIServer

    return OpenAIServer(model, scores)


ENGINES: dict[str, Engine[Any]] = {
    "hf": Engine(HFModel, _check_files, _open_local),
    "ray": Engine(RayModel, _check_ray, _open_ray),
    "openai": Engine(OpenAIModel, _check_server, _open_server),
}
"""Engines by the name that a config gives to them."""
