"""The face: exit codes, what goes to stdout and what to stderr, and that nothing leaks or crashes."""

import csv
import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from robustify import cli
from robustify.base.errors import ResourceError
from robustify.cli import options, terminal
from robustify.items.item import Item
from robustify.pipeline.config import shipped
from robustify.runs.run import write_items
from tests.support.cases import cases
from tests.support.command import commands
from tests.support.fake_logs import jsonl, lm_eval_row, scores_for
from tests.support.fake_scorer import FakeScorer, fake_models, finds, likes_the_letter, opens


def test_modules_of_the_current_folder_do_not_replace_those_of_python(tmp_path: Path) -> None:
    for name in ("argparse", "json", "numpy", "random", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    line = [sys.executable, "-m", "robustify", "--help"]
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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
        "limits: {min_kept: 1, min_items: 1}\nscreen: {criterion: unanimous}\n"
    )
    return path


def test_a_run_prints_data_on_stdout_and_nothing_else(robustify, config: Path) -> None:
    ended = robustify(str(config), "--out", "out", "--json", "--no-progress", "--criterion", "unanimous")
    assert ended.code == 7, ended.err
    assert ended.err.count("\n") == 1
    assert json.loads(ended.out)["summary"]["splits"]["flagged"] == 4


@pytest.mark.parametrize(("hidden", "shown"), [("passage", "Where does toy"), ("question", "")])
def test_run_hides_what_it_is_told_to(
    robustify, monkeypatch: pytest.MonkeyPatch, hidden: str, shown: str
) -> None:
    scorer = FakeScorer(finds("right"), "smollm2-135m")
    opens(monkeypatch, lambda name: scorer)
    rows = [["Text", "Question", "A", "B", "Answer"]]
    rows += [
        [f"Toy {at} lies in the hall.", f"Where does toy {at} lie?", f"hall {at}", f"right {at}", "A"]
        for at in range(8)
    ]
    with Path("quiz.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    how = ("--public", "--map", "passage=Text", "-m", scorer.name, "--mode", "letter", "--hidden")
    asked = ("run", "quiz.csv", *how)
    assert robustify(*asked, hidden, "-o", "out").code == 0
    assert json.loads(Path("out/run.json").read_text())["config"].get("hidden", "question") == hidden
    alone = {request.context for request in scorer.asked if "lies in the hall" not in request.context}
    assert len(alone) > 16
    assert all(("Where does toy" in context) is bool(shown) for context in alone)
    assert robustify(*asked, "image", "-o", "other").code == 2


def test_check_judge_and_export_work_on_a_finished_run(robustify, config: Path) -> None:
    ended = robustify(str(config), "-o", "out", "-q")
    checked = robustify("check", "out", "--json")
    assert json.loads(checked.out)["state"] == "failed"
    again = robustify("judge", "out", "-o", "again", "--mode", "text", "--json")
    assert [done.code for done in (ended, checked)] == [7, 7]
    assert again.code == (7 if json.loads(again.out)["state"] == "failed" else 0)
    assert robustify("judge", "out").out.strip() == "out/report.html"
    table = robustify("report", "out", "--table").out.splitlines()
    assert table[0].startswith("| Model | Score | Items | Chance |")
    assert len(table) == 2 + 2
    exported = robustify("export", "lm-eval", "out", "-o", "tasks", "--kept")
    assert exported.code == 0, exported.err
    assert all(Path(line).is_file() for line in exported.out.split())


@pytest.mark.parametrize("how", [["--limit", "5"], []])
def test_a_trial_run_is_not_judged_and_ends_well_whatever_a_guardrail_says(
    robustify, config: Path, how: list[str]
) -> None:
    limits = "min_kept: 100" + ", min_items: 1" * bool(how)
    config.write_text(config.read_text().replace("min_kept: 1, min_items: 1", limits))
    ended = robustify(str(config), "-o", "out", *how)
    assert ended.code == 0
    assert Path("out/lm_eval_tasks").is_dir()
    assert robustify("export", "lm-eval", "out", "-o", "tasks").code == 0
    assert robustify("judge", "out", "-o", "again").code == 0
    checked = json.loads(robustify("check", "out", "--json").out)
    assert (checked["state"], checked["trial"]) == ("not evaluated", True)
    words = robustify("check", "out")
    assert (words.code, words.out.split("\n")[-2].split("  ")[0]) == (0, "not evaluated")
    assert robustify("check", "out", "--strict").code == 7


@pytest.mark.parametrize(("forced", "judged"), [("false", False), ("true", True)])
def test_voters_that_pick_one_letter_are_no_screen_unless_forced(
    robustify, config: Path, monkeypatch: pytest.MonkeyPatch, toys: list[Item], forced: str, judged: bool
) -> None:
    fake_models(monkeypatch, likes_the_letter("A"))
    write_items(
        config.parent / "items.jsonl", [replace(toys[i % 8], id=f"i{i}", stem=f"{i}?") for i in range(48)]
    )
    config.write_text(config.read_text().replace("criterion: unanimous", f"force_letters: {forced}"))
    ended = robustify(str(config), "-o", "out", "--json")
    tree = json.loads(ended.out)["summary"]
    assert ended.code == (7 if judged else 0)
    assert [r["params"]["voter"] for r in tree["reasons"] if r["code"] == "one_position"] == ["one", "two"]
    assert tree["screen"]["voters"]["one"]["favoured"]["picked"]["value"] == 1
    assert (
        "voters_by_position" in {c["name"] for c in tree["guardrails"] if c["state"] == "failed"}
    ) is not judged
    # The report and the terminal begin with the model, its share, and the number of its answers.
    report, printed = Path("out/report.md").read_text(), robustify("judge", "out", "-o", "again").out
    for text in (report[report.index("one ") :], printed):
        assert re.match(r"one .*100\.0 %.*\(n = 48 ", text)


def test_check_exits_7_when_a_guardrail_says_no(robustify, config: Path) -> None:
    config.write_text(config.read_text().replace("min_kept: 1", "min_kept: 100"))
    ended = robustify(str(config), "-o", "out")
    assert ended.code == 7
    assert "lm_eval_tasks" in ended.err
    assert Path("out/run.json").is_file()
    assert not Path("out/lm_eval_tasks").exists()
    assert robustify("check", "out").code == 7
    assert robustify("export", "lm-eval", "out", "-o", "tasks").code == 7
    assert robustify("export", "lm-eval", "out", "-o", "tasks", "--kept").code == 0
    assert any("failed" in p.read_text() for p in Path("tasks").rglob("*.yaml"))


def test_every_command_has_help_and_prints_json_and_quiet_alike() -> None:
    for name, command in commands():
        assert command.help, name
        assert "\\b" not in command.help, f"{name} shows the mark of an unwrapped paragraph"
        assert command.get_short_help_str(), name
        if not hasattr(command, "commands") and name != "robustify gate":
            options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            assert {"--json", "-q", "--quiet"} <= options, name


@pytest.mark.parametrize(("usage", "kind"), cases("cli", "usages"))
def test_a_usage_says_what_an_option_takes(usage: str, kind: list[object]) -> None:
    made: Any = options.option(usage, "Say this.")(lambda: None)
    (found,) = made.__click_params__
    assert [found.is_flag, found.multiple, found.type.name] == kind


def test_loading_is_said_at_once_and_progress_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal.watcher()("loading one", 1200) as progress:
        assert capsys.readouterr().err == "robustify: loading one (1,200 requests) ...\n"
        progress(0)  # nothing is in the cache
        monkeypatch.setattr(terminal, "EVERY_SECONDS", 0)
        progress(300)
        said = capsys.readouterr().err
        assert re.match(r"robustify: one: 300 of 1,200 requests in \d+ s, about \d+ s left", said)


@pytest.mark.parametrize("tty", [False, True])
def test_cached_answers_are_not_in_the_rate_and_an_interrupt_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, tty: bool
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return tty

    now, screen = [100.0], Screen()
    for clock in ("time", "monotonic"):
        monkeypatch.setattr(terminal.time, clock, lambda: now[0])
    monkeypatch.setattr(terminal, "EVERY_SECONDS", 5)
    monkeypatch.setattr("robustify.base.redaction.UNMUTED", screen)
    bars: list[Any] = []
    made = tqdm.__init__
    monkeypatch.setattr(tqdm, "__init__", lambda bar, *a, **k: (bars.append(bar), made(bar, *a, **k))[1])
    with pytest.raises(KeyboardInterrupt), terminal.watcher()("loading one", 1200) as progress:  # noqa: PT012
        now[0] += 50  # loading takes long
        progress(1000)  # all from the cache
        now[0] += 10
        progress(20)
        if tty:
            assert bars[0].format_dict["initial"] == 1000
            assert bars[0].start_t == 150
        raise KeyboardInterrupt
    shown = screen.getvalue()
    assert tty or shown.splitlines()[1].startswith("robustify: one: 1,000 of 1,200 ")
    assert tty or "robustify: one: 1,020 of 1,200 requests in 10 s, about 90 s left\n" in shown
    assert re.match("robustify: one: 1,020 of 1,200 requests ", shown.splitlines()[-1])


def test_a_bar_moves_although_no_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = threading.Event()
    monkeypatch.setattr(terminal, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(tqdm, "refresh", lambda *_, **__: moved.set())
    with terminal._bar("loading one", 10, io.StringIO()):
        assert moved.wait(60)


def test_each_command_has_a_whole_line_in_the_help_of_80_columns(
    robustify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = robustify("--help").out
    lines = [line for line in said.split("\n") if re.match("  [a-z]+  +[A-Z]", line)]
    assert len(lines) == len(cli.cli.commands)
    assert not [line for line in lines if "..." in line]
    assert max(map(len, said.split("\n"))) <= 80


def test_without_arguments_it_says_how_to_begin(robustify) -> None:
    said = robustify()
    assert said.code == 0
    commands = re.findall(r"robustify (\S+)", said.out)
    assert commands == ["items.csv", "init", "items.yaml", "import", "--help"]
    assert max(map(len, said.out.split("\n"))) <= 100


@pytest.mark.parametrize(("shell", "code"), cases("cli", "streams"))
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
        b.strip().split("\n") for b in re.findall(r"```sh\n(.*?)```", text, re.S) if b.startswith("robustify")
    ]
    assert len(starts) == 4
    assert all(len(lines) < 10 for lines in starts)
    items = [json.loads(line) for line in (shipped() / "data" / "benign_demo.jsonl").open(encoding="utf-8")]
    with open("items.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["Question", "Option A", "Option B", "Option C", "Option D", "Correct Answer"])
        table.writerows([row["stem"], *row["choices"], "ABCD"[row["key"]]] for row in items)
    for name, hidden in (
        ("full.jsonl", False), ("bare.jsonl", True), ("base.jsonl", False), ("tuned.jsonl", False)
    ):  # fmt: skip
        rows = (lm_eval_row(item, at, scores_for([at % 4])[0], hidden=hidden) for at, item in enumerate(toys))
        jsonl(Path(name), rows)
    yaml = re.search(r"```yaml\n(.*?)```", text, re.S)
    without_own_model = re.sub(r"  - model: .*\n    role: under_test\n", "", yaml[1])
    assert "under_test" not in without_own_model
    Path("short.yaml").write_text(f"name: short\nsensitivity: public\ndata: items.csv\n{without_own_model}")
    monkeypatch.setattr("robustify.models.downloads.pull_model", lambda name, *_: Path(name))
    for lines in [*starts, ["robustify short.yaml -o short --limit 20"]]:
        for line in lines:
            words = re.split(r"\s{2,}", line)[0].split()[1:]
            ended = robustify(*words)
            judges = words[0] in ("check", "judge", "import", "export", "items.csv", "items.yaml", "lint")
            assert ended.code in ((0, 7) if judges else (0,)), (line, ended.err)


LOADER = "libtorch_cpu.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    ("error", "code"),
    [(MemoryError(), 6), (OSError(errno.ENOMEM, "Cannot allocate memory"), 6), (ImportError(LOADER), 6),
     (ImportError("libgomp.so.1: cannot allocate memory in static TLS block"), 6),
     (ImportError("cannot import name 'made_up'"), 1)],
)  # fmt: skip
def test_too_little_memory_is_not_a_bug(error: BaseException, code: int) -> None:
    assert cli.exit_code(error) == code


@pytest.mark.parametrize(
    "error", [MemoryError("Cannot allocate memory (os error 12)"), OSError("Cannot allocate memory")]
)
def test_a_model_that_does_not_fit_into_memory_says_what_its_weights_need(
    tmp_path: Path, error: BaseException
) -> None:
    local = pytest.importorskip("robustify.models.engines.local.loading")
    (tmp_path / "model.safetensors").write_bytes(b"0" * (3 << 20))
    with pytest.raises(ResourceError, match="3 MiB"), local.loading(tmp_path):
        raise error


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_variable_of_earlier_versions_refuses_restricted_sets(
    robustify, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SAFE_DEMO", value)
    ended = robustify("wmdp_bio.yaml", "--dry-run")
    assert (ended.code, "[no-safe-demo]" in ended.err) == (4, True)
    monkeypatch.setenv("SAFE_DEMO", "0")
    assert "[no-safe-demo]" not in robustify("wmdp_bio.yaml", "--dry-run").err
