"""The gate in a repository: the index, ranges, messages, odd paths."""

import os
import subprocess
from pathlib import Path

import pytest

from robustify.gate.command import main
from tests.gate.repo import LEAK, Repo, Scanned
from tests.gate.sets import mock_items

# What is scanned.


def test_the_index_is_scanned_and_not_the_work_tree(repo: Scanned) -> None:
    repo.write("notes.md", LEAK)
    repo.git("add", "notes.md")
    repo.write("notes.md", "harmless by now")
    assert repo.rules("--staged") == (4, {("notes.md", "RBG301")})
    repo.git("add", "notes.md")
    repo.write("notes.md", LEAK)
    assert repo.rules("--staged") == (0, set())
    assert repo.rules("notes.md") == (4, {("notes.md", "RBG301")})


def test_only_what_changes_is_scanned_when_staged_and_everything_with_all(repo: Scanned) -> None:
    repo.commit(old=LEAK)
    repo.stage("new.md", "harmless")
    assert repo.rules("--staged") == (0, set())
    assert repo.rules("--all") == (4, {("old", "RBG301")})


def test_the_first_commit_of_a_repository_is_scanned(
    tmp_path: Path, repo: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fresh").mkdir()
    fresh = Repo(tmp_path / "fresh")
    monkeypatch.chdir(fresh.place)
    fresh.stage("a.md", LEAK)
    assert repo.rules("--staged") == (4, {("a.md", "RBG301")})


def test_a_deleted_file_is_no_finding_and_a_renamed_one_is(repo: Scanned) -> None:
    repo.commit(a=LEAK, b=LEAK + " Again.")
    repo.git("rm", "-q", "a")
    repo.git("mv", "b", "c")
    assert repo.rules("--staged") == (4, {("c", "RBG301")})


def test_a_leak_that_a_later_commit_removes_is_found_in_the_range(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.commit(notes=LEAK)
    repo.git("rm", "-q", "notes")
    repo.commit("Remove it")
    assert repo.rules("--all") == (0, set())
    assert repo.rules("--range", f"{start}..HEAD") == (4, {("notes", "RBG301")})
    assert repo.rules("--range", f"{start}..") == (4, {("notes", "RBG301")})
    assert repo.rules("--range", f"{'0' * 40}..HEAD") == (4, {("notes", "RBG301")})


def test_a_path_that_a_later_commit_removes_is_found_in_the_range(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    name = LEAK.rstrip("?").replace(" ", "_")
    repo.commit(**{f"{name}.txt": "harmless"})
    repo.git("rm", "-q", f"{name}.txt")
    repo.commit("Remove it")
    code, findings = repo.found("--range", f"{start}..HEAD")
    assert (code, [f["rule"] for f in findings]) == (4, ["RBG301"])
    assert "in the path itself" in findings[0]["says"]
    assert name not in str(findings)


def test_messages_and_merges_of_a_range_are_scanned(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    told = repo.commit(f"Mend\n\n{LEAK}")
    repo.git("checkout", "-q", "-b", "side", start)
    repo.commit(side="harmless")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--no-commit", "side")
    repo.write("evil.md", mock_items()[1].stem)  # only the merge itself brings it
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "Merge")
    code, pairs = repo.rules("--range", f"{start}..HEAD")
    assert (code, pairs) == (4, {(f"commit {told[:12]}", "RBG301"), ("evil.md", "RBG301")})


def test_a_message_being_written_is_scanned_without_what_git_cuts_off(repo: Scanned, tmp_path: Path) -> None:
    message = tmp_path / "MESSAGE"
    message.write_text(f"Mend\n\n{LEAK}\n")
    assert repo.rules("--commit-msg", str(message)) == (4, {("<commit message>", "RBG301")})
    message.write_text(f"Mend\n# ------------------------ >8 ------------------------\n-{LEAK}\n")
    assert repo.rules("--commit-msg", str(message)) == (0, set())


def test_the_range_that_pre_commit_names_is_scanned(repo: Scanned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRE_COMMIT_FROM_REF", repo.git("rev-parse", "HEAD"))
    repo.commit(notes=LEAK)
    monkeypatch.setenv("PRE_COMMIT_TO_REF", "HEAD")
    assert repo.rules("--pushed") == (4, {("notes", "RBG301")})
    monkeypatch.delenv("PRE_COMMIT_FROM_REF")
    assert main(["--pushed"]) == 2
    monkeypatch.setenv("PRE_COMMIT_LOCAL_BRANCH", "refs/heads/main")
    assert repo.rules("--pushed") == (4, {("notes", "RBG301")})


def test_a_range_that_is_none_is_a_usage_error(repo: Scanned, capsys: pytest.CaptureFixture[str]) -> None:
    for bounds in ("HEAD", "nowhere..HEAD", "HEAD..nowhere", "..HEAD", "HEAD...HEAD", "--output=x..HEAD"):
        assert main(["--range", bounds]) == 2
    told = capsys.readouterr().err
    assert "nowhere" not in told
    assert not (repo.place / "x..HEAD").exists()


def test_a_history_cut_within_the_range_is_not_taken_for_clean(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = repo.git("rev-parse", "HEAD")
    for i in range(3):
        repo.commit(f"Change {i}")
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", repo.place.as_uri(), str(tmp_path / "cut")],
        check=True,
        capture_output=True,
    )
    monkeypatch.chdir(tmp_path / "cut")
    assert main(["--range", f"{start}..HEAD"]) == 2
    assert main(["--range", f"{'0' * 40}..HEAD"]) == 2


def test_a_folder_within_the_repository_sees_all_of_it(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.commit(a=LEAK, inner__b="harmless")
    repo.stage("c", mock_items()[1].stem)
    monkeypatch.chdir(repo.place / "inner")
    assert repo.rules("--all") == (4, {("a", "RBG301"), ("c", "RBG301")})
    assert repo.rules("--staged") == (4, {("c", "RBG301")})
    assert repo.rules("--range", f"{start}..HEAD") == (4, {("a", "RBG301")})
    assert repo.rules("../a") == (4, {("a", "RBG301")})


# Odd paths and contents.


def test_odd_names_are_escaped_and_told_in_one_line(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        "two\nlines.md",
        "tab\there",
        "\x1b[31mred",
        "-rf",
        "spac e",
        "‮reversed",
        os.fsdecode(b"latin-\xe9"),
    ]
    for name in names:
        repo.stage(name, LEAK + name.encode("utf-8", "surrogateescape").hex())
    assert main(["--staged"]) == 4
    out = capsys.readouterr().out
    assert len(out.splitlines()) == len(names)
    assert all(c.isprintable() for line in out.splitlines() for c in line)
    assert "\\n" in out
    assert main(["--", "-rf"]) == 4


def test_a_path_that_holds_registered_text_is_refused_and_not_told(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    name = LEAK.rstrip("?").replace(" ", "_") + ".txt"
    repo.stage(name, "harmless")
    for args in (["--staged"], ["--staged", "--json"], [name], [name, "--json"]):
        assert main(args) == 4
        told = "".join(capsys.readouterr())
        assert name not in told
        assert not any(word in told for word in LEAK.rstrip("?").split() if len(word) > 5)


def test_a_link_is_read_as_a_link_and_never_followed(repo: Scanned, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(LEAK)
    (repo.place / "link").symlink_to(tmp_path / "outside")
    (repo.place / "loop").symlink_to("loop")
    (repo.place / "telling").symlink_to(LEAK.replace(" ", "_"))
    repo.git("add", "-A")
    assert repo.rules("--staged") == (4, {("telling", "RBG301")})
    assert repo.rules("link", "loop", "telling") == (4, {("telling", "RBG301")})


def test_a_submodule_holds_nothing_here(repo: Scanned) -> None:
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.git('rev-parse', 'HEAD')},module")
    assert repo.rules("--staged") == (0, set())


def test_a_large_file_pointer_is_refused(repo: Scanned) -> None:
    repo.stage(
        "big.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"
    )
    assert repo.rules("--staged") == (4, {("big.jsonl", "RBG505")})


def test_a_huge_file_is_refused_without_being_read(repo: Scanned) -> None:
    with (repo.place / "huge").open("wb") as file:
        file.truncate(200 << 20)
    assert repo.rules("huge") == (4, {("huge", "RBG503")})
    with (repo.place / "huge").open("wb") as file:
        file.truncate(20 << 20)
    repo.git("add", "-A")
    assert repo.rules("--staged") == (4, {("huge", "RBG503")})


def test_a_file_that_is_not_there_is_a_usage_error(repo: Scanned, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["thing"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
