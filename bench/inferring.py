"""Measure how well similarity to the real question separates inferred from given-away items.

`python -m bench.inferring LABELS` reads JSON lines of human labels: `dataset`, `question`, the `inferred_question` of a
model that saw only the choices, and `label` (1 if both questions are the same). It writes numbers to
results/bench/inferred.json.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.results import RESULTS, Tree
from robustify.base.arrays import Bools, Floats
from robustify.base.files import cache_folder, write_json
from robustify.judging.audit.people import auroc
from robustify.judging.readers.reader_rows import LEAST_LIKENESS
from robustify.judging.stats.intervals import rate
from robustify.judging.text_overlap import likeness_by_words
from robustify.pipeline.encoder import embed_texts

SOURCE = "nbalepur/BenchMarker, judge_experiments/validation_data/shortcuts_judge.jsonl, commit d21a8a4"


def likeness(rows: Sequence[dict[str, Any]]) -> dict[str, Floats]:
    """Return the similarity of the two questions of each row, by meaning and by words."""
    real, inferred = ([row[name] for row in rows] for name in ("question", "inferred_question"))
    vectors = embed_texts(real + inferred, cache_folder(None), keep=False)
    if vectors is None:
        raise SystemExit("The encoder is not installed. Run `robustify models pull minilm-l6-v2`.")
    one, two = np.split(vectors, 2)
    by_words = [likeness_by_words(a, b) for a, b in zip(real, inferred, strict=True)]
    return {"meaning": (one * two).sum(axis=1), "words": np.array(by_words)}


def measured(like: Floats, same: Bools, least: float) -> Tree:
    """Return the AUROC of a similarity, and the true and false positive rates from `least`."""
    value, ci = auroc(like, same)
    from_there_on = (like >= least).astype(np.float64)
    return {
        "auroc": {"value": value, "n": len(like), "ci": ci},
        "least": least,
        "found": rate(from_there_on[same]).json(),
        "false": rate(from_there_on[~same]).json(),
    }


def main(path: Path) -> None:
    """Measure the labels of a file."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    same, sets = np.array([row["label"] == 1 for row in rows]), np.array([row["dataset"] for row in rows])
    like = likeness(rows)
    by_set = {}
    for name in sorted(set(sets.tolist())):
        mine = sets == name
        both = 0 < same[mine].sum() < mine.sum()
        value = auroc(like["meaning"][mine], same[mine])[0] if both else None
        by_set[name] = {"n": int(mine.sum()), "inferred": int(same[mine].sum()), "auroc": value}
    kinds = {kind: measured(values, same, LEAST_LIKENESS[kind]) for kind, values in like.items()}
    tree = {"source": SOURCE, "n": len(rows), "inferred": int(same.sum()), **kinds, "by_set": by_set}
    write_json(RESULTS / "bench" / "inferred.json", tree)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
