"""Four options of each question of MMLU-Pro, chosen so that cues find fewer keys: `robustify mend --options 4`.

`mmlu_pro_composed.csv` names the options of the public set by their indices, and lies beside this file or in the folder
results/atlas of robustify.
"""

import csv
import hashlib
import warnings
from pathlib import Path
from typing import Any

CSV = "mmlu_pro_composed.csv"
LEAST = 0.99
"""Share of the questions of the CSV that a version of the set must have unchanged."""


def digest(question: str, options: list[str]) -> int:
    """Return the digest by which a question and its options are known. Spaces do not count."""
    plain = "\0".join(" ".join(text.split()) for text in (question, *options))
    return int(hashlib.sha256(plain.encode()).hexdigest()[:8], 16)


def process_docs(dataset: Any) -> Any:
    """Return the rows that the CSV names, with the options that it names.

    A question that was changed after they were chosen is left out with a warning. Raise `ValueError` if many were.
    """
    here = Path(__file__).resolve().parent
    places = (here / CSV, here.parents[1] / "results" / "atlas" / CSV)
    with next(place for place in places if place.is_file()).open(encoding="utf-8", newline="") as file:
        known = {int(row["question_id"]): row for row in csv.DictReader(file)}
    indices = {name: [int(at) for at in row["options"].split()] for name, row in known.items()}

    def same(row: dict[str, Any]) -> bool:
        name = row["question_id"]
        return (
            name in known
            and int(known[name]["check"]) == digest(row["question"], row["options"])
            and row["answer_index"] in indices[name]
        )

    def composed(row: dict[str, Any]) -> dict[str, Any]:
        shown = indices[row["question_id"]]
        key = shown.index(row["answer_index"])
        return {
            "options": [row["options"][at].strip() for at in shown],
            "answer_index": key,
            "answer": "ABCD"[key],
        }

    kept = dataset.filter(same)
    if len(kept) < LEAST * len(known):
        raise ValueError(
            f"{len(kept)} of the {len(known)} questions of {CSV} are in this version of MMLU-Pro. Load another revision."
        )
    if len(kept) < len(known):
        warnings.warn(
            f"{len(known) - len(kept)} of {len(known)} questions were changed and are left out.", stacklevel=2
        )
    return kept.map(composed)
