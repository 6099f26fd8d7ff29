"""Attacks on what a restricted run lets out, with controls on which the same attack succeeds."""

import random
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.disclosure import released as releasing
from robustify.disclosure.released import Released, released
from robustify.disclosure.rounding import FINE
from robustify.errors import AuthorisationError
from robustify.judging.accuracy import credits
from robustify.judging.context import VIEWS
from robustify.policy.releases import publish
from robustify.restricted.ids import hashed, item_id
from robustify.run import open_run
from robustify.screen.item_index import item_index
from tests.attack import dictionary
from tests.attack.reconstruction import KEPT, Facts, Known, another, exact_facts, facts, settled, together
from tests.support import restricted_run, restricted_set
from tests.support.restricted_run import Inside

ITEMS, FLAGGED, SETS = 300, 100, 20
SECRET = bytes(range(7, 39))
PUBLISHED = ("", "0123456789abcdef", "mock-restricted", "robustify/v1/ids")


def flag_sets() -> list[list[bool]]:
    out = []
    for seed in range(SETS):
        chosen = set(random.Random(seed).sample(range(ITEMS), FLAGGED))
        out.append([i in chosen for i in range(ITEMS)])
    return out


@pytest.fixture(scope="module")
def data() -> list[dictionary.Row]:
    return dictionary.rows(ITEMS)


@pytest.fixture(scope="module")
def guessed(data: list[dictionary.Row]) -> list[list[str]]:
    return dictionary.made(data, PUBLISHED)


def test_without_the_key_a_published_split_is_no_better_than_its_base_rate(
    data: list[dictionary.Row], guessed: list[list[str]]
) -> None:
    # The shares of the topics are published on purpose: within a topic they are the same for every item.
    found: dict[str, list[float]] = {"ids": [], "places": []}
    hits = []
    keyed = [item_id(SECRET, "mock-restricted", "1", *row) for row in data]
    for member in flag_sets():
        split = hashed("mock-restricted", "1", "shortcut", PUBLISHED[1],
                       [k for k, is_in in zip(keyed, member, strict=True) if is_in])  # fmt: skip
        score = dictionary.matched(guessed, split.ids)
        assert max(score) < 12, "an id was guessed"
        found["ids"].append(dictionary.auc(score, member))
        found["places"].append(dictionary.auc(dictionary.by_place(ITEMS, split.ids), member))
        best = sorted(range(ITEMS), key=lambda i: -score[i])[:FLAGGED]
        hits.append(sum(member[i] for i in best) / FLAGGED)
    for way, aucs in found.items():
        assert abs(statistics.mean(aucs) - 0.5) <= 0.05, (way, statistics.mean(aucs))
    assert abs(statistics.mean(hits) - FLAGGED / ITEMS) <= 0.05


def test_the_same_attack_opens_a_plainly_salted_build_whole(
    data: list[dictionary.Row], guessed: list[list[str]]
) -> None:
    for member in flag_sets():
        ids = [dictionary.salted(row, PUBLISHED[1]) for row, is_in in zip(data, member, strict=True) if is_in]
        score = dictionary.matched(guessed, ids)
        assert [s >= 26 for s in score] == member
        assert dictionary.auc(score, member) == 1.0


# Reconstruction.


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Inside:
    return restricted_run.audited(tmp_path_factory.mktemp("large"), 200)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Inside:
    return restricted_run.audited(tmp_path_factory.mktemp("small"), 40)


def knowledge(inside: Inside) -> Known:
    """What the attacker knows: credits on the full question, on cloze and of every rule; no votes."""
    answers = inside.asked.answers
    assert inside.asked.items is not None
    ids = [item.id for item in inside.asked.items]
    held = item_index(answers, ids)
    out: dict[str, Any] = {}
    for model in dict.fromkeys(m for v, m, _ in answers.askings() if v in VIEWS):
        named = {"full": "full question", "cloze_chars": "cloze"}
        for view, credit in credits(answers, held, model, None).items():
            if credit is not None and view in named:
                out[f"{model}: {named[view]}{KEPT}"] = credit
    for cue in ("longest_answer", "most_common_position"):
        block = answers.block("heuristic", cue).first()
        out[f"rule: {cue.replace('_', ' ')}{KEPT}"] = held.spread(block, block.correct)
    kept = {v.item for v in inside.judgement.verdicts if v.verdict == "robust"}
    return Known(out, [item.topic for item in inside.asked.items], np.array([i in kept for i in ids]))


def attacked(page: Released, known: Known) -> Facts:
    """What a page says; the true set fits, or the attack would prove nothing."""
    told = facts(page, known)
    assert bool((told.matrix @ known.kept >= told.low - 1e-6).all())
    assert bool((told.matrix @ known.kept <= told.high + 1e-6).all())
    return told


@pytest.mark.parametrize(("which", "rates"), [("large", 2), ("small", 0)])
def test_no_topic_has_only_one_flagged_set_that_fits_what_was_published(
    which: str, rates: int, request: pytest.FixtureRequest
) -> None:
    inside: Inside = request.getfixturevalue(which)
    page, known = released(inside.summary), knowledge(inside)
    told = attacked(page, known)
    rows = 0 if page.topics is None else len(page.topics.rows)
    assert len(told.low) == 1 + rates + rows
    for topic in sorted(set(known.topics)):
        where = np.array([t == topic for t in known.topics])
        assert another(told, known.kept, where) is not None, f"{topic}: only one set fits"


def test_three_models_published_one_after_the_other_leave_every_topic_open(large: Inside) -> None:
    """The record lets three pages out that share the budget; together they still fit another set in every topic."""
    known = knowledge(large)
    whole = released(large.summary)
    pages = [whole.only([group]) for group in ("accuracy", "audit", "topics")]
    assert whole.available is not None
    assert sum(page.bits for page in pages) <= whole.available - whole.owed
    everything = np.arange(len(known.kept))
    told = together([(attacked(page, known), everything) for page in pages], len(everything))
    for topic in sorted(set(known.topics)):
        where = np.array([t == topic for t in known.topics])
        assert another(told, known.kept, where) is not None, topic


def test_exact_numbers_of_the_same_run_give_the_flagged_set_away(small: Inside) -> None:
    known = knowledge(small)
    assert settled(exact_facts(known), known.kept).all()


def test_whole_percents_without_the_budget_give_more_away_than_the_page(
    small: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = knowledge(small)
    assert not settled(attacked(released(small.summary), known), known.kept).any()
    monkeypatch.setattr(releasing, "BUDGET", 1000.0)
    monkeypatch.setattr(releasing, "SMALL", 0)
    monkeypatch.setattr(releasing, "CELL", 1)
    loose = released(small.summary, 1)
    assert loose.step == FINE
    assert settled(attacked(loose, known), known.kept).any()


# Several releases.


@dataclass(frozen=True)
class Lab:
    """A run of one data file under the joint key."""

    folder: Path
    inside: Inside


def labs(base: Path, patch: pytest.MonkeyPatch) -> list[Lab]:
    """120 items, and the same less one and less another one, audited under one key with one record."""
    whole = restricted_set.items
    out = []
    for name, left_out in (("whole", None), ("less-one", 7), ("less-another", 50)):
        rows = [row for i, row in enumerate(whole(120)) if i != left_out]
        folder = base / name
        folder.mkdir()
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(restricted_set, "items", lambda _n, _seed=0, rows=rows: rows)
            version = {} if left_out is None else {"version": name}
            inside = restricted_run.audited(folder, len(rows), **version)
        out.append(Lab(folder, inside))
    for name, value in restricted_run.environment(base / "whole").items():
        patch.setenv(name, value)
    return out


def stems(lab: Lab) -> list[str]:
    assert lab.inside.asked.items is not None
    return [item.stem for item in lab.inside.asked.items]


def reconstructed(found: list[Lab], whole: Lab) -> list[int]:
    """The items of the whole set of which only one flag fits, by what these releases say."""
    place = {stem: i for i, stem in enumerate(stems(whole))}
    told = []
    for lab in found:
        known = knowledge(lab.inside)
        said = attacked(released(lab.inside.summary), known)
        told.append((said, np.array([place[stem] for stem in stems(lab)])))
    kept = knowledge(whole.inside).kept
    return [int(i) for i in np.flatnonzero(settled(together(told, len(kept)), kept))]


@pytest.mark.slow
def test_three_releases_leave_every_item_open_because_the_record_refuses_two(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = labs(tmp_path_factory.mktemp("labs"), monkeypatch)
    whole = found[0]
    # The control, without the record: two pages give one item away, and three give both.
    assert reconstructed(found[:2], whole) == [7]
    assert reconstructed(found, whole) == [7, 50]
    publish(open_run(whole.folder / "out" / "run"), tmp_path / "whole")
    for lab in found[1:]:
        with pytest.raises(AuthorisationError, match="differs by fewer than 10") as refused:
            publish(open_run(lab.folder / "out" / "run"), tmp_path / lab.folder.name)
        assert refused.value.exit_code == 4
        assert not (tmp_path / lab.folder.name).exists()
    assert reconstructed([whole], whole) == []
    # What was published is published again at no cost.
    publish(open_run(whole.folder / "out" / "run"), tmp_path / "again")
    assert restricted_run.files(tmp_path / "again") == restricted_run.files(tmp_path / "whole")


def test_a_mean_with_all_its_digits_opens_a_topic_and_one_in_three_digits_does_not() -> None:
    rng = np.random.default_rng(0)
    scores, kept = rng.normal(-2, 1, 20), np.zeros(20, dtype=bool)
    kept[:12] = True
    mean = float(scores[kept].mean())
    sums = _sums(scores[:10]), _sums(scores[10:])

    def fitting(half: float) -> int:
        """How many sets of 12 have that mean, by meeting in the middle."""
        n = 0
        for size, values in sums[0].items():
            other = np.sort(sums[1].get(12 - size, np.empty(0)))
            low = np.searchsorted(other, 12 * (mean - half) - values, "left")
            high = np.searchsorted(other, 12 * (mean + half) - values, "right")
            n += int((high - low).sum())
        return n

    assert fitting(1e-13) == 1
    assert fitting(0.005) > 100


def _sums(scores: Any) -> dict[int, Any]:
    """The sums of all subsets, by their sizes."""
    out: dict[int, list[float]] = {}
    for mask in range(1 << len(scores)):
        chosen = [scores[i] for i in range(len(scores)) if mask >> i & 1]
        out.setdefault(len(chosen), []).append(float(sum(chosen)))
    return {size: np.array(values) for size, values in out.items()}
