"""Items that belong together are read from a column of any layout."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import FieldMap, Source, load
from tests.support.command import invoked

N, IN_EACH = 60, 3


def rows(group: str, in_each: int = IN_EACH) -> list[dict[str, Any]]:
    return [
        {"question": f"What is {i}?", "A": f"a{i}", "B": f"b{i}", "C": f"c{i}", "answer": "ABC"[i % 3]}
        | {group: f"fam-{i // in_each}"}
        for i in range(N)
    ]


def csv(folder: Path, table: list[dict[str, Any]], name: str = "items.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([",".join(table[0]), *(",".join(map(str, row.values())) for row in table)]))
    return path


def groups(path: Path, **fields: Any) -> list[str]:
    source = Source(path=str(path), fields=FieldMap(**fields) if fields else None)
    return [item.group for item in load(source, UNGUARDED).items]


@pytest.mark.parametrize("name", ["group", "Group", "group_id", "passage_id"])
def test_a_column_of_groups_is_read(tmp_path: Path, name: str) -> None:
    assert groups(csv(tmp_path, rows(name))) == [f"fam-{i // IN_EACH}" for i in range(N)]


def test_large_groups_are_topics_unless_mapped(tmp_path: Path) -> None:
    path = csv(tmp_path, rows("group", N // 2))
    assert {*groups(path)} == {""}
    assert {*groups(path, group="group")} == {"fam-0", "fam-1"}
    assert {*groups(csv(tmp_path, rows("group")), group=None)} == {""}


def test_objects_are_no_groups(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    table = [row | {"group": [row["group"]]} for row in rows("group")]
    path.write_text("\n".join(map(json.dumps, table)))
    assert {*groups(path)} == {""}


def test_a_passage_and_a_group_are_both_read(tmp_path: Path) -> None:
    table = [row | {"passage": f"Story {i}."} for i, row in enumerate(rows("family"))]
    (item, *_) = load(
        Source(path=str(csv(tmp_path, table)), fields=FieldMap(group="family")), UNGUARDED
    ).items
    assert (item.group, item.sealed.question_at) == ("fam-0", len("Story 0.\n\n"))


def test_groups_count_once_in_a_run(tmp_path: Path) -> None:
    path = csv(tmp_path, rows("family"))
    done = invoked(str(path), "--public", "-o", str(tmp_path / "run"), "--map", "group=family")
    assert done.return_value == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["benchmark"]["groups"] == N // IN_EACH
