"""Two models on the same items, from logs or from a run: paired differences, in words, in tables, and as a page."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest

from robustify.judging.accuracy import compare_pair
from robustify.judging.stats.tests import holm
from robustify.judging.summary.quantity import Quantity
from robustify.report.compare.model_pairs import ModelPair, model_pairs, pair_table
from tests.support.exported_run import made_run

N = 120


def picks(path: Path, accuracy: float, *, prefix: str = "q", model: str = "", seed: int = 0) -> list[float]:
    """Write a table of picks, half of whose luck is that of the item. Return the credits."""
    rng, credits = random.Random(seed), []
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["item", "question", "A", "B", "C", "key", "pick", *["model"] * bool(model)])
        for i in range(N):
            luck = random.Random(i).random() if i % 2 else rng.random()
            credits.append(float(luck < accuracy))
            key = i * 7 % 3
            texts = [f"jar {prefix}{i} {name}" for name in ("red", "tin", "old")]
            pick = "ABC"[(key + (luck >= accuracy)) % 3]
            rows.writerow(
                [
                    f"{prefix}{i}",
                    f"Which jar is {prefix}{i}?",
                    *texts,
                    "ABC"[key],
                    pick,
                    *[model] * bool(model),
                ]
            )
    return credits


def test_two_tables_are_compared_item_by_item_in_either_order(robustify, tmp_path: Path) -> None:
    base, tuned = picks(tmp_path / "base.csv", 0.4, seed=1), picks(tmp_path / "tuned.csv", 0.7, seed=2)
    tested, found = compare_pair(np.array(tuned), np.array(base))
    trees = []
    for order in (("base.csv", "tuned.csv"), ("tuned.csv", "base.csv")):
        ended = robustify("compare", *order, "--json", "--html", "page.html")
        assert ended.code == 0, ended.err
        (pair,) = json.loads(ended.out)["pairs"]
        trees.append(pair)
        assert (pair["better"], pair["other"], pair["changed"]) == ("tuned", "base", True)
        assert pair["difference"]["value"] == pytest.approx(found.value)
        assert pair["difference"]["ci"] == pytest.approx(found.ci)
        assert pair["p"] == pytest.approx(tested.p_mid)
    assert trees[0]["difference"] == trees[1]["difference"]
    page = Path("page.html").read_text("utf-8")
    assert "<circle" in page
    assert "tuned over base" in page


def test_columns_are_mapped_as_in_import(robustify, tmp_path: Path) -> None:
    for name, seed in (("base", 1), ("tuned", 2)):
        picks(tmp_path / f"{name}.csv", 0.5, seed=seed)
        text = (tmp_path / f"{name}.csv").read_text("utf-8").replace("key,pick", "key,said", 1)
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    assert robustify("compare", "base.csv", "tuned.csv").code == 3
    ended = robustify("compare", "base.csv", "tuned.csv", "--map", "pick=said", "--json")
    assert ended.code == 0, ended.err
    assert len(json.loads(ended.out)["pairs"]) == 1


def test_models_of_one_name_are_named_after_their_files_and_holm_covers_all_tasks(
    robustify, tmp_path: Path
) -> None:
    for task, prefix in (("one", "q"), ("two", "z")):
        for name, accuracy, seed in (("before", 0.5, 3), ("after", 0.5, 5)):
            folder = tmp_path / "logs" / name
            folder.mkdir(parents=True, exist_ok=True)
            rows = []
            rng = random.Random(seed)
            for i in range(N):
                right = rng.random() < accuracy
                choices = [f"jar {prefix}{i} {word}" for word in ("red", "tin", "old")]
                key, best = i % 3, (i % 3 + (not right)) % 3
                rows.append({
                    "doc_id": i, "doc": {"question": f"Which jar is {prefix}{i}?", "choices": choices, "answer": key},
                    "target": str(key),
                    "arguments": [[f"Question: Which jar is {prefix}{i}?\nAnswer:", f" {text}"] for text in choices],
                    "resps": [[["-1.0" if j == best else "-2.0", "False"]] for j in range(3)],
                    "filtered_resps": [["-1.0" if j == best else "-2.0", "False"] for j in range(3)],
                    "acc": float(right), "filter": "none", "metrics": ["acc"],
                })  # fmt: skip
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"samples_{task}_2026-01-0{seed}T00-00-00.jsonl").write_text(text, encoding="utf-8")
    ended = robustify("compare", "after=logs/after", "before=logs/before", "--json")
    assert ended.code == 0, ended.err
    pairs = json.loads(ended.out)["pairs"]
    assert {pair["task"] for pair in pairs} == {"one", "two"}
    assert {pair["changed"] for pair in pairs} == {False}
    assert all(0 < pair["mde"] < 0.5 for pair in pairs)
    shown = robustify("compare", "after=logs/after", "before=logs/before").out.splitlines()
    assert len(shown) == 2
    assert all("80 % power" in line for line in shown)


def test_the_differences_of_two_runs_are_a_table(robustify, tmp_path: Path) -> None:
    run = made_run(tmp_path / "made", view="full")
    for form, mark in (("markdown", "| Number |"), ("latex", "\\toprule"), ("csv", "Number,")):
        assert mark in robustify("compare", run.folder, run.folder, "--format", form).out


def test_models_of_a_single_run_are_those_of_its_summary(robustify, tmp_path: Path) -> None:
    run = made_run(tmp_path / "made", view="full")
    (pair,) = model_pairs([run])
    stored = next(iter(run.summary.pairs.values())).full.all
    assert abs(pair.difference.value) == abs(stored.difference.value)
    assert pair.p == holm([stored.p_mid])[0]
    for form, mark in (("markdown", "| Models |"), ("latex", "\\toprule"), ("csv", "Difference")):
        assert mark in robustify("compare", run.folder, "--format", form).out


def test_equal_models_and_logs_that_contradict_each_other_are_noted(robustify, tmp_path: Path) -> None:
    picks(tmp_path / "one.csv", 0.5, seed=1)
    text = (tmp_path / "one.csv").read_text("utf-8")
    (tmp_path / "two.csv").write_text(text, encoding="utf-8")
    ended = robustify("compare", "one.csv", "two.csv", "--json")
    (pair,) = json.loads(ended.out)["pairs"]
    assert (pair["same"], pair["changed"], pair["difference"]["ci"]) == (True, None, None)
    assert "old" not in ended.err
    (tmp_path / "two.csv").write_text(text.replace("old,A,", "old,B,"), encoding="utf-8")
    ended = robustify("compare", "one.csv", "two.csv")
    assert "key differs" in ended.err
    assert "choices_only" not in ended.err


def test_what_cannot_be_compared_is_refused(robustify, tmp_path: Path) -> None:
    picks(tmp_path / "one.csv", 0.5)
    run = made_run(tmp_path / "made")
    for argv, says in (
        (("one.csv",), "no two models"),
        ((run.folder, "one.csv"), "only runs or only logs"),
        (("one.csv", "nowhere.csv"), "does not exist"),
        (("one.csv", "--alert"), "--alert"),
    ):
        ended = robustify("compare", *argv)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert says in ended.err


@pytest.mark.parametrize(
    ("value", "ci", "p", "looks", "says"),
    [
        (0.04, (0.01, 0.07), 0.01, None, "a is better than b by 4.0 points"),
        (0.04, (0.01, 0.07), 0.06, None, "a and b cannot be distinguished: 4.0 points"),
        (0.0, (0.0, 0.0), 1.0, (0.0, (0.0, 0.0)), "a and b cannot be distinguished: 0.0 points (n = 90; p = 1.000)"),
        (0.04, None, None, None, "a and b: too few items to tell (4.0 points (n = 90))"),
        (0.04, (0.01, 0.07), 0.01, (0.03, (0.01, 0.05)), "looks bring it 3.0 points more (1.0 to 5.0)"),
        (0.04, (0.01, 0.07), 0.01, (0.0, (-0.02, 0.02)), "It does not owe significantly more to looks"),
    ],
)  # fmt: skip
def test_the_sentence_follows_the_numbers(
    value: float,
    ci: tuple[float, float] | None,
    p: float | None,
    looks: tuple[float, tuple[float, float]] | None,
    says: str,
) -> None:
    owed = None if looks is None else Quantity(value=looks[0], n=90, ci=looks[1])
    pair = ModelPair(
        "t", "a", "b", "full", Quantity(value=value, n=90, ci=ci), p, None if ci is None else 0.05, owed
    )
    assert says in pair.line
    assert "()" not in pair.line
    assert len(pair_table([pair]).rows) == 1
