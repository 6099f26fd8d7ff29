"""The page on free response: its generated blocks are fresh, and it holds every prompt."""

import re
from pathlib import Path

import pytest

from robustify.cli.free import free
from robustify.freeform.judge.store import get_store, read
from tools.docs import freeform as docs_freeform

PAGE = Path(__file__).parents[2] / "docs" / "freeform.md"
BLOCK = re.compile(r"<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end -->", re.S)


def test_every_block_is_made_and_stands_on_the_page() -> None:
    assert {name for name, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8"))} == set(docs_freeform.BLOCKS)


@pytest.mark.parametrize("name", docs_freeform.BLOCKS)
def test_generated_blocks_are_fresh(name: str) -> None:
    held = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert held[name] == docs_freeform.BLOCKS[name](), "run `make fix`"


def test_the_appendix_holds_every_prompt() -> None:
    shown = docs_freeform.prompts()
    for template in get_store():
        for name in template.files:
            assert read(template.root, name).rstrip() in shown


def test_every_command_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"free {name}" in text for name in free.commands)
