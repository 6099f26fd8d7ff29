"""The error firewall: nothing that goes wrong, in our code or anybody's, may print the text of an item.

What an exception, a warning or a log record of another library says is never shown: 26 of 40 common errors quote the
value that failed. Shown are kinds and places in the code (`ValueError at screen.py:212`), which are about the code
alone, and a number by which the same bug is found again. It cannot keep a library from sending text over a network.
"""

import logging
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from robustify.redaction import UNMUTED

MORE = "ROBUSTIFY_TRACEBACK"
"""Set to 1, every place in the code on the way to a bug is printed. Places alone: it is safe for restricted sets."""
WITHHELD = "message withheld: it may hold item text"
MOST_CHARS, MOST_WORDS = 120, 6
"""A value that is longer may be the text of an item, and is not shown."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BEFORE: list[tuple[object, str, object]] = []
LONG_VALUES: set[str] = set()
"""Values of configs that may be text (see `withhold`); every message is printed without them."""


def install() -> None:
    """Put the hooks of this process in place, for good: a process that has read items may fail as late as it ends."""
    if _BEFORE:
        return
    for owner, name, ours in (
        (sys, "excepthook", _uncaught),
        (sys, "unraisablehook", _unraisable),
        (threading, "excepthook", _in_thread),
        (warnings, "formatwarning", _warning),
        (logging, "raiseExceptions", False),
        (logging, "lastResort", _LastResort()),
        # All that prints tracebacks (workers of multiprocessing, asyncio, loggers) goes through this method.
        (traceback.TracebackException, "format_exception_only", _kind_alone),
    ):
        _BEFORE.append((owner, name, getattr(owner, name)))
        setattr(owner, name, ours)
    _BEFORE.append((logging, "_logRecordFactory", logging.getLogRecordFactory()))
    logging.setLogRecordFactory(_record)
    no_core_dumps()


def remove() -> None:
    """Take the hooks away again: for tests that run commands in their own process."""
    while _BEFORE:
        owner, name, before = _BEFORE.pop()
        setattr(owner, name, before)


def bug_lines(error: BaseException, what: str = "a bug in robustify") -> list[str]:
    """What may be said of an exception that nobody foresaw: its kind, its place and a number; never its message.

    With `ROBUSTIFY_TRACEBACK=1` the places on the way to it follow, one a line.
    """
    where, number = _place(error), incident(error)
    lines = [f"{what} ({_kind(error)} at {where}, incident {number}; no details: they may hold item text)"]
    if os.environ.get(MORE, "0") not in ("", "0"):
        lines += [f"  {step}" for step in _steps(error)]
    return lines


def incident(error: BaseException) -> str:
    """Six hex digits that the same bug in the same code has wherever it happens."""
    from hashlib import sha256

    return sha256("\n".join(_steps(error)).encode("utf-8", "replace")).hexdigest()[:6]


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


def may_be_text(value: str) -> bool:
    """Whether a value is so long that it could be the text of an item."""
    return len(value) > MOST_CHARS or len(value.split()) > MOST_WORDS


class _LastResort(logging.Handler):
    """Where records go that no handler of their own takes: one line on `UNMUTED`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage())


def _say(*lines: str) -> None:
    # A terminal that is gone must not turn a message into a second error.
    with suppress(OSError, ValueError):
        for line in lines:
            UNMUTED.write(f"robustify: {line}\n")
        UNMUTED.flush()


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        _say("interrupted; run the same command again")
    else:
        _say(*bug_lines(error))


def _in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and args.exc_type is not SystemExit:
        _say(*bug_lines(args.exc_value, "a bug in a thread"))


def _unraisable(args: Any) -> None:
    if args.exc_value is not None:
        _say(*bug_lines(args.exc_value, "an error while something was cleared away"))


def _warning(
    message: object, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"robustify: {_word(category.__name__)} at {_short(filename)}:{lineno} ({WITHHELD})\n"


def _record(
    name: str, level: int, path: str, line: int, msg: object, args: Any, exc_info: Any, *more: Any, **named: Any
) -> logging.LogRecord:  # fmt: skip
    """Records of others keep their level, logger and place; ours keep short values and kinds besides."""
    own = name.partition(".")[0] == "robustify"
    if own:
        args = tuple(_plain(arg) for arg in args) if isinstance(args, tuple) else ()
    else:
        msg, args = f"{logging.getLevelName(level)} of {name} at {_short(path)}:{line} ({WITHHELD})", ()
    return logging.LogRecord(name, level, path, line, msg, args, None)


def _plain(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, BaseException):
        return _kind(value)
    text = str(value)
    return "<long value>" if may_be_text(text) else "".join(c if c.isprintable() else "?" for c in text)


def _kind_alone(self: traceback.TracebackException, *_: Any, **__: Any) -> Iterator[str]:
    # Python 3.13 keeps the name of the kind alone, older versions the kind.
    kind = getattr(self, "exc_type_str", None) or getattr(self.exc_type, "__name__", "")
    yield f"{_word(str(kind))} ({WITHHELD})\n"


def _kind(error: BaseException) -> str:
    return _word(type(error).__name__)


def _word(name: str, instead: str = "an error") -> str:
    # A class or a function may be made at run time, and named by anything.
    return name if re.fullmatch(r"[A-Za-z_<][\w.<>]{0,79}", name, re.ASCII) else instead


def _place(error: BaseException) -> str:
    """The innermost place in our own code, else the innermost of all."""
    steps = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [step for step in steps if os.path.abspath(step[0]).startswith(_PACKAGE + os.sep)]
    file, line = (own or steps or [("nowhere", 0)])[-1]
    return f"{_short(file)}:{line}"


def _steps(error: BaseException) -> list[str]:
    """Kinds and places of an exception and of those that it came from, the outermost place first."""
    steps: list[str] = []
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        steps.append(_kind(at))
        for frame, line in traceback.walk_tb(at.__traceback__):
            steps.append(
                f"{_short(frame.f_code.co_filename)}:{line} in {_word(frame.f_code.co_name, 'a function')}"
            )
        at = at.__cause__ or at.__context__
    return steps


def _short(path: str) -> str:
    """A file of ours below the package, another one by its last two parts; no file name that could be a text."""
    full = os.path.abspath(path)
    own = full.startswith(_PACKAGE + os.sep)
    name = full[len(_PACKAGE) + 1 :] if own else "/".join(full.split(os.sep)[-2:])
    return name if re.fullmatch(r"[\w./<>+-]{1,80}", name, re.ASCII) else "a file"


def no_core_dumps() -> None:
    """Set this process's limit of core dumps to nothing, where the system has one."""
    try:
        import resource
    except ImportError:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
