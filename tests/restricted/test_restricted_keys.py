"""The evaluator's key: what a key file must be, how one is made, and that nothing shows it."""

import hashlib
import hmac
import os
import stat
import subprocess
from pathlib import Path

import pytest

from robustify.errors import AuthorisationError, ResourceError, UsageError
from robustify.gate.key_file import Key
from robustify.restricted.secret_key import evaluator_key, new_key
from robustify.run import open_run
from tests.support import restricted_run
from tests.support.command import invoked
from tests.support.restricted_set import ADAPTER, SECRET, key_text


@pytest.fixture(autouse=True)
def no_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROBUSTIFY_KEY_FILE", "ROBUSTIFY_KEY", "ROBUSTIFY_GATE_KEY_FILE", "ROBUSTIFY_GATE_KEY"):
        monkeypatch.delenv(name, raising=False)


def key_file(folder: Path, held: str | None = None, mode: int = 0o600) -> str:
    place = folder / "ids.key"
    place.write_text(key_text(SECRET) if held is None else held)
    place.chmod(mode)
    return str(place)


def test_a_new_key_is_256_random_bits_that_only_its_owner_reads_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        made = new_key(tmp_path / "a.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    assert evaluator_key(str(tmp_path / "a.key")) == made
    assert len(made.secret) == 32
    assert new_key(tmp_path / "b.key").secret != made.secret


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    place = Path(key_file(tmp_path))
    with pytest.raises(UsageError, match="never overwritten"):
        new_key(place)
    assert place.read_text() == key_text(SECRET)


def test_a_key_that_cannot_be_written_is_a_matter_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="cannot be written"):
        new_key(tmp_path / "nowhere" / "a.key")


def test_no_key_is_made_inside_a_git_work_tree(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(AuthorisationError, match="git work tree"):
        new_key(tmp_path / "a.key")
    assert not (tmp_path / "a.key").exists()


def test_the_id_and_the_subkeys_are_those_of_the_design() -> None:
    key = load_key_of(SECRET)
    assert key.id == hmac.new(SECRET, b"robustify/v1/key-id", hashlib.sha256).digest()[:8].hex()
    for purpose in ("ids", "cache", "manifest", "baseline"):
        expected = hmac.new(SECRET, f"robustify/v1/{purpose}".encode(), hashlib.sha256).digest()
        assert key.derived(purpose) == expected
    assert len({key.derived(p) for p in ("ids", "cache", "manifest", "baseline")}) == 4


def load_key_of(secret: bytes) -> Key:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBUSTIFY_KEY", key_text(secret))
        return evaluator_key()


def test_what_an_older_key_on_the_ring_sealed_or_listed_still_opens(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(base).items():
        monkeypatch.setenv(name, value)
    split = base / "out" / "run" / "splits" / "robust.json"
    verify = ("restricted", "split", "verify", str(split), "--data", ADAPTER)
    old = Path(os.environ["ROBUSTIFY_KEY_FILE"]).read_text("ascii")
    new_key(tmp_path / "new.key")
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(tmp_path / "new.key"))
    with pytest.raises(AuthorisationError):
        open_run(base / "out" / "run")
    assert isinstance(invoked(*verify).exception, AuthorisationError)
    ring = tmp_path / "ring"
    ring.mkdir(mode=0o700)
    key_file(ring, old)
    new_key(ring / "a stranger's.key")
    monkeypatch.setenv("ROBUSTIFY_KEY_RING", str(ring))
    run = open_run(base / "out" / "run")
    assert run.manifest["key_id"] == old.split(":")[1] != evaluator_key().id
    assert invoked(*verify).return_value == 0
    (ring / "ids.key").chmod(0o644)
    with pytest.raises(AuthorisationError, match="others may read it"):
        open_run(base / "out" / "run")
    monkeypatch.setenv("ROBUSTIFY_KEY_RING", str(tmp_path / "nowhere"))
    with pytest.raises(AuthorisationError, match="ROBUSTIFY_KEY_RING"):
        open_run(base / "out" / "run")


def test_the_gate_s_key_is_refused_as_the_key_of_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = key_file(tmp_path)
    monkeypatch.setenv("ROBUSTIFY_GATE_KEY_FILE", place)
    with pytest.raises(AuthorisationError, match="gate's key too"):
        evaluator_key(place)


def test_the_commands_make_and_check_a_key_and_never_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ids.key"
    said = []
    for args in (
        ["key", "new", "--out", str(place)],
        ["key", "new", "--json", "--out", str(tmp_path / "b.key")],
        ["key", "check", str(place)],
        ["key", "check", "--json", str(place)],
    ):
        done = invoked("restricted", *args)
        assert done.return_value == 0, done.exception
        said.append(done.output)
    secret = place.read_text().strip().split(":")[2]
    assert secret not in "".join(said)
    assert said[2] == f"key {place.read_text().split(':')[1]}: usable\n"
    monkeypatch.setenv("ROBUSTIFY_KEY", place.read_text())
    from_store = invoked("restricted", "key", "check").output
    assert from_store == said[2]
    assert secret not in from_store


def test_the_commands_take_no_key_as_an_argument(tmp_path: Path) -> None:
    done = invoked("restricted", "key", "check", key_text(SECRET).strip())
    assert isinstance(done.exception, AuthorisationError)
    assert key_text(SECRET).split(":")[2].strip() not in str(done.exception) + done.output
    assert isinstance(
        invoked("restricted", "key", "check", key_file(tmp_path, mode=0o644)).exception, AuthorisationError
    )
