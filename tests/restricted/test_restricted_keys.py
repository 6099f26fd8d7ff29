"""The evaluator's key: what a key file must be, how one is made, and that nothing shows it."""

import hashlib
import hmac
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from robustify.base.errors import AuthorisationError
from robustify.base.key_file import Key, evaluator_key
from robustify.restricted.ids import new_key
from tests.support.cases import refuses
from tests.support.command import invoked
from tests.support.restricted_set import SECRET, key_file, key_text


@pytest.fixture(autouse=True)
def no_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROBUSTIFY_KEY_FILE", "ROBUSTIFY_GATE_KEY_FILE", "ROBUSTIFY_GATE_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_new_key_is_256_random_bits_that_only_its_owner_reads_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        made = new_key(tmp_path / "a.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    assert evaluator_key(tmp_path / "a.key") == made
    assert len(made.secret) == 32
    below = tmp_path / "new" / "b.key"
    assert new_key(below).secret != made.secret
    assert below.parent.stat().st_mode & 0o777 == 0o700


def in_a_work_tree(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder / "a.key"


NO_PLACES: dict[str, tuple[Callable[[Path], Path], int, str]] = {
    "another key": (key_file, 2, "file-exists"),
    "below a file": (lambda folder: key_file(folder) / "a.key", 6, "file-not-writable"),
    "a work tree": (in_a_work_tree, 4, "private-file-in-git"),
}


@pytest.mark.parametrize(("place", "ends", "code"), NO_PLACES.values(), ids=NO_PLACES)
def test_no_key_is_made_there(tmp_path: Path, place: Callable[[Path], Path], ends: int, code: str) -> None:
    out = place(tmp_path)
    held = out.read_text() if out.exists() else None
    with refuses(code) as error:
        new_key(out)
    assert error.value.exit_code == ends
    assert (out.read_text() if out.exists() else None) == held


def test_the_id_and_the_subkeys_are_those_of_the_design() -> None:
    key = Key.of(SECRET)
    assert key.id == hmac.new(SECRET, b"robustify/v1/key-id", hashlib.sha256).digest()[:8].hex()
    purposes = ("ids", "cache", "manifest", "releases")
    for purpose in purposes:
        expected = hmac.new(SECRET, f"robustify/v1/{purpose}".encode(), hashlib.sha256).digest()
        assert key.derived(purpose) == expected
    assert len({key.derived(p) for p in purposes}) == 4


def test_the_gate_s_key_is_refused_as_the_key_of_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = key_file(tmp_path)
    monkeypatch.setenv("ROBUSTIFY_GATE_KEY_FILE", str(place))
    with refuses("shared-key"):
        evaluator_key(place)


def test_the_commands_make_a_key_and_never_show_or_take_one(tmp_path: Path) -> None:
    place, secret = tmp_path / "a.key", key_text(SECRET).strip()
    said = [
        invoked("restricted", "key", "new", "--out", place).output,
        invoked("restricted", "key", "new", "--json", "--out", tmp_path / "b.key").output,
        invoked("restricted", "key", "releases", place).output,
    ]
    held = place.read_text().strip().split(":")
    assert held[2] not in "".join(said)
    assert f"releases under key {held[1]}" in said[2]
    refused = invoked("restricted", "key", "releases", secret)
    assert isinstance(refused.exception, AuthorisationError)
    assert secret.split(":")[2] not in str(refused.exception) + refused.output
    place.chmod(0o644)
    assert isinstance(invoked("restricted", "key", "releases", place).exception, AuthorisationError)


def test_a_new_key_for_the_gate_does_not_replace_the_key_of_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last one was exported before the key was made.
    for ids, new, told in (("", "a.key", True), ("ids.key", "b.key", False), ("c.key", "c.key", True)):
        monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(tmp_path / ids) if ids else "")
        said = invoked("restricted", "key", "new", "--out", tmp_path / new).output
        exports = dict(re.findall(r"export (\w+)=(\S+)", said))
        assert exports.pop("ROBUSTIFY_GATE_KEY_FILE") == str(tmp_path / new)
        assert exports == ({"ROBUSTIFY_KEY_FILE": str(tmp_path / new)} if told else {})
