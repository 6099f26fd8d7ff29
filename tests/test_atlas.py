"""What the atlas publishes of real sets: numbers and ids, no words of an item."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from bench.atlas import __main__ as atlas
from bench.atlas import audit, others
from bench.atlas.audit import items_of

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
    folder.mkdir(parents=True)
    rng, n = np.random.default_rng(0), 160
    key = rng.integers(0, 4, n)
    items = [
        {"id": f"m{i}", "stem": f"Which box is {i}?", "choices": [f"box {i} {c}" for c in "wxyz"], "key": k}
        for i, k in enumerate(key.tolist())
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in items))
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
