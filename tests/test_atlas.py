"""What the atlas publishes of real sets: numbers and ids, no words of an item, and every set of its list."""

import json
import re
from pathlib import Path

import yaml

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


def test_every_number_of_the_index_has_its_n_and_interval_and_every_set_is_there() -> None:
    index = json.loads((RESULTS / "index.json").read_text("utf-8"))
    assert set(index["sets"]) | set(index["left_out"]) == set(yaml.safe_load(SETS.read_text("utf-8")))
    assert len(index["sets"]) >= 12
    for row in index["sets"].values():
        for part in ("best_heuristic", "probe", "scorer", "latent", "residual", "flagged", "strongest_cue"):
            low, high = row[part]["ci"]
            assert low <= row[part]["value"] <= high
            assert row[part]["n"] <= row["n"]
        assert row["best_heuristic"]["p"] <= row["best_heuristic"]["p_corrected"]
        assert row["probe"]["least"] <= row["probe"]["value"] <= row["probe"]["most"]
