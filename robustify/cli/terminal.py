"""Print results to stdout, and messages and progress to stderr."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import GuardrailError, counted

if TYPE_CHECKING:
    from robustify.judging.summary.result import State
    from robustify.models.costs import Stopwatch


def printable(text: str) -> str:
    """Return text with unprintable characters replaced, so that names from files cannot control a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def is_set(name: str) -> bool:
    """Return whether the option `--json` or `--quiet` is set."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"robustify.{name}"))


class Output:
    """Record of whether a command has printed its JSON object, so that a later error does not print a second object."""

    def __init__(self) -> None:
        self.has_json = False


def print_json(tree: object) -> None:
    """Print a JSON object, and record in the `Output` of the program that it was printed."""
    click.echo(json.dumps(tree))
    context = click.get_current_context(silent=True)
    if context is not None and (output := context.find_object(Output)) is not None:
        output.has_json = True


def print_result(tree: object, lines: Iterable[str], shown: Callable[[str], str] = printable) -> int:
    """Print a result as one JSON object (`--json`) or as lines, unless `--quiet` is set. Return exit code 0."""
    if is_set("json"):
        print_json(tree)
    elif not is_set("quiet") and (text := "\n".join(map(shown, lines))):
        click.echo(text)
    return 0


def print_lines(*lines: object) -> int:
    """Print lines, or a JSON object that contains the lines as `printed`. Return exit code 0."""
    texts = [str(line) for line in lines]
    return print_result({"printed": texts}, texts)


def state_code(state: "State", *, strict: bool = False) -> int:
    """Return the exit code for the state of a run: 7 if it failed, and otherwise 0. If `strict`, also return 7 if it was
    not evaluated."""
    failing = ("failed", "not evaluated") if strict else ("failed",)
    return GuardrailError.exit_code if state in failing else 0


def say(line: str) -> None:
    """Print a message to stderr, unless `--quiet` is set."""
    if not is_set("quiet"):
        click.echo(f"robustify: {printable(line)}", err=True)


STEP_SECONDS, EVERY_SECONDS, TICK_SECONDS = 2.0, 30.0, 1.0
"""Time before a step is announced, and least time between two lines of a log, and between two looks of a bar."""
LOADING = "loading "
"""Prefix of a progress label until the model has returned its first result, which is what the cache has."""
Advance = Callable[[int], None]


def watcher(shown: bool | None = None) -> Callable[[str, int], AbstractContextManager[Advance]]:
    """Return a function that shows progress on stderr, or shows nothing if `shown` is False."""

    def watch(label: str, total: int) -> AbstractContextManager[Advance]:
        from robustify.base.redaction import UNMUTED

        if shown is False or is_set("quiet"):
            return nullcontext(lambda _: None)
        if not total:
            return step(label, shown)
        return _watched(label, total, UNMUTED, _bar if UNMUTED.isatty() else _lines)

    return watch


@contextmanager
def _watched(label: str, total: int, err: Any, display: Any) -> Iterator[Advance]:
    """Show progress at a rate that excludes loading and cached results. On interruption, report how much is saved."""
    from robustify.models.costs import Stopwatch

    name, watch = label.removeprefix(LOADING), Stopwatch(lambda _: show(name, watch))
    try:
        with display(label, total, err) as show:
            if name == label:
                watch(0)
            yield watch
    except (KeyboardInterrupt, SystemExit):
        if name != label:
            kept = (
                f"{max(0, watch.cached) + watch.done:,} of {counted(total, 'request')} are kept in the cache"
            )
            err.write(f"robustify: {name}: {kept}; run the same command to go on\n")
        raise


@contextmanager
def step(label: str, shown: bool | None = None) -> Iterator[Advance]:
    """Print a line every `EVERY_SECONDS` during a step of unknown length. On a terminal, or if `shown`, print the first
    line after `STEP_SECONDS`."""
    from robustify.base.redaction import UNMUTED

    begun, ended, quiet = time.monotonic(), threading.Event(), is_set("quiet")

    def tell() -> None:
        wait = STEP_SECONDS if shown or UNMUTED.isatty() else EVERY_SECONDS
        while not ended.wait(wait) and not quiet:
            UNMUTED.write(f"robustify: {label} ... ({time.monotonic() - begun:.0f} s)\n")
            UNMUTED.flush()
            wait = EVERY_SECONDS

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield lambda _: None
    finally:
        ended.set()
        thread.join()


@contextmanager
def _bar(label: str, total: int, err: Any) -> Iterator[Callable[[str, "Stopwatch"], None]]:
    from tqdm import tqdm

    ended = threading.Event()
    with tqdm(total=total, desc=label, unit="req", file=err, dynamic_ncols=True) as bar:

        def tick() -> None:
            while not ended.wait(TICK_SECONDS):
                bar.refresh()

        def show(name: str, watch: "Stopwatch") -> None:
            if not watch.done:
                bar.initial, bar.start_t = watch.cached, time.time()
            if watch.cached + watch.done:
                bar.set_description(name, refresh=False)
            bar.update(watch.cached + watch.done - bar.n)

        threading.Thread(target=tick, daemon=True).start()
        try:
            yield show
        finally:
            ended.set()


@contextmanager
def _lines(label: str, total: int, err: Any) -> Iterator[Callable[[str, "Stopwatch"], None]]:
    """Print progress lines: one when a model is loaded, and then at most one every `EVERY_SECONDS`."""
    latest, announced = time.monotonic(), not label.startswith(LOADING)

    def show(name: str, watch: "Stopwatch") -> None:
        nonlocal latest, announced
        done = watch.cached + watch.done
        if not announced and watch.cached > 0:
            err.write(
                f"robustify: {name}: {watch.cached:,} of {counted(total, 'request')} are in the cache\n"
            )
        announced = True
        if done and time.monotonic() - latest >= EVERY_SECONDS:
            latest = time.monotonic()
            time_left = (
                f", about {watch.pace * (total - done):.0f} s left" if watch.pace and done < total else ""
            )
            took = f"{done:,} of {total:,} requests in {watch.seconds:.0f} s"
            err.write(f"robustify: {name}: {took}{time_left}\n")

    if label.startswith(LOADING):
        err.write(f"robustify: {label} ({counted(total, 'request')}) ...\n")
    yield show
