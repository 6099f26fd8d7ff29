"""First screens of released pages, graded answers, comparisons, and dashboards: verdict, number, next step, one state."""

import re
from pathlib import Path

import pytest

from robustify.judging.summary.result import State
from robustify.report.advice import grounds, headline
from robustify.report.compare import comparison_html
from robustify.report.compare.comparing import compared
from robustify.report.dashboard import dashboard_html
from robustify.report.free_page import free_html
from robustify.restricted.disclosure.released_page import first_of_released
from robustify.runs.run import Run
from robustify.wings import GUARD
from tests.report.test_advice import Edits, edited
from tests.report.test_free_page import free_summary
from tests.report.test_one_state import in_state
from tests.support.exported_run import made_run
from tests.support.page_text import text_of_page
from tests.support.released import every

TONES = {"passed": "good", "failed": "bad", "not evaluated": "unsure"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("state", list(TONES))
def test_a_released_page_begins_with_what_its_state_means(state: State) -> None:
    page = every(edited({"state": state})).filled()
    first = first_of_released(page)
    assert first.tone == TONES[state]
    assert len(first.verdict.split()) > 3
    shares = {(n.measure, n.subject): n for n in page.numbers if n.value is not None}
    assert f"{100 * shares['flagged', ''].value:.0f} % of {page.n} items" in first.number
    full = {name for measure, name in shares if measure == "full"}
    assert len(first.checks) == len(full) == 2
    (todo,) = first.todo
    assert ("kept items" in todo.action) == (state != "passed")
    # A published page does not name the guardrails, and says no more than the evaluator's page.
    published = first_of_released(every(edited({"state": state})).published())
    assert (published.tone, published.number) == (first.tone, first.number)


@pytest.mark.parametrize(("unscored", "code", "tone"), [(0, "rules", "good"), (7, "coverage", "bad")])
def test_a_page_of_graded_answers_begins_with_scores_and_what_to_do(
    unscored: int, code: str, tone: str
) -> None:
    head = text_of_page(free_html(free_summary(unscored))).partition("By kind of answer")[0]
    assert f'class="verdict {tone}"' in free_html(free_summary(unscored))
    assert head.count("right") == 2
    assert "n = 30" in head
    assert (f"{2 * unscored} answers" in head) == (code == "coverage")


def test_a_comparison_calls_no_item_robust_and_names_the_state_of_each_run(made: Run, tmp_path: Path) -> None:
    runs = [in_state(made, tmp_path / state.replace(" ", "-"), state) for state in TONES]
    words = text_of_page(comparison_html(compared([run.folder for run in runs], GUARD)))
    heads = next(line for line in words.splitlines() if line.startswith("| Run "))
    assert heads.split(" | ")[-2:] == ["Kept", "State |"]
    for place, state in enumerate(TONES, start=1):
        assert re.search(rf"^\| \[{place}\] .* \| {state} \|$", words, re.M)
    assert "robust |" not in words.casefold()


def test_a_comparison_warns_of_two_modes_only_if_both_runs_asked(made: Run, tmp_path: Path) -> None:
    blind = made_run(tmp_path / "blind", None, view="choices_only")
    page = text_of_page(comparison_html(compared([made.folder, blind.folder], GUARD)))
    assert "by letter in one run" not in page


FEW: Edits = {
    "splits/flagged": 3, "screen/flagged/value": 0.01, "screen/cut/false_share/value": 0.0, "measures/set/reader": {},
}  # fmt: skip


def test_a_failed_run_is_nowhere_said_to_be_trusted(made: Run, tmp_path: Path) -> None:
    tones = {}
    for state in TONES:
        s = edited({**FEW, "state": state, "measures/model/full": {}, "measures/model/cloze_chars": {}})
        tones[state] = headline(grounds(s))[0]
    assert tones == {"passed": "good", "failed": "unsure", "not evaluated": "good"}
    folder = tmp_path / "runs"
    for state in TONES:
        in_state(made, folder / state.replace(" ", "-"), state)
    page = dashboard_html(folder, tmp_path / "dashboard.html", GUARD)
    badges = re.findall(r'<span class="badge">(passed|failed|not evaluated)</span>', page)
    assert sorted(set(badges)) == sorted(TONES)
