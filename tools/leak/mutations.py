"""Controls taken away one by one: the leak test must fail without each of them, or it proves nothing."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

CONTROLS = ("redaction", "firewall", "quiet", "arguments", "sealed cache")


@contextlib.contextmanager
def without(control: str) -> Iterator[None]:
    """Run what is inside without this control; "" takes none away."""
    with contextlib.ExitStack() as stack:
        for patch in _patches(control):
            stack.enter_context(patch)
        if control:
            from robustify.redaction import firewall

            firewall.down()
        yield


def _patches(control: str) -> Iterator[Any]:
    match control:
        case "":
            return
        case "redaction":
            from robustify.item import Item

            yield mock.patch.object(Item, "__repr__", lambda self: f"Item({self.stem!r}, {self.choices!r})")
        case "firewall":
            yield mock.patch("robustify.redaction.firewall.up")
            yield mock.patch(
                "robustify.redaction.firewall.told", lambda error, *_: [f"{type(error).__name__}: {error}"]
            )
        case "quiet":
            yield mock.patch("robustify.ask.quieted", contextlib.nullcontext)
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
