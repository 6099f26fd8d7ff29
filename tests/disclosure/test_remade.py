"""The parts of a release that are made anew: what they say of little, of nothing, and of what cannot be asked as cloze."""

from typing import Any

import pytest

from robustify.disclosure.coarse import COARSER, FINEST, TopicBlock, flagged_rate, partition
from robustify.disclosure.remade import (
    bins,
    described,
    expect,
    features,
    few_without_cloze,
    flagged,
    guardrails,
)
from robustify.disclosure.select import Measure
from robustify.loaders import Loaded, Quarantined

RATE = {"value": 0.5, "n": 100, "ci": [0.4, 0.6]}
NOTHING = {"value": None, "n": None, "ci": None}


def measure(step: float | None = FINEST) -> Measure:
    return Measure(10, {"robust": 60, "shortcut": 40}, {"surface features": step})


@pytest.mark.parametrize(
    ("answered", "n", "shown"),
    [(100, 90, True), (100, 91, False), (100, 10, True), (100, 9, False), (None, 50, False)],
)
def test_the_share_flagged_is_shown_where_both_sides_are_cells(
    answered: int | None, n: int, shown: bool
) -> None:
    found = flagged(answered, n, 10)
    assert (found.get("withheld") is None) == shown
    if shown:
        assert (found["value"], found["n"]) == (n / 100, 100)


def test_fewer_than_a_cell_that_cannot_be_asked_as_cloze_are_found_by_no_subtraction() -> None:
    """95 of 100: the n of each number on them is rounded down to tens, also in lists, and no other number changes."""

    def tree(n: int) -> dict[str, Any]:
        return {
            "splits": {"all": 100, "cloze": n},
            "rates": {"full": {"n": 99}, "cloze": [{"n": n, "ties": n, "tied": 4}], "format_gap": {"n": n}},
            "calibration": {
                "cloze": {"bins": [{"n": 14, "confidence": 0.5}]},
                "full": {"bins": [{"n": 14, "confidence": 0.5}]},
            },
        }

    few = tree(95)
    few_without_cloze(few, 100, 10)
    assert few["splits"] == {"all": 100, "cloze": {**NOTHING, "withheld": "< 10 cannot be asked so"}}
    assert few["rates"] == {
        "full": {"n": 99}, "cloze": [{"n": 90, "ties": 90, "tied": 4}], "format_gap": {"n": 90},
    }  # fmt: skip
    assert few["calibration"]["cloze"]["bins"][0]["n"] == 10
    assert few["calibration"]["full"]["bins"][0]["n"] == 14
    for n in (100, 90):
        enough = tree(n)
        few_without_cloze(enough, 100, 10)
        assert enough == tree(n)


@pytest.mark.parametrize(
    ("excess", "share", "expected"),
    [
        ({"value": 0.2}, {"value": 0.5, "n": 100}, {"value": 30, "ci": None}),
        ({"value": 0.7}, {"value": 0.5, "n": 100}, {"value": 0, "ci": None}),
        ({"value": None, "withheld": "few"}, {"value": 0.5, "n": 100}, {**NOTHING, "withheld": "few"}),
        ({"value": None}, {"value": 0.5, "n": 100}, {**NOTHING, "withheld": "not shown"}),
        ({"value": 0.2}, {"value": None, "withheld": "few"}, {**NOTHING, "withheld": "few"}),
        (None, {"value": 0.5, "n": 100}, None),
        ({"value": 0.2}, None, None),
    ],
)
def test_expected_flags_are_those_shown_less_the_excess_shown(excess: Any, share: Any, expected: Any) -> None:
    rule = {"excess_over_chance": excess, "by_place": {"excess": excess}}
    expect(rule, share)
    assert rule.get("expected_flags") == rule["by_place"].get("expected") == expected


def test_a_bin_of_few_items_is_empty() -> None:
    many, few = {"n": 10, "accuracy": 0.456, "confidence": 0.5}, {"n": 9, "accuracy": 0.5, "confidence": 0.5}
    shown = bins(
        [many, few, {**many, "accuracy": None}, {**many, "confidence": None}, {**many, "n": None}, None], 10
    )
    assert [one["n"] for one in shown] == [10, None, None, None, None]
    assert shown[0]["accuracy"] == 0.46
    assert shown[1] == {"confidence": None, "accuracy": None, "n": None, "ci": None}


def test_features_of_a_part_go_with_its_size_and_the_budget() -> None:
    rows = {"longest_answer": {**RATE, "ties": 7, "p_holm": 0.013}, "unknown": RATE}
    found = {"all": rows, "robust": rows, "shortcut": None, "else": rows}
    assert features(None, measure()) is None
    whole = features(found, measure())
    assert whole is not None
    assert set(whole) == {"all", "robust", "shortcut"}
    assert whole["shortcut"] is None
    assert whole["all"]["length"] | {"ci": None} == {
        "value": 0.5,
        "n": 100,
        "ci": None,
        "ties": 7,
        "p_holm": 0.02,
    }  # type: ignore[index]
    assert whole["robust"] == {"length": flagged_rate(RATE, 60, 10, FINEST)}
    assert features(found, measure(COARSER))["robust"]["length"]["n"] == 60  # type: ignore[index]
    withheld = features(found, measure(None))
    assert withheld is not None
    assert withheld["robust"] == {"length": {**NOTHING, "withheld": "bit budget"}}
    assert withheld["all"] == whole["all"]
    bare = {"all": {"longest_answer": RATE, "shortest_answer": None}}
    assert features(bare, measure())["all"]["length"]["p_holm"] is None  # type: ignore[index]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ({"code": "not_judged"}, "not_judged"), ({"code": "sentence", "text": "not judged: no topic"}, "not_judged"),
        ({"code": "sentence", "text": "fewer than half"}, "not_shown"), (None, "not_shown"),
    ],
)  # fmt: skip
def test_a_guardrail_says_whether_it_was_judged_and_the_lowest_share_of_the_topics(
    reason: Any, code: str
) -> None:
    table = {
        "by_topic": {
            name: {"retention": kept}
            for name, kept in (("a", {"value": 0.5}), ("b", {"value": 0.25}), ("c", None))
        }
    }
    shown = [{"name": name, "passed": True} for name in ("coverage", "topic_collapse", "voters")]
    found = guardrails(shown, [{"reason": reason}] * 3, table)
    assert [row["value"] for row in found] == [None, 0.25, None]
    assert [row["reason"] for row in found] == [{"code": code}] * 3
    assert [row["value"] for row in guardrails(shown, [{"reason": reason}] * 3, None)] == [None] * 3


def test_what_is_no_rate_of_a_part_is_nothing_and_a_part_below_a_cell_is_withheld() -> None:
    assert flagged_rate({"value": None, "n": 100}, 60, 10, FINEST) == NOTHING
    assert flagged_rate({"value": 0.5, "n": 0}, 60, 10, FINEST) == {**NOTHING, "n": 0}
    assert flagged_rate(RATE, 9, 10, FINEST) == {**NOTHING, "withheld": "< 10 items"}
    assert flagged_rate(RATE | {"n": 105}, None, 10, FINEST)["n"] == 100


def test_other_has_a_name_of_its_own() -> None:
    blocks = [TopicBlock("Other (2 topics)", 100, 50), *(TopicBlock(n, 12, 6, (n,)) for n in "ab")]
    parts = partition(blocks, 10)
    assert parts is not None
    assert len({part.name for part in parts}) == len(parts)


@pytest.mark.parametrize(("n", "shown"), [(0, 0), (1, "< 10"), (9, "< 10"), (10, 10), (120, 120)])
def test_rows_set_aside_are_counted_from_a_cell_on(n: int, shown: object) -> None:
    aside = tuple(Quarantined(line, "no stem") for line in range(n))
    assert described(Loaded("a", "rows", (), (), (), aside, "0", "a.jsonl"), 10)["n_quarantined"] == shown
