"""The plan for sets that nobody here may open: made-up items, the cost of a certificate, what the file assumes."""

import json

import pytest

from bench import plan
from robustify.stats.tests import items_to_detect


def test_items_are_made_up_and_as_long_as_assumed() -> None:
    items = plan.made_up(50, 200, 50)
    assert {item.k for item in items} == {4}
    assert all(190 <= len(item.stem) <= 200 for item in items)
    assert sum(len(c) for item in items for c in item.choices) / 200 == pytest.approx(50, abs=2)


def test_a_certificate_takes_more_items_for_more_auditors_and_a_smaller_margin() -> None:
    one, three = plan.items_needed(1), plan.items_needed(3)
    assert one < three
    assert one == pytest.approx(items_to_detect(plan.CHANCE, plan.MARGIN), rel=0.15)
    assert (plan.items_needed(3, 0.1) or 0) < three < (plan.items_needed(3, 0.03) or 0)
    assert plan.certified(three, 3) >= plan.POWER > plan.certified(three // 2, 3)


def test_what_is_at_the_margin_is_hardly_ever_certified() -> None:
    assert plan.certified(2_000, 1, left=plan.MARGIN) < 0.05
    assert plan.certified(10, 1) == 0.0


def test_the_file_names_its_assumptions_and_plans_for_every_set() -> None:
    found = json.loads(plan.RESULTS.read_text(encoding="utf-8"))
    assert found["sets"] == plan.SETS
    assert set(found["assumed"]["billions_of_parameters_a_token"]) == set(plan.BILLIONS)
    for name, n in plan.SETS.items():
        by_length = found["asking"][name]
        assert [by_length[one]["tokens_sent"] for one in plan.LENGTHS] == sorted(
            one["tokens_sent"] for one in by_length.values()
        )
        assert by_length["middle"]["requests"] >= 3 * n
    assert {row["set"] for row in found["simulated"]} == set(plan.SETS)
