"""The released page: what it shows of a summary, in which order, how coarse, and for how many bits."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from robustify.cli.interop import published
from robustify.judging.measures import MEASURES, Disclosed, Measure, PerItem, ReleaseGroup
from robustify.judging.summary.model_parts import Looks, LooksSource, Model
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import Summary
from robustify.judging.summary.screen_parts import DecoyCut, ExcessOverChance, TopicRow
from robustify.restricted.disclosure import released as releasing
from robustify.restricted.disclosure.item_words import ItemWords
from robustify.restricted.disclosure.released import (
    COARSE,
    FINE,
    MOST,
    Released,
    TopicBlock,
    candidates,
    log2_choose,
    one_digit_up,
    partition,
    rounded,
    rounded_interval,
    topic_table,
)
from robustify.restricted.disclosure.released_page import released_lines, write_released
from tests.support import restricted_run
from tests.support.released import every, released


def test_every_group_of_numbers_can_be_named() -> None:
    (only,) = (option for option in published.params if option.name == "groups")
    assert isinstance(only.type, click.Choice)
    assert {*only.type.choices} == {*get_args(ReleaseGroup)}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """The exact summary of the mock set: 200 items, two voters."""
    return restricted_run.inside_once(tmp_path_factory).summary


def topic_row(before: int, after: int) -> TopicRow:
    return TopicRow(before=before, after=after, retention=Quantity(), p=None, p_bh=None)


def changed(part: Any, **new: Any) -> Any:
    return part.model_copy(update=new)


def of_size(exact: Summary, n: int, kept: int, flagged: int) -> Summary:
    """The summary as if it were of a set of this size: a hundred right answers to every question."""
    part = {"all": n, "kept": kept, "flagged": flagged}
    rate = Score(value=0.5, n=n, ci=(0.4, 0.6))
    half = Measured(all=rate, kept=changed(rate, n=kept))
    whole = {"flagged": Measured(all=Score(value=flagged / n, n=n))}
    scores = {name: dict.fromkeys(exact.models, half) for name in ("full", "choices_only", "cloze_chars")}
    rows = {f"t{i}": topic_row(n // 4, kept // 4) for i in range(4)}
    return changed(
        exact,
        splits=changed(exact.splits, **part),
        measures=changed(exact.measures, set=whole, model=scores),
        topics=changed(exact.topics, by_topic=rows),
    )


@pytest.mark.parametrize(
    ("n", "kept", "flagged", "step", "numbers", "topics"),
    [(40, 24, 16, COARSE, 3, False), (60, 40, 20, COARSE, 6, False), (200, 130, 70, COARSE, 14, True),
     (499, 300, 199, COARSE, 22, True), (500, 300, 200, FINE, 22, True), (1273, 868, 405, FINE, 22, True),
     (200, 191, 9, COARSE, 0, False), (200, 9, 191, COARSE, 0, False), (12, 6, 6, COARSE, 0, False)],
)  # fmt: skip
def test_the_budget_of_the_split_decides_how_much_is_shown(
    exact: Summary, n: int, kept: int, flagged: int, step: float, numbers: int, topics: bool
) -> None:
    page = released(of_size(exact, n, kept, flagged))
    assert (page.n, page.step, len(page.numbers), page.topics is not None) == (n, step, numbers, topics)
    assert page.state in ("passed", "failed", "not evaluated")
    if not numbers:
        assert page.available is None
        return
    assert page.available is not None
    assert page.available <= 0.5 * log2_choose(n, flagged) + 0.01
    assert page.spent <= page.available
    assert page.numbers[0].name == "flagged"


def test_every_number_is_rounded_and_its_interval_follows_from_what_is_shown(exact: Summary) -> None:
    page = released(exact)
    for number in page.numbers:
        if number.kind == "state":
            continue
        assert number.value is not None
        if number.kind == "p":
            assert number.value == one_digit_up(number.value)
            continue
        assert number.value == rounded(number.value, page.step)
        assert number.ci == (None if number.n is None else rounded_interval(number.value, number.n))
    for topic in page.topics.rows:
        assert topic.kept == rounded(topic.kept, page.step)
        assert topic.ci == rounded_interval(topic.kept, topic.n)


def scored(summary: Summary, measure: str, **parts: Score) -> Summary:
    """The summary with other values of a measure for every model."""
    old = summary.measures.model.get(measure, {})
    new = {name: changed(old.get(name, Measured()), **parts) for name in summary.models}
    return changed(
        summary, measures=changed(summary.measures, model={**summary.measures.model, measure: new})
    )


def names(page: Released) -> list[str]:
    return [number.name for number in page.numbers]


def test_which_numbers_are_shown_depends_on_counts_alone(exact: Summary) -> None:
    one = of_size(exact, 200, 130, 70)
    other = scored(one, "full", all=Score(value=0.9, n=200))
    other = changed(other, residual=changed(one.residual, probe=changed(one.residual.probe, value=0.7)))
    assert names(released(one)) == names(released(other))
    assert released(one).withheld == released(other).withheld
    assert released(one).spent == released(other).spent


def test_many_models_show_at_most_24_numbers(exact: Summary) -> None:
    one = of_size(exact, 2000, 1200, 800)
    model = {f"m{i}": Model(is_voter=False) for i in range(40)}
    scores = {name: dict.fromkeys(model, next(iter(of.values()))) for name, of in one.measures.model.items()}
    page = released(changed(one, models=model, measures=changed(one.measures, model=scores)))
    assert len(page.numbers) == MOST
    first = [("flagged", ""), ("flagged_by_chance", ""), ("excess_p", ""), ("full", "m0")]
    assert [(number.measure, number.subject) for number in page.numbers[:4]] == first


@pytest.mark.parametrize(
    ("value", "n", "shown"),
    [(0.5, 130, 0.5), (0.07, 130, None), (0.96, 130, None), (0.0, 130, None), (1.0, 130, None), (0.5, 9, None)],
)  # fmt: skip
def test_a_rate_on_few_right_or_wrong_answers_has_no_value(
    exact: Summary, value: float, n: int, shown: float | None
) -> None:
    one = of_size(exact, 200, 130, 70)
    page = released(scored(one, "full", kept=Score(value=value, n=n)))
    found = [number for number in page.numbers if (number.measure, number.part) == ("full", "kept")]
    assert [number.value for number in found] == [shown] * 2
    # What has no value is charged all the same: that it has none says something.
    assert {number.bits for number in found} == {4.52}


def of_the_set(summary: Summary, **parts: Any) -> Summary:
    return changed(summary, screen=changed(summary.screen, **parts))


FEW = "not shown (fewer than 10 items, right answers or wrong answers)"
UNMEASURED = "not shown (not measured)"
CUT = DecoyCut(q=0.1, ranked=200, threshold=0.5, hits=70, misses=9, decoys=6.0, false_share=Quantity())
STATES: dict[str, tuple[str, Callable[[Summary], Summary], str]] = {
    "a share": ("m: full question, items kept", lambda s: scored(s, "full", kept=Score(value=0.5, n=130)), "50 %"),
    "a share of few": ("m: full question, items kept", lambda s: scored(s, "full", kept=Score(value=0.01, n=130)), FEW),
    "a share not measured": ("m: full question, items kept", lambda s: scored(s, "full", kept=Score()), UNMEASURED),
    "a share withheld": ("m: free response, items kept", lambda s: scored(
        s, "free", all=Score(n=9, withheld="coverage below 80 %"), kept=Score(n=9, withheld="coverage below 80 %")),
        "not shown (coverage below 80 %)"),
    "a share over the budget": ("m: full question, items kept", lambda s: of_size(s, 40, 24, 16), "disclosure budget"),
    "a share of too few flags": ("m: full question, items kept", lambda s: of_size(s, 200, 191, 9), "in the set, flagged"),
    "a share that is absent": ("m: cloze, items kept", lambda s: changed(
        s, measures=changed(s.measures, model={"full": s.measures.model["full"]})), ""),
    "a p": ("p of the excess", lambda s: of_the_set(
        s, excess_over_chance=ExcessOverChance(value=0.1, p=0.0312)), "0.04"),
    "a small p": ("p of the excess", lambda s: of_the_set(
        s, excess_over_chance=ExcessOverChance(value=0.1, p=0.0)), "0.001"),
    "a p not measured": ("p of the excess", lambda s: of_the_set(
        s, excess_over_chance=ExcessOverChance(value=0.1, p=None)), UNMEASURED),
    "a p of no excess": ("p of the excess", lambda s: of_the_set(s, excess_over_chance=None), UNMEASURED),
    "a p that fdr never has": ("p of the excess", lambda s: of_the_set(s, cut=CUT), ""),
    "a share of the set": ("| flagged |", lambda s: s, "35 %"),
    "topics": ("t0", lambda s: s, "65 %"),
    "topics of few": ("topic", lambda s: changed(
        s, topics=changed(s.topics, by_topic={"a": topic_row(12, 6), "b": topic_row(6, 2)})), "No topic is shown"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "says"), STATES.values(), ids=STATES)
def test_every_number_says_its_value_or_why_it_has_none(
    exact: Summary, tmp_path: Path, name: str, change: Callable[[Summary], Summary], says: str
) -> None:
    page = released(change(of_size(exact, 1000, 650, 350)))
    write_released(tmp_path, page, {})
    html, md = ((tmp_path / file).read_text("utf-8") for file in ("report.html", "report.md"))
    tree = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    said = [line for line in md.replace("stub-a", "m").replace("\\", "").splitlines() if name in line]
    assert "(blank)" not in html + md
    assert all(says in line for line in said)
    assert bool(said) == bool(says)
    assert says.split(" (")[0] in html
    assert not [line for line in released_lines(page, "x") if "(blank)" in line]
    for number in tree["numbers"]:
        assert (number["value"] is None) == bool(number["reason"])
        assert number["value"] is not None or (number["n"], number["ci"]) == (None, None)


def test_free_response_is_released_by_the_same_function(exact: Summary) -> None:
    one = of_size(exact, 1000, 600, 400)
    free = scored(one, "free", all=Score(value=0.5, n=994), kept=Score(value=0.5, n=597))
    page = every(free).filled(["free"])
    assert {number.group for number in page.numbers} == {"free"}
    found = [number for number in page.numbers if number.group == "free"]
    assert [(number.value, number.n) for number in found] == [(0.5, 990), (0.5, 594)] * 2


def test_a_page_of_some_groups_spends_less_and_names_no_guardrail(exact: Summary) -> None:
    made, failed = every(exact), ("enough_kept_items",)
    made = changed(made, page=changed(made.page, failed=failed, halting=failed))
    page, whole = made.filled(), made.published()
    assert whole.spent == page.spent
    assert (page.failed, whole.failed, whole.halting) == (failed, (), ())
    some = made.published(["accuracy"])
    assert some.topics is None
    assert {number.group for number in some.numbers} == {"accuracy"}
    assert some.owed < some.spent < page.spent


def test_without_a_screen_nothing_is_about_flags_and_nothing_is_charged(exact: Summary) -> None:
    page = released(changed(exact, screen=None))
    assert (page.owed, page.available, page.spent) == (0.0, None, 0.0)
    assert page.numbers
    assert not [name for name in names(page) if "kept" in name and "probe" not in name]


def test_nothing_of_the_summary_comes_through_but_what_the_page_names(exact: Summary) -> None:
    noise = changed(exact.benchmark, name="mock")
    text = released(changed(exact, benchmark=noise)).model_dump_json()
    for word in ("rb1_", "likeliest", 'items":[', "ties", "defects", "quarantined", "whistles", "thimbles"):
        assert word not in text


HOSTILE = ("<script>alert(1)</script>", "=cmd|' /C calc'!A0", "| [a](b) `c`")


def test_hostile_names_stay_words(exact: Summary, tmp_path: Path) -> None:
    rows = {name: topic_row(60, 40) for name in HOSTILE}
    page = released(changed(exact, topics=changed(exact.topics, by_topic=rows)))
    write_released(tmp_path, changed(page, failed=HOSTILE), {"models": {name: {} for name in HOSTILE}})
    html, md = ((tmp_path / name).read_text("utf-8") for name in ("report.html", "report.md"))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    text = md.split("Signature")[0].replace(", ".join(HOSTILE), "")
    assert not re.search(r"(?<!\\)(<script|\[a\]\()", text)


DISCLOSURES: dict[str, tuple[Disclosed | None, str, bool]] = {
    "none": (None, "accuracy", False), "of a share": (Disclosed("accuracy", 0), "accuracy", True),
    "of points": (Disclosed("accuracy", 0), "points", False),
}  # fmt: skip
"""What a new measure discloses, its unit, and whether it is released."""


@pytest.mark.parametrize(("disclosed", "unit", "shown"), DISCLOSURES.values(), ids=DISCLOSURES)
def test_a_measure_without_a_disclosure_or_of_points_changes_no_byte_of_the_page(
    exact: Summary, monkeypatch: pytest.MonkeyPatch, disclosed: Disclosed | None, unit: Any, shown: bool
) -> None:
    before = candidates(exact, lambda name: name, ItemWords()).filled().model_dump_json()
    new = Measure("new", "scores", unit, "model", disclosed, PerItem(lambda model: model.credits["full"]))
    more = scored(exact, "new", all=Score(value=0.5, n=200), kept=Score(value=0.5, n=100))
    monkeypatch.setattr(releasing, "MEASURES", (new, *MEASURES))
    page = candidates(more, lambda name: name, ItemWords()).filled()
    assert (page.model_dump_json() != before) == shown


LOOKS = Looks(
    value=0.0413, n=200, ci=(0.0127, 0.0698), state="claimed", wrong_picks=77, unanswered=0,
    sources={"wrong": LooksSource(value=0.0413, n=200, ci=(0.0127, 0.0698), picks=77)}, less=Quantity(value=0.5813),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "value"),
    [({}, 1.0), ({"state": "wrong picks only"}, 0.0), ({"state": "cannot tell"}, None), ({"wrong_picks": 9}, None),
     ({"n": None, "value": None}, None)],
)  # fmt: skip
def test_of_looks_only_the_state_is_released_last_for_two_bits(
    exact: Summary, change: dict[str, Any], value: float | None
) -> None:
    looks, reason = changed(LOOKS, **change), "cannot tell" if value is None else ""
    one = of_size(exact, 1000, 650, 350)
    models = {name: changed(model, looks=looks) for name, model in one.models.items()}
    page = released(changed(one, models=models))
    last = page.numbers[-len(models) :]
    assert [(n.group, n.kind, n.value, n.n, n.ci, n.reason, n.bits) for n in last] == [
        ("looks", "state", value, None, None, reason, 2.0)
    ] * len(models)
    text = page.model_dump_json()
    assert not [digits for digits in ("0413", "0127", "0698", "5813", "77") if digits in text]
    claimed = dict.fromkeys(models, changed(Model(is_voter=True), looks=LOOKS))
    assert page.bits == released(changed(one, models=claimed)).bits


# Topics.


def test_a_set_with_small_topics_shows_no_cell_below_ten_and_true_totals() -> None:
    counts = {"a": (60, 40), "b": (40, 12), "c": (30, 28), "d": (12, 6), "e": (9, 9)}
    blocks = [TopicBlock(name, *count) for name, count in counts.items()]
    shown = partition(blocks, 10)
    assert [b.name for b in shown] == ["a", "Other (4 topics)"]
    assert all(b.least >= 10 for b in shown)
    assert sum(b.before for b in shown) == sum(b.before for b in blocks)
    assert sum(b.after for b in shown) == sum(b.after for b in blocks)


@pytest.mark.parametrize(
    ("counts", "rows"),
    [
        ({"a": (30, 15), "b": (30, 15)}, ["a", "b"]),
        ({"a": (30, 15), "b": (15, 6)}, ["Other (2 topics)"]),
        ({"a": (12, 6), "b": (6, 2)}, []),
        ({"a": (30, 30), "b": (30, 15)}, ["Other (2 topics)"]),
        ({"x" * 61: (30, 15), "the lamp of the tower is turned by whom": (30, 15)}, ["topic 1", "topic 2"]),
        ({"x" * 61: (30, 15), "topic 1": (30, 15)}, ["topic 1", "topic 2"]),
        ({"topic 2": (30, 15), "x" * 61: (30, 15)}, ["topic 2", "topic 2"]),
    ],
)
def test_topics_are_merged_or_numbered(counts: dict[str, tuple[int, int]], rows: list[str]) -> None:
    table = topic_table({n: topic_row(b, a) for n, (b, a) in counts.items()}, 10, COARSE, ItemWords())
    assert [row.name for row in table.rows] == rows


@pytest.mark.parametrize(
    ("p", "shown"), [(0.0, 0.001), (0.0011, 0.002), (0.04999, 0.05), (0.05, 0.05), (0.31, 0.4), (1.0, 1.0)]
)
def test_a_p_never_looks_rarer_than_it_is(p: float, shown: float) -> None:
    assert one_digit_up(p) == shown
