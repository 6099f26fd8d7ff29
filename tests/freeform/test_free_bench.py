"""The measurement of parsers and graders measures what it says, and its committed result is one of them."""

import json

import pytest

from bench import freeform


def test_the_measurement_reads_every_reply_as_it_was_meant() -> None:
    found = freeform.measured(60)
    assert {case["replies"] for case in found["cases"].values()} == {60}
    assert found["cpu_seconds"] == pytest.approx(
        sum(c["cpu_seconds"] for c in found["cases"].values()), abs=1e-3
    )


def test_a_reply_that_is_read_otherwise_stops_the_measurement() -> None:
    with pytest.raises(SystemExit, match="3 of 3 replies"):
        freeform.timed(3, lambda i, rng: i, lambda _: False)


def test_the_committed_result_is_of_the_whole_work() -> None:
    found = json.loads(freeform.RESULTS.read_text(encoding="utf-8"))
    assert {case["replies"] for case in found["cases"].values()} == {freeform.N}
    assert found["goal_seconds"] == freeform.GOAL_SECONDS
    assert found["met"] is (found["cpu_seconds"] <= found["goal_seconds"])
