"""The `robustify` program: a table of commands, and one line on stderr with an exit code for every error or interruption.

A command is imported when it is called, and imports its modules when it runs. A question that was pasted in place of a path
must not appear in a log, so messages show an argument of more than 120 characters or 6 words only by its number.
"""

import contextlib
import errno
import io
import json
import os
import re
import signal
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import FrameType
from typing import ClassVar, NoReturn

import click
from click_default_group import DefaultGroup

from robustify import __version__
from robustify.base import redaction
from robustify.base.errors import RobustifyError, UsageError, notice_code
from robustify.base.redaction import UNMUTED
from robustify.base.texts import escape_what_is_missing
from robustify.cli.terminal import Output, printable

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Audit": {
        "init": "data.init", "validate": "data.validate", "lint": "lint.lint", "heuristics": "data.rules_alone",
        "run": "runs.run_config", "import": "interop.import_", "judge": "runs.judge_again", "mend": "data.mend",
    },
    "Look": {
        "report": "runs.print_report", "explain": "runs.explain", "compare": "comparing_runs.compare",
        "dashboard": "comparing_runs.dashboard", "check": "runs.check", "agree": "runs.agree", "prompts": "free.prompts",
    },
    "Share": {"export": "interop.export"},
    "Free response": {"free": "free.free"},
    "Restricted sets": {"gate": "restricted.gate", "restricted": "restricted.restricted"},
    "This machine": {"models": "models.models"},
}  # fmt: skip
"""Commands by section of the help. Each is a module of this folder and a name in it."""


class _CommandTable(Mapping[str, click.Command]):
    """Commands by name. The module of a command is imported when the command is looked up."""

    _places: ClassVar[Mapping[str, str]] = ChainMap(*map(dict, SECTIONS.values()))

    def __getitem__(self, name: str) -> click.Command:
        module, attribute = self._places[name].split(".")
        command: click.Command = getattr(import_module(f"robustify.cli.{module}"), attribute)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Commands(DefaultGroup):  # type: ignore[misc]
    """Command group with sections in its help. Its default is `run`, unless a word looks like a misspelled command."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.isalpha() and cmd_name not in self.commands and not os.path.exists(cmd_name):
            import difflib

            from robustify.base.settings_files import is_config

            near = difflib.get_close_matches(cmd_name, self.commands, n=1, cutoff=0.7)
            if near and not is_config(cmd_name):
                raise UsageError(
                    f"{cmd_name} is not a command. Did you mean {near[0]}?", code="no-such-command"
                )
        command: click.Command | None = super().get_command(ctx, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                width = formatter.width - 6 - widest
                formatter.write_dl(
                    [(name.ljust(widest), self.commands[name].get_short_help_str(width)) for name in names]
                )


NEXT = """\
Which keys can be found without the questions, and how many points does this bring models?

You write a benchmark:     robustify items.csv --public -o audit
You evaluate models:       robustify init items.csv -m NAME, then robustify items.yaml -o run
You have somebody's logs:  robustify import samples.jsonl -o seen

All commands:              robustify --help"""


@click.group(
    cls=_Commands,
    default="run",
    default_if_no_args=False,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings=CONTEXT,
)
@click.version_option(__version__, "-V", "--version", prog_name="robustify")
@click.pass_context
def cli(context: click.Context) -> None:
    """Find items whose key can be found without the question, and estimate how many points this brings models.

    \b
    robustify validate items.csv        check how a file of items is read
    robustify items.csv --public        audit the items (-m NAME adds a model)
    robustify init items.csv            write a config for the items
    robustify demo_benign.yaml -o DIR   audit the benchmark of a config
    robustify import LOG... -o DIR      judge logs of lm-eval or Inspect

    A config is a YAML file, or the name of a config that comes with the package. `robustify CONFIG` is short
    for `robustify run CONFIG`.

    Exit codes: 0 success, 1 bug in robustify, 2 usage or config, 3 data, 4 authorization, 5 model, 6 resource,
    7 failed audit or guardrail (the results are on disk), 130 and 143 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(NEXT)


cli.commands = _CommandTable()


def main() -> NoReturn:
    """Run the command line, and exit with its exit code. Any error becomes one line on stderr."""
    output = Output()
    try:
        open_streams()
        escape_what_is_missing()
        redaction.quieten_others()
        signal.signal(signal.SIGTERM, terminated)
        result = cli.main(standalone_mode=False, obj=output)
        code = result if isinstance(result, int) else 0
    # Python would print the message of any other error, which may contain item text.
    except BaseException as error:
        code = exit_code(error, output)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = exit_code(error, output) or code
    sys.exit(code)


_WORDS, _CHARS = 4, 40
"""A message with this many words or characters of a long argument is withheld."""


def open_streams() -> None:
    """Reopen closed standard streams, so that no other file gets their descriptors. Writing to a reopened stream fails."""
    for stream, number in ((sys.stdin, 0), (sys.stdout, 1), (sys.stderr, 2)):
        if stream is None:
            # The system assigns the lowest free number, which is `number`.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def exit_code(error: BaseException, output: Output | None = None) -> int:
    """Print an error and return its exit code. With `--json`, also print a JSON object, unless `output` has one."""
    ended = partial(_ended, output=output or Output())
    match error:
        case RobustifyError():
            return ended(error.exit_code, *error.lines, code=error.code)
        case KeyboardInterrupt() | click.exceptions.Abort():
            return ended(130, "Interrupted. Run the same command to go on.", code="interrupted")
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            error.show(file=(text := io.StringIO()))
            click.echo(text.getvalue(), nl=False, err=True)
            return error.exit_code
        case click.ClickException():
            context = getattr(error, "ctx", None)
            more = f" (for help, run `{context.command_path} --help`)" if context is not None else ""
            kind = "-".join(_CAPITALISED.findall(type(error).__name__)).lower()
            return ended(error.exit_code, " ".join(error.format_message().split()) + more, code=kind)
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
            return ended(6, "stdout is closed; expected a file, a pipe, or a terminal.", code="stdout-closed")
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            full = f"The disk is full ({os.strerror(error.errno or 0)})."
            return ended(6, f"{full} Free some space, and run the same command again.", code="disk-full")
        case OSError(errno=errno.ENAMETOOLONG):
            return ended(2, "A path is too long for this system; expected a shorter path.", code="long-path")
        case OSError(errno=errno.EIO):
            more = "Run the same command on another disk."
            return ended(6, f"A disk failed (input/output error). {more}", code="disk-failed")
        case MemoryError() | OSError(errno=errno.ENOMEM):
            more = "Use more memory, or a smaller --limit or `max_batch_tokens`."
            return ended(6, f"The memory is full. {more}", code="memory-full")
        case ImportError(msg=str(message)) if any(words in message for words in _UNMAPPED):
            return ended(
                6,
                f"The memory is full: a library did not fit; expected about {_LIBRARIES} MiB. Use more memory.",
                code="memory-full",
            )
        case _:
            return ended(1, *redaction.bug_lines(error), code="bug")


_CAPITALISED = re.compile("[A-Z][a-z]*")


_UNMAPPED = ("failed to map segment", "annot allocate memory", "annot map zero-fill pages")
"""What the dynamic loader says if a library does not fit into memory."""
_LIBRARIES = 1_500
"""Address space in MiB that torch and transformers took when they were imported on Linux (a limit of 700 was too small)."""


def terminated(_signal: int, _frame: FrameType | None) -> None:
    """End the process on SIGTERM."""
    raise SystemExit(
        _ended(143, "Terminated. To resume, run the same command.", code="terminated", output=Output())
    )


def _reader_is_gone() -> bool:
    return type(sys.stdout).__name__.endswith("PacifyFlushWrapper")


def _drop_stdout() -> None:
    # Otherwise Python reports an error when it flushes the buffer at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(status: int, *lines: str, code: str, output: Output) -> int:
    """Print an error to stderr, with its code after the first line, and with `--json` also to stdout. Return `status`."""
    shown = [printable(concealed(line, sys.argv[1:])) for line in lines]
    codes = [notice_code(line) or (code if i == 0 else "") for i, line in enumerate(lines)]
    for line, line_code in zip(shown, codes, strict=True):
        UNMUTED.write(f"robustify: {line}{line_code and f' [{line_code}]'}\n")
    UNMUTED.flush()
    if "--json" in sys.argv[1:] and not output.has_json and status not in (130, 143):
        tree = {"code": code, "exit_code": status, "lines": shown, "codes": [*filter(None, codes)]}
        with contextlib.suppress(OSError):
            click.echo(json.dumps({"error": tree}))
    return status


def concealed(line: str, arguments: Sequence[str]) -> str:
    """Return `line` with long arguments replaced by `<argument N>`, and long config values replaced by `<value>`."""
    for n, argument in enumerate(arguments, start=1):
        parts = [argument, argument.partition("=")[2]] if argument.startswith("-") else [argument]
        line = _without([part for part in parts if redaction.may_be_text(part)], line, f"argument {n}")
    return _without(sorted(redaction.LONG_VALUES), line, "value")


def _without(values: Sequence[str], line: str, name: str) -> str:
    for form in sorted({form for value in values for form in _forms(value)}, key=len, reverse=True):
        line = line.replace(form, f"<{name}>")
    if any(_shows(line, value) for value in values):
        more = f"more than {redaction.MOST_CHARS} characters or {redaction.MOST_WORDS} words"
        return f"{name} was rejected. It is not shown because it has {more}."
    return line


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which a message may quote a value."""
    forms = [value, repr(value)[1:-1], ascii(value)[1:-1], printable(value), " ".join(value.split())]
    if "\0" not in value:
        forms += [os.path.normpath(value), os.path.abspath(value), os.path.basename(value)]
    return filter(redaction.may_be_text, forms)


def _shows(line: str, value: str) -> bool:
    words, shown = value.casefold().split(), " ".join(line.casefold().split())
    if any(" ".join(words[i : i + _WORDS]) in shown for i in range(len(words) - _WORDS + 1)):
        return True
    return any(line[i : i + _CHARS] in value for i in range(len(line) - _CHARS + 1))
