"""What a text names among options: each dress, alphabet, and false friend in one table."""

import pytest

from robustify.reading.marks.labelling import COUNTED, LETTERS, ROMAN, series_of
from robustify.reading.marks.picks import NoPick, Picked, read_pick
from tests.support.cost import costs_at_most

CITIES = ["Athens", "Rome", "Paris", "Lima"]


def index(text: str, options: list[str] | None = None, labels: tuple[str, ...] | None = None) -> int | str:
    found = read_pick(text, options or CITIES, labels)
    return found.index if isinstance(found, Picked) else found.reason


DRESSES = (
    "B", "b", " B ", "(B)", "B.", "B)", "[B]", "{B}", "<B>", "B:", "B,", "B。", "【B】", "（B）", "B）", "(B", "**B**",
    "**B.**", "*B*", "__B__", "`B`", "$B$", "$$B$$", r"\boxed{B}", r"$\boxed{B}$", r"\boxed{\text{B}}", r"\text{B}",
    r"\(B\)", r"\[B\]", "<b>B</b>", '"B"', "'B'", "“B”", "«B»", "- B", "* B", "> B", "# B", "Ｂ", "Ⓑ", "⒝", "🅱", "𝐁",
    "②", "⑵", "❷", "II", "(ii)", "ii.", "\u200bB", "B\u200b", "\ufeffB.",
)  # fmt: skip
SAID = (
    "Answer: B", "Answer B", "answer: b", "ANSWER: B", "**Answer:** B", "**Answer: B**", "The answer is (B).",
    "The answer is B", "So the answer is B.", "The correct answer is **B**.", "The best option is B",
    "Correct option: B", "Final Answer: B", r"The final answer is: $\boxed{B}$", "#### B", "<answer>B</answer>",
    "Option B", "option B is the correct answer", "B is correct.", "I choose B", "It's B.",
    "The answer is B because A is wrong", "The answer is B, not A.", "B because it is old", "B. A is wrong",
    "B is the answer.", "I think it's B", "So, the answer must be B.", "B</s>", "B<|im_end|>", "O gabarito é B",
    "Đáp án đúng là B", "The answer to question 3 is B", "Answer (A, B, C or D): B", '{"answer": "B"}',
    '{"letter": "b", "reasoning": "A is new"}', "答案是B", "所以正确答案是B", "综上，答案为B。", "答案：B。", "故选：B",
    "答えはBです", "정답은 B입니다",
    "정답: B", "الإجابة: ب", "Ответ: Б", "ответ Б", "Antwort: B", "La réponse est B.", "La respuesta correcta es B",
    "Đáp án: B", "Jawapan: B",
)  # fmt: skip
WITH_TEXT = (
    "B) Rome", "B. Rome", "(B) Rome.", "B: Rome", "B - Rome", "B – Rome", "B, Rome", "B Rome", "B、Rome", "**B) Rome**",
    "**B.** Rome", "B) **Rome**", "B\nRome", "B\n\nRome", "Rome\nB", "b) rome", "Answer: B) Rome",
    "The answer is B. Rome", "B\nAnswer text: Rome", "Rome", "rome", "ROME.", "**Rome**", '"Rome"',
    "The answer is Rome.", r"\boxed{Rome}",
)  # fmt: skip
LONG = (
    "Let me think. A is big.\nB is old.\nThe answer is B", "A is Greek.\n\n**Answer:** B", "Athens is not it.\nB",
    "A cat is no city.\nSo it must be\n(B)", "B\n\nBecause it is old.", "B) Rome\nbecause Rome is old.",
    "A) Athens\nB) Rome\nC) Paris\nD) Lima\nAnswer: B", "<think>A or C? A cat.</think>\nB", "[THINK]C[/THINK] B",
    "<think>The answer is A.</think>The answer is B.", "B\nB", "B.\nRome is the capital of Italy.",
)  # fmt: skip


@pytest.mark.parametrize("text", [*DRESSES, *SAID, *WITH_TEXT, *LONG])
def test_the_second_option_is_named(text: str) -> None:
    assert index(text) == 1


@pytest.mark.parametrize("letter", "ABCD")
def test_a_remark_in_brackets_hides_no_letter(letter: str) -> None:
    assert index(f"{letter} (confidence: 0.9)") == "ABCD".index(letter)


@pytest.mark.parametrize(
    "marks",
    ["أبجد", "ابتث", "АБВГ", "αβγδ", "ΑΒΓΔ", "אבגד", "甲乙丙丁", "一二三四", "ㄱㄴㄷㄹ", "가나다라",
     "アイウエ", "ｱｲｳｴ", "イロハニ",
     "あいうえ", "कखगघ", "কখগঘ", "กขคง", "აბგდ", "①②③④", "㉠㉡㉢㉣", "㉮㉯㉰㉱", "ＡＢＣＤ", "ⓐⓑⓒⓓ", "ABCD", "FGHJ"],
)  # fmt: skip
def test_a_file_tells_its_alphabet_and_then_each_mark_is_read(marks: str) -> None:
    labels = series_of(marks) or COUNTED[1]
    for dress in ("{}", "({})", "{}.", "**{}**", "{})", "{}、"):
        assert [index(dress.format(mark), labels=labels) for mark in marks] == [0, 1, 2, 3]
    pairs = zip(marks, CITIES, strict=True)
    assert [index(f"{mark}) {city}", labels=labels) for mark, city in pairs] == [0, 1, 2, 3]


def test_marks_of_two_alphabets_are_read_only_if_the_file_tells_which() -> None:
    assert index("イ") == "mark of several alphabets" == index("В")
    assert index("イ", labels=series_of("アイウ")) == 1 != index("イ", labels=series_of("イロハ"))
    assert [index("ت"), index("ث", labels=series_of("ابتث"))] == [2, 3]


def test_roman_numbers_and_digits_count_as_the_file_says() -> None:
    assert [index(text, labels=ROMAN) for text in ("i", "II.", "(iii)", "iv) Lima")] == [0, 1, 2, 3]
    assert [index(text) for text in ("I", "i", "V")] == ["beyond the options"] * 3
    assert [index("I", ["x"] * 9 + ["y"], LETTERS), index("2")] == [8, "no mark"]
    counted = {"0": 0, "3": 3, "4": "beyond the options", "1. Rome": 1, "٢": 2}
    assert {text: index(text, labels=COUNTED[0]) for text in counted} == counted
    counted = {"1": 0, "4": 3, "0": "no mark", "2) Rome": 1, "**3**": 2, "D": 3}
    assert {text: index(text, labels=COUNTED[1]) for text in counted} == counted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"), (" \n", "empty"), ("E", "beyond the options"), ("(E)", "beyond the options"), ("ж",
        "beyond the options"),
        ("A or B", "several options"), ("A and B", "several options"), ("A, B", "several options"), ("A, B or C",
        "several options"),
        ("(A)(B)", "several options"), ("A) B)", "several options"), ("B) or C)", "several options"), ("A B",
        "several options"),
        ("A\nB", "several options"), ("Answer: A\nAnswer: B", "several options"), ("The answer is A or B",
        "several options"),
        ("A) Athens\nB) Rome\nC) Paris\nD) Lima", "several options"), ("B\nNo.\nThe answer is C", "several options"),
        ("B. The answer is C", "several options"), ("A. Athens is Greek\nC", "several options"),
        ("B) Paris", "mark and text differ"), ("B\nParis", "mark and text differ"), ("B Paris", "mark and text differ"),
        ("Answer: B. Paris", "mark and text differ"), ("B) Paris is the capital", "mark and text differ"),
        ("A\nAnswer text: Rome", "mark and text differ"), ("<think>B", "unfinished reasoning"),
        *((text, "no mark") for text in (
            "A cat has four legs", "A lot", "A positive", "I am sure", "I think", "not B", "between A and C", "A/B",
            "AB", "none",
            "None of them", "Neither A nor B", "The answer is not B", "The answer isn't B", "B is wrong",
            "B is not correct",
            "B) is wrong", "B. Not correct", "The incorrect answer is B", "The answer is a city", "Is it B?",
            "C major", "B or not B",
            "A-frames are red", "A.M. is before noon", "A.D. 1066", "Bananas", "Question B", "It could be B",
            "I would say B", "1",
            "The answer is unclear", "To", '{"letter": ["B", "C"]}', '{"letter": "B", "other": "A"}', '{"letter": "B"',
        )),
    ],
)  # fmt: skip
def test_what_names_no_option_says_why(text: str, reason: str) -> None:
    assert index(text) == reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, 1) for text in (
            "The answer is A. No wait, B", "The answer is A. Wait, actually B.", "A. Wait, B", "A\nActually, B.",
            "The answer is A. Sorry, I meant B.", "The answer is A. Scratch that. The answer is B.", "A no wait B",
            "Athens. Actually, Rome", "**A**\n\nOops, I meant **B**.", "A. Athens\n\nWait, that is wrong. It's B. Rome",
            "Die Antwort ist A. Nein, B.", "La respuesta es A. No, espera, B", "答案是A。不对，应该是B", "ответ А. Нет, Б",
            "The answer is A. No, C. No wait, B.", "The answer is C; wait, B", "The answer is B. Wait, I check. Yes. B.",
            "Not A. B", "It is not C. So B.", "It isn't A, it's B.", "The answer is not A but B", "A is wrong, so B",
            "Not A. Not C. B", "option_b", "B/",
        )),
        *((text, 0) for text in (
            "The answer is A. Wait for it.", "The answer is A. Actually, B is wrong.", "A. I mean it, B is new.",
            "The answer is A. No other option fits.", "The answer is A. I considered B, but it is wrong.", "A. Vitamin C",
        )),
        *((text, "several options") for text in (
            "The answer is A. Therefore B", "The answer is A. B.", "The answer is A. Hmm, maybe B",
        )),
        ("B. No wait, that's wrong", "withdrawn answer"), ("The answer is B. Wait, no.", "withdrawn answer"),
        *((text, "no mark") for text in ("Wait, no. B is old", "Not A. A", "Not B, C", "The answer is A, no B")),
    ],
)  # fmt: skip
def test_a_correction_counts_and_is_never_passed_over(text: str, expected: int | str) -> None:
    assert index(text) == expected


def test_texts_that_look_like_marks_are_texts_or_unclear() -> None:
    keys = ["A major", "C major", "C", "I"]
    assert [index(text, keys) for text in ("C major", "a major", "C", "I", "A", "B")] == [1, 0, 2, 3, 0, 1]
    moved = ["C", "D", "A", "B"]
    assert index("B", moved) == "mark or text"
    assert read_pick("B", moved, prefer="mark") == Picked(1, "mark")
    assert read_pick("B", moved, prefer="text") == Picked(3, "text")
    assert index("D. B", moved) == 3
    assert index("2", ["2", "3", "1"], COUNTED[1]) == "mark or text"
    assert index("12", ["2", "12"], COUNTED[1]) == 1
    assert index("Co", ["CO", "Co"]) == 1
    assert index("co", ["CO", "Co"]) == "identical options" == index("red", ["red", "red"])
    assert index("A.D. 1066", ["44 B.C.", "A.D. 1066"]) == 1


def test_labels_of_an_item_name_its_options_in_their_own_order() -> None:
    assert [index(text, labels=tuple("BACD")) for text in "ABCD"] == [1, 0, 2, 3]
    assert index("A", labels=("1", "2", "3", "4")) == 0
    assert index("b", ["", "", ""]) == 1


def test_how_an_option_is_named_is_told() -> None:
    said = {"B) It is old": "explained", "B\nIt is old.": "explained"}
    texts = {"B": "mark", "Rome": "text", "B) Rome": "both", **said}
    found = {text: read_pick(text, CITIES) for text in texts}
    assert {text: pick.named_by for text, pick in found.items() if isinstance(pick, Picked)} == texts
    assert read_pick("E", CITIES) == NoPick("beyond the options")


@pytest.mark.parametrize(
    "text",
    ["a " * 500_000, "'" * 1_000_000, "Answer A " * 111_000, "The answer is A. " * 50_000, "B) " * 300_000,
     "answer" + " " * 900_000,
          "A. No wait, " * 100_000, "Not A. " * 150_000,
          "<think>" * 100_000, "*a" * 500_000, "{" * 900_000, "A\n" * 400_000],
    ids=lambda text: text[:9],
)  # fmt: skip
def test_a_megabyte_takes_bounded_time(text: str) -> None:
    assert costs_at_most(200, lambda: read_pick(text, CITIES)) is not None
