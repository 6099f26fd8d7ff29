"""One decision about the keys of a file: which column, which base, which form; and what stands beside the options.

Each form has eight questions. What is read must be right, and what a refusal proposes must work.
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.cli.data import mapped
from robustify.reading.loaders import notes
from tests.reading.loaders.made import Made, Of, index, letter, listed, loaded, number, right, text

ASKED = ("planet", "legs", "bees", "capital", "fruit", "frozen", "ocean", "kitten")
OPTIONS = tuple(tuple(f"{stem} {colour}" for colour in ("red", "green", "blue", "grey")) for stem in ASKED)
MADE = Made(tuple(f"Which {one}?" for one in ASKED), OPTIONS, (0, 1, 2, 3, 0, 1, 2, 3))
KEYS, RIGHT, rows = MADE.keys, MADE.right, MADE.rows


def by_letter(**more: object) -> Of:
    return lambda o, _: {**more, **dict(zip("ABCD", o, strict=True))}


def objects(**flag: tuple[object, object]) -> Of:
    """Option objects with one member for the text and a flag with its values for wrong and right."""
    return lambda o, k: [
        {"texto": one, **{name: said[at == k] for name, said in flag.items()}} for at, one in enumerate(o)
    ]


def cell(above: str = "", below: str = "", between: str = "\n", label: str = "{}. ") -> Of:
    def made(options: Sequence[str], _: int) -> str:
        lines = [label.format("ABCD"[at]) + one for at, one in enumerate(options)]
        return between.join([*([above] if above else []), *lines, *([below] if below else [])])

    return made


def sheet(header: str, record: str) -> str:
    """A CSV file with these cells for each question, its options, and its letter."""
    zipped = zip(ASKED, OPTIONS, KEYS, strict=True)
    return "\n".join([*[header] * bool(header), *(record.format(q, *o, "ABCD"[k]) for q, o, k in zipped)])


def members(above: str = "", below: str = "", label: str = "{}. ") -> Of:
    return lambda o, k: str(cell(above, below, label=label)(o, k)).split("\n")


def some(of: Of, other: Of, *at: int) -> Of:
    """The keys of `other` for the questions at these places, and else those of `of`."""
    return lambda o, k: (other if OPTIONS.index(tuple(o)) in at else of)(o, k)


READ: dict[str, object] = {
    "a list of one index": rows(choices=listed, gold=lambda o, k: [k]),
    "a list of one letter": rows(choices=listed, answer=lambda o, k: ["ABCD"[k]]),
    "a list of one text": rows(choices=listed, answer=lambda o, k: [o[k]]),
    "a list of one letter, as text": rows(choices=listed, answer=lambda o, k: f"['{'ABCD'[k]}']"),
    "a list of one index, as text": rows(choices=listed, answer=lambda o, k: f"[{k}]"),
    "a list of one letter twice": rows(choices=listed, answer=lambda o, k: ["ABCD"[k]] * 2),
    "a list of yes and no": rows(choices=listed, answer=lambda o, k: [at == k for at in range(4)]),
    "decorated letters": rows(
        choices=listed, answer=lambda o, k: ("**{}**", "Answer: {}", "{}.")[k % 3].format("ABCD"[k])
    ),
    "letters of another script": rows(choices=listed, answer=lambda o, k: "абвг"[k]),
    "letters and texts": rows(choices=listed, answer=some(letter, text, 1, 5)),
    "labels of two kinds": rows(
        choices=lambda o, k: {"text": list(o), "label": [*("1234" if k == 2 else "ABCD")]},
        answerKey=lambda o, k: "3" if k == 2 else "ABCD"[k],
    ),
    "a text and an index that agree": rows(options=by_letter(), correct_option=text, correct_index=index),
    "a letter and a number that agree": rows(options=listed, answer=letter, answer_idx=number),
    "a label and an index that agree": rows(options=listed, gold=index, answer=letter),
    "a sparse key before a full one": rows(
        choices=listed, answer=index, correct_answer=some(lambda *_: "", index, 2, 6)
    ),
    "an empty key before a full one": rows(choices=listed, answer=letter, correct_answer=lambda *_: None),
    "a type among the options": rows(options=by_letter(type=1), answer=index),
    "an explanation among the options": rows(options=by_letter(explanation="Because."), answer=letter),
    "an image and a hint among the options": rows(options=by_letter(image=None, hint="Think."), answer=text),
    "members called option_a": rows(
        options=lambda o, _: {"tip": 1, **{f"option_{a}": one for a, one in zip("abcd", o, strict=True)}},
        answer=letter,
    ),
    "an object for each letter": rows(
        options=lambda o, _: {a: {"text": one, "image": None} for a, one in zip("ABCD", o, strict=True)},
        answer=letter,
    ),
    "a line above the options": rows(options=cell("Options:"), answer=letter),
    "a line above the options, in the same line": rows(
        options=cell("Choose one:", between=" ", label="({}) "), answer=letter
    ),
    "a line in another language above": rows(options=cell("Bitte wählen", label="{}) "), answer=index),
    "a line in another language above options without labels": rows(
        options=cell("Opciones:", label=""), answer=letter
    ),
    "a member above options without labels": rows(options=lambda o, _: ["Choose one:", *o], answer=index),
    "roman keys": rows(choices=listed, answer=lambda o, k: ["i", "ii", "iii", "iv"][k]),
    "a column without a name between others": sheet("question,A,B,,C,D,answer", "{},{},{},,{},{},{}"),
    "no header, and an empty column": sheet("", "{},{},{},{},{},{},"),
    "a first article without questions": [
        {"article": "x", "questions": []},
        {"article": "y", "questions": rows(options=listed, answer=letter)},
    ],
    "a member above, keys as indexes": rows(options=members("Elige una", label="{}) "), answer=index),
    "a source below the options": rows(options=cell(below="Source: quiz book"), answer=letter),
    "a source below the options, between bars": rows(
        options=cell(below="Fuente: libro", between=" | "), answer=letter
    ),
    "an explanation below the options": rows(options=members(below="Explanation: because."), answer=letter),
    "an address below the options": rows(options=cell(below="https://example.org/page"), answer=letter),
    "the page as id": [{**row, "id": "https://example.org"} for row in rows(choices=listed, answer=letter)],
    "the page of two as id": [
        {**row, "id": f"page {at // 2}"} for at, row in enumerate(rows(choices=listed, answer=letter))
    ],
    "two empty columns": sheet("question,A,B,C,D,answer,,", "{},{},{},{},{},{},,"),
    "empty cells beyond the header": sheet("question,A,B,C,D,answer", "{},{},{},{},{},{},,"),
    "an empty column between others": sheet("question,,A,B,C,D,answer,", "{},,{},{},{},{},{},"),
    "an article with its questions": [
        {"article": f"Story {at}.", "questions": rows(options=listed, answer=letter)[2 * at : 2 * at + 2]}
        for at in range(4)
    ],
    "articles in a document": json.dumps({"version": 1, "data": [{"title": "T", "paragraphs": [{"context": "C",
        "qas": rows(options=listed, answer=letter)}]}]}),
    "an article with parallel lists": [{"article": f"Story {at}.",
        "questions": [str(row["question"]) for row in part], "options": [row["options"] for row in part],
        "answers": [row["answer"] for row in part]} for at in range(4) for part in [rows(options=listed,
        answer=letter)[2 * at : 2 * at + 2]]],
    "general and regional questions": json.dumps({"metadata": {"title": "x", "authors": [{"name": "n", "year": 1}]},
        "questions": rows(options=listed, answer=letter)[:4], "regional": {"North": rows(options=listed,
        answer=letter)[4:6], "South": rows(options=listed, answer=letter)[6:]}}),
    "two parts of a set": json.dumps(
        {"train": rows(options=listed, answer=letter)[:5], "test": rows(options=listed, answer=letter)[5:]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", READ)
def test_every_key_is_right_and_options_are_clean(tmp_path: Path, form: str) -> None:
    found = loaded(tmp_path / "x", READ[form])
    assert right(found) == RIGHT
    assert [item.choices for item in found.items] == list(OPTIONS)


PROPOSED: dict[str, tuple[object, str]] = {
    "a member of the right option alone": (rows(options=lambda o, k: [{"text": one} | ({"oikea": True} if at == k
        else {}) for at, one in enumerate(o)]), "key=oikea"),
    **{name: (rows(options=by_letter(), **{name: of}, domain=lambda *_: "general"), f"key={name}") for name,
        of in {"correct_key": letter, "correctOptionId": letter, "solution": index, "riktig": lambda o,
        k: f"{'ABCD'[k]}) {o[k]}"}.items()},
    "a number from 1": (rows(options=listed, soluzione=number), "key=soluzione --map key_is=number"),
    "a flag of another name": (rows(options=objects(oikea=(False, True))), "key=oikea"),
    "a flag in an object for each letter": (rows(options=lambda o, k: {a: {"texto": one, "oikea": at == k} for at,
        (a, one) in enumerate(zip("ABCD", o, strict=True))}), "key=oikea"),
    "a key among the options": (
        rows(options=lambda o, k: {**dict(zip("ABCD", o, strict=True)), "correct": "ABCD"[k]}),
        "key=options.correct",
    ),
    "a flag beside another": (rows(options=objects(tachada=(False, False), ok=("no", "yes"))), "key=ok"),
    "a flag of 0 and 1": (rows(options=objects(juste=(0, 1))), "key=juste"),
    "a letter beside a number that varies": (
        rows(options=listed, level=lambda o, k: (k + 1) % 4, rešitev=letter),
        "key=rešitev",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", PROPOSED)
def test_a_key_of_another_name_is_proposed_and_the_proposal_works(tmp_path: Path, form: str) -> None:
    content, proposed = PROPOSED[form]
    with pytest.raises(DataError) as caught:
        loaded(tmp_path / "x", content)
    (line,) = caught.value.lines
    (option,) = re.findall(r"add `(.+?)`", line)
    said = [word for word in shlex.split(option) if word != "--map"]
    assert " --map ".join(said) == proposed
    assert right(loaded(tmp_path / "x", content, fields=mapped(said))) == RIGHT


def wrong(o: Sequence[str], k: int) -> object:
    return (k + 1) % 4


REFUSED: dict[str, tuple[object, str]] = {
    "no column fits": (rows(options=listed, level=lambda *_: 7), "no field has one of the usual names for the key"),
    "two columns fit": (rows(options=listed, one=letter, two=lambda o, k: "ABCD"[(k + 1) % 4]), "for the key"),
    "keys that differ": (
        rows(options=listed, correct_option=text, correct_index=wrong),
        "but `correct_index` names choice 1",
    ),
    "digits among letters": (
        rows(choices=listed, answer=some(letter, number, 1, 5)),
        "the key is a number, but 6 other keys of the file are letters",
    ),
    "letters among digits": (
        rows(choices=listed, answer=some(index, letter, 1, 5)),
        "the key is a letter or text, but 6 other keys of the file are num",
    ),
    "digits among labels": (
        rows(choices=lambda o, _: {"text": list(o), "label": [*"ABCD"]}, answerKey=some(letter, number, 1)),
        "is a number, but 7",
    ),
    "several in a list": (rows(choices=listed, answer=lambda o, k: ["A", "C"]), "several right answers (2"),
    "several indexes": (rows(choices=listed, answer=lambda o, k: [0, 2]), "several right answers (2"),
    "several with a comma": (rows(choices=listed, answer=lambda o, k: "A,C"), "several right answers (2"),
    "several with a word": (rows(choices=listed, answer=lambda o, k: "B and D"), "several right answers"),
    "several in a row": (rows(choices=listed, answer=lambda o, k: "ACD"), "several right answers (3"),
    "several texts": (rows(choices=listed, answer=lambda o, k: "; ".join(o[:2])), "several right answers (2"),
    "no key in a list": (rows(choices=listed, answer=lambda o, k: []), "the key is empty"),
    "small letters as options": ([{"question": f"Which? (a) {o[0]} (b) {o[1]} (c) {o[2]}", "choices": [*"abc"],
        "answer": 2} for o in OPTIONS], "the options are only letters"),
    "numbers as options": (
        [{"question": f"Which?\n1. {o[0]}\n2. {o[1]}", "choices": [*"12"], "answer": "1"} for o in OPTIONS],
        "only letters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_refused_says_why_and_proposes_nothing_that_does_not_work(tmp_path: Path, form: str) -> None:
    content, reason = REFUSED[form]
    with pytest.raises(DataError) as caught:
        loaded(tmp_path / "x", content)
    assert reason in caught.value.lines[0]
    assert not any(option in str(caught.value) for option in (*RIGHT, "Which planet"))
    for part, said in re.findall(r"`--map (key|key_is)=(\w+)`", str(caught.value)):
        assert loaded(tmp_path / "x", content, fields={part: said}).quarantined == ()


@pytest.mark.parametrize("several", [["A", "C"], "A,C", "B and D", [0, 2]])
def test_rows_with_several_right_answers_can_be_set_aside(tmp_path: Path, several: object) -> None:
    of = index if several == [0, 2] else letter
    content = rows(choices=listed, answer=some(of, lambda *_: several, 2))
    found = loaded(tmp_path / "x", content, skip_bad=True)
    assert right(found) == RIGHT[:2] + RIGHT[3:]
    assert ["several right answers" in row.reason for row in found.quarantined] == [True]


@pytest.mark.parametrize(
    ("keys", "hinted"),
    [
        ([1, 2, 3, 4] * 2, True),
        ([0, 2, 3, 4] * 2, False),
        ([1, 2, 3, 5] * 2, False),
        ([1, 2, 3, 4, 1, 2, 3, 0], False),
    ],
)
def test_counting_from_1_is_proposed_only_where_it_fits_every_row(
    tmp_path: Path, keys: list[int], hinted: bool
) -> None:
    content = [{**row, "answer": key} for row, key in zip(rows(choices=listed), keys, strict=True)]
    with pytest.raises(DataError) as caught:
        loaded(tmp_path / "x", content)
    assert ("--map key_is=number" in str(caught.value)) == hinted


def test_a_hint_for_a_row_with_fewer_options_does_not_break_the_others(tmp_path: Path) -> None:
    content = rows(choices=some(listed, lambda o, _: list(o[:3]), 3), answer=index)
    with pytest.raises(DataError, match=r"x:4: the key is 3, but there are only 3 choices \(0 to 2\)$"):
        loaded(tmp_path / "x", content)


NOTED: dict[str, tuple[object, str]] = {
    "a second list": (rows(choices=listed, answer=letter, mc2_targets=listed), "1 field not read: mc2_targets"),
    "a sparse key": (READ["a sparse key before a full one"], "`correct_answer` has a value in some rows only"),
    "members of an object": (READ["a type among the options"], "not read as an option: `type` (in 8 of 8 rows)"),
    "a line above": (READ["a line above the options"], "a line above the options (in 8 of 8"),
    "a line below": (READ["a source below the options"], "a line below the options (in 8 of 8"),
    "an option without a label": (
        rows(options=members(below="quiz book"), answer=letter),
        "8 of 8 items have an option without",
    ),
    "lines after the last option": (
        rows(options=cell(below="and more of it"), answer=letter),
        "kept as a part of the last option: lines after its first line (in 8 of 8",
    ),
    "a list in a document": (READ["general and regional questions"], "not read: 1 list (metadata.authors)"),
    "lists that were joined": (READ["two parts of a set"], "2 lists (train, test) were read as one file"),
    "lists named by a text": (
        json.dumps({f"Which {n}?": rows(options=listed, answer=letter) for n in ("red", "blue")}),
        "the items of 2 lists were read as one file",
    ),
    "an id that repeats": (READ["the page as id"], "IDs repeat (in "),
    **{f"placeholder {filler}": (rows(choices=lambda o, _, f=filler: [*o, f], answer=letter),
        "8 of 8 items have placeholders") for filler in ("N/A", "None", "-", "null")},
}  # fmt: skip


@pytest.mark.parametrize("form", NOTED)
def test_what_was_not_read_is_said(tmp_path: Path, form: str) -> None:
    content, note = NOTED[form]
    said = notes(loaded(tmp_path / "x", content))
    assert any(note in one for one in said), said
    assert not any(option in str(said) for option in RIGHT)


MARKED: Sequence[tuple[str, ...]] = [tuple(f"{'CADB'[at]}) {o[at]}" for at in range(4)) for o in OPTIONS]


@pytest.mark.parametrize("at", [range(8), [5]], ids=["all rows", "one row"])
def test_letters_inside_options_in_another_order_are_never_counted_as_positions(
    tmp_path: Path, at: Sequence[int]
) -> None:
    names = dict.fromkeys("ABCD")
    shown = [list(MARKED[one] if one in at else OPTIONS[one]) for one in range(8)]
    lists = [
        {"question": q, "options": o, "answer": "ABCD"[k]} for q, o, k in zip(ASKED, shown, KEYS, strict=True)
    ]
    columns = [
        {"question": r["question"], **dict(zip(names, r["options"], strict=True)), "answer": r["answer"]}
        for r in lists
    ]
    for found in ([] if len(at) == 8 else [lists], [columns]):
        for one in found:
            with pytest.raises(
                DataError, match="ambiguous, because the options begin with letters in another order"
            ):
                loaded(tmp_path / "x", one)
            assert len(loaded(tmp_path / "x", one, fields=mapped(["key_is=letter"])).items) == 8


def test_an_option_before_initials_in_any_order_stays_an_option(tmp_path: Path) -> None:
    found = rows(
        choices=lambda o, k: ["E. red", "B. blue", "A. green", "C. grey"] if k == 1 else [*o], answer=index
    )
    assert [item.k for item in loaded(tmp_path / "x", found).items] == [4] * 8


def test_numbers_of_options_that_are_never_the_last_are_refused_if_that_is_unlikely(tmp_path: Path) -> None:
    found = [
        {
            "question": f"{r['question']} {n}",
            **{f"option{at + 1}": o for at, o in enumerate(r["choices"])},
            "answer": n % 3 + 1,
        }
        for n in range(2)
        for r in rows(choices=listed)
    ]
    with pytest.raises(DataError, match=r"keys may count from 0.*key_is=label` or `--map key_is=index"):
        loaded(tmp_path / "x", found)


def test_rows_that_the_viewer_of_the_hub_cut_are_refused(tmp_path: Path) -> None:
    found = [
        {"row_idx": at, "row": row, "truncated_cells": ["question"] * (at == 3)}
        for at, row in enumerate(rows(choices=listed, answer=index))
    ]
    with pytest.raises(DataError, match="truncated_cells"):
        loaded(tmp_path / "x", found)
    assert len(loaded(tmp_path / "x", found, skip_bad=True).items) == 7
