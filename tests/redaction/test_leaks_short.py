"""The leak test in its short form: nothing of an item stands anywhere but where its user asked for it; and on few items
the full one, which also fails when a control is taken away.

`make leak-test` runs the full one, with 200 items, every defect, every fault, and the controls taken away in turn.
"""

import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.leak import planted, steps
from tools.leak.encodings import ENCODERS
from tools.leak.proof import passed, proof
from tools.leak.search import Search
from tools.leak.world import Ended, World, make

pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

N = 40
TEXT = "the lamp of qxabcdefghij is turned by which merun today щюабвгдежзик"


@pytest.mark.parametrize("name", ENCODERS)
def test_the_search_sees_through(name: str) -> None:
    assert Search([TEXT]).hits("x", ENCODERS[name]("qxabcdefghij"))
    assert Search([TEXT]).hits("x", b"\x00\xff before " + ENCODERS[name](f"said: {TEXT}.") + b" after")


def test_the_search_finds_nothing_where_nothing_is() -> None:
    other = Search(["the lamp of qxzzzzzzzzzz is turned by which merun tomorrow щюяяяяяяяяяя"])
    for encoder in ENCODERS.values():
        assert not other.hits("x", encoder(TEXT.replace("is turned", "was seen")))


def test_five_words_in_a_row_are_found_and_four_are_not() -> None:
    search = Search([TEXT.replace("qxabcdefghij", "dovam")])
    assert search.hits("x", b"Dovam is  turned, by WHICH")
    assert not search.hits("x", b"dovam is turned by what")
    shared = Search([TEXT], innocent=["is turned by which merun"])
    assert not shared.hits("x", b"is turned by which merun")
    assert shared.hits("x", b"is turned by which merun today")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[Ended], bool]:
    """The world after every command, how each ended, and whether what was planted is unchanged."""
    world = make(tmp_path_factory.mktemp("leak") / "world", N)
    before = world.inputs()
    with ThreadPoolExecutor(2) as both:
        jobs = [
            both.submit(
                world.run, "restricted", steps.restricted(world, short=True), {"PYTHONWARNINGS": "default"}
            ),
            both.submit(
                world.run, "public", steps.public(world, short=True), {"PYTHONDEVMODE": "1"}, tty=True
            ),
        ]
        ended = [one for job in jobs for one in job.result()]
    return world, ended, world.inputs() == before


def unexpected(ended: Sequence[Ended]) -> dict[str, int]:
    return {one.step.name: one.code for one in ended if not one.as_expected}


@pytest.mark.slow
def test_every_command_did_what_it_was_run_for(ran: tuple[World, list[Ended], bool]) -> None:
    _, ended, _ = ran
    assert unexpected(ended) == {}
    assert len(ended) > 120
    assert sum(one.fired > 0 for one in ended) >= 8


@pytest.mark.slow
def test_nothing_stands_where_it_may_not(ran: tuple[World, list[Ended], bool]) -> None:
    world, _, unchanged = ran
    assert {(hit.stream, hit.kind, hit.reading) for hit in world.hits()} == set()
    assert unchanged, "a command changed its input"
    # Two for every stem and choice of both sets, one for every id of the restricted one.
    assert world.all_secrets.n_marks == N * (2 * 2 * 5 + 1)


@pytest.mark.slow
def test_what_was_asked_for_in_clear_is_there_and_private(ran: tuple[World, list[Ended], bool]) -> None:
    world, _, _ = ran
    place = world.root / "cwd" / "private"
    applied = place / "robust.jsonl"
    assert world.restricted_secrets.hits("x", applied.read_bytes())
    for path in place.glob("*.jsonl"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


@pytest.mark.slow
def test_nothing_was_written_elsewhere_and_nobody_was_called(ran: tuple[World, list[Ended], bool]) -> None:
    world, _, _ = ran
    for line in (world.root / "spy" / "audit.log").read_text("utf-8", "surrogateescape").splitlines():
        what, _, detail = line.partition("\t")
        assert what in ("write", "remove", "subprocess.Popen"), what
        if what != "subprocess.Popen":
            assert detail.startswith(("/dev/", str(world.root))), "written outside of the world"


@pytest.mark.slow
def test_the_leaks_that_were_planted_are_all_found(ran: tuple[World, list[Ended], bool]) -> None:
    world, _, _ = ran
    found = planted.found(world)
    planted.clear(world)
    assert len(found) >= 12
    assert [name for name, there in found.items() if not there] == []


@pytest.mark.proof
def test_nothing_leaks_and_the_test_would_know(tmp_path: Path) -> None:
    result = proof(tmp_path / "world", 40)
    assert result["hits"] == []
    assert result["planted_leaks_missed"] == []
    assert result["controls_not_missed"] == []
    assert passed(result), result
