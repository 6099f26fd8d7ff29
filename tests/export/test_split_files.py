"""Hashed splits: a fixed format, ids that depend on key and text alone, and the way back through the local copy."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from robustify.base.errors import DataError, RobustifyError
from robustify.restricted.ids import Split, hashed, item_id, read_split
from tests.gate.repo import rules_of
from tests.support import restricted_set
from tests.support.cases import contents, refuses
from tests.support.command import invoked

GOLDEN = contents("export")["split_golden"].replace("@", "rb1_")
OTHER = b"another key of thirty-two bytes!"


ROWS = [(f"which lamp has the number {i}?", [f"lamp {i}", "none", f"lamp {i + 1}"]) for i in range(5)]


def a_split(rows: list[tuple[str, list[str]]] = ROWS) -> Split:
    made = [item_id(bytes(range(32)), "mock-restricted", "1", stem, choices) for stem, choices in rows]
    return hashed("mock-restricted", "1", "kept", "0123456789abcdef", made)


def test_the_file_is_the_committed_one_whatever_the_order_of_items_and_choices(tmp_path: Path) -> None:
    turned = [(stem, choices[::-1]) for stem, choices in ROWS[::-1]]
    assert a_split().text == a_split(turned).text == GOLDEN
    assert rules_of(GOLDEN) == set(), "the gate lets it pass"
    (tmp_path / "s.json").write_text(GOLDEN, encoding="utf-8")
    assert read_split(tmp_path / "s.json") == a_split()


@pytest.mark.parametrize("change", contents("export")["split_changes"], ids=str)
def test_a_file_with_anything_else_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "s.json").write_text(json.dumps({**json.loads(GOLDEN), **change}), encoding="utf-8")
    with pytest.raises(DataError) as refused:
        read_split(tmp_path / "s.json")
    assert refused.value.code in ("invalid-split", "small-split")
    assert "rb1_" not in str(refused.value)


def test_plain_ids_make_no_split() -> None:
    with refuses("unkeyed-ids", hidden="wmdp-bio-17"):
        hashed("mock-restricted", "1", "kept", "0", ["wmdp-bio-17"])


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A private folder."""
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o700)
    return folder


def call(*argv: object) -> Result:
    return invoked("restricted", "split", *map(str, argv))


def refusal(*argv: object) -> RobustifyError:
    error = call(*argv).exception
    assert isinstance(error, RobustifyError), error
    return error


@pytest.fixture
def emitted(restricted: Path, tmp_path: Path) -> Path:
    out = tmp_path / "kept.json"
    assert call("emit", restricted / "out" / "run", "--split", "kept", "-o", out).return_value == 0
    return out


def test_a_split_comes_out_of_a_run_as_it_was_sealed(restricted: Path, emitted: Path) -> None:
    assert emitted.read_bytes() == (restricted / "out" / "run" / "splits" / "kept.json").read_bytes()
    assert stat.S_IMODE(emitted.stat().st_mode) == 0o600
    demo = Path(__file__).parents[2] / "results" / "benign_demo"
    for run, split, name, code in (
        (restricted / "out" / "run", "undecided", "u.json", 3),
        (restricted / "out" / "run", "kept", emitted.name, 2),
        (demo, "kept", "s.json", 2),  # a public run has no hashed split
    ):
        assert refusal("emit", run, "--split", split, "-o", emitted.parent / name).exit_code == code


def test_opening_finds_every_item_and_writes_it_for_its_owner_alone(
    restricted: Path, emitted: Path, mine: Path
) -> None:
    done = call("open", emitted, "--data", restricted_set.ADAPTER, "--out", mine / "kept.jsonl")
    wanted = read_split(emitted).ids
    assert done.return_value == 0, done.exception
    assert f"{len(wanted)} of {len(wanted)} ids matched" in done.output
    rows = [json.loads(line) for line in (mine / "kept.jsonl").read_text("utf-8").splitlines()]
    stems = {r["question"]: r for r in restricted_set.items()}
    assert {row["id"] for row in rows} == set(wanted)
    assert all(row["sensitivity"] == "restricted" for row in rows)
    assert all(stems[row["stem"]]["choices"] == row["choices"] for row in rows)
    assert stat.S_IMODE((mine / "kept.jsonl").stat().st_mode) == 0o600
    assert not [w for w in restricted_set.canaries(restricted_set.items()) if w in done.output]


def test_a_split_is_not_opened_elsewhere_under_another_key_or_if_it_is_smaller_than_a_cell(
    restricted: Path, emitted: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    tree, data = json.loads(emitted.read_text("utf-8")), ("--data", restricted_set.ADAPTER)
    nine, four = tmp_path / "nine.json", tmp_path / "four.json"
    for file, n in ((nine, 9), (four, 4)):
        file.write_text(json.dumps({**tree, "n": n, "ids": tree["ids"][:n]}), encoding="utf-8")
    assert refusal("open", emitted, *data, "-o", tmp_path / "open" / "x.jsonl").exit_code == 4
    for file, code in ((nine, 4), (four, 3)):
        assert refusal("open", file, *data, "-o", mine / "x.jsonl").exit_code == code
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(restricted_set.key_file(mine, OTHER)))
    assert refusal("open", emitted, *data).exit_code == 4
    assert not list(tmp_path.rglob("*.jsonl"))
