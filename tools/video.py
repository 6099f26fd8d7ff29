"""Make the video of the demo, its pages, and a commit that the gate refuses: writes runs/talk/video.mp4.

Usage: `python -m tools.video [RUN] [-o FILE] [--frames FOLDER] [--silent]`. The commands run while the video is made, and
waiting times are removed. Requires Chromium and ffmpeg. If espeak-ng is on the path, it reads the captions aloud.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from robustify.errors import ResourceError, RobustifyError, UsageError
from robustify.run import open_run
from tools import shots

ROOT = Path(__file__).parents[1]
OUT = ROOT / "runs" / "talk" / "video.mp4"
SIZE = {"width": 1280, "height": 720}
LONGEST, LARGEST = 120.0, 10_000_000
"""Largest duration in seconds and largest size in bytes."""
RATE, VOICE_RATE = 15, 22_050
"""Frames per second, and samples per second of the voice."""
PROMPT, LETTERS = "$ ", "ABCD"
STAGE = """<!doctype html><meta charset=utf-8><style>
body{margin:0;background:#fdfdfc;color:#1c2126;font:22px/1.45 'DejaVu Sans',sans-serif;overflow:hidden}
main>*{position:absolute;inset:0 0 84px 0;box-sizing:border-box;border:0;width:1280px;height:636px;display:none}
#terminal{margin:0;padding:26px 34px;background:#15191c;color:#e4e8ea;font:21px/1.4 'DejaVu Sans Mono',monospace;
 white-space:pre-wrap;overflow:hidden}
#card{padding:80px 110px}#card h1{font-size:46px;line-height:1.25;border-left:8px solid #d9714c;padding-left:24px}
#card li{list-style:none;background:#f4f5f4;margin:0 0 14px;padding:14px 20px;border-radius:4px}
#card li.key{background:#0b6473;color:#fdfdfc}#card p{color:#59636c}
#caption{position:absolute;inset:636px 0 0 0;margin:0;display:grid;place-items:center;text-align:center;
 background:#1c2126;color:#fdfdfc;padding:0 60px;font-size:25px;line-height:1.25}
#pointer{position:absolute;width:26px;height:26px;border-radius:50%;background:#d9714caa;border:2px solid #fff;display:none}
</style><main><pre id=terminal></pre><iframe id=page></iframe><div id=card></div></main><p id=caption></p>
<i id=pointer></i>"""


class Film:
    """A film as a list of frames with durations, drawn in a browser page, and of spoken captions with start times."""

    def __init__(self, page: Any, folder: Path, *, spoken: bool) -> None:
        self.page, self.folder, self.spoken = page, folder, spoken
        self.pictures: list[tuple[Path, float]] = []
        self.voice: list[tuple[float, Path]] = []
        self._caption_until = 0.0
        page.set_viewport_size(SIZE)
        stage = folder / "stage.html"  # a file URL, because only such a page may show files in a frame
        stage.write_text(STAGE, encoding="utf-8")
        page.goto(stage.as_uri())

    @property
    def seconds(self) -> float:
        """Duration so far in seconds."""
        return sum(seconds for _, seconds in self.pictures)

    def shot(self, seconds: float) -> None:
        """Add the current page as a frame that is shown for this many seconds."""
        path = self.folder / f"{len(self.pictures):04}.png"
        self.page.screenshot(path=str(path))
        self.pictures.append((path, seconds))

    @contextmanager
    def caption(self, words: str) -> Iterator[None]:
        """Show a caption during the block, and afterwards until there was time to read and speak it."""
        begun, needed = self.seconds, 1.2 + 0.3 * len(words.split())
        self._set("caption", "textContent", words)
        if self.spoken:
            spoken = self.folder / f"{len(self.voice):02}.wav"
            subprocess.run(["espeak-ng", "-v", "en-us", "-s", "165", "-w", str(spoken), words], check=True)
            with wave.open(str(spoken)) as file:
                needed = max(needed, file.getnframes() / file.getframerate() + 0.4)
            self.voice.append((begun, spoken))
        yield
        self.shot(max(0.3, needed - (self.seconds - begun)))

    def show(self, part: str) -> None:
        """Show the terminal, the page, or the card."""
        self.page.evaluate(
            "p => document.querySelectorAll('main > *').forEach(e => e.style.display = e.id == p ? 'block' : 'none')",
            part,
        )
        self.page.evaluate("document.getElementById('pointer').style.display = 'none'")

    def card(self, markup: str) -> None:
        """Show a card with this text."""
        self._set("card", "innerHTML", markup)
        self.show("card")

    def clear(self) -> None:
        """Show an empty terminal."""
        self._set("terminal", "textContent", PROMPT)
        self.show("terminal")

    def command(self, typed: str, run: Sequence[str], cwd: Path, lines: int = 99) -> None:
        """Show a command being typed, run it, and show the first lines of its output."""
        shown = self.page.inner_text("#terminal").rstrip() + " "
        for n in range(1, len(typed), 3):
            self._set("terminal", "textContent", shown + typed[:n] + "█")
            self.shot(0.1)
        done = subprocess.run(
            run,
            cwd=cwd,
            text=True,
            capture_output=True,
            check=False,
            env={**os.environ, "COLUMNS": "92", "NO_COLOR": "1"},
        )
        said = (done.stdout + done.stderr).splitlines()[:lines]
        shown += "\n".join([typed, *said]) + "\n"
        self._set("terminal", "textContent", shown + PROMPT)
        self.shot(0.6)

    def open(self, page: Path) -> Any:
        """Open a page of a run in the frame."""
        self._set("page", "src", page.resolve().as_uri())
        self.show("page")
        frame = self.page.query_selector("#page").content_frame()
        frame.wait_for_load_state()
        return frame

    def click(self, target: Any) -> None:
        """Move the pointer to an element and click it."""
        box = target.bounding_box()
        x, y = box["x"] + min(box["width"] / 2, 150), box["y"] + box["height"] / 2
        move = "([x, y]) => Object.assign(pointer.style, {display: 'block', left: `${x - 13}px`, top: `${y - 13}px`})"
        for step in range(1, 9):
            self.page.evaluate(move, [640 + (x - 640) * step / 8, 620 + (y - 620) * step / 8])
            self.shot(0.07)
        self.shot(0.3)
        target.click()
        self.page.wait_for_timeout(150)
        self.shot(0.5)

    def scroll(self, target: Any, pixels: int) -> None:
        """Move the content of an element of the page smoothly."""
        for _ in range(pixels // 32):
            target.evaluate("e => e.scrollBy(0, 32)")
            self.shot(0.07)

    def _set(self, id_: str, field: str, value: str) -> None:
        self.page.evaluate("([i, f, v]) => { document.getElementById(i)[f] = v }", [id_, field, value])


def played(film: Film, folder: Path, work: Path) -> None:
    """Record all scenes. Every number in a caption is read from the run."""
    run = open_run(folder)
    items, splits, cut = run.items, run.summary.tree()["splits"], run.summary.tree()["screen"]["cut"]
    item = next(item for item in items if item.id == "computing-01")
    choices = [
        f"<li{' class=key' * (n == item.key)}><b>{LETTERS[n]}</b> {escape(text)}</li>"
        for n, text in enumerate(item.choices)
    ]
    shutil.copytree(folder, work / "asked")
    shutil.copy(ROOT / "configs" / "data" / "benign_demo.jsonl", work / "items.jsonl")
    robustify = [sys.executable, "-m", "robustify"]

    film.card(
        "<h1>How much of a multiple-choice score is knowledge, and how much is test-taking?</h1><p>robustify</p>"
    )
    with film.caption("How much of a multiple-choice score is knowledge, and how much is test-taking?"):
        film.shot(1)
    film.card(f"<ul>{''.join(choices).replace(' class=key', '')}</ul>")
    with film.caption("Four options, and no question. Which one is right?"):
        film.shot(3)
    film.card(f"<ul>{''.join(choices)}</ul>")
    with film.caption(
        f"{LETTERS[item.key]}, the long one. Nobody needed the question, but a score counts this as knowledge."
    ):
        film.shot(1)

    film.clear()
    with film.caption("Simple rules that see only the options find more keys than expected by chance."):
        film.command("robustify heuristics items.jsonl", [*robustify, "heuristics", "items.jsonl"], work, 12)
    film.clear()
    with film.caption(
        "Two small models were asked earlier. Judging their answers needs no model. Waiting times are removed."
    ):
        film.command("robustify judge asked -o run", [*robustify, "judge", "asked", "-o", "run"], work)
    with film.caption(
        f"{splits['shortcut']} of {splits['all']} items need no question."
        f" About {cut['decoys']:.0f} of these are due to chance."
    ):
        film.shot(1)

    page = film.open(work / "run" / "report.html")
    with film.caption(
        "The report first shows whether to trust the result, how many items are bad, and what to do."
    ):
        film.shot(2)
    with film.caption("Each recommendation links to its items."):
        film.click(page.locator("a[href*='cue=certainty']").first)
        page.wait_for_selector("#rows .row")
        film.shot(1.5)
    with film.caption("Filters narrow the list: here, by topic."):
        film.click(page.locator("section[aria-labelledby=of-topic] button", has_text="history"))
    with film.caption(
        "An item shows what each model picked without the question, and which words gave the key away."
    ):
        film.click(page.locator("#rows .row").first)
        film.shot(2.5)
        film.scroll(page.locator("#item"), 320)
    with film.caption("It also suggests a repair."):
        film.scroll(page.locator("#item"), 700)

    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", str(work / "repository")], check=True)
    hook = work / "repository" / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m robustify gate --staged\n", encoding="utf-8")
    hook.chmod(0o755)
    film.clear()
    with film.caption(
        "Sensitive items must not spread. Here, somebody adds a harmless item to a repository."
    ):
        take = "head -n 1 ../items.jsonl > notes.jsonl && git add notes.jsonl"
        film.command(take, ["sh", "-c", take], work / "repository")
    with film.caption("The gate refuses the commit without repeating a word of the item."):
        film.command("git commit -m 'Add notes'", [*git, "commit", "-m", "Add notes"], work / "repository")
    film.card(
        "<h1>make demo</h1><p>Such small models certify nothing. An item without a visible cue can still be"
        " flawed.<br>docs/demo.md how to read the page<br>docs/filter.md the method<br>docs/validity.md does it hold?</p>"
    )
    with film.caption("Try it with make demo. It also reports what it cannot know."):
        film.shot(2)


def encoded(film: Film, out: Path) -> None:
    """Write the film as MP4 (H.264, and AAC if it has a voice)."""
    parts = [f"file '{path}'\nduration {seconds:.3f}\n" for path, seconds in film.pictures]
    listed = film.folder / "pictures.ffconcat"
    listed.write_text(
        "ffconcat version 1.0\n" + "".join(parts) + parts[-1].splitlines()[0] + "\n", encoding="utf-8"
    )
    sound: list[str] = []
    if film.voice:
        track = film.folder / "voice.wav"
        with wave.open(str(track), "wb") as file:
            file.setparams((1, 2, VOICE_RATE, 0, "NONE", ""))
            for begun, path in film.voice:
                file.writeframes(bytes(2 * max(0, round(begun * VOICE_RATE) - file.tell())))
                with wave.open(str(path)) as spoken:
                    file.writeframes(spoken.readframes(spoken.getnframes()))
        sound = ["-i", str(track), "-c:a", "aac", "-b:a", "48k"]
    out.parent.mkdir(parents=True, exist_ok=True)
    settings = f"-fps_mode cfr -r {RATE} -c:v libx264 -preset veryfast -crf 24 -pix_fmt yuv420p".split()
    given = ["-v", "error", "-y", "-f", "concat", "-safe", "0", "-i", str(listed)]
    subprocess.run(["ffmpeg", *given, *sound, *settings, "-movflags", "+faststart", str(out)], check=True)


def main(arguments: list[str]) -> int:
    """Make the film, and print its duration and size."""
    parser = argparse.ArgumentParser(prog="python -m tools.video", description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, default=ROOT / "results" / "benign_demo")
    parser.add_argument("-o", dest="out", type=Path, default=OUT)
    parser.add_argument("--frames", type=Path, help="keep the frames in this folder")
    parser.add_argument("--silent", action="store_true", help="do not read the captions aloud")
    asked = parser.parse_args(arguments)
    try:
        missing = [
            name
            for name, there in (("chromium", shots.chromium()), ("ffmpeg", shutil.which("ffmpeg")))
            if not there
        ]
        if missing:
            raise UsageError(
                f"{' and '.join(missing)} not found on the path. On Debian, run `apt-get install {' '.join(missing)}`."
            )
        with tempfile.TemporaryDirectory() as work, shots.launched() as browser:
            frames = asked.frames or Path(work) / "frames"
            frames.mkdir(parents=True, exist_ok=True)
            spoken = not asked.silent and shutil.which("espeak-ng") is not None
            film = Film(browser.new_page(), frames.resolve(), spoken=spoken)
            played(film, asked.run, Path(work))
            encoded(film, asked.out)
        size = asked.out.stat().st_size
        print(f"video: {asked.out} ({film.seconds:.0f} s, {size / 1e6:.1f} MB)")
        if film.seconds > LONGEST or size > LARGEST:
            raise ResourceError(
                f"{asked.out} has {film.seconds:.0f} s and {size} bytes. Expected at most {LONGEST:.0f} s, {LARGEST} bytes."
            )
    except RobustifyError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
