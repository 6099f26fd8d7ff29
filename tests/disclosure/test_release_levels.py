"""What a release level lets through: what is on the list and nothing else, coarse, in large cells, within a budget."""

import copy
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.baselines.heuristics import HEURISTICS
from robustify.disclosure import PRINTED, budgeted, cost, released_summary, released_tree
from robustify.disclosure.coarse import (
    TopicBlock,
    available,
    flagged_rate,
    log2_choose,
    one_digit_up,
    partition,
    plain_rate,
    rounded,
    spend,
    three_digits,
    values,
)
from robustify.disclosure.remade import FEATURE_CLASSES, REMADE, bins, feature_classes, unjudged
from robustify.disclosure.select import places_in
from robustify.errors import AuthorisationError
from robustify.report import render
from robustify.summary.format_1 import read
from robustify.summary.quantity import GROUPS
from robustify.summary.result import PLACES, Summary
from tests.support.page_text import text_of_page

ROOT = Path(__file__).parents[2]
SUMMARIES = {
    "real": ROOT / "results" / "benign_demo" / "summary.json",
    "made up": ROOT / "tests" / "data" / "summary_full.json",
}
Place = tuple[str | int, ...]


@pytest.fixture(params=SUMMARIES, scope="module")
def exact(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read(json.loads(SUMMARIES[request.param].read_text(encoding="utf-8"))).tree()


def release(exact: dict[str, Any], level: Any, k: int = 10) -> dict[str, Any]:
    """The release of a summary, without what is null in it."""
    return without_nulls(released_summary(Summary.model_validate(exact), level, k).tree())


def without_nulls(node: Any) -> Any:
    match node:
        case dict():
            return {name: without_nulls(inner) for name, inner in node.items() if inner is not None}
        case list():
            return [without_nulls(inner) for inner in node]
    return node


def leaves(node: object, at: Place = ()) -> Iterator[tuple[Place, object]]:
    """Every value of a tree that is neither a mapping nor a list, by its place."""
    match node:
        case dict():
            for name, inner in node.items():
                yield from leaves(inner, (*at, name))
        case list():
            for i, inner in enumerate(node):
                yield from leaves(inner, (*at, i))
        case _:
            yield at, node


def listed(summary: dict[str, Any]) -> set[Place]:
    """The places that the list names, with what a rate or difference at one of them is made of."""
    out: set[Place] = set()
    for entry in PLACES:
        for at, _ in places_in(summary, entry.path.split(".")):
            out.add(at)
            if entry.kind in ("rate", "difference"):
                out |= {(*at, name) for name in ("value", "n", "withheld")}
                out |= {(*at, "ci", *end) for end in ((), (0,), (1,))}
            if entry.kind == "cell":
                out |= {(*at, name) for name in ("value", "n", "ci", "withheld")}
    return out


def remade(at: Place) -> bool:
    """Whether a place belongs to a part that `REMADE` names."""
    match at:
        case ("topics" | "heuristics" | "release", *_) | ("benchmark", "topics", *_):
            return True
        case ("splits", "robust" | "shortcut") | ("screen", "flagged", *_) | ("certificate", "reasons", *_):
            return True
        case ("guardrails", int(), "reason" | "value", *_) | ("calibration", str(), str(), "bins", *_):
            return True
        case (*_, "expected_flags" | "expected", "value" | "ci" | "withheld" | "n"):
            return True
    return False


@pytest.mark.parametrize("level", PRINTED)
def test_each_value_that_leaves_is_on_the_list_or_made_anew(exact: dict[str, Any], level: Any) -> None:
    allowed = listed(exact)
    strangers = [at for at, _ in leaves(release(exact, level)) if at not in allowed and not remade(at)]
    assert strangers == []
    assert {part.split(".")[0] for part in REMADE} >= {"topics", "heuristics", "certificate"}


@pytest.mark.parametrize("level", PRINTED)
def test_what_nobody_put_on_the_list_does_not_leave(exact: dict[str, Any], level: Any) -> None:
    canary, planted = "qxcanarytext", copy.deepcopy(exact)

    def plant(node: object) -> None:
        match node:
            case dict():
                for inner in list(node.values()):
                    plant(inner)
                node["a new key"] = canary
                node[f"the {canary} of a text with many words, as a key"] = {"value": 0.5, "n": 99}
            case list():
                for inner in node:
                    plant(inner)
                node.append(f"{canary}: which lamp is it?")

    plant(planted)
    for name in ("sentence", "reason", "reasons", "items", "differs", "name", "template", "strong", "models"):
        replace_all(planted, name, f"{canary}: which <b>lamp</b> is it?")
    assert canary not in json.dumps(released_tree(planted, level, 10))


def replace_all(node: object, name: str, value: object) -> None:
    match node:
        case dict():
            for key, inner in node.items():
                if key == name and isinstance(inner, str):
                    node[key] = value
                elif key == name and isinstance(inner, list):
                    node[key] = [value for _ in inner]
                else:
                    replace_all(inner, name, value)
        case list():
            for inner in node:
                replace_all(inner, name, value)


@pytest.mark.parametrize("level", PRINTED)
def test_nothing_names_an_item_or_repeats_an_exact_number(exact: dict[str, Any], level: Any) -> None:
    shown = json.dumps(release(exact, level))
    ids = [*((exact["label_noise"] or {}).get("items") or []), *[f"m-{i:03d}" for i in range(360)]]
    assert not [i for i in ids if f'"{i}"' in shown]
    for at, value in leaves(release(exact, level)):
        if isinstance(value, float) and at[-1] not in ("margin", "limit", "probe_confidence"):
            coarse = math.isclose(value, round(value, 2)) or value == three_digits(value)
            assert coarse or value == one_digit_up(value), (at, value)
    assert "sentence" not in {at[-1] for at, _ in leaves(release(exact, level))}


def test_rates_are_whole_percents_with_n_and_an_interval(exact: dict[str, Any]) -> None:
    out = released_tree(exact, "evaluator", 10)
    found = 0
    for entry in PLACES:
        for at, node in places_in(out, entry.path.split(".")):
            if entry.kind == "rate" and len(at) == len(entry.path.split(".")) and isinstance(node, dict):
                found += 1
                if node["value"] is None:
                    assert "withheld" in node or node["n"] in (0, None)
                else:
                    assert rounded(node["value"], 0.01) == node["value"], at
                    assert node["n"] >= 10, at
                    assert node["ci"] is None or len(node["ci"]) == 2
    assert found > 100


def test_no_cell_of_the_topics_is_small_and_totals_stay_true(exact: dict[str, Any]) -> None:
    out: Any = released_tree(exact, "published", 10)
    rows = out["topics"]["by_topic"]
    for row in rows.values():
        assert min(row["before"], row["after"], row["before"] - row["after"]) >= 10
    splits: Any = out["splits"]
    assert sum(r["before"] for r in rows.values()) == splits["all"] == exact["splits"]["all"]
    assert sum(r["after"] for r in rows.values()) == splits["robust"] == exact["splits"]["robust"]
    bench: Any = out["benchmark"]
    assert bench["topics"] == {name: row["before"] for name, row in rows.items()}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 120), st.floats(0, 1)), min_size=1, max_size=14), st.integers(5, 20))
def test_a_partition_has_no_small_cell_and_no_lonely_other(drawn: list[tuple[int, float]], k: int) -> None:
    topics = [TopicBlock(f"t{i}", n, round(n * share), (f"t{i}",)) for i, (n, share) in enumerate(drawn)]
    parts = partition(topics, k)
    before, after = sum(t.before for t in topics), sum(t.after for t in topics)
    if parts is None:
        assert any(t.least < k for t in topics)
        return
    assert all(p.least >= k for p in parts)
    assert (sum(p.before for p in parts), sum(p.after for p in parts)) == (before, after)
    assert sum(p.merged for p in parts) == len(topics)
    # Were Other one topic, the total less the others would tell of it under its own name.
    assert all(p.merged >= 2 for p in parts if p.name.startswith("Other ("))


def test_a_single_small_topic_takes_the_next_smallest_with_it() -> None:
    a, b, tiny = (TopicBlock(*one, (one[0],)) for one in (("a", 100, 50), ("b", 40, 20), ("tiny", 4, 2)))
    assert partition([a, b, tiny], 10) == [a, TopicBlock("Other (2 topics)", 44, 22, ("tiny", "b"))]


def test_a_topic_that_is_a_text_and_no_name_is_numbered() -> None:
    long = "which of the following lamps is turned by the merun when it rains"
    parts = partition(
        [TopicBlock(long, 40, 20), TopicBlock("lamps", 40, 20), TopicBlock("x\x1b[31m", 40, 20)], 10
    )
    assert {p.name for p in parts} == {"lamps", "Topic 2", "Topic 3"}


@pytest.mark.parametrize("name", ["robust", "shortcut"])
def test_a_total_that_is_too_small_leaves_the_number_of_items_alone(exact: dict[str, Any], name: str) -> None:
    summary = copy.deepcopy(exact)
    summary["splits"][name] = 4
    out = release(summary, "published")
    assert set(out) == {"format", "benchmark", "guardrails", "release"}
    assert out["guardrails"] == []
    here: Any = release(summary, "evaluator")["guardrails"]
    assert [(g["name"], g["passed"], g["halts_export"]) for g in here] == [
        (g["name"], g["passed"], g["halts_export"]) for g in exact["guardrails"]
    ]
    assert not any("value" in g for g in here)
    assert out["benchmark"] == {"name": exact["benchmark"]["name"], "n_items": 360}
    text = text_of_page(render(Summary.model_validate(out), {})["report.html"])
    assert "withheld: everything but the number of items" in text
    assert "not measured" not in text


def test_none_and_all_of_a_part_are_not_told() -> None:
    for x in (0, 9, 91, 100):
        shown = flagged_rate({"value": x / 100, "n": 100, "ci": [0, 1]}, 100, 10, 0.01)
        assert shown == {"value": None, "n": None, "ci": None, "withheld": "< 10 right or wrong"}
    shown = flagged_rate({"value": 0.1049, "n": 100, "ci": [0, 1]}, 100, 10, 0.01)
    assert shown["value"] == 0.1
    assert plain_rate({"value": 1.0, "n": 9, "ci": [0.7, 1]}, 10) == {
        "value": None, "n": None, "ci": None, "withheld": "< 10 items",
    }  # fmt: skip


def test_an_interval_about_flags_says_nothing_that_its_rate_does_not() -> None:
    told = {
        json.dumps(flagged_rate({"value": x / 1000, "n": 244, "ci": [x / 3000, x / 1100]}, 244, 10, 0.01))
        for x in range(296, 304)
    }
    assert len(told) == 1


def test_one_missing_answer_is_not_told_by_the_n_of_a_part() -> None:
    whole = flagged_rate({"value": 0.5, "n": 244, "ci": None}, 244, 10, 0.01)
    assert flagged_rate({"value": 0.5, "n": 243, "ci": None}, 244, 10, 0.01) == whole
    assert flagged_rate({"value": 0.5, "n": 200, "ci": None}, 244, 10, 0.01)["withheld"] == "answers missing"


@given(st.floats(1e-9, 1.0))
def test_a_p_never_looks_rarer_than_it_is(p: float) -> None:
    shown = one_digit_up(p)
    assert p <= shown + 1e-12
    assert shown == 0.001 or float(f"{shown:.0e}") == pytest.approx(shown)


def test_a_cell_below_the_floor_is_refused(exact: dict[str, Any]) -> None:
    with pytest.raises(AuthorisationError, match="5 or more"):
        release(exact, "evaluator", 4)


def test_cues_go_out_by_class_and_every_heuristic_has_one() -> None:
    members = [name for names in FEATURE_CLASSES.values() for name in names]
    assert sorted(members) == sorted(h.name for h in HEURISTICS)


def test_the_row_of_a_class_is_its_strongest_member_on_all_items(exact: dict[str, Any]) -> None:
    out: Any = release(exact, "evaluator")
    rows = exact["heuristics"]["all"]
    members = [rows[name] for name in FEATURE_CLASSES["length"]]
    strongest = min(members, key=lambda row: row["p_holm"])
    assert out["heuristics"]["all"]["length"]["value"] == rounded(strongest["value"], 0.01)
    assert set(out["heuristics"]["robust"]) == set(FEATURE_CLASSES) - {
        c for c, m in FEATURE_CLASSES.items() if not set(m) & set(rows)
    }


def test_the_budget_is_half_of_what_the_sets_hold() -> None:
    assert log2_choose(50, 10) == pytest.approx(33.3, abs=0.05)
    assert available([(50, 10), (360, 268)]) == pytest.approx(
        (log2_choose(50, 10) + log2_choose(360, 268)) / 2
    )


def test_what_is_published_keeps_within_the_budget(exact: dict[str, Any]) -> None:
    plan = budgeted(exact, "published", 10)
    told = available([(p.before, p.after) for p in plan.parts])
    steps = plan.spending.steps
    spent = sum(cost(exact, g, step) for g, step in steps.items() if step is not None)
    assert 0 < spent <= plan.spending.spent <= told == plan.spending.available
    assert [g for g in GROUPS if steps[g] is None and cost(exact, g, 0.05) > 0]
    out: Any = release(exact, "published")
    assert set(out["release"]["withheld"]) == {
        g for g in GROUPS if steps[g] is None and cost(exact, g, 0.05) > 0
    }
    text = text_of_page(render(Summary.model_validate(out), {})["report.html"])
    assert "withheld, over the bit budget: " in text
    assert "| withheld: bit budget |" in text


def test_a_set_whose_guardrails_alone_tell_too_much_is_only_counted(exact: dict[str, Any]) -> None:
    summary = copy.deepcopy(exact)
    summary["splits"] |= {"all": 20, "robust": 10, "shortcut": 10, "undecided": 0}
    summary["topics"] = {"by_topic": {"a": {"before": 20, "after": 10}}}
    assert available([(20, 10)]) < 9
    published: Any = release(summary, "published", 5)
    here: Any = release(summary, "evaluator", 5)
    assert published["release"]["too_small"] is True
    assert here["release"]["too_small"] is False


def test_the_budget_looks_at_no_value(exact: dict[str, Any]) -> None:
    other = copy.deepcopy(exact)
    for entry in PLACES:
        if entry.group and entry.kind in ("rate", "difference"):
            for at, node in places_in(other, entry.path.split(".")):
                if len(at) == len(entry.path.split(".")) and isinstance(node, dict):
                    node |= {"value": 0.5, "ci": [0.4, 0.6], "mde": None}
    assert budgeted(other, "published", 10) == budgeted(exact, "published", 10)


def test_groups_are_let_out_in_order_coarser_or_not_at_all() -> None:
    spent = spend({"a": {0.01: 10, 0.05: 6}, "b": {0.01: 10, 0.05: 6}, "c": {0.01: 4, 0.05: 3}}, 20, owed=2)
    assert dict(spent.steps) == {"a": 0.01, "b": 0.05, "c": None}
    assert spent.spent == 18


def test_the_bins_of_a_reliability_plot_are_made_anew(exact: dict[str, Any]) -> None:
    out: Any = released_tree(exact, "evaluator", 10)
    found = [(at, rows) for at, rows in places_in(exact, ("calibration", "*", "*", "bins")) if len(at) == 4]
    assert found
    for (_, model, view, _), rows in found:
        assert out["calibration"][model][view]["bins"] == bins(rows, 10)


def test_each_end_beside_a_value_may_reveal_as_much_as_the_value() -> None:
    # Hundredths, both ends of the scale, and three reasons why it may be withheld.
    assert [values("rate", 0.01, ends) for ends in (0, 1, 2)] == [n * math.log2(104) for n in (1, 2, 3)]
    assert values("difference", 0.05, 2) == 3 * math.log2(44)


def test_what_just_fits_is_shown_and_what_just_does_not_is_withheld() -> None:
    for bits, step in ((10.0, 0.01), (9.9, 0.05), (4.0, 0.05), (3.9, None)):
        assert spend({"a": {0.01: 10.0, 0.05: 4.0}}, bits).steps == {"a": step}


@pytest.mark.parametrize("x", [-0.0, -1e-12])
def test_what_rounds_to_nothing_has_no_sign(x: float) -> None:
    assert str(rounded(x, 0.01)) == "0.0"
    assert str(three_digits(-0.0)) == "0.0"


def test_what_the_flags_touch_is_in_a_group(exact: dict[str, Any]) -> None:
    words = {
        "robust", "shortcut", "in_robust", "in_shortcut", "excess_over_chance", "excess", "jaccard", "probe",
    }  # fmt: skip
    for entry in PLACES:
        if words & set(entry.path.split(".")) and entry.kind in (
            "rate",
            "share",
            "difference",
            "p",
            "number",
        ):
            # `before` is the same auditor on all items, which no flag is part of.
            assert (
                entry.group or "before" in entry.path.split(".") or "position_bias" in entry.path.split(".")
            ), entry.path


@pytest.mark.parametrize("level", PRINTED)
def test_the_report_of_a_release_has_whole_percents_and_says_what_is_not_shown(
    exact: dict[str, Any], level: Any
) -> None:
    from tests.report.test_report import well_made

    out = released_summary(Summary.model_validate(exact), level)
    files = render(out, {"notes": ["a note"]})
    well_made(files)
    text = text_of_page(files["report.html"])
    assert f"shown under release level {level}" in text
    assert "not measured" not in text
    assert not re.search(r"\d\.\d+ (%|points)", text)
    assert re.search(r"\b\d+ % \(n = \d+, \d+ to \d+\)", text)
    assert "Keys may well be spread evenly" in text or "not spread evenly" in text


@pytest.mark.parametrize("name", ["Which zanzibar lies in the box?", "x" * 81, "a\u202eb", ""])
def test_a_voter_s_name_that_is_no_name_is_not_released(name: str) -> None:
    reason = {"code": "one_place", "voter": name, "place": 0, "picked": 0.95, "n": 40, "forced": True}
    (shown,) = unjudged([reason])
    assert shown == {"code": "one_place", "voter": "a voter", "place": 0, "forced": True}
    assert unjudged([{**reason, "voter": "m-1"}])[0]["voter"] == "m-1"


def test_the_interval_of_a_rule_says_nothing_of_how_many_items_share_it() -> None:
    """A rule that nearly all items share has a narrow interval; what is let out is that of its count."""
    shown = []
    for ci in ([0.25, 0.25], [0.2, 0.31]):
        row = {"value": 0.25, "n": 200, "ci": ci, "ties": 200}
        table = {"n": 200, "chance_accuracy": 0.25, "heuristics": {"longest_answer": row}}
        shown.append(feature_classes(table, 5))
    assert shown[0] == shown[1]
    (cue,) = shown[0]["cues"].values()
    assert cue["ci"][0] <= 0.2 < 0.3 <= cue["ci"][1]
