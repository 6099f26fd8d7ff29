"""The record of releases: what it refuses beside what was published, and that it is not changed unseen."""

import json
import re
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustify.base.key_file import Key
from robustify.items.item import Item
from robustify.restricted.disclosure import record
from robustify.restricted.disclosure.record import Release, SplitOf, refusal, split_of
from tests.support.cases import each_case, refuses
from tests.support.command import invoked
from tests.support.restricted_set import SECRET, key_file

K, BUDGET = 10, 50.0
KEY = Key.of(SECRET)
ALL = range(120)


def release(
    items: Iterable[int] = ALL, split: str = "s", *, name: str = "a", version: str = "1", bits: float = 30.0,
    what: str = "page",
) -> Release:  # fmt: skip
    chosen = tuple(f"c{i:04d}" for i in items)
    of = SplitOf(f"{name} {version} {chosen}", chosen, split)
    content = f"{name} {version} {bits} {split} {what}"
    return Release(name, version, what, content, bits, of, ((content, bits),), budget=BUDGET, cell=K)


@each_case("releases", "new", "earlier", "code")
def test_what_may_be_published_beside_earlier_releases(
    new: dict[str, Any], earlier: list[dict[str, Any]], code: str | None
) -> None:
    objection = refusal(released(new), [*map(released, earlier)])
    assert (objection and objection.code) == code
    assert refusal(released(new), []) is None


def released(told: dict[str, Any]) -> Release:
    """A release as the corpus describes it: `items` are a number, or the ends of ranges."""
    ranges = told.get("items", 120)
    pairs = [(0, ranges)] if isinstance(ranges, int) else ranges
    chosen = [i for begin, end in pairs for i in range(begin, end)]
    return release(chosen, **{name: value for name, value in told.items() if name != "items"})


def items(n: int, stem: str = "which lamp", name: str = "a") -> list[Item]:
    return [Item(f"{name}{i}", f"{stem} {i}?", (f"the lamp {i}", f"the kettle {i}"), i % 2) for i in range(n)]


def test_a_split_is_known_by_its_choices_whatever_its_name_stems_order_case_and_punctuation() -> None:
    verdicts = {f"{name}{i}": "flagged" if i % 3 else "kept" for i in range(30) for name in "ab"}
    first = split_of(KEY, items(30), verdicts)
    edited = [
        Item(i.id, i.stem, tuple(f"{c.upper()}." for c in i.choices), i.key)
        for i in items(30, "who has the lamp", "b")[::-1]
    ]
    again = split_of(KEY, edited, verdicts)
    assert (again.digests, again.split) == (first.digests, first.split)
    assert again.items != first.items
    # Of version 0.2.0, which called the verdicts robust and shortcut.
    assert first.split == "8dbb6fae21d7ff73b70354baa807ffff670ebac737fa68ccafd6291534f151d7"
    other = split_of(KEY, items(30), {**verdicts, "a3": "undecided"})
    assert (other.digests, other.items) == (first.digests, first.items)
    assert other.split != first.split
    # Another key has other digests, and a text is in none of them.
    assert not set(split_of(Key.of(bytes(range(32))), items(30), verdicts).digests) & set(first.digests)
    assert "lamp" not in str(first)


# The file.


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROBUSTIFY_GATE_KEY_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(key_file(tmp_path)))
    assert invoked("restricted", "key", "releases", "--begin").return_value == 0
    return record.record_file()


def recorded(file: Path, new: Release) -> Release:
    return record.record(KEY, file, new)


def test_releases_are_appended_and_the_same_content_costs_nothing(file: Path) -> None:
    first = recorded(file, release())
    before = file.read_text("ascii")
    assert recorded(file, release()) == replace(first, bits=0.0)
    assert file.read_text("ascii") == before
    with refuses("over-budget", says=" 30 of 50 bits"):
        recorded(file, release(bits=40))
    recorded(file, release(bits=15))
    assert file.read_text("ascii").startswith(before)
    assert record.releases_of(KEY, file) == [release(), release(bits=15)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_number_that_was_released_costs_nothing_again(file: Path) -> None:
    def page(**numbers: float) -> Release:
        return replace(release(), content=str(numbers), numbers=tuple(numbers.items()))

    assert recorded(file, page(a=10.0, b=20.0)).bits == 30
    assert recorded(file, page(b=20.0)).bits == 0
    assert recorded(file, page(b=20.0, c=5.0)).bits == 5
    with refuses("over-budget", says=r" 35 of 50 bits .* 16\."):
        recorded(file, page(a=10.0, d=16.0))
    other = release(range(200, 260), name="b")
    assert recorded(file, replace(other, numbers=(("a", 10.0),))).bits == 10  # of another set
    budgets = json.loads(invoked("restricted", "key", "releases", "--json").output)["budgets"]
    assert [(b["set"], b["spent"], b["limit"], b["left"]) for b in budgets] == [
        ("a", 35, 50, 15),
        ("b", 10, 50, 40),
    ]
    assert re.search(r"^a 1: 35 .* 50, 15 ", invoked("restricted", "key", "releases").output, re.MULTILINE)


def test_two_at_once_lose_nothing(file: Path) -> None:
    new = [release(range(1000 * n, 1000 * n + 40), name=f"s{n}") for n in range(1, 7)]
    threads = [threading.Thread(target=recorded, args=(file, one)) for one in new]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.dataset for one in record.releases_of(KEY, file)) == [f"s{n}" for n in range(1, 7)]


def without_line(file: Path) -> None:
    lines = file.read_text("ascii").splitlines(keepends=True)
    file.write_text("".join([lines[0], lines[2]]), encoding="ascii")


def linked(file: Path) -> None:
    file.rename(file.with_suffix(".other"))
    file.symlink_to(file.with_suffix(".other"))


def of_another_key(file: Path) -> None:
    file.unlink()
    record.begin(Key.of(bytes(range(32))), file)


EDITED = "edited-release-record"
FAULTS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing": (lambda file: file.unlink(), "missing-release-record", "--begin"),
    "a line taken out": (without_line, EDITED, ":2: "),
    "edited": (lambda file: file.write_text(file.read_text("ascii").replace("30.0", "3.0", 1)), EDITED, ":2: "),
    "torn": (lambda file: file.write_bytes(file.read_bytes()[:-1]), EDITED, ":3: "),
    "empty": (lambda file: file.write_bytes(b""), "invalid-release-record", ""),
    "not text": (lambda file: file.write_bytes(b"\xff\0\n"), EDITED, ":1: "),
    "deeply nested": (lambda file: file.write_text("[" * 100_000 + "\n"), EDITED, ":1: "),
    "of another key": (of_another_key, EDITED, ":1: "),
    "open to others": (lambda file: file.chmod(0o640), "readable-by-others", "chmod 600"),
    "a link": (linked, "private-file-not-opened", "symbolic link"),
    "in a git tree": (lambda file: subprocess.run(["git", "init", "-q", str(file.parent)]), "private-file-in-git", ""),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "code", "says"), FAULTS.values(), ids=FAULTS)
def test_without_a_sound_record_nothing_is_published(
    file: Path, spoil: Callable[[Path], object], code: str, says: str
) -> None:
    recorded(file, release())
    recorded(file, release(range(300, 360), name="b"))
    spoil(file)
    with refuses(code, says=says or None):
        recorded(file, release(range(600, 660), name="c"))


def test_a_record_is_never_begun_twice(file: Path) -> None:
    with refuses("release-record-exists"):
        record.begin(KEY, file)


def test_the_command_shows_counts_and_bits_only(file: Path) -> None:
    recorded(file, release())
    done = invoked("restricted", "key", "releases", "--json")
    shown = json.loads(done.output)
    assert [(r["set"], r["what"], r["items"], r["bits"]) for r in shown["releases"]] == [
        ("a", "page", 120, 30.0)
    ]
    text = invoked("restricted", "key", "releases").output
    assert "a 1, page: 120 items, 30.0 bits" in text
    assert "c0001" not in text + done.output
