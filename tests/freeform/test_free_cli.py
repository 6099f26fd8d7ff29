"""The commands of `robustify free`: what they read, what they write and print, how they exit."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from robustify.cli.free import free
from robustify.freeform.schema import GradeResult, grade_from
from robustify.items.prompt_templates import every_template
from robustify.items.views import VIEWS, names, template
from robustify.pipeline.free_settings import FORMAT_TYPES, FreeSettings, JudgeSettings
from robustify.reading.guard import UNGUARDED
from robustify.reading.jsonl import read_jsonl
from robustify.reading.loaders import Source, load
from tests.freeform.scripted import QUESTIONS, SHOWN, run
from tests.freeform.stub_server import serving
from tests.support.cases import cases, contents
from tests.support.fake_logs import jsonl

S, N = "support", "not_support"
Args = tuple[Any, ...]
Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def judge() -> Iterator[Args]:
    with serving() as url:
        yield ("--judge", url, "--judge-model", "stub")


@pytest.fixture
def rows(tmp_path: Path) -> Args:
    """The arguments of a command that grades the answers of two models to three questions."""
    questions, table = tmp_path / "questions.json", tmp_path / "predictions.csv"
    questions.write_text(json.dumps(QUESTIONS))
    lines = ["Base,1,A", "Base,2,8", "Base,3,Hm.", "Tuned,1,B", "Tuned,2,8", "Tuned,3,It reflects green."]
    table.write_text("\n".join(["config,question_id,predicted", *lines, ""]))
    return ("grade", table, "--items", questions, "--cache-dir", tmp_path / "cache")


def grades(folder: Path) -> list[GradeResult]:
    return read_jsonl(folder / "free.jsonl", grade_from)


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


def test_rules_grade_alone_and_too_many_unscored_exit_with_7(rows: Args, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(*rows, "-o", out, fails=7, code="too-many-unscored")
    head, _, row, *_ = (re.split("  +", line) for line in found.stdout.splitlines())
    assert head == ["model", "kind", "answers", "at least", "at most", "score", "graded", "by judge"]
    assert " ".join(row) == "Base numeric 1 100.0 % 100.0 % 100.0 % (n = 1, 20.7 to 100.0) 100.0 % 0.0 %"
    assert len({*map(len, found.stdout.splitlines()[:7])}) == 1
    assert {path.name for path in out.iterdir()} == {"free.jsonl", "report.html", "summary.json"}
    assert [g.score for g in grades(out)] == [0, 1, None, 1, 1, 1]
    lines = list(map(json.loads, (out / "free.jsonl").read_text().splitlines()))
    assert (lines[3]["answer"], lines[3]["question"]) == ("B", SHOWN)
    assert "stone" not in found.stdout + (out / "summary.json").read_text()
    assert run(*rows, "-o", out, "--max-unscored", "0.5", "--json").stdout.count("\n") == 1


def test_an_unread_judge_is_named(rows: Args, tmp_path: Path, judge: Args, monkeypatch: Patch) -> None:
    monkeypatch.setattr("tests.freeform.stub_server.reply", lambda _: "hm")
    told = run(*rows, *judge, "-o", tmp_path, fails=7, code="too-many-unscored")
    assert "format_error: 1" in str(told.exception)


def test_questions_are_graded_by_the_three_graders(rows: Args, tmp_path: Path, judge: Args) -> None:
    rubrics = [word for kind in ("mcq", "numeric", "explanation") for word in ("--rubric", f"{kind}@v1.0")]
    command = (*rows, *judge, "--json", "-o", tmp_path / "out")
    told = json.loads(run(*command, *rubrics).stdout)
    found = grades(tmp_path / "out")
    assert [g.score for g in found] == [0, 1, 0, 1, 1, 1]
    assert {g.kind: g.judge.template_id for g in found if g.judge} == {
        "short_text": "grader/mcq@1.0", "numeric": "grader/numeric@1.0", "explanation": "grader/explanation@1.0",
    }  # fmt: skip
    # The rules' own verdict stands beside the judge's; a lone letter is an answer.
    assert [g.det_verdict for g in found] == ["incorrect", "correct", None, "correct", "correct", "correct"]
    kinds = {name: one["kinds"].values() for name, one in told["models"].items()}
    right = {name: [part["accuracy"]["value"] for part in parts] for name, parts in kinds.items()}
    assert right == {"Base": [0, 1, 0], "Tuned": [1, 1, 1]}
    run(*command, "--rubric", "poem@v1.0", fails=2, code="invalid-setting")
    five = json.loads(run(*command, "--rubric", "explanation@v1.1").stdout)["models"]["Tuned"]
    assert five["kinds"]["explanation"]["coverage"]["value"] == 1.0


def test_questions_and_predictions_may_stand_in_the_same_rows(tmp_path: Path) -> None:
    rows = [{**QUESTIONS[1], "model": m, "prediction": p} for m, p in (("a", "8 m"), ("b", "9 m"))]
    out = ("-o", tmp_path / "out")
    run("grade", jsonl(tmp_path / "rows.jsonl", rows), *out)
    assert [(g.model, g.score) for g in grades(tmp_path / "out")] == [("a", 1.0), ("b", 0.0)]
    run("grade", jsonl(tmp_path / "bare.jsonl", [QUESTIONS[1]]), *out, fails=3, code="missing-field")
    other = jsonl(tmp_path / "rows.jsonl", [rows[0], {**rows[1], "answer": "9"}])
    run("grade", other, *out, fails=3, code="conflicting-rows")


def test_what_may_be_text_is_not_shown_as_the_name_of_a_model_or_topic(tmp_path: Path) -> None:
    rows = [
        {**row, "prediction": "8", "model": model, "topic": row["question"].strip("?")}
        for row in QUESTIONS[1:] for model in (row["question"], row["answer"], "Two words", "own/model-7b")
    ]  # fmt: skip
    run("grade", jsonl(tmp_path / "rows.jsonl", rows), "-o", tmp_path / "out", "--max-unscored", "1")
    summary = loaded(tmp_path / "out" / "summary.json")
    assert list(summary["models"]) == ["model 1", "model 2", "model 3", "own/model-7b", "model 4", "model 5"]
    assert not any(entry["topics"] for entry in summary["models"].values())


def test_items_with_choices_are_graded_without_or_with_their_options(tmp_path: Path) -> None:
    row = {"id": "a", "stem": "Which of the following is green?", "choices": ["coal", "grass"], "key": 1}
    data = jsonl(tmp_path / "data.jsonl", [row])
    answers = jsonl(tmp_path / "answers.jsonl", [{"id": "a", "text": "B"}])
    (block := tmp_path / "free.yaml").write_text("free: {options_shown: true}\n")
    command = ("grade", answers, "--items", data, "-o", tmp_path / "out")
    run(*command, fails=7)
    assert grades(tmp_path / "out")[0].reason == "no_option"
    run(*command, "--config", block)
    assert grades(tmp_path / "out")[0].score == 1.0


def test_a_judge_is_asked_once_and_not_its_own_answers(rows: Args, tmp_path: Path, judge: Args) -> None:
    # The replies are kept: the server need not be there again, and a judge of another address is another one.
    for name in ("one", "two"):
        run(*rows, *judge, "-o", tmp_path / name)
    assert (tmp_path / "one" / "free.jsonl").read_bytes() == (tmp_path / "two" / "free.jsonl").read_bytes()
    own = (*rows, "--judge", judge[1], "-o", tmp_path / "own")
    run(*own, "--judge-model", "Tuned", fails=5, code="self-judging")
    (block := tmp_path / "free.yaml").write_text("free: {judge: {model: Tuned, forbid_self: false}}\n")
    run(*own, "--config", block)
    told = loaded(tmp_path / "own" / "summary.json")["models"]
    assert (told["Tuned"]["self_judging"], told["Base"]["self_judging"]) == (0, 0)


@pytest.mark.parametrize(("words", "code", "names"), cases("free", "cli_misuse"))
def test_misuse_exits_with_2_and_no_text(
    rows: Args, tmp_path: Path, words: Args, code: str, names: str
) -> None:
    (tmp_path / "c.yaml").write_text("free: {judge: {model: stone, votes: 2}}\n")
    named = {"CONFIG": tmp_path / "c.yaml", "ABSENT": tmp_path / "absent.yaml"}
    found = run(*rows, "-o", tmp_path / "out", *(named.get(word, word) for word in words), fails=2, code=code)
    assert names in str(found.exception)
    assert "stone" not in str(found.exception)


@pytest.mark.parametrize("words", contents("free")["cli_missing_files"])
def test_a_missing_file_exits_with_2_as_in_every_command(rows: Args, tmp_path: Path, words: str) -> None:
    places = {"GONE": tmp_path / "gone.csv", "OUT": tmp_path / "out", "ROWS": rows[1], "ITEMS": rows[3]}
    found = run(*(places.get(word, word) for word in words.split()), fails=2)
    assert "gone.csv" in str(found.exception)
    assert not (tmp_path / "out").exists()


ROW = {"query": "Why?", "passage": "Clouds cool. Hot.", "nuggets": ["Clouds cool.", "Drops fall."]}


@pytest.mark.parametrize("template", ["legacy@1.0", "optimized"])
def test_passages_are_labelled_and_scored_in_one_command(tmp_path: Path, judge: Args, template: str) -> None:
    rows = jsonl(tmp_path / "rows.jsonl", [ROW, ROW | {"nuggets": []}])
    labels = {"item_id": "row1", "annotator": "ann", "labels": {"row1/n1": S, "row1/n2": N}}
    (block := tmp_path / "free.yaml").write_text("free: {language: de, judge: {model: x}}\n")
    people, out = jsonl(tmp_path / "people.jsonl", [labels]), ("-o", tmp_path / "out")
    options = ("--human", people, "--template", template, "--config", block, "--json")
    told = json.loads(run("nuggets", rows, *judge, *options, *out).stdout)
    (grade,) = grades(tmp_path / "out")
    assert [nugget.label for nugget in grade.nuggets] == [S, N]
    assert {score["value"] for score in grade.nugget_scores.values()} == {0.5}
    part = told["models"]["passages"]["kinds"]["nuggets"]
    assert (part["labels"], part["nugget_scores"]["vital"]["lower"]) == ({N: 1, S: 1}, 0.5)
    assert (told["left_out"], told["calibration"]["nuggets"]["n"]) == ({"no_nuggets": 1}, 2)
    with pytest.raises(click.UsageError):
        run("nuggets", rows, *out)


def test_agree_compares_a_judge_with_people_and_two_gradings(rows: Args, tmp_path: Path, judge: Args) -> None:
    for version in ("1.0", "2.0"):
        rubric = ("--rubric", f"mcq@{version}", "--rubric", f"explanation@{version}")
        run(*rows, *judge, *rubric, "-o", tmp_path / version)
    human = jsonl(tmp_path / "human.jsonl", [{"item_id": "1", "model": "Base", "annotator": "x", "score": 1}])
    one, two = (tmp_path / version / "free.jsonl" for version in ("1.0", "2.0"))
    told = json.loads(run("agree", one, "--human", human).stdout)
    assert (told["status"], told["verdicts"]["doubt"]) == ("uncalibrated", "few_labels")
    assert told["verdicts"]["raw"]["value"] == 0.0
    compared = json.loads(run("agree", one, two, "--human", human, "--json").stdout)["rows"]
    assert [row["measure"] for row in compared] == ["scored", "read_at_once", "agrees_with_people"]
    assert compared[0]["difference"]["value"] == 0.0
    with pytest.raises(click.UsageError):
        run("agree", one)
    run("agree", rows[1], "--human", human, fails=3, code="not-a-grade")


def test_templates_are_listed_shown_rendered_and_verified(tmp_path: Path) -> None:
    told = json.loads(run("templates", "--json").stdout)
    assert "grader/mcq@1.0" in {t["id"] for t in told["prompts"]}
    assert "You are an impartial grader." in run("templates", "grader/mcq@1.0").stdout
    run("templates", "grader/poem", fails=2, code="unknown-template")
    for one in every_template():
        assert "{%" not in run("templates", one.id, "--example").stdout
    row = "{id: a/b@1.0, files: [b.j2], sha256: x, variables: [], reads: text, changelog: c}"
    (tmp_path / "manifest.yaml").write_text(f"templates: [{row}]\n")
    (tmp_path / "b.j2").write_text("{% block user %}b{% endblock %}")
    run("templates", "--template-dir", tmp_path, fails=3, code="changed-template")


def test_every_prompt_of_a_run_is_listed_and_shown_for_an_item_of_the_user(tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text("id,question,A,B,answer\nq1,Is ice warm?,yes,no,B\nq2,Is tea wet?,dry,wet,B\n")
    listed = [row["id"] for row in json.loads(run("templates", "--json").stdout)["prompts"]]
    assert {f"{view}/{name}" for view in VIEWS for name in names(view)} < {*listed}
    for prompt in (one for one in listed if "no-passage" not in one):
        shown = run("templates", prompt, "--items", items, "--item", "q2").stdout
        assert not re.search("{[{%]|warm", shown), prompt
    item = load(Source(path=str(items)), UNGUARDED).items[1]
    asked = {(r.context, r.continuation) for r in template("full").requests(item, (0, 1))}
    command = ("templates", "full/mmlu-v1", "--items", items, "--item")
    told = json.loads(run(*command, "q2", "--json").stdout)["texts"]
    assert {(told["context"], told[f"continuation {at}"]) for at in (1, 2)} == asked
    run(*command, "q3", fails=2, code="unknown-item-id")
    run("templates", "choices_only/no-passage-v1", "--items", items, fails=2, code="item-without-passage")


def test_a_restricted_item_has_no_prompt_on_the_screen(tmp_path: Path) -> None:
    copy = tmp_path / "wmdp_bio.jsonl"
    copy.write_text(json.dumps({"question": "Is ice warm?", "choices": ["yes", "no"], "answer": 1}) + "\n")
    assert "ice" not in run("templates", "full/mmlu-v1", "--items", copy, fails=4).stdout


@pytest.mark.parametrize("command", ["templates", "nuggets"])
def test_both_commands_take_the_six_formats_and_refuse_another(command: str) -> None:
    options = {one.name: one for one in free.commands[command].params}
    assert {*getattr(options["format_type"].type, "choices", ())} == {*FORMAT_TYPES}
    for written in FORMAT_TYPES:
        assert run("templates", "nugget/optimized", "--example", "--format-type", written).stdout
    legacy = ("templates", "nugget/legacy@1.0", "--example", "--format-type", "xml")
    assert "markdown" in str(run(*legacy, fails=2, code="unsupported-format").exception)


PAGE = Path(__file__).parents[2] / "docs" / "freeform.md"
FILE_BLOCK = re.compile(r"```(?:json|text) (\S+)\n(.*?)```", re.S)
COMMAND = re.compile(r"```console\n\$ robustify free (.*?)\n(.*?)```", re.S)


def test_every_command_and_every_setting_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"free {name}" in text for name in free.commands)
    assert all(f"`{name}`" in text for name in (*FreeSettings.model_fields, *JudgeSettings.model_fields))


def test_the_commands_of_the_page_print_what_stands_there(tmp_path: Path, monkeypatch: Patch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, content in FILE_BLOCK.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    with serving() as url:

        def printed(found: "re.Match[str]") -> str:
            words = [word.replace("http://127.0.0.1:8000/v1", url) for word in shlex.split(found[1])]
            return f"```console\n$ robustify free {found[1]}\n{run(*words).stdout.rstrip()}\n```"

        assert len(COMMAND.findall(text)) >= 2
        assert COMMAND.sub(printed, text) == text
