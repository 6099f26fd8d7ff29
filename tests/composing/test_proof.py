"""Proof: auditors that took no part, versions on the same items, and distractors that must stay plausible."""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from robustify.base.arrays import Floats
from robustify.composing.proof import AFTER, BEFORE, Finder, Proof, prove
from robustify.items.item import Item
from robustify.judging.summary.model_parts import Gain
from robustify.report.printing import markdown

THINGS = (
    "kettle", "lantern", "barrel", "ladder", "anchor", "whistle", "candle", "saddle", "shovel", "mirror",
)  # fmt: skip
NEEDS = (
    "warm sand", "clean oil", "dry straw", "cold water", "soft wool", "fresh paint", "thin wire", "loose gravel",
)  # fmt: skip


def _items(n: int, *, tell: str = "") -> list[Item]:
    """Questions about a thing, which all their options name. `tell` is said in nearly all keys, and in no other option."""
    rng, out = np.random.default_rng(1), list[Item]()
    for at in range(n):
        thing = f"{THINGS[at % 10]} number {at}"
        options = [f"the {thing} needs {NEEDS[i]}" for i in rng.permutation(8)[:4].tolist()]
        options[0] += tell * (at % 9 > 0)
        out.append(Item(f"q{at}", f"What does the {thing} need?", tuple(options), 0))
    return out


def _of_others(items: Sequence[Item]) -> list[Item]:
    """The items with keys of other items as distractors: no auditor without the question finds anything."""
    keys = [item.choices[0] for item in items]
    others = [tuple(keys[(at + step) % len(keys)] for step in (0, 3, 7, 11)) for at in range(len(keys))]
    return [item.with_choices(choices, 0) for item, choices in zip(items, others, strict=True)]


def _proof(after: Sequence[Item], before: Sequence[Item], **more: Sequence[Item | None]) -> Proof:
    independence = {"words": False, "characters": True}
    return prove({BEFORE: before, AFTER: after, **more}, independence, lambda _: None)


def test_keys_of_other_items_deceive_auditors_but_are_no_plausible_distractors() -> None:
    found = _proof(_of_others(_items(120)), _items(120))
    assert found.plausible == "failed"
    assert [one.finds_more for one in found.readers] == [True]
    assert _proof(_items(120), _of_others(_items(120))).plausible == "passed"


def test_what_an_auditor_that_took_no_part_still_finds_is_the_headline() -> None:
    found = _proof(_items(120, tell=" of course"), _items(120))
    assert (found.worst.name, found.hidden) == ("characters", "failed")
    gain, change = found.worst.gain[AFTER], found.worst.change[BEFORE]
    assert ((gain.value or 0) > 0.5, gain.p_holm < 1e-9, change.ci[0] > 0.4) == (True, True, True)
    assert [(one.name, one.independent) for one in found.auditors] == [("words", False), ("characters", True)]


def _gain(value: float, p: float, power: float = 0.2) -> Gain:
    return Gain(value=value, n=99, ci=None, chance=0.25, p=p, p_holm=p, power=power)


@pytest.mark.parametrize(
    ("value", "p", "hidden"), [(0.05, 0.3, "not evaluated"), (0.05, 0.01, "failed"), (0.01, 0.01, "passed")]
)
def test_a_gain_that_chance_may_explain_is_no_verdict(value: float, p: float, hidden: str) -> None:
    assert Proof((Finder("characters", {AFTER: _gain(value, p)}, {}),), ()).hidden == hidden


@pytest.mark.parametrize(("power", "share"), [(0.077, "92.3 %"), (0.92, "92.0 %")])
def test_little_power_is_no_evidence(power: float, share: str) -> None:
    gain = _gain(0.0, 0.5, power)
    proven = Proof((Finder("characters", {BEFORE: gain, AFTER: gain}, {}),), ())
    found = SimpleNamespace(
        proof=proven, bounds=(), composition=SimpleNamespace(least={}), writers={}, unreviewed=(), retyped=(), stays=(),
        requests=(),
    )  # fmt: skip
    lines = [line for line in markdown("composed.j2", found=found).splitlines() if "characters" in line]
    assert any("3 points" in line and share in line for line in lines)
    assert any(line.startswith(f"{proven.hidden}|") for line in lines)


def test_versions_are_compared_on_the_items_that_both_have() -> None:
    some: list[Item | None] = [item if at % 2 else None for at, item in enumerate(_items(120))]
    found = _proof(_items(120), _items(120), people=some)
    gain, change = found.auditors[1].gain, found.auditors[1].change
    assert (gain[AFTER].n, gain["people"].n, change["people"].n, change[BEFORE].value) == (120, 60, 60, 0)
    assert gain[AFTER].power is not None


@pytest.mark.parametrize("n", [8, 49])
def test_a_small_set_has_readers_but_no_fitted_auditor(n: int) -> None:
    found = _proof(_items(n), _items(n))
    assert (found.auditors, found.hidden, found.plausible) == ((), "not evaluated", "passed")


def test_the_encoder_reads_and_audits_and_models_that_saw_the_question_are_readers() -> None:
    def vectors(texts: Sequence[str]) -> Floats:
        rng = np.random.default_rng(0)
        known = {text: rng.normal(size=8) for text in sorted(set(texts))}
        return np.array([known[text] / np.linalg.norm(known[text]) for text in texts])

    items, right = _items(120), np.ones(120)
    knows = {BEFORE: right * 0.5, AFTER: right}
    found = prove({BEFORE: items, AFTER: items}, {"meaning": True}, vectors, knows)
    assert [one.name for one in found.auditors] == ["meaning"]
    assert [one.name.split()[0] for one in found.readers] == ["words", "meaning", "models"]
    # Models find all keys, and before, half of them.
    assert found.plausible == "failed"


def test_in_a_large_set_auditors_that_took_part_see_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.composing.proof.MOST_ENCODED", 59)
    words, characters = _proof(_items(60), _items(60)).auditors
    assert ({*words.gain}, {*characters.gain}) == ({AFTER}, {BEFORE, AFTER})
