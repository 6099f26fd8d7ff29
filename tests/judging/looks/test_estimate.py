"""Looks are recovered where they are known, whatever the names, the orders, and the ease of items, and else not claimed."""

from dataclasses import replace

import numpy as np
import pytest

from robustify.base.arrays import Ints
from robustify.judging.looks.estimate import estimates, looks_difference
from robustify.judging.looks.panel import Panel
from robustify.judging.looks.read_options import TIED, UNREAD, PickRows, ReadOptions, beats_chance
from robustify.judging.summary.model_parts import Looks, number_to_quote
from robustify.judging.summary.quantity import Quantity, Reason, Score
from tests.judging.looks.worlds import World, world


def part_of(of: World) -> Looks:
    return of.found()["m"].part


def numbers(looks: Looks) -> list[tuple[float, ...]]:
    """The estimate and those of its sources, each with its interval."""
    return [(x.value, *x.ci) for x in (looks, *(looks.sources[name] for name in sorted(looks.sources)))]


def same(a: Looks, b: Looks, tolerance: float = 1e-9) -> bool:
    return a.state == b.state and np.allclose(numbers(a), numbers(b), atol=tolerance)


@pytest.mark.parametrize("more", [{}, {"k": 10}, {"mixed": True}, {"eases": 2.0}])
def test_what_a_model_owes_to_looks_is_recovered_and_claimed(more: dict[str, float]) -> None:
    of = world(2000, 1, follows=1.0, **more)
    found = part_of(of)
    assert found.state == "claimed"
    assert set(found.sources) == {"wrong", "blind", "panel"}
    assert found.value == pytest.approx(of.truth, abs=0.02)
    assert found.ci[0] < of.truth


@pytest.mark.parametrize("eases", [-2.0, 0.0, 2.0])
def test_a_model_that_picks_evenly_owes_nothing_however_easy_the_items_with_a_cue_are(eases: float) -> None:
    of = [part_of(world(600, seed, follows=0.0, eases=eases)) for seed in range(8)]
    assert not [looks for looks in of if looks.state == "claimed"]
    # The smallest of several estimates is low.
    assert -0.012 < np.mean([looks.value for looks in of]) < 0.003


@pytest.mark.slow
def test_the_error_of_each_source_is_that_of_resampled_groups() -> None:
    of = world(300, 3, follows=1.0, copies=2)
    draw, values = np.random.default_rng(0), dict[str, list[float]]()
    for _ in range(50):
        rows = (2 * draw.integers(0, 300, 300)[:, None] + np.arange(2)).ravel()
        again = replace(
            of,
            logits=of.logits[rows], mask=of.mask[rows], key=of.key[rows], groups=np.repeat(np.arange(300), 2),
            picks={name: pick[rows] for name, pick in of.picks.items()}, blind={"m": of.blind["m"][rows]},
        )  # fmt: skip
        for name, source in part_of(again).sources.items():
            values.setdefault(name, []).append(source.value)
    for name, source in part_of(of).sources.items():
        most = 2.5 if name == "blind" else 1.45  # that of blind picks spans the intervals of two slopes
        assert 0.7 < (source.ci[1] - source.ci[0]) / (2 * 1.98) / np.std(values[name]) < most


def test_the_interval_spans_those_of_all_sources_while_the_value_is_the_smallest() -> None:
    part = part_of(world(600, 3, follows=1.0))
    lows, highs = zip(*(source.ci for source in part.sources.values()), strict=True)
    assert part.ci == (min(lows), max(highs))
    assert part.value == min(source.value for source in part.sources.values())
    assert part.less.ci[0] < part.less.value - (part.ci[1] - part.value) / 2 < part.less.ci[1]


def test_items_models_and_constants_of_the_reader_may_be_renamed() -> None:
    of = world(400, 5, follows=0.8)
    draw = np.random.default_rng(1)
    rows = draw.permutation(400)
    moved = replace(
        of,
        logits=(3 * of.logits + draw.normal(size=(400, 1)))[rows], mask=of.mask[rows], key=of.key[rows],
        picks={name: of.picks[name][rows] for name in reversed(of.picks)}, blind={"m": of.blind["m"][rows]},
    )  # fmt: skip
    assert same(part_of(of), part_of(moved), 1e-6)
    influences = of.found()["m"].influence[rows], moved.found()["m"].influence
    np.testing.assert_allclose(*influences, atol=1e-8)


def test_options_may_be_written_in_another_order_if_they_are_shown_in_the_same() -> None:
    of = world(400, 6, follows=0.8)
    order = np.random.default_rng(2).permuted(np.tile(np.arange(4), (400, 1)), axis=1)
    new = np.argsort(order, axis=1)
    options = ReadOptions.from_logits(
        np.take_along_axis(of.logits, order, axis=1),
        of.mask,
        np.take_along_axis(new, of.key[:, None], 1)[:, 0],
    )

    def rows(pick: Ints) -> PickRows:
        moved = options.rows(np.take_along_axis(new, pick[:, None], 1)[:, 0])
        return replace(moved, position=order)

    found = estimates(
        options, {n: rows(p) for n, p in of.picks.items()}, {n: rows(p) for n, p in of.blind.items()}
    )
    assert same(found["m"].part, part_of(of), 1e-6)


def test_four_orders_of_an_item_are_one_item() -> None:
    of = world(400, 7, follows=1.0)
    single = part_of(of)

    def four(rows: PickRows) -> PickRows:
        again = np.tile(np.arange(400), 4)
        return PickRows(*(column[again] for column in (rows.item, rows.pick, rows.credit, rows.position)))

    asked = {name: four(rows) for name, rows in of.asked.items()}
    found = estimates(of.options, asked, {"m": four(of.without["m"])})["m"].part
    assert (found.n, found.wrong_picks) == (400, 4 * single.wrong_picks)
    for name, source in single.sources.items():
        assert found.sources[name].value == pytest.approx(source.value, rel=0.1)
        width, alone = (high - low for low, high in (found.sources[name].ci, source.ci))
        assert width == pytest.approx(alone, rel=0.15)


def test_copies_are_one_group_and_thirty_wrong_picks_are_thirty_groups() -> None:
    alone, thrice = (part_of(world(300, 8, follows=1.0, copies=copies)) for copies in (1, 3))
    assert (alone.n, thrice.n) == (300, 900)
    widths = [looks.sources["blind"].ci[1] - looks.sources["blind"].ci[0] for looks in (alone, thrice)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    of = world(900, 8, follows=1.0)
    few = part_of(replace(of, groups=np.arange(900) % 29))
    assert (few.value, few.ci, few.state, few.less) == (None, None, "cannot tell", None)
    assert (few.reason.code, few.reason.params) == ("looks_few_wrong", {"n": 29, "least": 30})
    assert few.wrong_picks > 30


def test_a_claim_holds_only_if_it_holds_for_all_that_unreadable_answers_could_have_been() -> None:
    of = world(1500, 9, follows=1.0)
    hidden = np.arange(1500) % 6 == 0
    found = part_of(of.with_picks(hidden, UNREAD))
    assert (found.state, found.n, found.reason) == ("cannot tell", 1250, Reason.of("looks_unanswered", n=250))
    for option in (of.options.extreme(most=most, wrong=True) for most in (False, True)):
        filled = part_of(of.with_picks(hidden, option))
        assert found.ci[0] <= filled.value <= found.ci[1] + 1e-9
    assert part_of(of.with_picks(np.arange(1500) % 300 == 0, UNREAD)).state == "claimed"


def test_tied_picks_keep_their_credit_but_show_no_preference() -> None:
    of = world(600, 10, follows=1.0)
    rows, tied = of.asked["m"], np.arange(600) % 10 == 0
    some = replace(rows, pick=np.where(tied, TIED, rows.pick), credit=np.where(tied, 0.5, rows.credit))
    found = estimates(of.options, of.asked | {"m": some}, of.without)["m"].part
    assert (found.unanswered, found.n, found.state) == (0, 600, "claimed")
    assert found.wrong_picks == int(np.sum((rows.credit == 0) & ~tied))
    assert found.less.value == pytest.approx(some.credit.mean() - found.value)


def test_two_options_cannot_be_estimated_which_is_not_zero() -> None:
    found = part_of(world(500, 11, follows=2.0, k=2))
    assert (found.value, found.ci) == (None, None)
    assert (found.state, found.reason.code) == ("cannot tell", "looks_two_options")
    assert found.wrong_picks > 30
    assert number_to_quote(Score(value=0.7, n=500, ci=(0.66, 0.74)), found).kind == "score"


def test_one_source_alone_is_an_association() -> None:
    of = world(1500, 12, follows=1.0)
    alone = estimates(of.options, {"m": of.asked["m"]})["m"].part
    assert (alone.state, set(alone.sources), alone.reason) == ("wrong picks only", {"wrong"}, None)
    # Five models are a model and four others.
    five = {name: of.asked[name] for name in list(of.asked)[:5]}
    assert set(estimates(of.options, five)["m"].part.sources) == {"wrong"}
    six = {name: of.asked[name] for name in list(of.asked)[:6]}
    assert set(estimates(of.options, six)["m"].part.sources) == {"wrong", "panel"}


def test_models_of_equal_strength_are_no_panel() -> None:
    of = world(800, 13, follows=1.0)
    twins = {f"t{i}": of.options.rows(world(800, 13, follows=1.0).picks["m"]) for i in range(8)}
    assert "panel" not in estimates(of.options, twins)["t0"].part.sources


def test_items_on_which_most_others_share_a_wrong_option_are_left_out() -> None:
    of = world(400, 14, follows=0.0)
    wrong = (of.key + 1) % 4
    odd = np.arange(400) < 40
    picks = {name: np.where(odd, wrong, pick) for name, pick in of.picks.items()}
    panel = Panel.from_rows(of.options, {name: of.options.rows(pick) for name, pick in picks.items()})
    assert not panel.typical("m")[odd].any()
    # Seven others of which four share a wrong option are below the limit, and five are above it.
    for count, typical in ((4, True), (5, False)):
        shared = {name: wrong if i < count else of.key for i, name in enumerate(list(of.picks)[1:])}
        rows = {name: of.options.rows(pick) for name, pick in ({"m": wrong} | shared).items()}
        assert Panel.from_rows(of.options, rows).typical("m").all() == typical


def test_an_item_that_the_reader_could_not_score_adds_no_looks() -> None:
    of = world(600, 15, follows=1.0)
    logits = of.logits.copy()
    logits[:100, 2] = np.nan
    logits[100:120] = np.inf
    options = ReadOptions.from_logits(logits, of.mask, of.key)
    assert not options.z[:120].any()
    found = estimates(options, of.asked, of.without)["m"].part
    assert np.isfinite([found.value, *found.ci]).all()
    blank = ReadOptions.from_logits(np.full(of.logits.shape, np.nan), of.mask, of.key)
    nothing = estimates(blank, of.asked, of.without)["m"].part
    assert (nothing.value, nothing.state, nothing.reason.code) == (0.0, "cannot tell", "looks_not_above_zero")


def test_a_reader_of_redrawn_keys_beats_chance_only_if_it_saw_the_items() -> None:
    draw = np.random.default_rng(16)
    key, mask = draw.integers(0, 4, 400), np.ones((400, 4), dtype=bool)
    fair = draw.normal(size=(400, 4))
    seen = fair + 0.5 * (np.arange(4) == key[:, None])
    assert [beats_chance(logits, mask, key)[0] for logits in (fair, seen)] == [False, True]
    assert beats_chance(np.zeros((400, 4)), mask, key) == (False, 0.25, 0.25)


def test_the_score_less_looks_has_an_interval_of_its_own() -> None:
    of = world(1500, 17, follows=1.0)
    found = of.found()["m"]
    less, looks = found.part.less, found.part
    score = (of.picks["m"] == of.key).mean()
    assert less.value == pytest.approx(score - looks.value)
    # Looks and the score are not independent, and their intervals do not add up.
    wide = looks.ci[1] - looks.ci[0] + 2 * 1.96 * np.sqrt(score * (1 - score) / 1500)
    assert 0.5 * wide < less.ci[1] - less.ci[0] < 0.98 * wide
    full = Score(value=float(score), n=1500, ci=(0.0, 1.0))
    claimed = number_to_quote(full, looks)
    other = number_to_quote(full, looks.model_copy(update={"state": "wrong picks only"}))
    assert (claimed.kind, claimed.value, claimed.ci) == ("score less looks", less.value, less.ci)
    assert (other.kind, other.value) == ("score", full.value)
    assert number_to_quote(None, None) is None
    assert number_to_quote(Quantity(), looks.model_copy(update={"state": "cannot tell"})) is None


def test_two_models_are_compared_on_the_same_items() -> None:
    of = world(1500, 18, follows=1.0)
    twin = np.where(np.arange(1500) % 50 == 0, of.picks["o3"], of.picks["m"])
    of = replace(of, picks=of.picks | {"o2": twin}, blind=of.blind | {"o2": of.blind["m"]})
    found = of.found()
    one, two = found["m"].values, found["o2"].values
    there, back = looks_difference(one, two), looks_difference(two, one)
    assert (there.value, there.ci) == (-back.value, (-back.ci[1], -back.ci[0]))
    assert there.value == pytest.approx(found["m"].part.value - found["o2"].part.value)
    alone = [np.sqrt(np.sum(estimate.influence**2)) for estimate in (found["m"], found["o2"])]
    assert 0 < there.error < 0.3 * np.hypot(*alone)
    assert looks_difference(one, one).ci == (0.0, 0.0)
    assert looks_difference(one, two, np.arange(1500) % 9).ci is None
    half = np.where(np.arange(1500) < 700, np.nan, one)
    assert looks_difference(half, two).n == 800
