from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustify.base.errors import DataError
from robustify.items.answers import Answer, Answers, Asked, answer, unanswered


def three() -> list[Answer]:
    return [
        answer(Asked("a", "full", "m", (2, 0, 1), "t", 1), [-1.0, -0.5, -3.0], n_chars=[3, 4, 5]),
        answer(Asked("b", "full", "m", (1, 0), "t", 0), [-1.0, -1.0]),
        unanswered(Asked("c", "full", "m", (0, 1), "t", 1), "empty_choice"),
    ]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    table = Answers.of(three())
    table.write(tmp_path / "a.parquet")
    assert Answers.read(tmp_path / "a.parquet").table.equals(table.table)


def test_a_tie_shares_its_credit_and_is_counted() -> None:
    row = answer(Asked("i", "v", "m", (0, 1, 2), "t", 2), [-2.0, -1.0, -1.0 - 1e-9])
    assert (row.pick, row.correct, row.tie) == (1, 0.5, 2)
    assert answer(Asked("i", "v", "m", (0, 1, 2), "t", 0), [-2.0, -1.0, -1.0]).correct == 0.0


def test_a_row_ranked_by_something_else_keeps_its_sums() -> None:
    row = answer(Asked("i", "v", "m", (0, 1), "t", 0), [-4.0, -3.0], ranked_by=[-0.4, -1.0])
    assert (row.pick, row.scores) == (0, (-4.0, -3.0))


def test_an_unanswered_row_is_neither_right_nor_wrong() -> None:
    row = unanswered(Asked("i", "v", "m", (0, 1), "t", 0), "why")
    assert (row.pick, row.correct, row.error) == (None, None, "why")
    with pytest.raises(ValueError, match="both"):
        Answer("i", "v", "m", (0, 1), "t", 0, 1, None, ())


def test_a_block_is_padded_and_keeps_table_order() -> None:
    block = Answers.of(three()).block("full", "m")
    assert block.k.tolist() == [3, 2, 2]
    assert block.pick.tolist() == [1, 0, -1]
    assert block.correct[1] == 0.5
    assert np.isnan(block.correct[2])
    assert block.order.tolist() == [[2, 0, 1], [1, 0, -1], [0, 1, -1]]
    assert np.isnan(block.scores[1, 2])


def test_a_block_without_rows_has_empty_columns_and_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers.of(three())
    block = answers.block("cloze", "m")
    monkeypatch.setattr(Answers, "column", lambda *_: pytest.fail("a column was read"))
    assert {block.n_chars.shape, block.order.shape, block.scores.shape} == {(0, 0)}
    assert [(column.shape, column.dtype) for column in (block.correct, block.tie)] == [
        ((0,), float),
        ((0,), int),
    ]
    assert len(block.first()) == 0


def test_the_first_row_of_an_item_is_its_plain_asking() -> None:
    rows = [answer(Asked("a", "full", "m", o, "t", 0), [-1.0, -2.0]) for o in ((1, 0), (0, 1))] + three()[1:2]
    block = Answers.of(rows).block("full", "m").first()
    assert block.order.tolist() == [[1, 0], [1, 0]]
    assert len(block) == 2


def turned(item: str, order: tuple[int, ...], view: str = "full") -> Answer:
    return answer(Asked(item, view, "m", order, "t", 0), [-1.0] * len(order))


def test_each_row_says_which_rotation_of_its_item_s_order_it_shows(tmp_path: Path) -> None:
    shown = [(2, 0, 1), (1, 2, 0), (0, 1, 2), (0, 2, 1)]
    rows = [
        *(turned("own", order) for order in shown), *(turned("once", order) for order in shown[:1]),
        *(turned("mixed", order) for order in shown[::3]), turned("two", (1, 0)), turned("two", (0, 1)),
        *(turned("own", order, "choices_only") for order in shown[:2]),
    ]  # fmt: skip
    table = Answers.of(rows)
    assert table.table["rotation"].to_pylist() == [2, 1, 0, None, 0, 0, None, 1, 0, 0, 2]
    assert table.block("full", "m").rotation.tolist() == [2, 1, 0, -1, 0, 0, -1, 1, 0]
    older = table.table.drop_columns(["rotation"])
    pq.write_table(older, tmp_path / "older.parquet")
    assert Answers.read(tmp_path / "older.parquet").table.equals(table.table)
    assert Answers.concat([Answers(older), table]).table["rotation"].null_count == 4
    assert Answers.of([]).table["rotation"].to_pylist() == []


def test_askings_come_in_the_order_of_their_first_row() -> None:
    rows = [*three(), answer(Asked("a", "cloze", "m", (0, 1), "q", 0), [-1.0, -2.0]), *three()]
    assert Answers.of(rows).askings() == [("full", "m", "t"), ("cloze", "m", "q")]


def cells(kind: pa.DataType, table: pa.Table) -> pa.Table:
    """The table with its words in another type, a further column, and its columns in another order."""
    for name in ("item", "view", "model", "template", "error"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
    further = table.append_column("further", pa.array([{"a": [1]}] * len(table)))
    return further.select(further.column_names[::-1])


LAYOUTS = {"large strings": pa.large_string(), "dictionaries": pa.dictionary(pa.int16(), pa.string())}


@pytest.mark.parametrize("kind", LAYOUTS.values(), ids=LAYOUTS)
def test_a_table_is_the_same_however_its_file_is_laid_out(
    tmp_path: Path, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustify.items.answers.ROWS", 8)
    monkeypatch.setattr("robustify.items.answer_columns.ROWS", 5)
    monkeypatch.setattr("robustify.items.answers._GROUP", 16)
    views, order = ("cloze", "full", "cloze"), np.random.default_rng(0).permutation(40).tolist()
    rows = [
        answer(
            Asked(f"i{at % 13}", views[at % 3], f"m{at % 2}", (0, 1), "t", 1), [-1.0, -2.0], n_chars=[at, 3]
        )
        if at % 5
        else unanswered(Asked(f"i{at % 13}", views[at % 3], "m0", (0, 1, 2), "q", 2), f"why {at}")
        for at in order
    ]
    for made in (rows, sorted(rows, key=lambda row: (row.view, row.model, row.template)), rows[:1], []):
        table = Answers.of(made)
        pq.write_table(cells(kind, table.table), tmp_path / "other.parquet", row_group_size=7)
        read = Answers.read(tmp_path / "other.parquet")
        assert (read.table, read.items, read.askings()) == (table.table, table.items, table.askings())
        for asking in table.askings():
            for name in ("item", "key", "order", "scores", "n_chars", "rotation"):
                of = (getattr(one.block(*asking), name) for one in (read, table))
                np.testing.assert_array_equal(*of)
        assert read.table == table.table, "as before the columns were used"
        whole = dict.fromkeys(("write_statistics", "store_schema"), False) | {
            "compression": "zstd",
            "row_group_size": 16,
        }
        pq.write_table(table.table, tmp_path / "whole.parquet", **whole)
        read.write(tmp_path / "written.parquet")
        assert (tmp_path / "written.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def other_column(name: str, values: list[Any]) -> pa.Table:
    table = Answers.of(three()).table
    return table.set_column(table.column_names.index(name), name, pa.array(values))


TABLES: dict[str, tuple[pa.Table, str, str]] = {
    "something else": (pa.table({"item": ["a"], "view": ["v"]}), "missing-answer-column", " model, order,"),
    "a column twice": (
        Answers.of(three()).table.append_column("item", [["a", "b", "c"]]), "missing-answer-column", " item "
    ),
    **{f"an empty {name}": (other_column(name, ["x", None, "y"]), "empty-answer-cell", f" {name} ")
       for name in ("item", "view", "model", "template")},
    "another type": (other_column("key", ["x", "y", "z"]), "answer-column-type", ""),
    "a pick beyond the options": (other_column("pick", [7, 0, None]), "impossible-answer", " pick "),
}  # fmt: skip


@pytest.mark.parametrize(("table", "code", "names"), TABLES.values(), ids=TABLES)
def test_a_table_of_other_columns_names_them(tmp_path: Path, table: pa.Table, code: str, names: str) -> None:
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(DataError) as error:
        Answers.read(tmp_path / "x.parquet")
    assert (error.value.code, names in str(error.value)) == (code, True)


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1"])
def test_a_damaged_table_is_a_data_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "answers.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"answers\.parquet"):
        Answers.read(tmp_path / "answers.parquet")


@pytest.mark.parametrize("after", [0, 1], ids=["as many rows", "another number of rows"])
def test_a_large_table_that_is_replaced_while_it_is_used_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    for module in ("answers", "answer_columns"):
        monkeypatch.setattr(f"robustify.items.{module}.ROWS", 2)
    path = tmp_path / "answers.parquet"
    Answers.of(three()).write(path)
    read = Answers.read(path)
    Answers.of([*three()[::-1], *three()[:after]]).write(tmp_path / "other.parquet")
    (tmp_path / "other.parquet").replace(path)
    with pytest.raises(DataError) as error:
        _ = read.block("full", "m").scores
    assert error.value.code == "unreadable-answer-table"
