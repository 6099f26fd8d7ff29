"""Film the tutorial: its commands with their real output, typed in a terminal, and the pages that they write.

`python -m tools.film [-o FILE] [--frames DIR]` runs the commands of docs/tutorial.md and writes a silent film (MP4, H.264).
It requires playwright, Chromium, and imageio-ffmpeg.
"""

import argparse
import html
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from robustify.base.errors import RobustifyError, UsageError
from tools import docs, shots

OUT = shots.ROOT / "runs" / "talk" / "film.mp4"
SIZE = (1280, 720)
RATE = 20
"""Frames per second."""
TYPED, LINE, READ, SCROLLED = 0.05, 0.6, 3.0, 0.05
"""Seconds for a typed letter, for reading a line and a page, and between two steps of a scrolled page."""
STEP, ROWS = 24, 24
"""Pixels of a scrolled step, and lines that a terminal shows."""
COMMAND = re.compile(r"^```text\n\$ (.*?)^```", re.M | re.S)
PAGES: Mapping[str, tuple[str, int]] = {
    "robustify sums.csv --public -o audit": ("audit/report.html", 1800),
    "robustify explain audit": ("audit/explorer.html#verdict=flagged&item=sums-0001", 300),
    "robustify compare audit mended --html compare.html": ("compare.html", 300),
}
"""Page that follows a command, and the number of pixels by which it is scrolled."""
TERMINAL = """<body style="margin:0;background:#16181d;color:#e6e6e6">
<pre style="margin:36px 44px;font:22px/1.42 'DejaVu Sans Mono',monospace;white-space:pre-wrap">{}</pre>"""


class Frame(NamedTuple):
    """A picture of the film, and for how many seconds it stays."""

    path: Path
    seconds: float


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a rendered page with the lines that it printed."""
    for block in COMMAND.findall(page):
        for part in f"\n{block}".split("\n$ ") if "\n$ " in block else [block]:
            first, *printed = part.strip("\n").split("\n")
            yield first, printed


def typed(command: str, printed: list[str]) -> Iterator[tuple[str, float]]:
    """Yield the contents of a terminal, and for how many seconds each stays, while a command is typed and then prints."""
    for n in range(0, len(command), 2):
        yield f"$ {command[:n]}\u2588", 2 * TYPED
    yield f"$ {command}", 0.5
    for n in range(1, len(printed) + 1):
        seconds = READ / 2 + LINE * n if n == len(printed) else SCROLLED
        yield "\n".join([f"$ {command}", *printed[max(0, n - ROWS) : n]]), seconds


def frames(folder: Path, text: str, pictures: Path, browser: Any) -> Iterator[Frame]:
    """Yield the frames of a page's commands, and of the pages in `folder` that they wrote."""
    # A report forbids a browser to replace its contents, so the terminal has a page of its own.
    terminal, report = (
        browser.new_page(viewport=dict(zip(("width", "height"), SIZE, strict=True))) for _ in range(2)
    )

    def taken(screen: Any, seconds: float) -> Frame:
        path = pictures / f"{len(list(pictures.iterdir())):05}.png"
        screen.screenshot(path=str(path))
        return Frame(path, seconds)

    for command, printed in commands(text):
        for shown, seconds in typed(command, printed):
            terminal.set_content(TERMINAL.format(html.escape(shown)))
            yield taken(terminal, seconds)
        if command in PAGES:
            name, pixels = PAGES[command]
            file, _, opened = name.partition("#")
            report.goto((folder / file).resolve().as_uri() + (f"#{opened}" if opened else ""))
            yield taken(report, READ)
            for _ in range(0, pixels, STEP):
                report.mouse.wheel(0, STEP)
                report.wait_for_timeout(20)
                yield taken(report, SCROLLED)
            yield taken(report, READ / 2)


def encoded(shown: list[Frame], out: Path) -> Path:
    """Write the frames as a film (MP4, H.264, no sound). Raise `UsageError` if imageio-ffmpeg is not installed."""
    try:
        program = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except ImportError:
        raise UsageError(
            "imageio-ffmpeg is not installed. Run `pip install imageio-ffmpeg`.", code="no-ffmpeg"
        ) from None
    out.parent.mkdir(parents=True, exist_ok=True)
    # The format repeats the last picture, because it would otherwise ignore its duration.
    lines = [f"file '{frame.path}'\nduration {frame.seconds}" for frame in shown] + [
        f"file '{shown[-1].path}'"
    ]
    script = shown[0].path.parent / "frames.txt"
    script.write_text("\n".join(lines), encoding="utf-8")
    read = ("-f", "concat", "-safe", "0", "-i", str(script))
    write = (
        "-r",
        str(RATE),
        "-c:v",
        "libx264",
        "-crf",
        "26",
        "-pix_fmt",
        "yuv420p",
        "-movflags",
        "+faststart",
        str(out),
    )
    subprocess.run([program, "-loglevel", "error", "-y", *read, *write], check=True)
    return out


def main(arguments: list[str]) -> int:
    """Make the film of the tutorial, and print the path of the film."""
    parser = argparse.ArgumentParser(prog="python -m tools.film", description=__doc__)
    parser.add_argument("-o", dest="out", type=Path, default=OUT)
    parser.add_argument("--frames", type=Path, help="keep the pictures in this new folder")
    given = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder, shots.launched() as browser:
            pictures = given.frames or Path(folder)
            pictures.mkdir(parents=True, exist_ok=True)
            tutorial = docs.Page(shots.ROOT / "docs" / "tutorial.md")
            text = tutorial.rendered()
            shown = list(frames(tutorial.folder(), text, pictures, browser))
            seconds = sum(frame.seconds for frame in shown)
            path = encoded(shown, given.out)
    except RobustifyError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.exit_code
    print(f"film: {path} ({seconds:.0f} s, {path.stat().st_size / 1000:.0f} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
