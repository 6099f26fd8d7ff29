"""The adjusted score: a cue that pays is worthless under the weights, knowledge is not, and what is left is said."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from robustify.base.arrays import Floats, Ints
from robustify.items.answers import Answer, Answers, Asked, answer
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.judging import adjusted
from robustify.judging.baselines.artifact_probe import MEANING_TEMPLATES
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Facts, Rules
from robustify.judging.judgement import Judgement, judge
from robustify.judging.stats.balance import balancing, weighted_mean, weights, worth
from robustify.judging.summary.scored import Adjustment
from robustify.report.printing import finding
from tests.support.trees import measured

WORDS = [
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch", "maple",
    "north", "ochre", "pearl",
]  # fmt: skip


def items_with(n: int, *, longest: float = 0.0, seed: int = 0) -> list[Item]:
    """Four options of two to five random words; in a share of the items the key is the longest."""
    draw = np.random.default_rng(seed)
    made = []
    for at in range(n):
        options = [
            " ".join([*draw.choice(WORDS, size), f"{at}{size}"]) for size in draw.permutation([2, 3, 4, 5])
        ]
        key = int(draw.integers(4))
        if draw.random() < longest:
            key = int(np.argmax([len(text) for text in options]))
        made.append(Item(f"i{at}", f"Question {at}?", tuple(options), key))
    return made


def rows_of(items: list[Item], name: str, knows: float, uses: float, seed: int) -> list[Answer]:
    """A model that knows a share of the items, else takes the longest option with probability `uses`, else guesses."""
    draw = np.random.default_rng(seed)
    rows = []
    for item in items:
        guessed = int(draw.integers(4))
        pick = max(range(4), key=lambda i: len(item.choices[i])) if draw.random() < uses else guessed
        pick = item.key if draw.random() < knows else pick
        scores = [0.0 if i == pick else -1.0 for i in range(4)]
        rows.append(answer(Asked(item.id, "full", name, own(4), "t", item.key), scores))
    return rows


def judged(items: list[Item], *models: list[Answer]) -> Judgement:
    tables = [guess(items), *(Answers.of(rows) for rows in models)]
    return judge(Answers.concat(tables), Facts("made up"), Rules(), items)


def by_meaning(items: list[Item], knows: float, template: str) -> list[Answer]:
    """An encoder that sees the options alone, and prefers the key in a share of the items."""
    draw, rows = np.random.default_rng(5), []
    for item in items:
        pick = item.key if draw.random() < knows else int(draw.integers(4))
        scores = [float(np.log(0.7 if i == pick else 0.1)) for i in range(4)]
        rows.append(answer(Asked(item.id, "meaning", "encoder", own(4), template, item.key), scores))
    return rows


def test_a_cue_that_pays_in_the_full_score_does_not_pay_in_the_adjusted_one() -> None:
    items = items_with(600, longest=0.4)
    found = judged(items, rows_of(items, "m", 0.4, 1.0, 1), rows_of(items, "blind", 0.0, 1.0, 2)).summary
    assert found.adjustment.status == "adjusted"
    honest = 0.4 + 0.6 * 0.25
    assert measured(found, "full", "m")["all"]["value"] > honest + 0.12
    assert measured(found, "adjusted", "m")["all"]["value"] == pytest.approx(honest, abs=0.04)
    assert measured(found, "adjusted", "blind")["all"]["value"] == pytest.approx(0.25, abs=0.02)
    assert 300 < found.adjustment.worth < 560
    pair = found.pairs["m vs blind"].adjusted
    assert pair.p < 0.001
    assert pair.value == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize(("longest", "true"), [(0.0, 0.0), (0.4, 0.4 * 0.75)])
def test_points_of_test_taking_are_told_from_luck(longest: float, true: float) -> None:
    """A cue that points to some keys by luck earned "significant" points in one of three sets without any."""
    items = items_with(600, longest=longest, seed=1)
    found = judged(items, rows_of(items, "blind", 0.0, 1.0, 2), rows_of(items, "knows", 0.9, 0.0, 3)).summary
    blind, knows = (measured(found, "test_taking", name)["all"] for name in ("blind", "knows"))
    assert blind["value"] == pytest.approx(true, abs=0.05)
    assert (blind["ci"][0] > 0) == bool(true)
    assert blind["ci"][0] < true + 0.01 < blind["ci"][1]
    assert abs(knows["value"]) < 0.03


def finder(share: float, again: bool) -> Callable[..., dict[str, Floats]]:
    """A probe that knows the key of a share of the items: the same items every time, or others."""

    def probe(items: Sequence[Item], _: Ints, kinds: object, seed: int) -> dict[str, Floats]:
        draw = np.random.default_rng(0 if again else seed)
        known = draw.random(len(items)) < share
        picked = np.where(known, [item.key for item in items], draw.integers(4, size=len(items)))
        return {"form": (np.arange(4) == picked[:, None]) * 1.0}

    return probe


def weighed(
    monkeypatch: pytest.MonkeyPatch, probe: Callable[..., dict[str, Floats]], *rows: list[Answer]
) -> Adjustment:
    monkeypatch.setattr("robustify.judging.adjusted.probed", probe)
    part = judged(items_with(600, longest=0.3), *rows).summary.adjustment
    assert part is not None
    return part


def test_what_a_fresh_probe_finds_is_balanced_and_a_fresh_one_looks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = weighed(monkeypatch, finder(0.15, again=True))
    left = part.left["form"]
    assert part.status == "adjusted"
    assert {"form_1_logit", "form_1_pick"} <= set(part.columns)
    assert not any(column.startswith("form_2") for column in part.columns)
    assert left.before > 0.08 > 0.03 > abs(left.value or 0)
    taken = left.before - max(left.value or 0, 0)
    of = f"{100 * taken:.1f} of {100 * left.before:.1f} points of cues."
    assert (
        finding("worth", part) == f"The adjusted score, worth {part.worth:.0f} of 600 items, takes out {of}"
    )


@pytest.mark.parametrize(
    ("share", "refits"),
    [(0.15, adjusted.REFITS), (0.7, 0)],
    ids=["always something else", "worth too little"],
)
def test_what_weights_cannot_balance_is_said_with_its_size(
    monkeypatch: pytest.MonkeyPatch, share: float, refits: int
) -> None:
    part = weighed(monkeypatch, finder(share, again=False))
    left = part.left["form"]
    assert part.status == "partly adjusted"
    assert part.worth >= 0.6 * part.n
    assert {name[:6] for name in part.columns if name.startswith("form_")} == {
        f"form_{n + 1}" for n in range(refits)
    }
    assert left.p_holm <= 0.05
    assert left.ci[0] > 0
    said = finding("worth", part)
    assert said.startswith("The partly adjusted score, worth ")
    assert f"; form still gains {100 * (left.value or 0):.1f} ({100 * left.ci[0]:.1f} to " in said


def test_a_gain_of_more_than_three_points_counts_even_if_it_may_be_luck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adjusted, "MOST_REFITTED", 100)
    monkeypatch.setattr(adjusted, "MOST_AUDITED", 90)
    part = weighed(monkeypatch, finder(0.11, again=True))
    left = part.left["form"]
    assert (left.n, part.n, part.status) == (90, 600, "partly adjusted")
    assert left.p_holm > 0.05
    assert left.value is not None
    assert left.value > 0.03
    assert not [name for name in part.columns if name.startswith("form_")]


def test_too_few_items_withhold_the_score_and_write_no_weight() -> None:
    items = items_with(80, longest=0.4)
    found = judged(items, rows_of(items, "m", 0.4, 1.0, 1))
    part = found.summary.adjustment
    assert (part.status, part.reason.code, part.left) == ("withheld", "worth_few", {})
    assert measured(found.summary, "adjusted", "m") is None
    assert found.balance is None


def test_meaning_is_balanced_if_a_second_cross_fit_can_audit_the_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("robustify.judging.adjusted.probed", finder(0, again=True))
    items = items_with(600)
    first, again = (by_meaning(items, 0.3, template) for template in MEANING_TEMPLATES)
    alone, both, part_only = (
        judged(items, *rows).summary.adjustment for rows in ([first], [first, again], [first[1:], again])
    )
    assert (alone.status, alone.left["encoder"].kind) == ("partly adjusted", "encoder")
    assert "of cues; encoder still gains" in finding("worth", alone)
    assert both.status == "adjusted"
    assert "encoder_1_logit" in both.columns
    assert both.left["encoder"].before > 0.15
    # A cue of some items cannot be balanced for all of them.
    assert part_only.status == "partly adjusted"
    assert "encoder_1_logit" not in part_only.columns


def test_weights_make_every_column_worthless_and_keep_what_is_already_so() -> None:
    draw = np.random.default_rng(0)
    columns = draw.normal(0.2, 1.0, (2000, 3))
    w = weights(columns, balancing(columns, ridge=1e-6))
    assert w.mean() == pytest.approx(1)
    assert np.abs(w @ columns / len(w)).max() < 1e-4
    assert worth(w) == pytest.approx(1780, abs=60)
    even = columns - columns.mean(axis=0)
    assert weights(even, balancing(even)) == pytest.approx(np.ones(2000), abs=1e-4)
    none: Floats = np.zeros((5, 0))
    assert weights(none, balancing(none)).tolist() == [1.0] * 5


def test_items_of_a_passage_are_no_independent_evidence() -> None:
    draw = np.random.default_rng(0)
    passage = np.repeat(np.arange(100), 5)
    x = (draw.random(100) < 0.5).astype(float)[passage]
    w = np.ones(500)
    alone, together = weighted_mean(x, w), weighted_mean(x, w, passage)
    assert alone[0] == together[0]
    assert together[1] == pytest.approx(alone[1] * np.sqrt(5))
