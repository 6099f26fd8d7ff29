"""The first ten minutes of somebody with a small CSV: what each command says, and that it says what to do next; standard
input as a file, a diff in place of a file, and a config that is written whole or not at all."""

import csv
import json
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from robustify.base.errors import ModelError, RobustifyError
from robustify.cli import cli, runs, terminal
from robustify.cli.validated import survey_lines
from robustify.export.mending import mended, write_set
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import SEES_STEM
from robustify.models import forecast
from robustify.pipeline import config, model_steps
from robustify.reading import loaders
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.wings import wings
from tests.support.command import invoked
from tests.support.fake_logs import jsonl
from tests.support.fake_scorer import fake_models, finds

HEAD = ("Question", "Option A", "Option B", "Option C", "Option D", "Correct Answer", "Category")
PLAIN = ("question", "a", "b", "c", "d", "answer", "topic")
N = 60
DONE = (0, 7)
"""A run is there; with 7 a guardrail keeps it from being exported."""


def rows(n: int = N) -> list[list[str]]:
    """Harmless items; the longest option is the key of every second one."""
    out = []
    for i in range(n):
        options = [f"for {m} minutes" for m in (i + 3, i + 9, i + 20, i + 31)]
        key = i * 7 % 4
        if i % 2:
            options[key] += ", and longer where the pan is cold"
        out.append([f"How long does pan {i} simmer à la carte?", *options, "ABCD"[key], f"pans {i % 3}"])
    return out


def written(path: Path, head: tuple[str, ...] = HEAD, encoding: str = "utf-8", n: int = N) -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows([head, *rows(n)])
    return path


@pytest.fixture
def cooking(tmp_path: Path) -> Path:
    return written(tmp_path / "cooking.csv")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_models(monkeypatch, finds("longer"))


def test_two_names_after_one_option_say_how_to_name_two_models(robustify, cooking: Path) -> None:
    for argv in (
        ("demo_benign.yaml", "--models", "a", "b"),
        ("cooking.csv", "--public", "-m", "a", "b", "c"),
    ):
        ended = robustify(*argv)
        assert (ended.code, ended.out) == (2, "")
        assert "-m FIRST -m SECOND" in ended.err
    assert "FIRST" not in robustify("cooking.csv", "more.csv", "--public").err


@pytest.mark.parametrize("command", ["report", "check", "explain", "judge"])
def test_a_run_that_was_interrupted_before_its_folder_existed_says_so(robustify, command: str) -> None:
    Path("begun").mkdir()
    for folder in ("results/cooking", "begun"):
        ended = robustify(command, folder)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "interrupted" in ended.err


def test_a_file_of_items_says_in_one_line_what_to_do(robustify, cooking: Path) -> None:
    ended = robustify("cooking.csv")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "`robustify cooking.csv --public`" in ended.err
    assert "`robustify init cooking.csv`" in ended.err


def test_a_public_file_is_audited_without_config_or_model(robustify, cooking: Path) -> None:
    head, *rows = cooking.read_text().split("\n")
    cooking.write_text("\n".join([head, *rows[:3], "," * head.count(","), *rows[3:]]))
    ended = robustify("cooking.csv", "--public", "--json")
    assert ended.code in DONE, ended.err
    tree = json.loads(ended.out)
    assert [note["code"] for note in tree["notes"]] == ["blank-rows"]
    assert tree["run"] == "results/cooking"
    assert tree["summary"]["splits"]["all"] == N
    assert Path("results/cooking/report.html").is_file()
    assert "no model has a score" in robustify("report", "results/cooking", "--table").err


@pytest.mark.usefixtures("models")
def test_models_of_the_command_line_are_asked_about_a_file(robustify, cooking: Path) -> None:
    ended = robustify("cooking.csv", "--public", "-m", "smollm2-135m", "-o", "out", "--limit", "20", "--json")
    assert list(json.loads(ended.out)["summary"]["screen"]["voters"]) == ["smollm2-135m"]
    # A model as small as that cannot answer by letter, unless told to: then the full question is asked so too.
    asking = json.loads(Path("out/run.json").read_text())["config"]["asking"]
    assert (asking["mode"], asking["views"][2]) == ("text", "full_text")
    robustify("init", "cooking.csv", "-q")
    by_letter = ("-m", "smollm2-135m", "--mode", "letter", "-o", "by-letter", "--limit", "20")
    for source in ("cooking.csv", "--public"), ("cooking.yaml",):
        ended = robustify(*source, *by_letter)
        assert ended.code == 0, ended.err
        settings = json.loads(Path("by-letter/run.json").read_text())["config"]
        assert (settings["asking"]["mode"], settings["screen"]["mode"]) == ("letter", "letter")
        assert settings["asking"]["views"][2] == "full"


def test_init_writes_a_config_that_runs(robustify, cooking: Path) -> None:
    ended = robustify("init", "cooking.csv")
    assert (ended.code, ended.out) == (0, "cooking.yaml\n"), ended.err
    assert "Next, read the config" in ended.err
    settings = config.load(Path("cooking.yaml"), wings().adapters)
    assert (settings.sensitivity, settings.models, settings.asking.mode) == ("public", (), "text")
    assert settings.data[0].fields.key == "Correct Answer"
    assert sum(line.lstrip().startswith("#") for line in Path("cooking.yaml").read_text().split("\n")) >= 6
    assert robustify("cooking.yaml", "-o", "out").code in DONE
    assert robustify("init", "cooking.csv").code == 2, "a config that is there is not replaced unasked"
    assert robustify("init", "cooking.csv", "--force", "-o", "sub.yaml", "-m", "gemma3-270m", "-q").err == ""
    assert config.load(Path("sub.yaml"), wings().adapters).voters == ("gemma3-270m",)


def test_too_few_items_for_a_verdict_are_said_before_and_after(robustify, tmp_path: Path) -> None:
    written(tmp_path / "few.csv", n=49)
    needed = "at least 50"
    assert needed in robustify("validate", "few.csv").out.splitlines()[0]
    assert needed in robustify("few.csv", "--public", "--dry-run").out.splitlines()[0]
    done = robustify("few.csv", "--public", "-o", "few")
    assert needed in done.out.splitlines()[0]
    codes = (done.code, robustify("check", "few").code, robustify("check", "few", "--strict").code)
    assert codes == (0, 0, 7)


def test_validate_begins_with_the_verdict_and_ends_with_a_block_to_paste(robustify, cooking: Path) -> None:
    lines = robustify("validate", "cooking.csv").out.rstrip("\n").split("\n")
    assert lines[0] == f"cooking: {N} items, ready to audit"
    assert any(re.fullmatch(r"  keys +A 15, B 15, C 15, D 15", line) for line in lines), lines
    at = lines.index("data:")
    Path("c.yaml").write_text("\n".join(["name: c", "sensitivity: public", "models: []", *lines[at:]]))
    assert json.loads(robustify("validate", "c.yaml", "--json").out)["n_items"] == N


def test_a_header_that_says_little_is_mapped_on_the_command_line(robustify, tmp_path: Path) -> None:
    head = ("Question", "First try", "Second try", "Third try", "Fourth try", "Correct Answer", "Topic")
    written(tmp_path / "c.csv", head)
    refused = robustify("validate", "c.csv")
    assert refused.code == 3
    assert "First try, Second try, Third try" in refused.err
    assert "--map" in refused.err
    choices = "choices=" + ",".join(head[1:5])
    assert json.loads(robustify("validate", "c.csv", "--map", choices, "--json").out)["n_items"] == N
    one_each = [word for name in head[1:5] for word in ("--map", f"choices={name}")]
    assert robustify("heuristics", "c.csv", *one_each).code == 0
    assert robustify("c.csv", "--public", "--map", choices, "-o", "out").code in DONE
    assert robustify("init", "c.csv", "--map", choices).code == 0
    assert robustify("validate", "c.yaml").code == 0


def test_heuristics_are_sorted_starred_and_concluded(robustify, cooking: Path) -> None:
    lines = robustify("heuristics", "cooking.csv").out.rstrip("\n").split("\n")
    assert re.search(r": (longest|most)\w* ", lines[0])
    table = json.loads(robustify("heuristics", "cooking.csv", "--json").out)["heuristics"]
    apart = lines.index("  Rules that read the question, too:")
    assert {line[2:].split()[0] for line in lines[apart + 1 : apart + 3]} == SEES_STEM
    shown = [re.match(r"([* ]) (\w+) +([0-9.]+) ?%", line) for line in lines[2:apart]]
    found = [(match[2], match[1]) for match in shown if match is not None]
    assert [name for name, _ in found] == sorted(table, key=lambda name: -table[name]["value"])
    assert {name for name, star in found if star == "*"} == {
        n for n, r in table.items() if r["p_holm"] <= 0.05
    }
    assert "longest_answer" in {name for name, star in found if star == "*"}


def test_data_is_checked_before_models_are_demanded(robustify, tmp_path: Path) -> None:
    written(tmp_path / "cooking.csv", encoding="cp1252")
    ended = robustify("cooking.csv", "--public", "-m", "smollm2-135m")
    assert (ended.code, "[not-utf-8]" in ended.err) == (3, True), ended.err
    written(tmp_path / "cooking.csv")
    ended = robustify("cooking.csv", "--public", "-m", "smollm2-135m")
    assert ended.code == 5
    assert re.search(r"[0-9]+ MB.* models pull smollm2-135m`", ended.err)
    assert not Path("results").exists()


@pytest.mark.usefixtures("models")
def test_a_dry_run_says_what_it_takes_before_the_model_is_there(
    robustify, cooking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_steps, "ask_models", lambda *_: pytest.fail("asked"))
    command = ("cooking.csv", "--public", "--dry-run")
    ended = robustify(*command, "-m", "smollm2-135m")
    assert ended.code == 0, ended.err
    assert re.search(r"smollm2-135m  about [\d,]+ requests, [\d,]+ tokens", ended.out)
    assert re.search(r"[0-9]+ MB .* models pull smollm2-135m", ended.out)
    assert not Path("results").exists()
    (need,) = json.loads(robustify(*command, "-m", "smollm2-135m", "--json").out)["models"]
    assert need["requests"] > N * 4
    assert json.loads(robustify(*command, "--json").out)["models"] == []


def _refuse() -> None:
    raise ModelError("no room for it")


@pytest.mark.usefixtures("models")
def test_a_long_run_has_a_page_before_its_models_answer_and_then_its_own(
    robustify, cooking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["cooking.csv", "--public", "-m", "smollm2-135m", "-o", "out"]
    with monkeypatch.context() as patch:
        patch.setattr(forecast, "MANY", 10)
        patch.setattr(model_steps, "open_scorer", lambda *_, **__: _refuse())
        there: list[bool] = []
        said = runs.say
        patch.setattr(runs, "say", lambda line: (there.append(Path("out/report.html").exists()), said(line)))
        ended = robustify(*command)
        assert there[-1], "the page is there when its path is printed"
        page = Path("out/report.html").read_text(encoding="utf-8")
        assert "out/report.html" in ended.err
        assert 'class="above"' in page, "the page says that it grows"
        assert robustify("explain", "out").code == 2, "it is no run yet"
    assert robustify(*command, "-q").code in DONE
    assert 'class="above"' not in Path("out/report.html").read_text(encoding="utf-8")
    assert not Path("out/.run.writing").exists()
    held = {str(p.relative_to("out")) for p in Path("out").rglob("*") if p.is_file()} - {"run.json"}
    assert held == set(json.loads(Path("out/run.json").read_text())["files"])
    assert robustify(*command, "-o", "whole", "-q").code in DONE
    assert Path("out/report.html").read_bytes() == Path("whole/report.html").read_bytes()


@pytest.mark.usefixtures("models")
def test_judging_again_keeps_the_old_verdict_unless_asked(robustify, cooking: Path) -> None:
    assert robustify("cooking.csv", "--public", "-m", "one", "-m", "two", "-o", "out", "-q").code in DONE
    before = Path("out/run.json").read_bytes()
    again = robustify("judge", "out", "--criterion", "majority")
    assert again.code in DONE, again.err
    assert Path("out/run.json").read_bytes() == before
    assert json.loads(Path("out-majority/summary.json").read_text())["screen"]["criterion"] == "majority"
    assert "unanimous" not in robustify("judge", "out", "--criterion", "1-of-2").out
    assert robustify("judge", "out", "--criterion", "majority", "-o", "out").code in DONE
    assert Path("out/run.json").read_bytes() != before


def test_a_step_that_lasts_says_so_and_a_short_or_quiet_one_does_not(
    robustify, cooking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "EVERY_SECONDS", 0.01)
    load = loaders.load

    def slow(*given: object) -> object:
        time.sleep(0.3)
        return load(*given)

    monkeypatch.setattr(loaders, "load", slow)
    assert "reading the items ..." in robustify("validate", "cooking.csv").err
    assert "reading the items ..." not in robustify("validate", "cooking.csv", "-q").err
    monkeypatch.setattr(terminal, "EVERY_SECONDS", 600.0)
    assert "..." not in robustify("validate", "cooking.csv").err


def test_the_next_command_finds_and_trusts_a_task_as_this_one_did() -> None:
    tree = {
        "name": "t", "n_items": 80, "n_quarantined": 0, "defects": {}, "layout": "lm-eval", "chance_accuracy": 0.25,
        "option_counts": {}, "key_positions": {}, "key_position": None, "parallel_items": 0, "topics": {},
        "quarantined": [], "notes": [],
    }  # fmt: skip
    data = {"path": "lm-eval:t", "include_path": ["a b", "c"], "trust_task_code": True}
    for name, quoted in {"lm-eval:t": "lm-eval:t", "a 'b;.csv": "'a '\"'\"'b;.csv'"}.items():
        lines = survey_lines({**tree, "data": data}, name)
        (line,) = [line for line in lines if "--public" in line]
        assert line.count(f" {quoted} --include-path 'a b' --include-path c --trust-task-code") == 2


SHOWN = {"choices": ["Oslo", "Rome", "Lima"], "answer": "A", "gold": "A"}
ROWS = [{"question": f"Where is {n}?", **SHOWN, "uid": n, "nr": n} for n in range(6)]


def test_each_part_of_a_file_has_a_rule_a_reason_and_candidates_for_those_who_ask(
    robustify, tmp_path: Path
) -> None:
    items = jsonl(tmp_path / "items.jsonl", ROWS)
    (read,) = json.loads(robustify("validate", items, "--json").out)["read"]
    why = {one["part"]: one for one in read["decisions"]}
    assert {part: one["columns"] for part, one in why.items() if not part.startswith("form")} == {
        "choices": ["choices"], "key": ["gold"], "stem": ["question"], "id": ["uid"],
    }  # fmt: skip
    assert (why["key"]["candidates"], why["id"]["candidates"]) == (["answer"], ["nr"])
    assert all(one["rule"] and one["reason"] for one in read["decisions"])
    data = f"data: {{path: {items}, fields: {{key: answer}}}}\n"
    Path("audit.yaml").write_text(f"name: toys\nsensitivity: public\nmodels: []\n{data}", "utf-8")
    for command in (("validate", items, "--map", "key=answer"), ("validate", "audit.yaml")):
        asked = robustify(*command, "--why").out
        assert "why items.jsonl" in asked
        assert '"answer" by mapped' in asked
        assert not any(word in asked for word in ("Oslo", "Where is"))
        assert "why items.jsonl" not in robustify(*command).out


BOXES = [
    {"question": f"Which box is it, {at}?", "choices": ["red", "tin", "old", "wet "], "answer": at % 4} for at in range(6)
]  # fmt: skip


def piped(text: str, *args: str) -> Result:
    return CliRunner().invoke(cli, args, input=text, standalone_mode=False)


@pytest.mark.parametrize("command", ["validate", "lint"])
@pytest.mark.parametrize("form", ["lines", "list", "csv", "bom"])
def test_standard_input_is_read_like_a_file(tmp_path: Path, command: str, form: str) -> None:
    csv = "question,A,B,answer\nWhich?,a,b,A\nWhich?,c,d,B\n"
    text = {
        "lines": "\n".join(map(json.dumps, BOXES)),
        "list": json.dumps(BOXES),
        "csv": csv,
        "bom": "\ufeff" + csv,
    }[form]
    file = tmp_path / "stdin"
    file.write_text(text, encoding="utf-8")
    streamed, read = (json.loads(piped(text, command, name, "--json").stdout) for name in ("-", str(file)))
    read.pop("data", None)
    assert json.loads(json.dumps(read).replace(str(file), "stdin")) == streamed


@pytest.mark.parametrize("command", ["validate", "lint"])
def test_empty_standard_input_is_an_error_of_the_data(command: str) -> None:
    done = piped("", command, "-")
    assert isinstance(done.exception, RobustifyError)
    assert done.exception.exit_code == 3


def test_a_repeated_question_names_the_line_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [BOXES[0], BOXES[1], {**BOXES[0], "choices": ["a", "b", "c"]}, {**BOXES[1], "answer": 3}, BOXES[0]]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    defects = json.loads(invoked("validate", file, "--json").stdout)["defects"]
    firsts = {
        kind: {at["line"]: at["first"] for at in defects[kind]["at"]}
        for kind in ("repeated_stem", "conflicting_key")
    }
    assert firsts == {"repeated_stem": {3: 1, 4: 2, 5: 1}, "conflicting_key": {2: 4, 4: 2}}
    found = json.loads(invoked("lint", file, "--json").stdout)["findings"]
    assert ["(line 1)" in one["message"] for one in found if one["code"] == "R066"] == [True, False, True]
    assert not any("(line" in one["message"] for one in found if one["code"] == "R001")


def test_the_diff_has_the_rows_that_mend_would_write_and_leaves_the_file_alone(tmp_path: Path) -> None:
    file, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    items = [
        Item(f"i{at}", row["question"], tuple(row["choices"]), row["answer"]) for at, row in enumerate(BOXES)
    ]
    items.append(Item("both", "Which of them?", ("red", "tin", "both A and B"), 2))
    write_set(items, file)
    before = file.read_bytes()
    done = invoked("lint", file, "--fix", "--diff")
    assert not done.return_value
    assert file.read_bytes() == before
    write_set(mended(load(Source(path=str(file)), UNGUARDED).items, 0).items, out)
    added = [line[1:] for line in done.stdout.splitlines() if line.startswith("+{")]
    changed = [line for line in out.read_text().splitlines() if line not in before.decode().splitlines()]
    assert added == changed
    assert not any("both A and B" in line for line in added)
    assert invoked("lint", out, "--fix", "--diff").stdout == ""


def test_a_wrong_model_leaves_neither_a_config_nor_a_draft_and_spares_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, BOXES)), encoding="utf-8")
    config = tmp_path / "a.yaml"
    for older in (None, "name: mine\n"):
        if older:
            config.write_text(older)
        done = invoked("init", tmp_path / "a.jsonl", "-m", "no-such-model", "-o", config, "--force")
        assert isinstance(done.exception, RobustifyError)
        assert (config.read_text() if config.exists() else None) == older
        assert {path.name for path in tmp_path.iterdir()} <= {"a.jsonl", "a.yaml"}
