"""Gains of readers over chance: groups count once, credits without spread are told from luck, and names do not matter."""

import numpy as np
import pytest

from robustify.items.item import Item
from robustify.judging.audit.auditor import AuditRate, FreshProbe, Kept
from robustify.judging.readers.chance import gains
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.stats.tests import holm
from tests.judging.readers.test_readers import items_with


def test_gains_count_groups_and_leave_out_unanswered_items() -> None:
    draw = np.random.default_rng(0)
    won = (draw.random(400) < 0.45).astype(float)
    missing = np.where(np.arange(400) < 100, np.nan, won)
    found = gains({"a": won, "b": missing, "none": np.full(400, np.nan)}, np.full(400, 4))
    assert list(found) == ["a", "b"]
    a = found["a"]
    assert (a.n, found["b"].n, a.chance) == (400, 300, 0.25)
    assert a.value == pytest.approx(won.mean() - 0.25)
    assert [found[x].p_holm for x in "ab"] == holm([found[x].p for x in "ab"])
    error = np.sqrt(won.var() / 400)
    assert a.ci == pytest.approx((a.value - 1.96 * error, a.value + 1.96 * error), abs=1e-4)
    copies = gains({"a": np.tile(won, 2)}, np.full(800, 4), groups=np.tile(np.arange(400), 2))["a"]
    assert copies.ci == pytest.approx(a.ci)
    assert a.power is not None
    many = gains({"a": np.tile(won, 25)}, np.full(10_000, 4))["a"].power
    assert many is not None
    assert many > 0.9 > 0.3 > a.power


def test_an_auditor_that_is_always_right_or_always_wrong_is_told_from_luck() -> None:
    k = np.full(60, 4)
    found = gains({"right": np.ones(60), "wrong": np.zeros(60), "lucky": np.full(60, 0.25)}, k)
    assert found["right"].p_holm < 1e-9
    assert found["right"].ci[0] > 0.6
    assert found["wrong"].p > 0.99
    assert found["lucky"].p == 0.5
    (passage,) = gains({"right": np.ones(60)}, k, groups=np.zeros(60, dtype=np.int64)).values()
    assert passage.p > 0.01, "a passage is one observation"


def test_a_fresh_probe_depends_on_neither_names_nor_the_order_of_rows() -> None:
    items = items_with(lambda text: text + ", bado", n=150)

    def probed(items: list[Item]) -> AuditRate | None:
        key, k = np.array([item.key for item in items]), np.full(150, 3)
        kept = Kept(np.ones(150, dtype=bool), key, k, np.zeros((150, 3), dtype=bool))
        return FreshProbe(items, ProbeSettings(refits=199)).audit(kept)

    found = probed(items)
    assert found is not None
    assert (found.rate.n, found.p) == (150, 1 / 200)
    renamed = [Item(f"other {at}", item.stem, item.choices, item.key) for at, item in enumerate(items[::-1])]
    assert probed(renamed) == found
