#!/usr/bin/env python3
"""The gate as a script, for hooks of other repositories: it needs a Python 3.10 and nothing installed.

Only this checkout is put on the path: neither the scanned repository nor this folder, whose names could hide a
module of the standard library.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 (a hook runs under whatever python3 is)
        sys.exit("robustify gate: this Python is too old for the hook; expected 3.10 or later as python3")
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)
    from robustify.gate.command import main

    sys.exit(main(sys.argv[1:]))
