"""Published answers judged without a model: results/atlas/predictions.json.

HELM's ten models on the MMLU subjects and five models on TruthfulQA's pairs saw the question. Nine scorers of TruthfulQA
pairs did not. Models with the question give orders with and without the flagged items, and each model's gain on items whose
key is the longest option.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.atlas.fitted import Entry
from bench.atlas.orders import Scores, by_part
from robustify.items.answers import Answers
from robustify.judging.accuracy import heuristic_gap
from robustify.judging.context import LONGEST
from robustify.judging.measures import CHOICES_ONLY
from robustify.judging.summary.quantity import Score
from robustify.pipeline.from_logs import import_logs
from robustify.reading.logs import LogOptions, LogPath, mapping
from robustify.runs.run import Run, open_run

SHARED = ("mmlu-ten", "truthfulqa-binary")
"""The sets whose questions were seen by the models of two parts."""
PREDICTIONS = "$ROBUSTIFY_DATA/predictions"
FIVE = ("model=model_name", "id=pair_id", "pick=correct", "key==1", "k==2", "first==0")
"""Columns of the five models' files, which only say whether each pair was right: 1 represents the key."""
PAIRS = (
    "stem=question",
    "choices=a_side_TRUE,b_side_FALSE",
    "key==A",
    "correct=*_correct",
    "scores=*_P_A,*_P_B",
)


def judged(sets: Mapping[str, Any], work: Path) -> Entry:
    """Judge every part whose files exist, using the earlier runs of the sets without models (`work`/free-NAME)."""
    folder = Path(os.path.expandvars(PREDICTIONS))
    tables = sorted((folder / "helm_mmlu_full_prompt").glob("*.csv"))
    models = tables[0].open().readline().strip().split(",")[2:]
    helm = import_logs(
        [LogPath(path) for path in tables],
        work / "import-helm",
        data=[Path(os.path.expandvars(path)) for path in sets["mmlu-ten"]],
        options=LogOptions(columns={"pick": ",".join(models)}),
        name="helm-mmlu-ten",
    )
    five = import_logs(
        [
            LogPath(path)
            for path in sorted((folder / "truthfulqa_binary_full_prompt").glob("model_predictions*.csv"))
        ],
        work / "import-truthfulqa-five",
        options=LogOptions(view="full", columns=mapping(FIVE)),
        name="truthfulqa-five",
    )
    pairs = import_logs(
        [LogPath(folder / "truthfulqa_pairs_answer_only" / "v9_scaled_data.csv")],
        work / "import-truthfulqa-pairs",
        options=LogOptions(view="choices_only_text", columns=mapping(PAIRS)),
        overrides={"screen.norm": "sum"},
    ).summary
    return {
        "mmlu-ten": {
            **_with_question(credits(helm.answers), open_run(work / "free-mmlu-ten")),
            "label_noise": {
                f: helm.summary.tree()["label_noise"][f] for f in ("strong", "n", "flagged", "expected")
            },
        },
        # Pairs are numbered by row from 0; the set's IDs count rows from 1.
        "truthfulqa-binary": _with_question(
            {
                m: {f"TruthfulQA-{int(i) + 1:04d}": c for i, c in won.items()}
                for m, won in credits(five.answers).items()
            },
            open_run(work / "free-truthfulqa-binary"),
        ),
        "without_question": {
            "truthfulqa-pairs": {
                "accuracy": {
                    m: _only(parts.all, "value", "n", "ci") for m, parts in CHOICES_ONLY.of(pairs).items()
                }
            }
        },
    }


def credits(answers: Answers, view: str = "full") -> dict[str, dict[str, float]]:
    """Return the credit of each model and item under a view, from the first time that each item was asked."""
    blocks = {m: answers.block(view, m, t).first() for v, m, t in answers.askings() if v == view}
    return {
        model: dict(zip((answers.items[i] for i in block.item.tolist()), block.correct.tolist(), strict=True))
        for model, block in blocks.items()
    }


def scores_of(run: Run, won: Mapping[str, Mapping[str, float]]) -> Scores:
    """Return each model's credits in the order of the run's items; NaN without an answer."""
    assert run.items is not None
    return {model: np.array([one.get(i.id, np.nan) for i in run.items]) for model, one in won.items()}


def _with_question(won: Mapping[str, Mapping[str, float]], run: Run) -> Entry:
    scores = scores_of(run, won)
    # An item without a single favourite is undecided for the scorer and is kept.
    kept = np.array([float(verdict != "flagged") for verdict in run.verdicts.values()])
    longest = scores_of(run, credits(run.answers, "heuristic"))[LONGEST]
    gaps = {model: heuristic_gap(credit, longest) for model, credit in scores.items()}
    return {
        "n": len(kept),
        "kept": int(kept.sum()),
        "filter": by_part(scores, kept),
        "longest_gap": {m: _only(gap, "value", "n", "ci", "mde") for m, gap in gaps.items()},
    }


def _only(score: Score | None, *fields: str) -> Entry | None:
    return None if score is None else score.model_dump(mode="json", include=set(fields))
