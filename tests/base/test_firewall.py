"""Nothing that goes wrong prints the text of an item: not an exception, a warning, a log, a worker, a stray print."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from robustify.base import redaction
from robustify.cli import concealed
from tests.support.cases import cases, contents

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "robustify"
SECRET = "zanzibar platypus of the seventh lamp is turned by which merun?"
BUG = re.compile(r"robustify: a bug in robustify \(([\w ]+) at ([\w./<>]+):\d+; details omitted: .*\)")


def python(code: str, *args: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A process that fails in the way `code` says; `SECRET` is in its hands."""
    head = (
        f"import sys\nfrom robustify import cli\nfrom robustify.base import redaction\nSECRET = {SECRET!r}\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + code, *args],
        capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip


def clean(done: "subprocess.CompletedProcess[str]") -> str:
    """What it said on stderr, once no word of the secret is found in anything it said."""
    for word in ("zanzibar", "platypus", "merun"):
        assert word not in done.stdout + done.stderr, done.stderr
    assert "Traceback" not in done.stderr.replace("ROBUSTIFY_TRACEBACK", "")
    return done.stderr


IN_MAIN = "def fail(*a, **k):\n    {}\ncli.cli.main = fail\ncli.main()"


@pytest.mark.parametrize(("body", "kind"), cases("base", "unknown_errors"))
def test_an_unknown_error_is_one_line_of_kind_and_place(body: str, kind: str) -> None:
    done = python(IN_MAIN.format(body), PYTHONDEVMODE="1", PYTHONFAULTHANDLER="1")
    said = clean(done)
    assert done.returncode == 1
    found = re.match(BUG, said)
    assert found, said
    assert said.count("\n") == 1
    assert kind in ("", found[1])


def test_exits_with_a_message_and_signals_keep_their_code_and_places_are_told_on_demand() -> None:
    said = clean(python(IN_MAIN.format("int(SECRET)"), ROBUSTIFY_TRACEBACK="1"))
    assert "cli/__init__.py:" in said
    assert said.count("\n") > 2
    assert (done := python(IN_MAIN.format("sys.exit(SECRET)"))).returncode == 1
    assert re.match(r"robustify: a bug in robustify \(SystemExit", clean(done))
    assert python(IN_MAIN.format("sys.exit(3)")).returncode == 3
    assert python(IN_MAIN.format("raise KeyboardInterrupt(SECRET)")).returncode == 130
    assert python(IN_MAIN.format("raise MemoryError(SECRET)")).returncode == 6
    for number in ("ENOSPC", "EIO"):
        done = python(IN_MAIN.format(f"import errno; raise OSError(errno.{number}, 'x', SECRET)"))
        assert done.returncode == 6
        assert clean(done).count("\n") == 1


@pytest.mark.parametrize(
    ("script", "module"),
    [("__main__.py", "click"), ("__main__.py", "robustify.cli"), ("gate/hook.py", "robustify.gate.command")],
)
def test_an_interruption_while_modules_are_imported_shows_no_traceback(script: str, module: str) -> None:
    finder = f"def find_spec(self, name, *_):\n        if name == {module!r}: raise KeyboardInterrupt"
    code = (
        f"import runpy, sys\nclass Finder:\n    {finder}\nsys.meta_path.insert(0, Finder())\n"
        f"runpy.run_path({str(PACKAGE / script)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("said", contents("base")["what_others_say"])
def test_what_others_say_of_an_item_is_not_heard_while_they_are_muted(said: str) -> None:
    code = "".join(f"    {line}\n" for line in said.split("\n"))
    head = "from robustify.base.redaction import UNMUTED, muted\n"
    clean(
        done := python(f"{head}with muted():\n{code}    UNMUTED.write('heard\\n')", PYTHONWARNINGS="default")
    )
    assert (done.returncode, done.stderr) == (0, "heard\n")
    # The control: without silence each of these shows the text.
    assert SECRET in python(f"if True:\n{code}", PYTHONWARNINGS="default").stderr


def test_a_command_hears_our_own_log_lines_and_nobody_else_s() -> None:
    code = (
        "import logging, warnings\nlogging.getLogger('robustify.models.engines').warning('%s: slow', 'm')\n"
    )
    code += "logging.getLogger('other').error(SECRET); warnings.warn(SECRET)"
    done = python(f"redaction.quieten_others()\n{code}")
    assert clean(done) == "robustify: m: slow\n"


# ---- silence around engines ----


def test_what_an_engine_prints_is_not_heard_and_we_are() -> None:
    done = python(contents("base")["prints"])
    clean(done)
    assert (done.returncode, done.stdout, done.stderr) == (0, "before\nafter\n", "heard\nafterwards\n")


# ---- arguments ----


@pytest.mark.parametrize(("line", "arguments", "told"), cases("base", "long_arguments"))
def test_a_long_argument_is_shown_by_its_number(line: str, arguments: list[str], told: str) -> None:
    line, *arguments = (text.replace("$SECRET", SECRET) for text in (line, *arguments))
    shown = concealed(line, arguments)
    assert told in shown
    assert "zanzibar" not in shown.casefold()


def test_long_values_of_a_config_are_kept_out_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.base.redaction.LONG_VALUES", held := set())
    knot: list[object] = [{"data": [SECRET], f"{SECRET} too": 1, "name": "short"}]
    knot.append(knot)
    bomb: list[object] = [knot]
    for _ in range(60):
        bomb = [bomb, bomb]
    redaction.withhold(bomb)
    assert held == {SECRET, f"{SECRET} too"}
    assert concealed(f"c.yaml: {SECRET} too: unknown key", []) == "c.yaml: <value>: unknown key"
    assert concealed("c.yaml: name: short", []) == "c.yaml: name: short"


# ---- the source ----


@cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """Every call and every `raise` of the package's source, with the file in which it stands."""
    return tuple(
        (path.relative_to(PACKAGE).as_posix(), node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.Raise)
    )


def calls(*names: str) -> set[str]:
    """The modules that call a function or method of one of these names."""
    found = ((path, node.func) for path, node in nodes() if isinstance(node, ast.Call))
    return {path for path, f in found if getattr(f, "attr", getattr(f, "id", None)) in names}


def test_one_place_opens_the_text_of_an_item() -> None:
    assert calls("open_text") == {"items/item.py"}


def test_nobody_prints_a_traceback_or_unmutes_a_log() -> None:
    names = ("print_exc", "format_exc", "print_exception", "basicConfig", "captureWarnings", "breakpoint")
    assert calls(*names) == set()


def test_a_log_line_of_ours_is_a_fixed_text_with_values() -> None:
    found = []
    for path, node in nodes():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="_LOG")), args=[first, *_]):
                found.append((path, type(first)))
    assert {path for path, kind in found if kind is not ast.Constant} == set()
    assert found


def test_an_error_is_chained_to_another_only_where_no_item_is_near() -> None:
    """`raise ... from error` keeps the values of the other error alive; models and their files hold no items."""
    raised = ((path, node.cause) for path, node in nodes() if isinstance(node, ast.Raise))
    chained = {path for path, cause in raised if cause is not None and getattr(cause, "value", 0) is not None}
    assert not {path for path in chained if not path.startswith("models/")}
    assert chained
