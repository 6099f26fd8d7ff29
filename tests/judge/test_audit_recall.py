"""What auditors could have seen: cues in copies, who notices them, and the hole that a blind audit left."""

from dataclasses import replace

import numpy as np
import pytest

from robustify.answers import Answers
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.baselines.heuristics import guess
from robustify.baselines.wording import ABSOLUTES, HEDGES, words_of
from robustify.item import Item
from robustify.judge.audit.auditor import CUES, AuditRate, Cue
from robustify.judge.audit.fresh import FreshProbe, everything, refitted
from robustify.judge.audit.recall import Followers, of_probe, of_rules, spiked, standing
from robustify.judge.audit.residual import residual
from robustify.screen.item_index import item_index
from robustify.screen.votes import cast_votes
from robustify.stats.intervals import rate
from robustify.summary.result import Residual
from tests.support.fake_answers import Bench, bench, items_of, rows
from tests.support.rules import unanimous

PLAIN = Item("a", "Which town has the longest harbour?", ("Alpha port", "Bravo port", "Carol port"), 1)


# Cues


@pytest.mark.parametrize("cue", CUES)
def test_a_cue_gives_the_key_away_and_leaves_the_item_as_it_was(cue: Cue) -> None:
    before = (PLAIN.stem, PLAIN.choices)
    copy = spiked(PLAIN, cue)
    assert (PLAIN.stem, PLAIN.choices) == before
    assert (copy.id, copy.key, copy.k) == ("a", 1, 3)
    assert copy.choices != PLAIN.choices
    assert standing(PLAIN, cue) == -1
    assert standing(copy, cue) == 1
    assert standing(spiked(replace(PLAIN, key=2), cue), cue) == 2


def test_a_cue_changes_its_own_trait_alone() -> None:
    for cue in ("hedge", "repeated", "grammar"):
        sizes = [len(c) for c in spiked(PLAIN, cue).choices]
        assert max(sizes) - min(sizes) <= 1, cue
        assert len({words_of(c)[0] for c in spiked(PLAIN, cue).choices}) == 3, "each another word"
    absolute = [not ABSOLUTES.isdisjoint(words_of(c)) for c in spiked(PLAIN, "absolute").choices]
    assert absolute == [True, False, True]
    hedged = [not HEDGES.isdisjoint(words_of(c)) for c in spiked(PLAIN, "hedge").choices]
    assert hedged == [False, True, False]
    assert [c.endswith(".") for c in spiked(PLAIN, "format").choices] == [False, True, False]
    assert len(spiked(PLAIN, "longer").choices[1]) >= 1.5 * len("Alpha port")


def test_cues_can_be_put_into_any_item() -> None:
    odd = Item("b", "?", tuple(str(j) for j in range(26)), 25)
    for cue in CUES:
        assert standing(spiked(odd, cue), cue) == 25, cue


# Who notices


def made(n: int, seed: int = 0) -> tuple[Bench, list[Item], FreshProbe]:
    b = bench(n, 1, seed=seed)
    items = items_of(b, seed=seed)
    return b, items, FreshProbe(items, ProbeSettings())


def test_the_probe_sees_what_is_among_its_features_and_no_grammar() -> None:
    b, _, probe = made(500)
    found = of_probe(probe, everything(b.ids, b.key, b.k))
    assert set(found) == set(CUES)
    assert found["grammar"] is None
    assert all(0 < (found[cue] or 1) <= 0.15 for cue in ("longer", "absolute", "hedge", "format"))
    assert of_probe(made(40)[2], everything(b.ids[:40], b.key[:40], b.k[:40])) == {}


@pytest.mark.slow
def test_what_it_is_said_to_see_raises_the_alarm_four_times_in_five() -> None:
    b, items, probe = made(300, 1)
    share = of_probe(probe, everything(b.ids, b.key, b.k))["longer"]
    assert share is not None
    alarms = 0
    for seed in range(60):
        own, fresh, _ = made(300, 100 + seed)
        has = np.random.default_rng(seed).permutation(300) < round(share * 300)
        cued = [spiked(i, "longer") if there else i for i, there in zip(fresh, has.tolist(), strict=True)]
        fitted = FreshProbe(cued, ProbeSettings()).fitted(everything(own.ids, own.key, own.k))
        alarms += refitted(fitted.design, fitted.key, 199).p <= 0.05
    assert alarms >= 60 * 0.8 - 2 * np.sqrt(60 * 0.16)
    assert len(items) == 300


def test_rules_see_their_own_kinds_sooner_on_more_items() -> None:
    items = made(200)[1]
    few, many = of_rules(items, 200), of_rules(items, 2000)
    assert few["grammar"] is None
    for cue in ("longer", "absolute", "hedge", "repeated"):
        small, large = few[cue], many[cue]
        assert large < small < 0.3


def test_a_model_that_follows_a_cue_at_wrong_options_would_have_seen_it() -> None:
    b, items, _ = made(400)
    wrong = [spiked(replace(i, key=(i.key + 1) % 4), "longer") for i in items]
    followers = Followers(wrong, b.key)
    followed = np.eye(4, dtype=bool)[(b.key + 1) % 4]
    audit = AuditRate(rate(np.repeat([1.0, 0.0], [100, 300])), 0.25)
    sees = followers.of_picks(followed, audit)
    assert sees["longer"] < 0.15
    assert sees["grammar"] is None, "no item has it"
    ignored = followers.of_picks(np.eye(4, dtype=bool)[b.key], audit)
    assert ignored["longer"] is None
    silent = followers.of_picks(np.zeros((400, 4), dtype=bool), audit)
    assert set(silent.values()) == {None}


# The audit as a whole


def audited(b: Bench, items: list[Item] | None, voters: tuple[str, ...] = ("v0", "v1")) -> Residual:
    tables = [Answers.of(rows(b, rotations=False, bias=0.0))] + ([guess(items)] if items else [])
    table, rules = Answers.concat(tables), unanimous(voters=voters)
    index = item_index(table, b.ids)
    votes = cast_votes(table, rules, index)
    return residual(table, index, votes, rules, FreshProbe(items, ProbeSettings()), 0.05)


def with_a_hole(n: int, seed: int) -> Bench:
    """A fifth holds a shortcut that all see, and goes. Of the rest so many hold another that who knew it would get 10
    points more of the kept items right; each model sees it one time in ten, the auditor no more often than voters.
    """
    b = bench(n, 3, s=0.2, agree=0.2, seed=seed)
    rng = np.random.default_rng(1000 + seed)
    hole = rng.random(n) < 0.1 / 0.75
    seen = hole[:, None] & (rng.random((n, 3)) < 0.1)
    return replace(b, picks=np.where(seen, b.key[:, None], b.picks))


def test_without_text_a_set_on_which_the_auditors_are_blind_is_never_certified() -> None:
    """The hole: nearly all such sets were certified without a caveat, because the outsider was near chance."""
    found = [audited(with_a_hole(2500, seed), None) for seed in range(6)]
    assert "certified" not in [t.verdict for t in found]
    untried = [t for t in found if [r.code for r in t.reasons or ()] == ["no_kind_tried"]]
    assert len(untried) >= 4, "nothing else spoke against a certificate"


@pytest.mark.slow
def test_with_text_a_certificate_names_what_could_not_have_been_seen() -> None:
    verdicts = []
    for seed in range(3):
        b = with_a_hole(1500, seed)
        found = audited(b, items_of(b, seed=seed))
        verdicts.append(found.verdict)
        if found.verdict == "certified":
            unseen = [r for r in found.reasons or () if r.code == "unseen_kinds"]
            assert len(unseen) == 1
            assert "grammar" in unseen[0].kinds
    assert "not certified" not in verdicts


def test_the_longest_answer_of_sixty_items_stands_against_the_certificate() -> None:
    """It is right on four of five items, kept or not, and no voter knows."""
    b = bench(60, 2, agree=0.3, seed=6)
    cued = [spiked(i, "longer") if n % 6 else i for n, i in enumerate(items_of(b))]
    found = audited(b, cued)
    assert found.verdict == "not certified"
    (rule,) = found.heuristics.values()
    assert rule.value > 0.75
    assert rule.p < 0.001
    assert any(r.code == "above_chance" and r.kind == "heuristic" for r in found.reasons or ())
