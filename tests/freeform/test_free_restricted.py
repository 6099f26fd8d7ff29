"""`robustify free` on a restricted set: the four facts, the label, the digests, the folder, and what is told."""

import hashlib
import json
import os
import resource
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from robustify.errors import DataError
from robustify.freeform.grade import graders
from robustify.freeform.grade.graders import Grading, grade_answers
from robustify.freeform.jsonl import read_jsonl
from robustify.freeform.judge.judges import Call, Completion, HttpJudge
from robustify.freeform.judge.prompting import Message
from robustify.freeform.permit import cell, cells, prepared, share, summary_to_show
from robustify.freeform.questions import Generation, convert_item, prompt_of
from robustify.freeform.report import summarise
from robustify.freeform.schema import (
    AnswerRow,
    FreeItem,
    GradeResult,
    answer_from,
    grade_from,
    item_from,
)
from robustify.item import Item
from robustify.report.free_page import markdown_page
from robustify.restricted.ids import item_id
from robustify.restricted.secret_key import evaluator_key
from tests.freeform.scripted import run, write_lines
from tests.support import restricted_run
from tests.support.restricted_set import ADAPTER, canaries, items

N = 60
SEAL = b"s" * 32
seen: dict[str, Any] = {}


class Model:
    """Says the right answer to the first thirty questions it is asked, and something else to the others."""

    name = "m"

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        seen["asked"] = seen.get("asked", 0) + len(prompts)
        seen["umask"] = os.umask(0)
        os.umask(seen["umask"])
        seen["dumps"] = resource.getrlimit(resource.RLIMIT_CORE)[0]
        seen["offline"] = os.environ.get("HF_HUB_OFFLINE")
        known = {row["question"]: (row["choices"][row["answer"]], i) for i, row in enumerate(items(N))}
        found = [next(v for q, v in known.items() if q in prompt) for prompt in prompts]
        return [text if i < 30 else "zzz" for text, i in found]


def judged(self: HttpJudge, messages: Sequence[Message], call: Call) -> Completion:
    return Completion('{"verdict": "incorrect"}', usage={"total_tokens": 9}, model=self.name)


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    restricted_run.prepare(tmp_path, monkeypatch, N)

    @contextmanager
    def opened(reference: str, cache: Path, device: str = "cpu") -> Iterator[Model]:
        yield Model()

    seen.clear()
    monkeypatch.setattr("robustify.freeform.session.open_writer", opened)
    monkeypatch.setattr(HttpJudge, "complete", judged)
    return tmp_path


def made(mock: Path) -> Path:
    """The file of items in a folder of the evaluator's own."""
    run("prepare", mock / "mock.yaml", "-o", mock / "out" / "free" / "items.jsonl")
    return mock / "out" / "free" / "items.jsonl"


def answered(mock: Path) -> tuple[Path, Path]:
    path = made(mock)
    run("generate", path, "-m", "m", "-o", path.with_name("answers.jsonl"))
    return path, path.with_name("answers.jsonl")


def changed(path: Path, **fields: Any) -> Path:
    """The file with these fields of each row set, or taken out where None."""
    rows = [json.loads(line) | fields for line in path.read_text().splitlines()]
    gone = {name for name, value in fields.items() if value is None}
    return write_lines(path, [{k: v for k, v in row.items() if k not in gone} for row in rows])


TWO = ("grader/mcq@1.0", "grader/mcq@2.0")
JUDGE = ("--judge", "http://127.0.0.1:9/v1", "--judge-model", "big")


def test_what_is_written_is_private_and_grades_hold_no_text_and_no_plain_digest(mock: Path) -> None:
    path, answers = answered(mock)
    grades, report = path.with_name("grades.jsonl"), mock / "out" / "report"
    shown = run("grade", answers, "--items", path, "-o", grades, *JUDGE).output
    shown += run("report", grades, "--items", path, "-o", report).output
    places = [path.parent, *path.parent.iterdir(), report, *report.iterdir()]
    assert {stat.S_IMODE(p.stat().st_mode) for p in places if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in places if p.is_file()} == {0o600}
    assert not path.with_name("judge.jsonl").exists()
    told = shown + grades.read_text() + "".join(p.read_text() for p in report.iterdir())
    assert [word for word in canaries(items(N)) if word in told] == []
    assert canaries(items(N))[1] in path.read_text()
    assert {item.id[:4] for item in read_jsonl(path, item_from)} == {"rb1_"}
    assert (seen["umask"], seen["dumps"], seen["offline"]) == (0o077, 0, "1")


def test_the_digests_in_grades_and_answers_cannot_be_made_without_the_key(mock: Path) -> None:
    path, answers = answered(mock)
    rows, held = read_jsonl(answers, answer_from), read_jsonl(path, item_from)
    grades = path.with_name("grades.jsonl")
    run("grade", answers, "--items", path, "-o", grades, *JUDGE)
    found = read_jsonl(grades, grade_from)
    plain = {prompt_of(item, Generation())[1] for item in held}
    texts = {row.text for row in rows} | {"", '{"verdict": "incorrect"}'}
    plain |= {hashlib.sha256(text.encode()).hexdigest() for text in texts}
    for item in held:
        sha256 = prompt_of(item, Generation())[1]
        plain |= {
            graders.answer_digest(replace(row, item_id=item.id, prompt_sha256=sha256)) for row in rows[::20]
        }
    kept = {d for g in found for d in (g.key, g.answer_sha256)} | {row.prompt_sha256 for row in rows}
    attempts = [a for g in found if g.judge for a in g.judge.attempts]
    kept |= {d for a in attempts for d in (a.key, a.prompt_sha256, a.reply_sha256)}
    assert attempts
    assert not kept & plain


@pytest.mark.parametrize(("restricted", "found"), [(True, 0), (False, 12)])
def test_a_dictionary_of_the_public_data_opens_no_id(tmp_path: Path, restricted: bool, found: int) -> None:
    known = [Item(f"p{i}", f"what is {i} zorb?", (f"one {i}", "two", "three", "four"), 0) for i in range(12)]

    def answered(item: Item, name: str) -> tuple[FreeItem, AnswerRow]:
        free = convert_item(replace(item, id=name), restricted=restricted)
        return free, answer_from(
            {**BLANK, "item_id": name, "prompt_sha256": prompt_of(free, Generation())[1]}
        )

    held = [answered(i, item_id(b"k" * 32, "mock", "1", i.stem, i.choices)) for i in known]
    path, rules = tmp_path / "grades.jsonl", Grading(mode="deterministic", seal=SEAL)
    grade_answers([free for free, _ in held], [row for _, row in held], rules, path)
    about = graders._about(Grading(mode="deterministic"), None)
    hits = 0
    for told in map(json.loads, path.read_text().splitlines()):
        for guess, row in (answered(item, told["item_id"]) for item in known):
            digests = {graders._key(guess, row, about), graders.answer_digest(row)}
            hits += bool(digests & {told["key"], told["answer_sha256"]})
    assert hits == found


BLANK = {"model": "m", "text": "one", "template_id": "t", "template_sha256": "x"}


@pytest.mark.parametrize("label", [None, "false", 0, "true", 1])
def test_a_label_is_read_and_never_supposed(label: object) -> None:
    item = asdict(FreeItem("a", "Why?", "short_text", "so"))
    grade = GradeResult("a", "m", "short_text", "g", "scored", 1.0, "correct", "r").json()
    for row, read in ((item, item_from), (grade, grade_from)):
        row["restricted"] = label
        with pytest.raises(DataError, match="restricted is"):
            read(row)
        row.pop("restricted")
        with pytest.raises(DataError, match="missing"):
            read(row)
        read({**row, "restricted": False})


def test_a_label_that_was_taken_off_or_edited_opens_nothing(mock: Path) -> None:
    path, out = made(mock), mock / "out" / "free" / "answers.jsonl"
    away = ("-m", "m", "--base-url", "https://model.invalid/v1", "-o", out)
    whole = path.read_text()
    run("generate", changed(path, restricted=None), *away, fails=3)
    path.write_text(whole)
    run("generate", changed(path, restricted=False), *away, fails=3)
    path.write_text(whole)
    # Ids, label and adapter are all changed: what is left is the content.
    rows = [json.loads(line) | {"restricted": False, "adapter": ""} for line in whole.splitlines()]
    path.write_text("".join(json.dumps(row | {"id": f"q{i}"}) + "\n" for i, row in enumerate(rows)))
    assert "registered as" in str(run("generate", path, *away, fails=4).exception)
    answers = mock / "out" / "free" / "given.jsonl"
    answers.write_text(json.dumps(BLANK | {"item_id": "q0", "prompt_sha256": ""}) + "\n")
    run("grade", answers, "--items", path, "-o", out, *JUDGE, fails=4)
    run("audit", "--items", path, "-o", out, *JUDGE, fails=4)
    assert not out.exists()
    assert seen == {}


def test_items_of_another_key_or_another_set_are_refused(mock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = made(mock), mock / "out" / "free" / "answers.jsonl"
    whole = path.read_text()
    run("generate", changed(path, adapter=""), "-m", "m", "-o", out, fails=4)
    path.write_text(whole)
    run("generate", changed(path, question="Why?"), "-m", "m", "-o", out, fails=4)
    path.write_text(whole.replace('"restricted": true', '"restricted": false', 1).replace("rb1_", "q", 1))
    run("generate", path, "-m", "m", "-o", out, fails=4)
    assert not out.exists()
    assert seen == {}


@pytest.mark.parametrize("missing", ["key", "licence", "data", "folder", "tree"])
def test_every_command_asks_for_the_four_facts(
    mock: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    path, answers = answered(mock)
    folder, human = path.parent, mock / "human.jsonl"
    grades, new = folder / "grades.jsonl", folder / "new"
    run("grade", answers, "--items", path, "-o", grades, *JUDGE)
    human.write_text("")
    seen.clear()
    match missing:
        case "key":
            monkeypatch.delenv("ROBUSTIFY_KEY_FILE")
        case "licence":
            (mock / "config" / "robustify" / "licences.json").unlink()
        case "data":
            monkeypatch.delenv("ROBUSTIFY_DATA")
        case "folder":
            folder.chmod(0o755)
        case "tree":
            (mock / "out" / ".git").mkdir()
    before = sorted(p.name for p in folder.iterdir())
    commands: Sequence[tuple[object, ...]] = (
        ("prepare", mock / "mock.yaml", "-o", new),
        ("generate", path, "-m", "m", "-o", new),
        ("grade", answers, "--items", path, "-o", new),
        ("report", grades, "--items", path, "-o", folder),
        ("audit", "--items", path, "-o", new, *JUDGE),
        ("agree", grades, "--human", human),
        ("templates", "compare", *TWO, "--items", path, "--answers", answers, "-o", new, *JUDGE),
    )
    for words in commands:
        run(*words, fails=4)
        assert sorted(p.name for p in folder.iterdir()) == before, words[0]
    assert seen == {}


def test_text_goes_to_no_other_machine(mock: Path) -> None:
    path, answers = answered(mock)
    seen.clear()
    away = ("--judge", "https://judge.invalid/v1", "--judge-model", "big")
    new = path.with_name("new")
    run("generate", path, "-m", "m", "--base-url", "https://model.invalid/v1", "-o", new, fails=4)
    run("grade", answers, "--items", path, "-o", new, *away, fails=4)
    run("audit", "--items", path, "-o", new, *away, fails=4)
    assert not new.exists()
    assert seen == {}


def test_a_killed_run_goes_on_and_nothing_is_graded_twice(mock: Path) -> None:
    path, answers = answered(mock)
    grades = path.with_name("grades.jsonl")
    first = (answers.read_text(), seen["asked"])
    run("generate", path, "-m", "m", "-o", answers)
    assert (answers.read_text(), seen["asked"]) == first
    run("grade", answers, "--items", path, "-o", grades, *JUDGE)
    whole = grades.read_text()
    run("grade", answers, "--items", path, "-o", grades, *JUDGE)
    assert grades.read_text() == whole
    assert {row.adapter for row in read_jsonl(grades, grade_from)} == {ADAPTER}
    assert evaluator_key().derived("free") != evaluator_key().derived("ids")


def test_prepare_tells_no_small_count(mock: Path) -> None:
    out = mock / "out" / "i.jsonl"
    told = json.loads(run("prepare", mock / "mock.yaml", "-o", out, "--json").output)
    assert told == {"n": N, "asked": N, "kinds": {"short_text": N}, "excluded": {}, "out": str(out)}
    few = {"n": 60, "asked": 57, "kinds": {"numeric": 30, "short_text": 27}, "excluded": {"long_answer": 3}}
    assert prepared(few, 10) == {"n": 60, "asked": None, "kinds": None, "excluded": None}
    few = {"n": 60, "asked": 40, "kinds": {"numeric": 37, "short_text": 3}, "excluded": {"long_answer": 20}}
    assert prepared(few, 10) == {"n": 60, "asked": 40, "kinds": None, "excluded": {"long_answer": 20}}
    assert (share(1 / 3, 30, 10), share(1 / 3, 3, 10), cell(3, 10), cell(0, 10)) == (0.33, None, "< 10", 0)
    assert cells({"a": 10, "b": 0}, 10) == {"a": 10, "b": 0}


def graded(name: str, right: int, n: int, model: str = "m", kind: Any = "short_text") -> list[GradeResult]:
    return [
        GradeResult(
            f"{name}{i}", model, kind, "g", "scored", float(i < right), "correct" if i < right else "incorrect", "r",
            restricted=True, adapter=ADAPTER, answer_sha256=f"{name}{i}{model}",
        )
        for i in range(n)
    ]  # fmt: skip


def test_a_report_shows_no_small_cell_and_no_rate_of_none_or_all() -> None:
    told = summarise([], graded("a", 20, 57) + graded("b", 3, 3, kind="numeric"))
    whole = told["models"]["m"]
    assert whole["kinds"] == {}
    assert (whole["all"]["accuracy"]["withheld"], whole["all"]["n"]) == ("several kinds", 60)
    assert "100 % (" not in markdown_page(told).split("Coverage")[0]
    for right, n in ((3, 3), (40, 40), (5, 40)):
        why = "< 10 items" if n < 10 else "< 10 right or wrong"
        part = summarise([], graded("a", right, n))["models"]["m"]["all"]
        assert (part["accuracy"]["withheld"], part["lower"], part["upper"]) == (why, None, None)
    assert summarise([], graded("a", 8, 20), min_cell=5)["models"]["m"]["all"]["accuracy"]["value"] == 0.4


def test_a_withheld_rate_is_not_found_from_what_stands_beside_it() -> None:
    held = graded("a", 20, 40) + graded("a", 38, 40, model="o")
    told = summarise([], held, base="m")
    assert told["models"]["o"]["all"]["accuracy"]["value"] is None
    against = told["against_base"]["models"]["o"]["kinds"]["short_text"]
    assert {against[name] for name in ("lower", "upper", "gained", "lost", "p", "p_holm")} == {None}
    assert against["difference"]["value"] is None
    assert "18" not in markdown_page(told)


def test_a_summary_to_show_is_built_from_a_list_of_places() -> None:
    public = [replace(g, restricted=False, adapter="") for g in graded("a", 20, 40)]
    told = summarise([], public) | {"n_items": 40, "secret": 1}
    told["models"]["m"]["all"]["secret"] = 1
    assert "secret" not in json.dumps(summary_to_show(told, 10))


def test_rows_of_two_sets_are_refused(mock: Path) -> None:
    path = made(mock)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    other = asdict(FreeItem("a", "Why?", "short_text", "so"))
    write_lines(path, [*rows, other])
    found = run("generate", path, "-m", "m", "-o", path.with_name("a.jsonl"), fails=4)
    assert "2 sets or labels" in str(found.exception)
