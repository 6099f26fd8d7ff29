"""Click commands of the `robustify` program. Results go to stdout, and messages go to stderr.

Each command imports its modules when it runs, so that `--help` is fast.
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

import click
from click_default_group import DefaultGroup

from robustify import __version__
from robustify.base.errors import UsageError
from robustify.base.redaction import firewall
from robustify.base.texts import escape_what_is_missing
from robustify.cli.data import init, mend, rules_alone, validate
from robustify.cli.free import free
from robustify.cli.guard import exit_code, open_streams, terminated
from robustify.cli.interop import export, import_
from robustify.cli.lint import lint
from robustify.cli.models import models
from robustify.cli.restricted import restricted
from robustify.cli.runs import (
    agree,
    check,
    compare,
    dashboard,
    explain,
    judge_again,
    print_report,
    run_config,
)
from robustify.cli.shown_prompts import prompts

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Gate(click.Command):
    """Command that passes all arguments, including `--` and `--help`, to the argument parser of the gate."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        from robustify.gate import command

        return command.scanner().format_help().rstrip("\n")


@click.command(cls=_Gate, add_help_option=False)
@click.pass_context
def gate(ctx: click.Context) -> int:
    """Block sensitive items before a commit, push, or release."""
    from robustify.gate import command

    return command.run_gate(ctx.args)


SECTIONS: Mapping[str, tuple[click.Command, ...]] = {
    "Audit": (init, validate, lint, rules_alone, run_config, import_, judge_again, mend),
    "Look": (print_report, explain, compare, dashboard, check, agree, prompts),
    "Share": (export,),
    "Free response": (free,),
    "Restricted sets": (gate, restricted),
    "This machine": (models,),
}


class _Commands(DefaultGroup):  # type: ignore[misc]
    """Command group whose help has sections. Its default command is `run`, unless a word looks like a misspelt command."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.isalpha() and cmd_name not in self.commands and not os.path.exists(cmd_name):
            import difflib

            from robustify.base.settings_files import is_config

            near = difflib.get_close_matches(cmd_name, self.commands, n=1, cutoff=0.7)
            if near and not is_config(cmd_name):
                raise UsageError(f"{cmd_name} is not a command. Did you mean {near[0]}?")
        found: click.Command | None = super().get_command(ctx, cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                width = formatter.width - 6 - widest
                formatter.write_dl(
                    [(str(c.name).ljust(widest), c.get_short_help_str(width)) for c in commands]
                )


NEXT = """\
How much of a multiple-choice score is knowledge, and how much is test-taking?

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
    """Measure how much of a multiple-choice score is knowledge and how much is test-taking.

    \b
    robustify validate items.csv        check how a file of items is read
    robustify items.csv --public        audit the items (-m NAME adds a model)
    robustify init items.csv            write a config for the items
    robustify demo_benign.yaml -o DIR   audit the benchmark of a config
    robustify import LOG... -o DIR      judge logs of lm-eval or Inspect

    A config is a YAML file, or the name of a config that comes with the package. `robustify CONFIG` is short
    for `robustify run CONFIG`.

    Exit codes: 0 success, 1 bug in robustify, 2 usage or config, 3 data, 4 authorisation, 5 model, 6 resource,
    7 failed guardrail (the results are on disk), 130 and 143 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(NEXT)


for _command in (one for commands in SECTIONS.values() for one in commands):
    cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line, and exit with its exit code. Any error becomes one line on stderr."""
    open_streams()
    escape_what_is_missing()
    firewall.quieten_others()
    signal.signal(signal.SIGTERM, terminated)
    try:
        result = cli.main(standalone_mode=False)
        code = result if isinstance(result, int) else 0
    # Python would print the message of any other error, which may contain item text.
    except BaseException as error:
        code = exit_code(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = exit_code(error) or code
    sys.exit(code)
