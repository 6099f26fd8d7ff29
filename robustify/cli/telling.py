"""What the command line says when something is refused: one line, no control characters, no long argument back.

Whoever pastes a question where a path belongs must not find it in a log: an argument of more than 120 characters or
6 words is shown by its number alone, whoever wrote the message.
"""

import io
import os
from collections.abc import Iterator, Sequence

import click

from robustify.cli.options import printable
from robustify.redaction.firewall import LONG_VALUES, MOST_CHARS, MOST_WORDS, may_be_text
from robustify.redaction.silence import TALK

_WORDS, _CHARS = 4, 40
"""So much of a long argument in a message is enough to withhold the message."""


def tell(lines: Sequence[str], arguments: Sequence[str]) -> None:
    """Say these lines on stderr, with what could be item text among the arguments left out."""
    for line in lines:
        TALK.write(f"robustify: {printable(concealed(line, arguments))}\n")
    TALK.flush()


def click_lines(error: click.ClickException) -> list[str]:
    """A refusal by Click in one line, with the command whose help says more."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        return []
    context = getattr(error, "ctx", None)
    more = f" (`{context.command_path} --help` says more)" if context is not None else ""
    return [" ".join(error.format_message().split()) + more]


def help_of(error: click.ClickException) -> str:
    """The help that Click shows where a group is called without a command."""
    out = io.StringIO()
    error.show(file=out)
    return out.getvalue()


def concealed(line: str, arguments: Sequence[str]) -> str:
    """`line` with every argument that may be text replaced by `<argument N>`, counted from 1, and every such value of
    a config by `<value>`."""
    for n, argument in enumerate(arguments, start=1):
        line = _without([v for v in _values(argument) if may_be_text(v)], line, f"argument {n}")
    return _without(sorted(LONG_VALUES), line, "value")


def _without(values: Sequence[str], line: str, name: str) -> str:
    for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True):
        line = line.replace(form, f"<{name}>")
    if any(_is_left(value, line) for value in values):
        more = f"more than {MOST_CHARS} characters or {MOST_WORDS} words"
        return f"{name} was refused (not shown: it has {more})"
    return line


def _values(argument: str) -> Iterator[str]:
    yield argument
    if argument.startswith("-") and "=" in argument:
        yield argument.partition("=")[2]


def _forms(value: str) -> set[str]:
    """As it was given, and as a message may write it."""
    forms = {value, repr(value)[1:-1], ascii(value)[1:-1], printable(value), " ".join(value.split())}
    if "\0" not in value:
        forms |= {os.path.normpath(value), os.path.abspath(value), os.path.basename(value)}
    return {form for form in forms if may_be_text(form)}


def _is_left(value: str, line: str) -> bool:
    words, told = value.casefold().split(), " ".join(line.casefold().split())
    if any(" ".join(words[i : i + _WORDS]) in told for i in range(len(words) - _WORDS + 1)):
        return True
    return any(line[i : i + _CHARS] in value for i in range(len(line) - _CHARS + 1))
