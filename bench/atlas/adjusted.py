"""What weights leave to find on each set, by auditors of another kind than the filter: results/atlas/adjusted.json.

No language model is asked: the weights rest on form and words, and the sentence encoder audits. By set `n`, what the
weights are `worth`, their `status`, how many items `criterion: fdr` flags, and by auditor its points above chance on all
items (`before`), on the items that the filter keeps (`kept`: probes are fitted to these anew), and under the weights
(`value`, `ci`, `p_holm`).
"""

from pathlib import Path

import numpy as np

from bench.atlas.fitted import Entry, tie_fair
from bench.atlas.sample import Data, loaded
from robustify.answers import Answers
from robustify.arrays import Floats
from robustify.ask.by_meaning import ask_by_meaning
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.baselines.conditional_logit import drawn
from robustify.baselines.heuristics import guess
from robustify.baselines.meaning import VIEW as MEANING
from robustify.baselines.other_probes import other_probes
from robustify.config import parse
from robustify.judging.adjusted import MOST_AUDITED, Balanced, balanced
from robustify.judging.context import Context, Rules, context
from robustify.models import cache_folder
from robustify.policy.asked import asked_again, facts, rules
from robustify.run import Run


def adjusted(data: Data, _work: Path) -> Entry:
    """Return what weights leave to find on a set, without a language model."""
    bench = loaded(data)
    meant = ask_by_meaning(bench.items, ProbeSettings(), cache_folder(), keep=True)
    answers = Answers.concat([guess(bench.items), Answers.of(meant)])
    ctx = context(answers, facts(bench), Rules(), bench.items)
    return left_to_find(ctx, balanced(ctx))


def context_of(run: Run) -> Context:
    """Return what a run was judged from."""
    config = parse(run.manifest["config"], run.manifest["config"]["name"])
    asked = asked_again(run, config)
    return context(asked.answers, asked.facts, rules(config), asked.items)


def left_to_find(ctx: Context, found: Balanced | None) -> Entry:
    """Return what auditors find on all items, on those that the filter keeps, and under the weights."""
    assert found is not None
    part, kept = found.part.model_dump(mode="json"), _on_kept(ctx)
    return {
        **{field: part[field] for field in ("status", "n", "worth")},
        "flagged": int(ctx.parts.shortcut.sum()),
        "left": {name: {**row, "kept": kept[name]} for name, row in part["left"].items()},
    }


def _on_kept(ctx: Context) -> dict[str, float]:
    """By auditor its points above chance on the items kept; the encoder's fits are those on all items."""
    scores = ctx.ranker.by_options()
    assert scores is not None
    assert ctx.items is not None
    rows = drawn(scores.known & ctx.parts.robust, MOST_AUDITED)
    key, there, chance = ctx.index.key[rows], scores.there[rows], 1 / ctx.index.k[rows]
    probes = other_probes([ctx.items[row] for row in rows.tolist()], key, there, scores.fold[rows])
    credit: dict[str, Floats] = {p: tie_fair(logits, key, ctx.index.k[rows]) for p, logits in probes.items()}
    for view, name, _ in ctx.answers.askings():
        if view == MEANING:
            block = ctx.answers.block(view, name).first()
            credit[name] = ctx.index.spread(block, block.correct)[rows]
    return {name: float(np.nanmean(won - chance)) for name, won in credit.items()}
