"""Every code that judging writes has a sentence, and it names what it is about."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.summary.quantity import Quantity, Reason
from robustify.report.format import cell, ordinal, rated
from robustify.report.printing import catalogue, sentence

SOURCE = Path(__file__).parents[2] / "robustify"
AUDITOR = {"auditor": "one", "kind": "probe", "value": 0.4, "n": 200}
PLACE = {"voter": "one", "position": 2, "picked": 0.9, "n": 60, "low": 0.8, "keys": 0.25, "forced": True}
KEPT = Reason.of("topic_count", name="history", before=40, after=10)
SAID: dict[str, list[tuple[dict[str, Any], str]]] = {
    "not_judged": [({"why": "no_screen"}, "not evaluated: nothing was screened"),
                   ({"why": None}, "not evaluated: the run has no data for it")],
    "below_margin": [({"auditors": 4, "margin": 0.05}, "bounds of all 4 auditors are below chance plus 5 points"),
                     ({"auditors": 4, "margin": 0.05, "most": 0.021}, "plus 5 points: no cue of 2.1 points that they see")],
    "power": [({"auditor": "one", "rate": 0.3, "n": 200, "power": 0.8}, "a rate of 30.0 % or more on 200 items with"),
              ({"auditor": "one", "rate": None, "n": 200, "power": 0.8}, "one would detect any rate on 200 items")],
    "above_chance": [
        ({**AUDITOR, "low": 0.3, "limit": 0.25, "even": 0.25, "expected": None, "p": 0.01, "refits": 99},
         "(trained on the kept items): 40.0 % of 200 items without copies; chance is 25.0 % (p = 0.010, 99 refits)"),
        ({**AUDITOR, "low": 0.3, "limit": 0.2, "even": 0.25, "expected": 0.2, "p": None, "refits": None},
         "is above chance (20.0 %, reduced from 25.0 % because the auditor agrees"),
        ({**AUDITOR, "low": 0.3, "limit": 0.25, "even": 0.25, "expected": 0.31, "p": None, "refits": None},
         "is above chance (25.0 %), but not above what the filter makes predictable (31.0 %)")],
    "not_below_margin": [
        ({**AUDITOR, "kind": "heuristic", "high": 0.5, "limit": 0.3, "p": 0.2}, "chance is 30.0 %"),
        ({**AUDITOR, "high": 0.5, "limit": 0.3, "p": None}, "the upper bound of 50.0 % is not below chance plus margin")],
    "could_not_see": [({**AUDITOR, "free": 12}, "it could be right on only 12 of the 200 items")],
    "topic_count": [(dict(KEPT.params), "history kept 10 of 40")],
    "topics_lost": [({"topics": (KEPT, KEPT)}, "history kept 10 of 40; history kept 10 of 40")],
    "topics_small": [({"topics": (KEPT,)}, "topics with too few items to judge: history kept 10 of 40")],
    "topics_kept": [({"share": 0.5}, "every topic kept at least 50 % of its items")],
    "topic_drift": [({"kl": 0.1, "null": 0.01, "p": 0.001}, "divergence is 0.1000 nats; random removals give 0.0100")],
    "kept_items": [({"n": 3, "least": 100}, "3 kept items; expected at least 100")],
    "unanswered": [({"open": 2, "asked": 60, "voter": "one", "missing": 3}, "; one has no readable answer to 3"),
                   ({"open": 0, "asked": 60, "voter": "", "missing": 0}, "missing answers leave 0 of 60 items undecided")],
    "ties": [({"voter": "one", "ties": 2, "n": 60}, "one: 2 of 60 answers are ties"),
             ({"voter": "one", "ties": 0, "n": 60}, "no voter has a tie")],
    "dependent": [({"groups": 3, "n": 0},
                   "all items belong to 3 passages or groups of copies, fewer than a cutoff needs hits"),
                  ({"groups": 0, "n": 90},
                   "90 items look parallel, and nothing shows which are translations of each other")],
    "too_few": [({"n": 49, "least": 50}, "only 49 items; without voters, at least 50 are needed")],
    "undecided": [({"n": 2, "of": 60}, "2 of 60 items are undecided")],
    "bounded_false_flags": [({"hits": 1, "q": 0.1}, "items are flagged with a probability of at most 10.0 %")],
    "excess": [({"value": 0.1, "p": 0.2, "level": 0.05, "doubt": "not_significant"},
                "not significant: 10.0 % of the items are flagged beyond chance (p = 0.2, limit 0.05)"),
               ({"value": 0.1, "p": 0.01, "level": 0.05, "doubt": "no_interval"}, "no interval, because there are")],
    "audit": [({"state": "not evaluated", "reasons": (Reason.of("no_auditor"),)},
               "the audit was not evaluated: the kept items were not audited")],
    "guardrail_failed": [({"name": "ties_share", "reason": Reason.of("no_screen")},
                          "tied answers failed: nothing could be screened without the question"),
                         ({"name": "ties_share", "reason": None}, "tied answers failed")],
    "voters_by_position": [
                        ({"voters": (Reason.of("one_position", **PLACE),)}, "one picks the option shown third in 90.0 %"),
                        ({"voters": ()}, "no voter picks by position")],
    "one_position": [(PLACE, "(n = 60 items, lower bound 80.0 %; the key is there in 25.0 %); judged anyway"),
                  ({"voter": "one", "position": 0, "forced": False},
                   "one picks the option shown first, whatever its text")],
    "trial_run": [({"n": 20, "least": 100, "part": False}, "20 items, fewer than 100"),
                  ({"n": 20, "least": 100, "part": True}, "20 items, limited to a part of the set")],
    "voter_under_test": [({"name": "one"}, "one is under test and voted in the filter")],
    "looks_few_items": [({"n": 40}, "40 items are too few")],
    "looks_reader_saw_items": [({"value": 0.5, "chance": 0.25},
                                "50.0 % of keys that were redrawn at random (chance 25.0 %)")],
    "looks_few_wrong": [({"n": 29, "least": 30}, "29 independent items with a wrong pick; at least 30")],
    "looks_not_above_zero": [({"source": "wrong"}, "by wrong picks is not above 0"),
                             ({"source": "panel"}, "by the other models is not above 0")],
    "looks_unanswered": [({"n": 1}, "1 unreadable answer could have been any option")],
    "vague_list": [({"precision": 0.3, "planted": 0.05}, "they are 30"), ({"precision": None, "planted": 0.05}, "unknown")],
    "few_strong_models": [({"strong": 1, "asked": 3}, "1 of 3 models is significantly better")],
}  # fmt: skip


@pytest.mark.parametrize("code", catalogue()["sentences"])
def test_every_code_has_a_sentence(code: str) -> None:
    for params, expected in SAID.get(code, [({}, "")]):
        said = sentence(Reason.of(code, **params))
        assert expected in said
        assert said == " ".join(said.split())
        assert not re.search(r"[{}%]{2}|\bNone\b|[.]$| [,;:]", said)
        assert said == sentence(Reason.model_validate_json(Reason.of(code, **params).model_dump_json()))


WRONG = re.compile(
    r"\b1 (?:\w+ ){0,2}?(?:items|answers|models|auditors|groups|orders)\b"  # 1 items
    r"|\b1 (?:of 1 )?(?:\w+ ){0,2}?(?:item|answer|model|auditor)s? (?:are|were|have|share)\b"
    r"|\b1 of [\d,]+ \w+ (?:are|were|have|share)\b|\b[Aa]bout (?:0|1 are)\b|\b([\d.]+) to \1\b|\([; ]*\)"
)
"""What a sentence says that does not follow its numbers."""


def at_bounds(params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield parameters whose numbers are the smallest and the largest that they can be."""
    for n, x in ((0, 0.0), (1, 1.0)):
        whole = {name: n for name, value in params.items() if type(value) is int and name != "position"}
        yield {**params, **whole, **{name: x for name, value in params.items() if isinstance(value, float)}}


@pytest.mark.parametrize("code", SAID)
def test_a_sentence_follows_its_numbers(code: str) -> None:
    for params, _ in SAID[code]:
        for edge in at_bounds(params):
            assert not WRONG.search(said := sentence(Reason.of(code, **edge))), said


@pytest.mark.parametrize(
    ("q", "says", "shown"),
    [
        (Quantity(value=1.0, n=4, ci=(0.206, 1.0)), "100.0 % (n = 4, 20.6 to 100.0)", "(20.6 to 100.0)"),
        (Quantity(value=0.0, n=4, ci=(0.0, 0.39)), "0.0 % (n = 4, 0.0 to 39.0)", "(0.0 to 39.0)"),
        (Quantity(value=0.5, n=9, ci=(0.5, 0.5)), "50.0 % (n = 9)", ""),
        (Quantity(value=0.5, n=9, ci=(0.2, 0.8)), "50.0 % (n = 9, 20.0 to 80.0)", "±30.0"),
        (Quantity(value=0.9, n=9, ci=(0.8, 1.0)), "90.0 % (n = 9, 80.0 to 100.0)", "±10.0"),
        (Quantity(value=0.03, n=9), "3.0 % (n = 9)", ""),
    ],
)
def test_an_interval_is_shown_only_as_far_as_the_share_can_go(q: Quantity, says: str, shown: str) -> None:
    assert rated(q) == says
    assert cell(q).spread == shown


def test_the_catalogue_knows_every_code_that_is_written() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    written = set(re.findall(r'Reason\.of\(\s*"(\w+)"', source)) | {"no_item_kept", "no_auditor"}
    assert written - set(catalogue()["sentences"]) == set()


def test_a_name_in_a_sentence_is_safe() -> None:
    assert sentence(Reason.of("voter_under_test", name="\x1b[31m<b>")).startswith("\\x1b[31m<b> is")


def test_positions_are_counted_in_words_from_the_first() -> None:
    assert [ordinal(j) for j in (0, 9, 10, 11, 20, 21, 22)] == [
        "first", "tenth", "11th", "12th", "21st", "22nd", "23rd",
    ]  # fmt: skip
