"""Signs of contamination: held against luck that knows where keys stand, and never called by another name."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from robustify import orders
from robustify.answers import Answer, Answers, answer, unanswered
from robustify.ask import Asking, ask, plan
from robustify.baselines.heuristics import guess
from robustify.errors import DataError
from robustify.item import Item
from robustify.judge.signs import DRAWS, MEMORISED, by_places
from robustify.judge.signs import contamination as judge_contamination
from robustify.judge.signs import memorisation as judge_memorisation
from robustify.judge.signs import overlapped as judge_overlapped
from robustify.ngrams.overlap import Hit, Overlap, TextFile, overlap
from robustify.report.reasons import contamination_sentence
from robustify.screen.item_index import ItemIndex, item_index
from robustify.summary.result import Contamination
from robustify.views import Request
from tests.support.fake_scorer import FakeScorer, likes_the_letter
from tests.support.trees import in_trees

contamination = in_trees(judge_contamination)
memorisation = in_trees(judge_memorisation)
overlapped = in_trees(judge_overlapped)

FILE = TextFile("web.txt", "0" * 64, 1000, 200)


def row(i: int, key: int, pick: int | None, k: int = 4, view: str = "no_choices", model: str = "m") -> Answer:
    if pick is None:
        return unanswered(f"i{i}", view, model, orders.own(k), "mmlu-v1", key, "too long")
    scores = [-0.5 if j == pick else -2.0 for j in range(k)]
    return answer(f"i{i}", view, model, orders.own(k), "mmlu-v1", key, scores)


def table(*rows: Answer) -> tuple[Answers, ItemIndex]:
    answers = Answers.of(rows)
    return answers, item_index(answers, list(dict.fromkeys(r.item for r in rows)))


def entry(tree: object, *path: str) -> object:
    for step in path:
        tree = tree[step]
    return tree


def places(picks: list[int], k: int = 4) -> np.ndarray:
    return np.arange(k) == np.array(picks)[:, None]


def test_a_model_that_remembers_where_keys_stand_is_told() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 4, size=200)
    picks = np.where(rng.random(200) < 0.4, keys, rng.integers(0, 4, size=200))
    found = memorisation(
        *table(*(row(i, int(a), int(b)) for i, (a, b) in enumerate(zip(keys, picks, strict=True))))
    )
    told = found["m"]["no_choices"]
    assert entry(told, "value") == pytest.approx(float(np.mean(keys == picks)))
    assert entry(told, "n") == 200
    assert entry(told, "chance") == pytest.approx(0.25, abs=0.02)
    assert entry(told, "p") == 1 / (1 + DRAWS)
    assert found["m"]["significant"] is True
    assert found["m"]["gold_repeated"] is None


def test_a_model_that_always_says_c_is_not_told_where_keys_favour_c() -> None:
    keys = [2] * 120 + [0] * 30 + [1] * 30 + [3] * 20
    found = memorisation(*table(*(row(i, key, 2) for i, key in enumerate(keys))))
    assert entry(found, "m", "no_choices", "value") == 0.6
    assert entry(found, "m", "no_choices", "chance") == pytest.approx(0.6)
    assert entry(found, "m", "no_choices", "p") == 1.0
    assert found["m"]["significant"] is False


@pytest.mark.parametrize("seed", range(6))
def test_p_and_chance_are_those_of_all_permutations_of_the_keys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = np.array([3, 3, 3, 3, 2, 2, 2])
    tied = rng.random((7, 3)) < 0.5
    tied[:, 0] |= ~tied[:, :2].any(axis=1)
    tied[k == 2, 2] = False
    place = rng.integers(0, k)
    share = tied / tied.sum(axis=1, keepdims=True)
    here = float(share[np.arange(7), place].sum())
    totals = [
        sum(share[i, place[j]] for i, j in enumerate((*first, *second)))
        for first in itertools.permutations(range(4))
        for second in itertools.permutations(range(4, 7))
    ]
    chance, p = by_places(tied, place, k, draws=40_000)
    assert chance == pytest.approx(np.mean(totals) / 7)
    assert p == pytest.approx(np.mean(np.array(totals) >= here - 1e-9), abs=0.012)


def test_luck_is_told_no_oftener_than_it_says() -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(400):
        # Keys and picks both favour the last places, and know nothing of each other.
        place = rng.choice(4, size=60, p=[0.1, 0.2, 0.3, 0.4])
        picks = rng.choice(4, size=60, p=[0.05, 0.05, 0.2, 0.7])
        _, p = by_places(places(picks.tolist()), place, np.full(60, 4), draws=999)
        alarms += p <= 0.05
    assert alarms / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_knowing_some_keys_is_seen() -> None:
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(50):
        place = rng.choice(4, size=200, p=[0.1, 0.2, 0.3, 0.4])
        picks = np.where(rng.random(200) < 0.25, place, 3)
        seen += (by_places(places(picks.tolist()), place, np.full(200, 4), draws=999)[1] or 1.0) <= 0.05
    assert seen >= 45


def test_nobody_asked_is_no_luck() -> None:
    assert by_places(
        np.zeros((0, 4), dtype=bool), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    ) == (None, None)


def test_an_unanswered_item_is_in_no_rate_and_counted() -> None:
    found = memorisation(*table(row(0, 1, 1), row(1, 2, None), row(2, 0, 3)))
    assert found is not None
    assert entry(found, "m", "no_choices", "n") == 2
    assert entry(found, "m", "no_choices", "unanswered") == 1
    silent = memorisation(*table(row(0, 1, None)))
    assert silent is not None
    for name in ("value", "chance", "p", "p_holm", "mde"):
        assert entry(silent, "m", "no_choices", name) is None


def test_ties_share_credit_and_picks_without_scores_count() -> None:
    level = answer("i0", "no_choices", "m", (0, 1, 2, 3), "mmlu-v1", 2, [-1.0, -1.0, -1.0, -1.0])
    bare = Answer("i1", "no_choices", "m", (0, 1, 2, 3), "mmlu-v1", 3, 3, 1.0, (), tie=1)
    found = memorisation(*table(level, bare))
    assert found is not None
    assert entry(found, "m", "no_choices", "value") == pytest.approx((0.25 + 1) / 2)
    torn = Answer("i1", "no_choices", "m", (0, 1, 2, 3), "mmlu-v1", 3, 3, 0.5, (), tie=2)
    found = memorisation(*table(level, torn))
    assert found is not None
    assert entry(found, "m", "no_choices", "unanswered") == 1


def test_places_are_those_in_which_the_choices_were_shown() -> None:
    # Every key was shown first, and the model always likes the first place.
    rows = []
    for i, key in enumerate([0, 1, 2, 3] * 10):
        order = (key, *(j for j in range(4) if j != key))
        scores = [-0.5 if j == key else -2.0 for j in range(4)]
        rows.append(answer(f"i{i}", "gold_repeated", "m", order, "mmlu-v1", key, scores))
    found = memorisation(*table(*rows))
    assert found is not None
    assert entry(found, "m", "gold_repeated", "value") == 1.0
    assert entry(found, "m", "gold_repeated", "chance") == 1.0
    assert entry(found, "m", "gold_repeated", "p") == 1.0


def test_holm_runs_over_models_and_views() -> None:
    rng = np.random.default_rng(3)
    rows = [
        row(i, int(rng.integers(4)), int(rng.integers(4)), view=view, model=model)
        for i in range(40)
        for view, model in (("no_choices", "a"), ("gold_repeated", "a"), ("no_choices", "b"))
    ]
    keys = {f"i{i}": i % 4 for i in range(40)}
    rows = [answer(r.item, r.view, r.model, r.order, r.template, keys[r.item], r.scores) for r in rows]
    found = memorisation(*table(*rows))
    assert found is not None
    p = [entry(found, *w, "p") for w in (("a", "no_choices"), ("a", "gold_repeated"), ("b", "no_choices"))]
    held = [
        entry(found, *w, "p_holm") for w in (("a", "no_choices"), ("a", "gold_repeated"), ("b", "no_choices"))
    ]
    assert min(held) == pytest.approx(min(1.0, 3 * min(p)))
    assert all(h >= raw for h, raw in zip(held, p, strict=True))
    assert [found[m]["significant"] for m in ("a", "b")] == [False, False]


def test_a_real_asking_is_counted_as_it_was_asked(toys: list[Item]) -> None:
    where = {item.stem: "ABCD"[item.key] for item in toys}

    def remembers(r: Request) -> float:
        letter = next(letter for stem, letter in where.items() if stem in r.context)
        return -0.1 if r.continuation.strip() == letter else -3.0

    asking = Asking(views=MEMORISED)
    rows = [
        *ask(plan(toys, asking), FakeScorer(remembers, "memory")),
        *ask(plan(toys, asking), FakeScorer(likes_the_letter("A"), "first")),
    ]
    answers = Answers.of(rows)
    found = memorisation(answers, item_index(answers, [item.id for item in toys]))
    for view in MEMORISED:
        assert entry(found, "memory", view, "value") == 1.0
        assert entry(found, "first", view, "value") == entry(found, "first", view, "chance") == 0.25
    assert (found["memory"]["significant"], found["first"]["significant"]) == (True, False)


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


def ten() -> tuple[Answers, ItemIndex]:
    return table(*(row(i, i % 4, 0, view="full") for i in range(10)))


ROBUST = np.array([True, False, True, True, False, False, True, True, False, True])


def test_the_overlap_is_counted_by_mode_by_part_and_by_split() -> None:
    tree = overlapped(made(), ten()[1], ROBUST, ~ROBUST)
    assert tree["files"] == [{"name": "web.txt", "sha256": "0" * 64, "bytes": 1000, "words": 200}]
    assert (tree["ngram"], tree["n"], tree["not_checkable"]) == (13, 6, 1)
    assert (entry(tree, "found", "value"), entry(tree, "found", "n")) == (pytest.approx(2 / 6), 6)
    assert entry(tree, "short_mode", "n") == 3
    assert entry(tree, "short_mode", "found", "value") == pytest.approx(1 / 3)
    assert entry(tree, "coverage", "value") == pytest.approx(1.5 / 6)
    assert entry(tree, "parts", "stem", "value") == pytest.approx(4 / 9)
    assert entry(tree, "parts", "stem_key", "value") == pytest.approx(1 / 9)
    assert (entry(tree, "in_robust", "value"), entry(tree, "in_robust", "n")) == (pytest.approx(2 / 5), 5)
    assert (entry(tree, "in_shortcut", "value"), entry(tree, "in_shortcut", "n")) == (pytest.approx(1 / 4), 4)
    assert tree["items"] == ["i0", "i1", "i6"]


@pytest.mark.parametrize("changes", [{"items": 11}, {"short": ("i6", "i7", "other")}])
def test_an_overlap_of_other_items_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(DataError, match="expected the same items"):
        overlapped(made(**changes), ten()[1], ROBUST, ~ROBUST)


def test_nothing_looked_for_is_null() -> None:
    assert contamination(*ten(), None, ROBUST, ~ROBUST) is None


def test_every_sentence_says_what_was_looked_at_and_none_acquits() -> None:
    keys = [i % 4 for i in range(40)]
    memory, ignorance = (
        table(*(row(i, key, key if knows else 3 - key // 2) for i, key in enumerate(keys)))
        for knows in (1, 0)
    )
    none_found = made(items=40, hits=())
    mask = np.zeros(40, dtype=bool)
    said = []
    for asked in (memory, ignorance):
        for found in (None, none_found, made(items=40)):
            tree = contamination(*asked, found, mask, ~mask)
            json.dumps(tree)
            said.append(contamination_sentence(Contamination(**tree)))
    assert not any(word in s.lower() for s in said for word in ("clean", "uncontaminated", "safe"))
    assert "Found the place of the key" in said[0]
    assert "no_choices 100.0 % of 40 items, chance 25.0 %" in said[0]
    assert "None of 1 models" in said[3]
    assert said[0].startswith("No text was given")
    assert said[1].startswith("No signal was found in 1 text file of 200 words: 0 of 36 items share 13 words")
    assert said[2].startswith(
        "Signals found in 1 text file of 200 words: 2 of 36 items share 13 words in a row, 1 of 3"
    )
    assert all("cannot be seen" in s for s in said[1:3])
    tree = contamination(*ten(), made(), ROBUST, ~ROBUST)
    assert tree["memorisation"] is None
    assert "No model was asked" in contamination_sentence(Contamination(**tree))


def test_from_items_and_a_file_to_the_summary_without_a_word_of_them(
    toys: list[Item], tmp_path: Path
) -> None:
    path = tmp_path / "page.txt"
    path.write_text(f"12) {toys[3].stem}\nAnswer: {toys[3].choices[toys[3].key]}", encoding="utf-8")
    answers = guess(toys)
    kept = json.loads(json.dumps(overlap(toys, [path]).json()))
    mask = np.array([True] * 4 + [False] * 4)
    tree = contamination(answers, item_index(answers, [i.id for i in toys]), Overlap.of(kept), mask, ~mask)
    assert entry(tree, "overlap", "items") == ["t3"]
    assert entry(tree, "overlap", "short_mode", "n") == 8
    assert entry(tree, "overlap", "found", "value") is None
    assert entry(tree, "overlap", "in_robust", "value") == 0.25
    assert not any(word in json.dumps([tree, kept]) for word in ("meant", "grey", str(tmp_path)))
