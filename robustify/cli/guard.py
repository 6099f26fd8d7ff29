"""Conversion of every error into one line on stderr and an exit code.

A question that was pasted in place of a path must not appear in a log. Therefore, messages show an argument of more than
120 characters or 6 words only by its number.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from robustify.base.errors import RobustifyError
from robustify.base.redaction import UNMUTED, firewall
from robustify.cli.options import printable

_WORDS, _CHARS = 4, 40
"""A message with this many words or characters of a long argument is withheld."""


def open_streams() -> None:
    """Reopen standard streams that the caller closed, so that no other file gets their numbers.

    Writing to a stdout that was closed fails.
    """
    for stream, number in ((sys.stdin, 0), (sys.stdout, 1), (sys.stderr, 2)):
        if stream is None:
            # The system assigns the lowest free number, which is `number`.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def exit_code(error: BaseException) -> int:
    """Print an error and return its exit code."""
    match error:
        case RobustifyError():
            return _ended(error.exit_code, *error.lines)
        case KeyboardInterrupt() | click.exceptions.Abort():
            return _ended(130, "Interrupted. Run the same command to go on.")
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            error.show(file=(text := io.StringIO()))
            click.echo(text.getvalue(), nl=False, err=True)
            return error.exit_code
        case click.ClickException():
            context = getattr(error, "ctx", None)
            more = f" (for help, run `{context.command_path} --help`)" if context is not None else ""
            return _ended(error.exit_code, " ".join(error.format_message().split()) + more)
        # Click wraps stdout if its reader is gone, and ends with code 1.
        case BrokenPipeError() | SystemExit() if isinstance(error, OSError) or _reader_is_gone():
            _drop_stdout()
            return 0
        case SystemExit(code=int(code)):
            return code
        case SystemExit(code=None):
            return 0
        case OSError(errno=errno.EBADF):
            _drop_stdout()
            return _ended(6, "stdout is closed; expected a file, a pipe, or a terminal.")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            full = f"The disk is full ({os.strerror(error.errno or 0)})."
            return _ended(6, f"{full} Free some space, and run the same command again.")
        case OSError(errno=errno.ENAMETOOLONG):
            return _ended(2, "A path is too long for this system; expected a shorter path.")
        case OSError(errno=errno.EIO):
            return _ended(6, "A disk failed (input/output error). Run the same command on another disk.")
        case MemoryError():
            more = "Use more memory, or a smaller --limit or `max_batch_tokens`."
            return _ended(6, f"The memory is full. {more}")
        case _:
            return _ended(1, *firewall.bug_lines(error))


def terminated(_signal: int, _frame: FrameType | None) -> None:
    """End the process on SIGTERM."""
    raise SystemExit(_ended(143, "Terminated. Run the same command to go on."))


def _reader_is_gone() -> bool:
    return type(sys.stdout).__name__.endswith("PacifyFlushWrapper")


def _drop_stdout() -> None:
    # Otherwise Python reports an error when it flushes the buffer at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(code: int, *lines: str) -> int:
    for line in lines:
        UNMUTED.write(f"robustify: {printable(concealed(line, sys.argv[1:]))}\n")
    UNMUTED.flush()
    return code


def concealed(line: str, arguments: Sequence[str]) -> str:
    """Return `line` with long arguments replaced by `<argument N>`, and long config values by `<value>`."""
    for n, argument in enumerate(arguments, start=1):
        parts = [argument, argument.partition("=")[2]] if argument.startswith("-") else [argument]
        line = _without([part for part in parts if firewall.may_be_text(part)], line, f"argument {n}")
    return _without(sorted(firewall.LONG_VALUES), line, "value")


def _without(values: Sequence[str], line: str, name: str) -> str:
    for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True):
        line = line.replace(form, f"<{name}>")
    if any(_shows(line, value) for value in values):
        more = f"more than {firewall.MOST_CHARS} characters or {firewall.MOST_WORDS} words"
        return f"{name} was rejected. It is not shown because it has {more}."
    return line


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which a message may quote a value."""
    forms = [value, repr(value)[1:-1], ascii(value)[1:-1], printable(value), " ".join(value.split())]
    if "\0" not in value:
        forms += [os.path.normpath(value), os.path.abspath(value), os.path.basename(value)]
    return filter(firewall.may_be_text, forms)


def _shows(line: str, value: str) -> bool:
    words, shown = value.casefold().split(), " ".join(line.casefold().split())
    if any(" ".join(words[i : i + _WORDS]) in shown for i in range(len(words) - _WORDS + 1)):
        return True
    return any(line[i : i + _CHARS] in value for i in range(len(line) - _CHARS + 1))
