"""The whole judge side on made-up answers: nothing is missing, nothing is invented, and known truth comes
out.
"""

import json
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.answers import Answer, Answers, answer
from robustify.baselines.artifact_probe import ProbeSettings, probe
from robustify.baselines.heuristics import guess
from robustify.errors import DataError, UsageError
from robustify.item import Item
from robustify.judge.accuracy import Parts
from robustify.judge.accuracy import heuristic_gap as judge_heuristic_gap
from robustify.judge.cloze import ClozeSettings
from robustify.judge.guardrails import Limits, certificate
from robustify.judge.judgement import Facts, Judgement, Rules, judge
from robustify.judge.removal_effects import random_removal as judge_random_removal
from robustify.judge.sensitivity import jaccard
from robustify.report.reasons import certificate_sentence, screen_sentence
from robustify.screen.screen_rules import ScreenRules
from robustify.summary.reason import Sentence
from robustify.summary.result import Guardrail, Residual, Summary
from tests.support.fake_answers import WORDS, Bench, bench, items_of, rows, text_rows
from tests.support.rules import unanimous
from tests.support.trees import in_trees, plain

heuristic_gap = in_trees(judge_heuristic_gap)
random_removal = in_trees(judge_random_removal)
LETTER = unanimous(voters=("v0", "v1"))
TEXT = unanimous(mode="text", voters=("v0", "v1"))
NAMES = {
    "format", "benchmark", "heuristics", "screen", "splits", "full_mode", "accuracy", "random_removal", "permutation",
    "calibration", "topics", "residual", "sensitivity", "evidence", "label_noise", "pairs", "position_bias",
    "contamination",
    "guardrails", "certificate", "signature", "release",
}  # fmt: skip


def facts(items: list[Item]) -> Facts:
    return Facts(
        "made-up",
        {i.id: i.topic for i in items},
        {},
        2,
        [{"kind": "repeated_stem", "line": 3, "item": "i00002"}],
    )


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
def gamed() -> tuple[Bench, list[Item], Answers]:
    b = bench(240, 3, s=0.3, agree=0.5, options=(4, 4, 4, 3), seed=1)
    items = items_of(b, cue=True)
    return b, items, everything(b, items)


@pytest.fixture(scope="module")
def judgement(gamed: tuple[Bench, list[Item], Answers]) -> Judgement:
    _, items, answers = gamed
    alternatives = (TEXT, LETTER.model_copy(update={"probe_vote": "with"}), unanimous(template="never-asked"))
    return judge(answers, facts(items), Rules(LETTER, under_test=("v1",), alternatives=alternatives), items)


def tree(j: Judgement, *path: str) -> Any:
    node: Any = j.summary.tree()
    for step in path:
        node = node[step]
    return node


def test_the_summary_has_every_part_and_no_number_that_json_lacks(judgement: Judgement) -> None:
    assert set(judgement.summary.tree()) == NAMES
    assert json.loads(json.dumps(judgement.summary.tree(), allow_nan=False)) is not None
    assert tree(judgement, "format") == 2
    assert tree(judgement, "benchmark", "defects") == {"repeated_stem": {"n": 1, "items": ["i00002"]}}
    assert tree(judgement, "benchmark", "n_quarantined") == 2
    assert sum(tree(judgement, "benchmark", "key_positions")) == pytest.approx(1)
    assert sum(tree(judgement, "benchmark", "option_counts").values()) == 240


def test_no_text_of_an_item_gets_into_the_summary(judgement: Judgement) -> None:
    told = json.dumps(judgement.summary.tree()) + repr(judgement.verdicts) + repr(judgement.checks)
    assert not [word for word in WORDS if word in told]


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


def test_the_splits_are_a_partition_and_the_counts_agree(
    gamed: tuple[Bench, list[Item], Answers], judgement: Judgement
) -> None:
    b, items, _ = gamed
    splits, screen = tree(judgement, "splits"), tree(judgement, "screen")
    assert splits["shortcut"] + splits["robust"] + splits["undecided"] == splits["all"] == 240
    assert [v.item for v in judgement.verdicts] == [i.id for i in items]
    told = [v.verdict for v in judgement.verdicts]
    assert {name: told.count(name) for name in ("shortcut", "robust", "undecided")} == {
        name: splits[name] for name in ("shortcut", "robust", "undecided")
    }
    right = (b.picks[:, :2] == b.key[:, None]).all(axis=1)
    assert [t == "shortcut" for t in told] == right.tolist()
    assert screen["asked"] == screen["answered"] + screen["unanswered"]
    assert screen["flagged"]["value"] == pytest.approx(splits["shortcut"] / screen["flagged"]["n"])
    assert splits["cloze"] == 240 - sum(splits["cloze_excluded"].values())
    topics = tree(judgement, "topics", "by_topic")
    assert sum(t["after"] for t in topics.values()) == splits["robust"]


def test_the_known_rate_of_shortcuts_comes_out(judgement: Judgement) -> None:
    low, high = tree(judgement, "screen", "latent_shortcut_rate", "ci")
    assert low < 0.3 < high
    assert tree(judgement, "screen", "excess_over_chance", "p") < 1e-6


def test_scores_by_split_and_measure(gamed: tuple[Bench, list[Item], Answers], judgement: Judgement) -> None:
    b, _, _ = gamed
    of = tree(judgement, "accuracy", "v0")
    assert of["is_voter"]
    assert not tree(judgement, "accuracy", "v2", "is_voter")
    assert of["choices_only"]["all"]["value"] == pytest.approx(np.mean(b.picks[:, 0] == b.key))
    assert of["choices_only"]["shortcut"]["value"] == 1.0
    assert of["choices_only_text"]["all"]["value"] == of["choices_only"]["all"]["value"]
    for measure in (
        "full",
        "choices_only",
        "cloze_chars",
        "cloze_tokens",
        "cloze_bytes",
        "cloze_sum",
        "cloze_pmi",
    ):
        parts = [of[measure][name]["n"] for name in ("all", "shortcut", "robust")]
        assert parts[0] == parts[1] + parts[2]
    # Every key of a cued item is the longest choice, and the voters see it.
    assert of["choices_only"]["heuristic_gap"]["ci"][0] > 0
    assert of["choices_only"]["heuristic_gap"]["n"] == of["choices_only"]["all"]["n"]
    assert of["free"] is None


def test_the_other_rules_stand_beside_the_run_s(judgement: Judgement) -> None:
    first, text, alone, unasked, *automatic = tree(judgement, "sensitivity")
    assert automatic
    assert all(row["automatic"] and row["differs"] for row in automatic)
    assert (first["name"], first["jaccard"]) == ("this run", 1.0)
    assert first["excess"] == tree(judgement, "screen", "excess_over_chance")
    probe = tree(judgement, "residual", "probe")
    assert first["residual_probe"] == {name: probe[name] for name in first["residual_probe"]}
    assert (text["mode"], text["jaccard"]) == ("text", 1.0)
    assert alone["flagged"]["value"] <= first["flagged"]["value"]
    assert unasked["flagged"] == {"value": None, "n": 0, "ci": None}
    assert (unasked["jaccard"], unasked["excess"], unasked["residual_probe"]) == (None, None, None)


def test_a_voter_under_test_is_said_to_be_one(judgement: Judgement) -> None:
    assert {"code": "voter_under_test", "name": "v1"} in tree(judgement, "certificate", "reasons")


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
def test_whatever_was_not_asked_is_null_and_never_an_exception(
    gamed: tuple[Bench, list[Item], Answers], n: int
) -> None:
    _, items, answers = gamed
    held = answers.table.to_pylist()
    for kept in list(combinations(VIEWS, n))[::5]:
        some = Answers(
            answers.table.schema.empty_table().from_pylist(
                [r for r in held if r["view"] in kept], answers.table.schema
            )
        )
        for with_items in (items, None):
            found = judge(some, facts(items), Rules(unanimous()), with_items)
            assert set(found.summary.tree()) == NAMES
            json.dumps(found.summary.tree(), allow_nan=False)
            if "choices_only" not in kept:
                assert found.summary.screen is None
                assert tree(found, "splits", "undecided") == tree(found, "splits", "all")
                assert tree(found, "certificate", "verdict") == "inconclusive"


def test_an_import_without_items_is_judged_by_its_rows(gamed: tuple[Bench, list[Item], Answers]) -> None:
    b, _, _ = gamed
    table = Answers.of(rows(b))
    found = judge(table, Facts("log"), Rules(LETTER))
    assert tree(found, "residual", "probe") is None
    assert tree(found, "splits", "cloze") is None
    assert tree(found, "heuristics") is None
    assert tree(found, "topics") is None
    assert tree(found, "benchmark", "topics") == {}
    assert tree(found, "screen", "flagged", "n") == 240


@pytest.mark.slow
def test_rows_of_items_that_are_not_judged_do_not_count(gamed: tuple[Bench, list[Item], Answers]) -> None:
    _, items, answers = gamed
    part = judge(answers, facts(items), Rules(LETTER), items[100:200])
    assert tree(part, "splits", "all") == 100
    assert tree(part, "screen", "flagged", "n") == 100
    assert tree(part, "heuristics", "all", "longest_answer", "n") == 100
    assert tree(part, "accuracy", "v0", "full", "all", "n") == 100


@pytest.mark.slow
def test_an_item_whose_key_another_contradicts_is_not_robust(
    gamed: tuple[Bench, list[Item], Answers], judgement: Judgement
) -> None:
    _, items, answers = gamed
    words = {v.item: v.verdict for v in judgement.verdicts}
    disputed = [next(name for name, word in words.items() if word == w) for w in ("robust", "shortcut")]
    known = facts(items)
    defects = [{"kind": "conflicting_key", "item": name} for name in disputed]
    found = judge(answers, replace(known, defects=defects), Rules(LETTER), items)
    assert {v.item for v in found.verdicts if v.verdict != words[v.item]} == {disputed[0]}
    assert [tree(found, "splits", name) for name in ("robust", "undecided")] == [
        tree(judgement, "splits", "robust") - 1,
        tree(judgement, "splits", "undecided") + 1,
    ]


@pytest.mark.slow
def test_an_unanswered_item_is_undecided_and_counted(gamed: tuple[Bench, list[Item], Answers]) -> None:
    b, items, _ = gamed
    picks = b.picks.copy()
    lost = np.flatnonzero((picks[:, 0] == b.key) & (picks[:, 1] == b.key))[:5]
    picks[lost, 0] = -1
    found = judge(Answers.of(rows(replace(b, picks=picks))), facts(items), Rules(LETTER), items)
    assert tree(found, "splits", "undecided") == 5
    assert tree(found, "screen", "unanswered") == 5
    assert tree(found, "screen", "voters", "v0", "unanswered") == 5
    assert tree(found, "accuracy", "v0", "choices_only", "all", "n") == 235
    failed = {c.name for c in found.checks if not c.passed}
    assert "unanswered_share" in failed


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (unanimous(voters=("v0", "nobody")), "nobody did not answer choices_only"),
        (unanimous(template="never-asked"), "never-asked was not asked"),
        (unanimous(probe_vote="with"), "hold no probe"),
        (unanimous(mode="text", voters=("v0",)), "nobody was asked choices_only_text; expected mode letter"),
        (unanimous(mode="text", template="never-asked"), "template: never-asked, but nobody was asked"),
    ],
)
def test_rules_that_the_answers_cannot_follow_are_refused(
    gamed: tuple[Bench, list[Item], Answers], rules: ScreenRules, said: str
) -> None:
    b, _, _ = gamed
    with pytest.raises(UsageError, match=said):
        judge(Answers.of(rows(b)), Facts("x"), Rules(rules))


def test_a_rule_for_a_screen_that_was_never_held_is_refused_and_its_absence_is_not() -> None:
    b = bench(20, 1, seed=1)
    plain = Answers.of(rows(b, view="full", template="mmlu-v1"))
    assert judge(plain, Facts("x"), Rules(unanimous(voters=("v0",)))).summary.screen is None
    for rules in (unanimous(voters=("Z",)), unanimous(template="nope"), unanimous(voters=("v0", "Z"))):
        with pytest.raises(UsageError, match="nobody was asked choices_only"):
            judge(plain, Facts("x"), Rules(rules))
    by_text = Answers.of(text_rows(b))
    with pytest.raises(UsageError, match="expected mode text"):
        judge(by_text, Facts("x"), Rules(unanimous(voters=("v0",))))


def test_items_whose_key_was_changed_since_are_refused(gamed: tuple[Bench, list[Item], Answers]) -> None:
    _, items, answers = gamed
    moved = [replace(items[0], key=(items[0].key + 1) % items[0].k), *items[1:]]
    with pytest.raises(DataError, match="i00000"):
        judge(answers, facts(items), Rules(LETTER), moved)


@pytest.mark.slow
def test_a_probe_that_voted_is_no_outsider(gamed: tuple[Bench, list[Item], Answers]) -> None:
    _, items, answers = gamed
    rules = Rules(LETTER.model_copy(update={"probe_vote": "with"}))
    found = judge(answers, facts(items), rules, items)
    assert tree(found, "residual", "probe_voted")
    assert {"code": "probe_voted"} in tree(found, "residual", "reasons")
    assert tree(found, "screen", "voters", "probe", "kind") == "probe"


# The certificate

AUDITORS = Sentence(text="what the auditors said")


def _audit(verdict: str) -> Residual:
    return Residual.model_validate({"verdict": verdict, "margin": 0.05, "reasons": [AUDITORS]})


def _check(name: str, *, passed: bool, halts: bool = False) -> Guardrail:
    return Guardrail(name=name, passed=passed, reason=Sentence(text="made up"), halts_export=halts)


@pytest.mark.parametrize(
    ("audit", "checks", "verdict"),
    [
        ("certified", [_check("a", passed=True)], "certified"),
        ("certified", [_check("a", passed=False)], "inconclusive"),
        ("certified", [_check("a", passed=False, halts=True)], "not certified"),
        ("inconclusive", [_check("a", passed=False)], "inconclusive"),
        ("not certified", [_check("residual_shortcuts", passed=False)], "not certified"),
    ],
)
def test_a_failed_guardrail_only_lowers_the_verdict(
    audit: str, checks: list[Guardrail], verdict: str
) -> None:
    found = certificate(_audit(audit), checks, ())
    assert found.verdict == verdict
    assert AUDITORS in (found.reasons or ())


@pytest.mark.parametrize(
    ("audit", "checks", "opening"),
    [
        ("certified", [], "What was kept gives no auditor more than chance plus 5 points: "),
        (
            "certified",
            [_check("enough_robust_items", passed=False, halts=True)],
            "What was kept gives no auditor more than chance plus 5 points, but a guardrail failed: "
            "guardrail enough_robust_items: made up",
        ),
        (
            "inconclusive",
            [_check("enough_robust_items", passed=False, halts=True)],
            "Whether what was kept still holds shortcuts is not settled, and a guardrail failed: "
            "guardrail enough_robust_items: made up",
        ),
        ("inconclusive", [_check("a", passed=False)], "Whether what was kept still holds shortcuts is not settled: what"),
        (
            "not certified",
            [_check("topic_collapse", passed=False, halts=True)],
            "What was kept is not resistant to shortcuts: what the auditors said",
        ),
    ],
)  # fmt: skip
def test_the_sentence_blames_the_audit_for_what_the_audit_found_alone(
    audit: str, checks: list[Guardrail], opening: str
) -> None:
    found = certificate(_audit(audit), checks, ())
    assert certificate_sentence(Summary(residual=_audit(audit), certificate=found)).startswith(opening)
    assert found.verdict == ("not certified" if any(c.halts_export for c in checks) else audit)


def test_a_dead_voter_among_voters_that_disagree_fails_its_guardrail() -> None:
    """Nothing hangs on its missing answers, so that no item is undecided and all are kept."""
    b = bench(400, 3, seed=3)
    picks = np.column_stack([b.picks[:, 0], (b.picks[:, 0] + 1) % 4, np.full(400, -1)])
    found = judge(Answers.of(rows(replace(b, picks=picks))), Facts("log"), Rules(unanimous()))
    assert (tree(found, "splits", "robust"), tree(found, "screen", "unanswered")) == (400, 0)
    assert tree(found, "screen", "agreement", "n") == 0
    (check,) = [c for c in found.checks if c.name == "unanswered_share"]
    assert (check.passed, check.value) == (False, 1.0)
    assert plain(check.reason)["missing"] == 400
    assert tree(found, "certificate", "verdict") != "certified"


def test_the_sentence_and_the_guardrail_tell_luck_at_one_level() -> None:
    b = bench(300, 2, s=0.06, agree=0.5, seed=5)
    table = Answers.of(rows(b))
    p = tree(judge(table, Facts("log"), Rules(unanimous())), "screen", "excess_over_chance", "p")
    assert p < 0.04
    for level, told in ((0.05, True), (p / 2, False)):
        found = judge(table, Facts("log"), Rules(unanimous(), limits=Limits(excess_p=level)))
        (check,) = [c for c in found.checks if c.name == "excess_above_chance"]
        assert check.passed is told
        assert found.summary.screen is not None
        assert ("more than chance" in screen_sentence(found.summary.screen)) is told


def _by_text(item: int, name: str, template: str, likes: tuple[int, int]) -> Answer:
    """The first of `likes` is best per character, the second as a sum."""
    chars = [10, 10, 10, 10]
    chars[likes[0]] = 40
    scores = [-30.0 if j not in likes else -20.0 if j == likes[0] else -10.0 for j in range(4)]
    counts = {"n_chars": chars, "n_bytes": chars, "n_tokens": [1] * 4}
    return answer(
        f"i{item:03d}", "choices_only_text", name, (0, 1, 2, 3), template, item % 4, scores, **counts
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
        told = tree(found, "screen", "voters", name, "choices_only_accuracy")
        scored = tree(found, "accuracy", name, "choices_only_text", "all")
        assert (scored["value"], scored["n"]) == (told["value"], told["n"]) == (right, 60)


def test_groups_reach_every_interval_that_is_resampled() -> None:
    """Passages of ten equal items: resampled by item, intervals would be about three times too narrow."""
    one = bench(30, 2, s=0.3, seed=8)
    key, k, shortcut = np.repeat(one.key, 10), np.repeat(one.k, 10), np.repeat(one.shortcut, 10)
    b = Bench(np.repeat(one.picks, 10, axis=0), key, k, shortcut)
    table = Answers.of([*rows(b), *rows(b, view="full", template="mmlu-v1")])
    passages = {name: f"p{i // 10}" for i, name in enumerate(b.ids)}
    alone, together = (judge(table, Facts("log", groups=g), Rules(unanimous())) for g in ({}, passages))
    for path in (
        ("screen", "d4_rule", "excess_over_chance", "ci"),
        ("screen", "agreement", "observed_ci"),
        ("screen", "agreement", "fleiss_kappa_ci"),
    ):
        assert _width(tree(together, *path)) > 2 * _width(tree(alone, *path))
    # Each item of a passage has an order of its own, so its places hang together less.
    ends = [tree(j, "position_bias", "v0", "places")[0]["excess"]["ci"] for j in (alone, together)]
    assert _width(ends[1]) > _width(ends[0])


def _width(ci: list[float]) -> float:
    return ci[1] - ci[0]


@pytest.mark.slow
def test_heuristics_on_what_was_kept_are_held_to_the_luck_that_the_filter_left() -> None:
    rng = np.random.default_rng(12)
    k = np.full(400, 4)
    key = rng.integers(0, 4, 400)
    texts = [[f"w{'o' * int(rng.integers(1, 40))}{j}" for j in range(4)] for _ in range(400)]
    longest = np.array([int(np.argmax([len(t) for t in held])) for held in texts])
    b = Bench(np.column_stack([longest, longest]), key, k, np.zeros(400, dtype=bool))
    items = [Item(name, "Which?", tuple(t), int(j)) for name, t, j in zip(b.ids, texts, key, strict=True)]
    found = judge(
        Answers.concat([guess(items), Answers.of(rows(b))]), Facts("log"), Rules(unanimous()), items
    )
    shortest = tree(found, "heuristics", "robust", "shortest_answer")
    assert shortest["expected"] == pytest.approx(1 / 3, abs=0.01)
    assert shortest["p"] > 0.05
    assert tree(found, "heuristics", "shortcut", "longest_answer", "expected") > 0.95
    assert tree(found, "heuristics", "all", "shortest_answer", "expected") == pytest.approx(0.25)


@pytest.mark.slow
def test_limits_reach_the_audit_and_cloze_settings_what_cloze_counts(
    gamed: tuple[Bench, list[Item], Answers],
) -> None:
    _, items, answers = gamed
    limits = Limits(residual_margin=0.2, min_robust=1000)
    rules = Rules(LETTER, limits=limits, cloze=ClozeSettings(profile="strict"))
    found = judge(answers, facts(items), rules, items)
    assert tree(found, "splits", "cloze") < 240
    assert tree(found, "accuracy", "v0", "cloze_chars", "all", "n") == tree(found, "splits", "cloze")
    assert tree(found, "accuracy", "v0", "full", "all", "n") == 240
    assert tree(found, "residual", "margin") == 0.2
    assert {c.name for c in found.checks if not c.passed} >= {"enough_robust_items"}
    assert tree(found, "certificate", "verdict") == "not certified"


# Random removal and the gap


def parts_of(robust: np.ndarray[Any, Any], topic: np.ndarray[Any, Any]) -> Parts:
    n = len(robust)
    return Parts(~robust, robust, np.ones(n, dtype=bool), np.full(n, np.nan), topic)


def test_random_removal_keeps_topics_and_size_and_is_what_shuffling_gives() -> None:
    rng = np.random.default_rng(0)
    n, topic = 300, np.repeat([0, 1, 2], [30, 120, 150])
    won = np.where(rng.random(n) < np.array([0.9, 0.5, 0.2])[topic], 1.0, 0.0)
    won[::17] = 0.5
    won[5] = np.nan
    robust = rng.random(n) < 0.6
    found = random_removal({"full": won, "cloze_chars": None}, parts_of(robust, topic))
    there = ~np.isnan(won)
    slow = []
    for _ in range(2000):
        kept = [
            rng.choice(
                np.flatnonzero(there & (topic == t)), (there & robust & (topic == t)).sum(), replace=False
            )
            for t in range(3)
        ]
        slow.append(float(won[np.concatenate(kept)].mean()))
    assert found["mean"] == pytest.approx(np.mean(slow), abs=0.004)
    assert found["ci"] == pytest.approx(np.quantile(slow, [0.025, 0.975]).tolist(), abs=0.012)
    assert found["percentile"] == pytest.approx(
        100 * np.mean(np.array(slow) <= np.nanmean(won[robust])), abs=6
    )


def test_the_gap_is_the_difference_of_two_means_and_ties_count_on_both_sides() -> None:
    won = np.array([1.0, 0.0, 1.0, 0.0, 1.0, np.nan])
    longest = np.array([1.0, 1.0, 0.0, 0.0, 0.5, 1.0])
    found = heuristic_gap(won, longest)
    assert found["value"] == pytest.approx((1 + 0.5) / 2.5 - (1 + 0.5) / 2.5)
    assert (found["n"], found["ci"]) == (5, None)
    assert heuristic_gap(won, np.ones(6)) is None
    assert heuristic_gap(won, np.full(6, np.nan)) is None


def test_the_overlap_of_removed_sets() -> None:
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert jaccard(a, b) == 0.5
    assert jaccard(a & ~a, b & ~b) is None


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(0, 3))
def test_any_small_table_is_judged_and_split(seed: int, n: int, holes: int) -> None:
    b = bench(n, 2, s=0.4, options=(2, 3, 5), seed=seed)
    picks = b.picks.copy()
    picks.ravel()[np.random.default_rng(seed).integers(0, 2 * n, holes)] = -1
    found = judge(Answers.of(rows(replace(b, picks=picks))), Facts("x"), Rules(unanimous()))
    splits = tree(found, "splits")
    assert splits["shortcut"] + splits["robust"] + splits["undecided"] == n
    json.dumps(found.summary.tree(), allow_nan=False)
