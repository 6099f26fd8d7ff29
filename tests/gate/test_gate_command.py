"""The gate's face: what it prints, how it ends, what it never says, how fast it starts; its hooks."""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from robustify.base.key_file import FILE_VARIABLE, VARIABLE
from robustify.cli.restricted import gate
from robustify.gate.check import BY_ID
from robustify.gate.command import HOOKS, INDEX_VARIABLE, scanner
from robustify.gate.command import run_gate as main
from tests.gate.corpus import whole
from tests.gate.layouts import LAYOUTS
from tests.gate.repo import BASE, ROOT, codes_in, mock_items, registered
from tests.support.cost import costs_at_most

pytestmark = pytest.mark.usefixtures("alone")
GATE = ROOT / "robustify" / "gate"
ITEMS = LAYOUTS["jsonl"](mock_items()[:5], "letter")
LINE = re.compile(r"^\S.*:\d+: RBG\d{3} [a-z-]+( \(.*\))?$")


# What is printed.


def test_a_finding_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.jsonl").write_text(ITEMS)
    Path("b.md").write_text("harmless")
    assert main(["a.jsonl", "b.md"]) == 4
    out, err = capsys.readouterr()
    assert out == "a.jsonl:1: RBG101 item-shape (5 shaped like an item, 5 with a key, to line 5)\n"
    assert "REFUSED: 1 finding in 1 of 2" in err
    assert codes_in(err) == ["no-fingerprints"]
    assert f"RBG101: {BY_ID['RBG101'].says}. {BY_ID['RBG101'].remedy}" in err


def test_no_output_holds_a_word_of_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registered(tmp_path, monkeypatch)
    capsys.readouterr()
    words = {
        word.lower().strip("?") for item in mock_items()[:5] for word in whole(item).split() if len(word) > 5
    }
    for name, layout in LAYOUTS.items():
        Path(f"{name}.txt").write_text(layout(mock_items()[:5], "text"))
    assert main([f"{name}.txt" for name in LAYOUTS]) == 4
    out, err = capsys.readouterr()
    said = set(re.findall(r"[a-z]+", (out + err).lower()))
    assert not said & (words - set(re.findall(r"[a-z]+", " ".join(LAYOUTS))))
    assert all(LINE.match(line) for line in out.splitlines())


WRONG = ("", "--staged a.md", "--all --pushed", "--no-such-option", "--range", "--policy-from x --all", "index", "index x",
         "allow", "doctor x")  # fmt: skip


@pytest.mark.parametrize("args", WRONG)
def test_a_wrong_command_line_ends_with_2_in_one_line(args: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args.split()) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines()), codes_in(err)) == ("", 1, ["invalid-arguments"])
    assert err.startswith("robustify gate: ")


def test_an_argument_that_is_text_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    text = whole(mock_items()[0])
    options = ("--range", "--key")
    for args in (
        *([option, text] for option in options), *([option, text, "--all"] for option in ("--index", "--policy-from")),
        [text], ["--nothing=" + text], ["allow", text, "--reason", "x", "--by", "y"],
    ):  # fmt: skip
        assert main(args) != 0
        told = "".join(capsys.readouterr())
        assert not any(word in told for word in text.split() if len(word) > 6)


@pytest.mark.parametrize("error", [ValueError(ITEMS), KeyboardInterrupt()], ids=["a bug", "interrupted"])
def test_a_scan_that_breaks_off_is_no_pass_and_tells_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    def broken(*_: object) -> None:
        raise error

    Path("a.md").write_text("harmless")
    monkeypatch.setattr("robustify.gate.check.examine", broken)
    code = main(["a.md"])
    out, err = capsys.readouterr()
    says = r"\w+ in test_gate_command\.py:\d+: ValueError \(.*\)" if code == 1 else "interrupted"
    assert (code, out) == (1 if isinstance(error, ValueError) else 130, "")
    assert re.fullmatch(f"robustify gate: {says}\n", err)


def test_a_reader_that_goes_away_does_not_turn_a_refusal_into_a_pass() -> None:
    for i in range(50):
        Path(f"{i}.jsonl").write_text(ITEMS)
    names = " ".join(f"{i}.jsonl" for i in range(50))
    script = f"{sys.executable} {GATE}/hook.py {names} | true; exit ${{PIPESTATUS[0]}}"
    line = ["bash", "-c", script]
    assert (
        subprocess.run(line, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False).returncode == 4
    )


def test_no_module_of_the_scanned_repository_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "pathlib", "re", "robustify", "sitecustomize"):
        Path(f"{name}.py").write_text("open('ran', 'w')")
    Path("a.jsonl").write_text(ITEMS)
    monkeypatch.setenv("PYTHONPATH", ":")  # an empty entry is the current folder
    assert subprocess.run([GATE / "hook.py", "a.jsonl"], capture_output=True, check=False).returncode == 4
    assert not Path("ran").exists()


# The Click face.


def test_the_click_command_hands_every_argument_on() -> None:
    Path("-odd.jsonl").write_text(ITEMS)
    result = CliRunner().invoke(gate, ["--", "-odd.jsonl"], standalone_mode=False)
    assert result.return_value == 4
    assert result.stdout.startswith("-odd.jsonl:1: RBG101")
    shown = CliRunner().invoke(gate, ["--help"])
    assert shown.exit_code == 0
    assert "--commit-msg [FILE]" in shown.output
    assert "exit codes: 0 clean" in gate.get_help(click.Context(gate, info_name="robustify gate"))


# Alone and quick.


def imported(tree: ast.AST) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_gate_imports_the_standard_library_and_its_modules_of_the_base_only() -> None:
    """But for a lock in `files` that the gate never takes."""
    modules = [*GATE.rglob("*.py"), *(GATE.parent / "base" / f"{name}.py" for name in BASE)]
    ours = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules}
    for path in modules:
        names = imported(ast.parse(path.read_text(encoding="utf-8"))) - ours
        others = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
        assert others == ({"filelock"} if path.name == "files.py" else set()), path.name


def test_no_module_of_the_gate_has_the_name_of_one_of_the_standard_library() -> None:
    assert {path.stem for path in GATE.rglob("*.py")} & sys.stdlib_module_names == set()


def test_two_megabytes_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(tmp_path, monkeypatch)
    source = Path(ast.__file__).read_text(encoding="utf-8")
    names = []
    for i in range(20):
        names.append(f"{i}.py")
        Path(names[-1]).write_text((f"# part {i}\n" + source * 2)[:100_000])
    assert costs_at_most(200, lambda: main(names)) == 0  # the measured figure is in results/bench/gate.json


# The hooks and this repository.


def test_the_hooks_for_other_repositories_name_what_is_there() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    *gates, lint = [hook["id"] for hook in hooks]
    assert [*gates, lint] == ["robustify-gate", "robustify-gate-msg", "robustify-gate-push", "robustify-lint"]
    for hook in hooks[:-1]:
        script, *args = hook["entry"].split()
        place = ROOT / script
        assert place.is_file()
        assert place.stat().st_mode & 0o111
        assert hook["require_serial"] is True
        assert scanner().parse_args([*args, *(["x"] if hook["id"].endswith("msg") else [])])


def stages(hooks: list[dict[str, Any]]) -> set[str]:
    return {stage for hook in hooks for stage in hook["stages"]} - {"manual"}


def test_the_hooks_as_documented_run_at_every_stage_and_say_what_did_not_run() -> None:
    """pre-commit installs the hook types that the configuration names, and prints a passing hook only if verbose."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    ours = [hook for hook in hooks if hook["id"].startswith("robustify-gate")]
    here = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n( *default_install_hook_types.*?)```", text, re.DOTALL)
    told = yaml.safe_load(textwrap.dedent(block[1]))
    assert {hook["id"] for repo in told["repos"] for hook in repo["hooks"]} == {hook["id"] for hook in ours}
    assert all(hook["args"] == ["--require-fingerprints"] for repo in told["repos"] for hook in repo["hooks"])
    gates = [hook for repo in here["repos"] for hook in repo["hooks"] if hook["id"].startswith("gate")]
    for config, hooks in ((told, ours), (here, gates)):
        assert set(config["default_install_hook_types"]) == stages(hooks) == set(HOOKS)
        assert all(hook["verbose"] is True for hook in hooks)
    modes = {hook["entry"].partition("robustify/gate/hook.py ")[2] for hook in gates}
    assert modes == {"--staged", "--commit-msg", "--pushed"}
    assert here["default_stages"] == ["pre-commit"]  # the other hooks stay where they were
    assert all(name in text for name in (INDEX_VARIABLE, FILE_VARIABLE, VARIABLE))
