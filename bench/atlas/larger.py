"""Published answers of larger models without the question or image, imported: results/atlas/larger.json.

For each set:

- `voters`: accuracy without the `hidden` part; `also_without`: the same on the items that each model answers with it.
- `rules`: the share of all items that each rule flags, and the false share.
- `order`: for each rule the scores on all and on the kept items, and the changes in the order of models.
- `adjusted`: the scores under the weights; `weights`: as in adjusted.json.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.atlas.adjusted import context_of, left_to_find
from bench.atlas.fitted import Entry
from bench.atlas.orders import by_part
from bench.atlas.others import PREDICTIONS
from robustify.base.arrays import Bools
from robustify.items.views import Hidden
from robustify.judging.accuracy import all_scored
from robustify.judging.adjusted import balanced
from robustify.judging.context import Context
from robustify.judging.measures import CHOICES_ONLY
from robustify.judging.screen.screen_rules import FDR, ScreenRules, criterion_words
from robustify.judging.screen.votes import FLAGGED
from robustify.judging.screening import flag_fields
from robustify.judging.stats.intervals import rate
from robustify.pipeline.from_logs import import_logs
from robustify.reading.logs import LogOptions, LogPath

SHARES = (0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class Asked:
    """A folder of answers: the hidden part, the voters (default: all), and the measure with the question."""

    folder: str
    hidden: Hidden = "question"
    voters: tuple[str, ...] = ()
    measure: str = "full"


SETS = {
    "arc-challenge": Asked("arc_challenge_7b"),
    "hellaswag": Asked("hellaswag_32b", measure="cloze_chars"),
    # Two prompts per model, but a model must not vote twice.
    "mathvista": Asked("mathvista_no_image", "image", ("ChatGPT-0shot", "Claude-2-0shot", "GPT-4-0613-0shot")),
}  # fmt: skip


def larger(name: str, work: Path) -> Entry:
    """Import the answers to one set and return their numbers."""
    asked = SETS[name]
    folder = Path(os.path.expandvars(PREDICTIONS)) / "choices_only" / asked.folder
    run = import_logs(
        [LogPath(folder / "picks.csv")],
        work / f"larger-{name}",
        data=[folder / "items.jsonl"],
        options=LogOptions(hidden=asked.hidden),
        name=name,
        overrides={"screen.criterion": FDR, **({"screen.voters": asked.voters} if asked.voters else {})},
    )
    ctx, screen = context_of(run), run.summary.tree()["screen"]
    flagged = {words: _flagged(ctx, rule) for words, rule in _rules(ctx).items()}
    balance = balanced(ctx)
    assert balance is not None
    credits = {m: of.credits for m, of in all_scored(ctx, ctx.names).items()}
    won = {m: c for m, of in credits.items() if (c := of[asked.measure]) is not None}
    also = {
        m: c[won[m] == 1] for m, of in credits.items() if m in won and (c := of["choices_only"]) is not None
    }
    return {
        "n": len(ctx.index),
        "hidden": asked.hidden,
        "chance": float(np.mean(1 / ctx.index.k)),
        "voters": {
            m: parts.all.model_dump(mode="json", include={"value", "n", "ci"})
            for m, parts in CHOICES_ONLY.of(run.summary).items()
            if m in screen["voters"] and parts.all
        },
        "also_without": {m: rate(credit).json() for m, credit in also.items()},
        "rules": {words: found for words, (found, _) in flagged.items()},
        "d4": screen["d4_rule"] and {f: screen["d4_rule"][f] for f in ("flagged", "false_share")},
        "order": {rule: by_part(won, 1.0 - flagged[rule][1]) for rule in ("unanimous", "fdr at 0.1")},
        "adjusted": {
            m: q.model_dump(mode="json", include={"value", "n", "ci"})
            for m, c in won.items()
            if (q := balance.rate(c))
        },
        "weights": left_to_find(ctx, balance),
    }


def _rules(ctx: Context) -> dict[str, ScreenRules]:
    run = ctx.rules.screen
    counted = [run.model_copy(update={"criterion": c}) for c in ("unanimous", "majority")]
    cut = [run.model_copy(update={"criterion": FDR, "fdr": q}) for q in SHARES]
    return {criterion_words(rule): rule for rule in (*counted, *cut)}


def _flagged(ctx: Context, rule: ScreenRules) -> tuple[Entry, Bools]:
    """Return the share of all items that a rule flags, its false share, and the flagged items (n,).

    Of undecided items, each rule has others, so that shares of the decided ones could not be compared.
    """
    found = ctx.screen(ctx.votes, rule)
    fields, items = flag_fields(found.chance(ctx.parts.groups)), found.outcome == FLAGGED
    share = rate(items.astype(np.float64), ctx.parts.groups).json()
    false = fields["false_share"].model_dump(mode="json")
    return {"items": int(items.sum()), "flagged": share, "false_share": false}, items
