"""Commands in odd surroundings: closed outputs, no home, odd locales, read-only folders."""

import ctypes
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

from bench.torture.runs import ENVIRONMENT
from bench.torture.trial import Fault, ended_badly

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
