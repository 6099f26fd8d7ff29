"""The gate in a repository: the index, ranges, messages, odd paths."""

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from robustify.gate.command import main
from robustify.gate.policy import NAME
from tests.gate.repo import HARMLESS, LEAK, Repo, Scanned, entry, policy
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


def test_the_first_commit_of_a_repository_is_scanned(fresh: Repo, repo: Scanned) -> None:
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


SCISSORS = "# ------------------------ >8 ------------------------\n"
CUT = SCISSORS + "# Do not modify or remove the line above.\n# Everything below it will be ignored.\n"


@pytest.mark.parametrize(
    ("message", "code"),
    [(f"Mend\n\n{LEAK}\n", 4), (f"Mend\n{CUT}diff --git a/x b/x\n-{LEAK}\n", 0), (f"{LEAK}\n{CUT}", 4),
     (f"Mend\n{SCISSORS}{LEAK}\n", 4), (f"Mend\n{CUT}{LEAK}\n", 4), (f"Mend {SCISSORS}{LEAK}\n", 4)],
)  # fmt: skip
def test_a_message_being_written_is_scanned_but_for_the_diff_that_git_shows_below_it(
    repo: Scanned, tmp_path: Path, message: str, code: int
) -> None:
    place = tmp_path / "MESSAGE"
    place.write_text(message)
    assert repo.found("--commit-msg", str(place))[0] == code
    assert repo.found("--commit-msg", "--require-fingerprints", str(place))[0] == code  # with a hook's args


def test_the_range_that_pre_commit_names_is_scanned(repo: Scanned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRE_COMMIT_FROM_REF", repo.git("rev-parse", "HEAD"))
    repo.commit(notes=LEAK)
    monkeypatch.setenv("PRE_COMMIT_TO_REF", "HEAD")
    assert repo.rules("--pushed") == (4, {("notes", "RBG301")})
    monkeypatch.delenv("PRE_COMMIT_FROM_REF")
    assert main(["--pushed"]) == 2
    monkeypatch.setenv("PRE_COMMIT_LOCAL_BRANCH", "refs/heads/main")
    assert repo.rules("--pushed") == (4, {("notes", "RBG301")})


@pytest.fixture
def several(repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scanned:
    """A repository that its remote has, and beside `main` the branch `side` with a leak that it has not."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far")], check=True)
    repo.git("remote", "add", "far", str(tmp_path / "far"))
    repo.git("push", "-q", "far", "main")
    repo.git("checkout", "-q", "-b", "side")
    repo.commit(notes=LEAK)
    repo.git("checkout", "-q", "main")
    repo.commit(more="harmless")
    monkeypatch.setenv("PRE_COMMIT_REMOTE_NAME", "far")
    return repo


def pushing(repo: Scanned, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pre-commit says of `git push --all far`: its first ref alone."""
    monkeypatch.setenv("PRE_COMMIT_FROM_REF", repo.git("rev-parse", "far/main"))
    monkeypatch.setenv("PRE_COMMIT_TO_REF", repo.git("rev-parse", "main"))
    monkeypatch.setenv("PRE_COMMIT_LOCAL_BRANCH", "refs/heads/main")


def test_every_branch_that_a_push_may_publish_is_scanned(
    several: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushing(several, monkeypatch)
    assert several.rules("--pushed", "--policy-from", "head") == (4, {("notes", "RBG301")})
    several.git("push", "-q", "--no-verify", "far", "side")  # the remote has it by now
    assert several.rules("--pushed", "--policy-from", "head") == (0, set())


def test_tags_their_messages_and_all_names_are_scanned_before_a_push(
    several: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    several.git("branch", "-q", "-D", "side")
    pushing(several, monkeypatch)
    start = several.git("rev-parse", "HEAD^")
    several.git("tag", "-a", "v1", start, "-m", LEAK)
    several.git("tag", "-a", "v2", "v1", "-m", "A tag of a tag")
    code, pairs = several.rules("--pushed")
    assert (code, {rule for _, rule in pairs}) == (4, {"RBG301"})
    assert several.rules("--range", f"{start}..HEAD") == (0, set())  # the tag is of an earlier commit
    assert several.found("--range", f"{'0' * 40}..HEAD")[0] == 4
    for name in ("v1", "v2"):
        several.git("tag", "-d", name)
    several.git("tag", "held", several.git("hash-object", "-w", "--stdin", given=LEAK))
    assert several.found("--pushed")[0] == 4
    several.git("tag", "-d", "held")
    several.git("branch", LEAK.rstrip("?").replace(" ", "-"))
    assert several.rules("--pushed") == (4, {("<names of branches and tags>", "RBG301")})
    assert several.rules("--range", f"{start}..HEAD") == (4, {("<names of branches and tags>", "RBG301")})


def test_the_refs_that_git_names_to_its_own_hook_are_scanned(
    several: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero, old, main, side = (
        "0" * 40,
        *(several.git("rev-parse", name) for name in ("far/main", "main", "side")),
    )
    several.git("tag", "-a", "v1", old, "-m", LEAK)
    tag = several.git("rev-parse", "v1")
    for line, code in (
        (f"refs/heads/main {main} refs/heads/main {old}", 0),
        (f"refs/heads/side {side} refs/heads/side {zero}", 4),
        (f"refs/tags/v1 {tag} refs/tags/v1 {zero}", 4),
        (f"(delete) {zero} refs/heads/side {side}", 0),
        (f"refs/heads/main {main} refs/heads/{LEAK.rstrip('?').replace(' ', '-')} {old}", 4),
        ("", 2),
        ("one two", 2),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(line))
        assert several.found("--pushed", "--policy-from", "head")[0] == code, line


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
        "two\nlines.md", "tab\there", "\x1b[31mred", "-rf", "spac e", "‮reversed", os.fsdecode(b"latin-\xe9"),
    ]  # fmt: skip
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


def test_a_submodule_is_a_pointer_that_an_entry_lifts(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.git('rev-parse', 'HEAD')},module")
    assert repo.rules("--staged") == (4, {("module", "RBG505")})
    assert main(["allow", "module", "--reason", "ours", "--by", "a test"]) == 0
    capsys.readouterr()
    repo.git("add", NAME)
    assert repo.rules("--staged") == (0, set())


POINTERS = {
    "lfs": "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n",
    "hawser": "version https://hawser.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n",
    "media": "version http://git-media.io/v/2\noid sha256:" + "0" * 64 + "\nsize 12\n",
    "annex": "/annex/objects/MD5E-s12--" + "0" * 32 + ".jsonl\n",
    "dvc": "outs:\n- md5: " + "0" * 32 + "\n  size: 12\n  path: items.jsonl\n",
    "dvc_lock": "schema: '2.0'\nstages:\n  make:\n    outs:\n    - path: items\n      hash: md5\n      md5: "
    + "0" * 32 + ".dir\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", POINTERS)
def test_a_pointer_to_content_elsewhere_is_refused(repo: Scanned, kind: str) -> None:
    repo.stage("big.jsonl", POINTERS[kind])
    assert repo.rules("--staged") == (4, {("big.jsonl", "RBG505")})


def test_a_link_into_an_annex_is_refused(repo: Scanned) -> None:
    (repo.place / "big.jsonl").symlink_to("../.git/annex/objects/Kj/9Q/MD5E-s12--0/MD5E-s12--0.jsonl")
    repo.git("add", "-A")
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


# Whole histories, tags of other things than commits, git itself.


def test_the_whole_history_is_scanned_also_what_a_later_commit_removed(repo: Scanned) -> None:
    whole = ["--range", f"{'0' * 40}..HEAD"]
    assert main(whole) == 0
    repo.commit(notes=LEAK)
    repo.git("rm", "-q", "notes")
    repo.commit("Remove it")
    assert repo.rules("--all") == (0, set())
    assert repo.rules(*whole) == (4, {("notes", "RBG301")})


def test_no_entry_counts_that_came_together_with_something_else(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `--policy-from apart`; an entry that a commit wrote alone counts, and is said to be new."""
    start = repo.git("rev-parse", "HEAD")
    apart = ["--range", f"{start}..HEAD", "--policy-from", "apart"]
    held = {"items.jsonl": HARMLESS, NAME: policy(entry("items.jsonl", HARMLESS))}
    repo.commit("Items with their entry", **held)
    assert main(apart) == 4
    assert "1 new entries of the allow list do not count" in capsys.readouterr().err
    repo.git("reset", "-q", "--hard", start)
    repo.commit("Items", **{"items.jsonl": HARMLESS})
    assert main(apart) == 4
    repo.commit("An allow list that cannot be read", **{NAME: "{"})
    repo.commit("Allow list", **{NAME: held[NAME]})
    capsys.readouterr()
    assert main(apart) == 0
    assert "1 entries of the allow list are newer than the base" in capsys.readouterr().err
    later = repo.commit(notes="harmless")
    capsys.readouterr()
    assert main(["--range", f"{later}^..{later}", "--policy-from", "apart"]) == 0
    assert "allow list" not in capsys.readouterr().err


def test_a_push_from_a_cut_history_is_refused(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tip = repo.commit("Change")
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", repo.place.as_uri(), str(tmp_path / "cut")],
        check=True,
        capture_output=True,
    )
    monkeypatch.chdir(tmp_path / "cut")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"refs/heads/main {tip} refs/heads/main {'0' * 40}"))
    assert main(["--pushed", "--policy-from", "head"]) == 2
    assert "the history is cut within what is pushed" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["tree", "blob"])
@pytest.mark.parametrize("policy_from", ["base", "head", "apart"])
def test_a_tag_of_no_commit_is_scanned_and_may_be_moved(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, kind: str, policy_from: str
) -> None:
    def held(text: str) -> str:
        blob = repo.git("hash-object", "-w", "--stdin", given=text)
        return blob if kind == "blob" else repo.git("mktree", given=f"100644 blob {blob}\tnotes.md\n")

    old, new, bad = (held(text) for text in ("harmless", "harmless too", LEAK))
    for before, after, code in ((old, new, 0), (old, bad, 4), ("0" * 40, bad, 4)):
        line = f"refs/tags/held {after} refs/tags/held {before}"
        monkeypatch.setattr("sys.stdin", io.StringIO(line))
        assert repo.found("--pushed", "--policy-from", policy_from)[0] == code, line


def faked(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A `git` that comes before the real one, whose path is its `$REAL`."""
    real = shutil.which("git")
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    "answer",
    ["name blob 500\\nshort", "name blob 0\\nno newline", "name blob 99999999\\nshort", "gone missing\\n"],
)
def test_a_git_that_stops_within_an_object_is_an_error_and_no_pass(
    repo: Scanned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
) -> None:
    repo.stage("notes.md", LEAK)
    script = f"case \"$*\" in *'cat-file --batch') printf '{answer}';; *) exec $REAL \"$@\";; esac"
    faked(tmp_path / "fake", monkeypatch, script)
    assert main(["--staged"]) == 6
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)


def test_a_git_that_fails_or_is_not_there_is_an_error_and_no_pass(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.stage("notes.md", LEAK)
    script = 'case "$*" in *diff-index*) exit 7;; *) exec $REAL "$@";; esac'
    faked(tmp_path / "fake", monkeypatch, script)
    assert main(["--staged"]) == 6
    assert "git diff-index ended with 7" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--staged"]) == 6
    assert "git cannot be started" in capsys.readouterr().err
