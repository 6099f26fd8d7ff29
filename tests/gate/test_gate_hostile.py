"""What a hostile repository, file or name may try: run code, hide a leak, hang, fill memory, steer a terminal.

Every refusal is one line and an exit code, within a bound of time and memory.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from robustify.gate.command import INDEX_VARIABLE, main
from robustify.gate.git import environment
from tests.gate.repo import LEAK, ROOT, Scanned
from tests.gate.sets import key_file

MEMORY = 2 << 30
"""Bytes of address space that a scan of the largest file may take."""


# Settings that run a program or hide a commit.


def evil(folder: Path) -> tuple[Path, Path]:
    """A script, and the file that is there once it ran."""
    script, mark = folder / "evil.sh", folder / "ran"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    return script, mark


def test_no_setting_of_a_hostile_repository_runs_anything(repo: Scanned, tmp_path: Path) -> None:
    script, mark = evil(tmp_path)
    start = repo.git("rev-parse", "HEAD")
    repo.write(".gitattributes", "* diff=evil filter=evil merge=evil\n")
    repo.stage("notes.md", LEAK)
    repo.git("commit", "-q", "-m", "Change")
    repo.stage("more.md", LEAK)
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.askPass", "core.editor", "diff.external",
                 "gpg.program", "diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge",
                 "filter.evil.process", "core.alternateRefsCommand", "credential.helper",
                 "alias.diff-index", "alias.cat-file", "diff.orderFile"):  # fmt: skip
        repo.git("config", name, str(script))
    repo.git("config", "core.hooksPath", str(tmp_path))
    mark.unlink(missing_ok=True)
    assert repo.rules("--staged") == (4, {("more.md", "RBG301")})
    assert repo.rules("--all")[0] == 4
    assert repo.rules("--range", f"{start}..HEAD") == (4, {("notes.md", "RBG301")})
    assert not mark.exists()


def test_a_replaced_object_does_not_hide_a_leak(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.commit(notes=LEAK)
    bad = repo.git("rev-parse", "HEAD:notes")
    good = repo.git("hash-object", "-w", "--stdin", given="harmless")
    repo.git("replace", bad, good)
    repo.git("replace", "--graft", "HEAD")
    assert repo.rules("--range", f"{start}..HEAD") == (4, {("notes", "RBG301")})
    assert repo.rules("--all") == (4, {("notes", "RBG301")})


def test_git_gets_no_variable_that_names_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "EXTERNAL_DIFF", "CONFIG_PARAMETERS", "CONFIG_COUNT", "SSH_COMMAND", "PAGER", "EXEC_PATH", "TRACE",
    ):  # fmt: skip
        monkeypatch.setenv(f"GIT_{name}", "evil")
    monkeypatch.setenv("GIT_INDEX_FILE", "kept")
    kept = {name: value for name, value in environment().items() if name.startswith("GIT_")}
    assert "evil" not in kept.values()
    assert kept["GIT_INDEX_FILE"] == "kept"


def test_the_index_that_git_names_to_its_hook_is_the_one_scanned(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("notes.md", LEAK)
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.place / ".git" / "other"))
    subprocess.run(["git", "read-tree", "HEAD"], check=True)
    subprocess.run(["git", "add", "notes.md"], check=True)
    assert repo.rules("--staged") == (4, {("notes.md", "RBG301")})
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert repo.rules("--staged") == (0, set())


def test_modules_in_the_scanned_repository_are_not_imported(repo: Scanned) -> None:
    for name in ("json", "re", "robustify", "csv", "argparse", "pyarrow"):
        repo.write(f"{name}.py", "raise SystemExit(0)\n")
    repo.write("table.parquet", b"PAR1" + bytes(range(256)) + b"PAR1")
    repo.stage("notes.md", LEAK)
    hook = ROOT / "robustify" / "gate" / "hook.py"
    done = subprocess.run(
        [sys.executable, str(hook), "--staged"], cwd=repo.place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "notes.md:1: RBG301" in done.stdout


def test_a_missing_object_of_a_hostile_partial_clone_runs_no_transport(
    repo: Scanned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, mark = evil(tmp_path)
    start = repo.git("rev-parse", "HEAD")
    repo.commit(notes=LEAK)
    name = repo.git("rev-parse", "HEAD:notes")
    (repo.place / ".git" / "objects" / name[:2] / name[2:]).unlink()
    for setting, value in (
        ("core.repositoryformatversion", "1"), ("extensions.partialClone", "evil"),
        ("remote.evil.promisor", "true"), ("remote.evil.url", f"ext::{script}"),
        ("protocol.ext.allow", "always"), ("protocol.allow", "always"),
    ):  # fmt: skip
        repo.git("config", setting, value)
    assert main(["--range", f"{start}..HEAD"]) == 6
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert not mark.exists()


def test_a_graft_file_does_not_hide_a_commit(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.commit(notes=LEAK)
    repo.git("rm", "-q", "notes")
    last = repo.commit("Remove it")
    (repo.place / ".git" / "info" / "grafts").write_text(f"{last} {start}\n")
    assert repo.rules("--range", f"{start}..HEAD") == (4, {("notes", "RBG301")})


def test_a_damaged_repository_is_an_error_and_no_pass(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.commit(notes=LEAK)
    name = repo.git("rev-parse", "HEAD:notes")
    place = repo.place / ".git" / "objects" / name[:2] / name[2:]
    place.chmod(0o644)
    place.write_bytes(b"no object")
    assert main(["--all"]) == 6
    assert len(capsys.readouterr().err.splitlines()) == 1
    (repo.place / ".git" / "HEAD").write_text("no ref")
    assert main(["--staged"]) == 2


# Things that never end, and things that are too large.


@pytest.mark.parametrize("thing", ["pipe", "/dev/zero", "folder"])
@pytest.mark.parametrize(
    ("args", "code"),
    [(["THING"], 2), (["--commit-msg", "THING"], 2), (["--index", "THING", "README"], 3),
     (["--key", "THING", "README"], 4), (["index", "THING", "-o", "out"], 3)],
    ids=["file", "message", "index", "key", "items"],
)  # fmt: skip
def test_what_has_no_end_is_refused_wherever_a_file_is_expected(
    repo: Scanned, thing: str, args: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if thing == "pipe":
        os.mkfifo("pipe", 0o600)
    elif thing == "folder":
        Path("folder").mkdir()
    assert main([thing if arg == "THING" else arg for arg in args]) == code
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert not Path("out").exists()


def test_a_policy_that_is_a_pipe_lifts_nothing(repo: Scanned) -> None:
    os.mkfifo(".robustify-gate.json")
    repo.write("notes.md", LEAK)
    assert repo.rules("notes.md") == (4, {("notes.md", "RBG301")})


def test_standard_input_without_end_is_refused(repo: Scanned) -> None:
    with open("/dev/zero", "rb") as zeros:
        done = _limited(["--stdin"], stdin=zeros.fileno())
    assert (done.returncode, len(done.stdout.splitlines())) == (4, 1)
    assert done.stdout.startswith("<stdin>:1: RBG503")


HUGE: dict[str, Callable[[], bytes]] = {
    "one_line": lambda: b"a word of the pond " * 850_000,
    "one_word": lambda: b"a" * (16 << 20),
    "escapes": lambda: b"\\u0041" * 2_700_000,
    "nested": lambda: b"[" * (16 << 20),
    "numbers": lambda: b"12, " * 4_000_000,
    "blanks": lambda: b" " * (16 << 20),
}


@pytest.mark.proof
@pytest.mark.parametrize("kind", HUGE)
def test_the_largest_file_is_scanned_within_bounds_of_time_and_memory(repo: Scanned, kind: str) -> None:
    repo.write("huge", HUGE[kind]())
    done = _limited(["huge"])
    assert done.returncode in (0, 4), done.stderr
    assert "error in" not in done.stderr


def _limited(args: list[str], stdin: int | None = None) -> "subprocess.CompletedProcess[str]":
    """A run of the gate that may take 2 GiB and a minute of the processor."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    return subprocess.run(
        [sys.executable, str(ROOT / "robustify" / "gate" / "hook.py"), *args],
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limits,
    )


# Names.


def test_no_message_can_steer_a_terminal_whatever_holds_the_name(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jx\u202e\r\n"
    repo.stage(f"{evil}.md", LEAK)
    key = key_file(tmp_path)
    monkeypatch.setenv(INDEX_VARIABLE, str(tmp_path / f"{evil}index"))
    for args in (
        [f"{evil}.md"],
        ["--index", f"{evil}gone", "README"],
        ["--key", f"{evil}gone", "README"],
        ["--range", f"{evil}..HEAD"],
        [f"{evil}gone"],
        ["--explain", evil],
        ["index", f"{evil}gone.jsonl", "--key", str(key), "-o", "out"],
        ["allow", f"{evil}gone", "--reason", "x", "--by", "y"],
        ["--policy-from", evil, "--all"],
    ):
        assert main(args) != 0
        told = "".join(capsys.readouterr())
        assert all(c.isprintable() for line in told.splitlines() for c in line), args
        assert "\x1b" not in told
