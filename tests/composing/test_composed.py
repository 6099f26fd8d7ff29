"""`robustify mend --pool` and `--writer`: every item stays, sheets are read back, nothing of a restricted set leaves."""

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from robustify.base.errors import RobustifyError
from robustify.cli import cli
from robustify.composing import candidate_checks, composed_set
from robustify.composing.choosing import Choosing, Composition
from robustify.composing.pool import Candidate, Pool, make_pool
from robustify.items.item import Item
from robustify.pipeline import encoder
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load, notes
from robustify.runs.run import write_items
from tests.composing.test_writers import chat
from tests.support.cases import Texts, cases, contents
from tests.support.command import invoked
from tests.support.fake_logs import jsonl, sheet
from tests.support.fake_scorer import FakeScorer, finds, opens
from tests.support.page_text import text_of_page

WOODS = ("oak", "elm", "ash", "fir", "yew", "box", "bay", "fig")
N = 12


def _first(pools: Sequence[Pool], how: Choosing, _vectors: Any = None) -> Composition:
    """Choose the last candidates of each pool, in place of the game, which takes seconds."""
    counts = [len(pool.candidates) for pool in pools]
    return Composition(tuple(tuple(range(max(0, n - how.shown[1] + 1), n)) for n in counts), (), {})


@pytest.fixture(autouse=True)
def _no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "embed_texts", lambda _texts, **_about: None)


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
        head = ("id", "question", *"ABCD", "answer")
        cells = [(item.id, item.stem, *item.choices, "ABCD"[item.key]) for item in items]
        return sheet(path, [dict(zip(head, row, strict=True)) for row in cells])
    write_items(path, items)
    return path


def _mend(data: Path, out: Path, *more: object, fails: int = 0, code: str = "") -> Any:
    """Return what is printed as JSON, or the error with this exit code and code."""
    done = invoked("mend", data, "-o", out, "--json", *more)
    error = done.exception
    if error is not None and not isinstance(error, RobustifyError):
        raise error
    assert (error.exit_code if error else 0) == fails, (done.output, error)
    assert not code or (error is not None and code in error.codes), error
    return dict(json.loads(done.stdout)) if done.stdout else error


def _load(path: Path) -> Loaded:
    return load(Source(path=str(path)), UNGUARDED)


def _texts(path: Path) -> list[tuple[str, str, list[str]]]:
    """ID, key, and sorted options of each item of a file."""
    return [(i.id, i.choices[i.key], sorted(i.choices)) for i in _load(path).items]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return _write(tmp_path / "items.jsonl", _items(N))


def test_requests_are_filled_and_read_back_by_the_same_command(quick: None, tmp_path: Path) -> None:
    data, first = _write(tmp_path / "woods.csv", _items(40)), tmp_path / "first"
    tree = _mend(data, first, "--pool", data)
    files = ["composed.csv", "composed.json", "report.html", "requests.csv", "requests.jsonl"]
    assert tree["files"] == files
    assert (tree["n_items"], tree["requests"], tree["bounds"][0]["rule"]) == (40, 40, "fewest characters")
    rows = _rows(first / "requests.csv")
    assert rows[0]["form"] == "at most 4 characters; at most 1 word"
    for at, row in enumerate(rows):
        row["candidate"] = f"{WOODS[at % 8][:2]}{'zy'[at % 2]}"
    second = _mend(data, tmp_path / "second", "--pool", sheet(tmp_path / "filled.csv", rows))
    assert (second["requests"], second["writers"]) == (0, {"own": 40, "filled": 80})
    keys = [key for _, key, _ in _texts(tmp_path / "second" / "composed.csv")]
    assert keys == [item.choices[0] for item in _items(40)]
    lines = map(json.loads, (first / "requests.jsonl").read_text().splitlines())
    ana = ["ivy", "rye", "tea"]
    filled = [{**row, "candidates": ana[at == 0 :], "writer": "ana"} for at, row in enumerate(lines)]
    more = jsonl(tmp_path / "filled.jsonl", filled)
    third = _mend(data, tmp_path / "third", "--pool", more, "--people", "ana")
    (reader,) = third["proof"]["readers"].values()
    assert third["writers"] == {"ana": 119, "own": 1}
    assert (reader["since_people"]["value"], reader["since_people"]["n"]) == (0.0, 39)


def test_items_without_candidates_or_bound_to_their_order_stay(quick: None, tmp_path: Path) -> None:
    stay = [
        Item("all", "Which of these grow?", ("Oats", "Rye", "Wheat", "All of the above"), 3),
        Item("stem", "Why is option B wrong?", ("Too hot", "Too cold", "Too wet", "Too dry"), 0),
        Item("same", "Which of these burns?", ("Coal", "coal", "Coal.", "coal"), 0),
    ]
    both = Item("one", "Which of these melts?", ("Ice", "Sand", "None of the above", "Clay"), 0)
    data = _write(tmp_path / "woods.jsonl", [*_items(9), *stay, both])
    more = jsonl(tmp_path / "more.jsonl", [{"id": "one", "candidate": "Wool"}])
    tree = _mend(data, tmp_path / "out", "--pool", more)
    left = tree["left_as_they_were"]
    assert left == ["all", "stem", "same"]
    found = {i.id: i for i in _load(tmp_path / "out" / "composed.jsonl").items}
    assert len(found) == 13
    assert all((found[i.id].choices, found[i.id].key) == (i.choices, i.key) for i in stay[:2])
    assert sorted(found["one"].choices) == ["Clay", "Ice", "Sand", "Wool"]


@pytest.mark.parametrize(("how", "retyped", "texts"), cases("composing", "mend_typography"))
def test_typography_is_made_alike_unless_it_is_kept(
    quick: None, tmp_path: Path, how: Texts, retyped: list[str], texts: list[str]
) -> None:
    item = Item("q", "Which one is cold?", ("Ice and snow", "“Tea”.", "warm soup", "Hot sand"), 0)
    data = _write(tmp_path / "a.jsonl", [item])
    assert _mend(data, tmp_path / "out", "--options", 4, *how)["retyped"] == retyped
    assert _texts(tmp_path / "out" / "composed.jsonl")[0][2] == texts


def test_the_game_gives_the_same_bytes_and_mending_its_set_changes_none(data: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        _mend(data, tmp_path / name, "--options", "3-4", "--prefer", "own")
    files = [sorted((tmp_path / name).iterdir()) for name in ("one", "two")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    made = tmp_path / "one" / "composed.jsonl"
    _mend(made, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == made.read_bytes()


def test_models_that_see_the_question_say_how_difficult_the_set_became(quick: None) -> None:
    items, pools = _items(60), []
    for item in items:
        pool = make_pool(item, [Candidate(f"a stone {item.id}", "file")])
        seen = zip(pool.candidates, (0.9, 0.9, 0.2, 0.2), strict=True)
        pools.append(replace(pool, candidates=tuple(replace(one, ratio=ratio) for one, ratio in seen)))
    found = composed_set.compose(items, pools, Choosing(), lambda _: None)
    (models,) = (one for one in found.proof.readers if one.name == "models")
    assert models.change["before"].value == pytest.approx(1 / 2.3 - 1 / 3.0)
    assert (models.finds_more, found.proof.plausible) == (True, "failed")


def test_a_csv_that_cannot_hold_the_set_becomes_json_lines(quick: None, tmp_path: Path) -> None:
    odd = _items(10)[9].with_choices(("yes", "no", "yes\r", "n"), 0)
    data = _write(tmp_path / "woods.csv", [*_items(9), odd])
    assert "composed.jsonl" in _mend(data, tmp_path / "out", "--options", 4, "--as-typed")["files"]


@pytest.mark.parametrize("shown", ["1", "5-4"])
def test_numbers_of_options_are_from_2_to_26(data: Path, tmp_path: Path, shown: str) -> None:
    with pytest.raises(click.BadParameter):
        _mend(data, tmp_path / "out", "--options", shown)


REFUSED = contents("composing")["mend_refused"]


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_read_or_asked_is_refused(data: Path, tmp_path: Path, words: str) -> None:
    _mend(data, tmp_path / "o", *words.split(), fails=2, code=REFUSED[words])
    assert not (tmp_path / "o").exists()
    _mend(data, data, "--options", 4, fails=2, code="file-not-folder")


def test_a_pool_of_a_restricted_set_is_refused_without_its_text(data: Path, tmp_path: Path) -> None:
    pool = _write(tmp_path / "wmdp_bio.jsonl", _items(3))
    error = _mend(data, tmp_path / "out", "--pool", pool, fails=4, code="restricted-name")
    assert "very old" not in str(error)
    assert not (tmp_path / "out").exists()


def test_a_proof_that_is_not_evaluated_says_so_and_exits_0(quick: None, data: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["mend", str(data), "-o", str(tmp_path / "out"), "--options", "4"])
    assert (done.exit_code, done.exception) == (0, None)
    assert "not evaluated" in done.stdout
    assert "not evaluated" in done.stderr


def test_a_failed_proof_exits_7_with_a_page_of_what_is_left_and_no_text(quick: None, tmp_path: Path) -> None:
    data, out = _write(tmp_path / "woods.jsonl", _items(60)), tmp_path / "out"
    tree = _mend(data, out, "--options", 4, "--auditor", "characters", fails=7, code="proof-failed")
    assert tree["files"] == sorted(path.name for path in out.iterdir())
    assert (tree["proof"]["hidden"], tree["proof"]["worst"]) == ("failed", "characters")
    page = (out / "report.html").read_text()
    assert [text in page for text in ("characters", "fewest characters", "very old")] == [True, True, False]
    assert "very old" not in json.dumps(tree)


def reply(prompt: str) -> str:
    """Offer short woods, which no item has yet."""
    asked = "number " in prompt and prompt.startswith("You write")
    return '["ivy", "rye", "tea"]' if asked else "hello"


def asking(model: Any, tmp_path: Path) -> tuple[object, ...]:
    return ("--writer", f"w=openai:{model.base_url}", "--cache-dir", tmp_path / "cache")


def test_a_set_without_a_pool_is_written_and_reviewed(quick: None, data: Path, tmp_path: Path) -> None:
    with chat(reply) as model:
        asks = asking(model, tmp_path)
        first = _mend(data, tmp_path / "one", *asks)
        assert first["writers"] == {"w": 3 * N}
        assert first["unreviewed"] == {"candidates": 3 * N, "items": N}
        assert first["consulted"]["writer"]["replies"] == N
        page = text_of_page((tmp_path / "one" / "report.html").read_text())
        assert re.search(rf"\b{3 * N} [^.]* {N} items", page)
        (note,) = [note for note in notes(_load(tmp_path / "one" / "composed.jsonl")) if "unreviewed" in note]
        assert note.startswith(f"{N} items")
        rows = _rows(tmp_path / "one" / "review.csv")
        for rater, verdicts in {"anna": "111", "ben": "121"}.items():
            filled = [{**row, "verdict": verdicts[at % 3]} for at, row in enumerate(rows)]
            asks += ("--review", sheet(tmp_path / f"{rater}.csv", filled))
        again = _mend(data, tmp_path / "two", *asks)
    assert again["unreviewed"]["candidates"] == 0
    assert (again["writers"], again["set_aside"]) == ({"own": N, "w": 2 * N}, {"unclear": N})
    assert again["consulted"]["writer"]["spent"]["calls"] == 0
    told = again["consulted"]["review"]
    assert (told["raters"], told["verdicts"]) == (["anna", "ben"], {"wrong": 2 * N, "unclear": N})
    assert (told["agreement"][0]["n"], told["agreement"][0]["raw"]["value"]) == (3 * N, pytest.approx(2 / 3))
    assert not (tmp_path / "two" / "review.csv").exists()
    assert "unreviewed" not in (tmp_path / "two" / "composed.jsonl").read_text()


def test_a_csv_marks_what_nobody_reviewed_and_reads_back(quick: None, tmp_path: Path) -> None:
    data = _write(tmp_path / "items.csv", _items(N))
    with chat(reply) as model:
        _mend(data, tmp_path / "o", *asking(model, tmp_path))
    for row in _rows(tmp_path / "o" / "composed.csv"):
        letters = row["Unreviewed"].split(", ")
        assert {*letters, row["Correct Answer"]} == {*"ABCD"}
        assert {row[f"Option {letter}"] for letter in letters} == {"ivy", "rye", "tea"}


def test_nothing_is_asked_before_price_and_models_are_known(quick: None, data: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    with chat(lambda prompt: asked.append(prompt) or "") as model:
        how = (data, tmp_path / "o", *asking(model, tmp_path))
        tree = _mend(*how, "--price", 1, 2, "--dry-run")
        _mend(*how, "--budget", 1, fails=2, code="budget-without-price")
        _mend(*how, "-m", "no-such-model", fails=2, code="unknown-model")
    assert (tree["items"], tree["models"][0]["requests"]) == (N, N)
    assert tree["models"][0]["cost"] > 0
    assert (asked, (tmp_path / "o").exists()) == ([], False)


def test_a_model_sets_second_keys_aside(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = [{"id": f"q{at}", "candidates": [f"right too {at}"]} for at in range(N)]
    pool = jsonl(tmp_path / "pool.jsonl", offered)
    keys = [item.choices[0] for item in _items(N)]

    def taste(request: Any) -> float:
        at = int(request.context.rpartition("the number ")[2].partition("?")[0])
        return finds("right too" if at == 5 else keys[at])(request)

    opens(monkeypatch, lambda name: FakeScorer(taste, name), candidate_checks)
    monkeypatch.setattr(composed_set, "choose_distractors", _first)
    tree = _mend(data, tmp_path / "o", "--pool", pool, "-m", "m=openai:http://127.0.0.1:9/v1")
    assert tree["set_aside"] == {"second_key": 1}
    check = tree["consulted"]["checks"][0]
    assert (check["voices"], check["found"]["m"]["n"]) == (["m"], N)
    assert "| m | 91.7 %" in text_of_page((tmp_path / "o" / "report.html").read_text())
