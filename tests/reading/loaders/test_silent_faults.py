"""Rows that were once read wrongly in silence: labels decided once a file, damaged labels, and keys with other texts."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from robustify.base.errors import DataError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load, notes
from tests.reading.loaders.made import Row, loaded, right, table
from tests.support.random_files import read_random_file

N = 12
TOYS = [[f"kite {n}", f"ball {n}", f"drum {n}", f"top {n}"] for n in range(N)]


def rows(write, key="ABCD", **other) -> list[Row]:
    return [
        {"question": f"Which toy is {n}?", "options": write(toys, n), "answer": key[n % len(key)], **other}
        for n, toys in enumerate(TOYS)
    ]


def test_a_list_with_two_options_like_labels_loses_none_in_a_file_without_labels(tmp_path: Path) -> None:
    content = rows(lambda toys, n: ["none of these", "A) red", "B) blue"] if n == 3 else toys[:3], "ABC")
    assert [item.k for item in loaded(tmp_path / "x", content).items] == [3] * N
    assert read_random_file(1124, tmp_path)[1] == "right"


def test_a_line_above_labelled_options_is_dropped_in_every_row_of_a_labelled_file(tmp_path: Path) -> None:
    content = rows(
        lambda toys, n: [
            *["Choose:"] * (n % 2),
            *(f"{label}) {toy}" for label, toy in zip("ABCD", toys, strict=True)),
        ]
    )
    assert [list(item.choices) for item in loaded(tmp_path / "x", content).items] == TOYS


@pytest.mark.parametrize("damage", ["ABBD", "ABDE", "AABB"])
def test_a_row_with_damaged_labels_is_a_fault_and_the_others_are_read(tmp_path: Path, damage: str) -> None:
    content = rows(
        lambda toys, n: [
            f"{label}) {toy}" for label, toy in zip(damage if n == 6 else "ABCD", toys, strict=True)
        ]
    )
    with pytest.raises(DataError, match="x:7: the labels of the options repeat, or one is missing"):
        loaded(tmp_path / "x", content)
    found = loaded(tmp_path / "x", content, skip_bad=True)
    assert [row.line for row in found.quarantined] == [7]
    assert right(found) == [toys[n % 4] for n, toys in enumerate(TOYS) if n != 6]


@pytest.mark.parametrize("between", ["; ", "\n", " | ", ";"])
@pytest.mark.parametrize("labels", ["ABCD", "1234"])
def test_labels_with_equals_signs_are_no_part_of_the_options(
    tmp_path: Path, between: str, labels: str
) -> None:
    content = rows(
        lambda toys, _: between.join(f"{label}={toy}" for label, toy in zip(labels, toys, strict=True)),
        labels,
    )
    found = loaded(tmp_path / "x", content)
    assert [list(item.choices) for item in found.items] == TOYS
    assert right(found) == [toys[n % 4] for n, toys in enumerate(TOYS)]


def test_one_row_of_equations_keeps_them(tmp_path: Path) -> None:
    content = rows(lambda toys, n: "A=1; B=2; C=3; D=4" if n == 5 else "; ".join(toys))
    assert loaded(tmp_path / "x", content).items[5].choices == ("A=1", "B=2", "C=3", "D=4")


def test_a_note_counts_keys_whose_text_is_no_option(tmp_path: Path) -> None:
    content = rows(lambda toys, _: toys)
    for n in (2, 5):
        content[n]["answer"] = f"{content[n]['answer']}) a spoon"
    content[7]["answer"] = f"D) {TOYS[7][3]}"
    found = loaded(tmp_path / "x", content)
    assert right(found) == [toys[n % 4] for n, toys in enumerate(TOYS)]
    assert [note for note in notes(found) if "text after the letter" in note] == [
        "in 2 of 12 rows, the text after the letter of the key is no option; the letter counts"
    ]


@pytest.mark.parametrize("name", ["incorrect_answer_1", "wrong answer a", "distractor0", "incorrect_answer"])
def test_one_wrong_option_beside_the_right_one_is_enough(tmp_path: Path, name: str) -> None:
    content = [
        {"question": f"Which toy is {n}?", "correct_answer": toys[1], name: toys[0]}
        for n, toys in enumerate(TOYS)
    ]
    found = loaded(tmp_path / "x", table(content))
    assert right(found) == [toys[1] for toys in TOYS]
    assert all({*item.choices} == {*toys[:2]} for item, toys in zip(found.items, TOYS, strict=True))


@pytest.mark.parametrize("between", [" | ", "; "])
def test_a_right_option_that_alone_has_separators_is_refused(tmp_path: Path, between: str) -> None:
    content = [
        {
            "question": f"Which toy is {n}?",
            "correct answer": f"{toys[0]}{between}a {toys[0]}",
            "wrong 1": toys[1],
            "wrong 2": toys[2],
        }
        for n, toys in enumerate(TOYS)
    ]
    with pytest.raises(DataError, match="`correct answer` may hold several right answers"):
        loaded(tmp_path / "x", table(content))
    content = [
        {name: f"{cell}{between}it" for name, cell in row.items()} | {"question": row["question"]}
        for row in content
    ]
    assert len(loaded(tmp_path / "x", table(content)).items) == N


def test_a_note_names_the_line_of_labels_in_another_order(tmp_path: Path) -> None:
    content = rows(
        lambda toys, n: [
            f"{label}. {toy}" for label, toy in zip("ACBD" if n == 6 else "ABCD", toys, strict=True)
        ],
        "B",
    )
    found = loaded(tmp_path / "x", content)
    assert right(found) == [toys[2 if n == 6 else 1] for n, toys in enumerate(TOYS)]
    assert any("in another order on line 7" in note for note in notes(found))


@pytest.mark.parametrize("right", [False, True])
def test_brackets_around_options_are_taken_off_in_all_rows_or_in_none(tmp_path: Path, right: bool) -> None:
    names = ["correct_answer", "incorrect_answer_1", "incorrect_answer_2"] if right else ["A", "B", "C"]
    key = {} if right else {"answer": "A"}
    plain = [
        {"question": f"Which toy is {n}?", **dict(zip(names, toys, strict=False)), **key}
        for n, toys in enumerate(TOYS)
    ]
    listed = [row | {name: str([row[name]]) for name in names} for row in plain]
    found = loaded(tmp_path / "x", [*listed[:11], plain[11]])
    assert [{*item.choices} for item in found.items] == [{*toys[:3]} for toys in TOYS]
    # In a quiz on Python, a row of lists is a row of lists.
    found = loaded(tmp_path / "y", [*plain[:11], listed[11]])
    assert {*found.items[11].choices} == {str([toy]) for toy in TOYS[11][:3]}


@pytest.mark.parametrize(("key", "refused"), [("index", True), ("letter", True), ("text", False)])
def test_a_list_of_the_same_options_in_another_order_leaves_only_keys_of_text_clear(
    tmp_path: Path, key: str, refused: bool
) -> None:
    keys = {"index": lambda n: n % 4, "letter": lambda n: "ABCD"[n % 4], "text": lambda n: TOYS[n][n % 4]}
    content = [row | {"answer": keys[key](n)} for n, row in enumerate(rows(lambda toys, _: toys))]
    shuffled = [row | {"shown": toys[::-1]} for row, toys in zip(content, TOYS, strict=True)]
    repeated = [row | {"shown": toys, "others": toys[1:]} for row, toys in zip(content, TOYS, strict=True)]
    assert right(loaded(tmp_path / "same", repeated)) == [toys[n % 4] for n, toys in enumerate(TOYS)]
    if refused:
        with pytest.raises(DataError, match="`shown` lists the options of `options` in another order"):
            loaded(tmp_path / "x", shuffled)
    mapped = {} if not refused else {"fields": {"choices": "options"}}
    assert right(loaded(tmp_path / "y", shuffled, **mapped)) == [toys[n % 4] for n, toys in enumerate(TOYS)]


@pytest.mark.parametrize("marks", [("yes", "no"), (True, False), ("Correct", "Incorrect")])
def test_answers_that_are_marked_as_wrong_are_no_keys(tmp_path: Path, marks: tuple[object, object]) -> None:
    content = rows(lambda toys, _: toys)
    graded = [row | {"correct": marks[n == 5]} for n, row in enumerate(content)]
    with pytest.raises(DataError, match="`correct` says that `answer` is wrong in 1 of the first 12 rows"):
        loaded(tmp_path / "x", graded)
    expected = [toys[n % 4] for n, toys in enumerate(TOYS)]
    assert right(loaded(tmp_path / "x", graded, fields={"key": "answer"})) == expected
    assert right(loaded(tmp_path / "y", [row | {"correct": marks[0]} for row in content])) == expected
    # The marks may be those of a prediction, and the key may have a name of its own.
    picked = [row | {"prediction": "A"} for row in graded]
    assert right(loaded(tmp_path / "p", picked)) == expected
    right_ones = [{**row, "correct_answer": row["answer"], "answer": "A"} for row in graded]
    assert right(loaded(tmp_path / "z", right_ones)) == expected


@pytest.mark.parametrize(
    ("classes", "read"),
    [
        (["no", "yes", "maybe"], [1, 0, 2]),  # names, in another order than the options
        (["C", "A", "B"], [2, 0, 1]),
        (["A", "B", "C"], [0, 1, 2]),
        (["ending0", "ending1", "ending2"], [0, 1, 2]),  # names that only count
        (["1", "2", "3"], [0, 1, 2]),
    ],
)
def test_a_number_that_stands_for_a_class_is_read_as_the_name_of_the_class(
    tmp_path: Path, classes: list[str], read: list[int]
) -> None:
    features = {"label": {"names": classes, "_type": "ClassLabel"}, "question": {"_type": "Value"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    content = [
        {"question": f"Is kite {n} red?", "choices": ["yes", "no", "maybe"], "label": n % 3} for n in range(N)
    ]
    classed = pa.Table.from_pylist(content).replace_schema_metadata(metadata)
    parquet.write_table(classed, tmp_path / "x.parquet")
    with (
        pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, classed.schema) as stream,
    ):
        stream.write_table(classed)
    for name in ("x.parquet", "x.arrow"):
        found = load(Source(path=str(tmp_path / name)), UNGUARDED)
        assert [item.key for item in found.items] == [read[n % 3] for n in range(N)]


@pytest.mark.parametrize(
    ("options", "noted"),
    [
        (["True", "False"], True),
        (["yes", "no"], True),
        (["no", "yes"], False),  # 1 is the second option, and it is yes
        (["True", "False", "Unknown"], False),
    ],
)
def test_a_note_says_that_a_1_was_read_as_the_second_option(
    tmp_path: Path, options: list[str], noted: bool
) -> None:
    content = [{"question": f"Is kite {n} red?", "options": options, "answer": n % 2} for n in range(N)]
    found = loaded(tmp_path / "x", content)
    assert right(found) == [options[n % 2] for n in range(N)]
    assert any("key 1" in note for note in notes(found)) == noted
    words = loaded(tmp_path / "y", [row | {"answer": options[n % 2]} for n, row in enumerate(content)])
    assert not any("key 1" in note for note in notes(words))
