"""Choices-only accuracy is one number: on the page, in `compare`, on the released page, on the card, and in Python."""

import re
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import robustify as rb
from robustify.export.dataset import export_dataset
from robustify.judging.measures import CHOICES_ONLY
from robustify.pipeline.steps import rejudge
from robustify.report.compare import compared, comparison_lines
from robustify.report.format import percent
from robustify.restricted.disclosure import released as releasing
from robustify.restricted.disclosure.released import rounded
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support.exported_run import renewed
from tests.support.page_text import text_of_page
from tests.support.released import released

DEMO = Path(__file__).parents[2] / "results" / "benign_demo"
MODELS = ("smollm2-135m", "gemma3-270m")
VIEWS = {"letter": "choices_only", "text": "choices_only_text"}
RIGHT = {"letter": ("23.3 %", "25.8 %"), "text": ("31.9 %", "36.9 %")}


def asked_by(modes: tuple[str, ...], screen: str, folder: Path) -> Run:
    """The demo as if it had been asked in these modes only and screened in one of them, counting votes."""
    shutil.copytree(DEMO, folder / "asked")
    answers = folder / "asked" / "answers.parquet"
    unasked = [view for mode, view in VIEWS.items() if mode not in modes]
    table = pq.read_table(answers)
    pq.write_table(table.filter(pc.invert(pc.is_in(table["view"], pc.cast(unasked, "string")))), answers)
    rules = {
        "screen.mode": screen, "screen.criterion": "1-of-2", "screen.force_letters": True, "explore": False,
    }  # fmt: skip
    return rejudge(renewed(folder / "asked", answers.name), rules, folder / "run")


@pytest.mark.parametrize(("modes", "screen"), [(("text",), "text"), (("letter", "text"), "letter")])
def test_choices_only_is_one_number_wherever_it_is_shown(
    modes: tuple[str, ...], screen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "BUDGET", 1000.0)
    run = asked_by(modes, screen, tmp_path)
    found = {name: parts.all for name, parts in CHOICES_ONLY.read(run.summary).items()}
    page = text_of_page((run.folder / "report.html").read_text())
    lines = comparison_lines(compared([run.folder, run.folder], GUARD))
    (cleared,) = ({one.name: one.value for one in page.numbers} for page in [released(run.summary)])
    card = next(
        p for p in export_dataset(run, tmp_path / "card", kept=True) if p.name == "README.md"
    ).read_text()
    told = rb.open(run.folder).summary
    other = next(mode for mode in VIEWS if mode != screen)
    for name, right, beside in zip(MODELS, RIGHT[screen], RIGHT[other], strict=True):
        score = found[name]
        assert score.value is not None
        assert percent(score.value) == right
        assert f"| Choices only | {name} [voter] | {right} " in page
        assert (f"| Choices only, by {other} | {name} [voter] | {beside} " in page) == (other in modes)
        assert any(f"{name}, choices only, all: {right} " in line for line in lines)
        assert cleared[f"{name}: choices only, all items"] == rounded(score.value, 0.05)
        assert re.search(rf"{re.escape(name)}, which voted, .*: {re.escape(right)} ", card)
        assert told.loc[f"measures.model.choices_only.{name}.all", "value"] == score.value


def test_the_committed_demo_says_how_often_its_voters_are_right_without_the_question() -> None:
    lines = comparison_lines(compared([DEMO, DEMO], GUARD))
    page = {number.name: number.value for number in released(open_run(DEMO, GUARD).summary).numbers}
    for name, right, cleared in zip(MODELS, RIGHT["text"], (0.3, 0.35), strict=True):
        assert any(f"{name}, choices only, all: {right} " in line for line in lines)
        assert page[f"{name}: choices only, all items"] == cleared
