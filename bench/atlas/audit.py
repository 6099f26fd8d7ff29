"""Audit of all items of one set without a model."""

from pathlib import Path

from bench.atlas.fitted import Entry, over_seeds
from bench.atlas.sample import Data, paths_of
from robustify.judging.baselines.heuristics import guess
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.pipeline.config import parse
from robustify.pipeline.steps import robustify

BY_PLACE = ("first_option", "last_option", "most_common_position")
"""Heuristics that use the key's position in the file, which is not a cue if options are shuffled."""


def without_models(name: str, data: Data, work: Path) -> Entry:
    """Judge all items of a set by heuristics, probe and `criterion: fdr`; keep the run's folder in `work`."""
    config = parse({"name": name, "sensitivity": "public", "data": paths_of(data), "explore": False}, name)
    run = robustify(config, work / f"free-{name}", work / "cache")
    items, tree = run.items, run.summary.tree()
    assert items is not None
    rows = {one: parts["all"] for one, parts in tree["measures"]["rule"]["rule"].items()}
    fields, bench = ("value", "n", "ci", "ties", "p", "p_holm"), tree["benchmark"]
    return {
        "name": name,
        "n_items": bench["n_items"],
        "chance": bench["chance_accuracy"],
        "defects": {kind: found["n"] for kind, found in bench["defects"].items()},
        "sha256": run.manifest["data"]["sha256"],
        "heuristics": {one: {field: row[field] for field in fields} for one, row in rows.items()},
        "fitted": over_seeds(items, guess(items), ScreenRules()),
    }
