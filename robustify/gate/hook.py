#!/usr/bin/env -S python3 -I
"""Run the gate as a Git hook of another repository. The script needs Python 3.10 and no installed packages.

Only this checkout is added to the import path, because the scanned repository and this folder may contain modules that
shadow the standard library. The option -I leaves out what PYTHONPATH names.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 (a hook runs under whatever python3 is)
        sys.exit("robustify gate: The hook needs Python 3.10 or later. Install it as python3.")
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)
    try:
        from robustify.gate.command import run_gate
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run_gate(sys.argv[1:]))
