"""Layouts from the wild: small files with made-up texts in the shape of public benchmarks and of sheets of people.

Every file is read with the right options and keys, and with the passage that its question needs, or it is refused with a
mend. Each has three questions whose right answers are blue, four and oak.
"""

# ruff: noqa: E501 (one layout a line)

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load, notes
from tests.reading.loaders.made import Made, Of, Row, index, letter, lines, listed, number, table, text

MADE = Made(
    ("Which colour has the sky?", "How many legs has a cow?", "Which is a broad-leaved tree?"),
    (("red", "green", "blue", "grey"), ("two", "three", "four", "five"), ("oak", "elm", "fir", "ash")),
    (2, 2, 0),
)
ASKED, OPTIONS, KEYS, RIGHT = MADE.asked, MADE.options, MADE.keys, MADE.right
TOLD = ("A day in June.", "On a farm.", "In a wood.")
LETTERS = "ABCD"


def made(**names: object) -> list[Row]:
    """Rows with the fields `names`: a function of options and key, a constant, or `Q`, `P`, and `N` of the row."""

    def value(of: object, at: int) -> object:
        if of in ("Q", "P", "N"):
            return {"Q": ASKED, "P": TOLD, "N": range(3)}[str(of)][at]
        return of(OPTIONS[at], KEYS[at]) if callable(of) else of

    return [{name: value(of, at) for name, of in names.items()} for at in range(3)]


def opt(at: int) -> Of:
    return lambda options, _: options[at]


def spread(names: Sequence[str], **more: object) -> list[Row]:
    """Rows with a column for each option, at the place of the name `_` in `more`, or at the end."""
    columns = {name: opt(at) for at, name in enumerate(names)}
    if "_" not in more:
        return made(**more, **columns)
    at = [*more].index("_")
    items = [*more.items()]
    return made(**dict([*items[:at], *columns.items(), *items[at + 1 :]]))


def two(first: str, second: str, key: str, base: int, **more: object) -> list[Row]:
    """Rows with two options, of which the right one is second, first, second."""
    rows = made(**more)
    for at, row in enumerate(rows):
        pair = [RIGHT[at], OPTIONS[at][3]]
        place = (1, 0, 1)[at]
        row |= {first: pair[place], second: pair[1 - place], key: place + base}
    return rows


def wrong(options: Sequence[str], key: int) -> list[str]:
    return [option for at, option in enumerate(options) if at != key]


def no(at: int) -> Of:
    return lambda options, key: wrong(options, key)[at]


def dressed(form: str) -> Of:
    return lambda options, _: [form.format(LETTERS[at], one) for at, one in enumerate(options)]


def block(form: str, mark: str = "\n") -> Of:
    return lambda options, key: mark.join(dressed(form)(options, key))  # type: ignore[arg-type]


def labelled(**extra: object) -> Of:
    return lambda options, _: [{"label": LETTERS[at], "text": one, **extra} for at, one in enumerate(options)]


def pair(options: Sequence[str], _: int) -> dict[str, object]:
    return {"text": list(options), "label": [*LETTERS]}


def lettered(options: Sequence[str], _: int) -> dict[str, str]:
    return dict(zip(LETTERS, options, strict=True))


def flagged(name: str, flag: str, *said: object) -> Of:
    return lambda options, key: [{name: one, flag: said[at == key]} for at, one in enumerate(options)]


def joined(mark: str, label: str = "{}) ") -> Of:
    return block(label.replace("{}", "{0}") + "{1}", mark)


def scores(options: Sequence[str], key: int) -> dict[str, int]:
    return {one: int(at == key) for at, one in enumerate(options)}


def separated(rows: Sequence[Mapping[str, object]], by: str = ";", header: bool = True) -> str:
    cells = [[*rows[0]]] * header + [[*row.values()] for row in rows]
    return "".join(by.join("" if cell is None else str(cell) for cell in record) + "\n" for record in cells)


def doc(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def chat(*turns: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[at % 2], "content": turn} for at, turn in enumerate(turns)]


HH = "\n\nHuman: {}\n\nAssistant: {}"
BLOCK = [f"{q}\n{block('{}. {}')(o, 0)}\nAnswer:" for q, o in zip(ASKED, OPTIONS, strict=True)]
RACE = {
    "answers": [LETTERS[k] for k in KEYS],
    "options": [list(o) for o in OPTIONS],
    "questions": [*ASKED],
    "article": "P.",
    "id": "high1.txt",
}

READ: dict[str, object] = {
    "arc raw": lines([{"id": f"x{r['id']}", "question": {"stem": r.pop("stem"), "choices": r.pop("choices")}, "answerKey": r["answerKey"]} for r in made(id="N", stem="Q", choices=labelled(), answerKey=letter)]),
    "arc hub": made(id="N", question="Q", choices=pair, answerKey=letter),
    "hellaswag raw": made(ind="N", activity_label="a", ctx_a="Q", ctx_b="", ctx="Q", split="val", split_type="indomain", label=index, endings=listed, source_id="s"),
    "swag csv": separated([{"": at, **r} for at, r in enumerate(spread(["ending0", "ending1", "ending2", "ending3"], **{"video-id": "v", "fold-ind": "N", "startphrase": "Q", "sent1": "Q", "sent2": "x", "gold-source": "gold", "_": 0, "label": index}))], ","),
    "swag full": separated([{"": at, **r} for at, r in enumerate(made(**{"video-id": "v", "fold-ind": "N", "startphrase": "Q", "gold-ending": text, "distractor-0": no(0), "distractor-1": no(1), "distractor-2": no(2), "gold-source": "gold", "gold-type": "pos", "distractor-0-type": "pos", "distractor-1-type": "neg", "distractor-2-type": "neg", "sent1": "Q", "sent2": "x"}))], ","),
    "winogrande raw": two("option1", "option2", "answer", 1, qID="N", sentence="Q"),
    "race raw": doc(RACE),
    "race raw lines": [RACE],
    "race hub": made(example_id="high1.txt", article="P", answer=letter, question="Q", options=listed),
    "dream": doc([[["M: A day.", "W: In June."], [{"question": q, "choice": list(o), "answer": o[k]}], f"5-{at}"] for at, (q, o, k) in enumerate(zip(ASKED, OPTIONS, KEYS, strict=True))]),
    "c3": doc([[["甲：六月。"], [{"question": q, "choice": list(o), "answer": o[k]} for q, o, k in zip(ASKED, OPTIONS, KEYS, strict=True)], "1"]]),
    "quality": lines([{"article_id": "1", "set_unique_id": "1_A", "batch_num": "2", "writer_id": "3", "source": "s", "title": "t", "year": 1950, "author": "a", "topic": "fiction", "article": "P.", "questions": made(question="Q", question_unique_id="N", options=listed, writer_label=number, gold_label=number, validation=lambda o, k: [{"untimed_annotator_id": "1", "untimed_answer": 2, "untimed_eval1_answerability": 1}], speed_validation=lambda o, k: [{"speed_annotator_id": "1", "speed_answer": 3}], difficult=1), "url": "u", "license": "l"}]),
    "agieval raw": made(passage="P", question="Q", options=dressed("({}){}"), label=letter, answer=None, other=lambda o, k: {"solution": "s"}),
    "agieval raw without passage": made(passage=None, question="Q", options=dressed("({}){}"), label=letter, answer=None),
    "agieval hub": made(query=lambda o, k: f"Q: {ASKED[[*OPTIONS].index(tuple(o))]} Answer Choices: {' '.join(dressed('({}){}')(o, k))}\nA: Among A through D, the answer is", choices=dressed("({}){}"), gold=lambda o, k: [k]),
    "xcopa": two("choice1", "choice2", "label", 0, premise="Q", question="effect", idx="N", changed=False),
    "mmlu hub": made(question="Q", subject="s", choices=listed, answer=index),
    "mmlu pro": made(question_id="N", question="Q", options=listed, answer=letter, answer_index=index, cot_content="", category="c", src="s"),
    "global mmlu": spread(["option_a", "option_b", "option_c", "option_d"], sample_id="N", subject="s", subject_category="STEM", question="Q", _=0, answer=letter, required_knowledge="[]", time_sensitive="[]", reference="[]", culture="[]", region="[]", country="[]", cultural_sensitivity_label="CA", is_annotated=False),
    "okapi arc": [{**r, "option_e": None} for r in spread(["option_a", "option_b", "option_c", "option_d"], answerKey=letter, instruction="Q", id="N")],
    "medmcqa hub": spread(["opa", "opb", "opc", "opd"], id="N", question="Q", _=0, cop=index, choice_type="single", exp="e", subject_name="s", topic_name=None),
    "medqa": made(question="Q", answer=text, options=lettered, meta_info="step1", answer_idx=letter, metamap_phrases=lambda o, k: ["a"]),
    "sciq": doc(made(question="Q", distractor3=no(0), distractor1=no(1), distractor2=no(2), correct_answer=text, support="s")),
    "truthfulqa mc": doc(made(question="Q", mc1_targets=scores, mc2_targets=scores)),
    "truthfulqa hub": made(question="Q", mc1_targets=lambda o, k: {"choices": list(o), "labels": [int(a == k) for a in range(4)]}, mc2_targets=lambda o, k: {"choices": list(o), "labels": [int(a == k) for a in range(4)]}),
    "logiqa2": made(id="N", answer=index, text="P", question="Q", options=listed, type=lambda o, k: {"Conjunctive Reasoning": True}),
    "reclor": doc(made(context="P", question="Q", answers=listed, label=index, id_string="N")),
    "cosmosqa csv": separated(spread(["answer0", "answer1", "answer2", "answer3"], id="N", context="P", question="Q", _=0, label=index), ","),
    "quail": made(id="N", context_id="f1", question_id="N", domain="fiction", metadata=lambda o, k: {"author": "a"}, context="P", question="Q", question_type="t", answers=listed, correct_answer_id=index),
    "kmmlu": spread("ABCD", question="Q", answer=number, _=0, Category="c", **{"Human Accuracy": 0.5}),
    "arabicmmlu": separated([{**r, "Option 5": None, "is_few_shot": 0} for r in spread(["Option 1", "Option 2", "Option 3", "Option 4"], **{"ID": "N", "Source": "s", "Country": "c", "Group": "g", "Subject": "t", "Level": "l", "Question": "Q", "Context": "P", "Answer Key": letter})], ","),
    "belebele": spread(["mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"], link="l", question_number=lambda o, k: 1, flores_passage="P", question="Q", _=0, correct_answer_num=lambda o, k: str(k + 1), dialect="d", ds="2023-06-14"),
    "gpqa csv": separated(made(**{"Pre-Revision Question": "other?", "Pre-Revision Correct Answer": "x", "Pre-Revision Incorrect Answer 1": "y", "Pre-Revision Incorrect Answer 2": "z", "Pre-Revision Incorrect Answer 3": "w", "Question": "Q", "Correct Answer": text, "Incorrect Answer 1": no(0), "Incorrect Answer 2": no(1), "Incorrect Answer 3": no(2), "Explanation": "e", "High-level domain": "Physics", "Subdomain": "s", "Record ID": "N"}), ","),
    "bigbench": doc({"name": "n", "examples": made(input="Q", target_scores=scores), "metrics": ["multiple_choice_grade"]}),
    "storycloze csv": separated(two("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2", "AnswerRightEnding", 1, InputStoryid="N", InputSentence1="Q", InputSentence2="b", InputSentence3="c", InputSentence4="d"), ","),
    "anli": two("hypothesis_1", "hypothesis_2", "label", 1, observation_1="Q", observation_2="P"),
    "mathqa": doc(made(Problem="Q", Rationale="r", options=block("{} ) {}", " , "), correct=lambda o, k: "abcd"[k], annotated_formula="f", linear_formula="l", category="general")),
    "aqua": made(question="Q", options=dressed("{}){}"), rationale="r", correct=letter),
    "scienceqa": doc({str(at + 1): row for at, row in enumerate(made(question="Q", choices=listed, answer=index, hint="", image=None, task="closed choice", grade="grade2", subject="natural science", topic="t", category="c", skill="s", lecture="", solution="", split="test"))}),
    "mmmu": made(id="N", question="Q", options=lambda o, k: str(list(o)), explanation="", image_1=None, img_type="[]", answer=letter, topic_difficulty="Easy", question_type="multiple-choice", subfield="s"),
    "headqa raw": doc({"version": "1.0", "language": "en", "exams": {"Cuaderno_2013_1_B": {"name": "n", "year": "2013", "category": "biology", "data": made(qid="N", qtext="Q", ra=lambda o, k: str(k + 1), image="", answers=lambda o, k: [{"aid": a + 1, "atext": one} for a, one in enumerate(o)])}}}),
    "supergpqa": made(uuid="N", question="Q", options=listed, answer=text, answer_letter=letter, discipline="d", field="f", subfield="s", difficulty="middle", is_calculation=False),
    "m3exam": doc(made(question_text="Q", background_description=lambda o, k: ["b"], answer_text=lambda o, k: str(k + 1), options=lambda o, k: [f"({a + 1}) {one}" for a, one in enumerate(o)], need_image="no", language="thai", level="low", subject="s", subject_category="c", year="2015")),
    "lsat": doc([{"id": "1", "passage": "P.", "questions": made(question="Q", options=listed, answer=letter, id="N")}]),
    "trivia api": doc(made(category="c", id="N", correctAnswer=text, incorrectAnswers=wrong, question=lambda o, k: {"text": ASKED[[*OPTIONS].index(tuple(o))]}, tags=lambda o, k: ["t"], difficulty="easy")),
    "open trivia": doc({"response_code": 0, "results": made(type="multiple", difficulty="easy", category="c", question="Q", correct_answer=text, incorrect_answers=wrong)}),
    "mirage": doc({"medqa": {f"000{at}": r for at, r in enumerate(made(question="Q", options=lettered, answer=letter))}}),
    "casehold csv": separated([{"": at, **r} for at, r in enumerate(spread(["holding_0", "holding_1", "holding_2", "holding_3"], citing_prompt="Q", _=0, label=index))], ","),
    "bbq": lines([{**r, "ans2": "unknown"} for r in two("ans0", "ans1", "label", 0, example_id="N", question_index="1", question_polarity="neg", context_condition="ambig", category="c", context="P", question="Q")]),
    "ecqa csv": separated(spread(["q_op1", "q_op2", "q_op3", "q_op4"], q_no="N", q_concept="c", q_text="Q", _=0, q_ans=text, taskA_pos="p", taskA_neg="n"), ","),
    "musr": made(narrative="P", question="Q", choices=lambda o, k: str(list(o)), answer_index=index, answer_choice=text),
    "casimedicos": made(id="N", type="t", full_question="Q", full_answer="a", options=lambda o, k: {str(a + 1): one for a, one in enumerate(o)} | {"5": None}, correct_option=number, explanations=lambda o, k: {}),
    "webqa zebra": made(id="N", puzzle="P", question="Q", choices=listed, answer=text, created_at="2024"),
    # viewer, chats
    "hub viewer": doc({"features": [{"feature_idx": 0, "name": "question", "type": {"dtype": "string", "_type": "Value"}}], "rows": [{"row_idx": at, "row": row, "truncated_cells": []} for at, row in enumerate(made(question="Q", choices=listed, answer=index))], "num_rows_total": 3, "num_rows_per_page": 100, "partial": False}),
    "hh-rlhf": [{"chosen": HH.format(q, r), "rejected": HH.format(q, w)} for q, r, w in zip(ASKED, RIGHT, ("grey", "five", "ash"), strict=True)],
    "hh-rlhf two turns": [{"chosen": HH.format("Hello", "Hi!") + HH.format(q, r), "rejected": HH.format("Hello", "Hi!") + HH.format(q, w)} for q, r, w in zip(ASKED, RIGHT, ("grey", "five", "ash"), strict=True)],
    "trl implicit prompt": [{"chosen": chat(q, r), "rejected": chat(q, w), "score_chosen": 5.0, "score_rejected": 1.0} for q, r, w in zip(ASKED, RIGHT, ("grey", "five", "ash"), strict=True)],
    "trl explicit prompt": [{"prompt": chat(q), "chosen": chat(q, r)[1:], "rejected": chat(q, w)[1:]} for q, r, w in zip(ASKED, RIGHT, ("grey", "five", "ash"), strict=True)],
    "ultrafeedback": [{"prompt": q, "prompt_id": str(at), "chosen": chat(q, r), "rejected": chat(q, w), "messages": chat(q, r), "score_chosen": 8.0, "score_rejected": 2.0} for at, (q, r, w) in enumerate(zip(ASKED, RIGHT, ("grey", "five", "ash"), strict=True))],
    "rewardbench": made(prompt="Q", chosen=text, chosen_model="m", rejected=no(0), rejected_model="n", subset="s", id="N"),
    # sheets of people
    "german semicolons": separated(spread(["Antwort A", "Antwort B", "Antwort C", "Antwort D"], Nr="N", Frage="Q", _=0, **{"Richtige Antwort": letter, "Thema": "t"})),
    "german false": separated(made(Frage="Q", Antwort=text, FalscheAntwort1=no(0), FalscheAntwort2=no(1), FalscheAntwort3=no(2))),
    "german falsch": separated(made(frage="Q", antwort=text, falsch1=no(0), falsch2=no(1), falsch3=no(2))),
    "german cards": separated(made(Kategorie="k", Frage="Q", **{"richtige Antwort": text, "falsche Antwort 1": no(0), "falsche Antwort 2": no(1), "falsche Antwort 3": no(2)})),
    "german option": separated(spread(["Option A", "Option B", "Option C", "Option D"], Fragestellung="Q", _=0, richtig=letter)),
    "german plain letters": separated(spread("ABCD", Frage="Q", _=0, Antwort=letter)),
    "spanish commas": separated(spread(["opcion_a", "opcion_b", "opcion_c", "opcion_d"], pregunta="Q", _=0, respuesta_correcta=letter, explicacion="e", categoria="c"), ","),
    "spanish bom": "\ufeff" + separated(spread(["opcion_a", "opcion_b", "opcion_c", "opcion_d"], pregunta="Q", _=0, correcta=letter, explicacion="e", formato="f")).replace("\n", "\r\n"),
    "spanish statement": separated(spread(["Respuesta A", "Respuesta B", "Respuesta C", "Respuesta D"], Enunciado="Q", _=0, Correcta=letter, Tema="t")),
    "spanish list": separated(made(Pregunta="Q", Opciones=lambda o, k: "|".join(o), Respuesta=text, Categoria="c", Descripcion="d")),
    "spanish json": doc(made(id="N", pregunta="Q", opciones=listed, respuesta_correcta=index)),
    "spanish json object": doc({"preguntas": made(id="N", pregunta="Q", opciones=lettered, respuesta=letter)}),
    "german flags": doc({"fragen": made(frage="Q", antworten=lambda o, k: [{"text": one, "richtig": at == k} for at, one in enumerate(o)])}),
    "german solution beside the key": separated(spread("ABCD", Frage="Q", _=0, Richtig=letter, Lösung="Weil es so ist.")),
    "cmexam": table(made(Question="Q", Options=block("{} {}"), Answer=letter)),
    "hh-rlhf with blanks": [{"chosen": HH.format(f"{q} ", f"{r}\n"), "rejected": HH.format(f"{q} ", w)} for q, r, w in zip(ASKED, RIGHT, ("grey", "five", "ash"), strict=True)],
    "german json": doc({"fragen": made(frage="Q", antworten=listed, richtig=index)}),
    "german json false": doc(made(frage="Q", richtig=text, falsch=wrong)),
    "excel sep": "sep=;\n" + separated(spread("ABCD", question="Q", _=0, answer=letter)),
    "decimals": separated([{**r, "D": "3,5", "Schwierigkeit": "0,5"} for r in spread("ABCD", Frage="Q", _=0, Lösung=letter)]),
    "tabs": separated(spread("ABCD", question="Q", _=0, answer=letter), "\t"),
    "bars": separated(spread("ABCD", question="Q", _=0, answer=letter), "|"),
    "ids that repeat": [{**r, "id": (7, 7, 8)[at]} for at, r in enumerate(made(question="Q", choices=listed, answer=index))],
    "csv list of options": table(made(question="Q", options=lambda o, k: str(list(o)).replace('"', "'"), answer=letter)),
    "numbered columns title": table(spread(["Option1", "Option2", "Option3", "Option4"], Question="Q", _=0, **{"Correct Option": lambda o, k: f"Option{k + 1}"})),
    # forms in which people write items
    "labelled, between bars": table(MADE.rows(options=joined(" | "), answer=letter)),
    "labelled, on lines": table(MADE.rows(options=joined("\n"), answer=letter)),
    "labelled, in a row": table(MADE.rows(options=joined(" ", "({}) "), answer=letter)),
    "unlabelled, between semicolons": table(MADE.rows(options=joined("; ", ""), answer=letter)),
    "unlabelled, between bars, the text as key": table(MADE.rows(options=joined("|", ""), answer=text)),
    "correct as 0 and 1": lines(MADE.rows(options=flagged("option", "is_correct", 0, 1))),
    "marks that agree with a key": lines(MADE.rows(options=flagged("text", "correct", "no", "yes"), answer=letter)),
    "answer and distractors": lines(MADE.rows(answer=text, distractors=wrong)),
    "label and text as key": table(MADE.spread("ABCD", answer=lambda o, k: f"{'ABCD'[k]}) {o[k]}")),
    "the text in another case": table(MADE.spread("ABCD", answer=lambda o, k: o[k].upper())),
    "numbers with a point": table(MADE.spread("ABCD", answer=lambda o, k: f"{k}.0")),
    "shuffled labels of objects": lines(MADE.rows(options=lambda o, _: [{"id": "DCBA"[at], "text": one} for at, one in enumerate(o)], answer=lambda o, k: "DCBA"[k])),
    "the correct answer beside a student's": table(MADE.spread("ABCD", Answer=lambda *_: "B", **{"Correct Answer": letter}) ),
    "the correct option beside a label": table(MADE.spread("ABCD", label=lambda *_: 1, correct_option=letter)),
    "right or not beside the key": table(MADE.spread("ABCD", answer=letter, correct=lambda *_: "True")),
    "a fifth option from the second row on": lines([MADE.spread("ABCD", answer=letter)[0], *({**row, "E": "none"} for row in MADE.spread("ABCD", answer=letter)[1:])]),
}  # fmt: skip
BLOCK_FILES = {
    "openai evals": lines([{"input": [{"role": "system", "content": "Answer."}, {"role": "user", "content": b}], "ideal": LETTERS[k]} for b, k in zip(BLOCK, KEYS, strict=True)]),
    "openai evals text": lines([{"input": b, "ideal": LETTERS[k]} for b, k in zip(BLOCK, KEYS, strict=True)]),
    "bbh": doc({"canary": "c", "examples": [{"input": f"{q}\nOptions:\n{block('({}) {}')(o, 0)}", "target": f"({LETTERS[k]})"} for q, o, k in zip(ASKED, OPTIONS, KEYS, strict=True)]}),
    "model written": lines([{"question": f"{q}\n\nChoices:\n (A) {o[0]}\n (B) {o[1]}", "answer_matching_behavior": " (A)", "answer_not_matching_behavior": " (B)"} for q, o in zip(ASKED, OPTIONS, strict=True)]),
    "gaokao": doc({"keywords": "k", "example": [{"year": "2010", "category": "c", "question": b, "answer": [LETTERS[k]], "analysis": "x", "index": at, "score": 5} for at, (b, k) in enumerate(zip(BLOCK, KEYS, strict=True))]}),
    "worldtree": separated([{"QuestionID": f"M{at}", "originalQuestionID": 1, "totalPossiblePoint": 1, "AnswerKey": LETTERS[k], "isMultipleChoiceQuestion": 1, "includesDiagram": 0, "examName": "e", "schoolGrade": 8, "year": 2000, "question": f"{q} {block('({}) {}', ' ')(o, 0)}", "subject": "", "category": "Test"} for at, (q, o, k) in enumerate(zip(ASKED, OPTIONS, KEYS, strict=True))], ","),
    "dolly": lines([{"prompt": b, "completion": LETTERS[k]} for b, k in zip(BLOCK, KEYS, strict=True)]),
}  # fmt: skip


QUIZ = "is a quiz export"
AIKEN = "Which colour?\nA. red\nB. green\nC. blue\nD. grey\nANSWER: C\n\n" * 3
GIFT = "::Q::Which colour? {~red ~green =blue ~grey}\n\n" * 3
TABLE = table(spread("ABCD", question="Q", _=0, answer=letter))
BLOCK_MEND = (
    "Put the question and each option into fields of their own, for example question, A, B, C, D, and answer."
)
REFUSED: dict[str, tuple[object, str, object]] = {
    # content, what the refusal says, and the mend: another content, or a field map
    **{name: (content, BLOCK_MEND, TABLE) for name, content in BLOCK_FILES.items()},
    "unifiedqa": ("".join(f"{q} \\n {block('({}) {}', ' ')(o, 0)}\t{o[k]}\n" for q, o, k in zip(ASKED, OPTIONS, KEYS, strict=True)), "put a header above it, for example question,A,B,C,D,answer", TABLE),
    "mutual": (made(answers=letter, options=listed, article="Q", id="N"), "found the fields answers, options, article, id", {"stem": "article", "key": "answers"}),
    "parsinlu": (made(question="Q", category="c", candidates=listed, answer=lambda o, k: str(k + 1), id="N"), "--map key_is=number", {"key_is": "number"}),
    "french": (separated(spread(["Réponse A", "Réponse B"], Question="Q", _=0, Juste=lambda o, k: "AB"[OPTIONS.index(o) % 2])), "found the columns Question, Réponse A, Réponse B, Juste", None),
    "turkish": (separated(spread(["şık A", "şık B", "şık C", "şık D"], Soru="Q", _=0, Doğru=letter)), "found the columns Soru, şık A, şık B, şık C, şık D, Doğru", {"stem": "Soru", "choices": ("şık A", "şık B", "şık C", "şık D"), "key": "Doğru"}),
    "no header": (separated(spread("ABCD", key=letter, Q="Q"), ",", header=False), "names not shown", None),
    "a question that never changes": (made(instruction="Choose.", options=listed, answer=letter), "`instruction` is the same in all rows", {"stem": "instruction"}),
    "a pair without a prompt": (made(chosen=text, rejected=no(0)), "the replies have no prompt", made(prompt="Q", chosen=text, rejected=no(0))),
    "turns that differ early": ([{"chosen": HH.format("Hi", "Hello") + HH.format(q, r), "rejected": HH.format("Hi", "Yes?") + HH.format(q, r)} for q, r in zip(ASKED, RIGHT, strict=True)], "differ before the last turn", None),
    "a header on a later line": (f"A quiz\n{TABLE}", "the header is on line 2", TABLE),
    "Aiken": (AIKEN, QUIZ, TABLE),
    "GIFT": (GIFT, QUIZ, TABLE),
    "Moodle XML": ('<?xml version="1.0"?>\n<quiz><question type="multichoice"></question></quiz>', "is XML, such as a Moodle quiz. Save it as CSV", TABLE),
    "items in XML": ('<copa-corpus><item id="1" asks-for="cause" most-plausible-alternative="1"><p>x</p><a1>y</a1><a2>z</a2></item></copa-corpus>', "is XML", TABLE),
    "a title above the header": (f"My quiz, spring\n\n{TABLE}", "the header is on line 3", TABLE),
    "a title in a cell": (f'"My quiz";;;;;\n{TABLE.replace(",", ";")}', "the header is on line 2", TABLE),
    "rival keys that differ": (table(MADE.spread("ABCD", answer=letter, label=lambda *_: "A")), "`answer` names choice 3, but `label` names choice 1", {"key": "answer"}),
    "a flag beside the key": (table(MADE.spread("ABCD", answer=letter, correct=lambda *_: 1)), "`correct` names choice 1", {"key": "answer"}),
    "a student's letter beside an index": (lines([{**row, "options": [{"label": str(n), "text": one} for n, one in enumerate(o, 1)]} for row, o in zip(MADE.rows(label=lambda *_: "B", correct=index), OPTIONS, strict=True)]), "`label` names choice 2, but `correct` names choice 1", {"key": "correct", "key_is": "index"}),
    "a student's letter beside a key from 1": (table(MADE.spread("ABCD", label=lambda *_: "B", correct=number)), "`label` names choice 2, but `correct` names choice 3", {"key": "correct", "key_is": "number"}),
    "marks that contradict the key": (lines(MADE.rows(options=flagged("text", "correct", False, True), answer=lambda *_: "A")), "the mark in the choices names choice 3", lines(MADE.rows(options=flagged("text", "correct", False, True)))),
    "two marked": (lines(MADE.rows(options=flagged("text", "correct", True, True))), "the item has several right answers (4 are named)", TABLE),
    "letters of one of two scripts": (table(MADE.spread("ABCD", answer=lambda o, k: "АБВГ"[k])), "the key is ambiguous (mark of several alphabets)", TABLE),
    "a separator inside an option": (table(MADE.rows(options=joined("; ", ""), answer=letter)).replace("three", "three; or so"), "Put each option in its own column", TABLE),
    "two separators": (table([*MADE.rows(options=joined("; ", ""), answer=letter)[:2], *MADE.rows(options=joined("|", ""), answer=letter)[2:]]), "Put each option in its own column", TABLE),
    "a label and another's text": (table(MADE.spread("ABCD", answer=lambda o, k: f"{'ABCD'[k - 1]}) {o[k]}")), "the key is ambiguous", TABLE),
    "columns from 1, keys from 0": (table(MADE.spread([f"option{n}" for n in range(1, 5)], answer=index)), "--map key_is=index", {"key_is": "index"}),
    "no prompt beside chosen": (lines([{"chosen": "a", "rejected": "b"}]), "the replies have no prompt", lines(MADE.rows(chosen=text, rejected=lambda o, k: "x"))),
}  # fmt: skip


def read(tmp_path: Path, content: object, **said: object) -> Loaded:
    path = tmp_path / "wild"
    path.write_text(content if isinstance(content, str) else lines(content), "utf-8")  # type: ignore[arg-type]
    return load(Source.model_validate({"path": str(path), **said}), UNGUARDED)


@pytest.mark.parametrize("layout", READ)
def test_a_layout_from_the_wild_is_read_right(tmp_path: Path, layout: str) -> None:
    content = READ[layout]
    items = read(tmp_path, content).items
    whole = content if isinstance(content, str) else lines(content)  # type: ignore[arg-type]
    assert [item.choices[item.key] for item in items] == RIGHT
    for item, question, told, options in zip(items, ASKED, TOLD, OPTIONS, strict=True):
        assert question in item.stem
        assert told in item.stem or told not in whole
        assert "P." in item.stem or '"P."' not in whole
        assert {*item.choices} <= {*options, "unknown", "none", "3,5"}
        assert item.k in (2, 4) or {"unknown", "none"} & {*item.choices}


@pytest.mark.parametrize("layout", REFUSED)
def test_a_refusal_names_a_mend_that_works(tmp_path: Path, layout: str) -> None:
    content, told, mend = REFUSED[layout]
    with pytest.raises(DataError) as caught:
        read(tmp_path, content)
    assert told in caught.value.lines[0]
    assert not any(word in str(caught.value) for word in (*RIGHT, "colour", "legs"))
    if mend is not None:
        mended = read(tmp_path, content, fields=mend) if isinstance(mend, dict) else read(tmp_path, mend)
        assert len(mended.items) == 3
        assert [item.choices[item.key] for item in mended.items] == RIGHT


def test_the_place_of_a_chosen_reply_tells_nothing(tmp_path: Path) -> None:
    texts = [(f"Which {n}?", f"blue {n}", f"grey {n}") for n in range(60)]
    told = [{"prompt": q, "chosen": r, "rejected": w} for q, r, w in texts]
    chats = [{"chosen": chat(q, r), "rejected": chat(q, w)} for q, r, w in texts]
    for rows in (told, chats):
        items = read(tmp_path, rows).items
        assert [item.choices[item.key] for item in items] == [r for _, r, _ in texts]
        assert 20 < sum(item.key for item in items) < 40
    again = read(tmp_path, told[::-1]).items
    assert [item.key for item in again] == [item.key for item in items[::-1]]


def test_items_of_ids_that_repeat_are_named_by_their_lines(tmp_path: Path) -> None:
    for content in (READ["ids that repeat"], READ["race raw lines"]):
        found = read(tmp_path, content)
        assert [item.id for item in found.items] == ["wild-0001", "wild-0002", "wild-0003"]
        assert any("are named by their lines" in note for note in notes(found))
    with pytest.raises(DataError, match="already used on line 1"):
        read(tmp_path, READ["ids that repeat"], fields={"id": "id"})
