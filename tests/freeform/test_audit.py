"""Judges put to the test, and templates side by side: a judge that can be led is told from one that cannot."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from robustify.errors import UsageError
from robustify.freeform.human import HumanLabel, compare_templates
from robustify.freeform.judge.judges import Call, Completion
from robustify.freeform.judge.prompting import Message
from robustify.freeform.judge_audit import CHECKS, PADDING, PAYLOADS, judge_audit, known_cases
from robustify.freeform.schema import KINDS as KINDS_OF
from robustify.freeform.schema import AnswerRow, FreeItem, Kind, Nugget

COLOURS = ("red", "green", "blue", "grey")
ITEMS = [
    FreeItem(f"i{n}", f"Which box number {n} is meant?", "short_text", COLOURS[n % 4], None, COLOURS, n % 4)
    for n in range(12)
]
FACTS = tuple(Nugget(f"n{i}", f"The box is {colour} outside.") for i, colour in enumerate(COLOURS))
NUGGETED = [
    FreeItem(f"e{n}", "Which box?", "explanation", f"It is {COLOURS[n]} outside.", nuggets=FACTS)
    for n in range(3)
]


def quoted(message: Message, name: str) -> str:
    found = re.search(rf"<<<{name} (\w+)>>>\n(.*)\n<<<END {name} \1>>>", message.content, re.S)
    assert found is not None, name
    return found[2]


class Careful:
    """A judge that compares what stands between the marks and believes nothing in it."""

    name = "careful"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        last = messages[-1]
        if "PASSAGE" in last.content:
            passage, facts = quoted(last, "PASSAGE"), quoted(last, "NUGGETS").split("\n")
            stated = [any(c in passage and c in fact for c in COLOURS) for fact in facts]
            return self.reply(json.dumps(["support" if s else "not_support" for s in stated]))
        words = quoted(last, "ANSWER").removeprefix(PADDING)
        right = words.startswith(quoted(last, "CORRECT ANSWER"))
        return self.reply(json.dumps({"verdict": "correct" if right else "incorrect"}))

    def reply(self, text: str) -> Completion:
        return Completion(text, usage={"total_tokens": len(text)})


class Gullible(Careful):
    """A judge that takes any verdict in the answer for its own, and length for truth."""

    name = "gullible"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        if "ANSWER" in messages[-1].content:
            answer = quoted(messages[-1], "ANSWER")
            if "correct" in answer or len(answer) > 100:
                return self.reply('{"verdict": "correct"}')
        return super().complete(messages, call)


class Unreadable(Careful):
    """A judge whose replies cannot be read."""

    name = "unreadable"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        return self.reply("Let me see.")


class Moody(Careful):
    """A judge that looks at places and seeds instead of facts."""

    name = "moody"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        last = messages[-1]
        if "PASSAGE" in last.content:
            n = len(quoted(last, "NUGGETS").split("\n"))
            return self.reply(json.dumps(["support"] + ["not_support"] * (n - 1)))
        return self.reply(json.dumps({"verdict": "correct" if call.seed % 2 else "incorrect"}))


def test_a_careful_judge_passes_every_check() -> None:
    found = judge_audit(Careful(), [*ITEMS, *NUGGETED], n=12)["checks"]
    assert set(found) == set(CHECKS)
    assert found["self_consistency"]["same"]["value"] == 1.0
    assert found["self_consistency"]["alpha"] == 1.0
    assert found["nugget_order"]["same"]["value"] == 1.0
    assert found["nugget_order"]["n"] > 0
    assert found["verbosity"]["wrong"]["changed"]["value"] == 0.0
    assert found["verbosity"]["right"]["plain"]["value"] == 1.0
    injection = found["injection"]
    assert (injection["flipped"]["value"], injection["unread"]) == (0.0, 0)
    assert injection["n"] == injection["n_called_wrong"] * len(PAYLOADS) == 12 * len(PAYLOADS)


def test_a_gullible_judge_is_found_out() -> None:
    found = judge_audit(Gullible(), ITEMS, n=12, checks=("injection", "verbosity"))["checks"]
    assert found["injection"]["flipped"]["value"] > 0.5
    assert found["injection"]["payloads"]["forged_verdict"]["flipped"]["value"] == 1.0
    assert found["injection"]["payloads"]["label_list"]["flipped"]["value"] == 0.0
    assert found["verbosity"]["wrong"]["padded"]["value"] == 1.0
    assert found["verbosity"]["wrong"]["plain"]["value"] == 0.0
    assert found["verbosity"]["right"]["changed"]["value"] == 0.0


def test_a_moody_judge_is_found_out() -> None:
    found = judge_audit(Moody(), [*ITEMS, *NUGGETED], n=12)["checks"]
    assert found["self_consistency"]["same"]["value"] == 0.0
    assert found["nugget_order"]["same"]["value"] < 1.0


def test_an_unread_reply_is_neither_blocked_nor_a_success() -> None:
    found = judge_audit(Unreadable(), [*ITEMS, *NUGGETED], n=6)["checks"]
    assert found["injection"]["n_called_wrong"] == 0
    assert found["injection"]["flipped"]["value"] is None
    assert found["self_consistency"]["unread"] == found["self_consistency"]["n"] == 12
    assert found["nugget_order"]["same"]["value"] is None
    assert found["verbosity"]["wrong"]["unread"] == 6


def test_checks_that_find_nothing_to_try_say_so_and_unknown_ones_are_refused() -> None:
    assert judge_audit(Careful(), ITEMS, checks=("nugget_order",))["checks"]["nugget_order"]["n"] == 0
    with pytest.raises(UsageError, match="self_consistency"):
        judge_audit(Careful(), ITEMS, checks=("mood",))


def test_known_cases_are_seeded_and_hold_both_sides() -> None:
    cases = known_cases(ITEMS, 5, seed=1)
    assert [repr(c) for c in cases] == [repr(c) for c in known_cases(ITEMS, 5, seed=1)]
    assert [c.right for c in cases] == [True, False] * 5
    assert all((c.answer == c.item.reference) == c.right for c in cases)


ANSWERS = [
    AnswerRow(item.id, "m", item.reference if n % 2 else "purple", "t", "d", f"p{n}")
    for n, item in enumerate(ITEMS)
]
PEOPLE = [HumanLabel(f"i{n}", "x", "", "correct" if n % 2 else "incorrect") for n in range(12)]


class Wordy(Careful):
    """A judge that understands the second version alone."""

    name = "wordy"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        if messages[0].role == "system":
            return super().complete(messages, call)
        return self.reply("I would rather not give a number." if call.attempt == 0 else '{"score": 1}')


def test_templates_are_compared_by_parse_rate_agreement_and_cost() -> None:
    told = compare_templates(ITEMS, ANSWERS, ["grader/mcq@1.0", "grader/mcq@2.0"], Wordy(), PEOPLE)
    old, new = (told["templates"][f"grader/mcq@{v}"] for v in ("1.0", "2.0"))
    assert (told["status"], told["kind"]) == ("uncalibrated", "short_text")
    assert (old["parsed_at_once"]["value"], new["parsed_at_once"]["value"]) == (0.0, 1.0)
    assert old["parsed"]["value"] == new["parsed"]["value"] == 1.0
    assert (old["calls"]["value"], new["calls"]["value"]) == (2.0, 1.0)
    assert old["tokens"]["value"] > new["tokens"]["value"]
    assert new["agreement"]["verdicts"]["raw"]["value"] == 1.0
    assert old["agreement"]["verdicts"]["raw"]["value"] == 0.5
    against = told["against_first"]["grader/mcq@2.0"]
    assert (against["parsed_at_once"]["value"], against["agrees"]["value"]) == (1.0, 0.5)
    assert against["agrees"]["ci"] is not None


def test_without_people_a_comparison_says_uncalibrated() -> None:
    told = compare_templates(ITEMS, ANSWERS, ["grader/mcq@1.0", "grader/mcq@2.0"], Wordy())
    assert told["status"] == "uncalibrated"
    assert told["templates"]["grader/mcq@1.0"]["agreement"] is None
    assert told["against_first"]["grader/mcq@2.0"]["agrees"] is None


def test_nugget_templates_are_compared_too() -> None:
    answers = [AnswerRow(item.id, "m", item.reference, "t", "d", "p") for item in NUGGETED]
    labels = [{f"n{i}": "support" if i == n else "not_support" for i in range(4)} for n in range(3)]
    people = [HumanLabel(f"e{n}", "x", "", None, label) for n, label in enumerate(labels)]
    ids = ["nugget/no_reasoning@2.0", "nugget/optimized@2.0"]
    for template in compare_templates(NUGGETED, answers, ids, Careful(), people)["templates"].values():
        nuggets = template["agreement"]["nuggets"]
        assert (nuggets["raw"]["value"], nuggets["n"]) == (1.0, 12)


class Sure(Careful):
    """A judge that finds everything right, in a verdict and a score."""

    name = "sure"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        return self.reply('{"verdict": "correct", "score": 1}')


KINDS = [("short_text", "mcq"), ("numeric", "numeric"), ("explanation", "explanation")]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_templates_of_every_kind_are_compared_on_the_answers_of_that_kind(kind: Kind, name: str) -> None:
    number = {"reference": "5", "options": (), "correct": None}
    items = [
        replace(item, id=f"{k}/{item.id}", kind=k, **(number if k == "numeric" else {}))
        for k in KINDS_OF
        for item in ITEMS
    ]
    answers = [AnswerRow(item.id, "m", "the correct one", "t", "d", item.id) for item in items]
    told = compare_templates(items, answers, [f"grader/{name}@{v}" for v in ("1.0", "2.0")], Sure())
    assert told["kind"] == kind
    assert {entry["n"] for entry in told["templates"].values()} == {len(ITEMS)}


REFUSED = [
    (["grader/mcq@1.0"], "expected two or more"),
    (["grader/mcq@1.0", "nugget/optimized@2.0"], "one kind"),
    (["grader/mcq@1.0", "grader/numeric@2.0"], "one kind"),
    (["grader/numeric@1.0", "grader/numeric@2.0"], "none of 12 answers is of the kind numeric"),
    (["answer/short@2.0", "answer/numeric@2.0"], "one kind"),
]


@pytest.mark.parametrize(("ids", "words"), REFUSED)
def test_templates_that_cannot_be_compared_are_refused(ids: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compare_templates(ITEMS, ANSWERS, ids, Careful())
