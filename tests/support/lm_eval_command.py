"""The command line of real lm-eval in a process of its own, which finds the tasks of `--include_path` only.

To index the tasks that lm-eval ships takes it seven processor seconds.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = """
import functools
from lm_eval.tasks import TaskManager
TaskManager.__init__ = functools.partialmethod(TaskManager.__init__, include_defaults=False)
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
"""


def run_lm_eval(
    python: str | None, arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> None:
    """Call `lm_eval run` of this Python in a folder, with these arguments, which contain no spaces."""
    command = [str(python), "-c", _PROGRAM, "run", *arguments.split()]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
