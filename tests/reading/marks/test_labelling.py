"""Labels in front of options: `cases/logs/marks.yaml` says which are taken off, and which texts only look labelled."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.reading.marks.labelling import (
    Labelled,
    bare_mark,
    begins_without_label,
    cut_at_labels,
    only_labels,
    split_labels,
    without_tail,
)
from tests.support.cases import contents

TEXTS = ("red", "blue", "green")
CASES = contents("logs/marks")


@pytest.mark.parametrize("marks", CASES["marks"])
def test_labels_in_any_dress_are_taken_off(marks: str) -> None:
    pairs = list(zip(marks, TEXTS, strict=True))
    split = {
        dress: split_labels([dress.format(mark) + text for mark, text in pairs]) for dress in CASES["dresses"]
    }
    assert {
        dress: (labelled.texts, labelled.positions) for dress, labelled in split.items()
    } == dict.fromkeys(split, (TEXTS, (0, 1, 2)))


def test_further_labels_are_taken_off_and_texts_that_begin_like_labels_are_kept() -> None:
    assert [split_labels(options).texts for options in CASES["split"]] == [TEXTS] * len(CASES["split"])
    assert [options for options in CASES["kept"] if split_labels(options) is not None] == []


def test_labels_in_another_order_and_one_without_its_dot_are_told() -> None:
    moved = split_labels(["B. blue", "A. red"])
    assert (moved.labels, moved.in_order) == (("B", "A"), False)
    assert split_labels(["A. Lima", "B. Oslo", "C rome", "D. Riga"]).texts[2] == "rome"
    assert "Lima" not in repr(Labelled(("A",), ("Lima",), (0,)))


def test_options_that_are_nothing_but_labels_are_seen_in_any_alphabet() -> None:
    for name, seen in (("only_labels", True), ("not_only_labels", False)):
        assert [text for text in CASES[name] if only_labels(tuple(text.split())) is not seen] == []


def test_options_in_a_text_are_cut_at_their_labels() -> None:
    cuts = {text: cut_at_labels(text) for text in CASES["cut"]}
    assert {text: (cut.before, cut.texts) for text, cut in cuts.items()} == {
        text: (before, TEXTS) for text, before in CASES["cut"].items()
    }
    assert [text for text in CASES["not_cut"] if cut_at_labels(text) is not None] == []
    assert cut_at_labels("A. Smith and B. Jones").texts == ("Smith and", "Jones")


def test_a_prompt_is_cut_at_its_own_labels_and_loses_its_tail() -> None:
    lines = "Question: Q\nA. red\nand so on\nB. blue\nand so on\nAnswer:"
    assert cut_at_labels(lines, "ABC") is None
    assert without_tail(cut_at_labels(lines, "AB")).texts == ("red\nand so on", "blue\nand so on")
    assert without_tail(cut_at_labels("A. one\nB. two\ntwo\nC. three\nand an end", "ABC")) is None
    tail = without_tail(cut_at_labels("A. one\nB. two\ntwo\nC. three\nthree\nAnswer:", "ABC"))
    assert tail.texts[-1] == "three\nthree"


_PIECES = st.lists(
    st.sampled_from([
        *"ABcxivIVX12 .):(-=,", "option", "Choice", "ii", "xvi", "An", "kite", "drum", "  ", "\t", "é", "①", "abcdef",
    ]),
    max_size=6,
).map("".join)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(first=_PIECES, more=st.lists(_PIECES, min_size=1, max_size=3))
def test_what_begins_without_label_is_never_split(first: str, more: list[str]) -> None:
    if begins_without_label(first):
        assert split_labels([first, *more]) is None
        assert not only_labels((first, *more))
        assert bare_mark(first) is None
