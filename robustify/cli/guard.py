"""The guard around a command: every error becomes one line on stderr and an exit code.

A question that was pasted where a path belongs must not get into a log. An argument of more than 120 characters or 6
words is shown by its number alone, whatever module wrote the message.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from robustify.cli.options import printable
from robustify.errors import RobustifyError
from robustify.redaction import UNMUTED, firewall

_WORDS, _CHARS = 4, 40
"""So much of a long argument in a message is enough to withhold the message."""


def open_streams() -> None:
    """Open what the caller has closed, so that no file of ours takes its place; writing to stdout then fails."""
    for stream, number in ((sys.stdin, 0), (sys.stdout, 1), (sys.stderr, 2)):
        if stream is None:
            # The lowest free number is taken, which is this one.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def exit_code(error: BaseException) -> int:
    """Print an error and return its exit code."""
    match error:
        case RobustifyError():
            return _ended(error.exit_code, *error.lines)
        case KeyboardInterrupt() | click.exceptions.Abort():
            return _ended(130, "interrupted; run the same command again")
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            error.show(file=(text := io.StringIO()))
            click.echo(text.getvalue(), nl=False, err=True)
            return error.exit_code
        case click.ClickException():
            context = getattr(error, "ctx", None)
            more = f" (`{context.command_path} --help` says more)" if context is not None else ""
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
            return _ended(6, "stdout is closed; expected a file, a pipe or a terminal to print to")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return _ended(
                6,
                f"the disk is full ({os.strerror(error.errno or 0)}); free space and run the same command again",
            )
        case OSError(errno=errno.ENAMETOOLONG):
            return _ended(2, "a path is too long for this system; expected a shorter one")
        case OSError(errno=errno.EIO):
            return _ended(6, "a disk failed (input/output error); run the same command on another one")
        case MemoryError():
            return _ended(6, "memory is used up; expected more, or a smaller --limit or max_batch_tokens")
        case _:
            return _ended(1, *firewall.bug_lines(error))


def terminated(_signal: int, _frame: FrameType | None) -> None:
    """End the process on SIGTERM."""
    raise SystemExit(_ended(143, "terminated; run the same command again"))


def _reader_is_gone() -> bool:
    return type(sys.stdout).__name__.endswith("PacifyFlushWrapper")


def _drop_stdout() -> None:
    # What is left in the buffer has nowhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(code: int, *lines: str) -> int:
    for line in lines:
        UNMUTED.write(f"robustify: {printable(concealed(line, sys.argv[1:]))}\n")
    UNMUTED.flush()
    return code


def concealed(line: str, arguments: Sequence[str]) -> str:
    """Return `line` with each argument that may be text replaced by `<argument N>`, and such values of a config by
    `<value>`."""
    for n, argument in enumerate(arguments, start=1):
        parts = [argument, argument.partition("=")[2]] if argument.startswith("-") else [argument]
        line = _without([part for part in parts if firewall.may_be_text(part)], line, f"argument {n}")
    return _without(sorted(firewall.LONG_VALUES), line, "value")


def _without(values: Sequence[str], line: str, name: str) -> str:
    for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True):
        line = line.replace(form, f"<{name}>")
    if any(_shows(line, value) for value in values):
        more = f"more than {firewall.MOST_CHARS} characters or {firewall.MOST_WORDS} words"
        return f"{name} was refused (not shown: it has {more})"
    return line


def _forms(value: str) -> Iterator[str]:
    """Yield the ways in which a message may write a value."""
    forms = [value, repr(value)[1:-1], ascii(value)[1:-1], printable(value), " ".join(value.split())]
    if "\0" not in value:
        forms += [os.path.normpath(value), os.path.abspath(value), os.path.basename(value)]
    return filter(firewall.may_be_text, forms)


def _shows(line: str, value: str) -> bool:
    words, shown = value.casefold().split(), " ".join(line.casefold().split())
    if any(" ".join(words[i : i + _WORDS]) in shown for i in range(len(words) - _WORDS + 1)):
        return True
    return any(line[i : i + _CHARS] in value for i in range(len(line) - _CHARS + 1))
