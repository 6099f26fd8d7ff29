"""Files of results/: parts are measured by name and written one by one, with what says when and where."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

from robustify.base.errors import RobustifyError
from robustify.base.files import write_json
from robustify.base.processor import processor_words

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
Tree = dict[str, Any]


def read(path: Path) -> Tree:
    """Return the content of a file of results, or nothing if it does not exist."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def measure(
    path: Path | None,
    parts: Mapping[str, Callable[[], Tree]],
    names: Sequence[str],
    stamp: Callable[[], Tree] = dict,
) -> int:
    """Run the named parts, or all, and write each into a file at once, whose other parts stay. Return an exit code.

    `stamp` gives fields of the whole file, such as the machine. Without a path, the parts are only printed.
    """
    if unknown := set(names) - set(parts):
        print(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(parts)}", file=sys.stderr)
        return 2
    for name in names or parts:
        found = {name: parts[name]()}
        if path is None:
            print(json.dumps(found), flush=True)
        else:
            write_json(path, read(path) | found | stamp())
            print(f"{name}: measured", file=sys.stderr)
    return 0


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Print why a part is left out, instead of raising, if its files are missing or unreadable."""
    try:
        yield
    except RobustifyError as error:
        print(f"{name}: left out: {error.lines[0]}", file=sys.stderr)


def measured(command: Sequence[str], look: Callable[[int], None] | None = None, **how: Any) -> Tree:
    """Run a command, and return its exit code, wall and processor seconds, peak memory in MiB, the load before it, and
    whether the processor has AVX-512.

    Children that it waits for count. Memory is that of all its processes together. `look` gets the process ID five times a
    second.
    """
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start, load, together = time.monotonic(), os.getloadavg()[0], 0
    process = subprocess.Popen(command, **{**quiet, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, **how})
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        together = max(together, _mib_of_all(process.pid))
        if look is not None:
            look(process.pid)
        time.sleep(0.2)
    _, status, used = ended
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        # A child inherits the peak of this process, so it is used only if the system tells no other.
        "peak_mib": together or used.ru_maxrss // 1024,
        "load_before": round(load, 2),
        "avx512": has_avx512(),
    }


def _mib_of_all(process: int) -> int:
    """Return the memory of a process and its descendants in MiB, with what they share counted once, or the peak of the
    largest one, if that is more. It is 0 if the system does not tell."""
    own, shared, peak, left = 0, 0, 0, [process]
    with suppress(OSError, KeyError):
        while left:
            folder = Path("/proc", str(left.pop()))
            for thread in (folder / "task").iterdir():
                left += map(int, (thread / "children").read_text().split())
            lines = (line.split() for line in (folder / "status").read_text().splitlines())
            kib = {words[0]: int(words[1]) for words in lines if words[0] in ("VmHWM:", "VmRSS:", "RssFile:")}
            own, shared = own + kib["VmRSS:"] - kib["RssFile:"], max(shared, kib["RssFile:"])
            peak = max(peak, kib["VmHWM:"])
    return max(own + shared, peak) >> 10


def has_avx512() -> bool:
    """Return whether the processor has AVX-512, with which the encoder takes about a quarter of the time."""
    return "avx512f" in processor_words()


def publish(path: Path, found: Tree) -> None:
    """Write a file of results with six significant digits."""
    write_json(path, rounded(found))


def rounded(value: Any) -> Any:
    """Return a tree with six significant digits."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {name: rounded(one) for name, one in value.items()}
        case list() | tuple():
            return [rounded(one) for one in value]
    return value


def commit() -> str:
    """Return the short hash of the commit that is measured."""
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()


def machine() -> Tree:
    """Return the number of cores, the version of Python, and the date."""
    cores, today = len(os.sched_getaffinity(0)), date.today().isoformat()
    return {"cores": cores, "python": platform.python_version(), "date": today}
