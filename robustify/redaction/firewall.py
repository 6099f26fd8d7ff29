"""Say what may be said of an error that nobody foresaw: its kind and its place in the code, never its message.

26 of 40 common errors quote the value that failed, and that value may be the text of an item.
"""

import logging
import os
import re
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

from robustify.redaction import UNMUTED

MORE = "ROBUSTIFY_TRACEBACK"
"""Set to 1, every place on the way to a bug is printed. Places alone: it is safe for restricted sets."""
MOST_CHARS, MOST_WORDS = 120, 6
"""A value that is longer may be the text of an item, and is not shown."""
LONG_VALUES: set[str] = set()
"""Values of configs that may be text (see `withhold`); every message is printed without them."""
_PACKAGE = Path(__file__).resolve().parents[1]


def quieten_others() -> None:
    """Let warnings and log records of other libraries go nowhere, and our own records to `UNMUTED`."""
    warnings.simplefilter("ignore")
    ours = logging.getLogger("robustify")
    if not ours.handlers:
        logging.getLogger().addHandler(logging.NullHandler())
        ours.addHandler(handler := logging.StreamHandler(UNMUTED))
        handler.setFormatter(logging.Formatter("robustify: %(message)s"))
        ours.propagate = False


def bug_lines(error: BaseException) -> list[str]:
    """Return the kind and the place of an exception; under `ROBUSTIFY_TRACEBACK=1` every place on the way to it too."""
    frames = traceback.walk_tb(error.__traceback__)
    steps = [(Path(frame.f_code.co_filename), line) for frame, line in frames] or [(Path("nowhere"), 0)]
    ours = [step for step in steps if _PACKAGE in step[0].parents] or steps
    line = f"a bug in robustify ({_kind(error)} at {_place(*ours[-1])}; no details: they may hold item text)"
    shown = steps if os.environ.get(MORE, "0") not in ("", "0") else []
    return [line, *(f"  {_place(*step)}" for step in shown)]


def may_be_text(value: str) -> bool:
    """Return whether a value is so long that it could be the text of an item."""
    return len(value) > MOST_CHARS or len(value.split()) > MOST_WORDS


def withhold(tree: object) -> None:
    """Keep the long values and keys of a config out of every later message."""
    left, seen = [tree], set()
    while left:
        match one := left.pop():
            case str() if may_be_text(one):
                LONG_VALUES.add(one)
            # Aliases of YAML may make a tree that holds itself, or one branch many times.
            case Mapping() | list() | tuple() if id(one) not in seen:
                seen.add(id(one))
                left += [*one, *one.values()] if isinstance(one, Mapping) else one


def _kind(error: BaseException) -> str:
    # A class may be made at run time, and named by anything.
    name = type(error).__name__
    return name if re.fullmatch(r"[A-Za-z_]\w{0,79}", name, re.ASCII) else "an error"


def _place(file: Path, line: int) -> str:
    name = file.relative_to(_PACKAGE).as_posix() if _PACKAGE in file.parents else "/".join(file.parts[-2:])
    return f"{name if re.fullmatch(r'[A-Za-z0-9_./<>+-]{1,80}', name) else 'a file'}:{line}"
