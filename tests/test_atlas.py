"""What the atlas publishes of real sets: numbers and ids, no words of an item; how cues and orders are counted."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from bench.atlas import __main__ as atlas
from bench.atlas.orders import by_cue
from bench.atlas.sample import items_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "atlas"
SETS = ROOT / "bench" / "atlas" / "sets.yaml"
WINDOW = 5
"""So many words of an item in a row are its text."""


def windows(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + WINDOW]) for i in range(len(words) - WINDOW + 1)}


def test_no_words_of_an_item_are_published(data: Path) -> None:
    pages = [*RESULTS.glob("*.json"), *(p for p in [ROOT / "docs" / "findings.md"] if p.is_file())]
    published = {window for page in pages for window in windows(page.read_text("utf-8"))}
    assert len(published) > 1000
    for name, files in yaml.safe_load(SETS.read_text("utf-8")).items():
        relative = [files] if isinstance(files, str) else files
        for item in items_of([one.replace("$ROBUSTIFY_DATA", str(data)) for one in relative]):
            for text in (item.stem, *item.choices):
                assert not windows(text) & published, f"{name}: words of item {item.id} are published"


def test_the_gap_of_a_cue_and_both_orders_by_hand() -> None:
    cue = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.5])
    won = {"a": np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), "b": np.array([1.0, 0.0, 0.0, 1.0, 1.0, np.nan])}
    found = by_cue(won, cue)
    assert found["items"] == {"with": 3.5, "without": 2.5}
    assert found["models"]["a"]["with"] == pytest.approx(3 / 3.5)
    assert found["models"]["a"]["without"] == 0
    assert found["models"]["b"]["gap"]["value"] == pytest.approx(1 / 3 - 1)
    assert (found["order_with"], found["order_without"]) == (["a", "b"], ["b", "a"])
    assert (found["pairs"], found["overtakes"]) == (1, [["a", "b"]])


@pytest.mark.slow
def test_a_set_of_the_users_own_is_audited_without_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sets.yaml"
    sets.write_text(f"mine: {ROOT}/configs/data/benign_demo.jsonl\nabsent: {tmp_path}/none.jsonl\n")
    for name, place in {"SETS": sets, "RESULTS": tmp_path / "out", "WORK": tmp_path / "work"}.items():
        monkeypatch.setattr(atlas, name, place)
    monkeypatch.setattr(atlas, "CHART", tmp_path / "chart.svg")
    assert atlas.main(["--free"]) == 0
    index = json.loads((tmp_path / "out" / "index.json").read_text("utf-8"))
    assert index["left_out"] == ["absent"]
    # The demo has a planted cue in 35 % of its items.
    assert (
        0.2 < index["sets"]["mine"]["latent"]["ci"][0] < 0.35 < index["sets"]["mine"]["latent"]["ci"][1] + 0.1
    )
    assert index["sets"]["mine"]["models"] is None
    before = (tmp_path / "out" / "mine.json").stat().st_mtime_ns
    assert atlas.main(["--index"]) == 0
    assert (tmp_path / "out" / "mine.json").stat().st_mtime_ns == before
