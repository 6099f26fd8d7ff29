"""Published answers judged without asking a model: results/atlas/predictions.json and larger.json.

HELM's ten models on the MMLU subjects and five models on TruthfulQA's pairs saw the question. They give orders with and
without the flagged items, and each model's gain on items whose key is the longest option. `looks` is as in mmlu_pro.json.

Larger models answered without the question or image. For each set, larger.json has

- `voters`: accuracy without the `hidden` part; `also_without`: the same on the items that each model answers with it.
- `order`: for two rules the scores on all and on the kept items, and the changes in the order of models.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from bench.atlas.by_looks import by_looks
from bench.atlas.fitted import Entry
from robustify.base.arrays import Floats, Ints
from robustify.items.answers import Answers
from robustify.items.views import Hidden
from robustify.judging.accuracy import score_models
from robustify.judging.context import LONGEST, context
from robustify.judging.measures import CHOICES_ONLY
from robustify.judging.screen.screen_rules import FDR, ScreenRules
from robustify.judging.screen.votes import FLAGGED
from robustify.judging.screening import heuristic_gap
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import LEVEL, mcnemar
from robustify.judging.summary.quantity import Score
from robustify.pipeline.config import parse
from robustify.pipeline.from_logs import run_of_logs
from robustify.pipeline.run_input import judging_rules, read_input
from robustify.reading.logs import LogOptions, LogPath, mapping
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD

SHARED = ("mmlu-ten", "truthfulqa-binary")
"""The sets whose questions were seen by the models of two parts."""
PREDICTIONS = "$ROBUSTIFY_DATA/predictions"
FIVE = ("model=model_name", "id=pair_id", "pick=correct", "key==1", "k==2", "first==0")
"""Columns of the five models' files, which only say whether each pair was right: 1 represents the key."""
Scores = Mapping[str, Floats]
"""Credit of each model on each item, (n,); NaN without an answer."""


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


def judged(sets: Mapping[str, Any], work: Path) -> Entry:
    """Judge both parts, using the earlier runs of the sets without models (`work`/free-NAME)."""
    folder = Path(os.path.expandvars(PREDICTIONS))
    tables = sorted((folder / "helm_mmlu_full_prompt").glob("*.csv"))
    models = tables[0].open().readline().strip().split(",")[2:]
    helm = run_of_logs(
        [LogPath(path) for path in tables],
        work / "import-helm",
        GUARD,
        data=[Path(os.path.expandvars(path)) for path in sets["mmlu-ten"]],
        options=LogOptions(columns={"pick": ",".join(models)}),
        overrides={"name": "helm-mmlu-ten"},
    )
    pairs = sorted((folder / "truthfulqa_binary_full_prompt").glob("model_predictions*.csv"))
    five = run_of_logs(
        [LogPath(path) for path in pairs],
        work / "import-truthfulqa-five",
        GUARD,
        options=LogOptions(view="full", columns=mapping(FIVE)),
        overrides={"name": "truthfulqa-five"},
    )
    # Pairs are numbered by row from 0; the set's IDs count rows from 1.
    renamed = {
        model: {f"TruthfulQA-{int(i) + 1:04d}": credit for i, credit in won.items()}
        for model, won in credits(five.answers).items()
    }
    return {
        "mmlu-ten": {
            **_with_question(credits(helm.answers), open_run(work / "free-mmlu-ten", GUARD)),
            "looks": by_looks(helm.items or (), _picks(helm)),
        },
        "truthfulqa-binary": _with_question(renamed, open_run(work / "free-truthfulqa-binary", GUARD)),
    }


def _picks(run: Run) -> dict[str, Ints]:
    """Return each model's first pick with the question on each item of a run (n,), -1 if it was not read."""
    place = {item.id: i for i, item in enumerate(run.items or ())}
    found: dict[str, Ints] = {}
    for view, model, template in run.answers.askings():
        if view == "full":
            block = run.answers.block(view, model, template).first()
            found[model] = np.full(len(place), -1)
            found[model][[place[run.answers.items[i]] for i in block.item.tolist()]] = block.pick
    return found


def credits(answers: Answers, view: str = "full") -> dict[str, dict[str, float]]:
    """Return the credit of each model and item under a view, from the first time that each item was asked."""
    blocks = {m: answers.block(view, m, t).first() for v, m, t in answers.askings() if v == view}
    return {
        model: dict(zip((answers.items[i] for i in block.item.tolist()), block.correct.tolist(), strict=True))
        for model, block in blocks.items()
    }


def _with_question(won: Mapping[str, Mapping[str, float]], run: Run) -> Entry:
    def in_order(of: Mapping[str, float]) -> Floats:
        return np.array([of.get(item.id, np.nan) for item in run.items or ()])

    scores = {model: in_order(of) for model, of in won.items()}
    # An item without a single favourite is undecided for the scorer and is kept.
    kept = np.array([float(verdict != "flagged") for verdict in run.verdicts.values()])
    longest = in_order(credits(run.answers, "heuristic")[LONGEST])
    gaps = {model: heuristic_gap(credit, longest) for model, credit in scores.items()}
    return {
        "n": len(kept),
        "kept": int(kept.sum()),
        "filter": by_part(scores, kept),
        "longest_gap": {m: _only(gap, "value", "n", "ci", "mde") for m, gap in gaps.items()},
    }


def all_larger(work: Path) -> Entry:
    """Return the numbers of all sets of larger models."""
    return {name: larger(name, work) for name in SETS}


def larger(name: str, work: Path) -> Entry:
    """Import the answers of larger models to one set and return their numbers."""
    asked = SETS[name]
    folder = Path(os.path.expandvars(PREDICTIONS)) / "choices_only" / asked.folder
    run = run_of_logs(
        [LogPath(folder / "picks.csv")],
        work / f"larger-{name}",
        GUARD,
        data=[folder / "items.jsonl"],
        options=LogOptions(hidden=asked.hidden),
        overrides={
            "name": name,
            "screen.criterion": FDR,
            **({"screen.voters": asked.voters} if asked.voters else {}),
        },
    )
    config = parse(run.manifest["config"], run.manifest["config"]["name"])
    again = read_input(run, config)
    ctx = context(again.answers, again.facts, judging_rules(config), again.items)
    credits = {
        m: of.credits
        for m, of in score_models(ctx.responses, ctx.screen.votes, ctx.rules, ctx.responses.models).items()
    }
    won = {m: c for m, of in credits.items() if (c := of[asked.measure]) is not None}
    also = {
        m: c[won[m] == 1] for m, of in credits.items() if m in won and (c := of["choices_only"]) is not None
    }

    def kept(**rule: object) -> Floats:
        screen: ScreenRules = ctx.rules.screen.model_copy(update=rule)
        return np.where(ctx.screen.by_rule(ctx.screen.votes, screen).outcome == FLAGGED, 0.0, 1.0)

    return {
        "n": len(ctx.responses.index),
        "hidden": asked.hidden,
        "chance": float(np.mean(1 / ctx.responses.index.k)),
        "voters": {
            m: _only(parts.all, "value", "n", "ci")
            for m, parts in CHOICES_ONLY.read(run.summary).items()
            if m in run.summary.tree()["screen"]["voters"] and parts.all
        },
        "also_without": {m: rate(credit).json() for m, credit in also.items()},
        "order": {
            "unanimous": by_part(won, kept(criterion="unanimous")),
            "fdr at 0.1": by_part(won, kept(criterion=FDR, fdr=0.1)),
        },
    }


def by_part(won: Scores, kept: Floats) -> Entry:
    """Return each model's accuracy on all and on the kept items (`kept` (n,) is 1), and both orders of models.

    `changed` lists pairs of which one model is significantly better (exact interval of the paired difference) on one part
    only, or in opposite directions. These conclusions depend on the filter.
    """
    parts = {"all": np.ones_like(kept, dtype=bool), "kept": kept == 1}
    score = {part: {m: rate(c[mask]) for m, c in won.items()} for part, mask in parts.items()}
    mean = {part: {m: found.value or 0.0 for m, found in of.items()} for part, of in score.items()}
    order = {part: sorted(won, key=found.__getitem__, reverse=True) for part, found in mean.items()}
    pairs = list(combinations(order["all"], 2))
    say = {
        part: {pair: _better(won[pair[0]][mask], won[pair[1]][mask]) for pair in pairs}
        for part, mask in parts.items()
    }
    return {
        "models": {m: {part: score[part][m].json() for part in parts} for m in won},
        **{f"order_{part}": names for part, names in order.items()},
        "pairs": len(pairs),
        "changed": [
            {"pair": list(pair), **{part: say[part][pair] for part in parts}}
            for pair in pairs
            if say["all"][pair] != say["kept"][pair]
        ],
    }


def _better(a: Floats, b: Floats) -> str:
    """Return the better model on the items that both answered: first, second or neither (exact McNemar, 5 %)."""
    known = ~(np.isnan(a) | np.isnan(b))
    more, less = int((a > b)[known].sum()), int((a < b)[known].sum())
    if mcnemar(more, less)[0] > LEVEL:
        return "neither"
    return "first" if more > less else "second"


def _only(score: Score | None, *fields: str) -> Entry | None:
    return None if score is None else score.model_dump(mode="json", include=set(fields))
