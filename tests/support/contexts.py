"""A context of made-up parts, for measures that need no more of it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from robustify.judging.context import Context, Parts


class _MadeUp(SimpleNamespace):
    first_rows = Context.first_rows
    row_groups = Context.row_groups


def made_up(names: Sequence[str], voters: Sequence[str] = (), parts: Parts | None = None, **more: Any) -> Any:
    """Return what a measure reads of a context; `more`: answers, index, full and the like."""
    known = parts or SimpleNamespace(groups=None)
    return _MadeUp(names=tuple(names), votes=SimpleNamespace(voters=voters), parts=known, **more)
