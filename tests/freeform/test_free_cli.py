"""`robustify free` from a file of items to a report: what it prints, what it writes, how it exits."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from robustify.freeform.judge.judges import Call, Completion, HttpJudge
from robustify.freeform.judge.prompting import Message
from tests.freeform.scripted import run, write_lines

ROWS = [
    {"id": "a", "stem": "How many legs has a spider?", "choices": ["8", "6"], "key": 0, "topic": "animals"},
    {"id": "b", "stem": "Which organelle makes ATP?", "choices": ["mitochondria", "nucleus"], "key": 0, "topic": "cells"},
    {"id": "c", "stem": "Which of the following is green?", "choices": ["grass", "coal"], "key": 0, "topic": "colours"},
    {"id": "d", "stem": "What colour is coal?", "choices": ["green", "black"], "key": 1, "topic": "colours"},
]  # fmt: skip
REPLIES = {"spider": "8", "ATP": "the powerhouse", "coal": "<think>black</think>It is black."}


class Model:
    name = "m"

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        return [next((r for word, r in REPLIES.items() if word in p), "hm") for p in prompts]


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(reference: str, cache: Path, device: str = "cpu") -> Iterator[Model]:
        yield Model()

    monkeypatch.setattr("robustify.freeform.session.open_writer", opened)

    def complete(self: HttpJudge, messages: Sequence[Message], call: Call) -> Completion:
        return Completion('{"verdict": "correct"}', usage={"total_tokens": 9}, model=self.name)

    monkeypatch.setattr(HttpJudge, "complete", complete)


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    data, items, answers = (tmp_path / f"{name}.jsonl" for name in ("data", "items", "answers"))
    run("prepare", write_lines(data, ROWS), "-o", items)
    run("generate", items, "-m", "m", "-o", answers)
    return answers


JUDGE = ("--judge", "http://127.0.0.1:9/v1", "--judge-model", "big")


def test_prepare_counts_what_can_be_asked(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    told = json.loads(run("prepare", data, "-o", tmp_path / "items.jsonl", "--json").output)
    assert (told["n"], told["asked"]) == (4, 3)
    assert told["kinds"] == {"numeric": 1, "short_text": 2}
    assert told["excluded"] == {"stem_refers_to_choices": 1}
    assert told["topics"]["colours"] == {"n": 2, "asked": 1, "stem_refers_to_choices": 1}
    shown = run("prepare", data, "-o", tmp_path / "items.jsonl").output
    assert "3 of 4 items" in shown
    assert "spider" not in shown


def test_a_restricted_set_without_an_adapter_is_not_prepared(tmp_path: Path) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", ROWS), tmp_path / "free" / "items.jsonl"
    run("prepare", data, "-o", out, "--restricted", fails=4)
    assert not out.parent.exists()
    (tmp_path / "c.yaml").write_text(f"name: x\nsensitivity: restricted\ndata: {data}\n")
    run("prepare", tmp_path / "c.yaml", "-o", out, fails=4)
    assert not out.exists()


def test_from_items_to_a_report(answers: Path) -> None:
    folder = answers.parent
    grades, files = folder / "grades.jsonl", ("--items", folder / "items.jsonl")
    found = run("grade", answers, *files, "-o", grades, fails=7)
    assert "33.3 % of the answers have no score" in found.stderr
    assert len(grades.read_text().splitlines()) == 3
    run("grade", answers, *files, "-o", grades, "--max-unscored", "0.5")
    told = json.loads(run("grade", answers, *files, "-o", grades, *JUDGE, "--json").stdout)
    assert told["unscored"] == 0
    kinds = told["models"]["m"]["kinds"]
    assert {name: part["accuracy"]["value"] for name, part in kinds.items()} == {
        "numeric": 1.0,
        "short_text": 1.0,
    }
    assert told["models"]["m"]["all"]["accuracy"]["withheld"] == "several kinds"
    assert told["models"]["m"]["judges"] == ["big"]
    shown = run("report", grades, *files, "-o", folder / "report").output
    assert "uncalibrated" in shown
    assert (folder / "report" / "report.md").read_text().startswith("# Free response")
    assert json.loads((folder / "report" / "summary.json").read_text())["format"] == 2
    for path in (folder / "report").iterdir():
        assert "spider" not in path.read_text()


def test_grades_are_replayed_from_their_record(answers: Path) -> None:
    folder = answers.parent
    files = ("--items", folder / "items.jsonl")
    run("grade", answers, *files, "-o", folder / "one.jsonl", *JUDGE)
    run("grade", answers, *files, "-o", folder / "two.jsonl", "--replay", folder / "judge.jsonl")
    assert (folder / "one.jsonl").read_bytes() == (folder / "two.jsonl").read_bytes()
    run("grade", answers, *files, "-o", folder / "three.jsonl", "--replay", folder / "absent.jsonl", fails=5)
    new = ("-o", folder / "three.jsonl")
    run("grade", answers, *files, *new, "--replay", folder / "judge.jsonl", *JUDGE, fails=2)
    run("grade", answers, *files, *new, "--judge", "http://127.0.0.1:9/v1", fails=5)


def test_a_model_does_not_judge_itself_unseen(answers: Path) -> None:
    folder = answers.parent
    files = ("--items", folder / "items.jsonl")
    own = ("--judge", "http://127.0.0.1:9/v1", "--judge-model", "m")
    run("grade", answers, *files, "-o", folder / "g.jsonl", *own, "--forbid-self-judging", fails=5)
    run("grade", answers, *files, "-o", folder / "g.jsonl", *own)
    run("report", folder / "g.jsonl", *files, fails=2)
    assert "1 of its own answers" in run("report", folder / "g.jsonl", *files, "--allow-self-judging").output


def test_agree_holds_the_judge_to_people(answers: Path) -> None:
    folder = answers.parent
    run("grade", answers, "--items", folder / "items.jsonl", "-o", folder / "g.jsonl", *JUDGE)
    human = folder / "human.jsonl"
    human.write_text('{"item_id": "b", "annotator": "x", "score": 1}\n')
    told = json.loads(run("agree", folder / "g.jsonl", "--human", human).output)
    assert (told["status"], told["verdicts"]["n"], told["verdicts"]["raw"]["value"]) == (
        "uncalibrated",
        1,
        1.0,
    )
    assert told["verdicts"]["doubt"] == "few_labels"
    shown = run("report", folder / "g.jsonl", "--items", folder / "items.jsonl", "--human", human).output
    assert "uncalibrated: verdicts: fewer than 30" in shown
    human.write_text('{"item_id": "b"}\n')
    run("agree", folder / "g.jsonl", "--human", human, fails=3)


def test_audit_and_compare_write_what_they_print(answers: Path) -> None:
    folder = answers.parent
    files = ("--items", folder / "items.jsonl")
    shown = run("audit", *files, *JUDGE, "-n", 2, "--check", "injection", "-o", folder / "audit.json").output
    assert json.loads(shown) == json.loads((folder / "audit.json").read_text())
    ids = ("grader/mcq@1.0", "grader/mcq@2.0")
    rest = (*files, "--answers", answers, *JUDGE, "-o", folder / "c.json")
    assert json.loads(run("templates", "compare", *ids, *rest).output)["status"] == "uncalibrated"
    run("audit", *files, "-o", folder / "audit.json", "--check", "mood", *JUDGE, fails=2)


def test_templates_are_listed_shown_and_verified(tmp_path: Path) -> None:
    told = json.loads(run("templates", "list", "--json").output)
    assert "grader/mcq@1.0" in {t["id"] for t in told["templates"]}
    assert "You are an impartial grader." in run("templates", "show", "grader/mcq@1.0").output
    assert "as they were released" in run("templates", "verify").output
    run("templates", "show", "grader/poem", fails=2)
    row = "{id: a/b@1.0, files: [b.j2], sha256: x, variables: [], reads: text, changelog: c}"
    (tmp_path / "manifest.yaml").write_text(f"templates: [{row}]\n")
    (tmp_path / "b.j2").write_text("{% block user %}b{% endblock %}")
    run("templates", "verify", "--template-dir", tmp_path, fails=3)


BAD = [
    ("generate", ["ITEMS", "-m", "m", "--template", "grader/mcq", "-o", "OUT"], 2),
    ("generate", ["ITEMS", "-m", "m", "--template", "answer/poem", "-o", "OUT"], 2),
    ("generate", ["absent.jsonl", "-m", "m", "-o", "OUT"], 3),
    ("grade", ["ANSWERS", "--items", "ITEMS", "-o", "OUT", "--mode", "judge"], 2),
    ("grade", ["ANSWERS", "--items", "ITEMS", "-o", "OUT", "--rel-tol", "-1"], 2),
    ("grade", ["ANSWERS", "--items", "ITEMS", "-o", "OUT", "--votes", "2"], 2),
    ("grade", ["ITEMS", "--items", "ITEMS", "-o", "OUT"], 3),
    ("report", ["ANSWERS", "--items", "ITEMS"], 3),
]


@pytest.mark.parametrize(("command", "words", "code"), BAD)
def test_misuse_exits_with_its_code_and_no_text(
    answers: Path, command: str, words: list[str], code: int
) -> None:
    places = {name: answers.with_name(f"{name.lower()}.jsonl") for name in ("ITEMS", "ANSWERS", "OUT")}
    found = run(command, *(places.get(word, word) for word in words), fails=code)
    assert not re.search("spider|mitochondria", str(found.exception))
