"""Doubtful items: planted wrong keys are found by models that know, and items in text files by part and by split."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robustify.base.errors import DataError
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.accuracy import Credits, scored
from robustify.judging.audit.doubts import contamination as judge_contamination
from robustify.judging.audit.doubts import label_noise as judge_label_noise
from robustify.judging.audit.doubts import overlapped as judge_overlapped
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Facts
from robustify.judging.ngrams.overlap import Hit, Overlap, SearchedFile, overlap
from robustify.judging.screen.item_index import ItemIndex, item_index
from robustify.judging.screen.screen_rules import ScreenRules
from tests.support.contexts import made_up, parts_of
from tests.support.fake_answers import Bench, rows
from tests.support.trees import in_trees

label_noise = in_trees(judge_label_noise)


def knowing(n: int, skill: float, models: int, *, wrong: Any = None, k: int = 4, seed: int = 0) -> Bench:
    """Models that know the true choice with probability `skill` and else pick any; `wrong` keys are moved on."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    picks = np.where(rng.random((n, models)) < skill, truth[:, None], rng.integers(0, k, (n, models)))
    moved = np.zeros(n, dtype=bool) if wrong is None else wrong
    key = np.where(moved, (truth + 1) % k, truth)
    return Bench(picks, key, np.full(n, k), moved)


def judged(b: Bench, kept: Any = None) -> dict[str, Any]:
    table = Answers.of(rows(b, view="full", template="mmlu-v1", rotations=False, bias=0.0))
    held, found = asked(b, table)
    parts = parts_of(np.ones(len(b.key)) if kept is None else kept)
    tree = label_noise(made_up(b.voters, parts=parts, answers=table, index=held, full="full"), found)
    assert tree is not None
    json.dumps(tree, allow_nan=False)
    return tree


def asked(b: Bench, table: Answers) -> tuple[ItemIndex, dict[str, Credits]]:
    held = item_index(table, b.ids)
    return held, {name: scored(table, held, name, "letter", ScreenRules()).credits for name in b.voters}


def test_planted_wrong_keys_are_listed_and_few_others() -> None:
    wrong = np.arange(400) % 20 == 0
    b = knowing(400, 0.9, 3, wrong=wrong)
    found = judged(b)
    flagged = np.isin(np.array(b.ids), found["items"])
    assert found["strong"] == ["v0", "v1", "v2"]
    assert flagged[wrong].mean() > 0.6
    assert flagged[~wrong].mean() < 0.01
    assert found["flagged"]["value"] == pytest.approx(flagged.mean())
    assert found["flagged"]["n"] == found["n"] == 400
    assert found["reason"] is None


def test_by_hand() -> None:
    key = np.zeros(40, dtype=np.int64)
    picks = np.zeros((40, 2), dtype=np.int64)
    picks[0] = (1, 1)  # agree on a wrong option
    picks[1] = (1, 2)  # both wrong, apart
    picks[2] = (1, 0)  # one right
    picks[3] = (-1, 1)  # one without an answer
    picks[4] = (-2, -2)  # shared picks agree with nothing
    picks[5] = (2, 2)
    kept = np.arange(40) != 5
    found = judged(Bench(picks, key, np.full(40, 4), np.zeros(40, dtype=bool)), kept)
    assert (found["n"], found["all_wrong"], found["items"]) == (39, 3, ["i00000", "i00005"])
    assert found["flagged"]["value"] == pytest.approx(2 / 39)
    assert found["expected"] == pytest.approx(3 / 3)
    assert found["p"] == pytest.approx(1 - (2 / 3) ** 3 - 3 * (1 / 3) * (2 / 3) ** 2)
    assert (found["in_kept"]["value"], found["in_kept"]["n"]) == (pytest.approx(1 / 38), 38)
    assert (found["in_flagged"]["value"], found["in_flagged"]["n"]) == (1, 1)


@pytest.mark.parametrize("strong", [[], ["v0"]])
def test_fewer_than_two_strong_models_judge_nothing_and_say_so(strong: list[str]) -> None:
    b = knowing(200, 0.9, 1)
    guess = np.arange(200) % 4
    found = judged(replace(b, picks=np.column_stack([b.picks[:, 0] if strong else guess, guess[::-1]])))
    assert found["strong"] == strong
    assert found["reason"] == {"code": "few_strong_models", "params": {"strong": len(strong), "asked": 2}}
    assert [found[name] for name in ("n", "flagged", "expected", "in_kept", "items")] == [None] * 5


def test_nobody_asked_the_full_question_is_null() -> None:
    b = knowing(20, 0.9, 2)
    table = Answers.of(rows(b))
    held, found = asked(b, table)
    assert (
        label_noise(
            made_up(b.voters, parts=parts_of(np.ones(20)), answers=table, index=held, full="full"), found
        )
        is None
    )


contamination = in_trees(judge_contamination)
overlapped = in_trees(judge_overlapped)

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


TEN = item_index(Answers.of([]), [f"i{i}" for i in range(10)])
KEPT = np.array([True, False, True, True, False, False, True, True, False, True])


def test_the_overlap_is_counted_by_mode_by_part_and_by_split() -> None:
    tree = overlapped(made(), TEN, KEPT, ~KEPT)
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
        overlapped(made(**changes), TEN, KEPT, ~KEPT)


def test_from_items_and_a_file_to_the_summary_without_a_word_of_them(
    toys: list[Item], tmp_path: Path
) -> None:
    path = tmp_path / "page.txt"
    path.write_text(f"12) {toys[3].stem}\nAnswer: {toys[3].choices[toys[3].key]}", encoding="utf-8")
    answers = guess(toys)
    kept = json.loads(json.dumps(overlap(toys, [path]).json()))
    mask = np.array([True] * 4 + [False] * 4)
    tree = contamination(
        SimpleNamespace(
            facts=Facts("made-up", overlap=Overlap.of(kept)),
            index=item_index(answers, [i.id for i in toys]),
            parts=SimpleNamespace(kept=mask, flagged=~mask),
        )
    )
    assert tree["overlap"]["items"] == ["t3"]
    assert tree["overlap"]["short_mode"]["n"] == 8
    assert tree["overlap"]["found"]["value"] is None
    assert tree["overlap"]["in_kept"]["value"] == 0.25
    assert not any(word in json.dumps([tree, kept]) for word in ("meant", "grey", str(tmp_path)))
