"""Every layout on made-up items: what is read, where it came from, and what is said about it. Forms of keys: test_forms."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from string import ascii_uppercase

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify.base.errors import DataError, UsageError
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import FieldMap, Loaded, Source, describe, load, load_many
from robustify.reading.loaders.open_file import open_rows
from tests.reading.loaders import made
from tests.reading.loaders.made import lines

Read = Callable[..., Loaded]
COLOURS = ["red", "green", "blue", "grey"]
LAMP = {"question": "Which lamp?"}
LISTED = {**LAMP, "choices": COLOURS}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write a text, rows or records of CSV into a file, and load it."""

    def _read(content: object, file: str = "a.jsonl", **said: object) -> Loaded:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        return made.loaded(path, content, **said)

    return _read


def csv_text(records: Sequence[Sequence[str]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(records)
    return out.getvalue()


def own(items: Sequence[Item]) -> str:
    fields = ("id", "stem", "choices", "key", "topic", "group")
    return lines([{name: getattr(item, name) for name in fields} for item in items])


LABELLED = [{"text": text, "label": label} for text, label in zip(COLOURS, "ABCD", strict=True)]
NUMBERED = [{"text": text, "label": label} for text, label in zip(COLOURS, "1234", strict=True)]
CONTEXTS = ["I like red lamps and the red lamps", "I like red lamps and the old lamps"]
Case = tuple[str, dict[str, object], tuple[str, Sequence[str], int]]
BLUE = ("Which lamp?", COLOURS, 2)
ROWS: dict[str, Case] = {
    "own": ("robustify", {"id": "x", "stem": "Which lamp?", "choices": COLOURS, "key": 2, "topic": "lamps"}, BLUE),
    "arc, numbers": ("arc", {"question": {"stem": "Which lamp?", "choices": NUMBERED}, "answerKey": "3"}, BLUE),
    "commonsenseqa": (
        "arc",
        {"question": {"question_concept": "lamp", "stem": "Which lamp?", "choices": LABELLED}, "answerKey": "C"},
        BLUE,
    ),
    **{f"answer {a!r}": ("fields", {**LISTED, "answer": a}, BLUE) for a in (2, "C", " c ", "(C)", "2", "blue")},
    "index and letter": ("fields", {**LISTED, "answer": "C", "answer_index": 2}, BLUE),
    "labels in another order": (
        "fields", {**LAMP, "choices": {"text": COLOURS, "label": list("BADC")}, "answerKey": "d"}, BLUE
    ),
    "prose with letters": (
        "prose", {"instruction": "Which lamp? Answer Choices: (A) red (B) green (C) blue (D) grey", "answer": "C"}, BLUE
    ),
    "prose with numbers": (
        "prose",
        {
            "instruction": "Please choose the correct answer to the question: Which lamp?\n\nAnswer1: red "
            "Answer2: green Answer3: blue Answer4: grey\n\nAnswer format: answer1/answer2/answer3/answer4",
            "answer": "answer3",
        },
        BLUE,
    ),
    "piqa": ("piqa", {"goal": "Light.", "sol1": "a", "sol2": "b", "label": 0}, ("Light.", ["a", "b"], 0)),
    "siqa": (
        "siqa",
        {"context": "Ann lit.", "question": "Why?", "label": "2", "answerA": "a", "answerB": "b", "answerC": "c"},
        ("Ann lit.\n\nWhy?", ["a", "b", "c"], 1),
    ),
    "winogrande_contexts": (
        "winogrande_contexts",
        {"context_options": CONTEXTS, "continuation": "shine.", "gold": 1},
        ("I like red lamps and the _ lamps shine.", ["red", "old"], 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "row", "expected"), ROWS.values(), ids=ROWS)
def test_a_row_is_read_by_its_content(
    read: Read, layout: str, row: dict[str, object], expected: tuple[str, Sequence[str], int]
) -> None:
    loaded = read([row], "anything.dat")
    assert (loaded.layout, loaded.lines) == (layout, (1,))
    item = loaded.items[0]
    assert (item.stem, list(item.choices), item.key) == expected
    assert item.id == ("x" if "x" in row.values() else "anything-0001")
    assert item.topic == ("lamps" if "lamps" in row.values() else "")


TRUTHFUL = [
    ["Category", "Question", "Best Answer", "Best Incorrect Answer", "Correct Answers", "Incorrect Answers"],
    ["Lamps", "Which lamp?", "blue", "red", "blue; blue one", "red; green; grey"],
]
SHUFFLED = ["(A) red", "(C)long blue", "(B) green", "(D) grey"]


def block(*options: str) -> str:
    return "\n".join(["", "b", "A lamp story.", "Which follows?", *options])


def options(answer: object, *choices: str) -> list[dict[str, object]]:
    return [{**LAMP, "options": choices, "answer": answer}]


FIRST: dict[str, tuple[object, tuple[str, ...], int]] = {
    "another column of a layout": ([{**ROWS["siqa"][1], "answerD": "d", "label": "D"}], (*"abcd",), 3),
    "TruthfulQA with the binary test": (csv_text(TRUTHFUL), ("blue", "red"), 0),
    "TruthfulQA before it": (csv_text([row[:3] + row[4:] for row in TRUTHFUL]), ("blue", "red", "green", "grey"), 0),
    "letters of a block over its lines": (block("A.one", "C.three", "B.two", "D.four"), ("one", "two", "three", "four"), 1),
    "letters that end": (block("d) four", "c) three", "b) two", "a) one"), ("one", "two", "three", "four"), 1),
    # Not every option has its letter, or one stands twice: mangled letters say nothing against the lines.
    "a letter lacks": (block("A.one", "two", "C.three", "D.four"), ("one", "two", "three", "four"), 1),
    "a letter twice": (block("A.one", "B.two", "B.three", "D.four"), ("one", "two", "B.three", "four"), 1),
    "labels": (options("B", "(A) red", "(B)long green", "(C) blue"), ("red", "long green", "blue"), 1),
    "labels of two forms": (options(2, "a. red", "b.long green", "c) blue"), ("red", "long green", "blue"), 2),
    "numbers as labels": (options("2) green", "1) red", "2) green", "3) blue"), ("red", "green", "blue"), 1),
    "a letter means its label": (options("B", *SHUFFLED), ("red", "long blue", "green", "grey"), 2),
    "a letter in parentheses": (options("(c)", *SHUFFLED), ("red", "long blue", "green", "grey"), 1),
    "an index means its place": (options(1, *SHUFFLED), ("red", "long blue", "green", "grey"), 1),
    "numbers that are no labels": (options(0, "1.5 m", "2.5 m", "3.5 m"), ("1.5 m", "2.5 m", "3.5 m"), 0),
    "initials": (options("B", "A.D.", "B.C."), ("A.D.", "B.C."), 1),
    "labels alone": (options("B", "A.", "B.", "C. or both"), ("A.", "B.", "C. or both"), 1),
    "a number that is a text": (options("7", "5", "6", "7"), ("5", "6", "7"), 2),
    "a number that is a text and an index": (options("1", "0", "1", "7"), ("0", "1", "7"), 1),
}  # fmt: skip


@pytest.mark.parametrize(("content", "choices", "key"), FIRST.values(), ids=FIRST)
def test_the_first_item_has_these_choices_and_this_key(
    read: Read, content: object, choices: tuple[str, ...], key: int
) -> None:
    item = read(content).items[0]
    assert (item.choices, item.key) == (choices, key)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"answer": None, "label": 2}, {}),
        ({"answer": 2, "passage": None}, {}),
        ({"answer": 2, "goal": None, "sol1": None, "sol2": None, "label": None}, {}),
        ({"answer": 2, "A": None, "B": None}, {}),
        ({"answer": 2, "passage": "A story."}, {"passage": None}),
        ({"answer": 2, "topic": None, "subject": "lamps"}, {}),
    ],
)
def test_a_null_field_is_absent_and_a_map_of_null_leaves_a_part_out(
    read: Read, more: dict[str, object], said: dict[str, object]
) -> None:
    (item,) = read([{**LISTED, **more}], fields=said).items
    assert (item.stem, item.key, item.topic) == ("Which lamp?", 2, "lamps" if "subject" in more else "")


INSPECT = {"version": 2, "status": "success", "eval": {"task": "t"}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((text, "not valid JSON") for text in ("\x0c[1, 2]", "\u00a0[]", '\u00a0{"question": "Which?"}')),
        (
            block("A.one", "C.three", "two", "D.four"),
            "a.jsonl:2: the letters of the options are out of order",
        ),
        *(
            (json.dumps({**INSPECT, **more}), "has no samples; it may be only a header")
            for more in ({"plan": {"steps": []}}, {"samples": None}, {"plan": {}, "samples": []})
        ),
    ],
)
def test_what_is_no_file_of_items_is_refused(read: Read, content: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(content)


def test_arct_is_a_tsv_whose_quotation_marks_are_text_and_whose_pairs_are_grouped(read: Read) -> None:
    header = "#id\twarrant0\twarrant1\tcorrectLabelW0orW1\treason\tclaim\tdebateTitle\tdebateInfo"
    rows = [
        'a\t"New" lamps glow\tlamps fail\t1\tThey glow.\tBuy lamps\tT\tI',
        "b\tx\ty\t0\tThey glow.\tBuy lamps\tT\tI",
    ]
    loaded = read("\n".join([header, *rows]) + "\n", "train.tsv")
    assert loaded.layout == "arct"
    first = loaded.items[0]
    assert (first.id, first.choices, first.key) == ("a", ('"New" lamps glow', "lamps fail"), 1)
    assert first.stem == "Reason: They glow.\nClaim: Buy lamps"
    assert first.group == loaded.items[1].group != ""


def test_a_quotation_mark_that_a_cell_leaves_open_joins_no_rows(read: Read) -> None:
    rows = ('"red', "green", "A"), ('blue"', "grey", "B"), ("white", "black", "A")
    text = "question\tA\tB\tanswer\n" + "".join(
        f"Which {n}?\t{a}\t{b}\t{key}\n" for n, (a, b, key) in enumerate(rows)
    )
    assert [item.choices[0] for item in read(text, "quiz.tsv").items] == ['"red', 'blue"', "white"]
    text = text.replace("Which 0?\t", '"Which 0?\t').replace("Which 1?", 'Which 1?"')
    assert len(read(text, "quiz.tsv").items) == 3


ITEM = {"stem": "Which lamp?", "choices": COLOURS, "key": 2, "topic": "lamps"}


def described(read: Read, *rows: dict[str, object]) -> dict[str, dict[str, dict[str, object]]]:
    """What `describe` says of these rows, each completed by `ITEM`."""
    whole = [{"id": f"i{n}", **ITEM, "stem": f"Which lamp {n}?", **row} for n, row in enumerate(rows)]
    return describe(read(whole))


SAME = {"stem": "Which lamp?"}


@pytest.mark.parametrize(
    ("rows", "at"),
    [
        ([SAME, {}, {**SAME, "key": 1}], [1, 3]),
        ([SAME, {"stem": " which  LAMP? ", "choices": COLOURS[::-1], "key": 2}], [1, 2]),
        ([SAME, {**SAME, "key": 1}, SAME], [1, 2, 3]),
        ([SAME, SAME], []),
        ([SAME, {**SAME, "choices": COLOURS[::-1], "key": 1}], []),
        ([SAME, {**SAME, "choices": ["a", *COLOURS[1:]], "key": 1}], []),
    ],
)  # fmt: skip
def test_items_with_two_keys_are_named_with_both_lines(
    read: Read, rows: list[dict[str, object]], at: list[int]
) -> None:
    found = described(read, *rows)["defects"].get("conflicting_key", {"n": 0, "at": []})
    assert (found["n"], [place["line"] for place in found["at"]]) == (len(at), at)


_HEAD, _REST = "question, A, B, C, answer\n", "Which fan?, red, grey, blue, A\n" * 2
_CELL = {"question": "Which lamp?", "answer": "B"}


@pytest.mark.parametrize(
    ("content", "choices", "said"),
    [
        (f"{_HEAD}Which lamp?, red, green, blue, B\n{_REST}", ("red", "green", "blue"), True),
        (f"{_HEAD}Which lamp?, red,  green, blue, B\n{_REST}", ("red", " green", "blue"), True),
        (f"{_HEAD}Which lamp?,red, green,blue, B\n{_REST}", ("red", " green", "blue"), False),
        ('question,A,B,C,answer\nWhich lamp?,red," green\n",blue,B\n', ("red", " green\n", "blue"), False),
        ([{**_CELL, "options": "red | green | blue"}] * 2, ("red", "green", "blue"), False),
        ([{**_CELL, "options": "red |  green | blue"}] * 2, ("red", " green", "blue"), False),
        ([{**_CELL, "options": "red; green\xa0; blue"}] * 2, ("red", "green\xa0", "blue"), False),
        ([{**_CELL, "options": ["A. red", "B.  green", "C. blue"]}] * 2, ("red", " green", "blue"), False),
    ],
)
def test_white_space_that_all_options_share_is_taken_off_and_the_rest_is_kept(
    read: Read, content: object, choices: tuple[str, ...], said: bool
) -> None:
    loaded = read(content)
    assert loaded.items[0].choices == choices
    assert ("same white space" in str(describe(loaded)["notes"])) == said


def test_a_note_says_that_white_space_names_the_key(read: Read) -> None:
    rows = [{"stem": f"Which lamp {n}?", "choices": [" a", "b", "c"], "key": n % 2} for n in range(4)]
    assert any(
        "4 items with white space" in note and "in 2 of them" in note
        for note in described(read, *rows)["notes"]
    )
    (note,) = [note for note in described(read, rows[1])["notes"] if "white space" in note]
    assert note.startswith("1 item with")
    assert "give the key away" not in note


BLANKS = ["\u200b", "\u2800\u3164", "\u115f \ufeff", "\u180e\u00ad"]


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        *(({"stem": blank}, {"blank_stem"}) for blank in BLANKS),
        *(({"choices": ["a", blank, "c"]}, {"empty_choice"}) for blank in BLANKS),
        *(
            ({"choices": ["a", one, "c"]}, {"outer_space"})
            for one in (" b", "b\t", "b\n", "\xa0b", "b\u3000", "\u200bb")
        ),
        ({"choices": ["a  a", "b\nb", "cc"]}, set()),
        ({"choices": ["a\xa0a", "b\xa0b", "c\xa0c"]}, set()),
        ({"choices": ["a\xa0a", "bb", "cc"]}, {"odd_character"}),
        ({"choices": ["aa", "b\ufb01", "\u0441c"]}, {"odd_character"}),
        ({"choices": [" a", " b", " c"]}, set()),
        ({"stem": "Which\0 lamp?"}, {"control_character"}),
        ({"stem": "Which \x1b[31mlamp?"}, {"control_character"}),
        ({"stem": "Which \u202elamp?"}, {"control_character"}),
        ({"choices": ["a", "b\u2066", "c"]}, {"control_character"}),
        ({"stem": "Which\tlamp,\r\nplease? \u200eא\u05b0 é ゛"}, set()),
    ],
)
def test_what_shows_nothing_or_steers_a_terminal_is_a_defect(
    read: Read, row: dict[str, object], kinds: set[str]
) -> None:
    assert set(described(read, row)["defects"]) == kinds


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"key": 1}, {"key": 2}] * 4, "no key is 0"),
        ([{"key": 1}, {"key": 0}] * 4, ""),
        ([{"choices": ["a) red", "b) green", "c) blue"]}, {}], "1 of 2 items has options that begin with"),
        ([{"choices": ["(1) red", "(2) green", "(3) blue"]}], "1 of 1 item has options"),
        ([{"choices": ["A. Lincoln", "B. Obama", "J. Adams"]}], ""),
        ([{"stem": "A &amp; B &#8217;?"}, {"choices": ["a&nbsp;b", "b", "c"]}], "2 of 2 items have HTML"),
        ([{"stem": "R&D; &nothing; AT&T?"}], ""),
    ],
)
def test_notes_on_how_a_set_is_written(read: Read, rows: list[dict[str, object]], words: str) -> None:
    notes = described(read, *rows)["notes"]
    assert len(notes) == bool(words)
    assert words in str(notes)


MMLU = [
    ["Which lamp?\nSay, please.", "red", "green", "blue", "grey", "C"],
    ["Which of these is in the soul?", "id", "spoon", "fork", "cup", " a "],
    ["Which two?", "w", "x", "y", "z", "B"],
]


def test_mmlu_csv_without_header(read: Read) -> None:
    loaded = read(csv_text(MMLU), "astronomy_test.csv")
    assert loaded.layout == "mmlu_csv"
    assert [i.id for i in loaded.items] == ["astronomy-0001", "astronomy-0002", "astronomy-0003"]
    assert {i.topic for i in loaded.items} == {"astronomy"}
    assert [i.key for i in loaded.items] == [2, 0, 1]
    assert [i.k for i in loaded.items] == [4, 4, 4]
    assert loaded.lines == (1, 3, 4), "a record's line is where it starts, though the first one has two"
    assert loaded.name == "astronomy_test"
    # A first row with one header word is still an item.
    assert len(read(csv_text(MMLU[1:]), "mind_dev.csv").items) == 2


LOGIQA = [
    ["", "b", "A lamp story.", "Which follows?", "A.one", "B.two", "C.three", "D.four"],
    ["", "d", "A lamp story.", "Which does not?", "A one lamp", "In the B.NEC box", "C The third", "d.four"],
]


def test_logiqa_blocks_trust_the_order_of_lines_and_not_mangled_letters(read: Read) -> None:
    loaded = read("\n".join(line for block in LOGIQA for line in block), "Eval.txt")
    assert (loaded.layout, loaded.lines) == ("logiqa", (2, 10))
    first, second = loaded.items
    assert (first.stem, first.key) == ("A lamp story.\n\nWhich follows?", 1)
    assert first.choices == ("one", "two", "three", "four")
    assert second.choices == ("A one lamp", "In the NEC box", "The third", "four")
    assert first.group == second.group == "Eval-p0001"


def test_parquet_arrow_stream_and_arrow_folder_give_the_same_items(tmp_path: Path) -> None:
    choices = {"text": COLOURS, "label": list("ABCD")}
    rows = [
        {"id": f"q{n}", "question": f"Which {n}?", "choices": choices, "answerKey": "B"} for n in range(3)
    ]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "a.parquet")
    part = tmp_path / "saved" / "data-00000-of-00001.arrow"
    part.parent.mkdir()
    for path, new in ((part, pa.ipc.new_stream), (tmp_path / "file.arrow", pa.ipc.new_file)):
        with pa.OSFile(str(path), "wb") as out, new(out, table.schema) as writer:
            writer.write_table(table)
    found = [
        load(Source(path=str(tmp_path / name)), UNGUARDED) for name in ("a.parquet", "saved", "file.arrow")
    ]
    assert found[0].items == found[1].items == found[2].items
    assert (found[1].name, found[1].layout, found[1].lines) == ("saved", "fields", (1, 2, 3))
    assert found[1].sha256 == hashlib.sha256(part.read_bytes()).hexdigest()


def test_an_arrow_struct_by_letter_may_have_fewer_choices_in_some_rows(tmp_path: Path) -> None:
    rows = [
        {"question": "q1", "choices": {"A": "x", "B": "y", "C": "z"}, "answer": "C"},
        {"question": "q2", "choices": {"A": "x", "B": "y", "C": None}, "answer": "A"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [i.k for i in load(Source(path=str(tmp_path / "a.parquet")), UNGUARDED).items] == [3, 2]


def test_labels_that_some_rows_have_are_left_and_those_taken_off_are_noted(read: Read) -> None:
    rows = [{"question": f"Lamp {n}?", "options": SHUFFLED, "answer": "B"} for n in range(3)]
    assert "3 rows had labels" in str(describe(read(rows))["notes"])
    loaded = read([*rows, {**rows[0], "options": COLOURS}], fields={"key_is": "letter"})
    assert loaded.items[0].choices == tuple(SHUFFLED)
    assert "3 of 4 items have options that begin with labels" in str(describe(loaded)["notes"])


def test_what_a_map_leaves_out_is_left_out_of_a_copy_of_it_too() -> None:
    for said in ({}, {"passage": None, "key": "gold"}):
        assert FieldMap.model_validate(said).model_dump() == said


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("arc/test.jsonl", "arc-test"),
        ("arc/dev.jsonl", "arc-dev"),
        ("arc/arc_test.jsonl", "arc_test"),
        ("arc/lamps.jsonl", "lamps"),
    ],
)
def test_a_benchmark_is_not_named_by_its_split_alone(read: Read, file: str, name: str) -> None:
    assert read([ROWS["own"][1]], file).name == name


def test_fields_name_what_the_usual_names_do_not(read: Read) -> None:
    ask = {"text": "Which lamp?"}
    row = {"nr": 7, "ask": ask, "ca": "red", "cb": "blue", "right": "cb", "area": "lamps", "story": "Once."}
    with pytest.raises(DataError, match="found the fields nr, ask, ca, cb, right, area, story"):
        read([row, {**row, "nr": 8}])
    said: dict[str, object] = {"id": "nr", "stem": "ask.text", "choices": ["ca", "cb"], "key": "right"}
    said |= {"topic": "area", "passage": "story", "key_is": "label"}
    (item,) = read([row], fields=said).items
    assert item == Item("7", "Once.\n\nWhich lamp?", ("red", "blue"), 1, "lamps")
    with pytest.raises(UsageError, match="no row has the field `stemm`"):
        read([row], fields={**said, "stem": "stemm"})
    for kind, tree in ((FieldMap, {"steem": "x"}), (Source, {"path": "x", "feilds": {}})):
        with pytest.raises(ValidationError):
            kind.model_validate(tree)


def test_a_topic_that_is_said_holds_for_the_whole_file_and_a_name_for_the_benchmark(read: Read) -> None:
    row = {**LISTED, "answer": 1, "subject": "cups"}
    assert read([row]).items[0].topic == "cups"
    assert read([row], topic="lamps").items[0].topic == "lamps"
    found = read(csv_text([row[:3] + row[4:] for row in TRUTHFUL]))
    assert (found.layout, found.items[0].topic) == ("fields", "Lamps")
    assert read([row], name="Lamps 1.0").name == "Lamps 1.0"
    assert read(csv_text(MMLU[:1]), "b_test.csv", topic="lamps").items[0].topic == "lamps"


def test_a_pinned_digest_must_fit(read: Read) -> None:
    rows = [{**LISTED, "answer": 1}]
    digest = hashlib.sha256(lines(rows).encode()).hexdigest()
    assert read(rows, sha256=digest.upper()).sha256 == digest
    with pytest.raises(DataError, match=f"sha256 is {digest}; expected 000"):
        read(rows, sha256="0" * 64)


def test_a_prompt_around_every_stem_is_taken_off_and_around_some_or_our_own_it_is_not(read: Read) -> None:
    rows = [{"query": f"Question: Which {n}?\nAnswer:", "choices": COLOURS, "gold": n} for n in range(3)]
    assert read(rows).items[0].stem == "Which 0?"
    rows[1]["query"] = "Which 1?"
    assert read(rows).items[0].stem == "Question: Which 0?\nAnswer:"
    found = Item("x", "Question: Which?\nAnswer:", ("red", "blue"), 1)
    assert read(own([found])).items == (found,)


@pytest.mark.parametrize(
    ("n", "keys", "told"),
    [
        (60, lambda at: at % 4 + 1, "may count from 1"),
        (60, lambda at: at % 3 + 1, "may count from 1"),
        (3, lambda at: at % 4 + 1, "may count from 1"),
        (2, lambda at: at % 3 + 1, ""),
        (60, lambda at: at % 4, ""),
    ],
)
def test_keys_that_count_from_one_are_not_taken_for_indexes(
    read: Read, n: int, keys: Callable[[int], int], told: str
) -> None:
    rows = [{**LISTED, "question": f"Which {at}?", "answer": keys(at)} for at in range(n)]
    if not told:
        assert [item.key for item in read(rows).items] == [keys(at) for at in range(n)]
        return
    with pytest.raises(DataError, match=told) as caught:
        read(rows)
    assert len(caught.value.lines) <= 2
    assert [item.key for item in read(rows, fields={"key_is": "number"}).items] == [
        keys(at) - 1 for at in range(n)
    ]


@pytest.mark.parametrize("inside", [False, True])
def test_a_json_list_names_the_line_of_each_member(read: Read, inside: bool) -> None:
    rows = [{**LISTED, "answer": n} for n in range(3)]
    text = json.dumps({"about": [1], "data": rows} if inside else rows, indent=1)
    lines = tuple(at for at, line in enumerate(text.split("\n"), 1) if line == "  {"[not inside :])
    assert read(text).lines == lines


@pytest.mark.parametrize("indent", [None, 2])
def test_rows_may_lie_in_one_field_of_a_document_or_in_columns(read: Read, indent: int | None) -> None:
    rows = [{"question": f"Which {n}?", "choices": COLOURS, "answer": n} for n in range(3)]
    for tree in ({"version": 1, "data": rows}, {name: [row[name] for row in rows] for name in rows[0]}):
        assert [i.key for i in read(json.dumps(tree, indent=indent)).items] == [0, 1, 2]
    alone = {"question": "Which?", "choices": LABELLED, "answerKey": "B"}
    assert read(json.dumps(alone, indent=indent)).items[0].key == 1


def test_lm_eval_samples_give_each_inner_row_once(read: Read) -> None:
    docs = [{"question": f"Which {n}?", "choices": COLOURS} for n in range(3)]
    rows = [
        {"doc_id": n, "doc": doc, "target": str(n), "resps": [], "filter": name}
        for n, doc in enumerate(docs)
        for name in ("none", "strict")
    ]
    loaded = read(rows)
    assert (loaded.layout, loaded.lines) == ("lm_eval_samples/fields", (1, 3, 5))
    assert [i.key for i in loaded.items] == [0, 1, 2]


def test_inspect_logs_give_each_item_once(read: Read) -> None:
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "Which?"}]
    about = {"choices": COLOURS, "target": "B", "metadata": {"subject": "lamps"}}
    samples = [
        {"id": f"s{n}", "epoch": epoch, "input": asked, **about}
        for n, asked in enumerate(["Which?", turns])
        for epoch in (1, 2)
    ]
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    loaded = read(json.dumps(log, indent=2))
    assert loaded.layout == "inspect_log"
    assert [(i.id, i.stem, i.key, i.topic) for i in loaded.items] == [
        (f"s{n}", "Which?", 1, "lamps") for n in (0, 1)
    ]


def many(folder: Path, files: dict[str, object]) -> Loaded:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else lines(content), "utf-8")
    return load_many([Source(path=str(folder / name)) for name in files], UNGUARDED)


def test_several_files_are_one_benchmark(tmp_path: Path) -> None:
    loaded = many(tmp_path, {f"mmlu/{name}_test.csv": csv_text(MMLU) for name in ("astronomy", "music")})
    assert (loaded.name, loaded.layout) == ("mmlu", "mmlu_csv")
    assert [i.id for i in loaded.items][::3] == ["astronomy-0001", "music-0001"]
    assert {i.topic for i in loaded.items} == {"astronomy", "music"}
    assert loaded.files == ("astronomy_test.csv",) * 3 + ("music_test.csv",) * 3
    repeats = [(d.file, d.line, d.item) for d in loaded.defects if d.kind == "repeated_stem"]
    assert repeats == [("music_test.csv", line, f"music-000{n}") for n, line in enumerate((1, 3, 4), 1)]
    loaded = many(tmp_path, {f"{folder}/music_test.csv": csv_text(MMLU) for folder in ("a", "b")})
    assert [i.id for i in loaded.items][::3] == ["a-music-0001", "b-music-0001"]
    assert {i.topic for i in loaded.items} == {"music"}


def test_the_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    good = {**LISTED, "id": "x", "answer": 1}
    with pytest.raises(DataError, match=r"b\.jsonl:2: the ID is already used at a\.jsonl:2"):
        many(tmp_path, {name: [{**good, "id": name}, good] for name in ("a.jsonl", "b.jsonl")})
    with pytest.raises(DataError) as caught:
        many(tmp_path, {name: [{**good, "answer": 9}] for name in ("a.jsonl", "b.jsonl")})
    assert [line.split(":")[0] for line in caught.value.lines] == ["a.jsonl", "b.jsonl"]
    with pytest.raises(UsageError):
        load_many([], UNGUARDED)


def test_defects_load_and_are_named_by_line(read: Read) -> None:
    choices = [["x", " x", "y"], ["x", "x", "y"], ["x", "", "y"], ["RR", "Rr", "rr"]]
    rows = [
        {"question": q, "choices": c, "answer": a}
        for q, c, a in zip(("q1", "q2", "q3", " Q1 "), choices, "CAAA", strict=True)
    ]
    loaded = read(rows)
    said = (
        "repeated_choice 1 outer_space 1 repeated_choice 2 repeated_key_text 2 empty_choice 3 repeated_stem 4"
    )
    assert " ".join(f"{d.kind} {d.line}" for d in loaded.defects) == said
    at = [{"line": line, "item": f"a-000{line}", "file": "a.jsonl"} for line in (1, 2)]
    assert describe(loaded)["defects"]["repeated_choice"] == {"n": 2, "at": at}


def test_a_description_counts_and_holds_no_text(read: Read) -> None:
    both = ["ZQX a", "ZQX b"]
    rows = [{"question": f"ZQX {n}?", "choices": both, "answer": n % 2, "topic": "cups"} for n in range(5)]
    loaded = read([*rows, {"question": "ZQX?", "choices": ["ZQX a"], "answer": 0}], skip_bad=True)
    told = describe(loaded)
    assert "ZQX" not in json.dumps(told) + repr(loaded)
    assert (told["n_items"], told["topics"]) == (5, {"cups": 5})
    assert (told["option_counts"], told["key_positions"]) == ({"2": 5}, {"0": 3, "1": 2})
    assert told["chance_accuracy"] == pytest.approx(0.5)
    aside = {"line": 6, "reason": "expected 2 to 26 choices, found 1", "file": "a.jsonl"}
    assert told["quarantined"] == [aside]


def test_rows_set_aside_do_not_move_the_ids_of_the_others(read: Read) -> None:
    good = {**LISTED, "answer": 1}
    loaded = read(lines([good, {**good, "answer": 9}, good]) + '{"question": "cut', skip_bad=True)
    assert [i.id for i in loaded.items] == ["a-0001", "a-0003"]
    assert [q.line for q in loaded.quarantined] == [2, 4]


_PLAIN = st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"])
_IDS = st.text(_PLAIN, min_size=1, max_size=12)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@st.composite
def items(draw: st.DrawFn) -> Item:
    choices = tuple(draw(st.lists(_TEXTS, min_size=2, max_size=26)))
    stem = draw(_TEXTS.filter(lambda t: t.strip() != ""))
    topic, group = draw(st.text(_PLAIN, max_size=8)).strip(), draw(st.sampled_from(["", "g1"]))
    return Item(draw(_IDS), stem, choices, draw(st.integers(0, len(choices) - 1)), topic, group=group)


def _is_trap(found: Sequence[Item]) -> bool:
    return sum(i.choices == tuple(ascii_uppercase[: i.k]) for i in found) * 2 > len(found)


_SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SETTINGS
@given(found=st.lists(items(), min_size=1, max_size=6, unique_by=lambda i: i.id))
def test_items_written_in_our_own_layout_come_back_equal(tmp_path: Path, found: list[Item]) -> None:
    assume(not _is_trap(found))
    path = tmp_path / "kept.jsonl"
    for text in (own(found), own(found).replace("\n", "\r\n"), "\ufeff" + own(found)):
        path.write_bytes(text.encode("utf-8"))
        assert load(Source(path=str(path)), UNGUARDED).items == tuple(found)
    rows = [json.loads(line) for line in own(found).split("\n") if line]
    path.write_bytes("".join(json.dumps(row) + "\n" for row in rows).encode("utf-8"))
    assert load(Source(path=str(path)), UNGUARDED).items == tuple(found)


ASKED = [
    {
        "id": f"i{at % 90}",
        "question": f"Which one, {at % 70}?",
        "answer": "ABC"[at % 3],
        "passage": f"p{at // 2}",
    }
    for at in range(99)
]
OPTIONS = ["red ", "blue", "a;b"]
LISTS = [{**row, "options": OPTIONS} for row in ASKED]
RECORDS = [[*ASKED[0], *"ABC", ""], *([*row.values(), *OPTIONS, ""] for row in ASKED), [], [""] * 8]
DAYS = [{**row, "answer": date(2026, 1, 1)} for row in LISTS]
FAULTY = [*RECORDS[:50], ["x", "y"], *RECORDS[50:]]
STREAMED: dict[str, str | list[dict[str, object]]] = {
    "set.jsonl": "\n".join([*lines(LISTS[:50]).split("\n"), "{broken", "", *lines(LISTS[50:]).split("\n")]),
    "set.csv": "sep=,\r\n" + csv_text(FAULTY),
    "set.tsv": csv_text(FAULTY).replace(",", "\t"),
    "mmlu.csv": csv_text([[f"Which, {at}\n?", *OPTIONS, "ABC"[at % 3]] for at in range(99)]),
    "set.parquet": LISTS,
    "set.arrow": LISTS,
    "days.parquet": [{**LISTS[0], "answer": None}, *DAYS],
}


@pytest.mark.parametrize("name", STREAMED)
def test_a_large_file_gives_the_same_as_a_small_one_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, content = tmp_path / name, STREAMED[name]
    if isinstance(content, str):
        path.write_text(content, "utf-8")
    elif name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(content), path, row_group_size=40)
    else:
        table = pa.Table.from_pylist(content)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=40)
    source = Source(path=str(path), skip_bad=True)
    monkeypatch.setattr("robustify.reading.loaders.assemble._MANY", 0)
    found: list[tuple[object, ...]] = []
    for large, batch in ((1 << 30, 4096), (0, 1), (0, 7), (0, 4096)):
        monkeypatch.setattr("robustify.reading.loaders.open_file._LARGE", large)
        monkeypatch.setattr("robustify.reading.loaders.open_file._BATCH", batch)
        try:
            one = load(source, UNGUARDED)
        except DataError as error:
            found.append(error.lines)
            continue
        assert "Which one" not in repr(one)
        found.append((tuple(one.items), tuple(one.lines), one.items[-1], describe(one), one.recognised))
    said = "99 lines (2 to 100): the key is a date" if name == "days.parquet" else "-0001, 3 choices)"
    assert said in str(found[0]).replace("'", "")
    assert found[1:] == found[:1] * 3


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(lines([{**LISTED, "answer": "B"}] * 3), "utf-8")
    monkeypatch.setattr("robustify.reading.loaders.open_file._LARGE", 0)
    table, _ = open_rows(str(path), stream=True)
    path.write_text(lines([{**LISTED, "answer": "C"}] * 4), "utf-8")
    with pytest.raises(DataError, match=r"set\.jsonl changed while it was read\. Run the command again."):
        list(table.rows)
