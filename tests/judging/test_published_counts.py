"""Counts that others have published, made again from their picks by the ordinary import.

Every expected number stands in a file of ../shared/data or is counted here in plain Python from the picks, never
by the code under test.
"""

import json
from collections import Counter
from pathlib import Path

from robustify.judging.measures import CHOICES_ONLY
from robustify.pipeline.from_logs import run_of_logs
from robustify.reading.logs import LogOptions, LogPath, mapping
from robustify.wings import GUARD

MEDBENCH = {"mistral:7b": 48, "llama3.1:8b": 51, "gemma2:9b": 62, "qwen2.5:7b": 53}
"""Right of 200 without the question, as published."""


def numbered(path: Path, work: Path) -> Path:
    """Write a copy of a table without ids, in which each row has its number among those of its model; return its path."""
    counts = Counter[str]()
    rows = json.loads(path.read_text(encoding="utf-8"))
    for row in rows:
        counts[row["model"]] += 1
        row["id"] = f"item-{counts[row['model']]:04d}"
    copy = work / path.name
    copy.write_text(json.dumps(rows), encoding="utf-8")
    return copy


def test_medbench_gives_the_published_count_of_every_model(data: Path, tmp_path: Path) -> None:
    path = numbered(data / "predictions" / "medbench_options_only" / "multi_options.json", tmp_path)
    run = run_of_logs([LogPath(path)], tmp_path / "out", GUARD, options=LogOptions(view="choices_only"))
    voters = run.summary.screen.voters
    rates = {m: parts.all for m, parts in CHOICES_ONLY.read(run.summary).items()}
    assert {m: round(rate.value * rate.n) for m, rate in rates.items()} == MEDBENCH
    # One reply of mistral names no option: it is unanswered, where the source counts it as wrong.
    assert {m: told.unanswered for m, told in voters.items() if told.unanswered} == {"mistral:7b": 1}
    assert {rate.n for rate in rates.values()} == {199, 200}


PAIRS = ("stem=question", "choices=a_side_TRUE,b_side_FALSE", "key==A", "correct=*_correct")


def test_truthfulqa_pairs_give_the_published_count_of_every_scorer(data: Path, tmp_path: Path) -> None:
    folder = data / "predictions" / "truthfulqa_pairs_answer_only"
    wanted = LogOptions(view="choices_only", columns=mapping(PAIRS))
    run = run_of_logs([LogPath(folder / "v9_scaled_data.csv")], tmp_path / "out", GUARD, options=wanted)
    told = json.loads((folder / "v9_scaled_forced_choice_results.json").read_text())
    published = {
        f"{family}_{variant}": (held[variant]["pair_correct_count"], held[variant]["n"])
        for family, held in told["families"].items()
        for variant in ("full", "cleaned")
    }
    assert len(published) == 18, "nine scorers in two variants"
    found = {m: parts.all for m, parts in CHOICES_ONLY.read(run.summary).items()}
    assert {m: (round(a.value * a.n), a.n) for m, a in found.items()} == published
