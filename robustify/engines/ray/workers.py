"""What runs on a worker of a Ray cluster: one model in memory, and units of work for it.

A worker whose model or software differs from that of the machine that asks refuses to work, because its numbers would
differ too. Ray starts a lost worker again (killed, out of memory, its machine gone) and runs its unit there again.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import robustify
from robustify.engines.local.paths import Traits
from robustify.engines.settings import RayModel
from robustify.errors import ModelError

if TYPE_CHECKING:
    from robustify.engines.local.model import Local

_SETTINGS = ("device", "dtype", "max_batch_tokens", "section", "threads")
"""Parts of a recipe that the config sets, and so equal everywhere."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker opens: `wanted` is the recipe of the machine that asks, and its robustify."""

    model: RayModel
    folder: str
    wanted: Mapping[str, str]


class Worker:
    """One copy of a model, opened by `hello` or, if Ray has started the worker again, by the first unit."""

    def __init__(self, spec: Spec) -> None:
        # Before torch is loaded, which reads it once.
        os.environ["OMP_NUM_THREADS"] = str(spec.model.threads)
        self._spec = spec
        self._local: Local | None = None

    def hello(self) -> Traits:
        """Open the model. Raises `ModelError`: it is not the model that is wanted."""
        return self._opened().traits

    def work(self, number: int, method: str, given: tuple[Any, ...]) -> tuple[int, list[Any]]:
        """Return the number of this unit and the results of a method of `Local`."""
        return number, list(getattr(self._opened(), method)(*given))

    def _opened(self) -> "Local":
        if self._local is None:
            from robustify.engines.local.model import Local

            _check(self._spec)
            model = self._spec.model
            self._local = Local(Path(self._spec.folder), model.device, model.dtype, model.threads)
        return self._local


def _check(spec: Spec) -> None:
    from robustify.engines.recipe import recipe
    from robustify.models.folder import check_folder

    where = f"{spec.model.name}: worker on {socket.gethostname()}"
    folder = Path(spec.folder)
    if not folder.is_dir():
        raise ModelError(
            f"{where}: has no folder {folder}; expected the model there, as on the machine that asks: put it on "
            "a disk that all machines see, or copy it to the same folder on each"
        )
    check_folder(folder)
    here = {**recipe(spec.model, folder, spec.model.threads), "robustify": robustify.__version__}
    other = [n for n, v in spec.wanted.items() if n not in _SETTINGS and here.get(n) != v]
    if other:
        raise ModelError(
            f"{where}: differs in {', '.join(other)}; expected the same files and versions as on the machine "
            "that asks"
        )
