"""The number to quote with its interval, or why there is none."""

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

FIGURES = "38.9 % full (n = 360, chance 25.0 %), 36.9 % without the question; quote 38.9 % (34.0 to 44.0)."
DEMO = Path(__file__).parents[2] / "results" / "benign_demo"
GUESSES: Edits = {"measures/model/full/gemma3-270m/all/significant": False}
OUTSIDER: Edits = {"models/gemma3-270m/is_voter": False}


def of_gemma(*edits: Edits) -> Quote:
    s = edited(*edits)
    return quotes(s, grounds(s))[1]


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({}, FIGURES),
        ({**PASSED, **OUTSIDER}, FIGURES),
        ({**PASSED, **NONE_FLAGGED}, FIGURES),
        (TRIAL, "no number to quote, because this is a trial run."),
        (LETTERS, "because these voters pick by position"),
        (GUESSES, "because chance could explain it."),
    ],
)
def test_the_number_to_quote_is_the_score_unless_it_says_nothing(edits: Edits, said: str) -> None:
    found = of_gemma(edits)
    assert (found.number is None) == (said != FIGURES)
    assert said in found.line


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
    assert score["missing"] is None
    assert tree["verdict"].startswith("Do not trust the full score")
    assert said().startswith("# demo-benign")
    assert {"reader", "options_worth", "checks", "advice", "signature", "state"} <= tree.keys()
