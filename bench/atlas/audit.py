"""Audit of each set without a language model, and the comparison of all sets in results/atlas/index.json.

`sets` of index.json are in descending order of the lower bound of the latent rate:

- `n` items, `chance`: mean of 1/k.
- `probe`, `scorer`, `latent`, `residual`, `flagged`: as in `over_seeds`. Of `probe` also `p`, and `p_corrected` (Holm over
  the sets).
- `strongest_cue`: the cue whose own accuracy has the highest lower bound.
- `rules`: number of pairs of a set and a heuristic that ignores positions, and how many are `above_chance` after Holm's
  correction.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from bench.atlas.fitted import SEEDS, Entry, over_seeds
from bench.results import publish, read
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.tests import LEVEL, holm
from robustify.pipeline.config import parse
from robustify.pipeline.steps import robustify
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load_many
from robustify.wings import wings

Data = str | list[str]
BY_PLACE = ("first_option", "last_option", "most_common_position")
"""Heuristics that use the key's position in the file, which is not a cue if options are shuffled."""


def paths_of(data: Data) -> list[str]:
    """Return the files of a set, with `$NAME` in a path expanded."""
    return [os.path.expandvars(path) for path in ([data] if isinstance(data, str) else data)]


def loaded(data: Data) -> Loaded:
    """Load a set. Raise `DataError` if a file is missing or contains no items."""
    return load_many([Source(path=path) for path in paths_of(data)], UNGUARDED)


def items_of(data: Data) -> Sequence[Item]:
    """Return all items of a set."""
    return loaded(data).items


def without_models(name: str, data: Data, work: Path) -> Entry:
    """Judge all items of a set by heuristics, probe and `criterion: fdr`; keep the run's folder in `work`."""
    config = parse({"name": name, "sensitivity": "public", "data": paths_of(data), "explore": False}, name)
    run = robustify(config, work / f"free-{name}", work / "cache", wings())
    items, tree = run.items, run.summary.tree()
    assert items is not None
    rules = tree["measures"]["rule"]["rule"].items()
    return {
        "n_items": tree["benchmark"]["n_items"],
        "chance": tree["benchmark"]["chance_accuracy"],
        "sha256": run.manifest["data"]["sha256"],
        "heuristics": {one: {of: parts["all"][of] for of in ("value", "p")} for one, parts in rules},
        "fitted": over_seeds(items, guess(items), ScreenRules()),
    }


def write_index(folder: Path, names: Sequence[str]) -> None:
    """Write index.json from the files of the sets; list sets without a file under `left_out`."""
    there = {name: found for name in names if (found := read(folder / f"{name}.json"))}
    rows = {name: _row(found) for name, found in there.items()}
    tested = [r["p"] for of in there.values() for one, r in of["heuristics"].items() if one not in BY_PLACE]
    p = [1.0 if row["probe"]["p"] is None else row["probe"]["p"] for row in rows.values()]
    for row, corrected in zip(rows.values(), holm(p), strict=True):
        row["probe"]["p_corrected"] = corrected
    order = sorted(rows, key=lambda name: -rows[name]["latent"]["ci"][0])
    index = {
        "says": "how the fields are to be read: bench/atlas/audit.py",
        "seeds": SEEDS,
        "rules": {"tested": len(tested), "above_chance": sum(p <= LEVEL for p in holm(tested))},
        "sets": {name: rows[name] for name in order},
        "left_out": [name for name in names if name not in rows],
    }
    publish(folder / "index.json", index)


def _row(found: Entry) -> Entry:
    fitted = found["fitted"]
    cue = max(fitted["cues"], key=lambda one: fitted["cues"][one]["ci"][0])
    return {
        "n": found["n_items"],
        "chance": found["chance"],
        "probe": {**fitted["probe"], "p": fitted["probe_p"]},
        **{name: fitted[name] for name in ("scorer", "latent", "residual", "flagged")},
        "strongest_cue": {"cue": cue, **{of: fitted["cues"][cue][of] for of in ("value", "n", "ci")}},
    }
