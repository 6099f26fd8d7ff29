"""Two models on the same items, from logs or from a run: paired differences, in words, in tables, and as a page."""

import json
import random
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.judging.accuracy import compare_pair
from robustify.judging.stats.tests import holm
from robustify.judging.summary.quantity import Quantity
from robustify.report.compare.model_pairs import ModelPair, model_pairs, pair_table
from robustify.report.format import text_table
from robustify.report.printing import printed_table
from tests.report.test_advice import numbers
from tests.support.cases import cases
from tests.support.exported_run import made_run
from tests.support.fake_logs import boxes, jsonl, lm_eval_row, scores_for, sheet

N = 120


def picks(path: Path, accuracy: float, *, seed: int = 0) -> list[float]:
    """Write a table of picks, half of whose luck is that of the item. Return the credits."""
    draw, rows = random.Random(seed), []
    credits = [float((random.Random(i) if i % 2 else draw).random() < accuracy) for i in range(N)]
    for i, right in enumerate(credits):
        key, texts = (
            i * 7 % 3,
            {mark: f"jar q{i} {name}" for mark, name in zip("ABC", ("red", "tin", "old"), strict=True)},
        )
        pick = "ABC"[(key + (not right)) % 3]
        rows.append(
            {"item": f"q{i}", "question": f"Which jar is q{i}?", **texts, "key": "ABC"[key], "pick": pick}
        )
    sheet(path, rows)
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
    assert (page.count("<circle"), page.count("<figcaption>")) == (1, 1)
    assert "tuned over base" in page


def test_items_that_one_model_did_not_answer_are_counted_beside_the_result(robustify, tmp_path: Path) -> None:
    for name, seed in (("base", 1), ("tuned", 2)):
        picks(tmp_path / f"{name}.csv", 0.5, seed=seed)
    *lines, end = (tmp_path / "tuned.csv").read_text("utf-8").split("\n")
    lines[-30:] = [line.rpartition(",")[0] + "," for line in lines[-30:]]
    (tmp_path / "tuned.csv").write_text("\n".join([*lines, end]), encoding="utf-8")
    (pair,) = json.loads(robustify("compare", "base.csv", "tuned.csv", "--json").out)["pairs"]
    assert (pair["difference"]["n"], pair["left_out"]) == (N - 30, 30)


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
    for (task, stem), (name, seed) in product(
        (("one", "jar"), ("two", "pot")), (("before", 3), ("after", 5))
    ):
        items = [replace(item, stem=f"{stem}: {item.stem}") for item in boxes(N, 3)]
        draw = random.Random(seed)
        scores = scores_for([(item.key + draw.getrandbits(1)) % 3 for item in items], 3)
        rows = [
            lm_eval_row(item, at, s, texts=True)
            for at, (item, s) in enumerate(zip(items, scores, strict=True))
        ]
        jsonl(tmp_path / "logs" / name / f"samples_{task}_2026-01-0{seed}T00-00-00.jsonl", rows)
    ended = robustify("compare", "after=logs/after", "before=logs/before", "--json")
    assert ended.code == 0, ended.err
    pairs = json.loads(ended.out)["pairs"]
    assert {pair["task"] for pair in pairs} == {"one", "two"}
    assert {pair["changed"] for pair in pairs} == {False}
    assert all(0 < pair["mde"] < 0.5 for pair in pairs)
    shown = robustify("compare", "after=logs/after", "before=logs/before").out.splitlines()
    assert len(shown) == 2
    assert all("80 % power" in line for line in shown)
    other = tmp_path / "samples_uno.jsonl"
    [before], [after] = ([*(tmp_path / "logs" / name).glob("samples_one_*")] for name in ("before", "after"))
    other.write_text(after.read_text())
    assert robustify("compare", before, other).code == 2
    [pair] = json.loads(robustify("compare", f"a={before}", f"b={other}", "--json").out)["pairs"]
    assert pair["changed"] is False


def test_differences_of_runs_and_of_models_of_a_run_are_tables(robustify, tmp_path: Path) -> None:
    run = made_run(tmp_path / "made", view="full")
    (pair,) = model_pairs([run])
    stored = next(iter(run.summary.pairs.values())).full.all
    assert abs(pair.difference.value) == abs(stored.difference.value)
    assert pair.p == holm([stored.p_mid])[0]
    for form, mark in (("markdown", "| {} |"), ("latex", "\\toprule"), ("csv", "{},")):
        for runs, head in (([run.folder] * 2, "Number"), ([run.folder], "Models")):
            assert mark.format(head) in robustify("compare", *runs, "--format", form).out


def test_latex_prints_the_signs_that_its_usual_font_lacks() -> None:
    rows = [("a < b", "p > 0.1"), ("c", "\u22122 \u2013 3 %")]
    text = printed_table(text_table("t", ("x", "y"), rows), "latex")
    assert re.findall(r"[^$][<>]|[<>][^$]|[\u2212\u2013]", text) == []
    assert text.count("$<$") == text.count("$>$") == text.count("$-$") == 1


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
    for argv, code in (
        (("one.csv",), "one-model-of-a-task"),
        ((run.folder, "one.csv"), "runs-with-logs"),
        ((run.folder, "nowhere"), "no-such-file"),
        (("one.csv", "nowhere.csv"), "no-such-file"),
        (("one.csv", "--alert"), "alert-of-two-runs"),
    ):
        ended = robustify("compare", *argv)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert f"[{code}]" in ended.err


@pytest.mark.parametrize(("value", "ci", "p", "looks", "shown", "word"), cases("report", "pairs"))
def test_the_sentence_follows_the_numbers(
    value: float, ci: Any, p: float | None, looks: Any, shown: str, word: str
) -> None:
    owed = None if looks is None else Quantity(value=looks[0], n=90, ci=looks[1])
    found = Quantity(value=value, n=90, ci=ci)
    pair = ModelPair("t", "a", "b", "full", found, p, None if ci is None else 0.05, owed)
    assert numbers(pair.line) == shown
    assert word in pair.line
    assert "()" not in pair.line
    assert len(pair_table([pair]).rows) == 1
