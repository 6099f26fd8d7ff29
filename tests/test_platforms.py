"""Other systems, as far as Linux can imitate them: a Python without what Windows lacks, code pages, and line ends."""

import io
import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import yaml

from robustify.base.errors import DISTRIBUTION, AuthorisationError, ResourceError, installing
from robustify.base.files import open_descriptor, writable
from robustify.base.key_file import read_private
from robustify.reading.logs import parse_log_path
from robustify.restricted.confinement import require_private
from robustify.runs.run import write_items
from tests.support.cases import contents
from tests.support.exported_run import made_run, made_up

WITHOUT = """
import ctypes, json, os, signal, sys
# What other packages need here is imported first: on Windows, they use other names.
import multiprocessing, numpy, pandas, pyarrow.compute, pyarrow.parquet, pydantic, scipy.optimize, scipy.stats
import shutil, sqlite3, subprocess, tempfile, threadpoolctl, tqdm
shutil._use_fd_functions = False
for name in (
    "O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_DIRECTORY getuid geteuid getgid getegid fchmod fchown chown fork uname "
    "sched_getaffinity getpgid killpg setsid getloadavg mkfifo openpty"
).split():
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGALRM"):
    delattr(signal, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
load = ctypes.CDLL.__init__
def named(self, name, *more, **others):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    load(self, name, *more, **others)
ctypes.CDLL.__init__ = named
from robustify import cli
codes = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["robustify", *line]
    try:
        cli.main()
    except SystemExit as end:
        codes.append(end.code)
print("codes", json.dumps(codes))
"""
COMMANDS = contents("cli")["portable"]


def test_commands_run_without_what_windows_lacks_on_a_console_of_cp1252(tmp_path: Path) -> None:
    run = made_run(tmp_path / "made")
    run.folder.rename(tmp_path / "run")
    four = [item for item in made_up() if item.k == 4]
    lines = [f"{i.stem.split(',')[0]},{','.join(i.choices)},{'ABCD'[i.key]}" for i in four]
    (tmp_path / "items.csv").write_bytes("\r\n".join(["question,A,B,C,D,answer", *lines]).encode())
    (tmp_path / "blank.csv").write_text('""')
    (tmp_path / "notes.md").write_text("# Notes\n")
    write_items(tmp_path / "箱.jsonl", four)
    environment = {
        **os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C.UTF-8",
        "ROBUSTIFY_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps([words.split() for _, words in COMMANDS])],
        cwd=tmp_path, env=environment, capture_output=True, check=False,
    )  # fmt: skip
    out, err = said.stdout.decode("cp1252"), said.stderr.decode("cp1252")
    assert "a bug in robustify" not in err
    assert json.loads(out.rpartition("codes ")[2]) == [code for code, _ in COMMANDS], err
    assert "\\u7bb1.jsonl" in out


def test_a_link_and_a_private_file_are_refused_without_the_names_of_posix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"a\r\n\x1a")
    (tmp_path / "link").symlink_to("file")
    monkeypatch.delattr(os, "O_NOFOLLOW")
    with pytest.raises(OSError, match="symbolic links"):
        open_descriptor(tmp_path / "link", os.O_RDONLY)
    os.close(open_descriptor(tmp_path / "link", os.O_RDONLY, follow=True))
    monkeypatch.setattr("robustify.base.key_file.OWNED", False)
    monkeypatch.setattr("robustify.restricted.confinement.OWNED", False)
    for read in (lambda: read_private(str(tmp_path / "file"), "key", 9), lambda: require_private(tmp_path)):
        with pytest.raises(AuthorisationError, match="no file modes"):
            read()


@pytest.mark.parametrize("name", ["items.csv", "items.jsonl", "items.tsv"])
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_line_ends_change_no_item(robustify, tmp_path: Path, name: str, end: str) -> None:
    mark = "\t" if name.endswith("tsv") else ","
    cells = [["question", "A", "B", "answer"], *([f"Which {n}?", f"a{n}", f"b{n}", "B"] for n in range(9))]
    lines = [mark.join(row) for row in cells]
    if name.endswith("jsonl"):
        lines = [json.dumps({"question": q, "choices": [*of], "answer": "B"}) for q, *of, _ in cells[1:]]
    (tmp_path / name).write_bytes((end.join(lines) + end).encode())
    tree = json.loads(robustify("validate", name, "--json").out)
    assert (tree["n_items"], tree["n_quarantined"], tree["defects"]) == (9, 0, {})


def test_a_drive_is_not_a_view_and_an_error_without_a_number_has_words() -> None:
    log = parse_log_path(r"m=full:C:\logs\x.jsonl")
    assert (str(log.path), log.model, log.view) == (r"C:\logs\x.jsonl", "m", "full")
    assert str(parse_log_path(r"D:\x.jsonl").path) == r"D:\x.jsonl"
    with pytest.raises(ResourceError, match="UnsupportedOperation") as error, writable("out"):
        io.StringIO().fileno()
    assert error.value.code == "file-not-writable"


ROOT = Path(__file__).parents[1]


def test_the_workflow_runs_both_commands_on_every_system_and_python() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))["jobs"]["tests"]
    matrix, steps = job["strategy"]["matrix"], {step.get("name"): step for step in job["steps"]}
    assert len(list(product(matrix["os"], matrix["python"]))) == 12
    assert "3.10" in (ROOT / "pyproject.toml").read_text("utf-8").partition("requires-python")[2][:20]
    for name in ("check", "test"):
        assert steps[f"make {name}"]["run"] == f"make {name}"
        recipe = (ROOT / "Makefile").read_text("utf-8").partition(f"\n{name}: ")[2].partition("\n\n")[0]
        commands = [
            line.strip().replace("$(BIN)/", "").removesuffix(" $(COV)") for line in recipe.split("\n")[1:]
        ]
        windows = steps[f"make {name}, without make"]["run"].rstrip("\n").split("\n")
        assert [line for line in windows if "pip install" not in line] == commands


def test_no_line_installs_the_package_of_somebody_else() -> None:
    assert f'name = "{DISTRIBUTION}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert installing("hf") == "`pip install 'robustcbrn-eval[hf]'`"
    told = [path for top in ("robustify", "docs", "configs") for path in (ROOT / top).rglob("*.*")]
    for path in (*told, ROOT / "README.md", ROOT / "action.yml"):
        if path.suffix in {".py", ".md", ".yaml", ".yml", ".j2"}:
            text = path.read_text("utf-8")
            assert not re.search(r"pip install [^\n`]*\brobustify\b(?!-)", text), path
            assert path.suffix != ".py" or path.name == "errors.py" or f"install '{DISTRIBUTION}" not in text
