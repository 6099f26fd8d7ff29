"""Shortcuts that weights leave on each set, found by independent auditors: results/atlas/adjusted.json.

No language model is asked. The weights depend on form and words, and the sentence encoder audits. For each set, the file
has `n`, the `worth` of the weights, their `status`, the number of items that `criterion: fdr` flags, and for each auditor
the points above chance on all items (`before`) and under the weights (`value`, `ci`, `p_holm`).
"""

from pathlib import Path

from bench.atlas.fitted import Entry
from bench.atlas.sample import Data, loaded
from robustify.items.answers import Answers
from robustify.judging.adjusted import balanced
from robustify.judging.baselines.artifact_probe import ProbeSettings
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules, context
from robustify.models.downloads import cache_folder
from robustify.pipeline.asked import bench_facts
from robustify.pipeline.by_meaning import ask_by_meaning


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
