"""Counts that others have published, made again from their picks by the ordinary import.

Every expected number stands in a file of ../shared/data or is counted here in plain Python from the picks, never
by the code under test.
"""

import json
from pathlib import Path

import pytest

from bench.atlas.others import numbered
from robustify.logs import LogOptions, LogPath, mapping
from robustify.policy.from_logs import import_logs
from robustify.run import Run

MEDBENCH = {"mistral:7b": 48, "llama3.1:8b": 51, "gemma2:9b": 62, "qwen2.5:7b": 53}
"""Right of 200 without the question, as published."""


@pytest.fixture(scope="module")
def medbench(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("medbench")
    path = numbered(data / "predictions" / "medbench_options_only" / "multi_options.json", folder)
    return import_logs([LogPath(path)], folder / "out", options=LogOptions(view="choices_only"))


def test_medbench_gives_the_published_count_of_every_model(medbench: Run) -> None:
    voters = medbench.summary.tree()["screen"]["voters"]
    found = {
        m: (told["choices_only_accuracy"]["value"], told["choices_only_accuracy"]["n"])
        for m, told in voters.items()
    }
    assert {m: round(value * n) for m, (value, n) in found.items()} == MEDBENCH
    # One reply of mistral names no option: it is unanswered, where the source counts it as wrong.
    assert {m: n for m, (_, n) in found.items()} == {**dict.fromkeys(MEDBENCH, 200), "mistral:7b": 199}
    assert {m: told["unanswered"] for m, told in voters.items()} == {
        **dict.fromkeys(MEDBENCH, 0),
        "mistral:7b": 1,
    }


PAIRS = ("stem=question", "choices=a_side_TRUE,b_side_FALSE", "key==A", "correct=*_correct")


@pytest.fixture(scope="module")
def pairs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = data / "predictions" / "truthfulqa_pairs_answer_only" / "v9_scaled_data.csv"
    wanted = LogOptions(view="choices_only", columns=mapping(PAIRS))
    return import_logs([LogPath(path)], tmp_path_factory.mktemp("pairs") / "out", options=wanted)


def test_truthfulqa_pairs_give_the_published_count_of_every_scorer(pairs: Run, data: Path) -> None:
    told = json.loads(
        (
            data / "predictions" / "truthfulqa_pairs_answer_only" / "v9_scaled_forced_choice_results.json"
        ).read_text()
    )
    published = {
        f"{family}_{variant}": (held[variant]["pair_correct_count"], held[variant]["n"])
        for family, held in told["families"].items()
        for variant in ("full", "cleaned")
    }
    assert len(published) == 18, "nine scorers in two variants"
    found = {m: v["choices_only_accuracy"] for m, v in pairs.summary.tree()["screen"]["voters"].items()}
    assert {m: (round(a["value"] * a["n"]), a["n"]) for m, a in found.items()} == published
