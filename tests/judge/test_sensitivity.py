"""Which other rules stand beside the run's own: all that the answers support, one change each, none twice."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify.answers import Answers
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.errors import UsageError
from robustify.judge.audit.fresh import FreshProbe
from robustify.judge.sensitivity import differs, jaccard, name, resolved, rule_identity, variants
from robustify.judge.sensitivity import sensitivity as judge_sensitivity
from robustify.screen.consensus import outcome
from robustify.screen.item_index import item_index
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import cast_votes
from tests.support.fake_answers import bench, items_of, own_rows, rows, text_rows
from tests.support.rules import collect_votes, unanimous
from tests.support.trees import in_trees

sensitivity = in_trees(judge_sensitivity)

OWN = unanimous()
NO_PROBE = FreshProbe(None, ProbeSettings())


def asked(m: int, n: int = 60, *, s: float = 0.3, text: bool = True, second: bool = True) -> Answers:
    b = bench(n, m, s=s, seed=1)
    other = replace(bench(n, m, s=s, seed=2), key=b.key, shortcut=b.shortcut)
    return Answers.of(
        [*rows(b), *(rows(other, template="balepur-v1") if second else []), *(text_rows(b) if text else [])]
    )


def table(
    answers: Answers, *rules: ScreenRules, items: Any = None, groups: Any = None
) -> list[dict[str, Any]]:
    held = item_index(answers, answers.items)
    first = rules[0] if rules else OWN
    probe = FreshProbe(items, ProbeSettings())
    return sensitivity(answers, held, rules or (OWN,), cast_votes(answers, first, held), probe, groups)


def told(answers: Answers, own: ScreenRules = OWN) -> list[str]:
    rule = resolved(answers, own)
    return [differs(v, rule) for v in variants(answers, own)]


def test_every_rule_that_the_answers_support_differs_in_one_thing() -> None:
    assert told(asked(3)) == [
        "majority instead of unanimous", "1-of-3 instead of unanimous", "by text instead of by letter",
        "template balepur-v1 instead of template d4-like-v1", "picked in every order instead of orders averaged",
        "picked in most orders instead of orders averaged",
    ]  # fmt: skip


def test_what_was_not_asked_is_no_rule() -> None:
    assert told(asked(3, text=False, second=False)) == [
        "majority instead of unanimous",
        "1-of-3 instead of unanimous",
        "picked in every order instead of orders averaged",
        "picked in most orders instead of orders averaged",
    ]
    once = Answers.of(own_rows(bench(30, 1, seed=1)))
    assert told(once) == [], "one voter, one order, one template"
    assert told(Answers.of([])) == []
    assert told(once, unanimous(mode="text")) == []


def test_two_voters_have_no_majority_of_their_own() -> None:
    said = told(asked(2, text=False, second=False))
    assert said == [
        "picked in every order instead of orders averaged",
        "picked in most orders instead of orders averaged",
    ]
    assert told(asked(2), ScreenRules(criterion="1-of-2"))[0] == "unanimous instead of 1-of-2"


def test_every_number_of_votes_is_a_rule_once() -> None:
    said = told(asked(5, n=10, text=False, second=False), ScreenRules(criterion="4-of-5"))
    assert said[:4] == [f"{c} instead of 4-of-5" for c in ("unanimous", "majority", "2-of-5", "1-of-5")]
    # The probe casts a sixth vote.
    with_probe = resolved(asked(5, n=10), ScreenRules(criterion="majority", probe_vote="with"))
    criteria = [v.criterion for v in variants(asked(5, n=10), with_probe) if v.criterion != "majority"]
    assert criteria == ["unanimous", "5-of-6", "3-of-6", "2-of-6", "1-of-6"]


def test_two_orders_have_one_rule_beside_the_average() -> None:
    b = bench(40, 2, options=(2,), seed=3)
    assert told(Answers.of(rows(b))) == ["picked in every order instead of orders averaged"]
    assert told(Answers.of(rows(b)), unanimous(rotation="most")) == [
        "orders averaged instead of picked in most orders"
    ]
    some_of_two = bench(40, 2, options=(2, 4), seed=3)
    assert len(told(Answers.of(rows(some_of_two)))) == 2


def test_text_mode_has_norms_where_lengths_are_there() -> None:
    b = bench(30, 2, seed=4)
    text = unanimous(mode="text")
    assert told(Answers.of(text_rows(b)), text) == [
        "per token instead of per character",
        "per byte instead of per character",
        "by the sum instead of per character",
    ]
    without = [replace(r, n_tokens=(), n_bytes=()) for r in text_rows(b)]
    assert told(Answers.of(without), text) == ["by the sum instead of per character"]
    bare = [replace(r, n_tokens=(), n_bytes=(), n_chars=(), scores=()) for r in text_rows(b)]
    assert told(Answers.of(bare), text) == []


def test_a_rule_needs_all_voters() -> None:
    b = bench(30, 2, seed=5)
    table_ = Answers.of([*rows(b), *rows(b, template="balepur-v1", voters=["v0", "v9"]), *text_rows(b)])
    said = told(table_)
    assert "template balepur-v1 instead of template d4-like-v1" not in said
    assert "by text instead of by letter" in said


def test_rules_that_come_to_the_same_flag_the_same_items() -> None:
    answers = asked(3)
    for rule in (ScreenRules(criterion="3-of-3"), ScreenRules(criterion="2-of-3"), unanimous(norm="sum")):
        same = next(
            r
            for r in (OWN, ScreenRules(criterion="majority"))
            if _identity(answers, r) == _identity(answers, rule)
        )
        flagged = [outcome(collect_votes(answers, r, answers.items), r).tolist() for r in (rule, same)]
        assert flagged[0] == flagged[1]


def _identity(answers: Answers, rule: ScreenRules) -> Any:
    return rule_identity(answers, resolved(answers, rule))


def test_each_row_is_what_its_rule_would_have_removed() -> None:
    answers = asked(3)
    found = table(answers)
    own = outcome(collect_votes(answers, OWN, answers.items), OWN) == 1
    assert [r["name"] for r in found] == ["this run", *told(answers)]
    for row, rule in zip(found, (OWN, *variants(answers, OWN)), strict=True):
        flagged = outcome(collect_votes(answers, rule, answers.items), rule) == 1
        assert row["flagged"]["value"] == pytest.approx(flagged.mean())
        assert row["jaccard"] == jaccard(own, flagged)
        assert row["excess"]["value"] == pytest.approx(
            flagged.mean() - row["expected"]["value"] / len(flagged)
        )
        assert (row["criterion"], row["mode"], row["rotation"]) == (rule.criterion, rule.mode, rule.rotation)
        assert (row["automatic"], row["differs"]) == ((False, None) if rule is OWN else (True, row["name"]))
    shares = {r["name"]: r["flagged"]["value"] for r in found}
    assert (
        shares["this run"] < shares["majority instead of unanimous"] < shares["1-of-3 instead of unanimous"]
    )
    json.dumps(found, allow_nan=False)


def test_configured_rules_come_first_and_no_rule_comes_twice() -> None:
    answers = asked(2)
    text, same = unanimous(mode="text"), ScreenRules(criterion="majority")
    found = table(answers, OWN, text, same, ScreenRules(criterion="2-of-2"), unanimous(mode="text"))
    assert [r["name"] for r in found[:2]] == ["this run", "unanimous text"]
    assert found[0]["same_as"] == ["majority letter", "2-of-2 letter"]
    assert found[1]["same_as"] == ["unanimous text"]
    assert [r["automatic"] for r in found] == [False, False, *[True] * (len(found) - 2)]
    assert "by text instead of by letter" not in [r["name"] for r in found]
    assert found[1]["differs"] == "by text instead of by letter"
    assert len({r["name"] for r in found}) == len(found)


def test_only_configured_rules_train_a_probe() -> None:
    b = bench(120, 2, s=0.3, seed=6)
    items = items_of(b, cue=True)
    found = table(Answers.of([*rows(b), *text_rows(b)]), OWN, unanimous(mode="text"), items=items)
    probed = [r["residual_probe"] is not None for r in found]
    assert probed == [True, True, False, False]


def test_a_rule_for_another_number_of_voters_is_refused() -> None:
    with pytest.raises(UsageError, match="3-of-3, but the number of voters is 2"):
        table(asked(2), OWN, ScreenRules(criterion="3-of-3"))


def test_voters_that_were_not_asked_have_nulls() -> None:
    found = table(asked(2), OWN, unanimous(template="never-asked"), unanimous(voters=("v0", "nobody")))
    for row in found[1:3]:
        assert (row["flagged"], row["jaccard"], row["excess"]) == (
            {"value": None, "n": 0, "ci": None},
            None,
            None,
        )
    assert found[2]["differs"] == "other voters"


def test_luck_with_places_stands_in_each_row_that_saw_them() -> None:
    b = bench(80, 2, s=0.3, seed=7)
    found = table(Answers.of([*own_rows(b), *text_rows(b)]))
    by_name = {r["name"]: r["by_place"] for r in found}
    assert by_name["by text instead of by letter"] is None
    assert by_name["this run"]["expected"]["value"] > 0


def test_groups_reach_every_row() -> None:
    answers = asked(3, s=0.4)
    alone, together = table(answers), table(answers, groups=np.arange(60) % 5)
    assert all(r["excess"]["ci"] is not None for r in alone)
    assert all(r["excess"]["ci"] is None for r in together), "five groups are too few for an interval"


def test_a_rule_has_one_name() -> None:
    assert name(OWN) == "unanimous letter"
    assert (
        name(ScreenRules(criterion="2-of-3", rotation="every", norm="sum")) == "2-of-3 letter, every rotation"
    )
    assert name(unanimous(mode="text", norm="sum", rotation="most", probe_vote="with")) == (
        "unanimous text, most rotations, sum, probe with"
    )
    assert name(ScreenRules(criterion="fdr", fdr=0.05)) == "fdr at 0.05"


def test_a_rule_that_differs_in_the_probe_s_confidence_says_so() -> None:
    own = unanimous(probe_vote="with", probe_confidence=0.5)
    assert (
        differs(unanimous(probe_vote="with", probe_confidence=0.75), own)
        == "probe at 0.75 instead of probe at 0.5"
    )
    assert differs(own, own) == ""


def test_many_items_give_one_row_a_view() -> None:
    b = bench(20_000, 3, s=0.2, seed=8)
    answers = Answers.of(own_rows(b, bare=True))
    held = item_index(answers, answers.items)
    votes = cast_votes(answers, OWN, held)
    assert len(sensitivity(answers, held, (OWN,), votes, NO_PROBE)) == 3
