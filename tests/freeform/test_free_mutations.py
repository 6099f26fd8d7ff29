"""Every file that `robustify free` reads, changed at random: a documented exit, and no text of a row in a message."""

import json
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
import yaml

from bench.torture.mutate import bytewise, structured
from robustify.errors import RobustifyError
from robustify.freeform.foreign_rows import read_items, with_facts
from robustify.freeform.llm_judge.judges import Call, Completion, HttpJudge
from robustify.freeform.llm_judge.prompting import Message
from robustify.freeform.replies import FILE
from tests.freeform.scripted import run, write_lines
from tests.freeform.test_templates import released

DRAWS = 12
"""Of each of two kinds, for each file and command that reads it."""
WORD = "zanzibar"
JUDGE = (
    "--judge",
    "http://127.0.0.1:9/v1",
    "--judge-model",
    "j",
    "--cache-dir",
    "cache",
    "--max-unscored",
    "1",
)
QUESTIONS = [
    {"id": 1, "type": "mcq", "topic": "t", "question": f"Which {WORD} is it?\n(A) {WORD} one\n(B) no", "answer": "B"},
    {"id": 2, "type": "numeric", "question": f"How far is {WORD}?", "answer": "8", "unit": "m", "aliases": ["8 m"]},
    {"id": 3, "type": "explanation", "question": f"Why {WORD}?", "answer": f"It is {WORD}.", "nuggets": [f"A {WORD}."]},
]  # fmt: skip
PASSAGE = {
    "qid": "q", "model": "m", "query": f"Why {WORD}?", "passage": f"A {WORD} is.", "topic": "t",
    "nuggets": [{"id": "n", "text": f"A {WORD}.", "importance": "vital"}, f"No {WORD} was."],
}  # fmt: skip
GRADE = ("grade", "p.csv", "--items", "q.json", "-o", "out", *JUDGE)
READ: dict[str, tuple[str, Sequence[str]]] = {
    "questions": ("q.json", GRADE),
    "predictions": ("p.csv", GRADE),
    "rows": ("rows.jsonl", ("grade", "rows.jsonl", "-o", "out", *JUDGE)),
    "choices": ("data.jsonl", ("grade", "rows.jsonl", "--items", "data.jsonl", "-o", "out", *JUDGE)),
    "people": ("human.jsonl", (*GRADE, "--human", "human.jsonl")),
    "block": ("free.yaml", (*GRADE, "--config", "free.yaml")),
    "passages": ("nuggets.jsonl", ("nuggets", "nuggets.jsonl", "-o", "out", *JUDGE)),
    "labels": ("human.jsonl", ("agree", "graded/free.jsonl", "--human", "human.jsonl")),
    "grades": ("graded/free.jsonl", ("agree", "graded/free.jsonl", "--human", "human.jsonl")),
    "gradings": ("graded/free.jsonl", ("agree", "graded/free.jsonl", "again.jsonl", "--human", "human.jsonl")),
    "facts": ("facts.jsonl", ("facts",)),
    "templates": ("mine/manifest.yaml", ("templates", "mine:answer/short", "--example", "--template-dir", "mine")),
    "prompt": ("mine/short.j2", ("templates", "mine:answer/short", "--example", "--template-dir", "mine")),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def complete(self: HttpJudge, messages: Sequence[Message], call: Call) -> Completion:
        return Completion('["support"]' if "ugget" in messages[0].content else '{"verdict": "correct"}')

    monkeypatch.setattr(HttpJudge, "complete", complete)
    monkeypatch.chdir(tmp_path)
    Path("q.json").write_text(json.dumps(QUESTIONS))
    rows = [{**row, "model": "m", "prediction": f"It is {WORD} {row['id']}"} for row in QUESTIONS]
    write_lines(Path("rows.jsonl"), rows)
    Path("p.csv").write_text(
        "\n".join(["config,question_id,predicted", *(f"m,{i},{WORD} {i}" for i in (1, 2, 3))])
    )
    choices = [
        {"id": i, "stem": f"Is {WORD} {i}?", "choices": [f"{WORD} a", "b"], "key": 1} for i in (1, 2, 3)
    ]
    write_lines(Path("data.jsonl"), choices)
    write_lines(Path("nuggets.jsonl"), [PASSAGE, PASSAGE | {"qid": "r"}])
    write_lines(Path("facts.jsonl"), [{"id": "1", "nuggets": [f"A {WORD}."]}])
    people = [{"item_id": i, "model": "m", "annotator": "x", "verdict": "correct"} for i in "12"]
    write_lines(
        Path("human.jsonl"), [*people, {"item_id": "3", "annotator": "x", "labels": {"3/n1": "support"}}]
    )
    block = {"free": {"rel_tol": 0.1, "mode": "judge", "rubrics": {"mcq": "1.0"}, "judge": {"model": "j"}}}
    Path("free.yaml").write_text(yaml.safe_dump(block))
    released(tmp_path / "mine")
    run(*GRADE[:5], "graded", *JUDGE)
    Path("again.jsonl").write_bytes(Path("graded/free.jsonl").read_bytes())
    return tmp_path


def ends_well(words: Sequence[str]) -> None:
    """Run a command; what it refuses has a code of its own and none of the text."""
    refused: Exception | None = None
    try:
        if words[0] == "facts":
            with_facts(read_items(Path("data.jsonl")), Path("facts.jsonl"))
        else:
            refused = run(*words, fails=None).exception
    except (click.ClickException, RobustifyError) as error:
        refused = error
    assert refused is None or isinstance(refused, click.ClickException | RobustifyError)
    assert WORD not in str(refused)


@pytest.mark.parametrize("name", READ)
def test_a_changed_file_ends_in_a_documented_way(home: Path, name: str) -> None:
    file, words = READ[name]
    path = home / file
    before = path.read_bytes()
    form = {".json": "json", ".jsonl": "jsonl", ".yaml": "yaml"}.get(path.suffix, "text")
    ends_well(words)
    for draw in range(2 * DRAWS):
        path.write_bytes(before)
        chance = random.Random(f"{name} {draw}")
        path.write_bytes(bytewise(before, chance) if draw % 2 else structured(path, form, chance))
        ends_well(words)


@pytest.mark.parametrize(
    "said", ["", "5", "[]", "{}", '{"text": 5}', '{"text": "x", "usage": 3}', '{"text": "x", "more": 1}']
)
def test_a_reply_that_was_changed_in_the_cache_is_asked_for_again_or_read(home: Path, said: str) -> None:
    with sqlite3.connect(home / "cache" / FILE) as kept:
        kept.execute("UPDATE reply SET said = ?", (said,))
    ends_well(GRADE)
