"""docs/responsible_release.md says what the code does: its commands are run as they stand there."""

import json
import re
import shlex
from pathlib import Path

import pytest

from robustify.errors import AuthorisationError
from tests.support import restricted_run, restricted_set
from tests.support.command import invoked

PAGE = Path(__file__).parents[2] / "docs" / "responsible_release.md"


def test_the_commands_of_the_page_run_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(base).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ROBUSTIFY_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir(mode=0o700)
    key = tmp_path / "mine" / "new.key"
    assert invoked("key", "new", "-o", key).return_value == 0
    meant = {"RUN": str(base / "out" / "run"), "ADAPTER": restricted_set.ADAPTER, "NEW.key": str(key),
             "PRIVATE": "mine"}  # fmt: skip
    block, _ = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    lines = block.strip().splitlines()
    assert [line.split()[2] for line in lines] == [
        "published", "ledger", "emit", "verify", "apply", "rekey",
    ]  # fmt: skip
    for line in lines:
        for word, place in meant.items():
            line = re.sub(rf"\b{re.escape(word)}\b", place, line)
        done = invoked(*shlex.split(line)[1:])
        assert done.return_value == 0, (line, done.exception)
    assert (tmp_path / "robust-2.json").is_file()
    assert (tmp_path / "mine" / "robust.jsonl").is_file()


def lab(folder: Path, key: Path, patch: pytest.MonkeyPatch, n: int = 80, name: str = "run") -> Path:
    """The set audited in a laboratory of its own, with `n` items, under the joint key."""
    out = restricted_run.prepare(folder, patch, n)
    patch.setenv("ROBUSTIFY_KEY_FILE", str(key))
    return restricted_run.run(folder, out / name).folder


def handed_over(source: Path, to: Path) -> None:
    to.write_bytes(source.read_bytes())
    to.chmod(0o600)


@pytest.mark.slow
def test_two_laboratories_follow_the_recipe_and_see_each_other_s_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {name: tmp_path / name for name in "AB"}
    keys = {name: tmp_path / f"JOINT_{name}" for name in "AB"}
    runs: dict[str, Path] = {}
    _, block = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    seen = []
    for line in block.strip().splitlines():
        here, _, command = line.strip().partition(": ")
        if here in ("(A to B", "(B to A"):
            source, to = here[1], here[-1]
            for end in ("", ".ledger"):
                handed_over(Path(f"{keys[source]}{end}"), Path(f"{keys[to]}{end}"))
            continue
        if here in keys and here not in runs and "key new" not in command:
            folders[here].mkdir(mode=0o700)
            runs[here] = lab(folders[here], keys[here], monkeypatch)
        for name, value in restricted_run.environment(folders[here]).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(keys[here]))
        for word, place in {"JOINT_A": keys["A"], "JOINT_B": keys["B"], "ADAPTER": restricted_set.ADAPTER,
                            **{f"RUN_{name}": run for name, run in runs.items()}}.items():  # fmt: skip
            command = re.sub(rf"\b{word}\b", str(place), command)
        done = invoked(*shlex.split(command)[1:])
        assert done.return_value == 0, (line, done.exception)
        seen.append((here, *command.split()[1:3]))
    assert {one[0] for one in seen} == {"A", "B"}
    shown = json.loads(invoked("key", "ledger", "--json").output)["releases"]
    assert [one["what"] for one in shown] == ["robust", "summary", "shortcut"]
    # B publishes about the set less one item, and what A published refuses it; without that copy nothing would.
    whole = restricted_set.items
    monkeypatch.setattr(restricted_set, "items", lambda n, seed=2026: whole(80)[:n])
    (tmp_path / "C").mkdir(mode=0o700)
    less = lab(tmp_path / "C", keys["B"], monkeypatch, 79)
    for name, value in restricted_run.environment(tmp_path / "C").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(keys["B"]))
    refused = invoked("export", "published", less, "-o", tmp_path / "less").exception
    assert isinstance(refused, AuthorisationError)
    Path(f"{keys['B']}.ledger").unlink()
    assert invoked("key", "ledger", "--begin").return_value == 0
    assert invoked("export", "published", less, "-o", tmp_path / "less").return_value == 0


def test_the_page_names_every_option_that_the_loader_refuses() -> None:
    page = PAGE.read_text("utf-8")
    for option in ("--log_samples", "--write_out", "--use_cache", "--cache_requests"):
        assert f"`{option}`" in page
    assert "test_attacks.py" in page
