"""Audits of one set without a language model: all items by rules and fitted scorers, and the weights of adjusted.json.

For each set, results/atlas/adjusted.json has `n`, the `worth` of the weights for form and words, their `status`, the number
of items that `criterion: fdr` flags, and for each auditor, among them the sentence encoder, the points above chance on all
items (`before`) and under the weights (`value`, `ci`, `p_holm`).
"""

from pathlib import Path

from bench.atlas.fitted import Entry, over_seeds
from bench.atlas.sample import Data, loaded, paths_of
from robustify.items.answers import Answers
from robustify.judging.adjusted import balanced
from robustify.judging.baselines.artifact_probe import ProbeSettings
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules, context
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.models.downloads import cache_folder
from robustify.pipeline.asked import bench_facts
from robustify.pipeline.by_meaning import ask_by_meaning
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


def adjusted(data: Data, _work: Path) -> Entry:
    """Return the shortcuts that weights leave on a set."""
    bench = loaded(data)
    meant = ask_by_meaning(bench.items, ProbeSettings(), cache_folder(), keep=True)
    answers = Answers.concat([guess(bench.items), Answers.of(meant)])
    ctx = context(answers, bench_facts(bench), Rules(), bench.items)
    found = balanced(ctx)
    assert found is not None
    part = found.part.model_dump(mode="json", include={"status", "n", "worth", "left"})
    return {**part, "flagged": int(ctx.parts.flagged.sum())}
