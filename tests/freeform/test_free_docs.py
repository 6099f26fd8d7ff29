"""The page on free response: every command is named, and what stands under its commands is what they print."""

import json
import re
import shlex
from pathlib import Path

import pytest

from robustify.cli.free import free
from robustify.pipeline.free_settings import FreeSettings, JudgeSettings
from tests.freeform.scripted import run
from tests.freeform.stub_server import serving

PAGE = Path(__file__).parents[2] / "docs" / "freeform.md"
FILE_BLOCK = re.compile(r"```(?:json|text) (\S+)\n(.*?)```", re.S)
COMMAND = re.compile(r"```console\n\$ robustify free (.*?)\n(.*?)```", re.S)


def test_every_command_and_every_setting_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"free {name}" in text for name in free.commands)
    assert all(f"`{name}`" in text for name in (*FreeSettings.model_fields, *JudgeSettings.model_fields))


def test_the_commands_of_the_page_print_what_stands_under_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, content in FILE_BLOCK.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    with serving() as url:

        def printed(found: "re.Match[str]") -> str:
            words = [word.replace("http://127.0.0.1:8000/v1", url) for word in shlex.split(found[1])]
            return f"```console\n$ robustify free {found[1]}\n{run(*words).stdout.rstrip()}\n```"

        assert len(COMMAND.findall(text)) >= 2
        assert COMMAND.sub(printed, text) == text
    shown = json.loads(re.findall(r"```json\n(.*?)\n```", text)[0])
    lines = map(json.loads, Path("graded", "free.jsonl").read_text("utf-8").splitlines())
    assert any(shown.items() <= line.items() for line in lines)
