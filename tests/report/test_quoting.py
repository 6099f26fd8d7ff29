"""The number to quote: an adjusted or a robust score with its interval, or the evidence that is missing for one."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from robustify.cli import cli
from robustify.judging.summary.quantity import Quantity
from robustify.report.advice import grounds
from robustify.report.opening import Quote, options_worth, quotes
from tests.report.test_advice import LETTERS, NONE_FLAGGED, PASSED, TRIAL, Edits, edited

FIGURES = (
    "38.9 % full (n = 360, chance 25.0 %), 36.9 % without the question; quote 32.0 % (26.1 to 38.0), partly"
)
DEMO = Path(__file__).parents[2] / "results" / "benign_demo"
WORTH_FEW = {"code": "worth_few", "params": {"worth": 40.0, "n": 60, "limit": 100}}
NO_ADJUSTED: Edits = {"adjustment": None, "measures/model/adjusted": {}}
WITHHELD: Edits = {
    "adjustment/status": "withheld",
    "adjustment/reason": WORTH_FEW,
    "measures/model/adjusted": {},
}
GUESSES: Edits = {"measures/model/full/gemma3-270m/all/significant": False}
OUTSIDER: Edits = {"models/gemma3-270m/is_voter": False}
ALONE: Edits = {"reasons": [{"code": "no_independent_auditor", "params": {}}]}


def of_gemma(*edits: Edits) -> Quote:
    s = edited(*edits)
    return quotes(s, grounds(s))[1]


@pytest.mark.parametrize(
    ("edits", "how", "said"),
    [
        ({}, "partly adjusted", FIGURES),
        ({**PASSED, **OUTSIDER}, "robust items", "quote 34.9 % (29.1 to 41.1), robust items"),
        (PASSED, "partly adjusted", "quote 32.0 %"),
        ({**PASSED, **NONE_FLAGGED}, "all items", "quote 38.9 % (34.0 to 44.0), all items"),
        (TRIAL, "", "no number to quote, because this is a trial run."),
        (LETTERS, "", "because these voters pick by position"),
        (GUESSES, "", "because chance could explain it."),
        (NO_ADJUSTED, "", "an adjusted score needs at least 100 items with their texts, and kept items need"),
        ({**WITHHELD, **ALONE}, "", "150 items, and kept items need an auditor that did not vote (role: under_test)."),
        ({**WITHHELD, **PASSED}, "", "need an auditor that did not vote"),
    ],
)  # fmt: skip
def test_the_number_to_quote_holds_or_its_missing_evidence_is_named(
    edits: Edits, how: str, said: str
) -> None:
    found = of_gemma(edits)
    assert found.how == how
    assert (found.number is None) == (how == "")
    assert said in found.line


@pytest.mark.parametrize(("low", "told"), [(0.02, True), (-0.01, False)])
def test_points_of_test_taking_are_said_only_if_they_can_be_told_from_luck(low: float, told: bool) -> None:
    earned = {"gemma3-270m": {"all": {"value": 0.05, "n": 360, "ci": [low, 0.1 - low]}}}
    found = of_gemma({"measures/model/test_taking": earned})
    assert found.line.endswith("At least 5.0 points (2.0 to 8.0) are test-taking.") == told
    assert (found.points == "") == (not told)


def test_options_are_worth_one_over_the_accuracy_of_the_reader() -> None:
    worth = options_worth(Quantity(value=0.245, n=11939, ci=(0.237, 0.253)))
    assert worth.value == pytest.approx(4.08, abs=0.01)
    assert worth.ci == pytest.approx((3.95, 4.22), abs=0.01)
    assert options_worth(Quantity(value=0.0, n=9)) is None


def test_the_report_is_a_table_in_three_formats_and_one_structured_object() -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["report", str(DEMO), *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "| gemma3-270m | 38.9 % (34.0 to 44.0) | 360 | 25.0 % |" in said("--table")
    assert r"gemma3-270m & 38.9 \% (34.0 to 44.0) & 360" in said("--format", "latex")
    rows = list(csv.DictReader(said("--format", "csv").splitlines()))
    (quote,) = (row for row in rows if (row["Model"], row["column"]) == ("gemma3-270m", "Quote"))
    tree = json.loads(said("--json"))
    (score,) = (one for one in tree["scores"] if one["model"] == "gemma3-270m")
    assert float(quote["value"]) == score["quote"]["value"]
    assert [float(quote["low"]), float(quote["high"])] == score["quote"]["ci"]
    assert (score["how"], score["missing"]) == ("partly adjusted", None)
    assert tree["verdict"].startswith("Do not trust the full score")
    assert said().startswith("# demo-benign")
    assert {"reader", "options_worth", "checks", "advice", "signature", "state"} <= tree.keys()
