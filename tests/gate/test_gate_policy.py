"""The policy file: what an entry lifts and what nothing lifts, SAFE_DEMO, and the gate outside a repository."""

import hashlib
import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from robustify.gate.command import main
from robustify.gate.key_file import FILE_VARIABLE, VARIABLE
from robustify.gate.policy import FORMAT, NAME, digests_of
from tests.gate.layouts import LAYOUTS
from tests.gate.repo import HARMLESS, LEAK, Repo, Scanned, entry, policy
from tests.gate.sets import KEY, mock_items

ITEMS = LAYOUTS["jsonl"](mock_items()[:5], "letter")
DEMO = [{"path": "demo", "licence": "CC0-1.0", "reason": "made up"}]


def test_an_entry_lifts_its_rule_at_its_path_for_its_content_until_its_day(repo: Scanned) -> None:
    yesterday = (date.today() - timedelta(days=1)).isoformat()
    fits = entry("a.jsonl", HARMLESS)
    for allow, code in (
        ([fits], 0),
        ([entry("b.jsonl", HARMLESS)], 4),
        ([entry("a.jsonl", HARMLESS + "\n")], 4),
        ([entry("a.jsonl", HARMLESS, "RBG102")], 4),
        ([entry("a.jsonl", HARMLESS, expires=yesterday)], 4),
    ):
        repo.write("a.jsonl", HARMLESS)
        repo.stage(NAME, policy(allow=allow))
        assert main(["--staged"]) == code
        assert main(["a.jsonl"]) == code
    repo.write(NAME, policy(allow=[fits]))
    repo.stage("a.jsonl", HARMLESS + "\n")
    assert main(["--staged"]) == 4


def test_an_entry_that_is_not_staged_does_not_count(repo: Scanned) -> None:
    repo.stage("a.jsonl", HARMLESS)
    repo.write(NAME, policy(allow=[entry("a.jsonl", HARMLESS)]))
    assert main(["--staged"]) == 4


def test_a_range_is_judged_by_the_policy_it_began_with(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.commit(**{"a.jsonl": HARMLESS, NAME: policy(allow=[entry("a.jsonl", HARMLESS)])})
    assert main(["--range", f"{start}..HEAD"]) == 4
    assert main(["--range", f"{start}..HEAD", "--policy-from", "head"]) == 0


def test_no_entry_lifts_a_fingerprint(repo: Scanned, capsys: pytest.CaptureFixture[str]) -> None:
    repo.write("a.md", LEAK)
    repo.stage(NAME, policy(allow=[entry("a.md", LEAK, "RBG301")]))
    assert main(["--staged"]) == 3
    assert "cannot lift" not in capsys.readouterr().out
    assert main(["allow", "a.md", "--reason", "why", "--by", "me"]) == 3
    repo.git("rm", "-q", "--cached", NAME)
    (repo.place / NAME).unlink()
    assert main(["allow", "a.md", "--reason", "why", "--by", "me"]) == 4
    assert not (repo.place / NAME).exists()


def test_there_is_no_pragma_that_lifts_a_finding(repo: Scanned) -> None:
    for pragma in (
        "pragma: allowlist secret", "gitleaks:allow", "robustify: allow", "noqa", "robustify-gate: off",
    ):  # fmt: skip
        repo.write("a.md", f"# {pragma}\n{LEAK}  # {pragma}\n")
        assert main(["a.md"]) == 4


def test_allow_binds_entries_that_then_hold_and_an_edit_opens_them_again(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("demo/a.jsonl", HARMLESS)
    repo.write("b.md", "harmless")
    assert main(["allow", "demo/a.jsonl", "b.md", "--reason", "made up", "--by", "a test"]) == 0
    assert "b.md: nothing to allow" in capsys.readouterr().out
    held = json.loads((repo.place / NAME).read_text())
    assert [(row["path"], row["rule"]) for row in held["allow"]] == [("demo/a.jsonl", "RBG101")]
    assert main(["demo/a.jsonl"]) == 0
    repo.write("demo/a.jsonl", HARMLESS + HARMLESS)
    assert main(["demo/a.jsonl"]) == 4
    assert main(["allow", "demo/a.jsonl", "--reason", "more", "--by", "a test", "--days", "1"]) == 0
    assert main(["allow", "demo/a.jsonl", "--reason", "more", "--by", "a test"]) == 0
    rows = json.loads((repo.place / NAME).read_text())["allow"]
    assert [row["reason"] for row in rows] in (["made up", "more"], ["more", "made up"])
    assert main(["allow", "demo/a.jsonl", "--reason", "more", "--by", "a test", "--days", "181"]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"format": "other"}', json.dumps({"format": FORMAT, "extra": 1}),
        policy(allow=[{"path": "a"}]), policy(allow=[entry("a", "b", "RBG999")]), policy(allow=[entry("a", "b", "RBG402")]),
        policy(allow=[entry("a", "b", sha256="zz")]), policy(allow=[entry("a", "b", reason=" ")]),
        policy(allow=[entry("a", "b", expires="tomorrow")]), policy(allow=[entry("a", "b", expires="2999-01-01")]),
        policy(demo=[{"path": "demo"}]), policy(demo=[{"path": ".", "licence": "CC0", "reason": "x"}]),
        policy(demo=[{"path": "../demo", "licence": "CC0", "reason": "x"}]),
        policy(demo=[{"path": "/demo", "licence": "CC0", "reason": "x"}]),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_trusted_stops_the_gate(
    repo: Scanned, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.stage(NAME, text)
    assert main(["--staged"]) == 3
    assert NAME in capsys.readouterr().err


def notebook(count: int | None, output: str, run: str = "2026-11-22T10:00:00.000Z") -> str:
    cell = {"cell_type": "code", "execution_count": count, "metadata": {"execution": {"iopub.execute_input": run}},
            "source": HARMLESS.splitlines(keepends=True), "outputs": [{"output_type": "execute_result",
            "execution_count": count, "data": {"text/plain": [output]}, "metadata": {}}]}  # fmt: skip
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_an_entry_for_a_notebook_survives_a_run_and_no_change_of_text(repo: Scanned) -> None:
    repo.write("a.ipynb", notebook(1, "<Lines at 0x7f01aa22bb10>"))
    assert main(["a.ipynb"]) == 4
    assert main(["allow", "a.ipynb", "--reason", "made up", "--by", "a test"]) == 0
    for text, code in (
        (notebook(1, "<Lines at 0x7f01aa22bb10>"), 0),
        (notebook(7, "<Lines at 0x7f99aa22bb99>", "2026-12-24T18:00:00.000Z"), 0),
        (notebook(None, "<Lines at 0x7f99aa22bb99>"), 0),
        (notebook(1, "<Lines at 0x7f01aa22bb10> and more"), 4),
        (notebook(1, "<Lines at 0x7f01aa22bb10>", "which lamp is lit"), 4),
    ):
        repo.write("a.ipynb", text)
        assert main(["a.ipynb"]) == code, text


@pytest.mark.parametrize(
    "text", ['{"nbformat": 4, "cells": [', '{"nbformat": 4}', '{"nbformat": 4, "cells": [3]}']
)
def test_a_notebook_that_cannot_be_read_is_bound_by_its_bytes(text: str) -> None:
    assert digests_of(text.encode()) == (hashlib.sha256(text.encode()).hexdigest(),)


def test_a_file_that_is_too_large_to_read_gets_no_entry(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    with (repo.place / "huge").open("wb") as file:
        file.truncate(20 << 20)
    assert main(["allow", "huge", "--reason", "made up", "--by", "a test"]) == 4
    assert "huge is larger than the gate reads" in capsys.readouterr().err
    assert not (repo.place / NAME).exists()


def test_safe_demo_lifts_structure_on_listed_paths_of_the_last_commit_only(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("demo/a.jsonl", HARMLESS)
    repo.write("other/a.jsonl", HARMLESS)
    repo.stage(NAME, policy(demo=DEMO))
    monkeypatch.setenv("SAFE_DEMO", "true")
    assert repo.rules("--staged") == (4, {("demo/a.jsonl", "RBG101"), ("other/a.jsonl", "RBG101")})
    repo.git("commit", "-q", "-m", "List the demo")
    assert repo.rules("--all") == (4, {("other/a.jsonl", "RBG101")})
    assert repo.rules("demo/a.jsonl") == (0, set())
    assert main(["demo/a.jsonl"]) == 0
    assert "SAFE_DEMO=true" in capsys.readouterr().err
    monkeypatch.delenv("SAFE_DEMO")
    assert repo.rules("demo/a.jsonl") == (4, {("demo/a.jsonl", "RBG101")})


def test_safe_demo_lifts_nothing_before_the_first_commit(
    fresh: Repo, repo: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAFE_DEMO", "true")
    fresh.write(NAME, policy(demo=DEMO))
    fresh.stage("demo/a.jsonl", HARMLESS)
    assert repo.rules("--staged") == (4, {("demo/a.jsonl", "RBG101")})


def test_safe_demo_is_ignored_in_ci_and_for_ranges_and_says_so(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = repo.commit(**{NAME: policy(demo=DEMO)})
    repo.commit(demo__a=HARMLESS)
    monkeypatch.setenv("SAFE_DEMO", "true")
    assert main(["demo/a"]) == 0
    capsys.readouterr()
    assert main(["--range", f"{start}..HEAD"]) == 4
    assert "SAFE_DEMO=true is ignored" in capsys.readouterr().err
    for word, code in (("true", 4), ("1", 4), ("false", 0)):
        monkeypatch.setenv("CI", word)
        assert main(["demo/a", "--json"]) == code
        assert json.loads(capsys.readouterr().out)["safe_demo"] == ("ignored" if code else "on")


def test_safe_demo_never_lifts_fingerprints_keys_or_what_cannot_be_read(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(**{NAME: policy(demo=DEMO)})
    monkeypatch.setenv("SAFE_DEMO", "true")
    contents = {
        "RBG301": ITEMS.encode(),
        "RBG402": b"rbk1:0123456789abcdef:" + b"Ab1" * 14 + b"x",
        "RBG501": bytes(range(256)),
    }
    for rule, content in contents.items():
        repo.write("demo/x", content)
        assert repo.rules("demo/x") == (4, {("demo/x", rule)})


@pytest.mark.parametrize("word", ["1", "True", "TRUE", "yes", "on", "false"])
def test_safe_demo_is_on_with_one_word_only(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("SAFE_DEMO", word)
    assert main(["README"]) == 2
    monkeypatch.setenv("SAFE_DEMO", "")
    assert main(["README"]) == 0


def test_outside_a_repository_files_can_be_scanned_and_git_modes_say_so(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path / "plain")
    Path("a.md").write_text(LEAK)
    assert repo.rules("a.md") == (4, {("a.md", "RBG301")})
    assert main(["--staged"]) == 2
    assert "not inside a git repository" in capsys.readouterr().err


def test_the_key_variable_works_for_a_secret_store(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("a.md", LEAK)
    monkeypatch.delenv(FILE_VARIABLE)
    assert main(["a.md"]) == 0
    assert "did not run: no key" in capsys.readouterr().err
    assert main(["a.md", "--require-fingerprints"]) == 4
    monkeypatch.setenv(VARIABLE, KEY.as_text())
    assert main(["a.md", "--require-fingerprints"]) == 4
    assert "a.md:1: RBG301" in capsys.readouterr().out
