"""The page on free response: its generated blocks are fresh, it holds every prompt, its measurement is what it says."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bench import freeform as bench
from robustify.cli.free import free
from robustify.freeform.judge.store import get_store, pack_text
from tests.freeform.scripted import run
from tests.freeform.stub_server import serving
from tools.docs import freeform as docs_freeform

PAGE = Path(__file__).parents[2] / "docs" / "freeform.md"


def test_the_appendix_holds_every_prompt() -> None:
    shown = docs_freeform.prompts()
    for template in get_store():
        for name in template.files:
            assert pack_text(template.root, name).rstrip() in shown


def test_every_command_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"free {name}" in text for name in free.commands)


def test_the_measurement_reads_every_reply_as_it_was_meant() -> None:
    found = bench.measured(60)
    assert {case["replies"] for case in found["cases"].values()} == {60}
    assert found["cpu_seconds"] == pytest.approx(
        sum(c["cpu_seconds"] for c in found["cases"].values()), abs=1e-3
    )


def test_a_reply_that_is_read_otherwise_stops_the_measurement() -> None:
    with pytest.raises(SystemExit, match="3 of 3 replies"):
        bench.timed(3, lambda i, rng: i, lambda _: False)


def test_the_committed_result_is_of_the_whole_work() -> None:
    found = json.loads(bench.RESULTS.read_text(encoding="utf-8"))
    assert {case["replies"] for case in found["cases"].values()} == {bench.N}
    assert found["goal_seconds"] == bench.GOAL_SECONDS
    assert found["met"] is (found["cpu_seconds"] <= found["goal_seconds"])


FILE_BLOCK = re.compile(r"```(?:json|text) (\S+)\n(.*?)```", re.S)
COMMAND = re.compile(r"```console\n\$ robustify free (.*?)\n(.*?)```", re.S)


def transcript(folder: Path, text: str) -> str:
    """The page with what each command prints, run on the files of the page against a stub of a judge."""
    for name, content in FILE_BLOCK.findall(text):
        (folder / name).write_text(content, encoding="utf-8")
    with serving() as url, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)

        def printed(found: "re.Match[str]") -> str:
            words = [word.replace("http://127.0.0.1:8000/v1", url) for word in shlex.split(found[1])]
            return f"```console\n$ robustify free {found[1]}\n{run(*words).stdout.rstrip()}\n```"

        return COMMAND.sub(printed, text)


def test_the_commands_of_the_page_print_what_stands_under_them(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(COMMAND.findall(text)) == 4
    assert transcript(tmp_path, text) == text
