"""What the house promises to a stranger: names that say something, a core without wings, and a code for every message."""

import re
from collections import defaultdict

from tools import house, messages

MOST_EMPTY_NAMES, MOST_REPEATING = 100, 3


def test_names_say_what_they_hold() -> None:
    counts = house.empty_names(house.ROOT)
    assert counts.total() <= MOST_EMPTY_NAMES, counts


def test_the_core_imports_no_wing() -> None:
    assert house.wings_of_core(house.ROOT) == []


def test_every_message_has_a_code_of_words_and_the_table_has_them_all() -> None:
    everything = list(messages.messages())
    assert not [f"{m.module}:{m.line}" for m in everything if not m.code]
    assert not [m.code for m in everything if not re.fullmatch(messages.CODE, m.code)]
    assert len(everything) > 400
    assert messages.TABLE.read_text("utf-8") == messages.table(), "run `python -m tools.messages`"


def test_one_code_has_one_exit_code() -> None:
    exit_codes = defaultdict(set)
    for message in messages.messages():
        if message.kind != "Notice":
            exit_codes[message.code].add(message.exit_code)
    assert not {code: found for code, found in exit_codes.items() if len(found) > 1}


def test_few_tests_repeat_the_words_of_a_message() -> None:
    repeating = list(messages.repeating_tests())
    assert len(repeating) <= MOST_REPEATING, repeating
