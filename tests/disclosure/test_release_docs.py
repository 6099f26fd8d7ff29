"""docs/responsible_release.md says what the code does: its commands are run as they stand there."""

import re
import shlex
from pathlib import Path

import pytest

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
    key.write_text(restricted_set.key_text(b"another key of thirty-two bytes!"), encoding="ascii")
    key.chmod(0o600)
    meant = {"RUN": str(base / "out" / "run"), "ADAPTER": restricted_set.ADAPTER, "NEW.key": str(key),
             "PRIVATE": "mine"}  # fmt: skip
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    lines = block.strip().splitlines()
    assert [line.split()[2] for line in lines] == ["emit", "verify", "apply", "rekey"]
    for line in lines:
        for word, place in meant.items():
            line = re.sub(rf"\b{re.escape(word)}\b", place, line)
        done = invoked(*shlex.split(line)[1:])
        assert done.return_value == 0, (line, done.exception)
    assert (tmp_path / "robust-2.json").is_file()
    assert (tmp_path / "mine" / "robust.jsonl").is_file()


def test_the_page_names_every_option_that_the_loader_refuses() -> None:
    page = PAGE.read_text("utf-8")
    for option in ("--log_samples", "--write_out", "--use_cache", "--cache_requests"):
        assert f"`{option}`" in page
    assert "test_attacks.py" in page
