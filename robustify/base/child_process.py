"""Run Python modules in separate processes that import nothing from the current folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

_START = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[1]); module = sys.argv[2]; del sys.argv[1:3]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
"""Start of a module under an import path that is given. Python 3.10 has no other way (`-P`) that keeps the path."""


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a Python module. The process ignores variables such as PYTHONPATH, and imports nothing
    from the current folder."""
    here, own = os.path.realpath(os.curdir), str(Path(__file__).resolve().parents[2])
    path = json.dumps([p for p in (*sys.path, own) if here == own or os.path.realpath(p) != here])
    return [sys.executable, "-I", "-c", _START, path, name, *arguments]


def run_module(name: str, *arguments: str, folder: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a Python module in `folder`, or in the current folder. Nothing is imported from the current folder, because it
    may be another author's checkout. If `folder` is given, paths in the arguments must be absolute."""
    return subprocess.run(
        module_command(name, *arguments),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
