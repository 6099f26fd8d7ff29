"""A model on the workers of a Ray cluster, behind the same seam as one in memory; and the cluster itself.

The paths are chosen and the totals summed here, as for a model in memory; workers compute units, which come back in
any order and are put in theirs. Only this process writes the score cache, so that a run is resumed as any other. The
cluster runs already, or is started on this machine and ended with us; statistics, dashboard and forwarded logs are off.
"""

import logging
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

from robustify.engines.cache import Cache
from robustify.engines.local.engine import HF
from robustify.engines.local.paths import Pieces, Scored, Together, Traits
from robustify.engines.plan import Encoded, Plan
from robustify.engines.ray.workers import RESTARTS, Hello, Pool, Spec, Task, Worker
from robustify.engines.settings import LOCAL, RayModel
from robustify.errors import ModelError, ResourceError, first_line

_LOG = logging.getLogger(__name__)
_LONGEST = 40
"""Characters of the folder that Ray's sockets may lie under: with its own names a path must stay below 108."""
_PREFIX = "rbray-"
_PATIENCE = 20.0
"""Seconds that a cluster may take to answer."""


@contextmanager
def open_remote(model: RayModel, folder: Path, scores: Cache | None) -> Iterator[HF]:
    """The engine hf with its model on workers: the same recipe, the same cache, the same bits.
    Raises `ModelError`: the folder is refused."""
    with HF(
        model.name,
        folder,
        model.device,
        model.dtype,
        model.budget,
        scores,
        section=model.section,
        n_threads=model.threads,
        elsewhere=partial(Remote, model, folder),
    ) as engine:
        yield engine


class Remote:
    """Copies of the model in this folder on `model.workers` workers; see `Work`. The cluster is joined with the first
    request.

    Raises:
        ModelError: ray is not installed; a worker's model, software or folder differs; workers keep being lost.
        ResourceError: no cluster, or no room on it.
    """

    def __init__(self, model: RayModel, folder: Path, recipe: Mapping[str, str]) -> None:
        self._model, self._folder, self._recipe = model, folder, recipe
        self._open = ExitStack()

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, here: workers are given tokens."""
        return self._tokenizer[0]

    @property
    def max_length(self) -> int:
        """The model's context in tokens."""
        return self._tokenizer[1]

    @cached_property
    def traits(self) -> Traits:
        """What the first worker that is ready says of the model."""
        first: Hello = self._pool.ready()
        return first.traits

    def close(self) -> None:
        """End the workers, and a cluster that was started for them."""
        self._open.close()

    def trees(self, planned: Plan, needed: Sequence[bool], budget: int) -> Iterator[Pieces]:
        """See `Work`: a unit is a section."""
        flags = iter(needed)
        wanted = [[next(flags) for _ in section] for section in planned.sections]
        numbers = [number for number, section in enumerate(wanted) if any(section)]
        units = [("section", (planned.sections[n], wanted[n], budget)) for n in numbers]
        for at, pieces in self._pool.run(units):
            yield numbers[at], pieces

    def prefixes(self, batches: Iterator[Together]) -> Iterator[Scored]:
        """See `Work`: a unit is as many batches as a section has."""
        yield from self._in_units("prefixes", batches)

    def rows(self, batches: Iterator[Together]) -> Iterator[Scored]:
        """See `Work`: a unit is as many batches as a section has."""
        yield from self._in_units("rows", batches)

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """See `Work`."""
        totals: list[float] = self._pool.call(("alone", (list(requests),)))
        return totals

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """See `Work`."""
        units: list[Task] = [("replies", ([list(ids)], max_tokens)) for ids in prompts]
        said: dict[int, str] = {at: reply for at, [reply] in self._pool.run(units)}
        return [said[at] for at in range(len(prompts))]

    @cached_property
    def _tokenizer(self) -> tuple[Any, int]:
        from robustify.engines.local.model import opened_tokenizer

        return opened_tokenizer(self._folder)

    @cached_property
    def _pool(self) -> Pool:
        model = self._model
        ray = self._open.enter_context(cluster(model))
        folder, recipe = str(self._folder.resolve()), dict(self._recipe)
        spec = Spec(model.name, folder, model.device, model.dtype, model.threads, recipe)
        kind = ray.remote(
            num_cpus=model.threads, num_gpus=model.gpus, scheduling_strategy="SPREAD", **RESTARTS
        )(Worker)
        workers = [kind.remote(spec) for _ in range(model.workers)]
        pool = Pool(ray, workers, self._check_processors, model.name, model.start_seconds)
        self._open.callback(pool.close)
        return pool

    def _check_processors(self, ready: Sequence[Hello]) -> None:
        *before, last = [hello.processor for hello in ready]
        if before and last not in before:
            _LOG.warning(
                "%s: workers have unlike processors (%s): the last bits of a number depend on which one computed it",
                self._model.name, ", ".join(sorted({*before, last})),
            )  # fmt: skip

    def _in_units(self, method: str, batches: Iterator[Together]) -> Iterator[Scored]:
        units: list[Task] = []
        while unit := list(islice(batches, self._model.section)):
            units.append((method, (unit,)))
        yield from (scored for _, scored in self._pool.run(units))


def require_ray(name: str) -> Any:
    """The package. Raises `ModelError`: it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError:
        raise ModelError(
            f"{name}: the engine ray needs the package ray, which is not installed; run "
            "pip install 'robustcbrn-eval[hf,ray]'"
        ) from None
    return ray


@contextmanager
def cluster(model: RayModel) -> Iterator[Any]:
    """The package, connected to the cluster that the model names.

    A cluster that this process is connected to already is taken as it is, and stays.

    Raises:
        ModelError: ray is not installed.
        ResourceError: no cluster at this address, or none can be started here.
    """
    ray = require_ray(model.name)
    if ray.is_initialized():
        yield ray
        return
    local = model.address in (None, LOCAL)
    with _started_here(model) if local else nullcontext({"address": model.address}) as options:
        _join(ray, model, options)
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _started_here(model: RayModel) -> Iterator[dict[str, Any]]:
    """The options of a cluster of this machine's own; its folder is gone on leaving."""
    place = _short_place()
    _sweep(Path(place))
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
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


def _short_place() -> str:
    """A temporary folder with room for the names of sockets: the usual one, or the system's where that is deep.

    What is made there is its owner's alone (0700). Of a restricted run it is the one thing outside the run's folder.
    """
    usual = tempfile.gettempdir()
    return usual if len(usual) <= _LONGEST else os.path.join(os.sep, "tmp")


def _sweep(place: Path) -> None:
    """Remove what killed runs of ours left there: folders of this user and of a process that is no more."""
    for left in place.glob(f"{_PREFIX}*-*"):
        process = left.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError, ValueError, OverflowError):
            status = left.lstat()
            try:
                os.kill(int(process), 0)
            except ProcessLookupError:
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    shutil.rmtree(left, ignore_errors=True)


def _join(ray: Any, model: RayModel, options: dict[str, Any]) -> None:
    try:
        _check_listening(str(options["address"]))
        ray.init(**options, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, OSError, ValueError, TimeoutError) as error:
        raise ResourceError(
            f"{model.name}: no Ray cluster at {model.address or 'this machine'} "
            f"({type(error).__name__}: {first_line(error)}); expected one that runs (ray start --head), or no address "
            "for one of its own"
        ) from None


def _check_listening(address: str) -> None:
    """Raise at once what Ray would try for minutes: nobody listens at this host and port."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
