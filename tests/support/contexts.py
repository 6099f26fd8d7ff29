"""Made-up asked items and parts, for measures that need no more of them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from robustify.judging.context import Parts
from robustify.judging.response_data import ResponseData


class _MadeUp(SimpleNamespace):
    first_rows = ResponseData.first_rows
    row_groups = ResponseData.row_groups


def made_up(models: Sequence[str], groups: Any = None, **more: Any) -> Any:
    """Return what a measure reads of the items that were asked; `more`: answers, index, full and the like."""
    return _MadeUp(models=tuple(models), groups=groups, **more)


def parts_of(kept: Any, cloze: Any = None, topic: Any = None, **more: Any) -> Parts:
    """Return parts in which the items that are not `kept` (n,) are flagged, all of one topic and fit for cloze."""
    kept = np.asarray(kept, dtype=bool)
    fit = np.ones(len(kept), dtype=bool) if cloze is None else cloze
    of = np.zeros(len(kept), dtype=np.int64) if topic is None else np.asarray(topic, dtype=np.int64)
    return Parts(~kept, kept, fit, np.full(len(kept), np.nan), of, **more)
