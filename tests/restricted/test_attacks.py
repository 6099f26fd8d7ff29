"""Attacks on what a restricted run lets out, with controls on which the same attack succeeds."""

import json
import random
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.disclosure import Level, released_summary
from robustify.disclosure.coarse import COARSER, FINEST
from robustify.disclosure.remade import FEATURE_CLASSES
from robustify.errors import AuthorisationError
from robustify.judge.accuracy import credits, everyone
from robustify.restricted.ids import hashed, item_id
from robustify.run import open_run
from robustify.screen.item_index import item_index
from robustify.summary.format_1 import read
from robustify.summary.result import PLACES, Summary
from robustify.writers.releases import emitted, published
from tests.attack import dictionary
from tests.attack.reconstruction import Facts, Known, another, facts, settled, solved, together
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
    return restricted_run.audited(tmp_path_factory.mktemp("small"), 40, min_cell=5)


def knowledge(inside: Inside, topics: dict[str, str], *, by_class: bool) -> Known:
    """What the attacker knows: credits on the full question, on cloze and of every cue; no votes."""
    answers = inside.asked.answers
    ids = [item.id for item in inside.asked.items]
    held = item_index(answers, ids)
    out: dict[tuple[str, ...], Any] = {}
    for model in everyone(answers):
        for view, credit in credits(answers, held, model, None).items():
            if credit is not None and not view.startswith("choices_only"):
                out["accuracy", model, view] = credit
    summary: Any = inside.summary.tree()
    shown = summary["heuristics"]["all"]
    for cue, members in FEATURE_CLASSES.items():
        best = min((m for m in members if m in shown), key=lambda m: shown[m]["p_holm"])
        for name in [best] if by_class else [m for m in members if m in shown]:
            block = answers.block("heuristic", name).first()
            out["heuristics", cue if by_class else name] = held.spread(block, block.correct)
    kept = {v.item for v in inside.judgement.verdicts if v.verdict == "robust"}
    return Known(out, [topics[item.topic] for item in inside.asked.items], np.array([i in kept for i in ids]))


def merged(inside: Inside, told: Any) -> dict[str, str]:
    """Each topic by the name under which the release shows it."""
    names = list(told["topics"]["by_topic"])
    (other,) = [n for n in names if n.startswith("Other (")] or [""]
    return {item.topic: item.topic if item.topic in names else other for item in inside.asked.items}


def steps(told: Any, known: Known) -> dict[tuple[str, ...], float]:
    """The step of each number, which a release says itself."""
    groups = {place.path: place.group for place in PLACES}
    group = {
        path: "surface features" if path[0] == "heuristics" else groups[f"accuracy.*.{path[2]}.robust"]
        for path in known.credits
    }
    return {path: COARSER if g in told["release"]["coarser"] else FINEST for path, g in group.items()}


def attacked(inside: Inside, level: Level, min_cell: int) -> tuple[Known, Facts]:
    """What is known, and what a release says of it; the true set fits, or the attack would prove nothing."""
    told: Any = released_summary(inside.summary, level, min_cell).tree()
    known = knowledge(inside, merged(inside, told), by_class=True)
    all_facts = facts(told, known, steps(told, known))
    assert bool((all_facts.matrix @ known.kept >= all_facts.low - 1e-6).all())
    assert bool((all_facts.matrix @ known.kept <= all_facts.high + 1e-6).all())
    return known, all_facts


@pytest.mark.parametrize(("which", "min_cell", "rates"), [("large", 10, 4), ("small", 5, 0)])
def test_no_topic_has_only_one_flagged_set_that_fits_what_was_published(
    which: str, min_cell: int, rates: int, request: pytest.FixtureRequest
) -> None:
    known, all_facts = attacked(request.getfixturevalue(which), "published", min_cell)
    assert len(all_facts.low) == len(set(known.topic)) + 1 + rates
    for topic in sorted(set(known.topic)):
        where = np.array([t == topic for t in known.topic])
        assert another(all_facts, known.kept, where) is not None, f"{topic}: only one set fits"


# Several releases.


@dataclass(frozen=True)
class Lab:
    """A run of one data file, and how the attacker finds its items among those of the whole set."""

    folder: Path
    inside: Inside
    draft: Summary


def labs(base: Path, patch: pytest.MonkeyPatch) -> list[Lab]:
    """120 items, and the same less one and less another one, audited under one key with one ledger."""
    whole = restricted_set.items
    out = []
    for name, left_out in (("whole", None), ("less-one", 7), ("less-another", 50)):
        rows = [row for i, row in enumerate(whole(120)) if i != left_out]
        folder = base / name
        folder.mkdir()
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(restricted_set, "items", lambda _n, _seed=0, rows=rows: rows)
            inside = restricted_run.audited(folder, len(rows))
        tree = json.loads((folder / "out" / "run" / "release.json").read_text("utf-8"))
        out.append(Lab(folder, inside, read(tree["summary"])))
    for name, value in restricted_run.environment(base / "whole").items():
        patch.setenv(name, value)
    patch.delenv("ROBUSTIFY_KEY", raising=False)
    return out


def place_of(lab: Lab, among: Lab) -> Any:
    assert among.inside.asked.items is not None
    place = {item.id: i for i, item in enumerate(among.inside.asked.items)}
    return np.array([place[item.id] for item in lab.inside.asked.items])


def reconstructed(found: list[Lab], whole: Lab) -> Any:
    """Which items of the whole set only one flag fits, by what these releases say."""
    told = []
    for lab in found:
        shown: Any = lab.draft.tree()
        known = knowledge(lab.inside, merged(lab.inside, shown), by_class=True)
        told.append((facts(shown, known, steps(shown, known)), place_of(lab, whole)))
    kept = {v.item for v in whole.inside.judgement.verdicts if v.verdict == "robust"}
    flags = np.array([item.id in kept for item in whole.inside.asked.items])
    return settled(together(told, len(flags)), flags)


@pytest.mark.slow
def test_three_releases_leave_every_item_open_because_the_ledger_refuses_two(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = labs(tmp_path_factory.mktemp("labs"), monkeypatch)
    whole = found[0]
    # The control: what was published before there was a ledger. Two summaries give one item, three give both.
    assert list(np.flatnonzero(reconstructed(found[:2], whole))) == [7]
    assert list(np.flatnonzero(reconstructed(found, whole))) == [7, 50]
    for lab in found[1:]:
        published(open_run(whole.folder / "out" / "run"), tmp_path / f"before-{lab.folder.name}")
        with pytest.raises(AuthorisationError, match="cuts out a part of fewer than 10 items") as refused:
            published(open_run(lab.folder / "out" / "run"), tmp_path / lab.folder.name)
        assert refused.value.exit_code == 4
        assert not (tmp_path / lab.folder.name).exists()
    assert not reconstructed([whole], whole).any()
    # Of the lists one has lost an id; the other is the same one, and says nothing new.
    whole_run, less = (open_run(lab.folder / "out" / "run") for lab in found[:2])
    lists = {name: emitted(whole_run, name, "published") for name in ("robust", "shortcut")}
    (lost,) = [name for name in lists if emitted(less, name, "evaluator") != lists[name]]
    with pytest.raises(AuthorisationError, match="cuts out a part of fewer than 10 items"):
        emitted(less, lost, "published")
    (same,) = lists.keys() - {lost}
    assert emitted(less, same, "published") == lists[same]
    # What was published is published again at no cost.
    again = published(open_run(whole.folder / "out" / "run"), tmp_path / "again")
    assert again.number == 1
    before = restricted_run.files(tmp_path / "before-less-one")
    assert restricted_run.files(tmp_path / "again") == before


def test_whole_percents_without_the_budget_give_a_small_set_away(small: Inside) -> None:
    known, all_facts = attacked(small, "evaluator", 5)
    found = solved(all_facts)
    assert found is not None
    assert bool((found == known.kept).all())
    assert another(all_facts, known.kept, np.ones(len(known.kept), dtype=bool)) is None


def test_exact_numbers_of_the_same_run_give_the_flagged_set_away(small: Inside) -> None:
    summary: Any = small.summary.tree()
    own = {item.topic: item.topic for item in small.asked.items}
    known = knowledge(small, own, by_class=False)
    exact = facts(summary, known, {})
    found = solved(exact)
    assert found is not None
    assert bool((found == known.kept).all()), "the attack found another set: the control is void"
    assert another(exact, known.kept, np.ones(len(known.kept), dtype=bool)) is None


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
