"""The number to quote with its interval, or why there is none."""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from robustify.cli import cli
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import FORMAT, Summary, read
from robustify.report import render
from robustify.report.opening import options_worth, report_tree
from robustify.report.quoting import Quote, quote_table, quotes
from robustify.report.verdict import grounds
from tests.report.test_advice import EDITS, Edits, edited, numbers
from tests.support.cases import contents
from tests.support.exported_run import made_run
from tests.support.trees import filled

DEMO = Path(__file__).parents[2] / "results" / "benign_demo"
GEMMA = "models/gemma3-270m/looks"
LOOKS = "gemma's looks "


def of_gemma(*edits: Edits | str) -> Quote:
    s = edited(*edits)
    return quotes(s, grounds(s))[1]


@pytest.mark.parametrize(("edits", "quoted", "owed", "reason"), contents("report")["quotes"])
def test_the_number_to_quote_and_the_sentence_on_looks_have_their_numbers(
    edits: list[str], quoted: str | None, owed: str, reason: str
) -> None:
    found = of_gemma(*edits)
    assert numbers(found.stated) == "38.9 360 25.0 36.9"
    assert (found.number is None) == bool(found.missing) == (quoted is None)
    assert (numbers(found.quoted), numbers(found.owed), found.reason) == (quoted or "", owed, reason)
    assert found.number is None or (found.number.kind == "score") == (edits != [f"{LOOKS}claimed"])
    assert ("assumes" in found.owed) == bool(owed and edits[:1] == [f"{LOOKS}claimed"])
    assert all(text in found.line for text in (found.stated, found.quoted, found.owed))
    assert re.sub(r"\d\.\d|[.,;:]", "", found.owed).count("%") == 0


def test_a_score_without_the_question_on_other_items_has_its_own_n() -> None:
    blind = "measures/model/choices_only/gemma3-270m/all"
    few = of_gemma({f"{blind}/n": 12, f"{blind}/value": 1.0})
    assert numbers(few.stated) == "38.9 360 25.0 100.0 12"


def test_a_score_of_readable_answers_has_its_ends_with_the_others_counted_as_wrong_and_right() -> None:
    full = "measures/model/full/gemma3-270m/all"
    few = of_gemma({f"{full}/n": 90, f"{full}/value": 1.0, f"{GEMMA}/unanswered": 270})
    assert (few.unread, few.if_unread) == (270, (0.25, 1.0))
    assert numbers(few.stated) == "100.0 90 360 25.0 25.0 100.0 270 36.9 360"
    assert few.tree()["if_unread"] == (0.25, 1.0)
    # Answers that the model was not asked for are not unreadable.
    part = of_gemma({f"{full}/n": 90, f"{full}/value": 1.0})
    assert (part.unread, part.tree()["if_unread"]) == (0, None)


def test_one_run_may_claim_one_model_and_not_tell_of_the_others() -> None:
    s = edited(f"{LOOKS}claimed", {"models/smollm2-135m/looks": EDITS[f"{LOOKS}of two options"][GEMMA]})
    rows = {row[0].main: [cell.main for cell in row[5:]] for row in quote_table(quotes(s, grounds(s))).rows}
    assert rows["gemma3-270m"] == [
        "4.0 points (1.2 to 6.8)", "wrong, blind", "claimed", "–", "34.9 % (29.0 to 40.8)",
    ]  # fmt: skip
    assert rows["smollm2-135m"][:4] == ["–", "–", "cannot tell", "two_options"]
    page = render(s, {})
    assert page["report.html"].count('class="bar brought"') == 1
    assert page["figures/scores.svg"].count('class="bar"') == 2
    assert "4.0 points" in page["report.md"]
    tree = {one["model"]: one for one in report_tree(s)["scores"]}
    assert tree["gemma3-270m"]["kind"] == "score less looks"
    assert tree["gemma3-270m"]["looks_sources"] == ["wrong", "blind"]
    assert (tree["smollm2-135m"]["kind"], tree["smollm2-135m"]["reason"]) == ("score", "two_options")
    assert tree["smollm2-135m"]["looks"] == {"value": None, "n": 360, "ci": None}


def test_answers_without_texts_and_unread_ones_are_told_apart_from_looks_of_0(tmp_path: Path) -> None:
    s = made_run(tmp_path, text=False, view="full").summary
    found = quotes(s, grounds(s))
    assert {one.reason for one in found if not one.missing} <= {"no_texts"}
    assert {one.looks.value for one in found if one.looks} == {None}
    reason = {"code": "looks_unanswered", "params": {"n": 40}}
    unread = of_gemma(f"{LOOKS}not above 0", {f"{GEMMA}/reason": reason})
    assert numbers(unread.owed) == "0.6 \u22121.4 2.6 40"
    assert quote_table([unread]).rows[0][8].main == "unanswered"


@pytest.mark.parametrize("name", ["all", "looks", "item", "<b>x</b>", "claimed", "%", "a" * 300])
def test_a_model_may_be_named_like_a_field_or_a_tag(name: str) -> None:
    tree = json.loads((DEMO / "summary.json").read_text("utf-8").replace("gemma3-270m", name))
    tree["format"] = FORMAT
    tree["models"][name]["looks"] = EDITS[f"{LOOKS}claimed"][GEMMA]
    s = read(filled(Summary, tree))
    pages = render(s, {})
    assert "<b>x</b>" not in pages["report.html"].replace("<b><b>", "")
    assert [one.number.kind for one in quotes(s, grounds(s)) if one.number] == ["score", "score less looks"]
    assert pages["report.html"].count('class="bar brought"') == 1


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
    assert "49.6 %" in tree["verdict"]
    assert said().startswith("# demo-benign")
    assert {"reader", "options_worth", "checks", "advice", "signature", "state"} <= tree.keys()


def test_explain_the_notebook_and_the_findings_say_what_looks_bring() -> None:
    done = CliRunner().invoke(cli, ["explain", str(DEMO)])
    tree = json.loads((DEMO / "summary.json").read_text("utf-8"))
    for name, model in tree["models"].items():
        (line,) = (line for line in done.stderr.splitlines() if f"robustify: {name}: " in line)
        assert f"{100 * model['looks']['value']:.1f} points" in line
    docs = Path(__file__).parents[2] / "docs"
    cells = json.loads((docs / "from_python.ipynb").read_text("utf-8"))["cells"]
    assert [cell for cell in cells if cell["cell_type"] == "code" and "looks" in "".join(cell["source"])]
    looks = json.loads((DEMO.parent / "atlas" / "mmlu_pro.json").read_text("utf-8"))["looks"]
    ends = " to ".join(f"{100 * share:.1f}" for share in looks["range"])
    assert f"{ends} points" in (docs / "findings.md").read_text("utf-8")


def test_the_paper_has_its_two_sections_and_its_two_pictures() -> None:
    paper = (DEMO.parents[1] / "docs" / "paper.md").read_text("utf-8")
    heads = re.findall(r"^## (.+)$", paper, re.MULTILINE)
    assert {"Evaluation validity risks", "Security considerations"} <= {*heads}
    pictures = re.findall(r"^!\[.+\]\(\.\./(results/benign_demo/figures/(\w+)\.svg)\)$", paper, re.MULTILINE)
    assert [name for _, name in pictures] == ["order", "topics"]
    assert all((DEMO.parents[1] / path).read_text("utf-8").startswith("<svg") for path, _ in pictures)
