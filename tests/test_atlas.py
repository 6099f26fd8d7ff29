"""What the atlas publishes of real sets: numbers and ids, no words of an item; and its studies on made-up sets, whose
numbers are counted by hand."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from bench import cases
from bench.atlas import __main__ as atlas
from bench.atlas import audit, blind, mmlu_pro, others, table, writers
from bench.atlas.audit import items_of
from robustify.items.item import Item
from robustify.judging.readers import ReaderFits
from tests.support.fake_logs import jsonl

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "atlas"
SETS = ROOT / "bench" / "atlas" / "sets.yaml"
WINDOW = 5
"""So many words of an item in a row are its text, unless they occur in any text, such as "at least one of the"."""
LONG, FEWEST_LONG = 5, 2


def windows(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    every = (tuple(words[i : i + WINDOW]) for i in range(len(words) - WINDOW + 1))
    return {window for window in every if sum(len(word) >= LONG for word in window) >= FEWEST_LONG}


def test_no_words_of_an_item_are_published(data: Path) -> None:
    pages = [*RESULTS.glob("*.json"), *(p for p in [ROOT / "docs" / "findings.md"] if p.is_file())]
    published = {window for page in pages for window in windows(page.read_text("utf-8"))}
    assert len(published) > 1000
    for name, files in yaml.safe_load(SETS.read_text("utf-8")).items():
        relative = [files] if isinstance(files, str) else files
        for item in items_of([one.replace("$ROBUSTIFY_DATA", str(data)) for one in relative]):
            for text in (item.stem, *item.choices):
                assert not windows(text) & published, f"{name}: words of item {item.id} are published"
    pages = [RESULTS / name for name in ("mmlu_pro.json", "writers.json", "atlas.html")]
    published = {window for page in pages if page.is_file() for window in windows(page.read_text("utf-8"))}
    for path in (data / "mmlu_pro_models" / "items.jsonl", data / "distractors" / "arc" / "pool.jsonl"):
        for row in [json.loads(line) for line in path.open(encoding="utf-8")][::10]:
            texts = [text for of in row.values() for text in (of if isinstance(of, list) else [str(of)])]
            assert not {w for text in texts for w in windows(text)} & published, row["id"]


@pytest.mark.slow
def test_a_set_of_the_users_own_is_audited_without_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sets.yaml"
    sets.write_text(f"mine: {ROOT}/configs/data/benign_demo.jsonl\nabsent: {tmp_path}/none.jsonl\n")
    for name, place in {"SETS": sets, "RESULTS": tmp_path / "out", "WORK": tmp_path / "work"}.items():
        monkeypatch.setattr(atlas, name, place)
    monkeypatch.setattr(audit, "over_seeds", partial(audit.over_seeds, seeds=2))
    assert atlas.main(["mine", "absent"]) == 0
    index = json.loads((tmp_path / "out" / "index.json").read_text("utf-8"))
    assert index["left_out"] == ["absent"]
    # The demo has a planted cue in 35 % of its items.
    assert (
        0.2 < index["sets"]["mine"]["latent"]["ci"][0] < 0.35 < index["sets"]["mine"]["latent"]["ci"][1] + 0.1
    )
    before = (tmp_path / "out" / "mine.json").stat().st_mtime_ns
    assert atlas.main(["--index"]) == 0
    assert (tmp_path / "out" / "mine.json").stat().st_mtime_ns == before


def test_answers_of_larger_models_give_rules_scores_and_what_others_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "choices_only" / "made"
    rng, n = np.random.default_rng(0), 160
    key = rng.integers(0, 4, n)
    items = [
        {"id": f"m{i}", "stem": f"Which box is {i}?", "choices": [f"box {i} {c}" for c in "wxyz"], "key": k}
        for i, k in enumerate(key.tolist())
    ]
    jsonl(folder / "items.jsonl", items)
    picks = {
        (m, view): np.where(rng.random(n) < share, key, rng.integers(0, 4, n))
        for m in ("a", "b", "c")
        for view, share in (("choices_only", 0.4), ("full", 0.9))
    }
    lines = [
        f"m{i},{m},{view},{'ABCD'[key[i]]},{'ABCD'[pick]}"
        for (m, view), of in picks.items()
        for i, pick in enumerate(of.tolist())
    ]
    (folder / "picks.csv").write_text("\n".join(["item,model,view,key,pick", *lines]) + "\n")
    monkeypatch.setattr(others, "PREDICTIONS", str(tmp_path))
    monkeypatch.setitem(others.SETS, "made", others.Asked("made"))
    found = others.larger("made", tmp_path / "work")
    alike = np.all([picks[m, "choices_only"] == key for m in ("a", "b", "c")], axis=0)
    right = picks["a", "full"] == key
    score = found["order"]["unanimous"]["models"]["a"]
    assert score["all"]["value"] == pytest.approx(right.mean())
    assert score["kept"]["value"] == pytest.approx(right[~alike].mean())
    without = picks["a", "choices_only"] == key
    assert found["also_without"]["a"]["value"] == pytest.approx(without[right].mean())
    assert score["kept"]["n"] == n - alike.sum()


def made(n: int, derived: int = 1, seed: int = 0) -> list[dict[str, Any]]:
    """Items of ten numbers. In one of `derived`, nine are made from the key, which only their comparison shows."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        key = int(rng.integers(20, 90))
        made_from = [f"{key * by:g} m" for by in (0.5, 2, 10, 0.1, -1, 3, 4, 100, 0.01)]
        at = int(rng.integers(10))
        made_from = made_from if i % derived == 0 else [f"{one} m" for one in rng.integers(20, 90, 9)]
        choices = [*made_from[:at], f"{key} m", *made_from[at:]]
        row = {"id": f"m{i}", "stem": f"How long is {i}?", "choices": choices, "key": at, "topic": "t"}
        rows.append(row | {"source": ("ori_mmlu-a", "stemez-b")[i % 2]})
    return rows


def test_a_key_from_which_the_others_were_made_is_found_unless_keys_are_redrawn() -> None:
    assert blind._number("−3.40 × 10^-2") == (pytest.approx(-0.034), 2, 2, 1)
    items = [Item(r["id"], r["stem"], tuple(r["choices"]), r["key"]) for r in made(100)]
    (key, k), groups = blind.keys_of(items), np.arange(100)
    found = blind.blind(items, groups, readers=("form",))
    assert set(found) == {"form", "logit", "comparing"}
    assert np.mean(blind.favorites(found["comparing"], k) == key) > 0.9
    redrawn = np.random.default_rng(1).integers(0, 10, len(items))
    by_chance = ReaderFits(blind.comparing(), items, key=redrawn).logits(groups % 5)
    assert np.mean(blind.favorites(by_chance, k) == redrawn) < 0.25


def test_neighbors_share_a_group_of_at_most_twenty_only_if_they_have_one_source() -> None:
    items = [Item(f"i{i}", f"q{i}", (f"a{i}", f"b{i}"), 0) for i in range(300)]
    one, two = (blind.groups_of(items, sources) for sources in (["a"] * 300, ["a", "b"] * 150))
    assert np.bincount(one).max() == 20
    assert len(np.unique(one)) < len(np.unique(two))


def test_models_are_better_on_hits_by_what_they_gain_within_strata_only() -> None:
    stratum = np.repeat([0, 1], 200)
    hit = np.tile([1.0, 0.0], 200)
    easy = np.where(stratum == 0, 0.9, 0.3)  # between strata, hits and ease are not compared
    won = {"a": easy + 0.06 * hit, "b": easy - 0.02 * hit}
    won["a"][0] = np.nan
    found = mmlu_pro.better_on_hits(won, hit, stratum, np.arange(400) // 2)
    assert found["each"]["a"]["n"] == 399
    assert [found["each"][m]["value"] for m in "ab"] == pytest.approx([0.06, -0.02])
    assert found["mean"]["value"] == pytest.approx(0.02)
    assert (found["mean"]["hits"], found["above_0"]) == (200, 1)


def test_wrong_picks_on_the_probes_wrong_favorite_are_counted_against_an_even_spread() -> None:
    key, k = np.zeros(6, dtype=int), np.array([4, 4, 4, 4, 2, 4])
    favorite = np.array([1, 1, 1, 0, 1, -1])  # right on the fourth; two options and a tie do not count
    picks = {"a": np.array([1, 1, 0, 2, 1, 1]), "b": np.array([2, -1, 1, 1, 1, 1])}
    found = mmlu_pro.lured(picks, favorite, (key, k), np.arange(6))
    assert [found["all"][of] for of in ("items", "picks", "found")] == [3, 4, 3]
    assert found["all"]["value"] == pytest.approx(3 / (4 / 3))
    assert found["each"]["a"] == pytest.approx(3.0)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A made-up folder of shared data, with two models of which one takes the longest option."""
    made_up, rng = made(150, 3), np.random.default_rng(2)
    made_up[0]["choices"][made_up[0]["key"]] += " "
    jsonl(tmp_path / "mmlu_pro_models" / "items.jsonl", made_up)
    picks = [
        {"item": r["id"], "model": m, "view": "full", "pick": None if i == 0 else "ABCDEFGHIJ"[pick]}
        for i, r in enumerate(made_up)
        for m, pick in (("sure", r["key"]), ("guesses", int(rng.integers(10))))
    ]
    pq.write_table(pa.Table.from_pylist(picks), tmp_path / "mmlu_pro_models" / "picks.parquet")
    pool = []
    for r in made_up[:80]:
        wrong = [f"{choice} or so" for at, choice in enumerate(r["choices"]) if at != r["key"]]
        key = r["choices"][r["key"]].strip()
        own = [f"{int(key[:-2]) + at} m" for at in (1, 3, 7)]
        nine = [key, *wrong[1:]] if len(pool) < 20 else wrong
        offered = {"people": own, "mmlu_pro": wrong[:6], "gpt52": wrong[:3], "gpt52_nine": nine}
        pool.append({"id": r["id"], "stem": r["stem"], "key": key, "topic": "t", **offered})
    jsonl(tmp_path / "distractors" / "mmlu_pro" / "pool.jsonl", pool)
    for module in (cases, mmlu_pro):
        monkeypatch.setattr(module, "folder", lambda: tmp_path)
    monkeypatch.setattr(writers, "embed_texts", lambda *_, **__: None)
    return made_up


@pytest.mark.slow
def test_the_whole_set_is_measured(rows: list[dict[str, Any]]) -> None:
    found = mmlu_pro.mmlu_pro(Path())
    first = found["probes"][found["worth"]["best"]]
    assert found["worth"]["all"]["value"] == pytest.approx(1 / first["all"]["value"])
    assert {name: of["n"] for name, of in first["source"].items()} == {"ori_mmlu": 75, "stemez": 75}
    assert found["spaces"]["all"] == {"items": 150, "keys": 1, "distractors": 0, "key_alone": 1}
    raw = {m: of["all"] for m, of in found["ranking"]["parts"]["missed"]["models"].items()}
    assert (raw["sure"]["value"], raw["sure"]["n"]) == (1.0, 149)
    assert set(found["models"]["comparing"]["better_on_hits"]["each"]) == {"sure", "guesses"}
    looks, placebo = found["looks"], found["looks"]["placebo"]
    assert looks["models"]["guesses"]["n"] == 149  # one answer was not read
    assert looks["models"]["sure"]["value"] is None  # without wrong picks, looks cannot be estimated
    assert (looks["claimed"], placebo["claimed"], looks["of"]) == (0, 0, 2)
    assert abs(placebo["reader"]["value"] - placebo["reader"]["chance"]) < 0.1 < looks["reader"]["value"]
    assert found["added"]["difference"]["shortest_answer"]["n"] == 80


def test_writers_are_compared_on_the_same_questions(rows: list[dict[str, Any]]) -> None:
    more = writers.asked_for_more(writers.pools("mmlu_pro", ("gpt52", "gpt52_nine")))
    assert more["value"] == pytest.approx(60 / 80)  # twenty have a candidate like the key
    found = writers.part("mmlu_pro", ("people", "mmlu_pro"))
    added = found["writers"]["mmlu_pro"]
    assert added["accuracy"]["shortest_answer"]["value"] > 0.9
    assert added["to_people"]["shortest_answer"]["ci"][0] > 0.3
    assert added["flagged"]["n"] == found["n"] == 80
    items = [Item(f"i{i}", "q", ("a", "b", "c", "d"), 0) for i in range(4)]
    picks = np.array([[0, 1, 0, -1], [0, 1, 2, 0]])
    assert writers.all_right(items, picks) == {"items": 1, "expected": 0.5, "n": 4}


def test_the_table_says_of_each_set_what_gives_most_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_digest", lambda _: "f" * 64)
    part = {"value": 0.5, "n": 60, "ci": [0.4, 0.6], "chance": 0.25}
    cue = {"key": "is the shortest option", "keys": 40, "n": 60, "expected": 15.0}
    probes = {"comparing": {"all": part, "source": {"a": part}, "topic": {"t <b>": part}}}
    ranking, worth = {"flagged": 7}, {"best": "comparing"}
    whole = {"worth": worth, "probes": probes, "cues": {"all": [cue]}, "ranking": ranking}
    (tmp_path / "mmlu_pro.json").write_text(json.dumps(whole))
    table.write_table(tmp_path)
    rows = json.loads((tmp_path / "atlas.json").read_text())["sets"]
    assert list(rows) == ["mmlu-pro", "mmlu-pro: a", "mmlu-pro: t <b>"]
    says = "the key is the shortest option in 40 of 60 items that differ in it, 15 expected"
    assert rows["mmlu-pro"]["cue"] == says
    assert rows["mmlu-pro"]["advice"] == "lengthen it, or shorten the others"
    assert rows["mmlu-pro: a"]["advice"] == "vary distractors that were made by changing the key"
    assert (rows["mmlu-pro"]["worth"], rows["mmlu-pro: a"]["flagged"]) == (2.0, None)
    page = (tmp_path / "atlas.html").read_text()
    assert page.count("<tr>") == 4
    assert "t &lt;b&gt;" in page
