"""Answers that are hard to grade: the rules are right or undecided, never certain and wrong."""

from collections import Counter

import pytest

from bench.freeform import Case, cases, ours

CASES = cases()


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.lang}-{case.topic}-{case.options[0]}-{case.answer[:40]}"
)
def test_a_hard_answer_is_never_certain_and_wrong(case: Case) -> None:
    assert ours(case) in (case.expected, "undecided")


def test_the_table_is_large_and_enough_of_it_is_decided() -> None:
    assert len(CASES) >= 300
    assert len({case.lang for case in CASES}) >= 10
    verdicts: list[tuple[str, bool]] = [(case.expected, ours(case) != "undecided") for case in CASES]
    decided = Counter(verdicts)
    # Whatever leaves everything undecided is never wrong.
    for expected, share in (("right", 0.75), ("wrong", 0.25)):
        assert decided[expected, True] >= share * (decided[expected, True] + decided[expected, False])
    assert sum(n for (_, certain), n in decided.items() if certain) >= 450
    assert decided["undecided", True] == 0
