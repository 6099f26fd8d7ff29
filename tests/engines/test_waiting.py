"""Torch's threads sleep while they wait for one another, unless the user says otherwise."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_threads_do_not_spin_while_they_wait(given: str | None) -> None:
    env = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    env |= {"OMP_DISPLAY_ENV": "VERBOSE", **({} if given is None else {"OMP_WAIT_POLICY": given})}
    code = "import robustify.engines.local.vectors, torch"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    turns = [int(n) for n in re.findall(r"GOMP_SPINCOUNT\s*=\s*'(\d+)'", done.stderr)]
    if not turns:
        pytest.skip("this torch's OpenMP does not show its settings")
    assert (max(turns) == 0) is (given is None)
