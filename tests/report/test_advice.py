"""What to do now: each rule fires on its case and is silent elsewhere, its number is in the summary, its words are few."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.report.advice import MOST, Recommendation, by_chance, recommendations, verdict_in_short
from robustify.report.messages import catalogue, cue_words, tree
from robustify.report.opening import opening
from robustify.summary.result import Summary
from tests.support.trees import filled

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = json.loads((ROOT / "results/benign_demo/summary.json").read_text("utf-8"))
FLAGGED = len((ROOT / "results/benign_demo/shortcut.jsonl").read_text("utf-8").splitlines())
Edits = dict[str, object]
CERTIFIED: Edits = {
    "certificate/verdict": "certified",
    "certificate/reasons": [{"code": "below_margin", "params": {}}],
}
REFUSED: Edits = {
    "certificate/verdict": "not certified",
    "certificate/reasons": [{"code": "above_chance", "params": {}}],
}
STOPPED: Edits = {**REFUSED, "certificate/reasons": [{"code": "guardrail_failed", "params": {}}]}
TRIAL: Edits = {
    "certificate/verdict": "not judged",
    "certificate/reasons": [{"code": "trial_run", "params": {"n": 12, "least": 30, "part": False}}],
}
PART: Edits = {
    **TRIAL,
    "certificate/reasons": [{"code": "trial_run", "params": {"n": 100, "least": 30, "part": True}}],
}
LETTERS: Edits = {
    "certificate/verdict": "not judged",
    "certificate/reasons": [{"code": "one_place", "params": {"voter": "m", "place": 0, "forced": False}}],
}
ALONE: Edits = {"certificate/reasons": [{"code": "no_independent_auditor", "params": {}}]}
NONE_FLAGGED: Edits = {
    "splits/shortcut": 0,
    "splits/robust": 360,
    "screen/flagged/value": 0.0,
    "evidence/cues": {},
}
FEW_FLAGGED: Edits = {"splits/shortcut": 9, "splits/robust": 351, "screen/flagged/value": 0.025}
BY_CHANCE: Edits = {
    "screen/cut": None,
    "screen/excess_over_chance/p": 0.4,
    "screen/excess_over_chance/ci": [-0.01, 0.03],
}
AT_A: Edits = {"benchmark/key_places/off": {"place": 0, "share": 0.95, "even": 0.25}}
UNSCREENED: Edits = {"screen": None, "splits": None}
SOME_JUDGED: Edits = {
    "splits/shortcut": 57, "splits/all": 160, "screen/flagged": {"value": 57 / 143, "n": 143, "ci": [0.3, 0.5]},
}  # fmt: skip
HALTED: Edits = {"guardrails/0/passed": False}
RATE = {"value": 0.1, "n": 360, "ci": [0.07, 0.14]}
QUIET: Edits = {"evidence": None, "heuristics": None, "label_noise": None, "residual/margin": None, **REFUSED}
"""Of what comes before the later rules, one is left."""


def edited(*edits: Edits) -> dict[str, Any]:
    """Return the demo's summary with other values at these paths."""
    tree: dict[str, Any] = json.loads(json.dumps(DEMO))
    for place, value in (pair for one in edits for pair in one.items()):
        *path, last = place.split("/")
        node: Any = tree
        for name in path:
            node = node[int(name)] if isinstance(node, list) else node[name]
        node[int(last) if isinstance(node, list) else last] = value
    return tree


def found(code: str, *edits: Edits) -> list[Recommendation]:
    return [one for one in recommendations(edited(*edits)) if one.code == code]


CASES: dict[str, tuple[Edits, int | None, str, Edits]] = {
    "run_whole": (TRIAL, 360, "", {}),
    "ask_by_text": (LETTERS, None, "", TRIAL),
    "mend_guardrail": (HALTED, None, "", {}),
    "use_robust": ({}, 360 - FLAGGED, "verdict=robust", HALTED),
    "keep": ({**NONE_FLAGGED, **CERTIFIED}, 360, "", NONE_FLAGGED),
    "mend_cue": ({}, 35, "verdict=shortcut&cue=length", {"evidence/cues": {}}),
    "mend_rule": ({"evidence": None}, None, "", {}),
    "audit": (ALONE, None, "", CERTIFIED),
    "screen_again": (REFUSED, None, "", {}),
    "ask_more": ({}, 540, "", CERTIFIED),
    "review_keys": ({**QUIET, "label_noise": DEMO["label_noise"]}, 89, "", {**QUIET}),
    "mend_defects": (
        {**QUIET, "benchmark/defects": {"empty_choice": {"n": 3}, "blank_stem": {"n": 0}}}, 3, "", QUIET,
    ),
    "shuffle_keys": ({**QUIET, "benchmark/key_places/p": 0.001}, None, "", QUIET),
    "replace_seen": ({**QUIET, "contamination": {"overlap": {"found": RATE}}}, 36, "", QUIET),
    "ask_again": ({**QUIET, "screen/unanswered": 7}, 7, "verdict=undecided", QUIET),
}  # fmt: skip
"""Of each code: what makes its rule speak, of how many items, with which filters, and what makes it silent."""


def test_every_rule_has_its_case() -> None:
    assert set(CASES) == set(catalogue()["advice"])


@pytest.mark.parametrize("code", CASES)
def test_a_rule_speaks_in_its_case_and_is_silent_in_another(code: str) -> None:
    edits, n, filters, silent = CASES[code]
    one = found(code, edits)[0]
    assert (one.n, one.filters) == (n, filters)
    assert found(code, silent) == []
    assert n is None or code in ("run_whole", "ask_more", "keep", "use_robust") or str(n) in one.action
    assert 3 <= len(one.action.split()) <= 10
    named = one.source.split(":")[0]
    assert (ROOT / named).is_file() if named.startswith("docs/") else "(20" in named or "arXiv" in named


def test_the_demo_gets_five_lines_of_advice_and_each_leads_somewhere() -> None:
    given = recommendations(edited())
    assert [one.code for one in given] == ["use_robust", "mend_cue", "mend_cue", "ask_more", "review_keys"]
    assert len(given) == MOST
    assert [one.n for one in given[1:3]] == [35, 26]
    assert given[0].link(explorer=True) == "explorer.html#verdict=robust"
    assert given[0].link(explorer=False) == "#scores"
    assert given[3].link(explorer=True) == "#residual"
    for cue in cue_words("advice"):
        assert found("mend_cue", {"evidence/cues": {cue: {"value": 1 / FLAGGED, "n": FLAGGED}}})[0].n == 1


@pytest.mark.parametrize(
    ("edits", "begins", "counted"),
    [
        ({}, "Do not trust the full score", f"{FLAGGED} of 360"),
        (CERTIFIED, "Do not trust the full score", "without the question; no auditor found more."),
        (REFUSED, "Do not trust it", "the question, and others still can."),
        (STOPPED, "Do not trust it", "the question; a guardrail failed."),
        (FEW_FLAGGED, "Trust it with care", "9 of 360"),
        ({**FEW_FLAGGED, **CERTIFIED}, "Trust it with care", "9 of 360"),
        (BY_CHANCE, "Nothing certain", f"{FLAGGED} of 360"),
        (NONE_FLAGGED, "No item was found", ""),
        ({**NONE_FLAGGED, **CERTIFIED}, "Trust it", "no auditor asked here found more, a later model may"),
        ({**NONE_FLAGGED, **STOPPED}, "No item was found", "a guardrail failed"),
        ({**NONE_FLAGGED, **REFUSED}, "Do not trust it", ""),
        ({**NONE_FLAGGED, "certificate": None}, "No item was found", ""),
        (TRIAL, "A trial run", "12 items"),
        (PART, "A trial run", "part"),
        (LETTERS, "Not judged", ""),
        (UNSCREENED, "Not settled", ""),
        ({**UNSCREENED, **CERTIFIED}, "Trust what was kept", ""),
        ({**UNSCREENED, **REFUSED}, "Do not trust it", ""),
        ({**UNSCREENED, "certificate": None}, "No verdict", ""),
        ({**NONE_FLAGGED, **AT_A}, "Do not trust its order", "the key is listed first in 95.0 %"),
        ({**UNSCREENED, "certificate": None, **AT_A}, "Do not trust its order", "first"),
        ({"splits": None}, "Do not trust the full score", f"{FLAGGED} of 360"),
        (SOME_JUDGED, "Do not trust the full score", "57 of the 143 items judged"),
        ({**SOME_JUDGED, **REFUSED}, "Do not trust it", "57 of the 143 items judged"),
    ],
)  # fmt: skip
def test_the_verdict_is_one_line_that_says_whether_to_trust_and_how_many_are_bad(
    edits: Edits, begins: str, counted: str
) -> None:
    line = verdict_in_short(edited(edits))[1]
    assert line.startswith(begins)
    assert counted in line
    assert len(line.split()) <= 20
    assert line.endswith(".")


def test_a_share_and_its_count_have_one_denominator() -> None:
    tile = opening(edited(SOME_JUDGED)).tiles[0]
    assert (tile.main, tile.label, tile.small) == (
        "57",
        "of the 143 items judged need no question",
        "39.9 %, 30.0 to 50.0",
    )


def test_a_small_set_is_told_to_grow_and_a_part_of_one_to_be_run_whole() -> None:
    assert [found("run_whole", edits)[0].action for edits in (TRIAL, PART)] == [
        "Write more items: 30 or more are judged", "Run the whole set, without a limit",
    ]  # fmt: skip


def test_chance_is_what_the_cut_says_else_what_latent_shortcuts_leave() -> None:
    by_cut = by_chance(edited())
    assert by_cut["value"] == DEMO["screen"]["cut"]["false_share"]["value"]
    latent = by_chance(edited({"screen/cut": None, "screen/false_share": None}))
    assert latent["value"] == pytest.approx(
        1 - DEMO["screen"]["latent_shortcut_rate"]["value"] * 360 / FLAGGED
    )


def test_a_summary_without_a_screen_gives_a_line_and_no_advice() -> None:
    empty = tree(Summary.model_validate(filled(Summary, {})))
    assert recommendations(empty) == ()
    assert "No verdict" in verdict_in_short(empty)[1]
