"""A context of made-up parts, for measures that need no more of it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from robustify.judging.context import Context, Parts


class _MadeUp(SimpleNamespace):
    first_rows = Context.first_rows
    row_groups = Context.row_groups


def made_up(names: Sequence[str], voters: Sequence[str] = (), parts: Parts | None = None, **more: Any) -> Any:
    """Return what a measure reads of a context; `more`: answers, index, full and the like."""
    known = parts or SimpleNamespace(groups=None)
    return _MadeUp(
        names=tuple(names), votes=SimpleNamespace(voters=voters), parts=known, groups=known.groups, **more
    )


def parts_of(kept: Any, cloze: Any = None, topic: Any = None, **more: Any) -> Parts:
    """Return parts in which the items that are not `kept` (n,) are flagged, all of one topic and fit for cloze."""
    kept = np.asarray(kept, dtype=bool)
    fit = np.ones(len(kept), dtype=bool) if cloze is None else cloze
    of = np.zeros(len(kept), dtype=np.int64) if topic is None else np.asarray(topic, dtype=np.int64)
    return Parts(~kept, kept, fit, np.full(len(kept), np.nan), of, **more)
