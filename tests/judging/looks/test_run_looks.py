"""Looks of a run: from its answers and its texts, whatever the mode, the number of orders, and the names of models."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from robustify.items.answers import Answer, Answers, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.items.orders import own, rotations
from robustify.judging import Judgement, judge
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Context, Rules
from robustify.judging.looks import run_looks
from robustify.judging.looks.estimate import Estimate
from robustify.judging.measures import LOOKS
from robustify.judging.response_data import Facts
from robustify.judging.summary.model_parts import Looks
from robustify.judging.summary.result import read
from tests.support.contexts import context_of

WORDS = [
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch",
]  # fmt: skip
ALSO = ("a", "b", "c", "d", "e", "f")


def items_with(n: int) -> list[Item]:
    """Options of two to five random words. In half of the items the key is the longest."""
    draw, made = np.random.default_rng(0), []
    for at in range(n):
        options = [" ".join([*draw.choice(WORDS, draw.integers(2, 6)), f"{at}{j}"]) for j in range(4)]
        longest = int(np.argmax([len(text) for text in options]))
        key = longest if draw.random() < 0.5 else int(draw.integers(4))
        made.append(Item(f"i{at}", f"Question {at}?", tuple(options), key))
    return made


def answers_of(
    items: Sequence[Item],
    name: str,
    view: str,
    *,
    knows: float,
    follows: float,
    orders: int = 1,
    seed: int = 0,
) -> list[Answer]:
    """A model that knows a share of the items, and otherwise picks long options by `follows`."""
    draw, rows = np.random.default_rng(seed), []
    for item in items:
        known = draw.random() < knows
        for order in rotations(own(item.k))[:orders]:
            lure = follows * np.array([len(text) / 8 for text in item.choices]) + draw.gumbel(size=item.k)
            pick = item.key if known else int(lure.argmax())
            scores = np.where(np.arange(item.k) == pick, 0.0, -9.0).tolist()
            lengths = dict.fromkeys(("n_chars", "n_bytes", "n_tokens"), (1,) * item.k)
            rows.append(answer(Asked(item.id, view, name, order, "t", item.key), scores, **lengths))
    return rows


def panel_of(items: Sequence[Item], view: str, *, follows: float, orders: int = 1) -> list[Answer]:
    rows = [
        answers_of(items, name, view, knows=0.1 + 0.12 * i, follows=follows, seed=10 + i)
        for i, name in enumerate(ALSO)
    ]
    return [
        *answers_of(items, "m", view, knows=0.3, follows=follows, orders=orders, seed=1),
        *(row for of in rows for row in of),
    ]


def judged(items: Sequence[Item], rows: Sequence[Answer], *, texts: bool = True) -> Judgement:
    return judge(
        Answers.concat([guess(items), Answers.of(rows)]), Facts("made up"), Rules(), items if texts else None
    )


def estimated(items: Sequence[Item], rows: Sequence[Answer], rules: Rules | None = None) -> Looks:
    """Looks of the model `m`, without the rest of a judgement."""
    return looks_of(context_of(items, rows, rules))["m"].part


def looks_of(ctx: Context) -> dict[str, Estimate]:
    return run_looks.looks_of(ctx.responses, ctx.screen.ranker, ctx.rules)


def looks(judgement: Judgement, name: str = "m") -> Looks:
    found = judgement.summary.models[name].looks
    assert found is not None
    return found


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return items_with(900)


@pytest.fixture(scope="module")
def follower(items: list[Item]) -> Judgement:
    return judged(items, panel_of(items, "full", follows=1.0))


def test_a_follower_is_told_from_its_own_picks_and_its_panel(items: list[Item], follower: Judgement) -> None:
    found = looks(follower)
    assert (found.state, found.n, set(found.sources)) == ("claimed", 900, {"wrong", "panel"})
    assert found.less.value == pytest.approx(
        follower.summary.measures.model["full"]["m"].all.value - found.value
    )
    honest = estimated(items, panel_of(items, "full", follows=0.0))
    assert (honest.state, honest.reason.code) == ("cannot tell", "looks_not_above_zero")


def test_the_measure_repeats_the_part_and_pairs_have_a_difference(follower: Judgement) -> None:
    summary = follower.summary
    assert read(summary.tree()) == summary
    assert "looks" not in summary.measures.model
    found = LOOKS.read(summary)
    assert list(found) == list(summary.models)
    assert (found["m"].all.value, found["m"].all.ci) == (looks(follower).value, looks(follower).ci)
    pair = summary.pairs["m vs a"].looks
    assert pair.value == pytest.approx(looks(follower).value - looks(follower, "a").value)
    assert pair.ci[0] < pair.value < pair.ci[1]
    assert np.nanmean(follower.looks["m"].values) == pytest.approx(looks(follower).value)


def test_texts_and_letters_and_every_order_are_read_alike(items: list[Item], follower: Judgement) -> None:
    by_text = estimated(items, panel_of(items, "full_text", follows=1.0))
    assert by_text.sources == looks(follower).sources
    four = estimated(items, panel_of(items, "full", follows=1.0, orders=4))
    assert (four.n, four.state) == (900, "claimed")
    assert four.wrong_picks > 3 * looks(follower).wrong_picks
    # Each order has new luck, but the same knowledge.
    widths = [of.sources["wrong"].ci[1] - of.sources["wrong"].ci[0] for of in (four, looks(follower))]
    assert 0.4 < widths[0] / widths[1] < 0.8


def test_picks_without_the_question_are_a_source_only_if_the_question_was_hidden(items: list[Item]) -> None:
    rows = [
        *answers_of(items, "m", "full", knows=0.3, follows=1.0, seed=1),
        *answers_of(items, "m", "choices_only", knows=0.0, follows=1.0, orders=4, seed=2),
    ]
    found = estimated(items, rows)
    assert (found.state, set(found.sources)) == ("claimed", {"wrong", "blind"})
    part = estimated(items, rows, Rules(hidden="passage"))
    assert (part.state, set(part.sources)) == ("wrong picks only", {"wrong"})


def test_without_texts_or_with_few_items_a_run_cannot_tell(items: list[Item]) -> None:
    rows = panel_of(items, "full", follows=1.0)
    nothing = looks(judged(items, rows, texts=False))
    assert (nothing.state, nothing.value, nothing.reason.code) == ("cannot tell", None, "looks_no_texts")
    assert nothing.wrong_picks > 300
    few = items[:40]
    assert estimated(few, panel_of(few, "full", follows=1.0)).reason.code == "looks_few_items"


def test_the_reader_of_options_depends_on_no_model(items: list[Item]) -> None:
    alone = context_of(items).screen.ranker.by_options()
    rows = [
        *panel_of(items, "full", follows=1.0),
        *answers_of(items, "v", "choices_only", knows=0.5, follows=1.0),
    ]
    np.testing.assert_array_equal(context_of(items, rows).screen.ranker.by_options().logits, alone.logits)


def test_a_reader_that_saw_the_items_refuses_every_number(
    items: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context_of(items, panel_of(items, "full", follows=1.0))
    above, accuracy, chance = run_looks.placebo(ctx.responses, ctx.rules.probe)
    assert (above, chance) == (False, 0.25)
    assert 0.2 < accuracy < 0.3
    monkeypatch.setattr(run_looks, "MOST_REDRAWN", 300)
    assert run_looks.placebo(ctx.responses, ctx.rules.probe)[1] != accuracy
    assert not run_looks.placebo(ctx.responses, ctx.rules.probe)[0]

    class InSample(run_looks.Ranker):
        def by_options(self) -> run_looks.OptionScores | None:
            found = super().by_options()
            is_key = np.arange(found.logits.shape[1]) == self._index.key[:, None]
            return replace(found, logits=found.logits + is_key)

    monkeypatch.setattr(run_looks, "Ranker", InSample)
    found = looks_of(ctx)
    assert {estimate.part.reason.code for estimate in found.values()} == {"looks_reader_saw_items"}
    assert {estimate.part.value for estimate in found.values()} == {None}


def test_unreadable_answers_are_counted_with_and_without_the_question(items: list[Item]) -> None:
    rows = answers_of(items, "m", "full", knows=0.3, follows=1.0)
    rows[:7] = [
        unanswered(Asked(r.item, r.view, r.model, r.order, r.template, r.key), "no letter") for r in rows[:7]
    ]
    found = estimated(items, rows)
    assert (found.unanswered, found.n) == (7, 893)
