"""Two gradings side by side, by two templates of one judge."""

import json
import re
from collections.abc import Callable, Sequence

import pytest

from robustify.base.errors import UsageError
from robustify.freeform.grade.graders import grade_answers
from robustify.freeform.human import compare_gradings, human_from
from robustify.freeform.llm_judge.judges import Call, Completion
from robustify.freeform.prompt_templates import Message
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.freeform.settings import FreeSettings

COLOURS = ("red", "green", "blue", "grey")
ITEMS = [
    FreeItem(f"i{n}", f"Which box number {n} is meant?", "short_text", COLOURS[n % 4], None, COLOURS, n % 4)
    for n in range(12)
]


def quoted(message: Message, name: str) -> str:
    found = re.search(rf"<<<{name} (\w+)>>>\n(.*)\n<<<END {name} \1>>>", message.content, re.S)
    assert found is not None, name
    return found[2]


def careful(messages: Sequence[Message], call: Call) -> str:
    """Compare what stands between the marks and believe nothing in it."""
    right = quoted(messages[-1], "ANSWER").startswith(quoted(messages[-1], "CORRECT ANSWER"))
    return json.dumps({"verdict": "correct" if right else "incorrect"})


def wordy(messages: Sequence[Message], call: Call) -> str:
    """Understand the second version of a template alone."""
    if messages[0].role == "system":
        return careful(messages, call)
    return "I would rather not give a number." if call.attempt == 0 else '{"score": 1}'


class Judge:
    name = "judge"

    def __init__(self, reply: Callable[[Sequence[Message], Call], str]) -> None:
        self.reply = reply

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        return Completion(self.reply(messages, call))


def by(version: str) -> list[GradeResult]:
    answers = [AnswerRow(item.id, "m", item.reference if n % 2 else "purple") for n, item in enumerate(ITEMS)]
    return grade_answers(ITEMS, answers, FreeSettings(rubrics={"mcq": version}), Judge(wordy))


def test_two_templates_are_compared_on_the_same_answers() -> None:
    people = [human_from({"item_id": f"i{n}", "annotator": "x", "score": n % 2}) for n in range(12)]
    rows = {row["measure"]: row for row in compare_gradings(by("1.0"), by("2.0"), people)}
    values = {name: (row["first"]["value"], row["other"]["value"]) for name, row in rows.items()}
    assert values == {"scored": (1.0, 1.0), "read_at_once": (0.0, 1.0), "agrees_with_people": (0.5, 1.0)}
    difference = rows["agrees_with_people"]["difference"]
    assert (difference["value"], difference["n"]) == (0.5, 12)
    assert difference["ci"] is not None
    with pytest.raises(UsageError, match="no judged answer in common"):
        compare_gradings(by("1.0"), [])
