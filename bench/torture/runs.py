"""Complete runs in separate processes: killed, concurrent, and in odd surroundings.

An interrupted and repeated run must leave the same folder, byte by byte, as an undisturbed run.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.results import ROOT
from robustify.models.engines.cache import FILE, Cache
from robustify.runs.run import OUTSIDE_THE_CLAIM, write_items
from tests.support.fake_logs import boxes
from tests.support.model_cache import tiny_llama

SAFE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
"""Without a network, and with one thread, so that two processes at once do not compete for the cores."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), **SAFE}
CONFIG = """\
name: tiny
sensitivity: public
data: items.jsonl
models: [{name: tiny, model: model, max_batch_tokens: 64}]
limits: {min_kept: 1}
"""
GIVE_UP = 1200.0
"""Time limit in seconds, generous because other programs may use the machine."""
IN_A_ROW = 3
"""Largest number of kills before a run may finish."""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A config with its items and model in `home`, and the results of an undisturbed run.

    `files` by name; the number of cached scores (`rows`); the seconds until the `first` score is cached and until the end.
    """

    home: Path
    files: Mapping[str, bytes]
    rows: int
    first: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The results of an ended process."""

    code: int
    err: str


def command(out: Path, cache: Path, config: str = "c.yaml") -> list[str]:
    options = ["--out", str(out), "--cache-dir", str(cache), "--no-progress"]
    return [sys.executable, "-m", "robustify", "run", config, *options]


def start(home: Path, arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        arguments,
        cwd=home,
        env={**ENVIRONMENT, "ROBUSTIFY_CACHE": str(home / "digests")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A background shell makes its children ignore Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def ended(process: "subprocess.Popen[str]", seconds: float = GIVE_UP) -> Ended:
    """Wait for the end of a process; kill it after `seconds`."""
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        if seconds == GIVE_UP:
            raise
    return Ended(process.returncode, err)


def run(home: Path, out: Path, cache: Path) -> Ended:
    return ended(start(home, command(out, cache)))


def finish(home: Path, out: Path, cache: Path) -> None:
    require_done(run(home, out, cache))


def require_done(done: Ended) -> None:
    assert done.code in (0, 7), done.err
    assert "Traceback" not in done.err


def files_of(out: Path) -> dict[str, bytes]:
    """Return every file of a folder, also hidden ones, except those that the claim excludes."""
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and p.name not in OUTSIDE_THE_CLAIM
    }


def assert_undisturbed(out: Path, bench: Undisturbed) -> None:
    found = files_of(out)
    assert sorted(found) == sorted(bench.files)
    assert [name for name in found if found[name] != bench.files[name]] == []


def rows(cache: Path) -> int:
    """Count the cached scores, and check that no file was set aside as damaged."""
    if not (cache / FILE).is_file():
        return 0
    with Cache(cache) as scores:
        done = scores.info()
    assert not list(cache.glob("*.corrupt-*"))
    return int(done["rows"])


def kept_so_far(cache: Path) -> int:
    """Count the scores that another process has committed; 0 before the first."""
    try:
        with closing(sqlite3.connect(f"file:{cache / FILE}?mode=ro", uri=True, timeout=5)) as db:
            return int(db.execute("SELECT count(*) FROM score").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def wait_until(true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    stop = time.monotonic() + GIVE_UP
    while not true():
        assert process.poll() is None, "the process ended before it could be disturbed"
        assert time.monotonic() < stop
        time.sleep(0.005)


def one_line(done: Ended) -> str:
    (line,) = done.err.strip().split("\n")
    assert "Traceback" not in line
    return line


def undisturbed(folder: Path) -> Undisturbed:
    """Write a config, its items and its model into `folder`, and run there without a disturbance."""
    folder.mkdir()
    write_items(folder / "items.jsonl", boxes(30))
    (folder / "c.yaml").write_text(CONFIG)
    tiny_llama(folder / "model")
    out, cache = folder / "undisturbed", folder / "undisturbed-cache"
    begun = time.monotonic()
    process = start(folder, command(out, cache))
    wait_until(lambda: kept_so_far(cache) > 0, process)
    first = time.monotonic() - begun
    require_done(ended(process))
    seconds = time.monotonic() - begun
    files = files_of(out)
    assert {"run.json", "summary.json", "answers.parquet", "report.html"} <= set(files)
    return Undisturbed(folder, files, rows(cache), first, seconds)


def killed_often(bench: Undisturbed, folder: Path, times: int, seed: int = 0) -> int:
    """Start and kill `times` runs at random moments, then let them finish; return the number of started runs.

    A run is killed up to three times in a row.

    Raises:
        AssertionError: a killed and repeated run left different bytes or lost scores.
    """
    chance = random.Random(seed)
    n_killed = n_started = made = 0
    while n_killed < times:
        out, cache = folder / f"out-{made}", folder / f"cache-{made}"
        left, killed = bench.seconds, True
        for _ in range(min(IN_A_ROW, times - n_killed)):
            # Two of three moments are between the first score and the end, when scores can be lost.
            moment = chance.uniform(0 if chance.random() < 1 / 3 else min(bench.first, 0.9 * left), left)
            done = ended(start(bench.home, command(out, cache)), moment)
            # The process may have just ended by itself.
            killed = done.code == -signal.SIGKILL
            n_started += 1
            n_killed += killed
            # Cached scores are not computed again, so the next run of this folder ends sooner.
            left -= max(0.0, moment - bench.first)
            assert rows(cache) <= bench.rows
            if not killed:
                require_done(done)
                break
        if killed:
            finish(bench.home, out, cache)
        assert_undisturbed(out, bench)
        assert rows(cache) == bench.rows
        made += 1
    return n_started
