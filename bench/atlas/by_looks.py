"""Points that models owe to options that look like keys, with the reader of a run, and with one fitted to redrawn keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import process_time

import numpy as np

from bench.atlas.fitted import Entry, tie_fair
from robustify.base.arrays import Ints
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules, context
from robustify.judging.looks.estimate import estimates
from robustify.judging.looks.read_options import UNREAD, PickRows, ReadOptions
from robustify.judging.response_data import Facts
from robustify.judging.stats.intervals import rate
from robustify.judging.summary.model_parts import Looks

CLAIMED = "claimed"


def by_looks(items: Sequence[Item], picks: Mapping[str, Ints]) -> Entry:
    """Return what looks bring to each model, from its picks (n,), which are -1 if not read.

    `models` and their range count readable answers only; `claimed_if_unread` are the claims that hold whatever the
    unreadable ones were. `reader` is how often the reader finds the key. `placebo` is the same with a reader fitted to
    redrawn keys. `processor_seconds` are those of the estimates without the reader.
    """
    options, hits = _read(items, items)
    start = process_time()
    found = {name: of.part for name, of in estimates(options, _rows(options, picks)).items()}
    seconds = process_time() - start
    every = estimates(options, {name: options.rows(pick) for name, pick in picks.items()})
    draw = np.random.default_rng(0)
    redrawn = [item.with_choices(item.choices, int(draw.integers(item.k))) for item in items]
    placebo, by_chance = _read(items, redrawn)
    without = {name: of.part for name, of in estimates(placebo, _rows(placebo, picks)).items()}
    return {
        "reader": hits,
        **_claims(found),
        "claimed_if_unread": sum(of.part.state == CLAIMED for of in every.values()),
        "models": {name: _entry(part) for name, part in found.items()},
        "placebo": {"reader": by_chance, **_claims(without)},
        "processor_seconds": round(seconds, 1),
    }


def _read(items: Sequence[Item], fitted: Sequence[Item]) -> tuple[ReadOptions, Entry]:
    """Return options as they look to a reader fitted to these keys, and how often it finds these keys."""
    ctx = context(guess(fitted), Facts("set", {item.id: item.topic for item in items}), Rules(), fitted)
    reader = ctx.screen.ranker.by_options()
    assert reader is not None, "the set has enough items for a reader"
    key, k = np.array([item.key for item in fitted]), np.array([item.k for item in fitted])
    hits = {
        **rate(tie_fair(reader.logits, key, k), ctx.responses.groups).json(),
        "chance": float(np.mean(1 / k)),
    }
    options = ReadOptions.from_logits(reader.logits, reader.mask, key, ctx.responses.groups)
    return replace(options, key=np.array([item.key for item in items])), hits


def _rows(options: ReadOptions, picks: Mapping[str, Ints]) -> dict[str, PickRows]:
    """Return the rows with a readable answer of each model."""
    every = {name: options.rows(pick) for name, pick in picks.items()}
    return {
        name: PickRows(of.item[read], of.pick[read], of.credit[read], of.position[read])
        for name, of in every.items()
        for read in [of.pick != UNREAD]
    }


def _claims(found: Mapping[str, Looks]) -> Entry:
    values = [part.value for part in found.values() if part.value is not None]
    claimed = sum(part.state == CLAIMED for part in found.values())
    return {"claimed": claimed, "of": len(found), "range": [min(values), max(values)] if values else None}


def _entry(part: Looks) -> Entry:
    """Return the value, interval, state, and sources of a model."""
    keep = {"value", "n", "ci", "state", "wrong_picks"}
    sources = {name: of.model_dump(mode="json") for name, of in part.sources.items()}
    return {**part.model_dump(mode="json", include=keep), "sources": sources}
