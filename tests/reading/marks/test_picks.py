"""What a text names among options: each dress, alphabet, language, and false friend stands in `cases/logs/replies.yaml`."""

from typing import Any

import pytest

from robustify.reading.marks.labelling import COUNTED, LETTERS, ROMAN, series_of
from robustify.reading.marks.picks import NoPick, Picked, read_pick
from tests.support.cases import contents
from tests.support.cost import costs_at_most

CASES = contents("logs/replies")
CITIES = CASES["options"]
LABELS = {"latin": LETTERS, "roman": ROMAN, "from 0": COUNTED[0], "from 1": COUNTED[1]}


def index(text: str, options: list[str] | None = None, labels: Any = None, prefer: Any = None) -> int | str:
    reading = read_pick(text, options or CITIES, labels, prefer)
    return reading.index if isinstance(reading, Picked) else reading.reason


def written_out(text: str) -> str:
    for name, shown in CASES["texts"].items():
        text = text.replace(f"${name}", shown)
    return text


@pytest.mark.parametrize("group", CASES["groups"], ids=lambda group: group["name"])
def test_replies_of_each_group_are_read_as_the_corpus_says(group: dict[str, Any]) -> None:
    labels = group.get("labels")
    if labels is not None:
        labels = (
            series_of(labels["series of"]) if isinstance(labels, dict) else LABELS.get(str(labels), labels)
        )
    expected = group.get("each") or dict.fromkeys(
        (reply + more for reply in group["replies"] for more in group.get("followed_by", [""])),
        group["reads"],
    )
    assert expected == {
        reply: index(written_out(reply), group.get("options"), labels, group.get("prefer"))
        for reply in expected
    }


@pytest.mark.parametrize(
    "marks",
    ["أبجد", "ابتث", "АБВГ", "αβγδ", "ΑΒΓΔ", "אבגד", "甲乙丙丁", "一二三四", "ㄱㄴㄷㄹ", "가나다라", "アイウエ", "ｱｲｳｴ",
     "イロハニ", "あいうえ", "कखगघ", "কখগঘ", "กขคง", "აბგდ", "①②③④", "㉠㉡㉢㉣", "㉮㉯㉰㉱", "ＡＢＣＤ", "ⓐⓑⓒⓓ", "ABCD",
     "FGHJ"],
)  # fmt: skip
def test_a_file_tells_its_alphabet_and_then_each_mark_is_read(marks: str) -> None:
    labels = series_of(marks) or COUNTED[1]
    for dress in ("{}", "({})", "{}.", "**{}**", "{})", "{}、"):
        assert [index(dress.format(mark), labels=labels) for mark in marks] == [0, 1, 2, 3]
    pairs = zip(marks, CITIES, strict=True)
    assert [index(f"{mark}) {city}", labels=labels) for mark, city in pairs] == [0, 1, 2, 3]


def test_how_an_option_is_named_is_told() -> None:
    forms = {
        "B": "mark",
        "Rome": "text",
        "B) Rome": "both",
        "B) It is old": "explained",
        "B\nIt is old.": "explained",
    }
    assert [read_pick(text, CITIES) for text in forms] == [Picked(1, form) for form in forms.values()]
    assert read_pick("E", CITIES) == NoPick("beyond the options")


@pytest.mark.parametrize(
    "text",
    ["a " * 500_000, "'" * 1_000_000, "Answer A " * 111_000, "The answer is A. " * 50_000, "B) " * 300_000,
     "answer" + " " * 900_000, "A. No wait, " * 100_000, "Not A. " * 150_000, "<think>" * 100_000, "*a" * 500_000,
     "{" * 900_000, "A\n" * 400_000],
    ids=lambda text: text[:9],
)  # fmt: skip
def test_a_megabyte_takes_bounded_time(text: str) -> None:
    assert costs_at_most(200, lambda: read_pick(text, CITIES)) is not None
