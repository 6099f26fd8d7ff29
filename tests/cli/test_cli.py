"""The face: exit codes, what goes to stdout and what to stderr, and that nothing leaks or crashes."""

import csv
import json
import os
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from robustify import cli
from robustify.config import shipped
from robustify.item import Item
from robustify.run import write_items
from tests.support.fake_logs import jsonl, lm_eval_row, scores_for
from tests.support.fake_scorer import fake_models, finds, likes_the_letter


@pytest.fixture
def items(tmp_path: Path, toys: list[Item]) -> Path:
    write_items(tmp_path / "items.jsonl", toys)
    return tmp_path / "items.jsonl"


@pytest.fixture
def config(tmp_path: Path, items: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_models(monkeypatch, finds("right"))
    path = tmp_path / "toys.yaml"
    path.write_text(
        "name: toys\nsensitivity: public\ndata: items.jsonl\nmodels: [one, two]\n"
        "limits: {min_robust: 1, min_items: 1}\n"
    )
    return path


SECRET = "zanzibar-platypus"


def one_line(ended) -> str:
    lines = ended.err.strip().split("\n")
    assert len(lines) == 1, ended.err
    assert "Traceback" not in ended.err
    return lines[0]


def test_a_run_prints_data_on_stdout_and_nothing_else(robustify, config: Path) -> None:
    ended = robustify(str(config), "--out", "out", "--json", "--no-progress", "--criterion", "unanimous")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["summary"]["splits"]["shortcut"] == 4


def test_rules_and_probe_are_shown_before_a_model_is_asked(robustify, config: Path) -> None:
    ended = robustify(str(config), "-o", "out", "--progress")
    assert ended.err.startswith("without any model (chance 25.0 %)"), ended.err
    assert [line.split()[0] for line in ended.err.split("\n")[1:3]] == ["probe", "longest_answer"]


def test_run_is_the_default_command_and_quiet_prints_nothing(robustify, config: Path) -> None:
    for args in (["run", str(config), "--output", "a", "-q"], [str(config), "-o", "b", "-q"]):
        ended = robustify(*args)
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert Path("a/run.json").read_bytes() == Path("b/run.json").read_bytes()


def test_models_limit_and_criterion_change_the_run(robustify, config: Path) -> None:
    ended = robustify(
        str(config), "-o", "out", "-m", "three", "--limit", "5", "--criterion", "majority", "--json"
    )
    summary = json.loads(ended.out)["summary"]
    assert list(summary["screen"]["voters"]) == ["three"]
    assert (summary["splits"]["all"], summary["screen"]["criterion"]) == (5, "majority")


def test_check_judges_and_report_work_on_a_finished_run(robustify, config: Path) -> None:
    assert robustify(str(config), "-o", "out", "-q").code == 0
    checked = robustify("check", "out", "--json")
    assert checked.code == (0 if json.loads(checked.out)["passed"] else 7)
    assert robustify("judge", "out", "-o", "again", "--mode", "text", "--json").code == 0
    assert robustify("report", "out").out.strip() == "out/report.html"
    exported = robustify("export", "lm-eval", "out", "-o", "tasks", "--force")
    assert exported.code == 0, exported.err
    assert all(Path(line).is_file() for line in exported.out.split())


@pytest.mark.parametrize("how", [["--limit", "5"], []])
def test_a_trial_run_is_not_judged_and_ends_well_whatever_a_guardrail_says(
    robustify, config: Path, how: list[str]
) -> None:
    limits = "min_robust: 100" + ", min_items: 1" * bool(how)
    config.write_text(config.read_text().replace("min_robust: 1, min_items: 1", limits))
    ended = robustify(str(config), "-o", "out", *how)
    assert ended.code == 0
    assert ended.out.startswith("A trial run, not judged: ")
    assert "lm_eval_tasks were not written" in ended.err
    assert robustify("judge", "out", "-o", "again").code == 0
    checked = json.loads(robustify("check", "out", "--json").out)
    assert (checked["passed"], checked["trial"]) == (False, True)
    words = robustify("check", "out")
    assert (words.code, words.out.split("\n")[-2][:22]) == (0, "Trial run, not judged:")


@pytest.mark.parametrize(
    ("forced", "code", "verdict"), [("false", 7, "not judged"), ("true", 0, "inconclusive")]
)
def test_voters_that_pick_one_letter_are_no_screen_unless_forced(
    robustify,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    toys: list[Item],
    forced: str,
    code: int,
    verdict: str,
) -> None:
    fake_models(monkeypatch, likes_the_letter("A"))
    write_items(
        config.parent / "items.jsonl", [replace(toys[i % 8], id=f"i{i}", stem=f"{i}?") for i in range(48)]
    )
    config.write_text(config.read_text() + f"screen: {{force_letters: {forced}}}\n")
    ended = robustify(str(config), "-o", "out", "--json")
    tree = json.loads(ended.out)["summary"]
    assert ended.code == code
    assert [r["voter"] for r in tree["certificate"]["reasons"] if r["code"] == "one_place"] == ["one", "two"]
    assert tree["screen"]["voters"]["one"]["favoured"]["picked"]["value"] == 1
    assert (tree["certificate"]["verdict"] == "not judged") is (verdict == "not judged")
    report = Path("out/report.md").read_text()
    assert report.index("one picks the option shown first") < report.index("kept as robust")
    printed = robustify("judge", "out", "-o", "again").out.split("\n")
    assert printed[0].startswith("one picks the option shown first in 100.0 % of its askings (n = 48 items")


def test_check_exits_7_when_a_guardrail_says_no(robustify, config: Path) -> None:
    config.write_text(config.read_text().replace("min_robust: 1", "min_robust: 100"))
    ended = robustify(str(config), "-o", "out")
    assert ended.code == 7
    assert "lm_eval_tasks were not written" in ended.err
    assert Path("out/run.json").is_file()
    assert not Path("out/lm_eval_tasks").exists()
    assert robustify("check", "out").code == 7
    assert robustify("export", "lm-eval", "out", "-o", "tasks").code == 7
    assert robustify("export", "lm-eval", "out", "-o", "tasks", "--force").code == 0
    assert any("FORCED" in p.read_text() for p in Path("tasks").rglob("*.yaml"))


@pytest.mark.parametrize(
    ("part", "name"), [("data", "defects"), ("data", "quarantined"), ("data", "sha256"), ("config", "name")]
)
def test_a_manifest_that_lacks_a_part_is_refused(robustify, config: Path, part: str, name: str) -> None:
    robustify(str(config), "-o", "out", "-q")
    tree = json.loads(Path("out/run.json").read_text())
    del tree[part][name]
    Path("out/run.json").write_text(json.dumps(tree))
    assert robustify("judge", "out", "-o", "again").code == 3


@pytest.mark.parametrize(
    ("said", "code"),
    [("{asking: {mode: text}, alternatives: 7}", 2), ("{asking: {letter_templates: []}}", 0)],
)
def test_settings_of_another_shape_are_no_bug(robustify, items: Path, said: str, code: int) -> None:
    base = f"{{name: t, sensitivity: public, data: {items.name}, models: [], {said[1:]}"
    Path("c.yaml").write_text(base)
    assert robustify("c.yaml", "-o", "out").code == code


def test_check_finds_a_changed_file(robustify, config: Path) -> None:
    robustify(str(config), "-o", "out", "-q")
    with Path("out/verdicts.csv").open("a") as file:
        file.write("x")
    ended = robustify("check", "out")
    assert ended.code == 3
    assert "verdicts.csv" in one_line(ended)


def test_validate_and_heuristics_need_no_model(robustify, items: Path, config: Path) -> None:
    for data in (items, config):
        ended = json.loads(robustify("validate", str(data), "--json").out)
        assert (ended["n_items"], ended["option_counts"]) == (8, {"4": 8})
        found = json.loads(robustify("heuristics", str(data), "--json").out)
        assert set(found) == {"n", "chance_accuracy", "heuristics"}
        assert set(found["heuristics"]["longest_answer"]) == {"value", "n", "ci", "ties", "p", "p_holm"}
    assert "longest_answer" in robustify("heuristics", str(items)).out


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (["nowhere.yaml"], 2, "no such config"),
        (["validat", "x"], 2, "did you mean validate?"),
        (["validate", "nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["heuristics", "."], 2, "folder"),
        (["check", "nowhere"], 2, "no such folder"),
        (["check", "x" * 300], 2, "too long"),
        (["split", "verify", "x" * 300, "--data", "wmdp-bio"], 2, "too long"),
        (["validate", ""], 2, "is empty"),
        (["heuristics", ""], 2, "is empty"),
        (["models", "pull", "smollm"], 2, "smollm2-135m"),
        (["wmdp_bio.yaml"], 4, "restricted"),
        (["wmdp_bio.yaml", "--safe-demo"], 4, "restricted"),
        (["--nope"], 2, "--nope"),
    ],
)
def test_each_refusal_has_its_exit_code(
    robustify, monkeypatch, args: list[str], code: int, part: str
) -> None:
    monkeypatch.setenv("ROBUSTIFY_RESTRICTED_DATA", "nowhere")
    ended = robustify(*args)
    assert ended.code == code, ended.err
    assert part in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("model", "code", "mend"),
    [("smollm-135m", 2, "smollm2-135m"), ("smollm2-135m", 5, "robustify models pull smollm2-135m")],
    ids=["unknown", "not pulled"],
)
def test_a_model_that_is_not_there(robustify, items: Path, model: str, code: int, mend: str) -> None:
    Path("c.yaml").write_text(f"name: t\nsensitivity: public\ndata: items.jsonl\nmodels: [{model}]\n")
    ended = robustify("c.yaml", "-o", "out")
    assert ended.code == code
    assert mend in ended.err
    assert not Path("out/run.json").exists()


def test_a_folder_that_cannot_be_written_is_exit_6(robustify, config: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert robustify(str(config), "-o", "file/out").code == 6


def test_no_error_shows_the_text_of_an_item(robustify, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "stem": SECRET, "choices": [SECRET, "b"], "key": 5},
        {"id": "b", "stem": SECRET, "choices": SECRET, "key": 0},
        {"id": "c", "stem": SECRET, "choices": [SECRET, None], "key": 0},
        {"id": "a", "stem": SECRET, "choices": [SECRET, SECRET], "key": SECRET},
    ]
    (tmp_path / "bad.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    ended = robustify("validate", "bad.jsonl")
    assert ended.code == 3
    assert len(ended.err.strip().split("\n")) >= 4
    assert SECRET not in ended.err + ended.out


def test_names_from_files_cannot_steer_a_terminal(robustify, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text('"\\e[2Jx": 1\nname: t\nsensitivity: public\ndata: x\n')
    ended = robustify("c.yaml")
    assert ended.code == 2
    assert "\x1b" not in ended.err


def test_every_command_has_help_and_an_example() -> None:
    from tools.docs.build import _walk

    for name, command in _walk("robustify", cli.cli):
        assert command.help, name
        assert command.get_short_help_str(), name


def test_help_is_instant() -> None:
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "robustify", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Of the processor, because the clock of a shared machine tells of others; the goal is 0.25 s, slow ones get room.
    assert min(spent) < 0.5


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("{} validate items.jsonl >&-", 6), ("{} validate items.jsonl >&- 2>&- <&-", 6), ("{} gate --help >&-", 6),
        ("{} validate items.jsonl >/dev/full", 6), ("{} validate items.jsonl 2>/dev/full >/dev/null", 0),
        ("{} validate nowhere 2>/dev/full", 2), ("{} validate nowhere >&- 2>&-", 2),
        ("set -o pipefail; {} validate items.jsonl --json | true", 0),
    ],
)  # fmt: skip
def test_streams_that_are_closed_or_full_give_a_documented_code(config: Path, shell: str, code: int) -> None:
    command = shell.format(f"'{sys.executable}' -m robustify")
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parent.parent.parent)}
    run = subprocess.run(
        ["bash", "-c", command], cwd=config.parent, env=env, capture_output=True, check=False
    )
    assert run.returncode == code
    assert b"bug" not in run.stderr
    assert run.stderr.count(b"\n") <= 1


@pytest.mark.slow
def test_the_readme_s_commands_run(
    robustify, config: Path, toys: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    starts = [
        b.strip().split("\n")
        for b in re.findall(r"```text\n(.*?)```", text, re.S)
        if b.startswith("robustify")
    ]
    assert len(starts) == 3
    assert all(len(lines) < 10 for lines in starts)
    items = [json.loads(line) for line in (shipped() / "data" / "benign_demo.jsonl").open(encoding="utf-8")]
    with open("items.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["Question", "Option A", "Option B", "Option C", "Option D", "Correct Answer"])
        table.writerows([row["stem"], *row["choices"], "ABCD"[row["key"]]] for row in items)
    seen = [lm_eval_row(item, at, scores_for([at % 4])[0], hidden=True) for at, item in enumerate(toys)]
    jsonl(Path("samples.jsonl"), seen)
    yaml = re.search(r"```yaml\n(.*?)```", text, re.S)
    Path("short.yaml").write_text(yaml[1].replace("items.jsonl", "items.csv"))
    monkeypatch.setattr("robustify.models.pull", lambda name, *_: Path(name))
    for lines in [*starts, ["robustify short.yaml -o short --limit 20"]]:
        for line in lines:
            words = re.split(r"\s{2,}", line)[0].split()[1:]
            ended = robustify(*words)
            judges = words[0] in ("check", "judge", "import", "items.csv", "items.yaml")
            assert ended.code in ((0, 7) if judges else (0,)), (line, ended.err)
