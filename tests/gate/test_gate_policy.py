"""The policy file: what an entry lifts and what nothing lifts, `gate allow`, and files of the former format."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from robustify.gate.command import main
from robustify.gate.key_file import FILE_VARIABLE, VARIABLE
from robustify.gate.policy import FORMAT, NAME
from tests.gate.repo import HARMLESS, LEAK, ROOT, Scanned, entry, policy
from tests.gate.sets import KEY

SAYS = ["--reason", "made up", "--by", "a test"]


def test_an_entry_lifts_what_is_found_at_its_path_in_its_content_until_its_day(repo: Scanned) -> None:
    yesterday = (date.today() - timedelta(days=1)).isoformat()
    fits = entry("a.jsonl", HARMLESS)
    for allow, code in (
        (fits, 0),
        (entry("b.jsonl", HARMLESS), 4),
        (entry("a.jsonl", HARMLESS + "\n"), 4),
        (entry("a.jsonl", HARMLESS, expires=yesterday), 4),
    ):
        repo.write("a.jsonl", HARMLESS)
        repo.stage(NAME, policy(allow))
        assert main(["--staged"]) == code
        assert main(["a.jsonl"]) == code
    repo.write(NAME, policy(fits))
    repo.stage("a.jsonl", HARMLESS + "\n")
    assert main(["--staged"]) == 4


def test_an_entry_that_is_not_staged_does_not_count(repo: Scanned) -> None:
    repo.stage("a.jsonl", HARMLESS)
    repo.write(NAME, policy(entry("a.jsonl", HARMLESS)))
    assert main(["--staged"]) == 4


def test_a_range_is_judged_by_the_policy_it_began_with(repo: Scanned) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.commit(**{"a.jsonl": HARMLESS, NAME: policy(entry("a.jsonl", HARMLESS))})
    assert main(["--range", f"{start}..HEAD"]) == 4
    assert main(["--range", f"{start}..HEAD", "--policy-from", "head"]) == 0


@pytest.mark.parametrize("mode", ["head", "apart"])
def test_a_content_that_was_replaced_keeps_its_entry_for_a_range(repo: Scanned, mode: str) -> None:
    """`gate allow` leaves one entry per path: the range finds the earlier ones in its own commits."""
    start = repo.git("rev-parse", "HEAD")
    for content in (bytes(range(256)), bytes(range(255, -1, -1))):
        repo.commit(table=content)
        assert main(["allow", "table", *SAYS]) == 0
        repo.commit("Allow")
    assert len(json.loads((repo.place / NAME).read_text())["allow"]) == 1
    assert main(["--range", f"{start}..HEAD", "--policy-from", mode]) == 0
    assert main(["--range", f"{start}..HEAD"]) == 4


def test_no_entry_lifts_a_fingerprint(repo: Scanned) -> None:
    repo.write("a.md", LEAK)
    repo.stage(NAME, policy(entry("a.md", LEAK)))
    assert main(["--staged"]) == 4
    assert main(["allow", "a.md", *SAYS]) == 4
    assert len(json.loads((repo.place / NAME).read_text())["allow"]) == 1


def test_there_is_no_pragma_that_lifts_a_finding(repo: Scanned) -> None:
    for pragma in (
        "pragma: allowlist secret",
        "gitleaks:allow",
        "robustify: allow",
        "noqa",
        "robustify-gate: off",
    ):
        repo.write("a.md", f"# {pragma}\n{LEAK}  # {pragma}\n")
        assert main(["a.md"]) == 4


def test_allow_binds_one_entry_per_path_and_renews_it_without_a_word(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write("demo/a.jsonl", HARMLESS)
    repo.write("b.md", "harmless")
    assert main(["allow", "demo/a.jsonl", "b.md"]) == 2
    assert "demo/a.jsonl has no entry yet" in capsys.readouterr().err
    assert main(["allow", "demo/a.jsonl", "b.md", *SAYS]) == 0
    assert capsys.readouterr().out == "demo/a.jsonl: RBG101\nb.md: nothing to allow\n"
    assert main(["demo/a.jsonl"]) == 0
    repo.write("demo/a.jsonl", HARMLESS + HARMLESS)
    assert main(["demo/a.jsonl"]) == 4
    assert main(["allow", "demo/a.jsonl", "--days", "1"]) == 0
    assert main(["demo/a.jsonl"]) == 0
    (row,) = json.loads((repo.place / NAME).read_text())["allow"]
    assert (row["path"], row["reason"], row["by"]) == ("demo/a.jsonl", "made up", "a test")
    assert row["expires"] == (date.today() + timedelta(days=1)).isoformat()
    assert main(["allow", "demo/a.jsonl", "--days", "181"]) == 2


def test_a_policy_of_the_former_format_is_read_and_written_anew(repo: Scanned) -> None:
    row = entry("a.jsonl", HARMLESS) | {"rule": "RBG101"}
    demo = [{"path": "demo", "licence": "CC0-1.0", "reason": "made up"}]
    old = {
        "format": "robustify.gate-policy/1",
        "allow": [row, row | {"rule": "RBG103"}],
        "safe_demo_paths": demo,
    }
    repo.write("a.jsonl", HARMLESS)
    repo.write(NAME, json.dumps(old))
    assert main(["a.jsonl"]) == 0
    assert main(["allow", "a.jsonl"]) == 0
    held = json.loads((repo.place / NAME).read_text())
    assert (held["format"], len(held["allow"])) == (FORMAT, 1)


FAULTY = (
    "{", "[]", "[" * 99999, '{"format": "other"}', json.dumps({"format": FORMAT, "extra": 1}),
    json.dumps({"format": FORMAT, "safe_demo_paths": []}), json.dumps({"format": FORMAT, "allow": 3}),
    policy({"path": "a"}),
    *(policy(entry("a", "", **fault)) for fault in (
        {"expires": "soon"}, {"expires": "2099-01-01"}, {"reason": " "}, {"sha256": "0" * 63})),
)  # fmt: skip


@pytest.mark.parametrize("text", FAULTY)
def test_a_policy_that_cannot_be_trusted_stops_the_gate(
    repo: Scanned, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.stage(NAME, text)
    assert main(["--staged"]) == 3
    assert NAME in capsys.readouterr().err


def test_a_file_that_is_too_large_to_read_gets_no_entry(
    repo: Scanned, capsys: pytest.CaptureFixture[str]
) -> None:
    with (repo.place / "huge").open("wb") as file:
        file.truncate(20 << 20)
    assert main(["allow", "huge", *SAYS]) == 4
    assert "huge is larger than the gate reads" in capsys.readouterr().err


def test_outside_a_repository_files_can_be_scanned_and_git_modes_say_so(
    repo: Scanned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path / "plain")
    Path("a.md").write_text(LEAK)
    assert repo.rules("a.md") == (4, {("a.md", "RBG301")})
    assert main(["--staged"]) == main(["allow", "a.md", *SAYS]) == 2
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


def test_this_repository_s_own_policy_can_be_trusted() -> None:
    held = json.loads((ROOT / NAME).read_text(encoding="utf-8"))
    assert held["format"] == FORMAT
    assert len({row["path"] for row in held["allow"]}) == len(held["allow"])
