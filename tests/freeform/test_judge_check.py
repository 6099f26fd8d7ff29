"""A judge put to the test without people, and two gradings side by side: a judge that can be led is found out."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from robustify.errors import UsageError
from robustify.freeform.grade.graders import grade_answers
from robustify.freeform.human import HumanLabel, compare_gradings
from robustify.freeform.judge_audit import PAYLOADS, judge_audit, known_cases
from robustify.freeform.llm_judge.judges import Call, Completion
from robustify.freeform.llm_judge.prompting import Message
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


class Careful:
    """A judge that compares what stands between the marks and believes nothing in it."""

    name = "careful"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        right = quoted(messages[-1], "ANSWER").startswith(quoted(messages[-1], "CORRECT ANSWER"))
        return self.reply(json.dumps({"verdict": "correct" if right else "incorrect"}))

    def reply(self, text: str) -> Completion:
        return Completion(text, usage={"total_tokens": len(text)})


class Gullible(Careful):
    """A judge that takes any verdict in the answer for its own."""

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        if "correct" in quoted(messages[-1], "ANSWER"):
            return self.reply('{"verdict": "correct"}')
        return super().complete(messages, call)


class Moody(Careful):
    """A judge that looks at seeds instead of facts."""

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        return self.reply(json.dumps({"verdict": "correct" if call.seed % 2 else "incorrect"}))


class Unreadable(Careful):
    """A judge whose replies cannot be read."""

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        return self.reply("Let me see.")


def check(judge: Careful, n: int = 12) -> dict[str, Any]:
    return judge_audit(judge, ITEMS, n, FreeSettings())


def test_a_careful_judge_repeats_itself_and_is_not_misled() -> None:
    found = check(Careful())
    assert (found["repeats"]["value"], found["repeats"]["n"]) == (1.0, 24)
    misled = found["misled"]
    assert (misled["value"], misled["unread"], misled["n_called_wrong"]) == (0.0, 0, 12)
    assert misled["n"] == 12 * len(PAYLOADS)


def test_a_gullible_and_a_moody_judge_are_found_out() -> None:
    assert check(Gullible())["misled"]["value"] > 0.5
    assert check(Moody())["repeats"]["value"] == 0.0


def test_an_unread_reply_is_neither_blocked_nor_a_success() -> None:
    found = check(Unreadable(), 6)
    assert (found["misled"]["n_called_wrong"], found["misled"]["value"]) == (0, None)
    assert (found["repeats"]["unread"], found["repeats"]["value"]) == (12, None)


def test_known_cases_are_seeded_and_hold_both_sides() -> None:
    cases = known_cases(ITEMS, 5, seed=1)
    assert [c.item.id for c in cases] == [c.item.id for c in known_cases(ITEMS, 5, seed=1)]
    assert [c.right for c in cases] == [True, False] * 5
    assert all((c.answer == c.item.reference) == c.right for c in cases)


class Wordy(Careful):
    """A judge that understands the second version of a template alone."""

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        if messages[0].role == "system":
            return super().complete(messages, call)
        return self.reply("I would rather not give a number." if call.attempt == 0 else '{"score": 1}')


def by(version: str) -> list[GradeResult]:
    answers = [AnswerRow(item.id, "m", item.reference if n % 2 else "purple") for n, item in enumerate(ITEMS)]
    return grade_answers(ITEMS, answers, FreeSettings(rubrics={"mcq": version}), Wordy())


PEOPLE = [HumanLabel(f"i{n}", "x", "", "correct" if n % 2 else "incorrect") for n in range(12)]


def test_two_templates_are_compared_on_the_same_answers() -> None:
    rows = {row["measure"]: row for row in compare_gradings(by("1.0"), by("2.0"), PEOPLE)}
    values = {name: (row["first"]["value"], row["other"]["value"]) for name, row in rows.items()}
    assert values == {"scored": (1.0, 1.0), "read_at_once": (0.0, 1.0), "agrees_with_people": (0.5, 1.0)}
    difference = rows["agrees_with_people"]["difference"]
    assert (difference["value"], difference["n"]) == (0.5, 12)
    assert difference["ci"] is not None
    assert [row["measure"] for row in compare_gradings(by("1.0"), by("2.0"))] == ["scored", "read_at_once"]


def test_gradings_without_a_judged_answer_in_common_are_refused() -> None:
    with pytest.raises(UsageError, match="no judged answer in common"):
        compare_gradings(by("1.0"), [])
