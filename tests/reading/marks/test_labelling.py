"""Labels in front of options: which are taken off, and which texts only look labelled."""

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

TEXTS = ("red", "blue", "green")


@pytest.mark.parametrize(
    "marks",
    ["ABC", "abc", "ＡＢＣ", "123", "012", "أبج", "ابت", "АБВ", "אבג", "甲乙丙", "가나다", "アイウ", "कखग", "αβγ"],
)  # fmt: skip
@pytest.mark.parametrize(
    "dress",
    ["{}) ", "{})", "({}) ", "({})", "[{}] ", "{}. ", "{}: ", "{}．", "{}、", "（{}）", "{}）", "**{}.** ", "Option {}: "]
)  # fmt: skip
def test_labels_in_any_dress_are_taken_off(marks: str, dress: str) -> None:
    found = split_labels([dress.format(mark) + text for mark, text in zip(marks, TEXTS, strict=True)])
    assert (found.texts, found.positions) == (TEXTS, (0, 1, 2))


@pytest.mark.parametrize(
    "options",
    [["①red", "②blue", "③green"], ["i. red", "ii. blue", "iii. green"], ["I) red", "II) blue", "III) green"],
     ["⒜ red", "⒝ blue", "⒞ green"], ["A, red", "B, blue", "C, green"], ["A - red", "B - blue", "C - green"],
     ["א' red", "ב' blue", "ג' green"], ["A.red", "B.blue", "C.green"], ["㉠ red", "㉡ blue", "㉢ green"],
     ["ア　red", "イ　blue", "ウ　green"], ["F. red", "G. blue", "H. green"],
     ["**A. red**", "**B. blue**", "**C. green**"], ["\u200bA. red", "\ufeffB. blue", "C. green"],
     ["\u200fأ. red", "\u200fب. blue", "\u200fج. green"]],
)  # fmt: skip
def test_further_dresses_are_taken_off(options: list[str]) -> None:
    found = split_labels(options)
    assert found.texts == TEXTS


@pytest.mark.parametrize(
    "options",
    [["A.D. 1066", "B.C. 44"], ["I am", "You are"], ["1.5 kg", "2.5 kg"], ["C major", "D minor"], ["A major",
     "B major"],
     ["A, B", "B, C", "C, D"], ["1, 2", "2, 3"], ["1 - 2", "2 - 3"], ["1:30", "2:30"], ["a:b", "b:c"], ["A-", "B-"],
      ["A", "B"],
     ["A) ", "B) "], ["A. red", "A. blue"], ["I. Newton", "C. Darwin"], ["A positive", "B positive"], ["A red",
      "B blue", "C"],
     ["A. red", "blue", "C. green"], ["(A and B)", "(B and C)"], ["(a+b)", "(b+c)"], ["i.e. red", "e.g. blue"], [],
      ["A. red"],
     ["A.M.", "B.M."], ["Vitamin A", "Vitamin B"]],
)  # fmt: skip
def test_texts_that_begin_like_labels_are_kept(options: list[str]) -> None:
    assert split_labels(options) is None


def test_labels_in_another_order_and_one_without_its_dot_are_told() -> None:
    moved = split_labels(["B. blue", "A. red"])
    assert (moved.labels, moved.in_order) == (("B", "A"), False)
    slip = split_labels(["A. Lima", "B. Oslo", "C rome", "D. Riga"])
    assert slip.texts[2] == "rome"
    assert split_labels(["A. Lima", "B. Oslo", "Crome", "D. Riga"]) is None
    assert "Lima" not in repr(Labelled(("A",), ("Lima",), (0,)))


def test_options_that_are_nothing_but_labels_are_seen_in_any_alphabet() -> None:
    named = "A B C D,a b c d,(A) (B),A. B.,i ii iii,1 2 3,0 1 2,أ ب ج د,Ａ Ｂ,① ②, A  B"
    for marks in named.split(","):
        assert only_labels(tuple(marks.split()))
    for marks in ("A C B", "B C", "A B AB O", "red blue", ""):
        assert not only_labels(tuple(marks.split()))


@pytest.mark.parametrize(
    ("text", "before"),
    [("Which? (a) red (b) blue (c) green", "Which?"), ("A) red | B) blue | C) green", ""),
     ("Q\nA. red\nB. blue\nC. green", "Q"),
     ("Q\nA: red\nB: blue\nC: green", "Q"), ("Q\n أ. red\n ب. blue\n ج. green", "Q"), ("Q: ① red ② blue ③ green", "Q:"),
     ("Q\ni) red\nii) blue\niii) green", "Q"), ("Q\nA. x\nB. y\nAnswer: B\n\nR\nA. red\nB. blue\nC. green",
     "Q\nA. x\nB. y\nAnswer: B\n\nR"),
     ("1. Q\nA、red\nB、blue\nC、green", "1. Q")],
)  # fmt: skip
def test_options_in_a_text_are_cut_at_their_labels(text: str, before: str) -> None:
    found = cut_at_labels(text)
    assert (found.before, found.texts) == (before, TEXTS)


def test_a_text_without_options_is_not_cut() -> None:
    for text in ("Which is red?", "A. Smith and B. Jones", "see (b) and (a)", "A) red", "In 1. FC Köln", ""):
        found = cut_at_labels(text)
        assert found is None or found.texts == ("Smith and", "Jones")


def test_a_prompt_is_cut_at_its_own_labels_and_loses_its_tail() -> None:
    lines = "Question: Q\nA. red\nand so on\nB. blue\nand so on\nAnswer:"
    cut = cut_at_labels(lines, "AB")
    assert cut is not None
    assert cut_at_labels(lines, "ABC") is None
    whole = without_tail(cut)
    assert whole.texts == ("red\nand so on", "blue\nand so on")
    uneven = cut_at_labels("A. one\nB. two\ntwo\nC. three\nand an end", "ABC")
    assert uneven is not None
    assert without_tail(uneven) is None
    tail = cut_at_labels("A. one\nB. two\ntwo\nC. three\nthree\nAnswer:", "ABC")
    assert tail is not None
    assert [one.texts[-1] for one in [without_tail(tail)] if one] == ["three\nthree"]


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
