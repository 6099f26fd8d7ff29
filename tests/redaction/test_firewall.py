"""Nothing that goes wrong prints the text of an item: not an exception, a warning, a log, a worker, a stray print."""

import ast
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from robustify.cli import concealed
from robustify.redaction import firewall

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "robustify"
SECRET = "zanzibar platypus of the seventh lamp is turned by which merun?"
BUG = re.compile(
    r"robustify: a bug in robustify \((\w+) at ([\w./<>]+):\d+, incident [0-9a-f]{6}; no details: .*\)"
)


def python(code: str, *args: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A process that fails in the way `code` says; `SECRET` is in its hands."""
    head = f"import sys\nfrom robustify import cli\nfrom robustify.redaction import firewall\nSECRET = {SECRET!r}\n"
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


RAISED = {
    "a plain error": ("raise ValueError(SECRET)", "ValueError"),
    "a key": ("{}[SECRET]", "KeyError"),
    "one from another": (
        "try:\n        int(SECRET)\n    except ValueError as e:\n        raise KeyError(SECRET) from e",
        "KeyError",
    ),
    "JSON, which keeps the document": ("import json; json.loads(SECRET)", "JSONDecodeError"),
    "a codec, which keeps the bytes": ("(SECRET + chr(255)).encode('ascii')", "UnicodeEncodeError"),
    "a failed assertion": ("assert not SECRET, SECRET", "AssertionError"),
    "a file named so": ("open(SECRET)", "FileNotFoundError"),
    "a kind made at run time": ("raise type(SECRET, (Exception,), {})()", "an error"),
    "a call deep down": ("f = lambda n: f(n + SECRET)\n    f(SECRET)", ""),
}
IN_MAIN = "def fail(*a, **k):\n    {}\ncli.cli.main = fail\ncli.main()"


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("debug", [{}, {"PYTHONDEVMODE": "1", "PYTHONFAULTHANDLER": "1"}], ids=["", "dev"])
def test_an_unknown_error_is_one_line_of_kind_and_place(name: str, debug: dict[str, str]) -> None:
    body, kind = RAISED[name]
    done = python(IN_MAIN.format(body), **debug)
    said = clean(done)
    assert done.returncode == 1
    found = (
        re.match(BUG, said)
        if kind != "an error"
        else re.match(r"robustify: a bug in robustify \(an error", said)
    )
    assert found, said
    assert said.count("\n") == 1
    if kind and kind != "an error":
        assert found[1] == kind


def test_the_same_bug_has_the_same_number_and_another_has_another() -> None:
    def number(body: str) -> str:
        return re.findall(r"incident (\w+)", python(IN_MAIN.format(body)).stderr)[0]

    assert number("raise ValueError(SECRET)") == number("raise ValueError(SECRET + '2')")
    assert number("raise ValueError(SECRET)") != number("raise TypeError(SECRET)")


def test_places_are_told_on_demand_and_messages_never() -> None:
    done = python(IN_MAIN.format("int(SECRET)"), ROBUSTIFY_TRACEBACK="1")
    said = clean(done)
    assert "cli/__init__.py:" in said
    assert " in main" in said
    assert "ValueError" in said


def test_exits_with_a_message_and_signals_keep_their_code() -> None:
    assert (done := python(IN_MAIN.format("sys.exit(SECRET)"))).returncode == 1
    assert re.match(r"robustify: a bug in robustify \(SystemExit", clean(done))
    assert python(IN_MAIN.format("sys.exit(3)")).returncode == 3
    assert python(IN_MAIN.format("raise KeyboardInterrupt(SECRET)")).returncode == 130
    assert python(IN_MAIN.format("raise MemoryError(SECRET)")).returncode == 6
    for number in ("ENOSPC", "EIO"):
        done = python(IN_MAIN.format(f"import errno; raise OSError(errno.{number}, 'x', SECRET)"))
        assert done.returncode == 6
        assert clean(done).count("\n") == 1


OUTSIDE = {
    "after main": ("raise ValueError(SECRET)", "a bug in robustify (ValueError"),
    "in a thread": (
        "import threading\ndef f(): raise ValueError(SECRET)\n"
        "t = threading.Thread(target=f, name=SECRET); t.start(); t.join()",
        "a bug in a thread (ValueError",
    ),
    "in a finaliser": (
        "class A:\n    def __del__(self): raise ValueError(SECRET)\nA()",
        "an error while something was cleared away (ValueError",
    ),
    "in a task nobody awaits": (
        "import asyncio\nasync def f(): raise ValueError(SECRET)\n"
        "async def g():\n    asyncio.ensure_future(f()); await asyncio.sleep(0)\nasyncio.run(g())",
        "ERROR of asyncio at",
    ),
    "in a forked worker": (
        "import multiprocessing as m\ndef f(s): raise ValueError(s)\n"
        "p = m.get_context('fork').Process(target=f, args=(SECRET,)); p.start(); p.join()",
        "ValueError (message withheld",
    ),
    "in a pool": (
        "import concurrent.futures as c, multiprocessing as m\ndef f(s): raise ValueError(s)\n"
        "with c.ProcessPoolExecutor(1, mp_context=m.get_context('fork')) as p: p.submit(f, SECRET).result()",
        "a bug in robustify (ValueError",
    ),
    "a warning": ("import warnings; warnings.warn(SECRET)", "UserWarning at"),
    "a log of another library": (
        "import logging; logging.getLogger('other').error('%s', SECRET)", "ERROR of other at",
    ),
    "a log with a handler of its own": (
        "import logging; log = logging.getLogger('other'); log.addHandler(logging.StreamHandler())\n"
        "try: int(SECRET)\nexcept ValueError: log.exception(SECRET)",
        "ERROR of other at",
    ),
    "a log that does not fit its format": (
        "import logging; logging.getLogger('other').warning('%d %d', SECRET)", "WARNING of other at",
    ),
    "our own log with a long value": (
        "import logging; logging.getLogger('robustify.engines').warning('%s: slow', SECRET)",
        "robustify: <long value>: slow",
    ),
    "a printed traceback": (
        "import traceback\ntry: int(SECRET)\nexcept ValueError: traceback.print_exc()",
        "ValueError (message withheld",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_fails_outside_of_a_command_is_withheld_too(name: str) -> None:
    code, told = OUTSIDE[name]
    done = python(f"firewall.install()\n{code}", PYTHONWARNINGS="default")
    said = done.stderr
    for word in ("zanzibar", "platypus", "merun"):
        assert word not in done.stdout + said, said
    assert told in said


@pytest.mark.slow
def test_without_the_firewall_each_of_these_would_show_the_text() -> None:
    shown = {
        name: SECRET in python(code, PYTHONWARNINGS="default").stderr for name, (code, _) in OUTSIDE.items()
    }
    assert all(shown.values()), [name for name, there in shown.items() if not there]


def test_no_core_is_dumped() -> None:
    done = python("firewall.install(); import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])")
    assert done.stdout == "0\n"


def test_what_is_put_up_is_taken_down_whole() -> None:
    import logging
    import threading
    import traceback

    def hooks() -> tuple[object, ...]:
        return (
            sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.formatwarning,
            logging.raiseExceptions, logging.lastResort, logging.getLogRecordFactory(),
            traceback.TracebackException.format_exception_only,
        )  # fmt: skip

    before = hooks()
    firewall.install()
    firewall.install()
    assert not any(a is b for a, b in zip(before, hooks(), strict=True))
    firewall.remove()
    assert all(a is b for a, b in zip(before, hooks(), strict=True))


# ---- silence around engines ----

PRINTS = """
import ctypes, os, subprocess
from robustify.redaction import UNMUTED, muted
print('before', flush=True)
with muted():
    print(SECRET); print(SECRET, file=sys.stderr); print(SECRET, file=sys.__stdout__)
    os.write(1, SECRET.encode()); os.write(2, SECRET.encode())
    ctypes.CDLL(None).printf(SECRET.encode())
    subprocess.run(['/bin/sh', '-c', 'echo "$S"; echo "$S" >&2'], env={'S': SECRET})
    with muted():
        print(SECRET)
    UNMUTED.write('heard\\n')
    {last}
print('after'); print('afterwards', file=sys.stderr)
"""


def test_what_an_engine_prints_is_not_heard_and_we_are() -> None:
    done = python(PRINTS.replace("{last}", "pass"))
    clean(done)
    assert (done.returncode, done.stdout, done.stderr) == (0, "before\nafter\n", "heard\nafterwards\n")


def test_an_error_inside_opens_the_way_out_again() -> None:
    done = python("firewall.install()" + PRINTS.replace("{last}", "raise ValueError(SECRET)"))
    assert "heard" in clean(done)
    assert "a bug in robustify (ValueError" in done.stderr


# ---- arguments ----


@pytest.mark.parametrize(
    ("line", "arguments", "told"),
    [
        (f"{SECRET}: no such file", [SECRET], "<argument 1>: no such file"),
        (f"'{SECRET}': no such file", ["check", f"--out={SECRET}"], "'<argument 2>': no such file"),
        ("x" * 121 + " is odd", ["x" * 121], "<argument 1> is odd"),
        ("a b c d e f: no such file", ["a b c d e f"], "a b c d e f: no such file"),
        ("runs/one: no such folder", ["runs/one", SECRET], "runs/one: no such folder"),
        (
            "the one file of seven words here.csv:3: key 4",
            ["in/the one file of seven words here.csv"],
            "<argument 1>:3: key 4",
        ),
        (f"no such thing as {SECRET.upper()[:40]}", [SECRET], "argument 1 was refused"),
        (f"{ROOT}/{SECRET}: no such", [SECRET], "no such"),
        (f"...{('y' * 60 + 'z' * 70)[30:90]}...", ["y" * 60 + "z" * 70], "argument 1 was refused"),
    ],
)
def test_a_long_argument_is_shown_by_its_number(line: str, arguments: list[str], told: str) -> None:
    shown = concealed(line, arguments)
    assert told in shown
    assert "zanzibar" not in shown.casefold()


def test_long_values_of_a_config_are_kept_out_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.redaction.firewall.LONG_VALUES", held := set())
    knot: list[object] = [{"data": [SECRET], f"{SECRET} too": 1, "name": "short"}]
    knot.append(knot)
    bomb: list[object] = [knot]
    for _ in range(60):
        bomb = [bomb, bomb]
    firewall.withhold(bomb)
    assert held == {SECRET, f"{SECRET} too"}
    assert concealed(f"c.yaml: {SECRET} too: unknown key", []) == "c.yaml: <value>: unknown key"
    assert concealed("c.yaml: name: short", []) == "c.yaml: name: short"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        [SECRET], ["validate", SECRET], ["run", SECRET + ".yaml"], ["check", SECRET], ["--nope", SECRET],
        ["run", "x.yaml", "--limit", SECRET], ["run", "x.yaml", f"--limit={SECRET}"],
        ["run", "x.yaml", "--mode", SECRET], ["run", "x.yaml", f"--{SECRET}"], ["models", "pull", SECRET],
        ["models", SECRET], ["validate", "x" * 5000], ["validate", "\x1b[31m" + SECRET],
    ],
)  # fmt: skip
def test_item_text_in_an_argument_is_refused_without_an_echo(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "robustify", *arguments],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    said = clean(done)
    assert done.returncode in (2, 3)
    assert "x" * 200 not in said
    assert "\x1b" not in said
    assert len(said.strip().split("\n")) == 1, said
    assert said.startswith("robustify: ")


# ---- the source ----


def calls(name: str) -> set[str]:
    """The modules that call a function or method of this name."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "attr", None) == name or getattr(node.func, "id", None) == name)
    }


def test_one_place_opens_the_text_of_an_item() -> None:
    assert calls("open_text") == {"item.py"}


@pytest.mark.slow
def test_nobody_prints_a_traceback_or_unmutes_a_log() -> None:
    for name in (
        "print_exc", "format_exc", "print_exception", "basicConfig", "captureWarnings", "breakpoint",
    ):  # fmt: skip
        assert calls(name) == set(), name


def test_a_log_line_of_ours_is_a_fixed_text_with_values() -> None:
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="_LOG")), args=[first, *_]):
                    found += 1
                    assert isinstance(first, ast.Constant), f"{path.name}:{node.lineno}"
    assert found


def test_an_error_is_chained_to_another_only_where_no_item_is_near() -> None:
    """`raise ... from error` keeps the values of the other error alive; models and their files hold no items."""
    chained = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and node.cause is not None
        and not (isinstance(node.cause, ast.Constant) and node.cause.value is None)
    }  # fmt: skip
    near = {name for name in chained if not name.startswith(("models/", "engines/local/", "engines/vllm"))}
    assert near <= {"engines/spelling.py", "engines/tokens.py", "loaders/hub.py"}
