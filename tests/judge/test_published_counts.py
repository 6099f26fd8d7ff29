"""Counts that others have published, made again from their picks by the ordinary import.

Every expected number stands in a file of ../shared/data or is counted here in plain Python from the picks, never
by the code under test.
"""

import ast
import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from robustify.logs import LogOptions, LogPath, mapping
from robustify.pipeline import rejudge
from robustify.report.reasons import key_places_sentence
from robustify.run import Run
from robustify.writers.from_logs import import_logs

MEDBENCH = {"mistral:7b": 48, "llama3.1:8b": 51, "gemma2:9b": 62, "qwen2.5:7b": 53}
"""Right of 200 without the question, as published."""
OPTIONS = "ABCDE"
NEEDED = {"unanimous": 4, "majority": 3}


@pytest.fixture(scope="module")
def medbench(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = data / "predictions" / "medbench_options_only" / "multi_options.json"
    return import_logs([LogPath(path)], tmp_path_factory.mktemp("medbench") / "out")


@pytest.fixture(scope="module")
def votes(data: Path) -> list[tuple[str, list[str | None]]]:
    """By item its key and the picks of the four models, read without any of our code."""
    rows = json.loads(
        (data / "predictions" / "medbench_options_only" / "multi_options.json").read_text(encoding="utf-8")
    )
    held = {m: [r for r in rows if r["model"] == m] for m in MEDBENCH}
    assert all(len(one) == 200 for one in held.values())
    return [(r["gold"], [held[m][at]["pick"] for m in MEDBENCH]) for at, r in enumerate(held["gemma2:9b"])]


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


def test_medbench_is_what_its_file_says_it_is(medbench: Run) -> None:
    benchmark = medbench.summary.tree()["benchmark"]
    assert (benchmark["n_items"], benchmark["option_counts"]) == (200, {"5": 200})
    assert medbench.items is None
    assert any(
        "aligned by their order within each of 4 models" in n for n in medbench.manifest["config"]["notes"]
    )


@pytest.mark.parametrize("criterion", ["unanimous", "majority"])
def test_medbench_consensus_follows_from_the_rows(
    medbench: Run, votes: list[tuple[str, list[str | None]]], criterion: str, tmp_path: Path
) -> None:
    run = rejudge(medbench, {"screen.criterion": criterion}, tmp_path / "out")
    needed = NEEDED[criterion]
    flagged = [sum(p == key for p in picks) >= needed for key, picks in votes]
    with (run.folder / "verdicts.csv").open(encoding="utf-8") as file:
        verdicts = [row["verdict"] for row in csv.DictReader(file)]
    assert [v == "shortcut" for v in verdicts] == flagged
    # Nothing is said of luck where the missing reply could still make some option the flagged one.
    sure = [picks for _, picks in votes if not any(_hangs(picks, option, needed) for option in OPTIONS)]
    expected = sum(sum(picks.count(option) >= needed for option in OPTIONS) / 5 for picks in sure)
    screen = run.summary.tree()["screen"]
    assert screen["flagged"]["n"] == len(sure)
    assert round(screen["flagged"]["value"] * len(sure)) == sum(flagged)
    assert screen["expected_flags"]["value"] == pytest.approx(expected)
    assert screen["excess_over_chance"]["value"] == pytest.approx((sum(flagged) - expected) / len(sure))


def _hangs(picks: list[str | None], option: str, needed: int) -> bool:
    return picks.count(option) < needed <= picks.count(option) + picks.count(None)


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


def test_truthfulqa_pairs_have_their_key_always_first_and_it_is_said(pairs: Run, data: Path) -> None:
    benchmark = pairs.summary.benchmark
    assert benchmark.key_positions == (1.0, 0.0)
    assert benchmark.key_places.shares == (1.0, 0.0)
    assert "first" in key_places_sentence(benchmark.key_places)
    with (data / "predictions" / "truthfulqa_pairs_answer_only" / "v9_scaled_data.csv").open() as file:
        rows = list(csv.DictReader(file))
    for model, told in pairs.summary.tree()["screen"]["voters"].items():
        first = sum(row[f"{model}_picked"] == "A" for row in rows) / len(rows)
        assert told["position_share"] == pytest.approx([first, 1 - first])
        # So that a share of picks on the first place is nothing but the accuracy.
        assert told["choices_only_accuracy"]["value"] == pytest.approx(first)


def test_truthfulqa_pairs_all_right_together_are_the_shortcuts(pairs: Run, data: Path) -> None:
    with (data / "predictions" / "truthfulqa_pairs_answer_only" / "v9_scaled_data.csv").open() as file:
        rows = list(csv.DictReader(file))
    models = list(pairs.summary.tree()["screen"]["voters"])
    assert pairs.summary.tree()["splits"]["shortcut"] == sum(
        all(r[f"{m}_correct"] == "1" for m in models) for r in rows
    )
    assert [i.id for i in pairs.items or ()] == [row["pair_id"] for row in rows]


def spaceless(text: str) -> str:
    return " ".join(text.split())


def keys(path: Path) -> dict[tuple[str, ...], str]:
    """By question and options the key's letter of an MMLU file, read without any of our code."""
    with path.open(newline="", encoding="utf-8") as file:
        return {tuple(map(spaceless, row[:5])): row[5] for row in csv.reader(file)}


def recount(log: Path, items: Path) -> dict[str, Counter[str]]:
    """By model how many of its letters are right and how many are none."""
    key = keys(items)
    counts: dict[str, Counter[str]] = {}
    with log.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            right = key[tuple(map(spaceless, [row.pop("question"), *ast.literal_eval(row.pop("choices"))]))]
            for model, said in row.items():
                letter = said.strip()
                kind = "right" if letter == right else "wrong" if letter in "ABCD" else "none"
                counts.setdefault(model, Counter())[kind] += 1
    return counts


SUBJECTS = ("abstract_algebra", "elementary_mathematics", "miscellaneous")


@pytest.mark.slow
def test_helm_mmlu_gives_the_accuracy_of_a_plain_recount(data: Path, tmp_path: Path) -> None:
    logs = [data / "predictions" / "helm_mmlu_full_prompt" / f"{name}.csv" for name in SUBJECTS]
    items = [data / "mmlu" / f"{name}_test.csv" for name in SUBJECTS]
    run = import_logs([LogPath(path) for path in logs], tmp_path / "out", data=items)
    expected: dict[str, Counter[str]] = {}
    for log, questions in zip(logs, items, strict=True):
        for model, held in recount(log, questions).items():
            expected.setdefault(model, Counter()).update(held)
    assert len(expected) == 10
    accuracy: dict[str, Any] = run.summary.tree()["accuracy"]
    found = {m: accuracy[m]["full"]["all"] for m in expected}
    assert {m: (round(a["value"] * a["n"]), a["n"]) for m, a in found.items()} == {
        m: (c["right"], c["right"] + c["wrong"]) for m, c in expected.items()
    }
    unanswered = {m: c["none"] for m, c in expected.items() if c["none"]}
    assert unanswered, "some replies are words"
    notes = run.manifest["config"]["notes"]
    assert [n for n in notes if "without a readable answer" in n] == [
        f"{m}, view full: rows without a readable answer {n}" for m, n in unanswered.items()
    ]
    # elementary_mathematics lacks one of its 378 questions: joined by row, every later pick would be off by one.
    assert run.manifest["import"]["items"] == {"from": "data", "n": 1260, "left_out": 1}
    assert run.manifest["data"]["quarantined"] == []
