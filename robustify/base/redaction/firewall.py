"""Reports of unexpected errors without their message, and suppression of other libraries' output.

Of 40 common errors, 26 quote the failing value, which may be the text of an item. A report therefore gives only the type of
the error and its location in the code.
"""

import logging
import os
import re
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

from robustify.base.redaction import UNMUTED

MORE = "ROBUSTIFY_TRACEBACK"
"""If set to 1, every code location on the way to a bug is printed. Locations are safe for restricted sets."""
MOST_CHARS, MOST_WORDS = 120, 6
"""Maximum number of characters and words in a value that is shown. A longer value may be the text of an item."""
LONG_VALUES: set[str] = set()
"""Values of configs that may be text. Every message is printed without them."""
_PACKAGE = Path(__file__).resolve().parents[2]


def quieten_others() -> None:
    """Discard warnings and log records of other libraries, and send robustify's records to `UNMUTED`."""
    warnings.simplefilter("ignore")
    ours = logging.getLogger("robustify")
    if not ours.handlers:
        logging.getLogger().addHandler(logging.NullHandler())
        ours.addHandler(handler := logging.StreamHandler(UNMUTED))
        handler.setFormatter(logging.Formatter("robustify: %(message)s"))
        ours.propagate = False


def bug_lines(error: BaseException) -> list[str]:
    """Describe an exception by its type and location. `ROBUSTIFY_TRACEBACK=1` adds the locations of its callers."""
    frames = traceback.walk_tb(error.__traceback__)
    steps = [(Path(frame.f_code.co_filename), line) for frame, line in frames] or [(Path("nowhere"), 0)]
    ours = [step for step in steps if _PACKAGE in step[0].parents] or steps
    line = f"a bug in robustify ({_kind(error)} at {_place(*ours[-1])}; details omitted: they may contain item text)"
    shown = steps if os.environ.get(MORE, "0") not in ("", "0") else []
    return [line, *(f"  {_place(*step)}" for step in shown)]


def may_be_text(value: str) -> bool:
    """Return whether a value is long enough to be the text of an item."""
    return len(value) > MOST_CHARS or len(value.split()) > MOST_WORDS


def withhold(tree: object) -> None:
    """Exclude the long values and keys of a config from all later messages."""
    waiting, seen = [tree], set()
    while waiting:
        match branch := waiting.pop():
            case str() if may_be_text(branch):
                LONG_VALUES.add(branch)
            # With YAML aliases, a tree may contain itself, or one branch many times.
            case Mapping() | list() | tuple() if id(branch) not in seen:
                seen.add(id(branch))
                waiting += [*branch, *branch.values()] if isinstance(branch, Mapping) else branch


def _kind(error: BaseException) -> str:
    # A class created at run time may have any name.
    name = type(error).__name__
    return name if re.fullmatch(r"[A-Za-z_]\w{0,79}", name, re.ASCII) else "an error"


def _place(file: Path, line: int) -> str:
    name = file.relative_to(_PACKAGE).as_posix() if _PACKAGE in file.parents else "/".join(file.parts[-2:])
    return f"{name if re.fullmatch(r'[A-Za-z0-9_./<>+-]{1,80}', name) else 'a file'}:{line}"
