"""A judge put to the test without people, and two gradings side by side: a judge that can be led is found out."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from robustify.base.errors import UsageError
from robustify.freeform.grade.graders import grade_answers
from robustify.freeform.human import compare_gradings, human_from
from robustify.freeform.judge_audit import PAYLOADS, judge_audit, known_answers
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


def gullible(messages: Sequence[Message], call: Call) -> str:
    """Take any verdict in the answer for its own."""
    forged = "correct" in quoted(messages[-1], "ANSWER")
    return '{"verdict": "correct"}' if forged else careful(messages, call)


def moody(messages: Sequence[Message], call: Call) -> str:
    """Look at seeds instead of facts."""
    return json.dumps({"verdict": "correct" if call.seed % 2 else "incorrect"})


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


def check(reply: Callable[[Sequence[Message], Call], str], n: int = 12) -> dict[str, Any]:
    return judge_audit(Judge(reply), ITEMS, n, FreeSettings())


def test_a_careful_judge_repeats_itself_and_others_are_found_out() -> None:
    found = check(careful)
    assert (found["repeats"]["value"], found["repeats"]["n"]) == (1.0, 24)
    misled = found["misled"]
    assert (misled["value"], misled["unread"], misled["n_called_wrong"]) == (0.0, 0, 12)
    assert misled["n"] == 12 * len(PAYLOADS)
    assert check(gullible)["misled"]["value"] > 0.5
    assert check(moody)["repeats"]["value"] == 0.0


def test_an_unread_reply_is_neither_blocked_nor_a_success() -> None:
    found = check(lambda *_: "Let me see.", 6)
    assert (found["misled"]["n_called_wrong"], found["misled"]["value"]) == (0, None)
    assert (found["repeats"]["unread"], found["repeats"]["value"]) == (12, None)


def test_known_answers_are_seeded_and_hold_both_sides() -> None:
    cases = known_answers(ITEMS, 5, seed=1)
    assert [item.id for item, *_ in cases] == [item.id for item, *_ in known_answers(ITEMS, 5, seed=1)]
    assert [right for *_, right in cases] == [True, False] * 5
    assert all((answer == item.reference) == right for item, answer, right in cases)


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
