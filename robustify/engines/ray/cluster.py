"""A Ray cluster: one that runs already, or one that is started on this machine and ended with us.

Usage statistics, the dashboard and the forwarding of logs are off.
"""

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from robustify.engines.ray.settings import LOCAL, RayModel
from robustify.errors import ModelError, ResourceError

_LONGEST = 40
"""Characters of the folder that Ray's sockets may lie under: with its own names a path must stay below 108."""
_PREFIX = "rbray-"
_PATIENCE = 20.0
"""Seconds that a cluster may take to answer."""


def require_ray(name: str) -> Any:
    """The package.

    Raises:
        ModelError: it is not installed.
    """
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
        with suppress(OSError):
            status = left.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and _ended(process):
                shutil.rmtree(left, ignore_errors=True)


def _ended(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OverflowError, PermissionError):
        return False
    return False


def _answers(address: str) -> None:
    """Raise at once what Ray would try for minutes: nobody listens at this host and port."""
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _join(ray: Any, model: RayModel, options: dict[str, Any]) -> None:
    try:
        _answers(str(options["address"]))
        ray.init(**options, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, OSError, ValueError, TimeoutError) as error:
        said = (str(error).splitlines() or [""])[0][:200]
        raise ResourceError(
            f"{model.name}: no Ray cluster at {model.address or 'this machine'} ({type(error).__name__}: {said}); "
            "expected one that runs (ray start --head), or no address for one of its own"
        ) from None
