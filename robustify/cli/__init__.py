"""The command line: parse, call, print, exit. stdout is data, stderr is for messages.

Nothing heavy is imported here: each command imports what it needs when it runs, so that `--help` is instant.

An error is one line without control characters. A question that was pasted where a path belongs must not get into a
log: an argument of more than 120 characters or 6 words is shown by its number alone, whatever module wrote the message.
"""

import difflib
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

import click
from click_default_group import DefaultGroup

from robustify import __version__
from robustify.cli.data import rules_alone, validate
from robustify.cli.free import free
from robustify.cli.interop import export, import_
from robustify.cli.models import models, score_cache
from robustify.cli.options import printable, uniform
from robustify.cli.runs import agree, check, compare, dashboard, explain, judge_again, report, run
from robustify.cli.sensitive import adapter, key, licence
from robustify.cli.split import split
from robustify.cli.start import init
from robustify.errors import RobustifyError, UsageError
from robustify.redaction import UNMUTED, firewall

_WORDS, _CHARS = 4, 40
"""So much of a long argument in a message is enough to withhold the message."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Commands(DefaultGroup):  # type: ignore[misc]
    """The commands; `run` is meant where none is named, unless the word looks like a misspelt command."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (
            cmd_name not in self.commands
            and re.fullmatch("[a-z-]+", cmd_name)
            and not os.path.exists(cmd_name)
        ):
            from robustify.settings_files import is_config

            near = difflib.get_close_matches(cmd_name, self.commands, n=1, cutoff=0.7)
            if near and not is_config(cmd_name):
                raise UsageError(f"{cmd_name}: no such command (did you mean {near[0]}?)")
        found: click.Command | None = super().get_command(ctx, cmd_name)
        return found


@click.group(cls=_Commands, default="run", default_if_no_args=False, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="robustify")
def cli() -> None:
    """Say how much of a multiple-choice score is knowledge and how much is test-taking.

    \b
    robustify validate items.csv                    what is in this file?
    robustify heuristics items.csv                  what do the choices alone give away? (no model)
    robustify items.csv --public                    audit it; -m NAME asks a model too
    robustify init items.csv                        write a config to begin with
    robustify demo_benign.yaml --out results/demo   audit the benchmark of a config
    robustify import samples.jsonl -o results/seen  judge somebody's lm-eval or Inspect logs (no model)
    robustify check results/demo                    which guardrails does a finished run fail?

    A config is a YAML file or the name of one that ships with the package.
    Exit codes: 0 done, 1 a bug, 2 usage or config, 3 data, 4 authorisation, 5 model, 6 resource,
    7 a guardrail said no (results are on disk), 130 and 143 interrupted.
    """


class _Gate(click.Command):
    """Hands every argument on, `--` and `--help` included: the gate's own parser reads them, as the hook needs no Click."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        from robustify.gate import command

        return command.scanner().format_help().rstrip("\n")


@click.command(cls=_Gate, add_help_option=False)
@click.pass_context
def gate(ctx: click.Context) -> int:
    """Refuse items of a sensitive set before they are committed, pushed or published."""
    from robustify.gate import command

    return command.main(ctx.args)


_ON_RUNS = judge_again, check, report, explain, agree, compare, dashboard
for _command in (
    *(run, init, validate, rules_alone, import_, *_ON_RUNS, export),
    *(free, gate, adapter, key, licence, split, models, score_cache),
):
    if _command is not gate:
        uniform(_command)
    cli.add_command(_command)


def main() -> NoReturn:
    """The console script: one place turns errors into one line on stderr and an exit code."""
    _open_streams()
    firewall.install()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        result = cli.main(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    # Whatever it is: what is not caught here would be printed with its message.
    except BaseException as error:
        code = _code(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _code(error) or code
    sys.exit(code)


def _open_streams() -> None:
    """Open what the caller has closed, so that no file of ours takes its place: stdout so that writing to it fails."""
    for stream, number in ((sys.stdin, 0), (sys.stdout, 1), (sys.stderr, 2)):
        if stream is None:
            # The lowest free number is taken, which is this one.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _code(error: BaseException) -> int:
    """The exit code of an error, once it is printed."""
    match error:
        case RobustifyError():
            return _printed(error.lines, error.exit_code)
        case KeyboardInterrupt() | click.exceptions.Abort():
            return _printed(["interrupted; run the same command again"], 130)
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            lines = _click_lines(error)
            if not lines:
                # Click's own help of a group that was called without a command.
                error.show(file=(text := io.StringIO()))
                click.echo(text.getvalue(), nl=False, err=True)
            return _printed(lines, error.exit_code)
        # Click wraps stdout where its reader had enough, and ends with code 1.
        case BrokenPipeError() | SystemExit() if isinstance(error, OSError) or _reader_is_gone():
            _drop_stdout()
            return 0
        case SystemExit(code=int(code)):
            return code
        case SystemExit(code=None):
            return 0
        case OSError(errno=errno.EBADF):
            _drop_stdout()
            return _printed(["stdout is closed; expected a file, a pipe or a terminal to print to"], 6)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return _printed(
                [f"the disk is full ({error.strerror}); free space and run the same command again"], 6
            )
        case OSError(errno=errno.ENAMETOOLONG):
            return _printed(["a path is too long for this system; expected a shorter one"], 2)
        case OSError(errno=errno.EIO):
            return _printed(["a disk failed (input/output error); run the same command on another one"], 6)
        case MemoryError():
            return _printed(["memory is used up; expected more, or a smaller --limit or max_batch_tokens"], 6)
        case _:
            return _printed(firewall.bug_lines(error), 1)


def _reader_is_gone() -> bool:
    return type(sys.stdout).__name__.endswith("PacifyFlushWrapper")


def _drop_stdout() -> None:
    """What is left in the buffer has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _printed(lines: Sequence[str], code: int) -> int:
    for line in lines:
        UNMUTED.write(f"robustify: {printable(concealed(line, sys.argv[1:]))}\n")
    UNMUTED.flush()
    return code


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    _printed(["terminated; run the same command again"], 143)
    raise SystemExit(143)


def _click_lines(error: click.ClickException) -> list[str]:
    """A refusal by Click in one line, with the command whose help says more."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        return []
    context = getattr(error, "ctx", None)
    more = f" (`{context.command_path} --help` says more)" if context is not None else ""
    return [" ".join(error.format_message().split()) + more]


def concealed(line: str, arguments: Sequence[str]) -> str:
    """`line` with every argument that may be text replaced by `<argument N>`, counted from 1, and every such value of
    a config by `<value>`."""
    for n, argument in enumerate(arguments, start=1):
        line = _without([v for v in _values(argument) if firewall.may_be_text(v)], line, f"argument {n}")
    return _without(sorted(firewall.LONG_VALUES), line, "value")


def _without(values: Sequence[str], line: str, name: str) -> str:
    for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True):
        line = line.replace(form, f"<{name}>")
    if any(_is_left(value, line) for value in values):
        more = f"more than {firewall.MOST_CHARS} characters or {firewall.MOST_WORDS} words"
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
    return {form for form in forms if firewall.may_be_text(form)}


def _is_left(value: str, line: str) -> bool:
    words, shown = value.casefold().split(), " ".join(line.casefold().split())
    if any(" ".join(words[i : i + _WORDS]) in shown for i in range(len(words) - _WORDS + 1)):
        return True
    return any(line[i : i + _CHARS] in value for i in range(len(line) - _CHARS + 1))
