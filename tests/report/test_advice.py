"""What to do now: each rule fires on its case and is silent elsewhere, its number is in the summary, its words are few."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import Summary, read
from robustify.report import render
from robustify.report.advice import (
    FIRST,
    MOST,
    Recommendation,
    by_chance,
    flagged_sum,
    grounds,
    recommendations,
)
from robustify.report.opening import opening
from robustify.report.printing import catalogue, cue_words, sentence
from tests.support.exported_run import made_run
from tests.support.trees import filled

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = json.loads((ROOT / "results/benign_demo/summary.json").read_text("utf-8"))
DEMO["measures"]["set"].pop("reader", None)  # cases add one
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
FEW_FLAGGED: Edits = {
    "splits/flagged": 9, "splits/kept": 351, "screen/flagged/value": 0.025, "screen/latent_shortcut_rate/value": 0.0225,
}  # fmt: skip
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


WHOLE = {"rule": "R011", "keys": 200, "n": 320, "expected": 80.0, "of": 360}
SAYS: Edits = {
    "evidence/whole": WHOLE,
    "evidence/names": {"certainty": {"has “always”": 7, "has no “never”": 5, "has “may”": 1}},
}
NO_WHOLE: Edits = {"evidence/whole": None}
RATED = {name: {"all": {"value": 0.63, "n": 360, "chance": 0.25}} for name in ("smollm2-135m", "gemma3-270m")}
NOISE = {
    "strong": ["smollm2-135m", "gemma3-270m"], "n": 360, "flagged": {"value": 89 / 360, "n": 360, "ci": [0.205, 0.294]},
    "all_wrong": 175, "expected": 58.3, "p": 0.001, "items": [f"q{i}" for i in range(89)],
}  # fmt: skip
GOOD: Edits = {**QUIET, "label_noise": NOISE, "measures/model/full": RATED}
CASES: dict[str, tuple[Edits, int, Edits]] = {
    "run_whole": (TRIAL, 360, {}),
    "ask_by_text": (LETTERS, 360, TRIAL),
    "keep": ({**NONE_FLAGGED, **PASSED}, 360, NONE_FLAGGED),
    "mend_whole": (SAYS, 200, NO_WHOLE),
    "mend_cue": (NO_WHOLE, 35, {"evidence/cues": {}}),
    "other_cues": ({}, 35, NONE_FLAGGED),
    "audit": ({**QUIET, **ALONE}, 238, PASSED),
    "show_less": ({"evidence": None, "label_noise": None}, 238, PASSED),
    "give_texts": ({"measures/rule": {}, "evidence": None}, 360, {}),
    "import_blind": ({"measures/model/choices_only": {}}, 360, {}),
    "ask_models": ({"screen": None, "reasons": [{"code": "no_screen", "params": {}}]}, 360, {}),
    "review_keys": (GOOD, 89, {}),
    "mend_defects": ({"benchmark/defects": {"empty_choice": {"n": 30}, "blank_stem": {"n": 0}}}, 30, {}),
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
    assert 2 <= len(what.split()) <= 26


@pytest.mark.parametrize("edits", [edits for edits, *_ in CASES.values()])
def test_the_whole_set_comes_first_then_what_buys_most_at_most_five(edits: Edits) -> None:
    todo = list(recommendations(s := edited(edits), grounds(s)))
    assert len(todo) <= MOST
    later = todo[sum(one.code in FIRST for one in todo) :]
    assert not {one.code for one in later} & {*FIRST}
    assert [one.points for one in later] == sorted((one.points for one in later), reverse=True)


def test_the_sum_of_the_cues_is_every_flagged_item() -> None:
    cases: list[tuple[Edits, list[int]]] = [
        ({}, [35, 26, 26, 35]),
        ({"evidence/cues": {"text_votes": {"value": 1.0, "n": FLAGGED}}}, [FLAGGED]),
        ({"evidence": None}, [FLAGGED]),
    ]
    for edits, sizes in cases:
        said = flagged_sum(s := edited(edits), grounds(s))
        assert [int(n) for n in re.findall(r"(\d+) by [^c]", said.partition("About")[0])] == sizes
        assert sum(sizes) == FLAGGED
        assert said.startswith(f"{FLAGGED} ")
        assert re.findall(r"\d+", said.rpartition(". ")[2]) == ["12"], "flagged by chance"
    for cue in cue_words("advice"):
        (one,) = found("mend_cue", NO_WHOLE, {"evidence/cues": {cue: {"value": 1 / FLAGGED, "n": FLAGGED}}})
        assert (one.n, one.filters) == (1, f"verdict=flagged&cue={cue}")
    none = edited(NONE_FLAGGED)
    assert flagged_sum(none, grounds(none)) == ""


def test_an_advice_has_the_direction_of_the_set_and_the_words_of_a_cue() -> None:
    (whole,), cues = found("mend_whole", SAYS), found("mend_cue", SAYS)
    assert re.match(r"200 of 360 .*distractors .*\(80 ", whole.action)
    assert (whole.points, whole.filters) == (pytest.approx(1 / 3), "key=is%20the%20shortest%20option")
    assert "length" not in [one.filters.partition("&cue=")[2] for one in cues]
    assert any(one.action.endswith(": the key has “always” in 7, has no “never” in 5") for one in cues)
    (fewer,) = found("mend_whole", {"evidence/whole": {**WHOLE, "rule": "R031", "keys": 20}})
    assert re.match(r"300 of 360 .* no absolute word.*\(240 ", fewer.action)
    assert not found("mend_whole", {"evidence": None})


COMMA = {"has a comma": 9}


@pytest.mark.parametrize(
    ("cues", "names", "n", "says"),
    [
        ({"none": 1.0}, {"none": {"is the longest option": 9}}, FLAGGED, ["is the longest option"]),
        ({"text_votes": 0.5, "none": 0.5}, {"text_votes": COMMA, "none": COMMA}, FLAGGED, ["has a comma"]),
        ({"length": 0.5, "none": 0.5}, {"length": {"is the longest option": 61}}, 0, []),
        ({"none": 1.0}, {}, 0, []),
    ],
)  # fmt: skip
def test_advice_on_other_cues_names_what_lint_finds_or_goes(
    cues: dict[str, float], names: dict[str, dict[str, int]], n: int, says: list[str]
) -> None:
    counted = {cue: {"value": share, "n": FLAGGED} for cue, share in cues.items()}
    lines = found("other_cues", NO_WHOLE, {"evidence/cues": counted, "evidence/names": names})
    assert [one.n for one in lines] == [n] * bool(n)
    assert all(one.action.count(name) == 1 for one in lines for name in says)


def test_keys_of_a_list_with_a_measured_precision_are_to_be_checked() -> None:
    noise = {
        "strong": ["a"],
        "n": 360,
        "flagged": {"value": 0.025, "n": 360},
        "items": [f"q{i}" for i in range(9)],
    }
    analysed = {name: {} for name in ("kr20", "negative", "unpicked", "misled")} | {
        "models": ["a"] * 5,
        "n": 360,
    }
    keys = {"keys": {"planted": 0.05, "precision": {"value": 2 / 3, "n": 18}}}
    (keys_,) = found("review_keys", {**GOOD, "label_noise": noise, "item_analysis": {**analysed, **keys}})
    assert keys_.action.startswith("9 items: check their keys")
    assert "(3 expected)" in keys_.action


def test_no_advice_asks_for_what_cannot_be_told() -> None:
    """Weak models that agree say nothing of keys, and small sets get a limit."""
    weak = {name: {"all": {"value": 0.38, "n": 360, "chance": 0.25}} for name in RATED}
    luck = {**NOISE, "p": 0.2}
    for wrong in (
        {"measures/model/full": weak},
        {"label_noise": luck},
        {"label_noise": {**luck, "strong": ["gone"]}},
    ):
        assert found("review_keys", {**GOOD, **wrong}) == []
    (small,) = found(
        "show_less",
        {"evidence": None, "label_noise": None, "splits/kept": 41, "splits/all": 60, "splits/flagged": 19},
    )
    assert re.findall(r"[\d.]+", small.action) == ["41", "5.0", "19.8"]
    (large,) = found(
        "show_less", {"evidence": None, "label_noise": None, "splits/kept": 500, "splits/all": 600}
    )
    assert re.findall(r"\d+", large.action)[-1] == "140"
    (least,) = found("show_less", {"evidence": None, "label_noise": None, "splits/kept": 1})
    assert re.findall(r"[\d.]+", least.action) == ["1", "5.0"]


def test_an_advice_opens_its_items_in_the_explorer_else_the_evidence() -> None:
    ids = ["a,b", "c d"]
    s = edited(SAYS, {"benchmark/defects": {"empty_choice": {"n": 2, "items": ids}}})
    (defects,) = [one for one in recommendations(s, grounds(s)) if one.code == "mend_defects"]
    assert defects.filters == "only=a%252Cb%2Cc%2520d"
    pages = [render(s, {"explorer": there})["report.html"] for there in (True, False)]
    assert 'href="explorer.html#key=is%20the%20shortest%20option"' in pages[0]
    assert "explorer.html" not in pages[1]
    assert all(f'href="#{one.section}"' in pages[1] for one in recommendations(s, grounds(s)))
    assert pages[0].count("122 items flagged: ") == 1
    many = edited({**QUIET, "benchmark/defects": {"empty_choice": {"n": 30, "items": ids}}})
    assert "" in [one.filters for one in recommendations(many, grounds(many)) if one.code == "mend_defects"]


MANY = "Keys can be found without the questions."
OWED = "Do not trust the"
NOT_ASKED: Edits = {"measures/model/full": {}, "measures/model/cloze_chars": {}}


def claimed(**points: float) -> Edits:
    """Claimed looks of models, in points."""
    return {
        f"models/{name.replace('_', '-')}/looks": {"value": x / 100, "state": "claimed", "sources": {}}
        for name, x in points.items()
    }


NUMBER = "At least 110 of 360 items (101 to 117) are answerable without their question."
NONE = "None of 360 items was found to be answerable without its question."
UNTOLD = "No single item can be shown to give its key away."


def read_by(accuracy: float, low: float) -> Edits:
    """A reader with this accuracy on 998 items, and the lower end of its interval."""
    score = {
        "value": accuracy,
        "n": 998,
        "ci": [low, 2 * accuracy - low],
        "chance": 0.25,
        "significant": low > 0.25,
    }
    return {"measures/set/reader": {"all": score}}


@pytest.mark.parametrize(
    ("edits", "verdict", "number", "kept"),
    [
        ({}, MANY, NUMBER, "not evaluated"),
        (PASSED, MANY, NUMBER, "passed"),
        (REFUSED, MANY, NUMBER, "failed"),
        (STOPPED, MANY, NUMBER, "not evaluated"),
        (NOT_ASKED, "Do not trust the full score.", NUMBER, "not evaluated"),
        (claimed(gemma3_270m=4.0), f"{OWED} score of gemma3-270m: the looks of options brought it 4.0 points.", NUMBER,
         "not evaluated"),
        (claimed(gemma3_270m=4.0, smollm2_135m=0.3), f"{OWED} score of gemma3-270m: the", NUMBER, "not evaluated"),
        (claimed(gemma3_270m=4.0, smollm2_135m=1.1),
         f"{OWED} scores of 2 of 2 models: the looks of options brought them 1.1 to 4.0 points.", NUMBER, "not evaluated"),
        ({**claimed(gemma3_270m=0.9), **read_by(0.34, 0.311)}, f"{MANY[:-1]}: a reader gets 34.0 %.", "On 998",
         "not evaluated"),
        (FEW_FLAGGED, "Few keys can be found without the questions.", "At least 8 of 360", "not evaluated"),
        (BY_CHANCE, "No clear evidence of shortcuts", "122 of 360 items are flagged, which chance", "not evaluated"),
        (NONE_FLAGGED, "No item was found", NONE, "not evaluated"),
        ({**NONE_FLAGGED, **PASSED}, "Trust the score: no item was found", NONE, "passed"),
        ({**NONE_FLAGGED, **STOPPED}, "No item was found to give its key away, but a guardrail", NONE, "not evaluated"),
        ({**NONE_FLAGGED, **REFUSED}, "Trust the score with care: no item stands out", UNTOLD, "failed"),
        (TRIAL, "Not evaluated, a trial run: 12 items are too few", "", ""),
        (PART, "Not evaluated, a trial run: only a part", "", ""),
        (LETTERS, "Not evaluated: asked by letter", "", "not evaluated"),
        (UNSCREENED, "Not evaluated", "", ""),
        ({**NONE_FLAGGED, **AT_A}, "Do not trust the order: the key is listed first in 95.0 %", NONE, "not evaluated"),
        ({**UNSCREENED, **AT_A}, "Do not trust the order", "", ""),
        ({"screen/hidden": "passage"}, MANY.replace("questions", "passages"),
         NUMBER.replace("question", "passage"), "not evaluated"),
        (SOME_JUDGED, MANY, "At least 44 of the 143 items judged", "not evaluated"),
        ({**NOT_ASKED, **read_by(0.716, 0.688)},
         "The score says little about knowledge: a reader who never sees a question gets 71.6 %.",
         "On 998 items (68.8 to 74.4; chance 25.0 %), 4 options are worth about 1.4 (1.3 to 1.5).", "not evaluated"),
        ({**NOT_ASKED, **FEW_FLAGGED, **read_by(0.34, 0.311)}, "Trust the full score with care: a reader who never sees",
         "On 998 items (31.1 to 36.9; chance 25.0 %), 4 options", "not evaluated"),
        ({**NOT_ASKED, **NONE_FLAGGED, **REFUSED, **read_by(0.293, 0.27)}, "Trust the full score with care: a reader",
         "On 998 items", "failed"),
        (read_by(0.34, 0.311), MANY[:-1] + ": a reader gets 34.0 %.", "On 998", "not evaluated"),
        ({**PART, **read_by(0.716, 0.688)}, "Not evaluated, a trial run", "A reader who never sees a question gets", ""),
        ({**NONE_FLAGGED, **PASSED, **read_by(0.262, 0.23)}, "Trust the score: no item was found",
         "A reader who never sees a question gets 26.2 % (n = 998, 23.0 to 29.4; chance 25.0 %), which chance may explain.",
         "passed"),
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
    every = " ".join([first.number, *(words for _, words in first.checks)])
    assert not ("None of" in every and "still answer" in every)


@pytest.mark.parametrize(
    ("edits", "together"),
    [
        ({**STOPPED, **HALTED}, True),
        ({**STOPPED, **HALTED, "residual/state": "passed"}, True),
        (REFUSED, False),
        (PASSED, False),
    ],
)
def test_a_failed_run_whose_audit_did_not_fail_says_how_both_go_together(
    edits: Edits, together: bool
) -> None:
    (kept,) = [words for _, words in opening(edited(edits)).checks if words.startswith("238 items")]
    assert ("guardrail" in kept) == together


@pytest.mark.parametrize("n", [0, 1, 2])
def test_advice_agrees_with_its_number_of_items(n: int) -> None:
    few: Edits = {
        "splits/kept": n,
        "splits/flagged": n,
        "splits/all": 2 * n,
        "screen/unanswered": n,
        "benchmark/defects": {"empty_choice": {"n": n}},
        "screen/flagged": {"value": 0.5, "n": 2 * n},
    }
    for state_ in (ALONE, PASSED, REFUSED, STOPPED, TRIAL):
        first = opening(edited({**QUIET, **few, **state_}))
        said = [
            first.verdict,
            first.number,
            *(words for _, words in first.checks),
            *(one.action for one in first.todo),
        ]
        for text in said:
            assert not re.search(
                r"\b1 (kept )?item(s|:? .*\b(them|their|are|were)\b)|[Aa]bout 0|None of 0", text
            ), text


def test_chance_is_what_the_cut_says_else_what_latent_shortcuts_leave() -> None:
    by_cut = by_chance(edited())
    assert by_cut.value == DEMO["screen"]["cut"]["false_share"]["value"]
    latent = by_chance(edited({"screen/cut": None, "screen/false_share": {"value": None}}))
    assert latent.value == pytest.approx(1 - DEMO["screen"]["latent_shortcut_rate"]["value"] * 360 / FLAGGED)


def test_a_run_without_texts_and_without_a_screen_says_what_its_answers_show(tmp_path: Path) -> None:
    first = opening(made_run(tmp_path, text=False, view="full").summary)
    assert sentence(Reason.of("no_screen")) in first.verdict
    assert first.number == ""
    assert [one.stated.partition(" full")[0] for one in first.quotes] == ["20.3 %"] * 2
    assert ["third" in words for _, words in first.checks] == [True]
    assert [one.code for one in first.todo] == ["import_blind", "shuffle_keys", "give_texts"]
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert all(f'id="{one.section}"' in page for one in first.todo)
    assert "voted" not in page.partition('id="audit"')[2]
