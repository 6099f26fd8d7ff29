"""A model on the workers of a Ray cluster, behind the same seam as one in memory; and the cluster itself.

The paths are chosen and the totals summed here, as for a model in memory; workers compute units, which come back in
any order and are put in order. Only this process writes the score cache, so that a run is resumed as any other. The
cluster runs already, or is started on this machine and ended with us; statistics, dashboard and forwarded logs are off.
"""

import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

from robustify import __version__
from robustify.engines.cache import Cache
from robustify.engines.local.engine import HF
from robustify.engines.local.paths import Pieces, Rows, Scored, Traits
from robustify.engines.plan import Encoded, Sections
from robustify.engines.ray.workers import Spec, Worker
from robustify.engines.settings import LOCAL, RayModel
from robustify.errors import ModelError, ResourceError, first_line

_LOG = logging.getLogger(__name__)
MOST = 3
"""Workers that one unit may lose."""
_LONGEST = 40
"""Characters of the folder that Ray's sockets may lie under: with its own names a path must stay below 108."""
_PATIENCE = 20.0
"""Seconds that a cluster may take to answer, and that the other workers may begin after the first."""
Unit = tuple[str, tuple[Any, ...]]
"""The name of a method of `Local`, and what it is given."""


@contextmanager
def open_remote(model: RayModel, folder: Path, scores: Cache | None) -> Iterator[HF]:
    """Open the engine hf with its model on workers: the same recipe, the same cache, the same bits.
    Raises `ModelError`: the folder is refused."""
    with HF(
        model, folder, scores, n_threads=model.threads, elsewhere=partial(Remote, model, folder)
    ) as engine:
        yield engine


class Remote:
    """Copies of the model in this folder on `model.workers` workers; see `Work`. The first request joins the cluster.

    Raises:
        ModelError: ray is not installed; a worker's model, software or folder differs; workers keep being lost.
        ResourceError: no cluster, or no room on it.
    """

    def __init__(self, model: RayModel, folder: Path, recipe: Mapping[str, str]) -> None:
        from robustify.engines.local.model import opened_tokenizer

        self._model, self._folder, self._recipe = model, folder, recipe
        self._open = ExitStack()
        # Workers are given tokens.
        self.tokenizer, self.max_length = opened_tokenizer(folder)

    @property
    def traits(self) -> Traits:
        """What the first worker that is ready says of the model."""
        return self._ready[1]

    def close(self) -> None:
        """End the workers, and a cluster that was started for them."""
        self._open.close()

    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]:
        """See `Work`: a unit is a section."""
        numbers = [number for number, flags in enumerate(needed) if any(flags)]
        units = [("section", (sections[n], needed[n])) for n in numbers]
        for at, parts in self._done(units):
            yield numbers[at], [piece for pieces in parts for piece in pieces]

    def rows(self, batches: Iterator[Rows]) -> Iterator[Scored]:
        """See `Work`: a unit is as many batches as a section has."""
        units: list[Unit] = []
        while unit := list(islice(batches, self._model.section)):
            units.append(("rows", (unit,)))
        for _, parts in self._done(units):
            yield from parts

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """See `Work`."""
        # Of a worker that has a unit still, it waits for that one.
        (worker, *_), _ = self._ready
        with self._raising():
            totals: list[float] = self._ray.get(worker.work.remote(0, "alone", (list(requests),)))[1]
        return totals

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """See `Work`."""
        units = [("replies", ([list(ids)], max_tokens)) for ids in prompts]
        said = {at: reply for at, (reply,) in self._done(units)}
        return [said[at] for at in range(len(prompts))]

    @cached_property
    def _ray(self) -> Any:
        return self._open.enter_context(cluster(self._model))

    @cached_property
    def _ready(self) -> tuple[list[Any], Traits]:
        """The workers that are ready, and what they say of the model."""
        model, ray = self._model, self._ray
        spec = Spec(model, str(self._folder.resolve()), {**self._recipe, "robustify": __version__})
        kind = ray.remote(
            num_cpus=model.threads,
            num_gpus=model.gpus,
            scheduling_strategy="SPREAD",
            max_restarts=-1,
            max_task_retries=MOST - 1,
        )(Worker)
        workers = [kind.remote(spec) for _ in range(model.workers)]
        self._open.callback(lambda: [ray.kill(worker, no_restart=True) for worker in workers])
        greeting = {worker.hello.remote(): worker for worker in workers}
        began = time.monotonic()
        done, rest = ray.wait([*greeting], num_returns=1, timeout=model.start_seconds)
        if not done:
            raise ResourceError(
                f"{model.name}: no worker was ready after {model.start_seconds:g} s; expected room for one: fewer "
                "threads per worker, a larger cluster, or more start_seconds"
            )
        if rest:
            more, rest = ray.wait(rest, num_returns=len(rest), timeout=time.monotonic() - began + _PATIENCE)
            done += more
        with self._raising():
            said: list[Traits] = [ray.get(ref) for ref in done]
        if rest:
            _LOG.warning(
                "%s: %d of %d workers are ready; going on with these", model.name, len(done), len(workers)
            )
        return [greeting[ref] for ref in done], said[0]

    def _done(self, units: Sequence[Unit]) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number of each unit and its results, as they come."""
        # A new pool each time: a run that was broken off leaves units in the old one.
        workers, _ = self._ready
        pool = self._ray.util.ActorPool(workers)
        for number, (method, given) in enumerate(units):
            pool.submit(lambda worker, unit: worker.work.remote(*unit), (number, method, given))
        while pool.has_next():
            with self._raising():
                done: tuple[int, list[Any]] = pool.get_next_unordered()
            yield done

    @contextmanager
    def _raising(self) -> Iterator[None]:
        """Raise what a worker raised as if it had been raised here, and the loss of workers as `ModelError`."""
        try:
            yield
        except self._ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", None) or error from None
        except self._ray.exceptions.RayError as error:
            raise ModelError(
                f"{self._model.name}: one unit has lost {MOST} workers, one after the other ({type(error).__name__}); "
                "expected memory for it, and robustify[hf] on every machine: fewer max_batch_tokens or threads, or larger "
                "machines (Ray's own logs say more)"
            ) from None


def require_ray(name: str) -> Any:
    """Return the package. Raises `ModelError`: it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
        import ray.util
    except ImportError:
        raise ModelError(
            f"{name}: the engine ray needs the package ray, which is not installed; run "
            "pip install 'robustcbrn-eval[hf,ray]'"
        ) from None
    return ray


@contextmanager
def cluster(model: RayModel) -> Iterator[Any]:
    """Connect the package to the cluster that the model names; one that this process is connected to already stays.
    Raises `ModelError`: ray is not installed. `ResourceError`: no cluster there, or none can be started here."""
    ray = require_ray(model.name)
    if ray.is_initialized():
        yield ray
        return
    local = model.address in (None, LOCAL)
    with _started_here(model) if local else nullcontext({"address": model.address}) as options:
        try:
            _check_listening(str(options["address"]))
            ray.init(**options, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, OSError, ValueError, TimeoutError) as error:
            raise ResourceError(
                f"{model.name}: no Ray cluster at {model.address or 'this machine'} "
                f"({type(error).__name__}: {first_line(error)}); expected one that runs (ray start --head), or no address "
                "for one of its own"
            ) from None
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _started_here(model: RayModel) -> Iterator[dict[str, Any]]:
    """Yield the options of a cluster of this machine's own, whose private folder is gone on leaving.

    The folder is the usual temporary one, or the system's if that is too deep for the names of sockets. For a restricted
    run it is the only thing outside the run's folder.
    """
    usual = tempfile.gettempdir()
    folder = tempfile.mkdtemp(
        prefix="rbray-", dir=usual if len(usual) <= _LONGEST else os.path.join(os.sep, "tmp")
    )
    try:
        yield {
            "address": LOCAL,
            # As many as are asked for: more workers than cores share them.
            "num_cpus": model.workers * model.threads,
            "num_gpus": None if model.gpus else 0,
            "include_dashboard": False,
            "_temp_dir": folder,
            # Requests stay in memory.
            "_system_config": {"automatic_object_spilling_enabled": False},
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_listening(address: str) -> None:
    """Raise at once what Ray would try for minutes: nobody listens at this host and port."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
