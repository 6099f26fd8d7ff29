"""Lighthouse's scores of a run's pages: `python -m tools.lighthouse` writes results/bench/lighthouse.json.

The report, the explorer and a comparison of two verdicts of the demo, on a desk's window and on a phone; and how long
an explorer of 5,000 made-up items takes until it answers. The load average says how busy the machine was. Needs
Chromium and lighthouse (`npm install --no-save --prefix .axe lighthouse`).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from robustify.errors import RobustifyError, UsageError
from robustify.files import write_json
from robustify.pipeline import rejudge
from robustify.report.comparing import compared
from robustify.report.comparison_page import comparison_html
from robustify.report.explorer import page as printed
from robustify.run import EXPLORER, open_run
from tests.report.explorer_islands import large_island
from tools import shots

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / ".axe" / "node_modules" / ".bin" / "lighthouse"
RESULTS = ROOT / "results" / "bench" / "lighthouse.json"
DEMO = ROOT / "results" / "benign_demo"
GOAL, GOAL_SECONDS, ITEMS, REPEATS = 0.95, 1.0, 5000, 5
LARGE = "large.html"
JUDGED = ("accessibility", "best-practices")
WINDOWS: dict[str, tuple[str, ...]] = {"desk": ("--preset=desktop",), "phone": ()}
"""By name what lighthouse is given; its own default is a phone with a slow processor on a slow line."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are no news."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address under which a folder's files are served to this machine alone."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def scored(address: str, window: str) -> dict[str, Any]:
    """The scores of a page from 0 to 1, the audits that it lost points in, and seconds until it is interactive.

    Raises:
        UsageError: there is no Chromium or no lighthouse, or lighthouse gave no result.
    """
    program = shots.chromium()
    if program is None or not PROGRAM.is_file():
        raise UsageError(
            "chromium, lighthouse: not both here; expected them (Debian: apt-get install chromium; "
            "npm install --no-save --prefix .axe lighthouse)"
        )
    load = round(os.getloadavg()[0], 2)
    asked = [str(PROGRAM), address, "--quiet", "--output=json", *WINDOWS[window]]
    asked += [
        "--only-categories=accessibility,best-practices,performance",
        "--chrome-flags=--headless=new --no-sandbox",
    ]
    done = subprocess.run(asked, capture_output=True, check=False, env={**os.environ, "CHROME_PATH": program})
    if done.returncode:
        raise UsageError(f"lighthouse: ended with {done.returncode}; expected a result of {address}")
    found = json.loads(done.stdout)
    lost = [
        row["id"]
        for kind in JUDGED
        for row in found["categories"][kind]["auditRefs"]
        if row["weight"] and found["audits"][row["id"]]["score"] not in (None, 1)
    ]
    return {
        **{kind.replace("-", "_"): found["categories"][kind]["score"] for kind in (*JUDGED, "performance")},
        "lost_in": lost,
        "interactive_seconds": round(found["audits"]["interactive"]["numericValue"] / 1000, 2),
        "load_before": load,
    }


def pages(folder: Path) -> None:
    """The pages that are looked at, written into a folder."""
    demo = open_run(DEMO)
    for name in ("report.html", EXPLORER):
        (folder / name).write_bytes((demo.folder / name).read_bytes())
    other = rejudge(demo, {"screen.criterion": "unanimous", "alternatives": []}, folder / "unanimous")
    page = comparison_html(compared([demo.folder, other.folder]))
    (folder / "compare.html").write_text(page, encoding="utf-8")
    (folder / LARGE).write_text(printed(large_island(ITEMS)), encoding="utf-8")


def opened(file: Path) -> list[dict[str, float]]:
    """Seconds from asking for a page on the disk until its script is done, by the clock and of the processor."""
    rows = []
    with shots.launched() as browser:
        for _ in range(REPEATS):
            load = round(os.getloadavg()[0], 2)
            page = browser.new_page()
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(file.as_uri())
            page.wait_for_selector("#rows .row")
            spent = {row["name"]: row["value"] for row in session.send("Performance.getMetrics")["metrics"]}
            clock = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
            rows.append(
                {
                    "seconds": round(clock, 2),
                    "processor_seconds": round(spent["TaskDuration"], 2),
                    "load_before": load,
                }
            )
            page.close()
    return rows


def main() -> int:
    """Look at every page; 1 if one is below its goal."""
    try:
        with tempfile.TemporaryDirectory() as work, served(Path(work)) as address:
            pages(Path(work))
            large = opened(Path(work) / LARGE)
            megabytes = round((Path(work) / LARGE).stat().st_size / 1e6, 2)
            rows = {
                name: {window: scored(f"{address}/{name}", window) for window in WINDOWS}
                for name in ("report.html", EXPLORER, "compare.html")
            }
    except RobustifyError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.exit_code
    least = min(
        found[kind.replace("-", "_")] for row in rows.values() for found in row.values() for kind in JUDGED
    )
    seconds, spent = (
        statistics.median(row[one] for row in large) for one in ("seconds", "processor_seconds")
    )
    version = subprocess.run(
        [str(PROGRAM), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    write_json(
        RESULTS,
        {
            "says": "lighthouse's scores, 0 to 1, of the demo's pages, and seconds until they are interactive",
            "command": "make lighthouse",
            "machine": {"cores": len(os.sched_getaffinity(0)), "lighthouse": version},
            "goal": GOAL,
            "least": least,
            "met": least >= GOAL,
            "pages": rows,
            "large_explorer": {
                "items": ITEMS,
                "megabytes": megabytes,
                "goal_seconds": GOAL_SECONDS,
                "met": seconds <= GOAL_SECONDS,
                "met_in_processor_seconds": spent <= GOAL_SECONDS,
                "runs": large,
            },
        },
    )
    print(
        f"lighthouse: at least {least:.2f}; {ITEMS:,} items in {seconds} s, {spent} of the processor: {RESULTS}"
    )
    return 0 if least >= GOAL and spent <= GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
