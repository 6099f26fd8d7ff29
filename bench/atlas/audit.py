"""Audit of one set: all items without a model, and a sample with the two small models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.atlas.fitted import Entry, over_seeds
from bench.atlas.sample import Data, items_of, paths_of, sampled, written
from robustify.freeform.running import Watch
from robustify.judging.baselines.heuristics import guess
from robustify.judging.screen.consensus import screened
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import cast_votes
from robustify.models.downloads import cache_folder
from robustify.pipeline.asked import unwatched
from robustify.pipeline.config import load, parse
from robustify.pipeline.steps import robustify
from robustify.runs.run import MANIFEST, Run, open_run

ASKED = Path(__file__).with_name("asked.yaml")
SAMPLE = 200
"""Items per set that the models are asked."""
BY_PLACE = ("first_option", "last_option", "most_common_position")
"""Heuristics that use the key's position in the file, which is not a cue if options are shuffled."""
TWO = ScreenRules(criterion="unanimous", mode="text")


def without_models(name: str, data: Data, work: Path) -> Entry:
    """Judge all items of a set by heuristics, probe and `criterion: fdr`; keep the run's folder in `work`."""
    config = parse({"name": name, "sensitivity": "public", "data": paths_of(data), "explore": False}, name)
    run = robustify(config, work / f"free-{name}", work / "cache")
    items, tree = run.items, run.summary.tree()
    assert items is not None
    rows = {one: parts["all"] for one, parts in tree["measures"]["rule"]["rule"].items()}
    return {
        "name": name,
        **{field: tree["benchmark"][field] for field in ("n_items", "n_quarantined", "option_counts")},
        "chance": tree["benchmark"]["chance_accuracy"],
        "topics": tree["benchmark"]["topics"],
        "defects": {kind: found["n"] for kind, found in tree["benchmark"]["defects"].items()},
        "key_spread": _only(tree["benchmark"]["key_spread"], "shares", "p"),
        "sha256": run.manifest["data"]["sha256"],
        "heuristics": {
            one: _only(row, "value", "n", "ci", "ties", "p", "p_holm") for one, row in rows.items()
        },
        "best_heuristic": min((one for one in rows if one not in BY_PLACE), key=lambda one: rows[one]["p"]),
        "fitted": over_seeds(items, guess(items), ScreenRules()),
        "by_rule": {
            "fdr": _only(tree["screen"], "flagged", "false_share"),
            "cues_of_flagged": tree["evidence"]["cues"],
            "state": tree["state"],
        },
    }


def with_models(
    name: str, data: Data, work: Path, watch: Watch = unwatched, *, ask: bool = True
) -> Entry | None:
    """Return the audit of a sample by the models of asked.yaml; None if it was not asked and must not be.

    Earlier answers are kept, and the scores of an interrupted run are in the cache.
    """
    folder = work / f"run-{name}"
    if not (folder / MANIFEST).is_file():
        if not ask:
            return None
        written(sampled(items_of(data), SAMPLE), work / "sample" / f"{name}.jsonl")
        place = work / f"{name}.yaml"
        place.write_text(f"extends: {ASKED}\nname: {name}\ndata: sample/{name}.jsonl\n", encoding="utf-8")
        robustify(load(place), folder, cache_folder(), watch)
    return of_run(open_run(folder))


def of_run(run: Run) -> Entry:
    """Return accuracies by view, the share that both models get right without the question, and the filter's flags.

    The second number is by text, in one order. The filter uses the models' votes.
    """
    items, tree = run.items, run.summary.tree()
    index = item_index(run.answers, [item.id for item in items])
    both = screened(cast_votes(run.answers, TWO, index), TWO).chance().deciding
    return {
        "n": len(items),
        "accuracy": {model: _accuracy(tree["measures"]["model"], model) for model in tree["models"]},
        "longest_gap": {
            m: _only(parts["all"], "value", "n", "ci", "mde")
            for m, parts in tree["measures"]["model"]["longest_gap"].items()
        },
        "both_right": {
            "flagged": both.share.json(),
            "expected": both.expected,
            "p": both.p,
            "excess": {"value": both.excess, "ci": _listed(both.excess_ci)},
            "latent": {"value": both.latent, "n": both.n, "ci": _listed(both.latent_ci)},
            "false_share": both.false_share.json(),
            "jaccard_with_fdr": next(r["jaccard"] for r in tree["sensitivity"] if r["name"] == "unanimous"),
        },
        "fdr": _only(tree["screen"], "flagged", "false_share"),
        "agreement": _only(tree["screen"]["agreement"], "fleiss_kappa", "ratio"),
        "fitted": over_seeds(items, run.answers, ScreenRules(mode="text")),
        "state": tree["state"],
    }


def _accuracy(scores: dict[str, Any], model: str) -> Entry:
    views = {"full": "full", "choices_only": "choices_only", "cloze": "cloze_chars"}
    parts = ("all", "kept", "flagged")
    return {
        view: {part: _only(scores[field][model][part], "value", "n", "ci") for part in parts}
        for view, field in views.items()
        if model in scores.get(field, {})
    }


def _only(row: dict[str, Any], *fields: str) -> Entry:
    return {field: row[field] for field in fields}


def _listed(ends: Sequence[float] | None) -> list[float] | None:
    return None if ends is None else list(ends)
