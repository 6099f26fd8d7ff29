"""The ledger of releases: what it refuses beside what was published, and that it is not changed unseen."""

import json
import math
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from robustify.disclosure import ledger
from robustify.disclosure.differencing import SUMMARY, Release, VerdictCell, as_one, revealed
from robustify.errors import AuthorisationError, UsageError
from robustify.gate.key_file import Key
from robustify.run import open_run
from robustify.writers.releases import published
from tests.support import restricted_run, restricted_set
from tests.support.command import invoked
from tests.support.restricted_set import SECRET, key_text

K = 10
KEY = Key.of(SECRET)


def names(items: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"d{i:04d}" for i in items)


def cell(name: str, items: Iterable[int], flagged: Callable[[int], bool]) -> VerdictCell:
    found = list(items)
    return VerdictCell(name, {"robust": names(i for i in found if not flagged(i)),
                       "shortcut": names(i for i in found if flagged(i))})  # fmt: skip


def third(i: int) -> bool:
    return i % 3 == 0


def summary(
    *cells: Iterable[int], bits: float = 0.0, flagged: Callable[[int], bool] = third, name: str = "a"
) -> Release:
    made = tuple(cell(f"t{n}", one, flagged) for n, one in enumerate(cells))
    return Release(SUMMARY, name, "1", f"{name} {cells} {bits}", bits, made)


def listed(
    what: str, items: Iterable[int], flagged: Callable[[int], bool] = third, version: str = "1"
) -> Release:
    found = list(items)
    return Release(what, "a", version, f"{what} {found}", 0.0, (cell("all", found, flagged),))


ALL = range(120)
FEW = "fewer than 10"
CASES: dict[str, tuple[Release, list[Release], str]] = {
    "the set less one": (summary(range(119)), [summary(ALL)], FEW),
    "the set and one more": (summary(range(121)), [summary(ALL)], FEW),
    "under another name": (summary(range(119), name="b"), [summary(ALL)], FEW),
    "one item in another topic": (
        summary(range(61), range(61, 120)), [summary(range(60), range(60, 120))], FEW,
    ),
    "a topic divided": (summary(range(60), range(60, 120)), [summary(ALL)], ""),
    "60 items less": (summary(range(60)), [summary(ALL)], ""),
    "30 items less, all of them flagged": (
        summary([i for i in range(180) if i % 3 or i >= 90]), [summary(range(180))], FEW,
    ),
    "three sets, each far from each, with five items between them": (
        summary([*range(5), *range(30, 45), *range(60, 75), *range(100, 120)]),
        [summary(range(60)), summary([*range(30), *range(60, 90)])], FEW,
    ),
    "another set": (summary(range(200, 260)), [summary(ALL)], ""),
    "a list of the same run": (listed("robust", ALL), [summary(ALL), listed("shortcut", ALL)], ""),
    "a list of the set less one": (listed("robust", range(119)), [summary(ALL)], FEW),
    "one item changed sides": (
        listed("robust", ALL, lambda i: third(i) and i != 30), [listed("robust", ALL)], "fewer than 10 ids",
    ),
    "one item changed sides, in another version": (
        listed("robust", ALL, lambda i: third(i) and i != 30, "2"), [listed("robust", ALL)], "",
    ),
    "within the budget": (summary(ALL, bits=20), [summary(ALL, bits=30)], ""),
    "over the budget in two releases": (summary(ALL, bits=30), [summary(ALL, bits=30)], "bit budget"),
    "over the budget in three": (
        summary(ALL, bits=20), [summary(ALL, bits=15), listed("robust", ALL), summary(ALL, bits=21)], "bit budget",
    ),
    "counts of other flags are numbers": (
        summary(ALL, flagged=lambda i: i % 3 == 1), [summary(ALL, bits=50)], "bit budget",
    ),
    "what others cut out of each other already": (
        summary(ALL), [summary(ALL), replace(summary(range(119)), bits=1.0)], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("new", "earlier", "why"), CASES.values(), ids=CASES)
def test_what_stands_beside_earlier_releases(new: Release, earlier: list[Release], why: str) -> None:
    found = revealed(new, earlier, K)
    assert (found is None) == (why == "")
    assert why in (found or "")
    assert revealed(new, [], K) is None


@pytest.mark.parametrize(
    ("flagged", "counts"),
    [(third, 0.0), (lambda i: i % 3 == 1, math.log2(121))],
    ids=["the same flags", "other flags"],
)
def test_the_bit_budget_is_kept_to_a_hundredth_of_a_bit(
    flagged: Callable[[int], bool], counts: float
) -> None:
    """80 of 120 robust: half the bits of their choice, less a number from 0 to 120 where other flags are counted."""
    left = math.log2(math.comb(120, 80)) / 2 - counts
    for spent, allowed in ((left - 1.005, True), (left - 0.995, False)):
        found = revealed(summary(ALL, bits=1, flagged=flagged), [summary(ALL, bits=spent)], K)
        assert (found is None) == allowed


def test_a_list_counts_the_items_of_all_cells_as_one() -> None:
    (one,) = as_one([cell("a", range(60), third), cell("b", range(60, 120), third)])
    assert one == cell("all", ALL, third)


# The file.


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ROBUSTIFY_KEY", "ROBUSTIFY_KEY_RING", "ROBUSTIFY_LEDGER", "ROBUSTIFY_GATE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    key = tmp_path / "ids.key"
    key.write_text(key_text(SECRET), encoding="ascii")
    key.chmod(0o600)
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(key))
    assert invoked("key", "ledger", "--begin").return_value == 0
    return ledger.beside(key)


def record(file: Path, release: Release, despite: str = "") -> ledger.Entry:
    return ledger.record(KEY, file, release, K, despite)


def test_releases_are_appended_and_the_same_content_is_recorded_once(file: Path) -> None:
    first = record(file, summary(ALL, bits=30))
    assert record(file, summary(ALL, bits=30)) == first
    with pytest.raises(AuthorisationError, match="bit budget") as refused:
        record(file, summary(ALL, bits=40))
    assert len(refused.value.lines) == 1
    assert "--despite" in str(refused.value)
    before = file.read_text("ascii")
    forced = record(file, summary(ALL, bits=40), "agreed with the board")
    assert (first.number, forced.number, forced.despite) == (1, 2, "agreed with the board")
    assert file.read_text("ascii").startswith(before)
    assert [one.release for one in ledger.read_ledger(KEY, file).entries] == [
        summary(ALL, bits=30),
        summary(ALL, bits=40),
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert record(file, summary(range(200, 260)), "no reason was needed").despite == ""


def test_a_list_of_another_version_has_other_ids_and_is_recorded(file: Path) -> None:
    first, again = (record(file, listed("robust", ALL, version=version)) for version in "12")
    assert (first.number, again.number) == (1, 2)
    one_less = listed("robust", ALL, lambda i: third(i) or i == 31, "2")
    with pytest.raises(AuthorisationError, match="fewer than 10 ids"):
        record(file, replace(one_less, content="another"))


def test_two_at_once_lose_nothing(file: Path) -> None:
    releases = [summary(range(1000 * n, 1000 * n + 40)) for n in range(1, 7)]
    threads = [threading.Thread(target=record, args=(file, one)) for one in releases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = ledger.read_ledger(KEY, file).entries
    assert sorted(one.release.content for one in entries) == sorted(one.content for one in releases)
    assert [one.number for one in entries] == [1, 2, 3, 4, 5, 6]


def cut_last(file: Path) -> None:
    file.write_text("".join(file.read_text("ascii").splitlines(keepends=True)[:-1]), encoding="ascii")


def cut_middle(file: Path) -> None:
    lines = file.read_text("ascii").splitlines(keepends=True)
    file.write_text("".join([lines[0], lines[2]]), encoding="ascii")


def edited(file: Path) -> None:
    file.write_text(file.read_text("ascii").replace('"bits":30', '"bits":3', 1), encoding="ascii")


def torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def linked(file: Path) -> None:
    file.rename(file.with_suffix(".other"))
    file.symlink_to(file.with_suffix(".other"))


def begun_anew(file: Path) -> None:
    file.unlink()
    (file.parent / "config" / "robustify" / "ledgers" / f"{KEY.id}.json").unlink()
    ledger.begin(KEY, file)
    record(file, summary(range(500, 560)))
    other = Key.of(bytes(range(32)))
    ledger.begin(other, file.with_suffix(".of-another"))
    file.with_suffix(".of-another").replace(file)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda file: file.unlink(), "key ledger --begin"),
    "rolled back": (cut_last, "holds 1 releases, but 2 were recorded"),
    "a line taken out": (cut_middle, "ledger:2: is not as robustify wrote it"),
    "edited": (edited, "ledger:2: is not as robustify wrote it"),
    "torn": (torn, "ledger:3: is not as robustify wrote it"),
    "empty": (lambda file: file.write_bytes(b""), "is no ledger of key"),
    "no text": (lambda file: file.write_bytes(b"\xff\0\n"), "ledger:1: is not"),
    "deeply nested": (lambda file: file.write_text("[" * 100_000 + "\n"), "ledger:1: is not"),
    "of another key": (begun_anew, "of another key"),
    "open to others": (lambda file: file.chmod(0o640), "chmod 600"),
    "a link": (linked, "cannot be read"),
    "in a git tree": (lambda file: subprocess.run(["git", "init", "-q", str(file.parent)], check=True), "git work tree"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "says"), FAULTS.values(), ids=FAULTS)
def test_without_a_sound_ledger_nothing_is_published(
    file: Path, spoil: Callable[[Path], object], says: str
) -> None:
    record(file, summary(ALL, bits=30))
    record(file, summary(range(300, 360)))
    spoil(file)
    with pytest.raises(AuthorisationError, match=says) as refused:
        record(file, summary(range(600, 660)))
    assert len(refused.value.lines) == 1


def test_a_lost_ledger_is_not_begun_anew_where_releases_are_known(file: Path) -> None:
    with pytest.raises(UsageError, match="never overwritten"):
        ledger.begin(KEY, file)
    record(file, summary(ALL))
    file.unlink()
    with pytest.raises(AuthorisationError, match="1 releases under key"):
        ledger.begin(KEY, file)


def test_the_command_shows_counts_and_bits_only(file: Path) -> None:
    record(file, summary(range(60), range(60, 120), bits=30))
    record(file, listed("robust", ALL))
    shown = json.loads(invoked("key", "ledger", "--json").output)
    assert [(r["items"], r["listed"], r["cells"], r["bits"]) for r in shown["releases"]] == [
        (120, None, 2, 30), (120, 80, 1, 0),
    ]  # fmt: skip
    text = invoked("key", "ledger").output
    assert "a 1, robust: 80 of 120 items" in text
    assert "d00" not in text + json.dumps(shown)


def test_a_key_in_a_variable_names_its_ledger(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_KEY", key_text(SECRET).strip())
    monkeypatch.delenv("ROBUSTIFY_KEY_FILE")
    refused = invoked("key", "ledger").exception
    assert isinstance(refused, AuthorisationError)
    assert "ROBUSTIFY_LEDGER" in str(refused)
    monkeypatch.setenv("ROBUSTIFY_LEDGER", os.fspath(file))
    assert invoked("key", "ledger").return_value == 0


@pytest.mark.parametrize("why", ["a\nb", "x" * 201])
def test_a_reason_is_one_line(file: Path, why: str) -> None:
    with pytest.raises(UsageError, match="--despite"):
        record(file, summary(ALL), why)


@pytest.mark.slow
def test_a_new_key_does_not_forget_what_was_published_under_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch, 60)
    first = restricted_run.run(tmp_path, out / "first")
    bits = published(first, tmp_path / "first").release.bits
    assert bits > 0
    ring, new = tmp_path / "ring", tmp_path / "new.key"
    ring.mkdir(mode=0o700)
    for end in ("", ".ledger"):
        (tmp_path / "secret" / f"ids.key{end}").rename(ring / f"ids.key{end}")
    assert invoked("key", "new", "-o", new).return_value == 0
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(new))
    monkeypatch.setenv("ROBUSTIFY_KEY_RING", str(ring))
    # Orders go with the ids and so with the key: it is another result on the same items.
    again = restricted_run.run(tmp_path, out / "again")
    with pytest.raises(AuthorisationError, match="bit budget"):
        published(again, tmp_path / "again")
    assert published(open_run(first.folder), tmp_path / "first-again").number == 1
    whole = restricted_set.items
    monkeypatch.setattr(restricted_set, "items", lambda n, seed=2026: whole(60)[:n])
    restricted_run.prepare(tmp_path / "less", monkeypatch, 59)
    other = tmp_path / "other.key"
    assert invoked("key", "new", "-o", other).return_value == 0
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(other))
    less = restricted_run.run(tmp_path, tmp_path / "less" / "out" / "run")
    with pytest.raises(AuthorisationError, match=FEW):
        published(less, tmp_path / "less-one")
    monkeypatch.delenv("ROBUSTIFY_KEY_RING")
    alone = restricted_run.run(tmp_path, tmp_path / "less" / "out" / "alone")
    assert published(alone, tmp_path / "less-one").number == 1


def test_a_run_made_before_another_key_had_releases_is_not_published_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch, 60)
    first = restricted_run.run(tmp_path, out / "first")
    ring, new = tmp_path / "ring", tmp_path / "new.key"
    ring.mkdir(mode=0o700)
    for end in ("", ".ledger"):
        (tmp_path / "secret" / f"ids.key{end}").rename(ring / f"ids.key{end}")
    invoked("key", "new", "-o", new)
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(new))
    monkeypatch.setenv("ROBUSTIFY_KEY_RING", str(ring))
    published(restricted_run.run(tmp_path, out / "second"), tmp_path / "second")
    with pytest.raises(AuthorisationError, match="run the same command again"):
        published(open_run(first.folder), tmp_path / "first")
    assert not (tmp_path / "first").exists()
