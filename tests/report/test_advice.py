"""What to do now: each rule fires on its case and is silent elsewhere, its number is in the summary, its words are few."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.summary.result import Summary, read
from robustify.report.advice import Recommendation, by_chance, grounds, recommendations
from robustify.report.messages import catalogue, cue_words
from robustify.report.opening import opening
from tests.support.exported_run import made_run
from tests.support.trees import filled

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = json.loads((ROOT / "results/benign_demo/summary.json").read_text("utf-8"))
FLAGGED = len((ROOT / "results/benign_demo/flagged.jsonl").read_text("utf-8").splitlines())
Edits = dict[str, object]


def state(said: str, code: str, residual: str = "", **params: object) -> Edits:
    """State of a run with one reason, and the state of the audit if it is another than the demo's."""
    reasons = [{"code": code, "params": params}]
    audited = {"residual/state": residual} if residual else {}
    return {"state": said, "reasons": reasons, **audited}


PASSED = state("passed", "below_margin", "passed")
REFUSED = state("failed", "above_chance", "failed")
STOPPED = state("failed", "guardrail_failed", "not evaluated")
TRIAL = state("not evaluated", "trial_run", n=12, least=30, part=False)
PART = state("not evaluated", "trial_run", n=100, least=30, part=True)
LETTERS = state("not evaluated", "one_position", voter="m", position=0, forced=False)
ALONE: Edits = {"reasons": [{"code": "no_independent_auditor", "params": {}}]}
NONE_FLAGGED: Edits = {
    "splits/flagged": 0,
    "splits/kept": 360,
    "screen/flagged/value": 0.0,
    "evidence/cues": {},
}
FEW_FLAGGED: Edits = {"splits/flagged": 9, "splits/kept": 351, "screen/flagged/value": 0.025}
BY_CHANCE: Edits = {
    "screen/cut": None,
    "screen/excess_over_chance/p": 0.4,
    "screen/excess_over_chance/ci": [-0.01, 0.03],
}
AT_A: Edits = {"benchmark/key_spread/off": {"position": 0, "share": 0.95, "even": 0.25}}
UNSCREENED: Edits = {"screen": None}
SOME_JUDGED: Edits = {
    "splits/flagged": 57, "splits/all": 160, "screen/flagged": {"value": 57 / 143, "n": 143, "ci": [0.3, 0.5]},
}  # fmt: skip
HALTED: Edits = {"guardrails/0/state": "failed"}
RATE = {"value": 0.1, "n": 360, "ci": [0.07, 0.14]}
QUIET: Edits = {"evidence": None, "measures/rule": {}, "label_noise": None, "residual/margin": 0.0, **REFUSED}
"""Of what comes before the later rules, one is left."""


def edited(*edits: Edits) -> Summary:
    """Return the demo's summary with other values at these paths."""
    tree: dict[str, Any] = json.loads(json.dumps(DEMO))
    for place, value in (pair for one in edits for pair in one.items()):
        *path, last = place.split("/")
        node: Any = tree
        for name in path:
            node = node[int(name)] if isinstance(node, list) else node[name]
        node[int(last) if isinstance(node, list) else last] = value
    return read(filled(Summary, tree))


def found(code: str, *edits: Edits) -> list[Recommendation]:
    s = edited(*edits)
    return [one for one in recommendations(s, grounds(s)) if one.code == code]


CASES: dict[str, tuple[Edits, int, Edits]] = {
    "run_whole": (TRIAL, 360, {}),
    "ask_by_text": (LETTERS, 360, TRIAL),
    "mend_guardrail": (HALTED, 360, {}),
    "report": ({}, 360, HALTED),
    "keep": ({**NONE_FLAGGED, **PASSED}, 360, NONE_FLAGGED),
    "mend_cue": ({}, 35, {"evidence/cues": {}}),
    "other_cues": ({}, 35, NONE_FLAGGED),
    "mend_rule": ({"evidence": None}, 360, {}),
    "audit": (ALONE, 238, PASSED),
    "screen_again": (REFUSED, 238, {}),
    "ask_more": ({}, 570, PASSED),
    "give_texts": ({"measures/rule": {}}, 360, {}),
    "ask_models": ({"screen": None, "reasons": [{"code": "no_screen", "params": {}}]}, 360, {}),
    "review_keys": ({}, 89, {"label_noise": None}),
    "mend_defects": ({"benchmark/defects": {"empty_choice": {"n": 3}, "blank_stem": {"n": 0}}}, 3, {}),
    "name_passages": ({**QUIET, "benchmark/parallel_items": 90}, 90, {}),
    "shuffle_keys": ({**QUIET, "benchmark/key_spread/p": 0.0}, 360, {}),
    "replace_seen": ({**QUIET, "contamination": {"overlap": {"found": RATE}}}, 36, {}),
    "ask_again": ({**QUIET, "screen/unanswered": 7}, 7, {}),
}  # fmt: skip
"""Of each code: what makes its rule speak, of how many items, and what makes it silent."""


def test_every_rule_has_its_case() -> None:
    assert set(CASES) == set(catalogue()["advice"])


@pytest.mark.parametrize("code", CASES)
def test_a_rule_speaks_in_its_case_and_is_silent_in_another(code: str) -> None:
    edits, n, silent = CASES[code]
    one = found(code, edits)[0]
    assert one.n == n
    assert found(code, silent) == []
    size, _, what = one.action.partition(": ")
    assert size.split()[0] == str(n)
    assert 2 <= len(what.split()) <= 14


def test_the_lines_about_cues_account_for_every_flagged_item() -> None:
    cases: list[tuple[Edits, list[int]]] = [
        ({}, [35, 26, 26, 35]),
        ({"evidence/cues": {"text_votes": {"value": 1.0, "n": FLAGGED}}}, [FLAGGED]),
        ({"evidence": None}, [FLAGGED]),
    ]
    for edits, sizes in cases:
        s = edited(edits)
        given = [one for one in recommendations(s, grounds(s)) if one.code in ("mend_cue", "other_cues")]
        assert [one.n for one in given] == sizes
        assert sum(sizes) == FLAGGED
    for cue in cue_words("advice"):
        assert found("mend_cue", {"evidence/cues": {cue: {"value": 1 / FLAGGED, "n": FLAGGED}}})[0].n == 1


MANY = "Do not trust the full score."
NUMBER = "About 110 of 360 items are answerable without their question (between 101 and 117)."
BEST = "The best of 2 models, gemma3-270m, is right on 38.9 % of 360 items (34.0 % to 44.0 %); guessing is right on 25.0 %."
NONE = "None of 360 items was found to be answerable without its question."


@pytest.mark.parametrize(
    ("edits", "verdict", "number", "kept"),
    [
        ({}, MANY, NUMBER, "not evaluated"),
        (PASSED, MANY, NUMBER, "passed"),
        (REFUSED, "Do not trust the score, neither on all items nor on the kept", NUMBER, "failed"),
        (STOPPED, MANY, NUMBER, "not evaluated"),
        (FEW_FLAGGED, "Trust the score with care", "About 8 of 360", "not evaluated"),
        (BY_CHANCE, "No clear evidence of shortcuts", "About 110 of 360", "not evaluated"),
        (NONE_FLAGGED, "No item was found", NONE, "not evaluated"),
        ({**NONE_FLAGGED, **PASSED}, "Trust the score: no item was found", NONE, "passed"),
        ({**NONE_FLAGGED, **STOPPED}, "No item was found to give its key away, but a guardrail", NONE, "not evaluated"),
        ({**NONE_FLAGGED, **REFUSED}, "Do not trust the score: no item stands out", NONE, "failed"),
        (TRIAL, "Not evaluated, a trial run: 12 items are too few", "", ""),
        (PART, "Not evaluated, a trial run: only a part", "", ""),
        (LETTERS, "Not evaluated: asked by letter", "", "not evaluated"),
        (UNSCREENED, "Not evaluated", BEST, ""),
        ({**UNSCREENED, **PASSED}, "Trust the kept items", BEST, ""),
        ({**UNSCREENED, **REFUSED}, "Do not trust the score: auditors", BEST, ""),
        ({**NONE_FLAGGED, **AT_A}, "Do not trust the order: the key is listed first in 95.0 %", NONE, "not evaluated"),
        ({**UNSCREENED, **AT_A}, "Do not trust the order", BEST, ""),
        ({"screen/hidden": "passage"}, MANY, "About 110 of 360 items are answerable without their pass", "not evaluated"),
        (SOME_JUDGED, MANY, "About 51 of the 143 items judged are", "not evaluated"),
    ],
)  # fmt: skip
def test_the_first_screen_says_in_two_sentences_whether_to_trust_and_how_much(
    edits: Edits, verdict: str, number: str, kept: str
) -> None:
    first = opening(edited(edits))
    assert first.verdict.startswith(verdict)
    assert len(first.verdict.split()) <= 20
    assert first.number.startswith(number) if number else first.number == ""
    said = [one for one, words in first.checks if "kept" in words or "are robust" in words]
    assert said == [kept] * bool(kept)
    assert any("are robust:" in words for _, words in first.checks) == (kept == "passed")
    forbidden = "settle|outside this screen|low on robust|absolutes and hedges|inconclusive|certif"
    assert not re.search(forbidden, " ".join([first.verdict, *(one.action for one in first.todo)]))


def test_chance_is_what_the_cut_says_else_what_latent_shortcuts_leave() -> None:
    by_cut = by_chance(edited())
    assert by_cut is not None
    assert by_cut.value == DEMO["screen"]["cut"]["false_share"]["value"]
    latent = by_chance(edited({"screen/cut": None, "screen/false_share": {"value": None}}))
    assert latent is not None
    assert latent.value == pytest.approx(1 - DEMO["screen"]["latent_shortcut_rate"]["value"] * 360 / FLAGGED)


def test_a_summary_without_a_screen_gives_a_line_and_no_advice() -> None:
    empty = opening(Summary.model_validate(filled(Summary, {})))
    assert empty.todo == ()
    assert "Not evaluated" in empty.verdict


def test_an_advice_names_voters_only_if_models_voted() -> None:
    assert "stronger voters" in found("screen_again", REFUSED)[0].action
    assert found("screen_again", {**REFUSED, "screen/voters": {}})[0].action.endswith("again with models")


def test_a_run_without_texts_and_without_a_screen_says_what_its_answers_show(tmp_path: Path) -> None:
    first = opening(made_run(tmp_path, text=False, view="full").summary)
    assert "nothing could be screened" in first.verdict
    assert first.number.startswith("The best of 2 models, one, is right on")
    assert [words.partition("order, ")[2][:16] for _, words in first.checks] == ["the key is third"]
    assert [one.code for one in first.todo] == ["give_texts", "shuffle_keys"]
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert all(f'id="{one.section}"' in page for one in first.todo)
    assert "models of this run voted" not in page.partition("Audit of the kept items")[2]
