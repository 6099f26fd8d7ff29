"""Options that commands share, how results are printed, and progress on stderr.

A command takes what it needs as decorators. `output` gives it `--json` and `--quiet`, which every command has; they are
kept in Click's context, and `print_result` and `say` obey them.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from robustify.errors import counted

if TYPE_CHECKING:
    from robustify.run import Run

F = TypeVar("F", bound=Callable[..., object])
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIR = click.Path(path_type=Path, file_okay=False)


def _open(_context: click.Context, _argument: click.Parameter, folder: Path) -> "Run":
    from robustify.run import open_run

    return open_run(folder)


def _cache_folder(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    from robustify.models import cache_folder

    return cache_folder(given)


def _rule(context: click.Context, option: click.Parameter, value: object) -> None:
    given = context.params.setdefault("rule", {})
    if value is not None and value != ():
        given[WHOLE.get(str(option.name), f"screen.{option.name}")] = value


def _keep(context: click.Context, option: click.Parameter, value: bool) -> bool:
    context.meta[f"robustify.{option.name}"] = value
    return value


WHOLE = {"adjust": "adjust", "encoder": "encoder", "inferred": "infer_question.tables"}
"""Settings of a whole config; all others are the screen's."""
RUN = click.argument("run", metavar="RUN", type=PATH, callback=_open)
cache_dir = click.option(
    "--cache-dir",
    "cache",
    type=DIR,
    callback=_cache_folder,
    help="Where models are kept [default: $ROBUSTIFY_CACHE or ~/.cache/robustify].",
)
"""`--cache-dir`; the command gets the folder in force as `cache`."""
CRITERION = click.option(
    "--criterion",
    metavar="fdr|unanimous|majority|K-of-N",
    expose_value=False,
    callback=_rule,
    help="What flags an item: a bounded share of false flags (fdr), or how many voters are right.",
)
MODE = click.option(
    "--mode",
    type=click.Choice(["letter", "text"]),
    expose_value=False,
    callback=_rule,
    help="Votes by letter or by the choices' own text.",
)
ROTATION = click.option(
    "--rotation",
    type=click.Choice(["averaged", "every", "most"]),
    expose_value=False,
    callback=_rule,
    help="A voter's pick over the orders: of their average, or the same in every or in most of them.",
)
ADJUST = click.option(
    "--adjust",
    type=click.Choice(["form", "form+meaning"]),
    expose_value=False,
    callback=_rule,
    help="What the weights of the adjusted score balance: form and words of options, or their meaning too.",
)
ENCODER = click.option(
    "--encoder/--no-encoder",
    default=None,
    expose_value=False,
    callback=_rule,
    help="Let the sentence encoder audit what is kept [default: if it was pulled].",
)
INFERRED = click.option(
    "--inferred",
    multiple=True,
    metavar="FILE",
    expose_value=False,
    callback=_rule,
    help="Questions that models inferred from the choices: item, model, text, as JSON lines or CSV (repeatable).",
)
JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Print one JSON object and nothing else.",
)
QUIET = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Say nothing but errors; --json is printed all the same.",
)


def output(command: F) -> F:
    """Add `--json` and `--quiet`."""
    return JSON(QUIET(command))


def screening(command: F) -> F:
    """Add the options that choose the rule of the screen; the command gets those that were given as `rule`."""
    return CRITERION(MODE(ADJUST(command)))


def asked_beside(command: F) -> F:
    """Add the options on what is asked beside the screen; the command gets those that were given as part of `rule`."""
    return ENCODER(INFERRED(command))


def out_option(says: str, *, required: bool = True) -> Callable[[F], F]:
    """Return the option `-o`: where a command writes."""
    return click.option("-o", "--out", "--output", required=required, type=PATH, help=says)


def printable(text: str) -> str:
    """Return text without control characters: names from files must not steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def is_quiet() -> bool:
    """Return whether `--quiet` was given."""
    return _kept("quiet")


def is_json() -> bool:
    """Return whether `--json` was given."""
    return _kept("json")


def _kept(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"robustify.{name}"))


def print_result(tree: object, lines: Iterable[str], json_: bool = False) -> int:
    """Print one JSON object under `--json`, else lines for people unless `--quiet`; return exit code 0."""
    if json_ or is_json():
        click.echo(json.dumps(tree))
    elif not is_quiet() and (text := "\n".join(map(printable, lines))):
        click.echo(text)
    return 0


def print_lines(*lines: object) -> int:
    """Print the lines of a command that has no object of its own; return exit code 0."""
    texts = [str(line) for line in lines]
    return print_result({"printed": texts}, texts)


def say(line: str) -> None:
    """Print a message on stderr, unless `--quiet`."""
    if not is_quiet():
        click.echo(f"robustify: {printable(line)}", err=True)


EVERY_SECONDS = 30.0
LOADING = "loading "
"""A watch whose label begins so waits for a model; with the first result the word is dropped."""
Advance = Callable[[int], None]


def watcher(shown: bool | None = None) -> Callable[[str, int], AbstractContextManager[Advance]]:
    """Return a watch that shows each model's progress on stderr; with `shown` False it shows nothing."""

    def watch(label: str, total: int) -> AbstractContextManager[Advance]:
        return nullcontext(_ignore) if shown is False else _progress(label, total)

    return watch


def _ignore(_: int) -> None:
    """Show nothing."""


def _progress(label: str, total: int) -> AbstractContextManager[Advance]:
    from robustify.redaction import UNMUTED

    if is_quiet():
        return nullcontext(_ignore)
    return _bar(label, total, UNMUTED) if UNMUTED.isatty() else _lines(label, total, UNMUTED)


@contextmanager
def _bar(label: str, total: int, err: Any) -> Iterator[Advance]:
    from tqdm import tqdm

    with tqdm(total=total, desc=label, unit="req", file=err, dynamic_ncols=True) as bar:

        def advance(n: int) -> None:
            if n:
                bar.set_description(label.removeprefix(LOADING), refresh=False)
            bar.update(n)

        yield advance


@contextmanager
def _lines(label: str, total: int, err: Any) -> Iterator[Advance]:
    """Show a line at once if a model is loaded, and one with the first result after every half minute."""
    name = label.removeprefix(LOADING)
    start = latest = time.monotonic()
    done = 0

    def advance(n: int) -> None:
        nonlocal done, latest
        done += n
        if (now := time.monotonic()) - latest >= EVERY_SECONDS:
            latest, took = now, now - start
            left = f", about {took / done * (total - done):.0f} s left" if 0 < done < total else ""
            err.write(f"robustify: {name}: {done:,} of {total:,} requests in {took:.0f} s{left}\n")

    if name != label:
        err.write(f"robustify: {label} ({counted(total, 'request')}) ...\n")
    yield advance
