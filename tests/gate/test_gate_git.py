"""The gate in a repository: every way in, odd paths, allow lists, and a repository or a git that is hostile."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from robustify.base.git import git_environment
from robustify.base.key_file import FILE_VARIABLE, VARIABLE
from robustify.gate.check import FORMAT, NAME
from robustify.gate.command import INDEX_VARIABLE
from robustify.gate.command import run_gate as main
from tests.gate.repo import HARMLESS, KEY, LEAK, Scanned, codes_in, entry, key_file, policy

ZERO = "0" * 40
LEAKY = LEAK.rstrip("?").replace(" ", "-")
"""A name that is a leak."""
KEY_TEXT = KEY.as_text().strip()


def given(text: str) -> io.TextIOWrapper:
    """Return a standard input with this text."""
    return io.TextIOWrapper(io.BytesIO(text.encode()))


# Ways in.


def _removed(repo: Scanned) -> None:
    repo.commit(notes=LEAK)
    repo.git("rm", "-q", "notes")
    repo.commit("Remove it")


def _authored(repo: Scanned) -> None:
    repo.git("commit", "-q", "--allow-empty", "--author", f"{LEAK} <a@b.invalid>", "-m", "Go on")


def _with_header(repo: Scanned, header: str) -> None:
    """Add a commit whose header has more lines."""
    head = repo.git("rev-parse", "HEAD")
    held = repo.git("cat-file", "commit", "HEAD").replace("\nauthor", f"\nparent {head}\nauthor", 1)
    held = held.replace("\n\n", f"\n{header}\n\n", 1) + "\n"
    repo.git("reset", "-q", "--hard", repo.git("hash-object", "-t", "commit", "-w", "--stdin", given=held))


def _tagged(repo: Scanned) -> None:
    repo.commit("Go on")
    repo.git("tag", "-a", "v1", "-m", LEAK)
    repo.git("tag", "-a", "v2", "v1", "-m", "A tag of a tag")
    repo.git("tag", "-d", "v1")


UNSIGNED = f"gpgsig -----BEGIN PGP SIGNATURE-----\n {LEAK}\n -----END PGP SIGNATURE-----"
RANGES: dict[str, tuple[Callable[[Scanned], object], str]] = {
    "a file that a later commit removes": (_removed, "notes"),
    "a message": (lambda repo: repo.commit(f"Mend\n\n{LEAK}"), "commit"),
    "the name of an author": (_authored, "commit"),
    "what is no signature": (lambda repo: _with_header(repo, UNSIGNED), "commit"),
    "the name of an encoding": (lambda repo: _with_header(repo, f"encoding {LEAKY}"), "commit"),
    "the message of a tag of a tag": (_tagged, "tag"),
}


@pytest.mark.parametrize("way", RANGES)
def test_everything_that_a_range_of_commits_brings_is_scanned(repo: Scanned, way: str) -> None:
    start = repo.git("rev-parse", "HEAD")
    act, where = RANGES[way]
    act(repo)
    for bounds in (f"{start}..HEAD", f"{start}..", f"{ZERO}..HEAD"):
        code, ((path, rule), *others) = repo.rules("--range", bounds)
        assert (code, path.startswith(where), rule, others) == (4, True, "RBG301", [])
    assert repo.rules("--range", f"HEAD..{start}") == (0, set())


def test_only_what_changes_is_scanned_when_staged_and_everything_with_all(repo: Scanned) -> None:
    repo.commit(old=LEAK, a=LEAK + " Again.", b=LEAK + " And again.", inner__c="harmless")
    repo.stage("new.md", "harmless")
    repo.git("rm", "-q", "a")
    repo.git("mv", "b", "d")
    os.chdir(repo.place / "inner")
    assert repo.rules("--staged") == (4, {("d", "RBG301")})
    assert repo.rules("--all") == (4, {("old", "RBG301"), ("d", "RBG301")})
    assert repo.rules("../old") == (4, {("old", "RBG301")})


SCISSORS = "# ------------------------ >8 ------------------------\n"
CUT = SCISSORS + "# Do not modify or remove the line above.\n# Everything below it will be ignored.\n"


@pytest.mark.parametrize(
    ("message", "code"),
    [(f"Mend\n\n{LEAK}\n", 4), (f"Mend\n{CUT}diff --git a/x b/x\n-{LEAK}\n", 0), (f"{LEAK}\n{CUT}", 4),
     (f"Mend\n{SCISSORS}{LEAK}\n", 4), (f"Mend\n{CUT}{LEAK}\n", 4), (f"Mend {SCISSORS}{LEAK}\n", 4)],
)  # fmt: skip
def test_a_message_is_scanned_but_for_the_diff_that_git_shows_below_it(
    repo: Scanned, tmp_path: Path, message: str, code: int
) -> None:
    place = tmp_path / "MESSAGE"
    place.write_text(message)
    assert main(["--commit-msg", str(place)]) == code
    assert main(["--commit-msg", "--require-fingerprints", str(place)]) == code  # with a hook's args


@pytest.fixture
def pushed(repo: Scanned, tmp_path: Path) -> Scanned:
    """A repository whose remote `far` has all but one commit of `main`."""
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far")], check=True)
    repo.git("remote", "add", "far", str(tmp_path / "far"))
    repo.git("push", "-q", "far", "main")
    repo.commit(more="harmless")
    return repo


def _branch(repo: Scanned) -> str:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit(notes=LEAK)
    repo.git("checkout", "-q", "main")
    return "side"


def test_the_lines_that_git_gives_to_its_own_hook_are_read(
    pushed: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _branch(pushed)
    main_, side = (pushed.git("rev-parse", name) for name in ("main", "side"))
    blobs = [pushed.git("hash-object", "-w", "--stdin", given=text) for text in ("one", "two")]
    for line, code in (
        (f"refs/heads/main {main_} refs/heads/main {ZERO}", 0),
        (f"refs/heads/side {side} refs/heads/side {ZERO}", 4),
        (f"(delete) {ZERO} refs/heads/side {side}", 0),
        (f"refs/tags/held {blobs[0]} refs/tags/held {blobs[1]}", 0),
        ("", 2),
        ("one two", 2),
    ):
        monkeypatch.setattr("sys.stdin", given(line))
        assert main(["--pushed"]) == code, line
    pushed.git("push", "-q", "--no-verify", "far", "side")  # the remote has it by now
    for code in (0, 4):
        monkeypatch.setattr("sys.stdin", given(f"refs/heads/two {side} refs/heads/two {ZERO}"))
        assert main(["--pushed", "far"]) == code
        subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "public")], check=True)
        pushed.git("remote", "set-url", "--push", "far", str(tmp_path / "public"))  # which has nothing
    for ref, code in (("refs/heads/gone", 2), ("refs/heads/side", 4)):  # pre-commit passes on one ref
        monkeypatch.setenv("PRE_COMMIT_LOCAL_BRANCH", ref)
        assert main(["--pushed"]) == code
    for name, code in (("Release", 0), (LEAK, 4)):  # the message of an annotated tag is pushed with it
        pushed.git("tag", "-f", "-a", "-m", name, "v1", "main")
        monkeypatch.setenv("PRE_COMMIT_TO_REF", pushed.git("rev-parse", "v1"))
        assert main(["--pushed"]) == code
    monkeypatch.setenv("PRE_COMMIT_TO_REF", blobs[0])
    assert main(["--pushed"]) == 0


def _bare(place: Path) -> str:
    subprocess.run(["git", "init", "-q", "--bare", str(place)], check=True)
    return str(place)


def _gone(repo: Scanned, private: str, public: str) -> list[str]:
    repo.git("remote", "add", "origin-private", private)
    repo.git("fetch", "-q", "origin-private")
    subprocess.run(["git", "update-ref", "-d", "refs/heads/main"], check=True, cwd=private)
    return ["origin-private", private]


def _pushed_elsewhere(repo: Scanned, private: str, public: str) -> list[str]:
    repo.git("remote", "add", "origin-private", private)
    for url in (private, public):
        repo.git("remote", "set-url", "--add", "--push", "origin-private", url)
    return ["origin-private"]


def _fetched_elsewhere(repo: Scanned, private: str, public: str) -> list[str]:
    repo.git("config", f"url.{private}.insteadOf", public)
    repo.git("config", f"url.{public}.pushInsteadOf", public)
    return ["origin", public]


def _named_as_a_remote(repo: Scanned, private: str, public: str) -> list[str]:
    repo.git("remote", "add", "public", private)
    repo.git("remote", "set-url", "--push", "public", "public")  # a folder
    return ["public", "public"]


MOVES = (_gone, _pushed_elsewhere, _fetched_elsewhere, _named_as_a_remote)
"""Situations hold a remote with a similar name, and one whose URL was changed."""


@pytest.mark.parametrize("move", MOVES, ids=[move.__name__ for move in MOVES])
def test_what_another_remote_has_or_this_one_had_is_scanned(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, move: Callable[[Scanned, str, str], list[str]]
) -> None:
    private, public = _bare(repo.place / "private"), _bare(repo.place / "public")
    tip = repo.git("commit-tree", "-m", LEAK, "HEAD^{tree}")
    repo.git("push", "-q", "--no-verify", private, f"{tip}:refs/heads/main")
    line = f"refs/heads/main {tip} refs/heads/main {ZERO}"
    monkeypatch.setattr("sys.stdin", given(line))
    assert main(["--pushed", private, private]) == 0
    monkeypatch.setattr("sys.stdin", given(line))
    assert main(["--pushed", *move(repo, private, public)]) == 4


def test_a_push_of_nothing_passes_and_a_list_that_another_hook_has_read_hides_no_branch(
    pushed: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    side, url = _branch(pushed), pushed.git("remote", "get-url", "far")
    for branch, code in (("main", 0), (side, 4)):
        pushed.git("checkout", "-q", branch)
        monkeypatch.setattr("sys.stdin", given(""))
        assert main(["--pushed", "far", url]) == code
        assert "no-ref-to-push" in codes_in(capsys.readouterr().err)


SIGNATURES = {"SSH SIGNATURE": "U1NIU0lH", "PGP SIGNATURE": "iQIz", "SIGNED MESSAGE": "MIIE"}


def signature(kind: str, begin: str, mark: str = "") -> str:
    lines = [base64.b64encode(hashlib.sha512(bytes([i])).digest()).decode()[:70] for i in range(30)]
    block = (f"-----BEGIN {kind}-----", "", begin + lines[0][:50], *lines[1:], f"-----END {kind}-----")
    return "\n".join(mark + line for line in block)


@pytest.mark.parametrize("kind", SIGNATURES)
def test_a_signature_in_a_mail_passes_and_what_begins_otherwise_does_not(repo: Scanned, kind: str) -> None:
    ours = SIGNATURES[kind]
    for begin, mark, code in ((ours, "", 0), (ours, "> ", 0), ("H4sI", "", 4), ("SW4g", "", 4)):
        repo.write("mail", f"A note.\n\n{signature(kind, begin, mark)}\n")
        assert main(["mail"]) == code, (begin, mark)


@pytest.mark.parametrize("kind", SIGNATURES)
def test_a_signature_in_a_saved_commit_hides_neither_words_nor_its_comments(repo: Scanned, kind: str) -> None:
    plain = signature(kind, SIGNATURES[kind])
    lamps = (b" a lamp was lit on the pier of the small town at %d" % i for i in range(30))
    words = base64.b64encode(b"".join(lamps))
    hidden = "\n".join([words[i : i + 60].decode() for i in range(0, 1200, 60)])
    coded = base64.b64encode(hashlib.sha512(b"a").digest() * 3).decode()[:180]
    for inner, code in (
        ("Version: GnuPG v2\nComment: see the page of keys of the office, which lists them\n\n", 0),
        (f"Comment: {coded}\n\n", 4),
        (f"\n{SIGNATURES[kind]}ab\n{hidden}\n", 4),
        (f"\n{SIGNATURES[kind]}a\n{hidden}\n", 4),
    ):
        block = plain.replace("\n\n", f"\n{inner}", 1)
        repo.write("commit.json", json.dumps({"verification": {"signature": block, "payload": "tree 0\n"}}))
        assert main(["commit.json"]) == code, inner[:20]


@pytest.mark.parametrize("kind", SIGNATURES)
def test_a_signature_of_a_commit_or_tag_is_taken_off_and_its_message_is_not(repo: Scanned, kind: str) -> None:
    block = signature(kind, SIGNATURES[kind])
    held = repo.git("cat-file", "commit", "HEAD")
    signed = held.replace("\n\n", "\ngpgsig " + block.replace("\n", "\n ") + "\n\n", 1) + "\n"
    tip = repo.git("hash-object", "-t", "commit", "-w", "--stdin", given=signed)
    for message, code in (("Release", 0), (LEAK, 4)):
        head = f"object {tip}\ntype commit\ntag v{code}\ntagger A <a@b.invalid> 1 +0000"
        tag = f"{head}\n\n{message}\n{block}\n"
        repo.git("tag", f"v{code}", repo.git("hash-object", "-t", "tag", "-w", "--stdin", given=tag))
        assert main(["--range", f"{ZERO}..v{code}"]) == code
        repo.git("tag", "-d", f"v{code}")


def test_a_work_tree_that_only_the_environment_names_has_its_policy(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.place / ".git").rename(repo.place.parent / "store")
    monkeypatch.setenv("GIT_DIR", str(repo.place.parent / "store"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repo.place))
    repo.write("table.bin", "\0")
    (repo.place / "sub").mkdir()
    monkeypatch.chdir(repo.place / "sub")
    assert main(["../table.bin"]) == 4
    assert main(["allow", "../table.bin", "--reason", "none", "--by", "A"]) == 0
    assert main(["../table.bin"]) == 0


def test_a_range_that_is_none_is_a_usage_error(repo: Scanned, capsys: pytest.CaptureFixture[str]) -> None:
    for bounds in ("HEAD", "nowhere..HEAD", "HEAD..nowhere", "..HEAD", "HEAD...HEAD", "--output=x..HEAD"):
        assert main(["--range", bounds]) == 2
    assert "nowhere" not in capsys.readouterr().err
    assert not (repo.place / "x..HEAD").exists()


# Odd paths and contents.


@pytest.mark.parametrize("name", [f"{KEY_TEXT}.txt", f"a-{KEY_TEXT}/b", f"{LEAKY}.txt"])
def test_a_key_or_registered_text_in_a_path_is_refused_and_not_told(
    repo: Scanned, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.stage(name, "harmless")
    assert main(["--staged"]) == main(["--all"]) == 4
    assert name[10:30] not in "".join(capsys.readouterr())


def test_a_huge_file_is_refused_and_its_entry_names_its_content(repo: Scanned) -> None:
    with (repo.place / "huge").open("wb") as file:
        file.truncate(20 << 20)
    repo.git("add", "-A")
    assert repo.rules("--staged") == repo.rules("huge") == (4, {("huge", "RBG503")})
    (repo.place / "huge").rename(
        repo.place / "moved"
    )  # the staged one is read through Git, the other one is not
    assert main(["allow", "huge", "moved", *SAYS]) == main(["moved"]) == 0
    repo.git("add", NAME)
    assert repo.rules("--staged") == (0, set())
    with (repo.place / "moved").open("ab") as file:
        file.write(b"x")
    assert main(["moved"]) == 4


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
    os.mkfifo("pipe", 0o600)
    Path("folder").mkdir()
    assert main([thing if arg == "THING" else arg for arg in args]) == code
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    os.mkfifo(NAME)  # a policy that is a pipe lifts nothing
    assert main(["README"]) == 0


def test_no_message_can_steer_a_terminal_whatever_holds_the_name(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jx\u202e\r\n"
    for name in (f"{evil}.md", "two\nlines", "-rf", os.fsdecode(b"latin-\xe9")):
        repo.stage(name, LEAK + name.encode("utf-8", "surrogateescape").hex())
    key, says = str(key_file(tmp_path)), ["--reason", "x", "--by", "y"]
    monkeypatch.setenv(INDEX_VARIABLE, str(tmp_path / f"{evil}index"))
    for args in (
        [f"{evil}.md"], ["--index", f"{evil}gone", "README"], ["--key", f"{evil}gone", "README"],
        ["--range", f"{evil}..HEAD"], [f"{evil}gone"], ["allow", f"{evil}gone", *says],
        ["index", f"{evil}gone.jsonl", "--key", key, "-o", "out"], ["--policy-from", evil, "--all"],
        ["--staged", "--index", str(tmp_path / "mock.idx")], ["--index", str(tmp_path / "mock.idx"), "--", "-rf"],
    ):  # fmt: skip
        assert main(args) != 0
        told = "".join(capsys.readouterr())
        assert all(c.isprintable() for line in told.splitlines() for c in line), args


# Allow lists.

SAYS = ["--reason", "made up", "--by", "a test"]


def test_an_entry_lifts_what_is_found_at_its_path_in_its_content_until_its_day(repo: Scanned) -> None:
    yesterday = (date.today() - timedelta(days=1)).isoformat()
    fits = entry("a.jsonl", HARMLESS)
    for allow, code in (
        (fits, 0), (entry("b.jsonl", HARMLESS), 4), (entry("a.jsonl", "other"), 4), (fits | {"expires": yesterday}, 4),
    ):  # fmt: skip
        repo.write("a.jsonl", HARMLESS)
        repo.stage(NAME, policy(allow))
        assert main(["--staged"]) == main(["a.jsonl"]) == code
    repo.write(NAME, policy(fits))  # not staged: does not count
    assert main(["--staged"]) == 4


@pytest.mark.parametrize("pragma", ["pragma: allowlist secret", NAME])
def test_nothing_lifts_a_fingerprint(repo: Scanned, pragma: str) -> None:
    content = f"# {pragma}\n{LEAK}  # {pragma}\n"
    repo.write("a.md", content)
    repo.stage(NAME, policy(entry("a.md", content)))
    assert main(["--staged"]) == main(["allow", "a.md", *SAYS]) == 4
    assert len(json.loads((repo.place / NAME).read_text())["allow"]) == 1


MORE = HARMLESS.replace("spoon", "ladle")
"""The same items, one of which is another one."""


def test_allow_names_findings_and_renews_an_entry_without_a_word(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("demo/a.jsonl", HARMLESS)
    repo.write("b.md", "harmless")
    assert main(["allow", "demo/a.jsonl", "b.md"]) == 2
    assert codes_in(capsys.readouterr().err) == ["missing-reason"]
    assert main(["allow", "demo/a.jsonl", "b.md", *SAYS]) == 0
    assert capsys.readouterr().out == "demo/a.jsonl: RBG101\nb.md: nothing to allow\n"
    assert main(["demo/a.jsonl"]) == 0
    repo.write("demo/a.jsonl", "# A note.\n\n" + HARMLESS.replace("\n", "\r\n"))
    assert main(["demo/a.jsonl"]) == 0  # an edit elsewhere
    repo.write("demo/a.jsonl", HARMLESS + MORE)
    assert main(["demo/a.jsonl"]) == 4
    assert main(["allow", "demo/a.jsonl"]) == main(["demo/a.jsonl"]) == 0
    (row,) = json.loads((repo.place / NAME).read_text())["allow"]
    assert (row["path"], row["reason"], row["by"]) == ("demo/a.jsonl", "made up", "a test")
    assert row["expires"] == (date.today() + timedelta(days=180)).isoformat()
    repo.write("demo/b.jsonl", HARMLESS)
    repo.git("add", "-A")
    assert main(["demo/b.jsonl"]) == 4
    assert main(["allow", "demo"]) == 2
    assert (
        main(["allow", "demo", *SAYS]) == main(["demo/a.jsonl", "demo/b.jsonl"]) == 0
    )  # an entry of the folder
    repo.write("demo/b.jsonl", MORE.replace("baton", "flag"))
    assert main(["demo/b.jsonl"]) == 4
    assert main(["allow", "demo/b.jsonl"]) == main(["demo/b.jsonl"]) == 0
    repo.git("rm", "-qf", "demo/b.jsonl")
    repo.write("demo/c.jsonl", HARMLESS)  # not staged yet
    assert main(["allow", "demo/c.jsonl"]) == main(["demo/a.jsonl", "demo/c.jsonl"]) == 0
    (row,) = json.loads((repo.place / NAME).read_text())["allow"]
    texts = ((repo.place / f"demo/{name}.jsonl").read_text() for name in "ac")
    there = {digest for text in texts for digest in entry("x", text)["findings"]}
    assert (row["path"], set(row["findings"])) == ("demo", there)  # without what only b had
    repo.git("rm", "-rqf", "--cached", "demo")
    assert main(["allow", "demo"]) == 0  # a folder of which nothing is staged


def test_allow_binds_to_a_commit_by_its_id(repo: Scanned) -> None:
    start = repo.commit("Begin")
    tip = repo.commit("Mend\n\n" + HARMLESS)
    apart = ["--range", f"{start}..HEAD", "--policy-from", "apart"]
    assert main(apart) == 4
    for name in (tip[:12], "HEAD", f"commit {tip[:12]}"):
        assert main(["allow", name, *SAYS]) == 0
    rows = json.loads((repo.place / NAME).read_text())["allow"]
    assert [row["path"] for row in rows] == [f"commit {tip[:12]}"]
    assert main(["allow", "HEAD^{tree}", *SAYS]) == main(["allow", "nowhere", *SAYS]) == 2
    repo.commit("Allow it")
    assert main(apart) == 0


@pytest.mark.parametrize("kind", ["commit", "tag"])
def test_an_old_message_in_another_encoding_is_allowed_by_the_id_of_its_commit_or_tag(
    pushed: Scanned, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    ids, tip = list[str](), pushed.git("rev-parse", "HEAD")
    tree = pushed.git("rev-parse", "HEAD^{tree}")
    people = "author A <a@b.invalid> 1 +0000\ncommitter A <a@b.invalid> 1 +0000"
    for n in "12":  # by the same person
        head = f"tree {tree}\nparent {tip}\n{people}"
        if kind == "tag":
            head = f"object {tip}\ntype commit\ntag v{n}\ntagger A <a@b.invalid> 1 +0000"
        line = ["git", "hash-object", "-t", kind, "-w", "--stdin"]
        text = f"{head}\n\ncaf\xe9 {n}\n".encode("latin-1")
        made = subprocess.run(line, input=text, capture_output=True, check=True)
        ids.append(made.stdout.decode().strip())
        tip = ids[-1] if kind == "commit" else tip
        pushed.git("update-ref", f"refs/{'tags' if kind == 'tag' else 'heads'}/v{n}", ids[-1])
    lines = "".join(f"refs/x {one} refs/x {ZERO}\n" for one in ids)
    monkeypatch.setattr("sys.stdin", given(lines))
    assert pushed.rules("--pushed", "far") == (4, {(f"{kind} {one[:12]}", "RBG501") for one in ids})
    assert main(["allow", *ids, *SAYS]) == 0
    pushed.commit("Allow them")
    pushed.git("push", "-q", "--no-verify", "far", "main")
    monkeypatch.setattr("sys.stdin", given(lines))
    assert main(["--pushed", "far"]) == 0  # by an entry that the remote already has


def test_an_item_beside_an_allowed_one_is_a_new_finding(repo: Scanned) -> None:
    block = "\n".join(("Which knot is meant here?", "", "A) tub", "B) oar", "C) bow", "Answer: C"))
    repo.write("a.md", f"# Quiz\n\n{block}\n")
    assert main(["allow", "a.md", *SAYS]) == main(["a.md"]) == 0
    for change in (("tub", "cup"), ("which knot", "whose knot"), ("Answer: C", "Answer: B")):
        repo.write("a.md", f"# Quiz\n\n{block.replace('Which', 'which').replace(*change)}\n")
        assert main(["a.md"]) == 4, change
    repo.write("a.md", f"# Quiz\n\n{block}\n\n{block.replace('knot', 'rope')}\n")
    assert main(["a.md"]) == 4
    repo.write("a.md", f"# Another quiz\n\nNew words.\n\n# Quiz\n\n{block}\n\nMore words.\n")
    assert main(["a.md"]) == 0


def test_a_range_counts_entries_of_its_base_or_of_commits_that_change_nothing_else(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = repo.git("rev-parse", "HEAD")
    base = ["--range", f"{start}..HEAD"]
    apart = [*base, "--policy-from", "apart"]
    held = {"items.jsonl": HARMLESS, NAME: policy(entry("items.jsonl", HARMLESS))}
    tip = repo.commit("Items with their entry", **held)
    assert main(base) == main(apart) == 4
    assert "mixed-commit" in codes_in(capsys.readouterr().err)
    monkeypatch.setattr("sys.stdin", given(f"refs/heads/main {tip} refs/heads/main {start}"))
    assert main(["--pushed"]) == 0  # of one's own push every entry counts
    repo.git("reset", "-q", "--hard", start)
    repo.commit("Items", **{"items.jsonl": HARMLESS})
    repo.commit("An allow list that cannot be read", **{NAME: "{"})
    repo.commit("Allow list", **{NAME: held[NAME]})
    capsys.readouterr()
    assert (main(base), main(apart)) == (4, 0)
    assert "unreviewed-entries" in codes_in(capsys.readouterr().err)
    # One entry a path: the range finds the earlier ones in its commits.
    for content in (MORE, MORE.replace("baton", "flag")):
        repo.commit(**{"items.jsonl": content})
        assert main(["allow", "items.jsonl"]) == 0
        repo.commit("Allow")
    assert len(json.loads((repo.place / NAME).read_text())["allow"]) == 1
    assert main(apart) == 0
    later = repo.commit(notes="harmless")
    capsys.readouterr()
    assert main(["--range", f"{later}^..{later}", "--policy-from", "apart"]) == 0
    assert not {"mixed-commit", "unreviewed-entries"} & {*codes_in(capsys.readouterr().err)}


FAULTY = (
    "{", "[]", "[" * 99999, '{"format": "robustify.gate-policy/1", "allow": []}',
    json.dumps({"format": FORMAT, "extra": 1}), json.dumps({"format": FORMAT, "allow": 3}), policy({"path": "a"}),
    *(policy(entry("a", "", **fault)) for fault in (
        {"expires": "soon"}, {"expires": "2099-01-01"}, {"reason": " "}, {"findings": ["0" * 31]})),
)  # fmt: skip


@pytest.mark.parametrize("text", FAULTY)
def test_a_policy_that_cannot_be_trusted_stops_the_gate(
    repo: Scanned, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.stage(NAME, text)
    assert main(["--staged"]) == 3
    told = capsys.readouterr().err
    assert NAME in told
    assert {*codes_in(told)} <= {"invalid-policy", "invalid-policy-entry"}
    former = {"path": "a", "sha256": "0" * 64, "reason": "x", "by": "y", "expires": "2026-11-30"}
    repo.stage(NAME, json.dumps({"format": "robustify.gate-policy/2", "allow": [former]}))
    assert main(["--staged"]) == 3
    assert codes_in(capsys.readouterr().err) == ["invalid-policy-entry"]


def test_outside_a_repository_files_can_be_scanned_and_git_modes_say_so(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path / "plain")
    Path("a.md").write_text(LEAK)
    assert repo.rules("a.md") == (4, {("a.md", "RBG301")})
    assert main(["--staged"]) == main(["allow", "a.md", *SAYS]) == main(["gone.md"]) == 2
    assert codes_in(capsys.readouterr().err) == ["no-git-repository", "no-work-tree", "path-not-readable"]
    monkeypatch.chdir(repo.place)
    (repo.place / ".git" / "config").write_text("[core\n")
    for args in (["--staged"], ["doctor"]):
        assert main(args) == 2
        assert "bad config" in capsys.readouterr().err


def test_without_a_key_the_gate_says_so_or_refuses_and_a_secret_store_has_it(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("a.md", LEAK)
    monkeypatch.delenv(FILE_VARIABLE)
    assert (main(["a.md"]), main(["a.md", "--require-fingerprints"])) == (0, 4)
    assert {"no-fingerprints", "missing-fingerprints"} <= {*codes_in(capsys.readouterr().err)}
    monkeypatch.setenv(VARIABLE, KEY.as_text())
    assert main(["a.md", "--require-fingerprints"]) == 4
    assert "a.md:1: RBG301" in capsys.readouterr().out


# A hostile repository, and a git that stops.


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
    repo.commit(**{"notes.md": LEAK})
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


def test_no_replaced_object_and_no_graft_hides_a_leak(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    bad = repo.commit(notes=LEAK)
    repo.git("replace", "HEAD:notes", repo.git("hash-object", "-w", "--stdin", given="harmless"))
    repo.git("replace", "--graft", bad)
    assert repo.rules("--all") == (4, {("notes", "RBG301")})
    repo.git("rm", "-q", "notes")
    last = repo.commit("Remove it")
    (repo.place / ".git" / "info" / "grafts").write_text(f"{last} {start}\n")
    assert repo.rules("--range", f"{start}..HEAD") == (4, {("notes", "RBG301")})


def test_git_gets_no_variable_that_names_a_program(repo: Scanned, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = "EXTERNAL_DIFF CONFIG_PARAMETERS CONFIG_COUNT SSH_COMMAND PAGER EXEC_PATH TRACE"
    for name in programs.split():
        monkeypatch.setenv(f"GIT_{name}", "evil")
    assert "evil" not in git_environment().values()
    # The index that git names to its hook is the one that is scanned.
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.place / ".git" / "other"))
    repo.write("notes.md", LEAK)
    for line in (["git", "read-tree", "HEAD"], ["git", "add", "notes.md"]):
        subprocess.run(line, check=True, env={n: v for n, v in os.environ.items() if v != "evil"})
    assert repo.rules("--staged") == (4, {("notes.md", "RBG301")})
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert repo.rules("--staged") == (0, set())


def test_a_missing_or_damaged_object_is_an_error_and_runs_no_transport(
    repo: Scanned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, mark = evil(tmp_path)
    start = repo.git("rev-parse", "HEAD")
    repo.commit(notes=LEAK)
    name = repo.git("rev-parse", "HEAD:notes")
    place = repo.place / ".git" / "objects" / name[:2] / name[2:]
    place.chmod(0o644)
    place.write_bytes(b"no object")
    assert main(["--all"]) == 6
    place.unlink()
    for setting, value in (
        ("core.repositoryformatversion", "1"), ("extensions.partialClone", "evil"),
        ("remote.evil.promisor", "true"), ("remote.evil.url", f"ext::{script}"),
        ("protocol.ext.allow", "always"), ("protocol.allow", "always"),
    ):  # fmt: skip
        repo.git("config", setting, value)
    assert main(["--range", f"{start}..HEAD"]) == 6
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines()), mark.exists()) == ("", 2, False)
    (repo.place / ".git" / "HEAD").write_text("no ref")
    assert main(["--staged"]) == 2


ANSWERS = (
    "name blob 500\\nshort", "name blob 0\\nno newline", "name blob 99999999\\nshort", "gone missing\\n", "",
)  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_git_that_stops_or_is_not_there_is_an_error_and_no_pass(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    repo.stage("notes.md", LEAK)
    (tmp_path / "fake").mkdir()
    other = f'exec {shutil.which("git")} "$@"'
    script = f"#!/bin/sh\ncase \"$*\" in *'cat-file --batch') printf '{answer}';; *) {other};; esac"
    (tmp_path / "fake" / "git").write_text(script)
    (tmp_path / "fake" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake'}{os.pathsep}{os.environ['PATH']}")
    assert main(["--staged"]) == 6
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--staged"]) == 6
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 2)
    assert codes_in(err)[-1] == "git-not-started"
