"""Click commands with `--json` and `--quiet`, and options declared by a usage text such as `-m --models NAME...`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from robustify.cli.terminal import say

if TYPE_CHECKING:
    from robustify.reading.loaders import FieldMap
    from robustify.runs.run import Run

F = TypeVar("F", bound=Callable[..., object])
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIR = click.Path(path_type=Path, file_okay=False)
TYPES = {"PATH": PATH, "ITEMS": PATH, "FILE": FILE, "DIRECTORY": DIR, "INTEGER": int, "FLOAT": float}
"""Types of values by their name in a usage. Others are strings."""


def option(
    usage: str, says: str, *, to: str = "", into: str = "", read: Callable[[Any], object] | None = None, **about: Any
) -> Callable[[F], F]:  # fmt: skip
    """Return a decorator that adds the option with this usage. The command receives its value under its name, or as `to`.

    An option without a value is a flag. `NAME...` is repeatable, and `this|that`, in small letters, is one of these words.
    With `into`, the command receives it in this dictionary, converted by `read`, if the user gives it. `about` are
    arguments of Click.
    """
    names, value = usage.split(" "), ""
    while not names[-1].startswith("-"):
        value = f"{names.pop()} {value}".strip()
    about["multiple"], value = value.endswith("..."), value.removesuffix("...")
    if value.islower():
        about["type"] = click.Choice(value.split("|"))
    elif value:
        about = {"metavar": value, "type": TYPES.get(value), **about}
    elif "type" not in about:
        about["is_flag"] = True
    if into:

        def given(context: click.Context, parameter: click.Parameter, value: Any) -> None:
            values = context.params.setdefault(into, {})
            if value not in (None, (), ""):
                values[to or parameter.name] = read(value) if read else value

        about |= {"expose_value": False, "callback": given, "default": None}
        return click.option(*names, help=says, **about)
    shown = about.get("default") not in (None, "")
    return click.option(*names, *[to] * bool(to), help=says, **{"show_default": shown, **about})


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds these options, in this order."""

    def added(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return added


def _open(_context: click.Context, _argument: click.Parameter, folder: Path) -> "Run":
    from robustify.runs.run import open_run
    from robustify.wings import GUARD

    return open_run(folder, GUARD)


def _cache_folder(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    from robustify.base.files import cache_folder

    return cache_folder(given)


RUN = click.argument("run", metavar="RUN", type=PATH, callback=_open)
OUT = "-o --out --output PATH"
"""Usage of the option for the output path of a command."""
cache_dir = option(
    "--cache-dir DIRECTORY",
    "Store models and scores here [default: $ROBUSTIFY_CACHE or ~/.cache/robustify].",
    to="cache", callback=_cache_folder,
)  # fmt: skip
"""Option `--cache-dir`, passed to the command as `cache`, with the default filled in."""
FORCE = option("--force", "Replace a run of another benchmark or secret key in that folder.")
STRICT = option("--strict", "Also exit with code 7 if the state is not evaluated.")
HIDDEN = option(
    "--hidden question|passage|context|image",
    "Name the part of an item that choices_only does not show [default: question].", into="rule",
)  # fmt: skip
ENCODER = option(
    "--encoder/--no-encoder", "Audit the kept items with the sentence encoder [default: if it is installed].", into="rule"
)  # fmt: skip
FORMAT_TYPE = option(
    "--format-type json|yaml|xml|csv|markdown|adaptive",
    "Ask for labels in this format [default: by template].",
)
screening = together(
    option(
        "--criterion fdr|unanimous|majority|K-of-N",
        "Flag items by a scorer that limits the share of false flags (fdr), or by the number of correct voters.",
        into="rule", to="screen.criterion",
    ),
    option(
        "--mode letter|text", "Let models vote by letter, or by the text of the choices.", into="rule", to="screen.mode"
    ),
)  # fmt: skip
"""Options of the screen, which the command receives as `rule` if the user gives them."""


def _given(_context: click.Context, _argument: click.Parameter, data: str) -> str:
    if not data:
        raise click.BadParameter("The argument is empty; expected a file of items or a config.")
    return data


DATA = click.argument("data", metavar="DATA|CONFIG", callback=_given)
ITEMS = click.argument("data", metavar="DATA", callback=_given)


def mapped(columns: Sequence[str]) -> "FieldMap | None":
    """Return the field map given by `--map`, or None if the option is not used. Raise errors like `mapped_columns`."""
    from robustify.reading.loaders.loaded import FieldMap, mapped_columns

    return FieldMap.from_options(mapped_columns(columns, FieldMap.model_fields))


NAMING = together(
    option(
        "--include-path --include_path DIR...",
        "Also find tasks of lm-eval in this folder (repeatable).",
        into="source_options",
    ),
    option("--trust-task-code", "Run the Python code of the task that DATA names.", into="source_options"),
)
reading = together(
    option(
        "--map PART=COLUMN...",
        "Read this part from this column: stem, choices (A,B,C,D), key, key_is, topic, id, passage, group (repeatable).",
        into="source_options", to="fields", read=mapped,
    ),
    option("--split --sheet NAME", "Read this split of a folder, or sheet of a workbook.", into="source_options"),
    NAMING,
    option("--skip-bad", "Skip invalid rows instead of rejecting the file.", into="source_options"),
)  # fmt: skip
"""Options of reading a file, which the command receives as arguments of a `Source` in `source_options`."""


def _keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Store the value of a flag in the context, where `print_result` and `say` read it."""
    context.meta[f"robustify.{parameter.name}"] = value


RENAMED = {"licence": "license", "--licence": "--license", "--licence-sha256": "--license-sha256"}
"""Former names of commands and options, which this version still takes."""


def _present_name(name: str) -> str:
    """Return the present name of a command or option, and advise it if a former one was given."""
    if (present := RENAMED.get(name, name)) != name:
        say(f"{name} is now {present}. The next version will not take the former name.")
    return present


_kept: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _keep}


class Command(click.Command):
    """Command with the options `--json` and `--quiet`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(click.Option(["--json"], help="Print a single JSON object, not text.", **_kept))
        says = "Print only errors (with --json, also the object)."
        self.params.append(click.Option(["-q", "--quiet"], help=says, **_kept))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If they have a second name after `-m`, the error says how to name several models."""
        parts = ((arg, *arg.partition("=")) for arg in args)
        args = [
            f"{_present_name(name)}{sign}{value}" if arg[:2] == "--" else arg
            for arg, name, sign, value in parts
        ]
        try:
            return super().parse_args(ctx, list(args))
        except click.UsageError as error:
            if not {"-m", "--models"}.intersection(args) or "extra argument" not in error.message:
                raise
            advice = "-m takes one name. To ask several models, repeat the option: -m FIRST -m SECOND."
            raise click.UsageError(f"{error.message.rstrip('.')}. {advice}", ctx) from None


class Group(click.Group):
    """Command group whose commands have the options `--json` and `--quiet`."""

    command_class = Command
    group_class = type

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its present or former name."""
        return super().get_command(ctx, _present_name(cmd_name))


def command(name: str | None = None) -> Callable[[Callable[..., object]], Command]:
    """Return a decorator that turns a function into a `Command`."""
    return click.command(name, cls=Command)
