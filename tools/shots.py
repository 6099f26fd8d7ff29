"""Take the screenshots of the docs with Chromium: the report and explorer of a run, and the comparison in the tutorial.

`python -m tools.shots [RUN] [-o DIR]` writes docs/img. It requires playwright and Chromium on the path (Debian:
`apt-get install chromium`). If the run has no explorer, the tool first judges a copy of the run again.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robustify.base.errors import UsageError
from robustify.pipeline.steps import rejudge
from robustify.runs.run import EXPLORER, open_run
from robustify.wings import GUARD
from tools import docs

ROOT = Path(__file__).parents[1]
DESK, PHONE = (1280, 800), (390, 844)
OPENED = f"{EXPLORER}#verdict=flagged&item="
ITEM = "history-01"
SHOTS: dict[str, tuple[str, tuple[int, int], str]] = {
    "first-screen": ("report.html", DESK, "light"),
    "first-screen-dark": ("report.html", DESK, "dark"),
    "first-screen-phone": ("report.html", PHONE, "light"),
    "explorer": (OPENED + ITEM, DESK, "light"),
    "explorer-dark": (OPENED + ITEM, DESK, "dark"),
    "explorer-phone": (OPENED + ITEM, PHONE, "light"),
}
"""Page, window size, and theme of each screenshot of a run."""
COMPARE: dict[str, tuple[str, tuple[int, int], str]] = {"compare": ("compare.html", (1280, 520), "light")}
"""Page, window size, and theme of each screenshot of the tutorial's folder."""


def chromium() -> str | None:
    """Return the path of Chromium; None if it is not on the path."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def launched() -> Iterator[Any]:
    """Start a headless browser, and close it at the end. Raise `UsageError` if Chromium or playwright is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UsageError("playwright is not installed. Run `pip install playwright`.") from None
    program = chromium()
    if program is None:
        raise UsageError("Chromium is not on the path. On Debian, run `apt-get install chromium`.")
    with sync_playwright() as started:
        # Chromium cannot use its sandbox as root, and containers run as root.
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def taken(run: Path, out: Path, shots: Mapping[str, tuple[str, tuple[int, int], str]] = SHOTS) -> list[Path]:
    """Take the screenshots of the pages in a folder, write them to `out`, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    with launched() as browser:
        for name, (where, (width, height), theme) in shots.items():
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=theme, is_mobile=width < 600
            )
            file, _, hash_ = where.partition("#")
            page.goto((run / file).resolve().as_uri() + (f"#{hash_}" if hash_ else ""))
            page.screenshot(path=str(out / f"{name}.png"))
            page.close()
            written.append(out / f"{name}.png")
    return written


def main(arguments: list[str]) -> int:
    """Take all screenshots, by default of the demo's run."""
    parser = argparse.ArgumentParser(prog="python -m tools.shots", description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, default=ROOT / "results" / "benign_demo")
    parser.add_argument("-o", dest="out", type=Path, default=ROOT / "docs" / "img")
    asked = parser.parse_args(arguments)
    run = open_run(asked.run, GUARD)
    with tempfile.TemporaryDirectory() as folder:
        if EXPLORER not in run.manifest["files"]:
            run = rejudge(run, {"alternatives": []}, Path(folder) / "run")
        for path in taken(run.folder, asked.out):
            print(path)
    tutorial = docs.Page(ROOT / "docs" / "tutorial.md")
    tutorial.rendered()
    print(*taken(tutorial.folder(), asked.out, COMPARE))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
