"""The whole judge side on made-up answers: nothing is missing, nothing is invented, and known truth comes
out.
"""

import json
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from robustify.items.answers import Answer, Answers, Asked, answer
from robustify.items.item import Item
from robustify.items.scoring import NORMS
from robustify.judging import Judgement, judge
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules
from robustify.judging.readers.reader_rows import ProbeSettings, probe
from robustify.judging.response_data import Facts
from tests.support.cases import cases, refuses
from tests.support.fake_answers import Bench, bench, items_of, rows, text_rows
from tests.support.rules import unanimous

Gamed = tuple[Bench, list[Item], Answers]
LETTER = unanimous(voters=("v0", "v1"))
TEXT = unanimous(mode="text", voters=("v0", "v1"))


def facts(items: list[Item]) -> Facts:
    defects = [{"kind": "repeated_stem", "line": 3, "item": "i00002"}]
    return Facts("made-up", {i.id: i.topic for i in items}, {}, 2, defects)


def everything(b: Bench, items: list[Item]) -> Answers:
    full = bench(len(b.key), b.picks.shape[1], s=0.5, options=(4,), seed=77)
    knows = replace(full, key=b.key, k=b.k, picks=np.minimum(full.picks, b.k[:, None] - 1))
    asked = [
        *probe(items, ProbeSettings()),
        *rows(b),
        *text_rows(b),
        *rows(knows, view="full", template="mmlu-v1"),
        *text_rows(knows, view="cloze", template="qa-v1"),
    ]
    return Answers.concat([guess(items), Answers.of(asked)])


@pytest.fixture(scope="module")
def gamed() -> Gamed:
    b = bench(240, 3, s=0.3, agree=0.5, options=(4, 4, 4, 3), seed=1)
    items = items_of(b, cue=True)
    return b, items, everything(b, items)


@pytest.fixture(scope="module")
def judgement(gamed: Gamed) -> Judgement:
    _, items, answers = gamed
    alternatives = (TEXT, unanimous(template="never-asked"))
    return judge(answers, facts(items), Rules(LETTER, under_test=("v1",), alternatives=alternatives), items)


def tree(j: Judgement, *path: str) -> Any:
    node: Any = j.summary.tree()
    for step in path:
        node = node[step]
    return node


def test_the_summary_has_every_part_and_no_number_that_json_lacks(judgement: Judgement) -> None:
    assert json.loads(json.dumps(judgement.summary.tree(), allow_nan=False)) is not None
    assert tree(judgement, "format") == 5
    assert tree(judgement, "benchmark", "defects") == {"repeated_stem": {"n": 1, "items": ["i00002"]}}
    assert tree(judgement, "benchmark", "n_quarantined") == 2
    assert sum(tree(judgement, "benchmark", "key_positions")) == pytest.approx(1)
    assert sum(tree(judgement, "benchmark", "option_counts").values()) == 240


def test_every_rate_has_its_n_and_an_interval_around_it(judgement: Judgement) -> None:
    rates = list(_rates(judgement.summary.tree()))
    assert len(rates) > 100
    for found in rates:
        if found["n"]:
            assert found["ci"][0] - 1e-12 <= found["value"] <= found["ci"][1] + 1e-12
        else:
            assert (found["value"], found["ci"]) == (None, None)


def _rates(node: Any) -> Any:
    if isinstance(node, dict):
        if {"value", "n", "ci"} <= set(node) and node["n"] is not None:
            yield node
        for child in node.values():
            yield from _rates(child)
    elif isinstance(node, list):
        for child in node:
            yield from _rates(child)


def test_the_splits_are_a_partition_and_the_counts_agree(gamed: Gamed, judgement: Judgement) -> None:
    b, items, _ = gamed
    splits, screen = tree(judgement, "splits"), tree(judgement, "screen")
    assert splits["flagged"] + splits["kept"] + splits["undecided"] == splits["all"] == 240
    assert [v.item for v in judgement.verdicts] == [i.id for i in items]
    told = [v.verdict for v in judgement.verdicts]
    assert {name: told.count(name) for name in ("flagged", "kept", "undecided")} == {
        name: splits[name] for name in ("flagged", "kept", "undecided")
    }
    right = (b.picks[:, :2] == b.key[:, None]).all(axis=1)
    assert [t == "flagged" for t in told] == right.tolist()
    assert screen["asked"] == screen["answered"] + screen["unanswered"]
    assert screen["flagged"]["value"] == pytest.approx(splits["flagged"] / screen["flagged"]["n"])
    assert splits["cloze"] == 240 - sum(splits["cloze_excluded"].values())
    topics = tree(judgement, "topics", "by_topic")
    assert sum(t["after"] for t in topics.values()) == splits["kept"]


def test_the_known_rate_of_shortcuts_comes_out(judgement: Judgement) -> None:
    low, high = tree(judgement, "screen", "latent_shortcut_rate", "ci")
    assert low < 0.3 < high
    assert tree(judgement, "screen", "excess_over_chance", "p") < 1e-6


def test_scores_by_split_and_measure(gamed: Gamed, judgement: Judgement) -> None:
    b, _, _ = gamed
    of = {name: found["v0"] for name, found in tree(judgement, "measures", "model").items()}
    models = tree(judgement, "models")
    assert [models[name]["is_voter"] for name in ("v0", "v2")] == [True, False]
    assert of["choices_only"]["all"]["value"] == pytest.approx(np.mean(b.picks[:, 0] == b.key))
    assert of["choices_only"]["flagged"]["value"] == 1.0
    assert of["choices_only_by_text"]["all"]["value"] == of["choices_only"]["all"]["value"]
    for measure in ("full", "choices_only", *(f"cloze_{norm}" for norm in NORMS)):
        parts = [of[measure][name]["n"] for name in ("all", "flagged", "kept")]
        assert parts[0] == parts[1] + parts[2]
    # Every key of a cued item is the longest choice, and the voters see it.
    assert of["longest_gap_choices_only"]["all"]["ci"][0] > 0
    assert of["longest_gap_choices_only"]["all"]["n"] == of["choices_only"]["all"]["n"]
    assert "free" not in of
    rule = tree(judgement, "measures", "rule", "rule", "longest_answer")
    assert rule["kept"]["n"] == tree(judgement, "splits", "kept")


def test_other_rules_are_compared_with_the_run_s(judgement: Judgement) -> None:
    rows = {row["name"]: row for row in tree(judgement, "sensitivity")}
    assert rows["D.4"]["flagged"] == tree(judgement, "screen", "d4_rule", "flagged")
    assert rows["unanimous text"]["jaccard"] == 1.0
    assert "unanimous" not in rows, "the own rule"


def test_what_the_screen_s_voters_did_is_told(judgement: Judgement) -> None:
    voters = tree(judgement, "screen", "voters")
    assert set(voters) == {"v0", "v1"}
    assert sum(voters["v0"]["position_share"]) == pytest.approx(1)
    assert tree(judgement, "screen", "rotations") == 4
    assert tree(judgement, "screen", "d4_rule", "template") == "d4-like-v1"
    d4 = tree(judgement, "screen", "d4_rule")
    over = d4["flagged"]["value"] - d4["expected_flags"]["value"] / d4["flagged"]["n"]
    assert d4["excess_over_chance"]["value"] == pytest.approx(over)
    assert d4["latent_shortcut_rate"]["n"] == d4["flagged"]["n"]
    assert set(tree(judgement, "residual", "non_voters")) == {"v2"}
    assert set(tree(judgement, "residual", "leave_one_out")) == {"v0", "v1"}
    assert tree(judgement, "permutation", "cloze_invariance") is None, "asked in one order only: no test"
    assert tree(judgement, "permutation", "by_model", "v0", "orders") >= 2


VIEWS = ("heuristic", "probe", "choices_only", "choices_only_text", "full", "cloze")


@pytest.mark.slow
@pytest.mark.parametrize("n", range(len(VIEWS) + 1))
def test_whatever_was_not_asked_is_null_and_never_an_exception(gamed: Gamed, n: int) -> None:
    _, items, answers = gamed
    for kept in list(combinations(VIEWS, n))[::5]:
        some = Answers(answers.table.filter(pc.is_in(answers.table["view"], pa.array(kept, pa.string()))))
        for with_items in (items, None):
            found = judge(some, facts(items), Rules(unanimous()), with_items)
            json.dumps(found.summary.tree(), allow_nan=False)
            if "choices_only" not in kept:
                assert found.summary.screen is None
                assert tree(found, "splits", "undecided") == tree(found, "splits", "all")
                assert tree(found, "state") == "not evaluated"


@pytest.mark.slow
def test_an_item_whose_key_another_contradicts_is_not_robust(gamed: Gamed, judgement: Judgement) -> None:
    _, items, answers = gamed
    words = {v.item: v.verdict for v in judgement.verdicts}
    disputed = [next(name for name, word in words.items() if word == w) for w in ("kept", "flagged")]
    known = facts(items)
    defects = [{"kind": "conflicting_key", "item": name} for name in disputed]
    found = judge(answers, replace(known, defects=defects), Rules(LETTER), items)
    assert {v.item for v in found.verdicts if v.verdict != words[v.item]} == {disputed[0]}
    assert [tree(found, "splits", name) for name in ("kept", "undecided")] == [
        tree(judgement, "splits", "kept") - 1,
        tree(judgement, "splits", "undecided") + 1,
    ]


@pytest.mark.slow
def test_an_unanswered_item_is_undecided_and_counted(gamed: Gamed) -> None:
    b, items, _ = gamed
    picks = b.picks.copy()
    lost = np.flatnonzero((picks[:, 0] == b.key) & (picks[:, 1] == b.key))[:5]
    picks[lost, 0] = -1
    found = judge(Answers.of(rows(replace(b, picks=picks))), facts(items), Rules(LETTER), items)
    assert tree(found, "splits", "undecided") == 5
    assert tree(found, "screen", "unanswered") == 5
    assert tree(found, "screen", "voters", "v0", "unanswered") == 5
    assert tree(found, "measures", "model", "choices_only", "v0", "all", "n") == 235
    failed = {c.name for c in found.summary.guardrails if c.state == "failed"}
    assert "unanswered_share" in failed


@pytest.mark.parametrize(("settings", "code", "named"), cases("judging", "rules_without_answers"))
def test_rules_that_the_answers_cannot_follow_are_refused(
    gamed: Gamed, settings: dict[str, Any], code: str, named: list[str]
) -> None:
    with refuses(code) as refused:
        judge(Answers.of(rows(gamed[0])), Facts("x"), Rules(unanimous(**settings)))
    assert all(name in str(refused.value) for name in named)


def test_items_whose_key_was_changed_since_are_refused(gamed: Gamed) -> None:
    _, items, answers = gamed
    moved = [replace(items[0], key=(items[0].key + 1) % items[0].k), *items[1:]]
    with refuses("items-differ-from-answers"):
        judge(answers, facts(items), Rules(LETTER), moved)


def _by_text(item: int, name: str, template: str, likes: tuple[int, int]) -> Answer:
    """The first of `likes` is best per character, the second as a sum."""
    chars = [10, 10, 10, 10]
    chars[likes[0]] = 40
    scores = [-30.0 if j not in likes else -20.0 if j == likes[0] else -10.0 for j in range(4)]
    counts = {"n_chars": chars, "n_bytes": chars, "n_tokens": [1] * 4}
    return answer(
        Asked(f"i{item:03d}", "choices_only_text", name, (0, 1, 2, 3), template, item % 4), scores, **counts
    )


@pytest.mark.parametrize(("norm", "right"), [("chars", 1.0), ("sum", 0.0)])
def test_a_voter_by_text_has_one_number_whatever_template_and_norm_it_was_asked_under(
    norm: Literal["chars", "sum"], right: float
) -> None:
    likes = {"first-v1": (1, 2), "second-v1": (0, 1)}
    table = Answers.of(
        [
            _by_text(i, name, template, ((i + a) % 4, (i + b) % 4))
            for name in ("v0", "v1")
            for template, (a, b) in likes.items()
            for i in range(60)
        ]
    )
    found = judge(table, Facts("log"), Rules(unanimous(mode="text", template="second-v1", norm=norm)))
    for name in ("v0", "v1"):
        scored = tree(found, "measures", "model", "choices_only", name, "all")
        assert (scored["value"], scored["n"]) == (right, 60)
        assert tree(found, "screen", "voters", name, "answered") == 60
