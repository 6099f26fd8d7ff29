"""Trials of commands: on one changed file in a forked process with a memory limit, and in odd surroundings.

Surroundings are closed outputs, no home, odd locales, or read-only folders.
"""

import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from bench.torture.runs import ENVIRONMENT, GIVE_UP, SAFE
from bench.torture.seeds import Seed, bytewise, structured
from robustify.base.files import sha256

CODES = frozenset({0, 2, 3, 4, 5, 6, 7})
"""Documented exit codes of an uninterrupted command; 1 is a bug."""
SECONDS = 10.0
"""Processor seconds that a command may use on a small file."""
MEMORY = 2 << 30
"""Bytes that a command may add to the forking process (torch maps much more than it uses)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken promise: the input and the failure; `draw` reproduces the input."""

    seed: str
    kind: str
    draw: int
    what: str


def _child(place: Path, arguments: tuple[str, ...], log: Path) -> None:
    """Run the command in this process and end the process."""
    from robustify import cli

    code = 1
    try:
        os.chdir(place)
        os.environ.update(SAFE, ROBUSTIFY_CACHE=str(place / ".cache"))
        to = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(to, 1)
        os.dup2(to, 2)
        # The forking process may have replaced these objects, as pytest does.
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        # A child that waits uses no processor time, so that only a clock ends it.
        signal.alarm(int(GIVE_UP))
        resource.setrlimit(resource.RLIMIT_CPU, (int(6 * SECONDS), int(6 * SECONDS) + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (4 * MEMORY, 4 * MEMORY))
        sys.argv = ["robustify", *arguments]
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _renew_digest(file: Path) -> None:
    """Write the digest of a changed file into the run.json beside it, so that the change is not refused for its digest."""
    manifest = file.with_name("run.json")
    if file != manifest and manifest.is_file():
        tree = json.loads(manifest.read_bytes())
        if file.name in tree["files"]:
            tree["files"][file.name] = sha256(file)
            manifest.unlink()  # it is a link
            manifest.write_text(json.dumps(tree))


def tried(seed: Seed, draw: int, kind: str) -> Fault | None:
    """Return the promise that a draw broke; None if every promise was kept.

    Promises: a documented exit code, never 1 and never a signal; no traceback; at most `SECONDS` of processor time and
    `MEMORY` more than before; an error has a message.
    """
    chance, path = random.Random(f"{seed.name} {kind} {draw}"), seed.home / seed.file
    try:
        is_bytes = kind == "bytes"
        data = bytewise(path.read_bytes(), chance) if is_bytes else structured(path, seed.form, chance)
    except (ValueError, OverflowError, TypeError, NotImplementedError):
        return None  # the change cannot be written in this form
    with tempfile.TemporaryDirectory(prefix="torture-") as made:
        place, log = Path(made) / "home", Path(made) / "log"
        # All other files are linked.
        shutil.copytree(seed.home, place, copy_function=os.link)
        (place / seed.file).unlink()
        (place / seed.file).write_bytes(data)
        if draw % 4:
            _renew_digest(place / seed.file)
        # Memory at the start of the child: the current pages, not the peak of this process.
        before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        child = os.fork()
        if child == 0:
            _child(place, seed.arguments, log)
        _, status, used = os.wait4(child, 0)
        said = log.read_bytes().decode(errors="replace") if log.exists() else ""
    seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 - before
    if os.WIFSIGNALED(status):
        fault: str | None = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    elif (broken := ended_badly(os.WEXITSTATUS(status), said)) or seconds > SECONDS:
        fault = broken or f"{seconds:.0f} processor seconds"
    else:
        fault = f"{memory >> 20} MiB more memory" if memory > MEMORY else None
    return Fault(seed.name, kind, draw, fault) if fault else None


def ended_badly(code: int, said: str) -> str | None:
    """Say what is wrong with the exit code and the words of a command, or return None."""
    if code not in CODES:
        return f"exit {code}: {said.strip().splitlines()[-1][:200] if said.strip() else 'no message'}"
    if "Traceback (most recent call last)" in said:
        return f"exit {code} with a traceback"
    return f"exit {code} without a message" if code not in (0, 7) and not said.strip() else None


def forking(workers: int) -> ProcessPoolExecutor:
    """Start processes that may fork: new ones, in which OpenMP has one thread.

    This process judged a run for its seeds, so its OpenMP has threads, and a child that it forks waits forever for them
    because a fork copies none. Arrow and BLAS start theirs anew.
    """
    os.environ.update(SAFE)
    return ProcessPoolExecutor(workers, get_context("spawn"), initializer=_imports)


def _imports() -> None:
    """Import the modules that every forked command needs, except torch, whose threads do not survive a fork."""
    for name in ("pandas", "pyarrow.parquet", "scipy.stats", "robustify.cli"):
        __import__(name)


COMMANDS = (
    "validate items.jsonl",
    "heuristics items.jsonl",
    "import samples_alpha.jsonl --data items.jsonl --name b -o out",
    "judge run -o out",
    "check run --json",
    "compare run other",
    "explain run i0",
    "gate notes.md",
    "--help",
)


@dataclass(frozen=True, slots=True)
class Surrounding:
    """How a command is started: shell redirection, changes of the environment (None: removed), a step in the child."""

    name: str
    redirect: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    before: Callable[[], None] | None = None
    read_only: bool = False


_small_files = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (2000, 2000))
_few_files = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (24, 24))


def _without_override() -> None:
    # Without this capability (PR_CAPBSET_DROP, CAP_DAC_OVERRIDE), permissions also apply to root.
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


SURROUNDINGS = (
    Surrounding("stdout closed", ">&-"),
    Surrounding("stdout full", ">/dev/full"),
    Surrounding("stderr closed", "2>&-"),
    Surrounding("stderr full", "2>/dev/full"),
    Surrounding("both closed", ">&- 2>&-"),
    Surrounding("stdin closed", "<&-"),
    Surrounding("reader gone", "| true"),
    Surrounding("no HOME", environment={"HOME": None}),
    Surrounding("HOME missing", environment={"HOME": "/nonexistent/home"}),
    Surrounding("no PATH", environment={"PATH": ""}),
    Surrounding("TMPDIR missing", environment={"TMPDIR": "/nonexistent/tmp"}),
    Surrounding("locale C", environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    Surrounding("ascii output", environment={"PYTHONIOENCODING": "ascii:strict"}),
    Surrounding("unknown locale", environment={"LC_ALL": "xx_YY.KOI8-R", "LANG": "xx"}),
    Surrounding("Turkish", environment={"LC_ALL": "tr_TR.UTF-8"}),
    Surrounding(
        "odd terminal", environment={"COLUMNS": "0", "LINES": "-1", "TERM": "none", "FORCE_COLOR": "1"}
    ),
    Surrounding("odd time zone", environment={"TZ": "Nowhere/None"}),
    Surrounding("files of 2,000 bytes", before=_small_files),
    Surrounding("24 open files", before=_few_files),
    Surrounding("read-only folder", before=_without_override, read_only=True),
)


def surrounded(home: Path, folder: Path) -> tuple[int, list[Fault]]:
    """Run every command in every surrounding on a copy of the seeds; return the number of runs and the faults."""
    faults = []
    for at, (place, line) in enumerate(product(SURROUNDINGS, COMMANDS)):
        here = folder / f"s{at}"
        shutil.copytree(home, here)
        if place.read_only:
            subprocess.run(["chmod", "-R", "a-w", here], check=True)
        if what := _broken(here, place, line):
            faults.append(Fault(f"{line}, {place.name}", "surroundings", at, what))
        subprocess.run(["chmod", "-R", "u+w", here], check=True)
        shutil.rmtree(here)
    return len(SURROUNDINGS) * len(COMMANDS), faults


def _broken(here: Path, place: Surrounding, line: str) -> str | None:
    environment = {**ENVIRONMENT, "ROBUSTIFY_CACHE": str(here / ".cache"), **place.environment}
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {sys.executable} -m robustify {line} {place.redirect}"],
        cwd=here,
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        check=False,
        preexec_fn=place.before,
    )
    # 141: the reader of the pipe closed it, as with every Unix tool. A message may have no place to go.
    code = 0 if done.returncode == 141 else done.returncode
    return ended_badly(code, (done.stdout + done.stderr).decode(errors="replace") or "nothing")
