"""What a process must be before it holds sensitive text: offline, without crash dumps, with private files only.

Set before the engines are imported, because the libraries read these variables once, when they are loaded.
"""

import contextlib
import ctypes
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from robustify.errors import ResourceError
from robustify.restricted.keys import kept_from_children

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
PROXIES = tuple(
    name
    for kind in ("http", "https", "all", "ws", "wss")
    for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY")
)
"""Variables that would send what goes to a permitted host through another one. They are out of the environment of a
restricted run, and of its children."""
TEMPORARY = ".run-tmp-"
"""Begins the name of the folder, in the run's own, where everything temporary lies and nothing stays."""
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


@contextlib.contextmanager
def confined(folder: Path) -> Iterator[None]:
    """No network for model hubs, no proxy, no key in the environment, no crash dumps, files for their owner alone,
    temporary ones inside `folder`.

    The folder is made (0700) if it is not there, and is gone again if nothing was left in it. On leaving everything
    is as before, but for the limit on dumps.

    Raises:
        ResourceError: the folder cannot be written.
    """
    folder = folder.resolve()
    with kept_from_children():
        yield from _confined(folder)


def _confined(folder: Path) -> Iterator[None]:
    mask = os.umask(0o077)
    changed = (*OFFLINE, "TMPDIR", *PROXIES)
    before, temporary = {name: os.environ.get(name) for name in changed}, tempfile.tempdir
    was_there = folder.is_dir()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    dumpable = _dumpable(0)
    try:
        tempfile.tempdir = str(_temporary(folder))
        os.environ.update({**OFFLINE, "TMPDIR": tempfile.tempdir})
        for name in PROXIES:
            os.environ.pop(name, None)
        yield
    finally:
        shutil.rmtree(folder / f"{TEMPORARY}{os.getpid()}", ignore_errors=True)
        if not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()
        _dumpable(dumpable)
        tempfile.tempdir = temporary
        os.umask(mask)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _temporary(folder: Path) -> Path:
    """A fresh folder for this process; what killed runs left behind is removed."""
    place = folder / f"{TEMPORARY}{os.getpid()}"
    try:
        for left in folder.glob(f"{TEMPORARY}*"):
            if left == place or not _alive(left.name.removeprefix(TEMPORARY)):
                shutil.rmtree(left, ignore_errors=True)
        place.mkdir(parents=True)
    except OSError as error:
        raise ResourceError(
            f"{folder}: cannot be written ({error.strerror}); expected a folder of yours (-o DIR)"
        ) from None
    return place


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _dumpable(value: int) -> int:
    """A limit of 0 does not stop a dump that is piped to a program (systemd, apport); this does, on Linux. What was set
    before."""
    try:
        call = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return value
    before = int(call(_PR_GET_DUMPABLE, 0, 0, 0, 0))
    call(_PR_SET_DUMPABLE, value, 0, 0, 0)
    return before
