"""Engines: the models a config may name, and how each is opened. One model is in memory at a time."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from robustify.engines.network import refuse_servers
from robustify.engines.protocols import Scorer
from robustify.engines.settings import HFModel, OpenAIModel, RayModel, host_of

if TYPE_CHECKING:
    from robustify.engines.cache import Cache
    from robustify.views import Template

Runnable = HFModel | OpenAIModel | RayModel
"""The models that are asked, each by its engine."""


def check_model(model: Runnable, cache: Path, templates: "Sequence[Template]" = ()) -> dict[str, str]:
    """Make sure that the model can be opened later and can serve these templates. Return what says which model it is.

    Raises:
        UsageError: an unknown name or form, or views that its server cannot serve.
        AuthorisationError: a server that may not be asked, or may not be sent this key.
        ModelError: files missing, damaged or refused, a package not installed, a server that cannot be trusted.
    """
    match model:
        case OpenAIModel():
            from robustify.engines.openai.engine import check_server

            return check_server(model, templates)
        case RayModel():
            from robustify.engines.ray.engine import require_ray

            if model.host is not None:
                refuse_servers(model.name)
            require_ray(model.name)
        case HFModel():
            pass
        case _:
            assert_never(model)
    from robustify.engines.recipe import file_digests
    from robustify.models import locate

    return file_digests(locate(model.reference, cache))


@contextmanager
def open_scorer(model: Runnable, cache: Path, seal: bytes | None = None) -> Iterator[Scorer]:
    """Open the engine of this model. `seal`: the key of a restricted set, under which its scores are kept.
    Raises `ModelError`: files missing, damaged or refused, or the engine's package not installed."""
    from robustify.models import locate

    with _scores(cache, seal) as scores:
        match model:
            case HFModel():
                from robustify.engines.local.engine import HF

                with HF(model, locate(model.reference, cache), scores) as local:
                    yield local
            case RayModel():
                from robustify.engines.ray.engine import open_remote

                with open_remote(model, locate(model.reference, cache), scores) as remote:
                    yield remote
            case OpenAIModel():
                from robustify.engines.openai.engine import OpenAIServer

                with OpenAIServer(model, scores) as server:
                    yield server
            case _:
                assert_never(model)


def remote_host(model: Runnable) -> str | None:
    """Return the host that the prompts of this model are sent to, or None if they stay on this machine."""
    match model:
        case HFModel():
            return None
        case RayModel():
            return model.host
        case OpenAIModel():
            return host_of(model.base_url)


@contextmanager
def _scores(folder: Path, seal: bytes | None = None) -> "Iterator[Cache | None]":
    from robustify.engines.cache import Cache

    if folder.is_dir() and not os.access(folder, os.W_OK):
        print(f"robustify: {folder} is read-only: scores are not kept", file=sys.stderr)
        yield None
        return
    with Cache(folder) if seal is None else Cache(folder, seal=seal) as scores:
        yield scores
