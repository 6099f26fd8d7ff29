"""Shortcuts that weights leave on each set, found by independent auditors: results/atlas/adjusted.json.

No language model is asked. The weights depend on form and words, and the sentence encoder audits. For each set, the file
has `n`, the `worth` of the weights, their `status`, and the number of items that `criterion: fdr` flags.

For each auditor, it has the points above chance on all items (`before`), on the kept items (`kept`, with refitted probes),
and under the weights (`value`, `ci`, `p_holm`).
"""

from pathlib import Path

import numpy as np

from bench.atlas.fitted import Entry, tie_fair
from bench.atlas.sample import Data, loaded
from robustify.base.arrays import Floats
from robustify.items.answers import Answers
from robustify.judging.adjusted import MOST_AUDITED, Balanced, balanced
from robustify.judging.audit.probing import FROM_TEXT, probed
from robustify.judging.baselines.artifact_probe import ProbeSettings
from robustify.judging.baselines.conditional_logit import drawn
from robustify.judging.baselines.heuristics import guess
from robustify.judging.baselines.meaning import VIEW as MEANING
from robustify.judging.context import Context, Rules, context
from robustify.models.downloads import cache_folder
from robustify.pipeline.asked import asked_again, bench_facts, rules
from robustify.pipeline.by_meaning import ask_by_meaning
from robustify.pipeline.config import parse
from robustify.runs.run import Run


def adjusted(data: Data, _work: Path) -> Entry:
    """Return the shortcuts that weights leave on a set, without asking a language model."""
    bench = loaded(data)
    meant = ask_by_meaning(bench.items, ProbeSettings(), cache_folder(), keep=True)
    answers = Answers.concat([guess(bench.items), Answers.of(meant)])
    ctx = context(answers, bench_facts(bench), Rules(), bench.items)
    return left_to_find(ctx, balanced(ctx))


def context_of(run: Run) -> Context:
    """Return the context from which a run was judged."""
    config = parse(run.manifest["config"], run.manifest["config"]["name"])
    asked = asked_again(run, config)
    return context(asked.answers, asked.facts, rules(config), asked.items)


def left_to_find(ctx: Context, found: Balanced | None) -> Entry:
    """Return the gains of auditors on all items, on the kept items, and under the weights."""
    assert found is not None
    part, kept = found.part.model_dump(mode="json"), _on_kept(ctx)
    return {
        **{field: part[field] for field in ("status", "n", "worth")},
        "flagged": int(ctx.parts.flagged.sum()),
        "left": {name: {**row, "kept": kept[name]} for name, row in part["left"].items()},
    }


def _on_kept(ctx: Context) -> dict[str, float]:
    """Return each auditor's points above chance on the kept items; the encoder was fitted on all items."""
    scores = ctx.ranker.by_options()
    assert scores is not None
    assert ctx.items is not None
    rows = drawn(scores.known & ctx.parts.kept, MOST_AUDITED)
    key, chance = ctx.index.key[rows], 1 / ctx.index.k[rows]
    probes = probed([ctx.items[row] for row in rows.tolist()], scores.fold[rows], FROM_TEXT)
    credit: dict[str, Floats] = {p: tie_fair(logits, key, ctx.index.k[rows]) for p, logits in probes.items()}
    for view, name, _ in ctx.answers.askings():
        if view == MEANING:
            block = ctx.answers.block(view, name).first()
            credit[name] = ctx.index.spread(block, block.correct)[rows]
    return {name: float(np.nanmean(won - chance)) for name, won in credit.items()}
