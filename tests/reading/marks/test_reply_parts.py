"""Replies that do more than name an option: made-up questions, lists, fences, and announcements in other languages."""

import pytest

from robustify.reading.marks.picks import Picked, read_pick

CITIES = ["Athens", "Rome", "Paris", "Lima"]
LISTED = "What is the capital of Atlantis?\nA. Foo\nB. Bar\nC. Baz\nD. Qux\nAnswer: C"
ASKED = f"Question: {LISTED}"
OWN = "Question: Which is it?\nA. Athens\nB. Rome\nC. Paris\nD. Lima\nAnswer: "


def index(text: str, options: list[str] | None = None) -> int | str:
    found = read_pick(text, CITIES if options is None else options)
    return found.index if isinstance(found, Picked) else found.reason


ANSWERS = (
    "B", " B. Rome", "**B. Rome**", "(B) Rome", "B) Rome, because it is old.", "Rome", "**Rome**", "The answer is B.",
    "B. Rome\nExplanation: it is old.", "Answer: B", "```json\n{\"answer\": \"B\"}\n```", "答案：B",
)  # fmt: skip
RUN_ON = (
    f"\n\n{ASKED}", f"\n{ASKED}", f"\n\n{LISTED}", f"\n\n{ASKED}\n\n{ASKED}", "\n\nQ: Next?\nA: C",
    "\n\n### Question 2\nNext\nAnswer: C", "\n\n**Question:** next\n**Answer: C**", "\n\nHuman: next\nAssistant: C",
    "\n\nPassage: It rains.\n\nQuestion: Does it?\nAnswer: C", "\n\n问题：下一个\n答案：C", "\n\nPregunta: x\nRespuesta: C",
    "\n\nSoal 2: x\nJawaban: C", "\n\nThe next one is\nA. Foo\nB. Bar\nAnswer: C", f"\n\n{OWN}C",
)  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("more", RUN_ON)
def test_a_reply_ends_where_the_next_question_begins(answer: str, more: str) -> None:
    assert index(answer + more) == 1


def test_a_question_on_the_line_of_the_answer_ends_it() -> None:
    assert index("B. Rome Question: Next? Answer: C") == 1
    assert index("B<|im_end|>\n<|im_start|>user\nNext<|im_end|>\nC") == 1


def test_only_the_number_of_options_is_needed() -> None:
    assert [index(f"B\n\n{ASKED}", [""] * 4), index("B\n\nIs it?\nAnswer: C", [""] * 4)] == [1, 1]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (f"B. Rome\n\nAnswer: C\n\n{ASKED}", "several options"),
        (f"B. Rome\nC. Paris\n\n{ASKED}", "several options"),
        (f"B\nC\n{ASKED}", "several options"),
        (f"I am not sure.\n\n{ASKED}", "another question"),
        (ASKED, "another question"),
        (f"It is hard.\n\n{LISTED}", "another question"),
    ],
)
def test_an_answer_to_another_question_is_no_answer(reply: str, reason: str) -> None:
    assert index(reply) == reason


@pytest.mark.parametrize(
    "reply",
    [
        f"{OWN}B", f"Let me repeat it.\n{OWN}B", "Question: Which is it?\nAnswer: B",
        "Let me check:\nA. This is wrong\nB. This is right\nThe answer is B.",
        "A. No, Athens is Greek.\nB. Yes.\nSo the answer is B.",
    ],
)  # fmt: skip
def test_a_repeated_question_and_an_analysis_belong_to_the_reply(reply: str) -> None:
    assert index(reply) == 1


@pytest.mark.parametrize(
    "reply",
    [
        "La respuesta correcta es la B.", "La bonne réponse est la B.",
        "La bonne réponse est la B. Rome", "C'est la réponse B.", "La réponse B est correcte.",
        "La opción correcta es la B", "La respuesta es la opción B", "Es la B", "Elijo la B",
        "La B es la respuesta correcta", "答案选B", "应选B项", "本题选B", "Rome是该国首都,故选B。",
        "Rome是该国首都，故选B",
        "只有选项B是对的", "只有B是正确的", "选B", "选项B正确", "B项正确", "答案是选项B", "正确选项是B",
        "因此选B", "故本题选B", "故答案为B",
        "正确答案为B。", "综上所述，选B", "B是正确答案", "```json\n{\"answer\": \"B\"}\n```",
        "Here:\n```json\n{\"answer\": \"B\"}\n```", "```\nB\n```", "```\n{\"answer\": \"B\"}\n```",
        "['B']", "[\"B\"]", "['Rome']", "('B',)", "['B', 'B']", "{\"answer\": [\"B\"]}",
        "Die richtige Antwort ist B.", "Antwort B ist richtig.", "Richtig ist B",
        "A resposta correta é a B", "A alternativa correta é a letra B", "Letra B",
        "A resposta é a alternativa B", "La risposta corretta è la B", "Jawapan yang betul ialah B",
        "Jawapannya ialah B", "Jawaban yang benar adalah B", "Jawabannya adalah B.", "Pilihan B",
        "الإجابة الصحيحة هي ب", "الجواب: (ب)", "الخيار ب", "Правильный ответ — Б", "Правильный ответ: Б",
        "Вариант Б", "Đáp án đúng là B", "정답은 B번입니다", "정답은 B입니다", "正解はBです",
        "正解は B です。", "答えは「B」です",
    ],
)  # fmt: skip
def test_other_words_and_wrappings_name_the_second_option(reply: str) -> None:
    assert index(reply) == 1


@pytest.mark.parametrize(
    "reply",
    [
        "Es la opción B.", "因此，正确的选项是B", '```{"answer": "B"}```', '{"answer": {"letter": "B"}}', "{'answer': 'B'}",
        '```json\n{"correct_answer": "B"}\n```', "Poprawna odpowiedź to B", "सही उत्तर B है", "B</s><s>[INST] next [/INST] A",
    ],
)  # fmt: skip
def test_more_wrappings_name_the_second_option(reply: str) -> None:
    assert index(reply) == 1


def test_lists_of_several_picks_name_none() -> None:
    assert [index(text) for text in ("['A', 'B']", '["A", "C"]', "[]")] == ["several options"] * 2 + ["empty"]
    assert index("['a']", ["['a']", "['b']", "a", "b"]) == 0
    assert [index(text) for text in ("不选B", "答案不是B", "La casa")] == ["no mark"] * 3
