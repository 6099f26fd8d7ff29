"""Other Python modules, run in processes of their own that import nothing from the current folder."""

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


def run_module(name: str, *arguments: str, folder: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a Python module in a folder, ignoring variables such as PYTHONPATH. It imports nothing from the current folder,
    which may be a checkout of other authors. In another folder than the current one, paths must be absolute."""
    here, own = os.path.realpath(os.curdir), str(Path(__file__).resolve().parents[2])
    path = json.dumps([p for p in (*sys.path, own) if here == own or os.path.realpath(p) != here])
    command = [sys.executable, "-I", "-c", _START, path, name, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
