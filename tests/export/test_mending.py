"""`robustify mend`: options are shuffled, no text changes, and what an author must mend is listed."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from robustify.base.texts import bare
from robustify.cli import cli
from robustify.composing.pool import typed_plainly
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.runs.run import write_items
from tests.support.cases import cases


def _write(path: Path, items: list[Item]) -> Path:
    write_items(path, items)
    return path


def _read(path: Path) -> list[Item]:
    return load(Source(path=str(path)), UNGUARDED).items


def _sums(n: int, *, long_key: bool = False) -> list[Item]:
    """Sums whose key stands at A, with the reason behind it if `long_key`."""
    because = " because one is carried" if long_key else ""
    return [
        Item(f"s{x}", f"What is {x} + {x}?", (f"{2 * x}{because}", f"{2 * x + 1}", f"{2 * x + 7}"), 0)
        for x in range(100, 100 + n)
    ]


def _mend(data: Path, out: Path, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["mend", str(data), "-o", str(out), *more], standalone_mode=False)
    return (1 if done.exception else 0), str(done.exception or done.output)


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
def test_options_move_with_their_key_and_no_text_changes(tmp_path: Path, name: str) -> None:
    items = _sums(60)
    code, _ = _mend(_write(tmp_path / "sums.jsonl", items), tmp_path / name)
    back = _read(tmp_path / name)
    assert code == 0
    assert [(i.id, i.stem, sorted(i.choices), i.choices[i.key]) for i in back] == [
        (i.id, i.stem, sorted(i.choices), i.choices[i.key]) for i in items
    ]
    at = [sum(i.key == place for i in back) for place in range(3)]
    assert min(at) >= 8, "60 keys at A are now spread over three places"


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
def test_white_space_at_the_ends_of_options_is_taken_off_and_counted(tmp_path: Path, name: str) -> None:
    items = [replace(i, choices=(f" {i.choices[0]}\n", "a  b", f"{i.choices[2]}\xa0")) for i in _sums(3)]
    data = _write(tmp_path / "sums.jsonl", [*items, replace(_sums(1, long_key=True)[0], id="long")])
    code, said = _mend(data, tmp_path / name)
    assert code == 0
    assert re.search("white space .*: 3 items", said)
    back = _read(tmp_path / name)
    assert [sorted(i.choices) for i in back[:1]] == [["200", "207", "a  b"]]
    assert [i.choices[i.key] for i in back] == ["200", "202", "204", "200 because one is carried"]


@pytest.mark.parametrize(("marked", "plain"), cases("export", "plain"))
def test_characters_that_look_the_same_become_plain_and_are_counted(
    tmp_path: Path, marked: str, plain: str
) -> None:
    odd = ("x\u00b2  or y", "\u201cso\u201d \u2013 or not\u2026")
    items = [replace(i, choices=(marked, *odd)) for i in _sums(3)]
    same = Item("same", "Which?", ("a\u00a0b", "c\u00a0d"), 0)
    code, said = _mend(_write(tmp_path / "a.jsonl", [*items, same]), tmp_path / "m.jsonl", "--json")
    back = _read(tmp_path / "m.jsonl")
    assert (code, json.loads(said)["plain"]) == (0, 3)
    assert {i.choices[i.key] for i in back[:3]} == {plain}
    assert odd[1] in back[0].choices
    assert sorted(back[3].choices) == sorted(same.choices), "what all options have gives no key away"
    assert typed_plainly(marked) == plain


def test_options_that_speak_of_one_another_keep_their_order(tmp_path: Path) -> None:
    bound = [
        Item("both", "Which holds?", ("Tea", "Rye", "Both A and B", "Neither"), 2),
        Item("all", "Which of these grow?", ("Oats", "Rye", "All of the above"), 2),
        Item("stem", "Why is option B wrong?", ("Too hot", "Too cold"), 0),
    ]
    code, said = _mend(_write(tmp_path / "a.jsonl", [*_sums(20), *bound]), tmp_path / "m.jsonl", "--json")
    back = {i.id: i.choices for i in _read(tmp_path / "m.jsonl")}
    assert code == 0
    assert all(back[i.id] == i.choices for i in bound)
    assert [one["item"] for one in json.loads(said)["in_place"]] == ["both", "all", "stem"]


def test_a_csv_that_would_read_otherwise_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    letters = [Item(f"n{x}", f"Which letter is {x}?", ("B", "C", "A"), 2) for x in range(10)]
    grouped = _write(tmp_path / "g.jsonl", [replace(letter, group="one") for letter in letters])
    out = tmp_path / "m.csv"
    out.write_text("mine")
    code, said = _mend(grouped, out, "--force")
    assert (code, out.read_text()) == (1, "mine")
    assert "Use -o FILE.jsonl" in said
    assert "Which letter" not in said
    assert _mend(grouped, tmp_path / "m.jsonl")[0] == 0


@pytest.mark.parametrize(
    ("out", "says"), [("a.jsonl", "is the input file"), ("m.txt", "-o m.jsonl"), ("m", "-o m.jsonl")]
)
def test_odd_outputs_are_refused(tmp_path: Path, out: str, says: str) -> None:
    code, said = _mend(_write(tmp_path / "a.jsonl", _sums(5)), tmp_path / out)
    assert code == 1
    assert says in said


FORMULAS = ("=1+1", "+1 m", "-1 m", "@SUM(A1)", "'-ing' forms", "''=x", "\uff1d1", "'=cmd", "plain")


def test_no_cell_of_a_csv_begins_like_a_formula_and_all_read_back(tmp_path: Path) -> None:
    items = [
        Item(f"{'i='[at % 2]}{at}", f"{text} or {at}?", (text, f"@{at}", f"no {at}"), at % 3, f"-{at % 2}")
        for at, text in enumerate((*FORMULAS, "\tx"))
    ]
    _write(tmp_path / "a.jsonl", items)
    for source, out in (("a.jsonl", "m.csv"), ("m.csv", "again.csv")):
        code, said = _mend(tmp_path / source, tmp_path / out)
        assert code == 0, said
        with (tmp_path / out).open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\uff1d")]
        back = _read(tmp_path / out)
        assert [(i.id, i.stem, sorted(i.choices), i.choices[i.key], i.topic) for i in back] == [
            (i.id, i.stem, sorted(map(bare, i.choices)), bare(i.choices[i.key]), i.topic) for i in items
        ]


def test_the_quotes_of_other_authors_are_text(tmp_path: Path) -> None:
    rows = "".join(f"Which form has {n} letters?,'-ing' form {n},'=x {n},A\n" for n in range(3))
    (tmp_path / "a.csv").write_text(f"Question,Option A,Option B,Correct Answer\n{rows}")
    assert _read(tmp_path / "a.csv")[0].choices == ("'-ing' form 0", "'=x 0")
