"""The command line: parse, call, print, exit. stdout is data, stderr is talk.

Nothing heavy is imported here: each command imports what it needs when it runs, so that `--help` is instant.
"""

import errno
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click
from click_default_group import DefaultGroup

from robustify import __version__
from robustify.cli.adapter import adapter
from robustify.cli.cache import cache
from robustify.cli.compare import compare
from robustify.cli.data import heuristics, validate
from robustify.cli.export import export
from robustify.cli.free import free
from robustify.cli.gate import gate
from robustify.cli.importing import import_
from robustify.cli.judging import check, judge, report
from robustify.cli.key import key
from robustify.cli.licence import licence
from robustify.cli.models import models
from robustify.cli.run import run
from robustify.cli.simulate import simulate
from robustify.cli.split import split
from robustify.cli.telling import click_lines, help_of, tell
from robustify.errors import RobustifyError
from robustify.redaction import firewall

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=DefaultGroup, default="run", default_if_no_args=False, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="robustify")
def cli() -> None:
    """Tell how much of a multiple-choice score is knowledge and how much is test-taking.

    \b
    robustify demo_benign.yaml --out results/demo   audit the benchmark of a config
    robustify validate items.jsonl                  what is in this file?
    robustify heuristics items.jsonl                what do the choices alone give away? (no model)
    robustify import samples.jsonl -o results/seen  judge somebody's lm-eval or Inspect logs (no model)
    robustify check results/demo                    hold a finished run against the guardrails

    A config is a YAML file or the name of one that ships with the package.
    Exit codes: 0 done, 1 a bug, 2 usage or config, 3 data, 4 authorisation, 5 model, 6 resource,
    7 a guardrail said no (results are on disk), 130 and 143 interrupted.
    """


for command in (
    run,
    validate,
    heuristics,
    import_,
    judge,
    check,
    report,
    compare,
    export,
    simulate,
    free,
    gate,
    adapter,
    key,
    licence,
    split,
    models,
    cache,
):
    cli.add_command(command)


def main() -> NoReturn:
    """The console script: one place turns errors into one line on stderr and an exit code."""
    firewall.up()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        result = cli.main(standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    # Whatever it is: what is not caught here would be printed with its message.
    except BaseException as error:
        code = _code(error)
    sys.exit(code)


def _code(error: BaseException) -> int:
    """The exit code of an error, once it has been told."""
    match error:
        case RobustifyError():
            return _told(error.lines, error.exit_code)
        case KeyboardInterrupt() | click.exceptions.Abort():
            return _told(["interrupted; run the same command again"], 130)
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            lines = click_lines(error)
            if not lines:
                click.echo(help_of(error), nl=False, err=True)
            return _told(lines, error.exit_code)
        case SystemExit(code=int(code)):
            return code
        case SystemExit(code=None):
            return 0
        case BrokenPipeError():
            # The reader had enough; what is left in the buffer has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return _told(
                [f"the disk is full ({error.strerror}); free space and run the same command again"], 6
            )
        case OSError(errno=errno.EIO):
            return _told(["a disk failed (input/output error); run the same command on another one"], 6)
        case MemoryError():
            return _told(["memory is used up; expected more, or a smaller --limit or max_batch_tokens"], 6)
        case _:
            return _told(firewall.told(error), 1)


def _told(lines: Sequence[str], code: int) -> int:
    tell(lines, sys.argv[1:])
    return code


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    _told(["terminated; run the same command again"], 143)
    raise SystemExit(143)
