"""Made-up asked items and parts for measures that need no more of them, and contexts of made-up items."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from robustify.items.answers import Answer, Answers
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Context, Parts, Rules, context
from robustify.judging.response_data import Facts, ResponseData


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


def context_of(items: Sequence[Item], rows: Sequence[Answer] = (), rules: Rules | None = None) -> Context:
    """Return the context of judging these items with the answers of rules, and with these rows."""
    answers = Answers.concat([guess(items), Answers.of(rows)])
    return context(answers, Facts("made up"), rules or Rules(), items)
