"""Cues that point at keys more often than chance allows, over all sets: results/atlas/biases.json.

Every heuristic of every set is one hypothesis (those that see the key's place in the file are left out), and Holm's
correction is over all of them. Beside each that stays: how much more often models are right where it points at the key, and
whether it moves their order.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.atlas.audit import BY_PLACE
from bench.atlas.fitted import Entry
from bench.atlas.orders import by_cue
from bench.atlas.others import credits, cues_of, scores_of
from robustify.run import MANIFEST, open_run
from robustify.stats.tests import LEVEL, holm


def biases(results: Path, work: Path, names: Sequence[str], published: Entry | None) -> Entry:
    """All heuristics above chance after the correction, the farthest above chance first; `published`: predictions.json."""
    found = {name: json.loads((results / f"{name}.json").read_text("utf-8")) for name in names}
    rows = [
        (s, h, row) for s, one in found.items() for h, row in one["heuristics"].items() if h not in BY_PLACE
    ]
    corrected = holm([row["p"] for *_, row in rows])
    kept = [(s, h, row, p) for (s, h, row), p in zip(rows, corrected, strict=True) if p <= LEVEL]
    kept.sort(key=lambda one: one[2]["value"] / found[one[0]]["chance"], reverse=True)
    effects = {name: _on_embedded(work, name) for name in dict.fromkeys(s for s, *_ in kept)}
    return {
        "hypotheses": len(rows),
        "correction": "Holm over all of them; one-sided p of the exact distribution of the credits",
        "biases": [
            {
                "set": s,
                "cue": h,
                "accuracy": {field: row[field] for field in ("value", "n", "ci")},
                "chance": found[s]["chance"],
                "ties": row["ties"],
                "p_corrected": p,
                "embedded": effects[s].get(h),
                "published": None if published is None else published.get(s, {}).get("cues", {}).get(h),
            }
            for s, h, row, p in kept
        ],
    }


def _on_embedded(work: Path, name: str) -> Entry:
    """By cue its effect on the two embedded models' accuracy with the question, on the sample; empty where not asked."""
    if not (work / f"run-{name}" / MANIFEST).is_file():
        return {}
    free, asked = open_run(work / f"free-{name}"), open_run(work / f"run-{name}")
    sampled = {item.id for item in asked.items}
    here = np.array([item.id in sampled for item in free.items])
    scores = {m: c[here] for m, c in scores_of(free, credits(asked.answers, "full_text")).items()}
    return {cue: by_cue(scores, credit[here]) for cue, credit in cues_of(free).items()}
