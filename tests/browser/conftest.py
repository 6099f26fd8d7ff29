"""A real browser: Debian's Chromium, driven by playwright; every test here is skipped where one of them is missing.

A page under test may ask for nothing and may say nothing on the console. axe-core is looked for at
`ROBUSTIFY_TEST_AXE`, else in `.axe/` (`npm install --prefix .axe axe-core`), which git ignores.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import shots

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("ROBUSTIFY_TEST_AXE", ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"))
Open = Callable[..., Any]
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="needs playwright to drive a browser")
    if shots.chromium() is None:
        pytest.skip("needs chromium on the path (Debian: apt-get install chromium)")
    with shots.launched() as found:
        yield found


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a file in a window of its own; at the end no request has left and nothing was said on the console."""
    contexts, said, asked = [], [], []

    def opened(path: Path, hash_: str = "", **settings: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + hash_)
        return page

    yield opened
    for context in contexts:
        context.close()
    # What the policy refuses it says; a test that provokes it looks for the refusal itself.
    assert [text for text in said if "requires 'Trusted" not in text] == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) <= len(contexts)
