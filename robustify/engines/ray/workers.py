"""Ray worker that keeps one model in memory and computes units of work.

A worker refuses to work if its model or software differs from that of the requesting machine, because its scores would
differ too. If a worker is lost (killed, out of memory, machine down), Ray restarts it and runs its unit again.
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
"""Recipe entries that come from the config, so they are equal on all machines."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Model that a worker opens. `wanted` contains the recipe and the robustify version of the requesting machine."""

    model: RayModel
    folder: str
    wanted: Mapping[str, str]


class Worker:
    """Copy of a model, opened by `hello`, or by the first unit if Ray has restarted the worker."""

    def __init__(self, spec: Spec) -> None:
        # Set this before torch is loaded, because torch reads it only once.
        os.environ["OMP_NUM_THREADS"] = str(spec.model.threads)
        self._spec = spec
        self._local: Local | None = None

    def hello(self) -> Traits:
        """Open the model and return its traits, or raise `ModelError` if it differs from the requested one."""
        return self._opened().traits

    def work(self, number: int, method: str, given: tuple[Any, ...]) -> tuple[int, list[Any]]:
        """Return the number of this unit and the results of the given method of `Local`."""
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
            f"{where}: the model folder {folder} does not exist on this worker. Put it on a disk that all machines "
            "share, or copy it to the same path on each machine."
        )
    check_folder(folder)
    here = {**recipe(spec.model, folder, spec.model.threads), "robustify": robustify.__version__}
    other = [n for n, v in spec.wanted.items() if n not in _SETTINGS and here.get(n) != v]
    if other:
        raise ModelError(
            f"{where}: the files or versions differ from those of the requesting machine ({', '.join(other)}). Use "
            "the same files and versions on all machines."
        )
