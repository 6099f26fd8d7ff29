"""What to do now: each rule fires on its case and is silent elsewhere, its number is in the summary, its words are few."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from robustify.judging.stats.tests import minimum_detectable_difference
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import Summary, read
from robustify.report import render
from robustify.report.advice import FIRST, MOST, Recommendation, flagged_sum, recommendations
from robustify.report.opening import FirstScreen, opening
from robustify.report.printing import catalogue, cue_words, sentence
from robustify.report.verdict import by_chance, grounds
from tests.support.cases import cases, contents
from tests.support.exported_run import made_run
from tests.support.trees import filled

ROOT = Path(__file__).parents[2]
DEMO: dict[str, Any] = json.loads((ROOT / "results/benign_demo/summary.json").read_text("utf-8"))
DEMO["measures"]["set"].pop("reader", None)  # cases add one
FLAGGED = len((ROOT / "results/benign_demo/flagged.jsonl").read_text("utf-8").splitlines())
CASES = contents("report")
Edits = dict[str, object]
EDITS: dict[str, Edits] = CASES["edits"]


def edited(*edits: Edits | str) -> Summary:
    """Return the demo's summary with other values at these paths; a name is that of a row of `edits`."""
    tree: dict[str, Any] = json.loads(json.dumps(DEMO))
    for place, value in (
        pair for one in edits for pair in (EDITS[one] if isinstance(one, str) else one).items()
    ):
        *path, last = place.split("/")
        node: Any = tree
        for name in path:
            node = node[int(name)] if isinstance(node, list) else node[name]
        node[int(last) if isinstance(node, list) else last] = deepcopy(value)
    return read(filled(Summary, tree))


def words_of(first: FirstScreen) -> list[str]:
    """All that a first screen says."""
    return [
        first.verdict,
        first.number,
        *(text for _, text in first.checks),
        *(one.action for one in first.todo),
    ]


def found(code: str, *edits: Edits | str) -> list[Recommendation]:
    s = edited(*edits)
    return [one for one in recommendations(s, grounds(s)) if one.code == code]


RATED = {name: {"all": {"value": 0.63, "n": 360, "chance": 0.25}} for name in ("smollm2-135m", "gemma3-270m")}
NOISE = {
    "strong": ["smollm2-135m", "gemma3-270m"], "n": 360, "flagged": {"value": 89 / 360, "n": 360, "ci": [0.205, 0.294]},
    "all_wrong": 175, "expected": 58.3, "p": 0.001, "items": [f"q{i}" for i in range(89)],
}  # fmt: skip
EDITS["good"] = {**EDITS["refused"], **EDITS["quiet"], "label_noise": NOISE, "measures/model/full": RATED}


@pytest.mark.parametrize("code", catalogue()["advice"])
def test_a_rule_speaks_in_its_case_in_its_order_and_is_silent_in_another(code: str) -> None:
    edits, n, silent = CASES["advice"][code]
    one = found(code, *edits)[0]
    assert one.n == n
    assert found(code, *silent) == []
    size, _, what = one.action.partition(": ")
    assert size.split()[0] == str(n)
    assert 2 <= len(what.split()) <= 26
    # The whole set comes first, then what buys most, five lines at most.
    todo = list(recommendations(s := edited(*edits), grounds(s)))
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
        (one,) = found("mend_cue", "no whole", {"evidence/cues": {cue: {"value": 1 / FLAGGED, "n": FLAGGED}}})
        assert (one.n, one.filters) == (1, f"verdict=flagged&cue={cue}")
    none = edited("none flagged")
    assert flagged_sum(none, grounds(none)) == ""


def test_an_advice_has_the_direction_of_the_set_and_the_words_of_a_cue() -> None:
    (whole,), cues = found("mend_whole", "says"), found("mend_cue", "says")
    assert re.match(r"200 of 360 .*distractors .*\(80 ", whole.action)
    assert (whole.points, whole.filters) == (pytest.approx(1 / 3), "key=is%20the%20shortest%20option")
    assert "length" not in [one.filters.partition("&cue=")[2] for one in cues]
    assert any(re.search("“always” in 7, .*“never” in 5; ", one.action) for one in cues)
    (fewer,) = found("mend_whole", "says", {"evidence/whole/rule": "R031", "evidence/whole/keys": 20})
    assert re.match(r"300 of 360 .* no absolute word.*\(240 ", fewer.action)
    assert not found("mend_whole", {"evidence": None})


@pytest.mark.parametrize(("cues", "names", "n", "says"), cases("report", "other_cues"))
def test_advice_on_other_cues_names_what_lint_finds_or_goes(
    cues: dict[str, float], names: dict[str, dict[str, int]], n: int, says: list[str]
) -> None:
    counted = {cue: {"value": share, "n": FLAGGED} for cue, share in cues.items()}
    lines = found("other_cues", "no whole", {"evidence/cues": counted, "evidence/names": names})
    assert [one.n for one in lines] == [n] * bool(n)
    assert all(one.action.count(name) == 1 for one in lines for name in says)


EMPTY: Edits = {"kr20": {}, "negative": {}, "unpicked": {}, "misled": {}}


def test_keys_of_a_list_with_a_measured_precision_are_to_be_checked() -> None:
    items = [f"q{i}" for i in range(9)]
    noise = {"strong": ["a"], "n": 360, "flagged": {"value": 0.025, "n": 360}, "items": items}
    keys = {"planted": 0.05, "precision": {"value": 2 / 3, "n": 18}}
    analysed = {"models": ["a"] * 5, "n": 360, "keys": keys}
    (review,) = found("review_keys", "good", {"label_noise": noise, "item_analysis": analysed | EMPTY})
    assert numbers(review.action) == "9 3"


AUDITORS = (
    "encoder",
    "probe",
    "heuristics/least_overlap",
    "leave_one_out/smollm2-135m",
    "leave_one_out/gemma3-270m",
)


def test_no_advice_asks_for_what_cannot_be_told() -> None:
    """Weak models that agree say nothing of keys, and small sets get a limit."""
    weak = {name: {"all": {"value": 0.38, "n": 360, "chance": 0.25}} for name in RATED}
    luck = {**NOISE, "p": 0.2}
    of_luck = ({"label_noise": luck}, {"label_noise": {**luck, "strong": ["gone"]}})
    for wrong in ({"measures/model/full": weak}, *of_luck):
        assert found("review_keys", "good", wrong) == []
    # The encoder is the independent auditor of the demo, and shares the level with four others.
    rate = 0.25 + minimum_detectable_difference(500, 0.25, 1 - 0.05 / 5)
    encoder = {"value": 0.25, "n": 500, "chance": 0.25, "noticeable": rate}
    for kept, more, shown in (
        (238, {}, "238 9.9 5.0"),
        (500, {"splits/all": 600, "residual/encoder": encoder}, "500 6.7 5.0 490"),
        (1, {f"residual/{one}/noticeable": None for one in AUDITORS}, "1 5.0"),
    ):  # fmt: skip
        (less,) = found("show_less", {"evidence": None, "label_noise": None, "splits/kept": kept, **more})
        assert numbers(less.action) == shown


def test_an_advice_opens_its_items_in_the_explorer_else_the_evidence() -> None:
    ids = ["a,b", "c d"]
    s = edited("says", {"benchmark/defects": {"empty_choice": {"n": 2, "items": ids}}})
    (defects,) = [one for one in recommendations(s, grounds(s)) if one.code == "mend_defects"]
    assert defects.filters == "only=a%252Cb%2Cc%2520d"
    pages = [render(s, {"explorer": there})["report.html"] for there in (True, False)]
    assert 'href="explorer.html#key=is%20the%20shortest%20option"' in pages[0]
    assert "explorer.html" not in pages[1]
    assert all(f'href="#{one.section}"' in pages[1] for one in recommendations(s, grounds(s)))
    assert pages[0].count("122 items flagged: ") == 1
    many = edited("quiet", {"benchmark/defects": {"empty_choice": {"n": 30, "items": ids}}})
    assert "" in [one.filters for one in recommendations(many, grounds(many)) if one.code == "mend_defects"]


def numbers(sentence: str) -> str:
    """The numbers of a sentence, in their order."""
    return " ".join(re.findall("\u2212?[0-9][0-9.]*(?<!\\.)", sentence))


def code_of(verdict: str) -> str:
    """The code whose text begins like this verdict, up to the first value in it."""
    texts = {code: re.sub(r"{% set .*? %}", "", text) for code, (_, text) in catalogue()["verdicts"].items()}
    starts = {code: re.split("{{|{%", text)[0].strip() for code, text in texts.items()}
    return max(
        (code for code in starts if verdict.startswith(starts[code])), key=lambda code: len(starts[code])
    )


@pytest.mark.parametrize(("edits", "verdict", "number", "kept"), CASES["first_screens"])
def test_the_first_screen_says_in_two_sentences_whether_to_trust_and_how_much(
    edits: list[str], verdict: str, number: str | None, kept: str
) -> None:
    first = opening(edited(*edits))
    assert f"{code_of(first.verdict)} {numbers(first.verdict)}".strip() == verdict
    assert len(first.verdict.split()) <= 20
    assert (numbers(first.number) if first.number else None) == number
    hidden = {"passage"} if "passage hidden" in edits else {"question"}
    assert set(re.findall("question|passage", first.verdict + first.number)) <= hidden
    said = [one for one, words in first.checks if "kept" in words or "are robust" in words]
    assert said == [kept] * bool(kept)
    assert any("are robust:" in words for _, words in first.checks) == (kept == "passed")
    forbidden = "settle|outside this screen|low on robust|absolutes and hedges|inconclusive|certif"
    assert not re.search(forbidden, " ".join([first.verdict, *(one.action for one in first.todo)]))
    every = " ".join([first.number, *(words for _, words in first.checks)])
    assert not ("None of" in every and "still answer" in every)


@pytest.mark.parametrize(("edits", "together"), cases("report", "failed_with_audit"))
def test_a_failed_run_whose_audit_did_not_fail_says_how_both_go_together(
    edits: list[Edits | str], together: bool
) -> None:
    (kept,) = [words for _, words in opening(edited(*edits)).checks if words.startswith("238 items")]
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
    for state in ("alone", "passed", "refused", "stopped", "trial"):
        for text in words_of(opening(edited("quiet", few, state))):
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
