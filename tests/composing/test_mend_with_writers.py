"""`robustify mend --writer`, `--models`, `--run`, and `--review`: from a set without a pool to one that people reviewed."""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from robustify.base.errors import RobustifyError
from robustify.cli import cli
from robustify.composing import candidate_checks
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load, notes
from tests.composing.test_composed import _items, _no_encoder, _write, quick
from tests.composing.test_writers import chat
from tests.support.fake_logs import sheet
from tests.support.fake_scorer import FakeScorer, finds

__all__ = ["_no_encoder", "quick"]
N = 12
pytestmark = pytest.mark.usefixtures("quick")


def reply(prompt: str) -> str:
    """Offer short woods, which no item has yet."""
    asked = "number " in prompt and prompt.startswith("You write")
    return '["ivy", "rye", "tea"]' if asked else "hello"


def mend(*words: object, fails: int = 0) -> Any:
    done = CliRunner().invoke(cli, ["mend", *map(str, words)], standalone_mode=False)
    error = done.exception
    if error is not None and not isinstance(error, RobustifyError):
        raise error
    assert (error.exit_code if isinstance(error, RobustifyError) else 0) == fails, (done.output, error)
    return error if fails else json.loads(done.stdout) if "--json" in words else done


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return _write(tmp_path / "items.jsonl", _items(N))


def asking(model: Any, tmp_path: Path) -> tuple[object, ...]:
    return ("--writer", f"w=openai:{model.base_url}", "--cache-dir", tmp_path / "cache")


def test_a_set_without_a_pool_is_written_reviewed_and_composed_again(data: Path, tmp_path: Path) -> None:
    with chat(reply) as model:
        asks = asking(model, tmp_path)
        first = mend(data, *asks, "-o", tmp_path / "one", "--json")
        assert first["writers"] == {"w": 3 * N}
        assert first["unreviewed"] == {"candidates": 3 * N, "items": N}
        assert first["consulted"]["writer"]["replies"] == N
        page = (tmp_path / "one" / "report.html").read_text()
        assert f"Nobody reviewed {3 * N} of the chosen candidates, in {N} items." in page
        bench = load(Source(path=str(tmp_path / "one" / "composed.jsonl")), UNGUARDED)
        assert [note for note in notes(bench) if "nobody" in note] == [
            f"{N} items with options that nobody reviewed (`unreviewed`)"
        ]
        rows = list(csv.DictReader((tmp_path / "one" / "review.csv").open()))
        for rater, verdicts in {"anna": "111", "ben": "121"}.items():
            filled = [{**row, "verdict": verdicts[at % 3]} for at, row in enumerate(rows)]
            asks += ("--review", sheet(tmp_path / f"{rater}.csv", filled))
        again = mend(data, *asks, "-o", tmp_path / "two", "--json")
    assert again["unreviewed"]["candidates"] == 0
    assert again["writers"] == {"own": N, "w": 2 * N}
    assert again["set_aside"] == {"unclear": N}
    assert again["consulted"]["writer"]["spent"]["calls"] == 0
    told = again["consulted"]["review"]
    assert (told["raters"], told["verdicts"]) == (["anna", "ben"], {"wrong": 2 * N, "unclear": N})
    assert (told["agreement"][0]["n"], told["agreement"][0]["raw"]["value"]) == (3 * N, pytest.approx(2 / 3))
    assert not (tmp_path / "two" / "review.csv").exists()
    assert "unreviewed" not in (tmp_path / "two" / "composed.jsonl").read_text()


def test_a_csv_marks_what_nobody_reviewed_and_reads_back(tmp_path: Path) -> None:
    data = _write(tmp_path / "items.csv", _items(N))
    with chat(reply) as model:
        mend(data, *asking(model, tmp_path), "-o", tmp_path / "o")
    rows = list(csv.DictReader((tmp_path / "o" / "composed.csv").open()))
    for row in rows:
        letters = row["Unreviewed"].split(", ")
        assert {*letters, row["Correct Answer"]} == {*"ABCD"}
        assert {row[f"Option {letter}"] for letter in letters} == {"ivy", "rye", "tea"}


def test_the_price_is_told_before_anything_is_asked_or_written(data: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    with chat(lambda prompt: asked.append(prompt) or "") as model:
        how = (data, *asking(model, tmp_path), "-o", tmp_path / "o")
        tree = mend(*how, "--price", 1, 2, "--dry-run", "--json")
        assert "needs a price" in str(mend(*how, "--budget", 1, fails=2))
    assert (tree["items"], tree["models"][0]["requests"]) == (N, N)
    assert tree["models"][0]["cost"] > 0
    assert asked == []
    assert not (tmp_path / "o").exists()


def test_a_model_that_sees_the_question_sets_second_keys_aside(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = tmp_path / "pool.jsonl"
    pool.write_text(
        "".join(json.dumps({"id": f"q{at}", "candidates": [f"right too {at}"]}) + "\n" for at in range(N))
    )

    keys = [item.choices[0] for item in _items(N)]

    def taste(request: Any) -> float:
        at = int(request.context.rpartition("the number ")[2].partition("?")[0])
        return finds("right too" if at == 5 else keys[at])(request)

    @contextmanager
    def opened(*_: object) -> Iterator[FakeScorer]:
        yield FakeScorer(taste, "m")

    monkeypatch.setattr(candidate_checks, "open_scorer", opened)
    monkeypatch.setattr(candidate_checks, "check_model", lambda *_: {})
    tree = mend(data, "--pool", pool, "-m", "m=openai:http://127.0.0.1:9/v1", "-o", tmp_path / "o", "--json")
    assert tree["set_aside"] == {"second_key": 1}
    assert tree["consulted"]["checks"][0]["voices"] == ["m"]
    assert "Models that saw the question" in (tmp_path / "o" / "report.html").read_text()


ALONE: list[tuple[tuple[object, ...], int, str]] = [
    (("-m", "smollm2-135m"), 2, "--models works only with --pool CANDIDATES, --options K"),
    (("--options", 4, "--dry-run"), 2, "--dry-run works only with --writer"),
    (("--options", 4, "-m", "no-such-model"), 2, "no-such-model"),
    (("--options", 4, "--run", "no-such-run"), 2, "is not a folder"),
    (("--options", 4, "--review", "no-such-sheet.csv"), 2, "no-such-sheet.csv"),
]


@pytest.mark.parametrize(("words", "code", "says"), ALONE)
def test_what_cannot_be_consulted_is_refused(
    data: Path, tmp_path: Path, words: tuple[object, ...], code: int, says: str
) -> None:
    assert says in str(mend(data, *words, "-o", tmp_path / "o", fails=code))
    assert not (tmp_path / "o").exists()


def test_a_wrong_model_is_noticed_before_a_writer_is_paid(data: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    with chat(lambda prompt: asked.append(prompt) or "") as model:
        mend(data, *asking(model, tmp_path), "-m", "no-such-model", "-o", tmp_path / "o", fails=2)
    assert asked == []
