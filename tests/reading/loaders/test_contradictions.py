"""Files that contradict themselves, or hold several answers where one is expected: refused by line, or said in a note."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustify.base.errors import DataError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import FieldMap, Source, load, load_many, notes
from tests.reading.loaders.made import Row, lines, loaded, right, table

PLACES = ("Rome", "Sucre", "Quito", "Accra", "Hanoi", "Oslo")


def made(n: int = 6, **cells: object) -> list[Row]:
    """Rows with a question and what `cells` give for the place, and for three other places, of each."""

    def value(of: object, at: int) -> object:
        return of(PLACES[at], [PLACES[(at + step) % 6] for step in (1, 2, 3)]) if callable(of) else of

    return [
        {"question": f"Where is {at}?", **{name: value(of, at) for name, of in cells.items()}}
        for at in range(n)
    ]


def one(place: str, _: Sequence[str]) -> str:
    return place


def others(_: str, rest: Sequence[str]) -> list[str]:
    return [*rest]


NAMES = [
    ("answer", "distractors"),
    ("ideal", "distractors"),
    ("correct_answers", "incorrect_answers"),
    ("best_answer", "wrong_answers"),
]


@pytest.mark.parametrize(("good", "bad"), NAMES)
def test_a_second_right_answer_is_never_a_wrong_option(tmp_path: Path, good: str, bad: str) -> None:
    rows = made(**{good: lambda place, _: [place], bad: others})
    found = loaded(tmp_path / "x.jsonl", rows)
    assert [*map(len, (item.choices for item in found.items))] == [4] * 6
    assert right(found) == [*PLACES]
    rows[2][good], rows[4][good] = ["Quito", "the old town"], []
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    for path in (tmp_path / "x.jsonl", tmp_path / "x.parquet"):
        if path.suffix == ".jsonl":
            path.write_text(lines(rows))
        with pytest.raises(DataError, match=r":3: the item has several right answers \(2"):
            load(Source(path=str(path)), UNGUARDED)
        aside = load(Source(path=str(path), skip_bad=True), UNGUARDED)
        assert [one.line for one in aside.quarantined] == [3, 5]
        assert right(aside) == [
            "Rome",
            "Sucre",
            "Accra",
            "Oslo",
        ]


def test_equal_right_answers_are_one(tmp_path: Path) -> None:
    rows = made(answer=lambda place, _: [place, place], distractors=others)
    assert right(loaded(tmp_path / "x", rows)) == [*PLACES]


def test_brackets_are_taken_off_every_option_column_or_off_none(tmp_path: Path) -> None:
    written = made(
        correct_answer=lambda place, _: f"['{place}']", incorrect_answers=lambda _, rest: str(rest)
    )
    columns = made(
        **{"correct answer": lambda place, _: f"['{place}']"},
        **{f"wrong answer {n + 1}": lambda _, rest, n=n: f"['{rest[n]}']" for n in range(3)},
    )
    series = made(
        **{letter: lambda place, rest, n=n: f"['{[place, *rest][n]}']" for n, letter in enumerate("ABCD")},
        answer="A",
    )
    for rows in (written, columns, series):
        found = loaded(tmp_path / "x.csv", table(rows))
        assert right(found) == [*PLACES]
        assert not any("[" in text for item in found.items for text in item.choices)
    code = made(
        correct_answer=lambda *_: "[1, 2]",
        wrong_answer_1=lambda *_: "[2, 1]",
        wrong_answer_2=lambda *_: "[1]",
    )
    assert loaded(tmp_path / "x.csv", table(code)).items[0].choices == ("[1, 2]", "[2, 1]", "[1]")


@pytest.mark.parametrize("mark", [", ", " / ", " and ", "、"])
@pytest.mark.parametrize("name", ["incorrect_answers", "distractors", "wrong_answer"])
def test_wrong_options_in_one_text_are_not_one_option(tmp_path: Path, name: str, mark: str) -> None:
    rows = made(correct_answer=one, **{name: lambda _, rest: mark.join(rest)})
    with pytest.raises(DataError, match="the wrong options are one text") as caught:
        loaded(tmp_path / "x.csv", table(rows))
    assert "Rome" not in str(caught.value)
    mended = made(
        correct_answer=one,
        **{name.replace("answer", "answers").replace("ss", "s"): lambda _, rest: "; ".join(rest)},
    )
    assert [item.k for item in loaded(tmp_path / "x.csv", table(mended)).items] == [4] * 6


def test_a_wrong_option_with_a_comma_is_one_option(tmp_path: Path) -> None:
    rows = made(
        correct_answer=lambda place, _: f"Yes, in {place}",
        wrong_answer=lambda _, rest: f"No, it is not near {rest[0]}",
    )
    assert [item.k for item in loaded(tmp_path / "x.csv", table(rows)).items] == [2] * 6


@pytest.mark.parametrize("key", ["A) the coal", "A. coal lumps", "A: black coal", "(A) Coal!", "A - coal"])
def test_a_key_whose_letter_and_text_contradict_each_other_is_a_fault(tmp_path: Path, key: str) -> None:
    options = ["red rose", "blue sky", "green grass", "coal"]
    rows: list[Row] = [
        {"question": f"Which {n}?", "choices": options, "answer": "B) blue sky"} for n in range(5)
    ]
    with pytest.raises(DataError, match=r":6: the .*key"):
        loaded(tmp_path / "x", [*rows, {**rows[0], "question": "Last?", "answer": key}])
    agrees = loaded(
        tmp_path / "x",
        [*rows, {**rows[0], "question": "Last?", "answer": "A) the red rose, and not coal"}],
    )
    assert agrees.items[-1].key == 0


def test_a_blank_question_below_a_passage_is_no_item(tmp_path: Path) -> None:
    rows = made(options=lambda place, rest: [place, *rest], answer="A", passage="A long story.")
    rows[3]["question"] = " \n"
    with pytest.raises(DataError, match=":4: the stem is empty"):
        loaded(tmp_path / "x", rows)


@pytest.mark.parametrize("extra", [{}, {"key": "answer"}, {"key": "correct_answer"}])
def test_a_second_key_that_differs_is_counted_in_a_note(tmp_path: Path, extra: dict[str, str]) -> None:
    rows = made(options=lambda place, rest: [place, *rest], answer="A", correct_answer="A")
    rows[1]["answer"] = rows[4]["answer"] = "C"
    found = loaded(tmp_path / "x", rows, fields=FieldMap.model_validate(extra) if extra else None)
    assert any("in 2 of 6 rows" in note and note.endswith("counts") for note in notes(found))
    assert [item.key for item in found.items] == [0, 2 * (extra.get("key") == "answer")] + [0] * 2 + [
        2 * (extra.get("key") == "answer"),
        0,
    ]


def test_files_of_one_quiz_count_as_those_of_them_that_show_a_0(tmp_path: Path) -> None:
    sources = []
    for name, keys in (("a", (1, 2, 1, 3, 2, 1)), ("b", (0, 1, 2, 3, 0, 1)), ("c", (2, 1, 3, 1, 2, 3))):
        rows = made(options=lambda place, rest: [place, *rest])
        (tmp_path / f"{name}.jsonl").write_text(
            lines([{**row, "answer": key} for row, key in zip(rows, keys, strict=True)])
        )
        sources.append(Source(path=str(tmp_path / f"{name}.jsonl")))
    found = load_many(sources, UNGUARDED)
    assert [item.key for item in found.items][:6] == [1, 2, 1, 3, 2, 1]
    assert len(found.items) == 18
    assert sum("counted from 0" in note for note in notes(found)) == 2
    for alone in (sources[:1], [sources[0], sources[2]]):
        with pytest.raises(DataError, match="may count from 1"):
            load_many(alone, UNGUARDED)


def test_open_questions_among_items_are_set_aside_whatever_row_comes_first(tmp_path: Path) -> None:
    items = made(options=lambda place, rest: [place, *rest], answer=one)
    for rows in (
        [*made(8, answer="x")[:4], *items],
        [*made(answer="x", options=None), *items],
        [*items, *made(answer="x")],
    ):
        with pytest.raises(DataError, match="no options"):
            loaded(tmp_path / "x", rows)
        assert right(loaded(tmp_path / "x", rows, skip_bad=True)) == [*PLACES]


@pytest.mark.parametrize(
    ("options", "key"), [(["True", "False"], True), (["no", "true", "false"], False), ([True, False], True)]
)
def test_true_is_the_option_of_that_name_and_never_an_index(
    tmp_path: Path, options: list[object], key: bool
) -> None:
    rows: list[Row] = [{"question": f"Is {n}?", "options": options, "answer": key} for n in range(5)]
    assert {text.casefold() for text in right(loaded(tmp_path / "x", rows))} == {str(key).casefold()}
    with pytest.raises(DataError, match="Write the text"):
        loaded(tmp_path / "x", [{**row, "options": ["yes", "no"]} for row in rows])


def test_fixed_options_are_proposed_and_added(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"question": f"Is {n}?", "final_decision": ("yes", "no", "maybe")[n % 3]} for n in range(9)
    ]
    with pytest.raises(DataError, match=r"--map choices==yes,no,maybe"):
        loaded(tmp_path / "x", rows)
    found = loaded(tmp_path / "x", rows, fields={"choices": "=yes,no,maybe"})
    assert right(found) == ["yes", "no", "maybe"] * 3


def test_pairs_of_sentences_get_one_question_for_all(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"sentence_good": f"{place} is big.", "sentence_bad": f"{place} are big.", "UID": "u"}
        for place in PLACES
    ]
    with pytest.raises(DataError, match="--map stem==TEXT"):
        loaded(tmp_path / "x", rows)
    found = loaded(tmp_path / "x", rows, fields={"stem": "=Which is right?", "id": None})
    assert {item.stem for item in found.items} == {"Which is right?"}
    assert right(found)[0] == "Rome is big."


def test_an_image_in_a_question_is_named_and_not_dropped(tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:..."}},
    ]
    rows = [
        {**row, "question": [{"role": "user", "content": parts}]} for row in made(options=others, answer="A")
    ]
    stems = {item.stem for item in loaded(tmp_path / "x", rows).items}
    assert stems == {"What is this?\n(image_url, not shown)"}


def test_a_quiz_in_yaml_keeps_its_texts(tmp_path: Path) -> None:
    rows = "".join(
        f"  - question: Is {n}?\n    options: [Yes, No, 1.50]\n    answer: {('Yes', 'No', '1.50')[n]}\n"
        for n in range(3)
    )
    for head in ("questions:\n", "title: My quiz\nquestions:\n", ""):
        (tmp_path / "quiz.yaml").write_text(
            head + (rows if head else rows.replace("\n  ", "\n").removeprefix("  "))
        )
        assert right(load(Source(path=str(tmp_path / "quiz.yaml")), UNGUARDED)) == ["Yes", "No", "1.50"]


def test_quotation_marks_and_second_answers_in_one_text_are_seen(tmp_path: Path) -> None:
    quoted = made(correct_answer=lambda place, _: f'"{place}"', incorrect_answers=others)
    assert right(loaded(tmp_path / "x", quoted)) == [*PLACES]
    two = made(
        correct_answers=lambda place, _: f"{place}; the town",
        incorrect_answers=lambda _, rest: "; ".join(rest),
    )
    with pytest.raises(DataError, match="several right answers"):
        loaded(tmp_path / "x", two)
    parts = made(
        options=lambda place, rest: [[{"type": "text", "text": one}] for one in (place, *rest)], answer="A"
    )
    assert right(loaded(tmp_path / "x", parts)) == [*PLACES]


@pytest.mark.parametrize(
    "listing",
    ["a) {} b) {} c) {}", "1. {} 2. {} 3. {}", "(i) {} (ii) {} (iii) {}", "{}\t{}\t{}", "{} & {} & {}", "{} - {} - {}",
     "{}• {}• {}", "{}##{}##{}", "{}<br>{}<br>{}", "{}. {}. {}", "['{}'; '{}'; '{}']", "['{}'| '{}'|"],
)  # fmt: skip
def test_wrong_options_that_one_text_lists_in_any_way_are_no_single_option(
    tmp_path: Path, listing: str
) -> None:
    rows = made(correct_answer=one, incorrect_answers=lambda _, rest: listing.format(*rest))
    with pytest.raises(DataError, match="one text"):
        loaded(tmp_path / "x.jsonl", rows)


def test_a_single_wrong_option_in_a_plural_column_stays_an_option(tmp_path: Path) -> None:
    rows = made(correct_answer=one, incorrect_answers=lambda _, rest: f"{rest[0]}-on-Sea (old).")
    assert right(loaded(tmp_path / "x.jsonl", rows)) == [*PLACES]


@pytest.mark.parametrize("first", ["{}", "{}.0", "q{}", "geography"])
def test_a_column_before_the_questions_of_a_table_without_header_is_no_question(
    tmp_path: Path, first: str
) -> None:
    options = [[place, *PLACES[:at], *PLACES[at + 1 :]][:4] for at, place in enumerate(PLACES)]
    rows = [[first.format(at), f"Where is place number {at}?", *row, "A"] for at, row in enumerate(options)]
    file = tmp_path / "x.csv"
    file.write_text("\n".join(",".join(row) for row in rows) + "\n", "utf-8")
    with pytest.raises(DataError, match="header"):
        load(Source(path=str(file)), UNGUARDED)
    file.write_text("\n".join(",".join(row[1:]) for row in rows) + "\n", "utf-8")
    assert right(load(Source(path=str(file)), UNGUARDED)) == [*PLACES]


@pytest.mark.parametrize("blank", ["nan", "N/A", "\u00a0\u200b", "None"])
def test_a_blank_question_under_a_passage_is_no_item(tmp_path: Path, blank: str) -> None:
    rows = made(passage="A story.", choices=lambda place, rest: [place, *rest], answer=0)
    rows[2]["question"] = blank
    with pytest.raises(DataError, match=":3: the stem is empty"):
        loaded(tmp_path / "x.jsonl", rows)


def test_options_in_quotation_marks_lose_them_only_all_together(tmp_path: Path) -> None:
    rows = made(options=lambda place, rest: "; ".join(f'"{text}"' for text in [place, *rest]), answer="A")
    rows[1]["options"] = '"Hamlet"; Sucre; Quito; Oslo'
    assert right(loaded(tmp_path / "x.jsonl", rows)) == ["Rome", '"Hamlet"', *PLACES[2:]]
