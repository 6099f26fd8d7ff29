"""Remote model on the workers of a Ray cluster, and the connection to the cluster.

Workers compute units in any order. This process chooses the scoring path, sums, and writes the score cache. A
worker whose model or software differs is refused, because its scores would differ too.
"""

import logging
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustify import __version__
from robustify.base.errors import DISTRIBUTION, ModelError, ResourceError, first_line, installing
from robustify.models.engines.local.engine import recipe
from robustify.models.engines.local.paths import Pieces, Rows, Scored, Traits
from robustify.models.engines.plan import Encoded, Sections
from robustify.models.folder import check_folder
from robustify.models.model_settings import LOCAL, RayModel

if TYPE_CHECKING:
    from robustify.models.engines.local.model import Local

_LOG = logging.getLogger(__name__)
MOST = 3
"""Number of workers that may be lost while running the same part."""
_LONGEST = 40
"""Maximum length of the parent folder of Ray's sockets, whose full paths must be shorter than 108 characters."""
_PATIENCE = 20.0
"""Seconds to wait for a reply from the cluster, and for further workers after the first is ready."""
_SETTINGS = ("device", "dtype", "max_batch_tokens", "section", "threads")
"""Recipe entries that come from the config, so they are equal on all machines."""
Unit = tuple[str, tuple[Any, ...]]
"""Name of a method of `Local`, and its arguments."""


class Worker:
    """Copy of a model on a worker. It is opened by `hello`, or by the first unit of work if Ray has restarted the worker.
    `wanted` contains the recipe and the robustify version of the requesting machine."""

    def __init__(self, model: RayModel, folder: str, wanted: Mapping[str, str]) -> None:
        # Set this before torch is loaded, because torch reads it only once.
        os.environ["OMP_NUM_THREADS"] = str(model.threads)
        self._model, self._folder, self._wanted = model, Path(folder), wanted

    def hello(self) -> Traits:
        """Open the model and return its traits. Raise `ModelError` if it differs from the requested model."""
        return self._local.traits

    def work(self, number: int, method: str, arguments: tuple[Any, ...]) -> tuple[int, list[Any]]:
        """Run a method of `Local` on this worker. Return the number of the unit and the results."""
        return number, list(getattr(self._local, method)(*arguments))

    @cached_property
    def _local(self) -> "Local":
        from robustify.models.engines.local.model import Local

        place = f"{self._model.name}: worker on {socket.gethostname()}"
        if not self._folder.is_dir():
            raise ModelError(
                f"{place}: the model folder {self._folder} does not exist on this worker. Put it on a disk that all "
                "machines share, or copy it to the same path on each machine.",
                code="missing-worker-folder",
            )
        check_folder(self._folder)
        own = {**recipe(self._model, self._folder), "robustify": __version__}
        if differing := [n for n, v in self._wanted.items() if n not in _SETTINGS and own.get(n) != v]:
            raise ModelError(
                f"{place}: the files or versions differ from those of the requesting machine ({', '.join(differing)}). "
                "Use the same files and versions on all machines.",
                code="differing-worker",
            )
        return Local(self._folder, self._model.device, self._model.dtype, self._model.threads)


class Remote:
    """Copies of a model on `model.workers` Ray workers. The first request connects to the cluster. Raise `ModelError` if
    ray is not installed, or if a worker has another model or software or keeps getting lost. Raise `ResourceError` if there
    is no cluster, or the cluster has no room."""

    def __init__(self, model: RayModel, folder: Path, recipe_here: Mapping[str, str]) -> None:
        from robustify.models.engines.local.model import open_tokenizer

        self._model, self._folder, self._wanted = model, folder, {**recipe_here, "robustify": __version__}
        self._open = ExitStack()
        # The tokenizer is needed here, because workers receive tokens.
        self.tokenizer, self.max_length = open_tokenizer(folder)

    @property
    def traits(self) -> Traits:
        """Model properties that determine the scoring path."""
        return self._ready[1]

    def close(self) -> None:
        """Stop the workers, and also the cluster if it was started for them."""
        self._open.close()

    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]:
        """Return the token log-probabilities of each batch that is `needed`. Each section is one unit of work."""
        return self._results(
            [("section", unit) for unit in zip(sections, needed, strict=True) if any(unit[1])]
        )

    def rows(self, batches: Iterator[Rows]) -> Iterator[Scored]:
        """Return the scores of batches of plain rows. A unit of work has as many batches as a section."""
        units: list[Unit] = []
        while unit := list(islice(batches, self._model.section)):
            units.append(("rows", (unit,)))
        return self._results(units)

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """Return the summed log-probability of each request, scored one by one on one worker."""
        # If the worker is still busy with a unit, this waits for it.
        return list(self._results([("alone", (list(requests),))]))

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """Return one reply per tokenized prompt, in order."""
        return list(self._results([("replies", ([list(ids)], max_tokens)) for ids in prompts]))

    @cached_property
    def _ray(self) -> Any:
        return self._open.enter_context(cluster(self._model))

    @cached_property
    def _ready(self) -> tuple[list[Any], Traits]:
        """Workers that are ready, and the traits of the model as reported by the first worker."""
        model, ray = self._model, self._ray
        kind = ray.remote(
            num_cpus=model.threads,
            num_gpus=int(model.device.startswith("cuda")),
            scheduling_strategy="SPREAD",
            max_restarts=-1,
            max_task_retries=MOST - 1,
        )(Worker)
        arguments = (model, str(self._folder.resolve()), self._wanted)
        workers = [kind.remote(*arguments) for _ in range(model.workers)]
        self._open.callback(lambda: [ray.kill(worker, no_restart=True) for worker in workers])
        greetings = {worker.hello.remote(): worker for worker in workers}
        began = time.monotonic()
        ready, pending = ray.wait([*greetings], num_returns=1, timeout=model.start_seconds)
        if not ready:
            raise ResourceError(
                f"{model.name}: no worker was ready after {model.start_seconds:g} s. Use fewer threads per worker, a "
                "larger cluster, or a larger start_seconds.",
                code="no-ready-worker",
            )
        if pending:
            patience = time.monotonic() - began + _PATIENCE
            more, pending = ray.wait(pending, num_returns=len(pending), timeout=patience)
            ready += more
        with self._raising():
            traits: list[Traits] = [ray.get(ref) for ref in ready]
        if pending:
            counts = (model.name, len(ready), len(workers))
            _LOG.warning("%s: only %d of %d workers are ready; continuing with these", *counts)
        return [greetings[ref] for ref in ready], traits[0]

    def _results(self, units: Sequence[Unit]) -> Iterator[Any]:
        # Create a new pool each time, because an interrupted call leaves units in the old one.
        workers, _ = self._ready
        pool = self._ray.util.ActorPool(workers)
        for number, (method, arguments) in enumerate(units):
            pool.submit(lambda worker, unit: worker.work.remote(*unit), (number, method, arguments))
        finished: dict[int, list[Any]] = {}
        for number in range(len(units)):
            while number not in finished:
                with self._raising():
                    finished_number, results = pool.get_next_unordered()
                finished[finished_number] = results
            yield from finished.pop(number)

    @contextmanager
    def _raising(self) -> Iterator[None]:
        """Raise a worker's errors again in this process, and raise `ModelError` if workers are lost."""
        try:
            yield
        except self._ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", None) or error from None
        except self._ray.exceptions.RayError as error:
            raise ModelError(
                f"{self._model.name}: {MOST} workers in a row were lost while running the same part "
                f"({type(error).__name__}). Check that every machine has {DISTRIBUTION}[hf] and enough memory. Reduce "
                "max_batch_tokens or threads, or use larger machines. The logs of Ray show more details.",
                code="lost-workers",
            ) from None


def require_ray(name: str) -> Any:
    """Return the ray package. Raise `ModelError` if it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
        import ray.util
    except ImportError:
        raise ModelError(
            f"{name}: the ray engine needs the ray package, which is not installed. Run "
            f"{installing('hf,ray')}.",
            code="missing-package",
        ) from None
    return ray


@contextmanager
def cluster(model: RayModel) -> Iterator[Any]:
    """Connect to the Ray cluster of the model, or start a cluster (without a dashboard and statistics). Yield the ray
    package. Raise `ModelError` if ray is not installed, and `ResourceError` if there is no cluster."""
    ray = require_ray(model.name)
    if ray.is_initialized():
        yield ray
        return
    before = Path.cwd()
    with ExitStack() as folders:

        def make_folder(parent: str | None = None) -> str:
            folder = tempfile.TemporaryDirectory(prefix="rbray-", dir=parent, ignore_cleanup_errors=True)
            return folders.enter_context(folder)

        options: dict[str, Any] = {"address": model.address}
        if model.address in (None, LOCAL):
            # A restricted run writes nothing else outside its run folder. The folder's path must fit into socket names.
            parent = None if len(tempfile.gettempdir()) <= _LONGEST else os.path.join(os.sep, "tmp")
            options = {
                "address": LOCAL,
                # This may exceed the number of cores. Workers then share cores.
                "num_cpus": model.workers * model.threads,
                "num_gpus": None if model.device.startswith("cuda") else 0,
                "include_dashboard": False,
                "_temp_dir": make_folder(parent),
                # Requests must not be written to disk.
                "_system_config": {"automatic_object_spilling_enabled": False},
            }
        try:
            _check_listening(str(options["address"]))
            # Workers import from the folder where Ray starts before others. It may be a checkout of other authors.
            os.chdir(make_folder())
            ray.init(**options, log_to_driver=False, logging_level="ERROR")
        except (RuntimeError, OSError, ValueError) as error:
            raise ResourceError(
                f"{model.name}: no Ray cluster is running at {model.address or 'this machine'} "
                f"({type(error).__name__}: {first_line(error)}). Start one with `ray start --head`, or remove the address "
                "to start a temporary cluster.",
                code="no-ray-cluster",
            ) from None
        finally:
            os.chdir(before)
        try:
            yield ray
        finally:
            ray.shutdown()


def _check_listening(address: str) -> None:
    """Raise `OSError` immediately if nothing listens at this host and port, because Ray would retry for minutes."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
