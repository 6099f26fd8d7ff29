"""Runs that are broken on purpose: killed, interrupted, out of disk, with other weights or NaN, two at once.

Every run is a process of its own, as a user starts it. A run that was broken and repeated must leave the
folder, file by file and byte by byte, of a run that nobody disturbed.
"""

import shutil
import signal
import sys
from pathlib import Path

import pytest

from bench.torture.runs import (
    Undisturbed,
    assert_undisturbed,
    command,
    ended,
    finish,
    kept_so_far,
    one_line,
    rows,
    run,
    start,
    undisturbed,
    wait_until,
)
from robustify.models.engines.cache import FILE

pytestmark = pytest.mark.slow

pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("faults") / "home")


def test_a_run_killed_twice_ends_with_the_same_bytes(bench: Undisturbed, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    for share in (0.2, 0.4):
        process = start(bench.home, command(out, cache))
        wait_until(lambda so_far=share * bench.rows: kept_so_far(cache) > so_far, process)
        process.kill()
        assert ended(process).code == -signal.SIGKILL
        assert not (out / "run.json").exists()
        assert 0 < rows(cache) < bench.rows
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)
    assert rows(cache) == bench.rows


KILLED_WRITING = """\
import os, signal, sys
from robustify import cli
moves, replace = int(sys.argv.pop(1)), os.replace
def last(source, place):
    global moves
    if ".staging-" in str(source):
        moves -= 1
        if moves < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, place)
os.replace = last
cli.main()
"""


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "over an earlier run"])
@pytest.mark.parametrize(
    "moves",
    [
        pytest.param(0, id="before", marks=pytest.mark.proof),
        pytest.param(1, id="first", marks=pytest.mark.proof),
        pytest.param(7, id="middle"),
        pytest.param(-1, id="run.json"),
    ],
)
def test_a_run_killed_while_its_folder_is_written_can_be_repeated(
    bench: Undisturbed, tmp_path: Path, moves: int, earlier: bool
) -> None:
    out, cache = tmp_path / "out", bench.home / "undisturbed-cache"
    if earlier:
        shutil.copytree(bench.home / "undisturbed", out)
    # The first move says whose the files are. All of them but run.json are in place where it is the next.
    done = str(moves if moves >= 0 else len(bench.files))
    told = ended(start(bench.home, [sys.executable, "-c", KILLED_WRITING, done, *command(out, cache)[3:]]))
    assert told.code == -signal.SIGKILL, told.err
    assert (out / "run.json").exists() == (earlier and moves == 0)
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)
    assert not list(out.glob(".staging-*"))
    assert not (out / ".run.writing").exists()


@pytest.mark.parametrize(
    ("sent", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_an_interrupted_run_says_so_in_one_line_and_goes_on(
    bench: Undisturbed, tmp_path: Path, sent: int, code: int, word: str
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    process = start(bench.home, command(out, cache))
    wait_until(lambda: kept_so_far(cache) > bench.rows // 4, process)
    process.send_signal(sent)
    told = ended(process)
    assert told.code == code, told.err
    assert one_line(told).endswith(f"[{word}]")
    assert not (out / "run.json").exists()
    assert 0 < rows(cache) < bench.rows
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)


FULL = """\
import sys
from robustify import cli
from robustify.models.engines.cache import Cache
connect, pages = Cache._connect, sys.argv.pop(1)
def small(cache):
    db = connect(cache)
    db.execute(f"PRAGMA max_page_count={pages}")
    return db
Cache._connect = small
cli.main()
"""


def test_a_full_disk_is_one_line_and_what_was_kept_stays(bench: Undisturbed, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    # The command's own arguments follow the number of pages that the disk has room for.
    small = [sys.executable, "-c", FULL, "9", *command(out, cache)[3:]]
    told = ended(start(bench.home, small))
    assert told.code == 6, told.err
    line = one_line(told)
    assert str(cache / FILE) in line
    assert "full" in line
    assert not (out / "run.json").exists()
    kept = rows(cache)
    assert 0 < kept < bench.rows
    finish(bench.home, out, cache)
    assert_undisturbed(out, bench)
    assert rows(cache) == bench.rows


def test_a_second_run_on_a_folder_is_refused_and_the_first_is_not_disturbed(
    bench: Undisturbed, tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    first = start(bench.home, command(out, cache))
    try:
        # The file of the lock is there before the lock is held, so the sign is the first score.
        wait_until(lambda: kept_so_far(cache) > 0, first)
        assert (out / ".run.lock").exists()
        # Stopped, the first holds the folder for as long as the second needs to find out.
        first.send_signal(signal.SIGSTOP)
        second = run(bench.home, out, cache)
    finally:
        first.send_signal(signal.SIGCONT)
        told = ended(first)
    assert second.code == 6, second.err
    line = one_line(second)
    assert line.startswith(f"robustify: {out} ")
    assert told.code in (0, 7), told.err
    assert_undisturbed(out, bench)
