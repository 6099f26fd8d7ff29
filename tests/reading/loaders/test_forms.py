"""Frames and other data from Python, and what every command says of a file."""

import json
from pathlib import Path

import pytest

from robustify.base.errors import RobustifyError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load, notes
from tests.reading.loaders.made import lines

ITEMS = [
    {"question": "Which colour?", "options": ["red", "green", "blue", "grey"], "answer": "blue"},
    {"question": "How many legs?", "options": ["two", "three", "four", "five"], "answer": "four"},
    {"question": "Which tree?", "options": ["oak", "elm", "fir", "ash"], "answer": "oak"},
]


def test_frames_with_gaps_keep_their_options_and_keys() -> None:
    pd = pytest.importorskip("pandas")
    import robustify as rb

    frame = pd.DataFrame([
        {"question": row["question"], **dict(zip("ABCD", row["options"], strict=True)), "answer": key, "E": gap}
        for row, key, gap in zip(ITEMS, (2.0, 2.0, 0.0), (None, "none", float("nan")), strict=True)
    ])  # fmt: skip
    for one in (
        frame,
        frame.convert_dtypes(),
        frame.assign(options=[list("xyz")] * 3).drop(columns="options"),
    ):
        assert rb.heuristics(one).attrs["chance_accuracy"] == pytest.approx((2 / 4 + 1 / 5) / 3)
    lists = pd.DataFrame(ITEMS)
    assert rb.heuristics(lists.assign(options=lists["options"].map(pd.array))).attrs["n"] == 3


def test_what_a_file_says_oddly_is_said_by_every_command(robustify, tmp_path: Path) -> None:
    shown = [
        {"id": f"{n}{at}", "stem": f"{row['question']} {n}", "choices": row["options"], "key": 2}
        for n in range(4)
        for at, row in enumerate(ITEMS)
    ]
    (tmp_path / "odd.jsonl").write_text(lines(shown), encoding="utf-8")
    loaded = load(Source(path=str(tmp_path / "odd.jsonl")), UNGUARDED)
    (note,) = [note for note in notes(loaded) if note.code == "no-key-is-zero"]
    for command in ("validate odd.jsonl", "heuristics odd.jsonl", "odd.jsonl --public -o run"):
        _, out, err = robustify(*command.split())
        assert note[:60] in out + err
    assert note[:12] in (tmp_path / "run" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("data", [{"question": ["a"]}, None, 42, [1, 2], [], "\0", 4.5, [None], {"question"}])
def test_what_is_no_data_is_a_typed_error(data: object) -> None:
    import robustify as rb

    with pytest.raises(RobustifyError):
        rb.heuristics(data)  # type: ignore[arg-type]


def test_a_map_of_an_import_names_columns_of_the_items_if_they_need_it(robustify, tmp_path: Path) -> None:
    items = [
        ["nr", "riddle", *"ABC", "sol"],
        *([f"q{n}", f"Which {n}?", "red", "blue", "grey", "ABC"[n % 3]] for n in range(6)),
    ]
    picks = [["model", "id", "pick"], *(["m", f"q{n}", "AB"[n % 2]] for n in range(6))]
    for name, rows_ in (("items.csv", items), ("picks.csv", picks)):
        (tmp_path / name).write_text("".join(",".join(row) + "\n" for row in rows_), encoding="utf-8")
    command = ["import", "picks.csv", "--data", "items.csv", "-o", "run"]
    refusal = robustify(*command)
    assert (refusal.code, "stem=NAME" in refusal.err) == (3, True)
    assert robustify(*command, "--map", "stem=nowhere").code == 3
    ended = robustify(*command, "--map", "stem=riddle", "--map", "key=sol", "--json")
    summary = json.loads(ended.out)["summary"]
    assert (ended.code, summary["benchmark"]["n_items"]) == (0, 6)
