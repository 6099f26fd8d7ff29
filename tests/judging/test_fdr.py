"""`criterion: fdr` through the whole judge: what is flagged, what is said of it, and what stands beside it."""

from dataclasses import replace

import numpy as np
import pytest

from bench.simulate.dependent import DEPENDENT
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging import Judgement, judge
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Limits, Rules, context
from robustify.judging.guardrails import excess_above_chance
from robustify.judging.response_data import Facts
from robustify.judging.screen.item_screen import DEPENDENT_ITEMS
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import FLAGGED, UNDECIDED
from robustify.judging.summary.quantity import Reason
from robustify.report import render
from robustify.report.opening import opening
from robustify.report.printing import finding
from robustify.report.verdict import grounds, headline
from tests.support.contexts import context_of
from tests.support.fake_answers import Bench, bench, items_of, rows

FDR = ScreenRules(fdr=0.1)


def judged(b: Bench, rules: ScreenRules, *, cue: bool = True) -> Judgement:
    answers = Answers.of(rows(b, rotations=False, bias=0.0))
    return judge(answers, Facts("toys"), Rules(rules), items_of(b, cue=cue))


@pytest.fixture(scope="module")
def cued() -> tuple[Bench, Judgement]:
    b = bench(300, 2, s=0.3, agree=0.2, seed=3)
    return b, judged(b, FDR)


def test_the_cut_is_in_the_summary_and_its_share_is_at_most_q(cued: tuple[Bench, Judgement]) -> None:
    _, found = cued
    screen = found.summary.screen
    flagged = sum(v.verdict == "flagged" for v in found.verdicts)
    assert screen.cut.hits == flagged == found.summary.splits.flagged
    assert 0 < screen.cut.false_share.value <= 0.1 + 1e-9
    assert screen.excess_over_chance.p is None, "the keys that the scorer was fitted on give no p"
    assert f"{flagged} of 300 items" in finding("screen", screen)


def test_what_other_shares_would_flag_grows_with_the_share(cued: tuple[Bench, Judgement]) -> None:
    screen = cued[1].summary.screen
    assert [one.q for one in screen.cuts] == [0.05, 0.1, 0.2, 0.3]
    flagged = [one.flagged for one in screen.cuts]
    assert flagged == sorted(flagged)
    assert (flagged[1], screen.cuts[1].by_chance) == (screen.cut.hits, screen.cut.decoys)
    assert all(one.by_chance <= one.q * one.flagged + 1e-9 for one in screen.cuts)
    drawn = render(cued[1].summary, {})["figures/cuts.svg"]
    assert f"{flagged[3]}, " in drawn
    assert drawn.count('class="head"') == 1


def test_the_check_counts_every_flagged_item_where_copies_share_a_hit(cued: tuple[Bench, Judgement]) -> None:
    summary = cued[1].summary
    one_more = summary.splits.model_copy(update={"flagged": summary.splits.flagged + 1})
    check = excess_above_chance(summary.model_copy(update={"splits": one_more}), Limits())
    assert check.reason.params["hits"] == one_more.flagged


def test_a_clean_set_of_3000_items_passes_and_says_which_cue_it_cannot_have() -> None:
    """No run could pass, because a guardrail failed wherever nothing was flagged."""
    b = bench(3000, 3, agree=0.5, seed=5)
    rules = Rules(FDR.model_copy(update={"voters": ("v0", "v1")}))
    found = judge(Answers.of(rows(b, rotations=False, bias=0.0)), Facts("clean"), rules).summary
    assert (found.splits.flagged, found.state, found.screen.asked) == (0, "passed", 3000)
    assert found.screen.latent_shortcut_rate.value is None, "no rate is bounded"
    assert [c.state for c in found.guardrails if c.name == "excess_above_chance"] == ["not evaluated"]
    assert headline(grounds(found))[0] == "good"
    most = found.reasons[0].params["most"]
    assert 0 < most < 0.05
    assert any("3,000" in words and f"{100 * most:.1f} points" in words for _, words in opening(found).checks)


def test_neither_file_names_nor_the_order_of_rows_change_a_verdict() -> None:
    """Folds were hashes of names: two of twelve left all 60 items undecided, the others flagged 31 to 42."""
    items = items_of(bench(60, 2, s=0.5, seed=3), cue=True)
    found = set()
    for name in ("a", "quiz", "items-2", "mine"):
        rows_ = np.random.default_rng(len(found) + len(name)).permutation(60).tolist()
        named = [replace(items[i], id=f"{name}:{at}") for at, i in enumerate(rows_)]
        verdicts = [v.verdict for v in judge(Answers.of([]), Facts(name), Rules(FDR), named).verdicts]
        found.add(tuple(verdicts[rows_.index(i)] for i in range(60)))
    assert len(found) == 1
    assert found.pop().count("flagged") > 15


def test_too_few_items_to_screen_are_said_and_no_guardrail_fails() -> None:
    summary = judge(Answers.of([]), Facts("toys"), Rules(FDR), items_of(bench(49), cue=True)).summary
    assert headline(grounds(summary))[0] == "unsure"
    assert not [c for c in summary.guardrails if c.state == "failed"]
    (check,) = [c for c in summary.guardrails if c.reason == Reason.of("too_few", n=49, least=50)]
    assert (check.name, check.state) == ("undecided_share", "not evaluated")


def test_passages_keep_the_latent_rate() -> None:
    b = bench(300, 2, s=0.3, agree=0.2, seed=3)
    groups = {name: f"passage {i // 5}" for i, name in enumerate(b.ids)}
    items = [replace(item, group=groups[item.id]) for item in items_of(b, cue=True)]
    answers = Answers.of(rows(b, rotations=False, bias=0.0))
    found = judge(answers, Facts("toys", groups=groups), Rules(FDR), items)
    assert found.summary.screen.latent_shortcut_rate.value == pytest.approx(0.3, abs=0.1)


def test_the_rule_is_asked_of_every_option_and_of_fewer_voters() -> None:
    b = bench(300, 2, s=0.3, agree=0.2, seed=3)
    ctx = context_of(items_of(b, cue=True), rows(b, rotations=False, bias=0.0), Rules(FDR))
    would, removed = ctx.screen.result.would, ctx.screen.result.outcome == FLAGGED
    assert (would.sum(axis=1) <= 1).all()
    assert (would[np.arange(300), b.key] == removed).all()
    assert (ctx.screen.by_rule(ctx.screen.votes.without("v1"), FDR).outcome == FLAGGED).any()
    stricter = FDR.model_copy(update={"fdr": 0.02})
    assert (ctx.screen.by_rule(ctx.screen.votes, stricter).outcome == FLAGGED).sum() <= removed.sum()


def test_nothing_to_rank_is_nothing_flagged() -> None:
    b = bench(60, 1, seed=9)
    table = Answers.of(rows(replace(b, picks=np.full_like(b.picks, -2)), rotations=False, bias=0.0))
    found = judge(table, Facts("ties"), Rules(FDR))
    assert {v.verdict for v in found.verdicts} == {"undecided"}


def test_options_that_nothing_tells_apart_are_kept() -> None:
    """Options of one unknown letter each, and no model: undecided, they failed two guardrails and stopped exports."""
    draw = np.random.default_rng(0)
    letters = [tuple(chr(0x4E00 + int(c)) for c in draw.choice(2000, 4, replace=False)) for _ in range(60)]
    words = [(f"red {i}", f"tall green {i}", f"wide {i}", f"short grey one {i}") for i in range(60)]
    items = [Item(f"i{i}", f"Question {i}?", c, i % 4) for i, c in enumerate([*letters, *words])]
    found = judge(guess(items), Facts("letters"), Rules(FDR), items).summary
    states = {check.name: check.state for check in found.guardrails}
    assert (found.splits.undecided, found.screen.unanswered, found.screen.answered) == (0, 0, 120)
    assert found.screen.flagged.n == 120
    assert (states["unanswered_share"], states["undecided_share"]) == ("passed", "passed")


def test_a_voter_that_answered_nothing_leaves_no_item_robust() -> None:
    b = bench(120, 2, seed=9)
    picks = np.column_stack([b.picks[:, 0], np.full(120, -1)])
    found = judged(replace(b, picks=picks), FDR, cue=False)
    assert not any(v.verdict == "kept" for v in found.verdicts)


@pytest.mark.parametrize(
    ("q", "groups", "evaluated"), [(0.1, 3, False), (0.1, 4, True), (0.02, 16, False), (0.02, 17, True)]
)
def test_fewer_groups_than_a_cutoff_needs_hits_are_not_evaluated(
    q: float, groups: int, evaluated: bool
) -> None:
    """With four options, a miss stands for a third of a chance hit, so a cutoff needs 1 / (3 q) hits."""
    items = items_of(bench(120, 2, s=0.5, seed=3), cue=True)
    some = [replace(item, group=f"p{n % groups}") for n, item in enumerate(items)]
    found = context_of(some, (), Rules(FDR.model_copy(update={"fdr": q})))
    assert found.screen.ranking.independent == groups
    assert found.screen.decision.cutoff.groups == (None if evaluated else groups)
    if not evaluated:
        assert {v.verdict for v in found.screen.verdicts} == {"undecided"}


def test_three_items_alone_are_no_passages() -> None:
    b = bench(3, 2, seed=3)
    assert context(Answers.of(rows(b)), Facts("three"), Rules(FDR)).screen.decision.cutoff.groups is None


def test_items_that_look_parallel_are_not_evaluated_until_their_passage_is_named() -> None:
    worlds = "four languages without shared letters", "four languages without shared letters or numbers"
    items, bare = (DEPENDENT[world](240, np.random.default_rng(0)).items for world in worlds)
    named = [replace(item, group=f"p{int(item.stem.split()[-1]) % 60}") for item in bare]
    found = [context_of(some, (), Rules(FDR)).screen.decision for some in (items, bare, named)]
    # Equal numbers pair the first, passages the last.
    assert [one.cutoff.groups for one in found] == [None, 0, None]
    assert found[1].cutoff.threshold is None
    assert (found[1].outcome == UNDECIDED).all()


def test_a_set_that_is_not_evaluated_fails_no_check_and_says_why() -> None:
    items = items_of(bench(120, 2, s=0.5, seed=3), cue=True)
    some = [replace(item, group=f"p{n % 3}") for n, item in enumerate(items)]
    found = judge(Answers.of([]), Facts("passages"), Rules(FDR), some)
    assert found.summary.state == "not evaluated"
    assert [check.name for check in found.summary.guardrails if check.state == "failed"] == []
    assert headline(grounds(found.summary))[0] == "unsure"
    assert {reason.code for reason in found.summary.reasons} == {"dependent"}
    assert {v.reason for v in found.verdicts} == {DEPENDENT_ITEMS}
    votes = Answers.of(rows(bench(120, 2, s=0.5, seed=3)))
    by_votes = judge(votes, Facts("votes"), Rules(ScreenRules(criterion="majority")), some)
    assert by_votes.summary.splits.flagged, "votes learn no keys, so they are counted as always"
