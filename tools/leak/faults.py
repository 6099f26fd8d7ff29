"""Faults that are put into a command, each raised with the text of an item, and controls that are taken away.

The leak test must fail without each of the controls, or it proves nothing. Only the leak test's own entry puts faults
in place; the program has no switch for it.
"""

import contextlib
import ctypes
import errno
import importlib
import inspect
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

Fired = list[str]
SITES_OF = (
    "robustify.pipeline", "robustify.cli.data", "robustify.writers.public", "robustify.writers.restricted",
)  # fmt: skip

CONTROLS = ("redaction", "firewall", "quiet", "arguments", "sealed cache")


def sites() -> list[str]:
    """Every function of ours that the main job calls by name, as `module:function`."""
    found = set()
    for name in SITES_OF:
        for key, value in vars(importlib.import_module(name)).items():
            ours = inspect.isfunction(value) and value.__module__.startswith("robustify.")
            if ours and not key.startswith("_"):
                found.add(f"{value.__module__}:{value.__name__}")
    return sorted(found)


@contextlib.contextmanager
def fault(name: str, text: str) -> Iterator[Fired]:
    """Put one fault in place; what it gives says how often the fault was met."""
    fired: Fired = []
    with contextlib.ExitStack() as stack:
        for target, make in _targets(name, text, fired):
            stack.enter_context(_replaced(target, make))
        yield fired


def _targets(name: str, text: str, fired: Fired) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    kind, _, rest = name.partition(":")
    match kind:
        case "":
            return
        case "site":
            yield rest, lambda _: _raising(ValueError(f"cannot use {text!r}"), fired)
        case "engine":
            yield "robustify.engines.local.engine:HF.loglikelihoods", lambda real: _engine(rest, real, fired)
        case "move" | "sync":
            number = getattr(errno, rest)
            target = "os:replace" if kind == "move" else "os:fsync"
            yield target, lambda _: _raising(OSError(number, os.strerror(number), text), fired)
        case _:
            raise ValueError(f"no such fault: {name}")


@contextlib.contextmanager
def _replaced(target: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a function wherever our modules hold it by name, and put it back."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    real = getattr(owner, name)
    places = [owner] + [
        m for n, m in list(sys.modules.items())
        if n.startswith("robustify") and m is not owner and vars(m).get(name) is real
    ]  # fmt: skip
    fake = make(real)
    for place in places:
        setattr(place, name, fake)
    try:
        yield
    finally:
        for place in places:
            setattr(place, name, real)


def _raising(error: BaseException, fired: Fired) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        fired.append(type(error).__name__)
        raise error

    return fail


def _engine(kind: str, real: Callable[..., Any], fired: Fired) -> Callable[..., Any]:
    """An engine that fails with the prompt it was given, in one of the ways engines fail."""

    def loglikelihoods(self: Any, requests: Any, *more: Any) -> Any:
        fired.append(kind)
        prompt = requests[0].context + requests[0].continuation
        match kind:
            case "raises":
                raise RuntimeError(f"shape mismatch for prompt {prompt!r}")
            case "chained":
                try:
                    int(prompt)
                except ValueError as error:
                    raise KeyError(prompt) from error
            case "memory":
                raise MemoryError(prompt)
            case "interrupt":
                raise KeyboardInterrupt(prompt)
            case "exits":
                sys.exit(prompt)
            case "nan":
                from robustify.engines.protocols import Logprob

                self._check_numbers({request: float("nan") for request in requests})
                return [Logprob(float("nan"), 1) for _ in requests]
            case "prints":
                print_everywhere(prompt)
                return real(self, requests, *more)
            case "worker":
                _worker_dies(prompt)
                raise RuntimeError(prompt)
            case "aborts":
                print_everywhere(prompt)
                os.abort()
        raise ValueError(kind)

    return loglikelihoods


def print_everywhere(prompt: str) -> None:
    """On every way from a library to a terminal or a log."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        print(prompt, file=stream)
    for fd in (1, 2):
        os.write(fd, prompt.encode())
    libc = ctypes.CDLL(None)
    libc.printf(b"%s\n", prompt.encode())
    logging.getLogger("some.library").error("cannot take %r", prompt)
    logging.getLogger("some.library").warning("%d", prompt)
    warnings.warn(f"odd prompt {prompt}", RuntimeWarning, stacklevel=1)
    subprocess.run(["/bin/sh", "-c", "cat; cat >&2"], input=prompt.encode(), check=False)
    sys.stdout.flush()


def _worker_dies(prompt: str) -> None:
    child = os.fork()
    if child == 0:
        os.write(2, prompt.encode())
        os.abort()
    os.waitpid(child, 0)


@contextlib.contextmanager
def without(control: str) -> Iterator[None]:
    """Run what is inside without this control; "" takes none away."""
    with contextlib.ExitStack() as stack:
        for patch in _patches(control):
            stack.enter_context(patch)
        if control:
            from robustify.redaction import firewall

            firewall.remove()
        yield


def _patches(control: str) -> Iterator[Any]:
    match control:
        case "":
            return
        case "redaction":
            from robustify.item import Item

            yield mock.patch.object(Item, "__repr__", lambda self: f"Item({self.stem!r}, {self.choices!r})")
        case "firewall":
            yield mock.patch("robustify.redaction.firewall.install")
            with_message = lambda error, *_: [f"{type(error).__name__}: {error}"]  # noqa: E731
            yield mock.patch("robustify.redaction.firewall.bug_lines", with_message)
        case "quiet":
            yield mock.patch("robustify.ask.muted", contextlib.nullcontext)
        case "arguments":
            yield mock.patch("robustify.cli.concealed", lambda line, _: line)
        case "sealed cache":
            from robustify import pipeline

            real = pipeline.open_scorer
            yield mock.patch.object(
                pipeline, "open_scorer", lambda model, cache, seal=None: real(model, cache)
            )
        case _:
            raise ValueError(f"no such control: {control}")
