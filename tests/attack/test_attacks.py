"""Attacks on what a restricted run lets out, with controls on which the same attack succeeds."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.items.views import VIEWS
from robustify.judging.accuracy import score_model
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.restricted.disclosure import released as releasing
from robustify.restricted.disclosure.released import FINE, Released
from robustify.restricted.ids import item_id
from robustify.restricted.restricted_folder import publish
from robustify.runs.run import open_run
from robustify.wings import GUARD
from tests.attack.reconstruction import KEPT, Facts, Known, another, exact_facts, facts, settled, together
from tests.support import restricted_run, restricted_set
from tests.support.cases import refuses
from tests.support.released import released
from tests.support.restricted_run import Inside

PUBLISHED = ("", "0123456789abcdef", "mock-restricted", "robustify/v1/ids")
"""What everybody knows: the id of the key, the name of the set, the label of the subkey."""
Row = tuple[str, list[str]]


def rows(n: int = 300) -> list[Row]:
    return [(row["question"], row["choices"]) for row in restricted_set.items(n)]


def written(digest: bytes) -> str:
    return "rb1_" + base64.b32encode(digest[:16]).decode().rstrip("=").lower()


def guesses(row: Row) -> Iterator[str]:
    """Every way in which ids are made of a text and of words that are published."""
    texts = (
        row[0],
        "".join((row[0], *row[1])),
        "|".join((row[0], *row[1])),
        "|".join((row[0], *sorted(row[1]))),
    )
    for word in PUBLISHED:
        yield item_id(word.encode(), "mock-restricted", "1", *row)
        for text in texts:
            yield from (
                written(hashlib.sha256(f"{word}{mark}{text}".encode()).digest()) for mark in ("", "|")
            )
            yield written(hmac.digest(word.encode() or b"0", text.encode(), "sha256"))


def test_without_the_key_no_id_is_found_by_who_has_every_text() -> None:
    keyed = {item_id(bytes(range(7, 39)), "mock-restricted", "1", *row) for row in rows()}
    salted = {written(hashlib.sha256(f"{PUBLISHED[1]}|{row[0]}".encode()).digest()) for row in rows()}
    found = {guess for row in rows() for guess in guesses(row)}
    assert not keyed & found
    # The control: plainly salted ids are opened whole.
    assert salted <= found


# Reconstruction.


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Inside:
    return restricted_run.inside_once(tmp_path_factory)


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
        for view, credit in score_model(answers, held, model, "letter", ScreenRules()).credits.items():
            if credit is not None and view in named:
                out[f"{model}: {named[view]}{KEPT}"] = credit
    for cue in ("longest_answer", "most_common_position"):
        block = answers.block("heuristic", cue).first()
        out[f"rule: {cue.replace('_', ' ')}{KEPT}"] = held.spread(block, block.correct)
    kept = {v.item for v in inside.judgement.verdicts if v.verdict == "kept"}
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
    publish(open_run(whole.folder / "out" / "run", GUARD), tmp_path / "whole")
    for lab in found[1:]:
        with refuses("few-items-differ"):
            publish(open_run(lab.folder / "out" / "run", GUARD), tmp_path / lab.folder.name)
        assert not (tmp_path / lab.folder.name).exists()
    assert reconstructed([whole], whole) == []
    # What was published is published again at no cost.
    publish(open_run(whole.folder / "out" / "run", GUARD), tmp_path / "again")
    assert restricted_run.files(tmp_path / "again") == restricted_run.files(tmp_path / "whole")
