"""`python -m robustify.gate`: the gate without the rest of robustify, for a start in a fraction of a second."""

import sys

from robustify.gate.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
