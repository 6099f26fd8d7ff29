"""Inference engines and the functions that check and open the models of a config.

Only one model is in memory at a time.
"""

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
"""Configured models that an engine can run."""


def check_model(model: Runnable, cache: Path, templates: "Sequence[Template]" = ()) -> dict[str, str]:
    """Check that a model can be opened and supports the given templates.

    Return a mapping that identifies the model, for example the digests of its files.

    Raises:
        UsageError: the name or its form is unknown, or the server does not support a view.
        AuthorisationError: the server is forbidden, or must not receive this API key.
        ModelError: files are missing, damaged, or refused, a package is not installed, or the server cannot be trusted.
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
    """Open the engine of a model and yield its scorer.
    If `seal` is given, it is the key of a restricted set, and the scores are cached under it. Raise `ModelError` if files
    are missing, damaged, or refused, or the package of the engine is not installed."""
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
    """Return the host that receives the prompts of this model, or None if the prompts stay on this machine."""
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
        print(f"robustify: the cache folder {folder} is read-only, so scores are not cached", file=sys.stderr)
        yield None
        return
    with Cache(folder) if seal is None else Cache(folder, seal=seal) as scores:
        yield scores
