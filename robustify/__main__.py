"""Entry point of `python -m robustify` and of the command `robustify`."""

import os
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    # `python -m` puts the current folder first, whose json.py is not Python's.
    _own, _here = os.path.realpath(f"{__file__}/../.."), os.path.realpath(sys.path[0] or "/")
    sys.path[:] = [folder for folder in sys.path if _own == _here or os.path.realpath(folder or "/") != _here]

try:
    from robustify import cli
except KeyboardInterrupt:
    # Only `cli.main` can say so in a line.
    sys.exit(130)

main = cli.main

if __name__ == "__main__":
    main()
