"""The evidence on each item: what was picked, how sure, who agrees, and which cue carried it."""

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from robustify.base.arrays import Floats
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.baselines.features import NAMES
from robustify.judging.evidence import BY_LENGTH, CUE_OF, PART_OF, ItemEvidence, cue_counts, item_evidence
from robustify.judging.screen.certainty import shortcut_if_hit
from robustify.judging.screen.decoy_filter import FilterDecision, flags
from robustify.judging.screen.ranking import Ranking, at_option
from robustify.judging.screen.votes import Votes
from robustify.judging.summary.screen_parts import CUES
from tests.support.cases import cases
from tests.support.contexts import parts_of
from tests.support.fake_answers import bench, votes_of

K = 4


def of(
    ranking: Ranking, decision: FilterDecision, votes: Votes, items: list[Item] | None = None
) -> ItemEvidence:
    found = item_evidence(
        SimpleNamespace(items=items, answers=Answers.of([])),
        SimpleNamespace(ranking=ranking, decision=decision, votes=votes),
    )
    assert found is not None
    return found


def ranking_of(
    votes: Votes,
    top: list[int],
    weight: list[float],
    parts: Mapping[str, Floats],
    surface: Mapping[str, Floats],
) -> Ranking:
    n, picked, shares = len(top), np.array(top), np.array(weight)
    sums = {
        part: {name: at_option(logits, picked) for name, logits in own.items()}
        for part, own in (("parts", parts), ("surface", surface))
    }
    return Ranking(
        items=votes.items, width=K, top=picked, p_pick=shares, p_key=np.ones(n), probable=shares, strength=shares,
        reachable=np.full((n, K), np.nan), null=np.full(n, 1 / K), group=np.arange(n), fold=np.zeros(n, dtype=np.int64),
        complete=np.ones(n, dtype=bool), independent=n, families=np.arange(n), **sums,
    )  # fmt: skip


def table(n: int, *at: tuple[int, int, float]) -> Floats:
    """(n, K) zeros but for these entries, centred within the item."""
    out = np.zeros((n, K))
    for item, option, value in at:
        out[item, option] = value
        out[item] -= value / K
    return out


@pytest.fixture(scope="module")
def votes() -> Votes:
    return votes_of(bench(40, 2, s=0.5, agree=0.0, seed=3))


def test_every_feature_and_part_has_a_cue() -> None:
    assert set(CUE_OF) == set(NAMES)
    assert set(CUE_OF.values()) | set(PART_OF.values()) | {"none", "number_values"} == set(CUES)
    assert set(BY_LENGTH) <= set(NAMES)


def test_numbers_are_those_of_the_ranking_and_voters_those_that_agree(votes: Votes) -> None:
    n = len(votes.items)
    top = [*votes.key[: n - 2].tolist(), -1, -2]
    weight = [*np.linspace(0.3, 0.9, n - 2).tolist(), np.nan, np.nan]
    ranking = ranking_of(votes, top, weight, {}, {})
    decision = flags(ranking, votes.key, 0.1)
    found = of(ranking, decision, votes)
    assert decision.hit.tolist() == [True] * (n - 2) + [False] * 2
    assert np.isnan(decision.shortcut[n - 2 :]).all()
    assert decision.shortcut[: n - 2] == pytest.approx(
        shortcut_if_hit(decision.posterior[: n - 2], ranking.null[: n - 2])
    )
    for at in range(n - 2):
        picked = votes.pick[at] == top[at]
        assert found.picked_by[at] == tuple(v for v, p in zip(votes.voters, picked, strict=True) if p)
    assert found.picked_by[n - 1] == ()
    assert set(found.leading) == {"none"}


def test_cues_are_sums_of_their_features_and_the_largest_is_named(votes: Votes) -> None:
    n = len(votes.items)
    surface = {
        "characters": table(n, (0, 1, 1.0), (1, 1, -1.0)),
        "words": table(n, (0, 1, 1.0)),
        "commas": table(n, (0, 1, 1.5), (1, 1, 0.4)),
        "hedges": table(n, (2, 1, -1.0)),
    }
    parts = {
        "surface": np.asarray(sum(surface.values())),
        "text votes": table(n, (0, 1, 0.1), (1, 1, 0.3), (2, 1, 0.2), (3, 1, 9.0)),
    }
    found = of(*ranked(votes, parts, surface), votes)
    assert found.cues == ("length", "certainty", "form", "text_votes")
    assert found.carried[0].tolist() == pytest.approx([1.5, 0.0, 1.125, 0.075])
    assert found.leading[:4] == ("length", "form", "text_votes", "text_votes")
    assert [found.cues[c] for c in found.reported[0] if c >= 0] == ["length", "form"]
    assert [found.cues[c] for c in found.reported[1] if c >= 0] == ["form", "text_votes"]
    assert found.leading[4] == "none"


def ranked(
    votes: Votes, parts: Mapping[str, Floats], surface: Mapping[str, Floats]
) -> tuple[Ranking, FilterDecision]:
    n = len(votes.items)
    ranking = ranking_of(votes, [1] * n, [0.5] * n, parts, surface)
    return ranking, flags(ranking, votes.key, 0.1)


def test_what_length_brings_counts_as_length_in_a_much_longer_pick(votes: Votes) -> None:
    n = len(votes.items)
    surface = {"characters": table(n, (0, 1, 0.5)), "commas": table(n, (0, 1, 2.0), (1, 1, 2.0))}
    parts = {"surface": surface["characters"] + surface["commas"], "words": table(n, (0, 1, 4.0))}
    ranking, decision = ranked(votes, parts, surface)
    short = ("a word", "two, words", "some", "more")
    items = [
        Item(name, "Which?", ("a word", "a long, very long answer", "some", "more") if at == 0 else short, 0)
        for at, name in enumerate(votes.items)
    ]
    moved, unmoved = of(ranking, decision, votes, items), of(ranking, decision, votes)
    assert (moved.leading[:2], unmoved.leading[:2]) == (("length", "form"), ("words", "form"))
    # Each contribution counts once.
    assert moved.carried.sum(axis=1) == pytest.approx(unmoved.carried.sum(axis=1))


@pytest.mark.parametrize(("choices", "leading"), cases("judging", "cues_of_marks"))
def test_what_a_mark_brings_counts_as_its_cue(votes: Votes, choices: list[str], leading: str) -> None:
    """Units and brackets lost to length, which they also change; numbers of more digits were long words."""
    n = len(votes.items)
    surface = {
        "characters": table(n, (0, 1, 2.0)), "longest_word": table(n, (0, 1, 1.0)),
        **{name: table(n, (0, 1, 0.1)) for name in ("unit", "brackets", "hedges")},
    }  # fmt: skip
    ranking, decision = ranked(votes, {"surface": np.asarray(sum(surface.values()))}, surface)
    items = [Item(name, "Which?", tuple(choices), 0) for name in votes.items]
    assert of(ranking, decision, votes, items).leading[0] == leading


def test_flagged_items_are_counted_by_their_first_cue(votes: Votes) -> None:
    n = len(votes.items)
    surface = {"characters": table(n, *((i, 1, 1.0) for i in range(10)))}
    ranking, decision = ranked(votes, {"surface": surface["characters"]}, surface)
    found = of(ranking, decision, votes)
    flagged = np.arange(n) < 20
    summary = cue_counts(found, parts_of(~flagged))
    assert summary.n == 20
    assert {cue: (q.value, q.n) for cue, q in summary.cues.items()} == {
        "length": (0.5, 20),
        "none": (0.5, 20),
    }
    assert all(q.ci is not None and q.ci[0] < 0.5 < q.ci[1] for q in summary.cues.values())
    listed = summary.likeliest or ()
    assert all(row.item in np.array(votes.items)[votes.key == 1].tolist() for row in listed)
