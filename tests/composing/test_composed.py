"""`robustify mend --pool`: every item stays, requests are read back, and nothing leaves of a restricted set."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from robustify.base.errors import AuthorisationError, GuardrailError, UsageError
from robustify.cli import cli
from robustify.composing import composed_set
from robustify.composing.choosing import Choosing, Composition
from robustify.composing.pool import Candidate, Pool, make_pool
from robustify.items.item import Item
from robustify.pipeline import by_meaning
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.support.fake_logs import jsonl, sheet

WOODS = ("oak", "elm", "ash", "fir", "yew", "box", "bay", "fig")


def _first(pools: Sequence[Pool], how: Choosing, _vectors: Any = None) -> Composition:
    """Choose the last candidates of each pool, in place of the game, which takes seconds."""
    sizes = [min(how.shown[1] - 1, len(pool.candidates)) for pool in pools]
    picks = [
        range(len(pool.candidates) - n, len(pool.candidates)) for pool, n in zip(pools, sizes, strict=True)
    ]
    return Composition(tuple(map(tuple, picks)), (), {})


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_meaning, "text_vectors", lambda _texts, **_about: None)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed_set, "choose_distractors", _first)


def _items(n: int) -> list[Item]:
    """Questions whose keys are shorter than all their distractors."""
    found = []
    for at in range(n):
        key, *others = (WOODS[(at + step) % 8] for step in range(4))
        options = (f"{key} {at}", *(f"a very old {other} {at}" for other in others))
        found.append(Item(f"q{at}", f"Which wood has the number {at}?", options, 0))
    return found


def _write(path: Path, items: Sequence[Item]) -> Path:
    if path.suffix == ".csv":
        rows = [["id", "question", "A", "B", "C", "D", "answer"]]
        rows += [[item.id, item.stem, *item.choices, "ABCD"[item.key]] for item in items]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    else:
        tree = [{"id": i.id, "stem": i.stem, "choices": i.choices, "key": i.key, "topic": ""} for i in items]
        path.write_text("".join(json.dumps(row) + "\n" for row in tree))
    return path


def _mend(data: Path, out: Path, *more: object, fails: str = "") -> dict[str, Any]:
    """Return what is printed. If the proof fails, `fails` is a part of the reason."""
    arguments = ["mend", str(data), "-o", str(out), "--json", *map(str, more)]
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if done.exception is not None and not (fails and isinstance(done.exception, GuardrailError)):
        raise done.exception
    assert fails in str(done.exception or "")
    return dict(json.loads(done.stdout))


def _texts(path: Path) -> list[tuple[str, str, list[str]]]:
    """ID, key, and sorted options of each item of a file."""
    return [
        (i.id, i.choices[i.key], sorted(i.choices)) for i in load(Source(path=str(path)), UNGUARDED).items
    ]


def test_requests_are_filled_and_read_back_by_the_same_command(quick: None, tmp_path: Path) -> None:
    data, first = _write(tmp_path / "woods.csv", _items(40)), tmp_path / "first"
    tree = _mend(data, first, "--pool", data)
    assert tree["files"] == sorted(
        ["composed.json", "composed.csv", "report.html", "requests.csv", "requests.jsonl"]
    )
    assert (tree["n_items"], tree["requests"], tree["bounds"][0]["rule"]) == (40, 40, "fewest characters")
    with (first / "requests.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["form"] == "at most 4 characters; at most 1 word"
    for at, row in enumerate(rows):
        row["candidate"] = f"{WOODS[at % 8][:2]}{'zy'[at % 2]}"
    second = _mend(data, tmp_path / "second", "--pool", sheet(tmp_path / "filled.csv", rows))
    assert (second["requests"], second["writers"]) == (0, {"own": 40, "filled": 80})
    keys = [key for _, key, _ in _texts(tmp_path / "second" / "composed.csv")]
    assert keys == [item.choices[0] for item in _items(40)]
    lines = [json.loads(line) for line in (first / "requests.jsonl").read_text().splitlines()]
    filled = [{**row, "candidates": ["ivy", "rye", "tea"], "writer": "ana"} for row in lines]
    more = jsonl(tmp_path / "filled.jsonl", filled)
    assert _mend(data, tmp_path / "third", "--pool", more)["writers"] == {"ana": 120}


def test_items_without_candidates_or_bound_to_their_order_stay_as_they_are(
    quick: None, tmp_path: Path
) -> None:
    stay = [
        Item("all", "Which of these grow?", ("Oats", "Rye", "Wheat", "All of the above"), 3),
        Item("stem", "Why is option B wrong?", ("Too hot", "Too cold", "Too wet", "Too dry"), 0),
        Item("same", "Which of these burns?", ("Coal", "coal", "Coal.", "coal"), 0),
    ]
    both = Item("one", "Which of these melts?", ("Ice", "Sand", "None of the above", "Clay"), 0)
    data = _write(tmp_path / "woods.jsonl", [*_items(9), *stay, both])
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "one", "candidate": "Wool"}) + "\n")
    tree = _mend(data, tmp_path / "out", "--pool", tmp_path / "more.jsonl")
    assert tree["left_as_they_were"] == ["all", "stem", "same"]
    found = {i.id: i for i in load(Source(path=str(tmp_path / "out" / "composed.jsonl")), UNGUARDED).items}
    assert len(found) == 13
    assert [(found[i.id].choices, found[i.id].key) for i in stay[:2]] == [
        (i.choices, i.key) for i in stay[:2]
    ]
    assert sorted(found["one"].choices) == ["Clay", "Ice", "Sand", "Wool"]


def test_typography_is_made_alike_unless_it_is_kept(quick: None, tmp_path: Path) -> None:
    item = Item("q", "Which one is cold?", ("Ice and snow", "“Tea”.", "warm soup", "Hot sand"), 0)
    data = _write(tmp_path / "a.jsonl", [item])
    assert _mend(data, tmp_path / "alike", "--options", 4)["retyped"] == ["q"]
    assert _mend(data, tmp_path / "typed", "--options", 4, "--as-typed")["retyped"] == []
    assert _texts(tmp_path / "alike" / "composed.jsonl")[0][2] == sorted(
        ['"Tea"', "Hot sand", "Ice and snow", "Warm soup"]
    )
    assert _texts(tmp_path / "typed" / "composed.jsonl")[0][2] == sorted(item.choices)


def test_the_real_game_gives_the_same_bytes_and_mending_its_set_changes_none(tmp_path: Path) -> None:
    data = _write(tmp_path / "woods.jsonl", _items(12))
    for name in ("one", "two"):
        _mend(data, tmp_path / name, "--options", "3-4", "--prefer", "own")
    files = [sorted((tmp_path / name).iterdir()) for name in ("one", "two")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    made = tmp_path / "one" / "composed.jsonl"
    _mend(made, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == made.read_bytes()


def test_models_that_see_the_question_say_how_difficult_the_set_became(quick: None) -> None:
    items = _items(60)
    pools = []
    for item in items:
        pool = make_pool(item, [Candidate(f"a stone {item.id}", "file")])
        seen = zip(pool.candidates, (0.9, 0.9, 0.2, 0.2), strict=True)
        pools.append(replace(pool, candidates=tuple(replace(one, ratio=ratio) for one, ratio in seen)))
    found = composed_set.compose(items, pools, Choosing(), lambda _: None)
    (models,) = (one for one in found.proof.readers if one.name == "models")
    assert models.change["before"].value == pytest.approx(1 / 2.3 - 1 / 3.0)
    assert (models.finds_more, found.proof.plausible) == (True, "failed")


def test_a_csv_that_cannot_hold_the_set_becomes_json_lines(quick: None, tmp_path: Path) -> None:
    data = _write(
        tmp_path / "woods.csv", [*_items(9), _items(10)[9].with_choices(("yes", "no", "yes\r", "n"), 0)]
    )
    assert "composed.jsonl" in _mend(data, tmp_path / "out", "--options", 4, "--as-typed")["files"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--options", "1"), "is not a number of options; expected 2 to 26"),
        (("--options", "5-4"), "is not a number of options"),
        (("--pool", "absent.jsonl"), "absent.jsonl does not exist"),
    ],
)
def test_options_that_make_no_pool_are_refused(tmp_path: Path, more: Sequence[str], says: str) -> None:
    data = _write(tmp_path / "a.jsonl", _items(3))
    with pytest.raises(Exception, match=says):
        _mend(data, tmp_path / "out", *more)
    with pytest.raises(UsageError, match="is a file"):
        _mend(data, data, "--options", 4)


def test_a_pool_of_a_restricted_set_is_refused_without_its_text(tmp_path: Path) -> None:
    data = _write(tmp_path / "woods.jsonl", _items(3))
    pool = _write(tmp_path / "wmdp_bio.jsonl", _items(3))
    with pytest.raises(AuthorisationError) as refused:
        _mend(data, tmp_path / "out", "--pool", pool)
    assert "looks sensitive" in str(refused.value)
    assert "very old" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_proof_that_is_not_evaluated_says_so_and_exits_0(quick: None, tmp_path: Path) -> None:
    data = _write(tmp_path / "woods.jsonl", _items(9))
    done = CliRunner().invoke(cli, ["mend", str(data), "-o", str(tmp_path / "out"), "--options", "4"])
    assert (done.exit_code, done.exception) == (0, None)
    assert "not evaluated: without the question: no auditor" in done.stdout
    assert "The proof was not evaluated (without the question), so this set may still give" in done.stderr


def test_a_failed_proof_exits_7_with_a_page_of_what_is_left_and_no_text(quick: None, tmp_path: Path) -> None:
    data = _write(tmp_path / "woods.jsonl", _items(60))
    says = "failed: without the question, keys are found beyond chance (characters). Add other candidates"
    tree = _mend(data, tmp_path / "out", "--options", 4, "--auditor", "characters", fails=says)
    assert GuardrailError.exit_code == 7
    assert tree["files"] == sorted(path.name for path in (tmp_path / "out").iterdir())
    page = (tmp_path / "out" / "report.html").read_text()
    assert tree["proof"]["hidden"] == "failed"
    assert "of the keys can still be found (characters" in page
    assert "Option with" in page
    assert "very old" not in page + json.dumps(tree)
