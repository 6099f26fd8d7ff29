"""Items in text files: counted by part and by split, without a word of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from robustify.base.errors import DataError
from robustify.items.item import Item
from robustify.judging.text_overlap import Hit, Overlap, SearchedFile, overlap
from robustify.judging.text_overlap import contamination as judge_contamination
from tests.support.trees import in_trees

contamination = in_trees(judge_contamination)

FILE = SearchedFile("web.txt", "0" * 64, 1000, 200)


def made(**changes: object) -> Overlap:
    """Ten items: i0 to i5 long, i6 to i8 short, i9 too short; found are i0, i1 and i6, i7 by its stem alone."""
    fields: dict[str, object] = {
        "ngram": 13,
        "files": (FILE,),
        "items": 10,
        "checked": {"stem": 9, "stem_key": 9, "choices": 9},
        "short": ("i6", "i7", "i8"),
        "not_checkable": ("i9",),
        "hits": (
            Hit("i0", ("stem", "stem_key"), 1.0),
            Hit("i1", ("stem",), 0.5),
            Hit("i6", ("stem", "choices"), None),
            Hit("i7", ("stem",), None),
        ),
    }
    return Overlap(**{**fields, **changes})


TEN = [f"i{i}" for i in range(10)]
KEPT = np.array([True, False, True, True, False, False, True, True, False, True])


def test_the_overlap_is_counted_by_mode_by_part_and_by_split() -> None:
    tree = contamination(made(), TEN, KEPT, ~KEPT)["overlap"]
    assert tree["files"] == [{"name": "web.txt", "sha256": "0" * 64, "bytes": 1000, "words": 200}]
    assert (tree["ngram"], tree["n"], tree["not_checkable"]) == (13, 6, 1)
    assert (tree["found"]["value"], tree["found"]["n"]) == (pytest.approx(2 / 6), 6)
    assert tree["short_mode"]["n"] == 3
    assert tree["short_mode"]["found"]["value"] == pytest.approx(1 / 3)
    assert tree["coverage"]["value"] == pytest.approx(1.5 / 6)
    assert tree["parts"]["stem"]["value"] == pytest.approx(4 / 9)
    assert tree["parts"]["stem_key"]["value"] == pytest.approx(1 / 9)
    assert (tree["in_kept"]["value"], tree["in_kept"]["n"]) == (pytest.approx(2 / 5), 5)
    assert (tree["in_flagged"]["value"], tree["in_flagged"]["n"]) == (pytest.approx(1 / 4), 4)
    assert tree["items"] == ["i0", "i1", "i6"]


@pytest.mark.parametrize("changes", [{"items": 11}, {"short": ("i6", "i7", "other")}])
def test_an_overlap_of_other_items_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(DataError, match="differ from the"):
        contamination(made(**changes), TEN, KEPT, ~KEPT)


def test_from_items_and_a_file_to_the_summary_without_a_word_of_them(
    toys: list[Item], tmp_path: Path
) -> None:
    path = tmp_path / "page.txt"
    path.write_text(f"12) {toys[3].stem}\nAnswer: {toys[3].choices[toys[3].key]}", encoding="utf-8")
    kept = json.loads(json.dumps(overlap(toys, [path]).json()))
    mask = np.array([True] * 4 + [False] * 4)
    tree = contamination(Overlap.of(kept), [item.id for item in toys], mask, ~mask)
    assert tree["overlap"]["items"] == ["t3"]
    assert tree["overlap"]["short_mode"]["n"] == 8
    assert tree["overlap"]["found"]["value"] is None
    assert tree["overlap"]["in_kept"]["value"] == 0.25
    assert not any(word in json.dumps([tree, kept]) for word in ("meant", "grey", str(tmp_path)))
