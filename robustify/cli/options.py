"""Options that several commands share, and the watch that shows progress."""

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tqdm import tqdm


F = TypeVar("F", bound=Callable[..., object])
PATH = click.Path(path_type=Path)
RUN = click.argument("folder", metavar="RUN", type=PATH)


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


def cache_dir(command: F) -> F:
    """`--cache-dir`: where models and scores are kept."""
    return click.option(
        "--cache-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where models are kept [default: $ROBUSTIFY_CACHE or ~/.cache/robustify].",
    )(command)


def screening(command: Callable[..., object]) -> Callable[..., object]:
    """The options that choose the rule of the screen; the command gets those that were given as `rule`."""

    @functools.wraps(command)
    def wrapped(
        *, criterion: str | None, mode: str | None, probe_vote: str | None, **given: object
    ) -> object:
        rule = chosen(screen__criterion=criterion, screen__mode=mode, screen__probe_vote=probe_vote)
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


def chosen(**options: object) -> dict[str, object]:
    """The options that were given, under their dotted config names (`screen__mode` is `screen.mode`)."""
    return {name.replace("__", "."): value for name, value in options.items() if value is not None}


def default_cache(given: Path | None) -> Path:
    """The cache folder in force."""
    from robustify.models import cache_folder

    return cache_folder(given)


def printable(text: str) -> str:
    """Text without control characters: names from files must not steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _advance(bar: "tqdm[Any]", n: int) -> None:
    bar.update(n)


EVERY_SECONDS = 30.0


@contextmanager
def reading(path: str) -> Iterator[Callable[[int], None]]:
    """Progress through a file on stderr, in bytes: a bar on a terminal, else a line every half minute."""
    from tqdm import tqdm

    from robustify.redaction.silence import UNMUTED

    size = os.path.getsize(path) if os.path.isfile(path) else 0
    start = latest = time.monotonic()
    done = 0

    def line(n: int) -> None:
        nonlocal done, latest
        done += n
        if time.monotonic() - latest >= EVERY_SECONDS:
            latest = time.monotonic()
            UNMUTED.write(f"robustify: {done:,} of {size:,} bytes read in {latest - start:.0f} s\n")

    bar: tqdm[Any]
    with tqdm(
        total=size, unit="B", unit_scale=True, file=UNMUTED, disable=not UNMUTED.isatty(), leave=False
    ) as bar:
        yield (lambda n: _advance(bar, n)) if UNMUTED.isatty() else line


def watcher(shown: bool) -> Callable[[str, int], AbstractContextManager[Callable[[int], None]]]:
    """A watch with one progress bar a model on stderr; silent when not shown."""
    from tqdm import tqdm

    from robustify.redaction.silence import UNMUTED

    @contextmanager
    def watch(label: str, total: int) -> Iterator[Callable[[int], None]]:
        bar: tqdm[Any]
        with tqdm(
            total=total, desc=label, unit="req", file=UNMUTED, disable=not shown, dynamic_ncols=True
        ) as bar:
            yield lambda n: _advance(bar, n)

    return watch
