"""What commands share: options, quiet, JSON and colour, and the watch that shows progress."""

import functools
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from robustify.errors import counted

if TYPE_CHECKING:
    from robustify.run import Run

F = TypeVar("F", bound=Callable[..., object])
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIR = click.Path(path_type=Path, file_okay=False)


def _opened(_context: click.Context, _argument: click.Parameter, folder: Path) -> "Run":
    from robustify.run import open_run

    return open_run(folder)


RUN = click.argument("run", metavar="RUN", type=PATH, callback=_opened)
DESPITE = click.option(
    "--despite", default="", metavar="WHY", help="Publish what the ledger refuses; the reason is recorded."
)


def out_option(says: str, *, required: bool = True) -> Callable[[F], F]:
    """`-o`: where a command writes."""
    return click.option("-o", "--out", "--output", required=required, type=PATH, help=says)


def as_json(command: F) -> F:
    """`--json`: one JSON object on stdout and nothing else."""
    return click.option("--json", "json_", is_flag=True, help="Print one JSON object and nothing else.")(
        command
    )


def _cache_folder(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    from robustify.models import cache_folder

    return cache_folder(given)


def cache_dir(command: F) -> F:
    """`--cache-dir`: where models and scores are kept; the command gets the folder in force as `cache`."""
    return click.option(
        "--cache-dir",
        "cache",
        type=DIR,
        callback=_cache_folder,
        help="Where models are kept [default: $ROBUSTIFY_CACHE or ~/.cache/robustify].",
    )(command)


def screening(command: Callable[..., object]) -> Callable[..., object]:
    """The options that choose the rule of the screen; the command gets those that were given as `rule`."""

    @functools.wraps(command)
    def wrapped(
        *, criterion: str | None, mode: str | None, probe_vote: str | None, **given: object
    ) -> object:
        rule = given_options(screen__criterion=criterion, screen__mode=mode, screen__probe_vote=probe_vote)
        return command(rule=rule, **given)

    asked: Callable[..., object] = wrapped
    for option in (
        click.option(
            "--criterion",
            metavar="fdr|unanimous|majority|K-of-N",
            help="What flags an item: a bounded share of false flags (fdr), or how many voters are right.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["letter", "text"]),
            help="Votes by letter or by the choices' own text.",
        ),
        click.option("--probe-vote", type=click.Choice(["none", "with"]), help="Whether the probe votes."),
    ):
        asked = option(asked)
    return asked


def given_options(**options: object) -> dict[str, object]:
    """The options that were given, under their dotted config names (`screen__mode` is `screen.mode`)."""
    return {name.replace("__", "."): value for name, value in options.items() if value is not None}


def printable(text: str) -> str:
    """Text without control characters: names from files must not steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def print_result(tree: object, lines: Iterable[str], json_: bool) -> int:
    """Print one JSON object, or lines for people; exit code 0."""
    text = json.dumps(tree) if json_ else "\n".join(map(printable, lines))
    if text:
        click.echo(text)
    return 0


EVERY_SECONDS = 30.0
LOADING = "loading "
"""A watch whose label begins so waits for a model; with the first result the word is dropped."""
_QUIET = "robustify.quiet"


def uniform(command: click.Command) -> None:
    """Give a command, and all below it, what every command has: `--json`, `--quiet`, `--color`.

    A command without an object of its own prints `{"printed": [LINE, ...]}` under `--json`.
    """
    if isinstance(command, click.Group):
        for below in command.commands.values():
            uniform(below)
        return
    inner = command.callback
    assert inner is not None
    own_json = any(option.name == "json_" for option in command.params)

    @functools.wraps(inner)
    def wrapped(*args: object, quiet: bool, color: bool | None, **given: object) -> object:
        context = click.get_current_context()
        context.color = False if color is None and os.environ.get("NO_COLOR") else color
        context.meta[_QUIET] = quiet
        as_object = bool(given["json_"] if own_json else given.pop("json_"))
        if not as_object:
            with redirect_stdout(open(os.devnull, "w")) if quiet else nullcontext():
                return inner(*args, **given)
        if own_json:
            return inner(*args, **given)
        with redirect_stdout(io.StringIO()) as printed:
            code = inner(*args, **given)
        click.echo(json.dumps({"printed": printed.getvalue().splitlines()}))
        return code

    command.callback = wrapped
    if not own_json:
        command.params.append(
            click.Option(["--json", "json_"], is_flag=True, help="Print one JSON object and nothing else.")
        )
    command.params += [
        click.Option(
            ["-q", "--quiet"], is_flag=True, help="Say nothing but errors; --json is printed all the same."
        ),
        click.Option(
            ["--color/--no-color"], default=None, help="Colours [default: on a terminal, unless $NO_COLOR]."
        ),
    ]


def is_quiet() -> bool:
    """Whether `--quiet` was given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def say(line: str) -> None:
    """A message on stderr, unless `--quiet`."""
    if not is_quiet():
        click.echo(f"robustify: {printable(line)}", err=True)


@contextmanager
def _progress(label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Progress on stderr: a bar on a terminal, else a line at once where a model is loaded, and one every half minute."""
    from robustify.redaction import UNMUTED

    if UNMUTED.isatty():
        from tqdm import tqdm

        scaled = unit == "B"
        with tqdm(
            total=total,
            desc=label,
            unit=unit,
            unit_scale=scaled,
            file=UNMUTED,
            dynamic_ncols=True,
            leave=not scaled,
        ) as bar:

            def advance(n: int) -> None:
                if n and bar.desc.startswith(LOADING):
                    bar.set_description(label.removeprefix(LOADING), refresh=False)
                bar.update(n)

            yield advance
        return
    start = latest = time.monotonic()
    done, over = 0, threading.Event()
    name, words = label.removeprefix(LOADING), {"B": "bytes read", "req": "requests"}[unit]

    def count(n: int) -> None:
        nonlocal done, latest
        done += n
        if (now := time.monotonic()) - latest >= EVERY_SECONDS:
            latest, took = now, now - start
            left = f", about {took / done * (total - done):.0f} s left" if 0 < done < total else ""
            UNMUTED.write(f"robustify: {name}: {done:,} of {total:,} {words} in {took:.0f} s{left}\n")

    def wait() -> None:
        # Loading a model, or one long batch, makes no progress, and is heard of all the same.
        while not over.wait(max(EVERY_SECONDS, 1.0)):
            count(0)

    if name != label:
        UNMUTED.write(f"robustify: {label} ({counted(total, 'request')}) ...\n")
    speaker = threading.Thread(target=wait, daemon=True)
    speaker.start()
    try:
        yield count
    finally:
        over.set()
        speaker.join()


@contextmanager
def reading(path: str) -> Iterator[Callable[[int], None]]:
    """Progress through a file on stderr, in bytes."""
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    with nullcontext(_unseen) if is_quiet() else _progress(printable(path), size, "B") as progress:
        yield progress


def watcher(shown: bool | None = None) -> Callable[[str, int], AbstractContextManager[Callable[[int], None]]]:
    """A watch that shows each model's progress on stderr. `shown` False: silent, as under `--quiet`."""

    def watch(label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(_unseen) if shown is False or is_quiet() else _progress(label, total, "req")

    return watch


def _unseen(_: int) -> None:
    """Progress that is not shown."""
