"""Items in lm-eval's requests: which options they show, which question, and which key its `doc_to_target` names."""

from typing import Any

import pytest

from robustify.reading.harness.asked_items import item_table
from robustify.reading.loaders.layouts import RawItems, raw_items
from tests.support.cases import codes

OPTIONS = ["two pears", "four plums", "six figs"]


def row(n: int = 0, **parts: Any) -> dict[str, Any]:
    """A document of a task whose prompt lists three options under letters."""
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip("ABC", OPTIONS, strict=True))
    usual = {
        "task": "fruit",
        "doc": {"question": f"What is in bowl {n}?", "choices": OPTIONS},
        "text": f"Question: What is in bowl {n}?\n{listed}\nAnswer:",
        "choices": ["A", "B", "C"],
        "target": n % 3,
    }
    return {**usual, **parts}


def read(*rows: dict[str, Any]) -> RawItems:
    table, fields = item_table(rows)
    return raw_items("fruit", table, fields)


def faults(*rows: dict[str, Any]) -> list[str]:
    return [fault.reason for fault in item_table(rows)[0].faults]


def test_the_question_is_what_the_prompts_of_a_task_do_not_share() -> None:
    raw = read(*(row(n) for n in range(4)))
    assert [one.stem for one in raw.raws] == [f"What is in bowl {n}?" for n in range(4)]
    assert [one.choices for one in raw.raws] == [tuple(OPTIONS)] * 4
    assert raw.keys == (0, 1, 2, 0)


def test_the_order_of_the_prompt_counts_not_that_of_the_document() -> None:
    turned = "Which?\nA. six figs\nB. two pears\nC. four plums\nAnswer:"
    raw = read(row(0, text=turned), row(1, text=turned.replace("Which", "Where")))
    assert raw.raws[0].choices == ("six figs", "two pears", "four plums")


def test_options_of_several_lines_are_those_of_the_document() -> None:
    poems = ["red\nrose", "blue\nsky\nsea", " green\ngrass"]
    text = "Which?\n(A) red\nrose\n(B) blue\nsky\nsea\n(C)  green\ngrass\nSay a letter."
    raw = read(row(0, doc={"choices": poems}, text=text), row(1, doc={"choices": poems}, text=f"Now: {text}"))
    assert raw.raws[0].choices == tuple(poems)


@pytest.mark.parametrize("letters", ["AB", "ABCDEFGHIJ"])
def test_another_number_of_scored_letters_than_of_options_is_noted(letters: str) -> None:
    text = "Which?\n" + "\n".join(f"{letter}. thing {letter}" for letter in letters) + "\nAnswer:"
    raw = read(row(1, text=text), row(0))
    assert len(raw.raws[0].choices) == len(letters)
    assert f"3 for {len(letters)}" in raw.recognised.unread[0]


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"text": "Which?"}, "unlisted-options"),
        ({"text": "Which?", "choices": None}, "no-options"),
        ({"error": "TypeError"}, "failed-template"),
        ({"target": [0, 2]}, "several-right-answers"),
        *(({"target": target}, "key-of-no-choice") for target in (3, -1, "D", "four", [5], [])),
    ],
)
def test_a_document_that_is_no_item_is_a_fault_with_its_code(parts: dict[str, Any], code: str) -> None:
    assert codes(faults(row(**parts))) == [code]


def test_one_right_option_in_a_list_is_the_key() -> None:
    assert read(row(0, target=[2]), row(1)).keys == (2, 1)


@pytest.mark.parametrize(("target", "key"), [("B", 1), ("(c)", 2), ("Four  plums", None), ("four plums", 1)])
def test_a_task_that_generates_has_the_options_of_its_prompt(target: str, key: int | None) -> None:
    rows = [row(n, choices=None, target=target) for n in range(2)]
    assert len(faults(*rows)) == (2 if key is None else 0)
    if key is not None:
        assert read(*rows).keys == (key, key)


def test_a_passage_is_told_from_the_question() -> None:
    def about(n: int, passage: str) -> dict[str, Any]:
        text = f"Passage: {passage}\nQuestion: Who is number {n}?\nAnswer:"
        return row(n, doc={"passage": passage}, text=text, choices=OPTIONS)

    raw = read(about(0, "Ann has two pears."), about(1, "Ann has two pears."), about(2, "Bob has a fig."))
    assert [one.passage for one in raw.raws] == ["Ann has two pears.", "Ann has two pears.", "Bob has a fig."]
    assert [one.stem[one.question_at :] for one in raw.raws] == [f"Who is number {n}?" for n in range(3)]


def test_texts_that_a_prompt_also_lists_are_no_part_of_the_question() -> None:
    raw = read(*(row(n, choices=OPTIONS) for n in range(3)))
    assert raw.raws[2].stem == "What is in bowl 2?"


def test_contexts_are_options_if_they_differ_and_digits_if_nothing_is_listed() -> None:
    contexts = ["The pear fell since the pear", "The pear fell since the table"]
    raw = read(
        row(0, text="was ripe.", choices=contexts, target=0),
        row(1, text="was old.", choices=contexts, target=1),
    )
    assert raw.raws[0].choices == tuple(contexts)
    raw = read(*(row(n, text=f"Is {n} even?\nAnswer:", choices=["0", "1"], target=n % 2) for n in range(3)))
    assert raw.raws[0].choices == ("0", "1")


def test_tasks_of_a_group_are_topics_with_documents_of_the_same_ids() -> None:
    raw = read(row(0, task="a", doc={"id": "x"}), row(1, task="b", doc={"id": "x"}))
    assert [one.topic for one in raw.raws] == ["a", "b"]
    assert [one.id for one in raw.raws] == ["", ""]


def test_one_question_for_all_is_kept() -> None:
    raw = read(*(row(0, text="Which fits?", choices=[f"red {n}", f"blue {n}"], target=0) for n in range(3)))
    assert {one.stem for one in raw.raws} == {"Which fits?"}
