"""One state, one exit code, and one number wherever a run is printed, and the first screens of other pages."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import robustify as rb
from robustify.cli.terminal import state_code
from robustify.export.dataset import export_dataset
from robustify.freeform.metrics import summarise
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.judging import guardrails
from robustify.judging.measures import CHOICES_ONLY
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import AUDIT, State, read
from robustify.pipeline.free_settings import Kind
from robustify.pipeline.steps import rejudge
from robustify.report import render
from robustify.report.compare import compared, comparison_html, comparison_tables
from robustify.report.dashboard import dashboard_html
from robustify.report.format import percent
from robustify.report.free_page import free_html, grade_lines
from robustify.report.opening import closing, opening
from robustify.report.verdict import grounds, headline
from robustify.restricted.disclosure import released as releasing
from robustify.restricted.disclosure.released import rounded
from robustify.restricted.disclosure.released_page import first_of_released, released_lines
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.freeform.test_metrics import judged
from tests.freeform.test_metrics import said as labelled
from tests.report.test_advice import Edits, edited
from tests.support.exported_run import made_run, renewed
from tests.support.page_text import text_of_page
from tests.support.released import every, released

FORMER = re.compile(
    r"certif|inconclusive|not judged|\"passed\": (?:true|false)|shortcut\.jsonl", re.IGNORECASE
)
WORD = "(passed|failed|not evaluated)"
TONES = {"passed": "good", "failed": "bad", "not evaluated": "unsure"}
KINDS: dict[str, State] = {
    "passed": "passed", "failed": "failed", "not evaluated": "not evaluated", "failed check": "failed",
    "too small": "not evaluated",
}  # fmt: skip
"""State of each kind of run. The audit of the last but one passed, and its check of ties failed."""


def in_state(made: Run, folder: Path, kind: str) -> Run:
    """Return a copy of a run in which the audit has another state, or a check failed, judged by the rule itself."""
    shutil.copytree(made.folder, folder)
    tree = json.loads((folder / "summary.json").read_text())
    audit = {"failed check": "passed", "too small": "not evaluated"}.get(kind, kind)
    tree["residual"] |= {"state": audit}
    for check in tree["guardrails"]:
        fails = kind in ("failed check", "too small") and check["name"] == "ties_share"
        check["state"] = audit if check["name"] == AUDIT else "failed" if fails else "passed"
        if not fails:
            check["reason"] = {"code": "not_judged", "params": {"why": "no_audit"}}
    summary = read(tree)
    trial = Reason.of("trial_run", n=8, least=30, part=False) if kind == "too small" else None
    state, reasons = guardrails.run_state(summary.residual, summary.guardrails, (), trial)
    tree |= {"state": state, "reasons": [reason.model_dump(mode="json") for reason in reasons]}
    (folder / "summary.json").write_text(json.dumps(tree))
    return renewed(folder, "summary.json")


def said(robustify, run: Run, out: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each place that prints the state of a run, its text, and a pattern of the line with the state."""
    files = render(run.summary, run.manifest)
    yield "page", text_of_page(files["report.html"]), rf"\b{WORD} (?:No auditor|The auditors|Shortcuts still)"
    yield "report.md", files["report.md"], rf"^- \*\*{WORD}\*\* "
    yield "terminal", "\n".join(closing(run.summary, "run")), rf"^{WORD}: \d+ items"
    yield "check", robustify("check", run.folder).out, rf"^{WORD} +run "
    yield "check --json", json.loads(robustify("check", run.folder, "--json").out)["state"], WORD
    yield "compare", robustify("compare", run.folder, run.folder).out, rf"^\[[12]\] .*: {WORD}$"
    yield "dashboard", dashboard(robustify, run, out), rf"Run {WORD}\."
    page = released(run.summary)
    yield "released page", "\n".join(released_lines(page, "run")), rf"^made-up: {WORD}, "
    for command in ("lm-eval", "inspect", "dataset", "instruct"):
        done = robustify("export", command, run.folder, "-o", out / command, "--kept")
        assert done.code == 0
        yield f"export {command}", done.err, rf"State of the run: {WORD}: "
        for file in (out / command).rglob("*"):
            # The module that finds the data of the tasks says nothing of the run.
            if file.suffix in (".yaml", ".py", ".md") and file.name != "data.py":
                yield f"{command}/{file.name}", file.read_text(), rf"State of the run: {WORD}\b"


def dashboard(robustify, run: Run, out: Path) -> str:
    assert robustify("dashboard", run.folder.parent, "-o", out / "dashboard.html").code == 0
    return (out / "dashboard.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_prints_one_word_for_the_state_of_a_run_and_commands_exit_by_it(
    robustify, run: Run, tmp_path: Path, kind: str
) -> None:
    state, made, out = KINDS[kind], in_state(run, tmp_path / "runs" / "run", kind), tmp_path / "out"
    out.mkdir()
    assert (made.state, made.summary.trial) == (state, kind == "too small")
    places = {name: (text, pattern) for name, text, pattern in said(robustify, made, out)}
    assert len(places) > 20
    for name, (text, pattern) in places.items():
        # Where the audit has another state than the run, first screens show both.
        if kind == state or name not in ("page", "report.md", "terminal"):
            assert set(re.findall(pattern, text, re.MULTILINE)) == {state}, name
        assert not FORMER.search(text), name
    assert bool(re.search(r"\brobust\b", places["terminal"][0])) == (state == "passed")
    code = 7 if state == "failed" else 0
    assert (state_code(made.state), robustify("check", made.folder).code) == (code, code)
    strict = 0 if state == "passed" else 7
    assert (state_code(made.state, strict=True), robustify("check", made.folder, "--strict").code) == (
        strict,
        strict,
    )
    refused = robustify("export", "dataset", made.folder, "-o", out / "again")
    assert (refused.code, (out / "again").exists(), "--kept" in refused.err) == (code, not code, bool(code))


def test_a_run_judged_by_other_limits_exits_by_its_state(robustify, run: Run, tmp_path: Path) -> None:
    assert run.manifest["config"]["limits"]["min_items"] <= run.summary.splits.all
    command = ("judge", run.folder, "--criterion", "majority", "-q", "-o")
    done = robustify(*command, tmp_path / "again")
    again = open_run(tmp_path / "again", GUARD)
    assert done.code == state_code(again.state)
    assert (again.folder / "lm_eval_tasks").exists() == (again.state != "failed")
    assert robustify(*command, tmp_path / "more", "--strict").code == state_code(again.state, strict=True)


def test_a_run_without_a_screen_begins_with_its_state_too(robustify, tmp_path: Path) -> None:
    """By a rule for votes, a run without voters flagged nothing, and its first lines did not say why."""
    items = [
        {
            "stem": f"Box {n}?",
            "choices": [f"{n * 7 % 60} tins", f"{n} jars, {'and so ' * 5}on"][:: 1 - n % 2 * 2],
            "key": 1 - n % 2,
        }
        for n in range(60)
    ]
    (tmp_path / "boxes.json").write_text(json.dumps(items))
    made = tmp_path / "run"
    robustify("boxes.json", "--public", "--no-encoder", "--criterion", "unanimous", "-o", made)
    summary = open_run(made, GUARD).summary
    assert (summary.screen, summary.state) == (None, "not evaluated")
    assert [state for state, _ in opening(summary).checks if state] == [summary.state]


@pytest.mark.parametrize("state", TONES)
def test_items_are_robust_only_in_a_run_that_passed(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: State
) -> None:
    monkeypatch.setattr(guardrails, "run_state", lambda *_: (state, ()))
    made = rejudge(run, {}, tmp_path / "run")
    robust = made.folder / "robust.jsonl"
    assert robust.exists() == ("robust.jsonl" in made.manifest["files"]) == (state == "passed")
    assert not robust.exists() or robust.read_bytes() == (made.folder / "kept.jsonl").read_bytes()


def test_a_run_of_an_earlier_version_is_refused_in_a_line_and_judged_again(
    robustify, run: Run, tmp_path: Path
) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text())
    manifest["config"]["limits"]["min_robust"] = manifest["config"]["limits"].pop("min_kept")
    for name, former in (("kept", "robust"), ("flagged", "shortcut")):
        (folder / f"{name}.jsonl").rename(folder / f"{former}.jsonl")
        manifest["files"][f"{former}.jsonl"] = manifest["files"].pop(f"{name}.jsonl")
        for file in ("verdicts.csv", "evidence.jsonl"):
            text = (folder / file).read_text()
            (folder / file).write_text(
                text.replace(f",{name},", f",{former},").replace(f'"{name}"', f'"{former}"')
            )
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text()) | {"format": 3}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "run.json").write_text(json.dumps(manifest))
    renewed(folder, "summary.json", "verdicts.csv", "evidence.jsonl")
    for command in (("check",), ("explain",), ("export", "dataset")):
        more = ("-o", tmp_path / "out") if command[0] == "export" else ()
        refused = robustify(*command, folder, *more)
        assert (refused.code, refused.err.count("\n")) == (3, 1)
        assert "robustify judge" in refused.err
    assert robustify("judge", folder).code == (7 if run.state == "failed" else 0)
    again = open_run(folder, GUARD)
    assert again.verdicts == run.verdicts
    assert not (folder / "shortcut.jsonl").exists()
    assert read(json.loads((folder / "summary.json").read_text())) == again.summary
    assert robustify("check", folder).code in (0, 7)


@pytest.mark.parametrize("state", TONES)
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


def test_a_comparison_calls_no_item_robust_and_names_the_state_of_each_run(run: Run, tmp_path: Path) -> None:
    runs = [in_state(run, tmp_path / state.replace(" ", "-"), state) for state in TONES]
    words = text_of_page(comparison_html(compared([one.folder for one in runs], GUARD)))
    heads = next(line for line in words.splitlines() if line.startswith("| Run "))
    assert heads.split(" | ")[-2:] == ["Kept", "State |"]
    for place, state in enumerate(TONES, start=1):
        assert re.search(rf"^\| \[{place}\] .* \| {state} \|$", words, re.M)
    assert "robust |" not in words.casefold()


def test_a_comparison_warns_of_two_modes_only_if_both_runs_asked(run: Run, tmp_path: Path) -> None:
    blind = made_run(tmp_path / "blind", None, view="choices_only")
    page = text_of_page(comparison_html(compared([run.folder, blind.folder], GUARD)))
    assert "by letter in one run" not in page


FEW: Edits = {
    "splits/flagged": 3, "screen/flagged/value": 0.01, "screen/cut/false_share/value": 0.0, "measures/set/reader": {},
}  # fmt: skip


def test_a_failed_run_is_nowhere_said_to_be_trusted(run: Run, tmp_path: Path) -> None:
    tones = {}
    for state in TONES:
        s = edited({**FEW, "state": state, "measures/model/full": {}, "measures/model/cloze_chars": {}})
        tones[state] = headline(grounds(s))[0]
    assert tones == {"passed": "good", "failed": "unsure", "not evaluated": "good"}
    folder = tmp_path / "runs"
    for state in TONES:
        in_state(run, folder / state.replace(" ", "-"), state)
    page = dashboard_html(folder, tmp_path / "dashboard.html", GUARD)
    badges = re.findall(r'<span class="badge">(passed|failed|not evaluated)</span>', page)
    assert sorted(set(badges)) == sorted(TONES)
    # The head counts the states that the rows show, of the latest run of each benchmark.
    assert re.findall(rf'<p class="verdict (\w+)">[^<]*: (\d+) {WORD}\.</p>', page) == [
        ("good", "1", "passed")
    ]


GRADED: tuple[Kind, ...] = ("numeric", "explanation")


def grades(unscored: int) -> list[GradeResult]:
    """Sixty answers of each of two models, of two kinds; of the second kind so many have no score."""
    return [
        GradeResult(
            f"i{at}", model, GRADED[at // 30], "g", "truncated" if (gone := at >= 60 - unscored) else "scored",
            None if gone else float((at * (1 + (model == "b"))) % 3 == 0), None, "r",
        )
        for model in "ab" for at in range(60)
    ]  # fmt: skip


def free_summary(unscored: int = 0) -> dict[str, Any]:
    """Their summary."""
    topics = ("heat", "<b>light</b>")
    items = [FreeItem(f"i{at}", "q", "numeric", "1", topic=topics[at % 2]) for at in range(60)]
    return summarise(items, grades(unscored)) | {"left_out": {"no_nuggets": 2}}


def test_below_eighty_percent_bounds_alone_are_shown_and_the_verdict_says_so() -> None:
    for unscored, said in ((6, "All answers were graded by rules"), (7, "Do not compare these scores yet")):
        summary = free_summary(unscored)
        page = free_html(summary)
        assert said in re.findall(r'<p class="verdict[^>]*>.*?</p>', page)[0]
        shown = re.findall(r"^\| [ab] \| explanation.*", text_of_page(page), re.M)
        assert len(shown) == 2
        printed = [line for line in grade_lines(summary) if "explanation" in line]
        for row in (*shown, *printed):
            assert ("coverage below 80 %" in row) == (unscored == 7)
            assert " less " in row or len(re.findall(r"\d+\.\d %", row)) >= 2
        assert sum(" less " in row for row in printed) == 1


def test_kinds_and_topics_are_shown_and_names_are_escaped() -> None:
    page = free_html(free_summary())
    words = text_of_page(page)
    for topic in ("heat", "<b>light</b>"):
        for kind in GRADED:
            assert all(f"| {topic} | {kind} | {model} |" in words for model in "ab")
    assert "no nuggets 2" in words
    assert "<b>light" not in page
    assert "<script" not in page


def test_a_judge_whom_nobody_checked_is_said_first() -> None:
    for labels, said in (
        ((), "Trust the scores with care"),
        (tuple(labelled(40)), "The judge agrees with human labels"),
    ):
        page = free_html(summarise([], judged(40), labels) | {"left_out": {}})
        assert said in re.findall(r'<p class="verdict[^>]*>.*?</p>', page)[0]


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
    lines = comparison_tables(compared([run.folder, run.folder], GUARD), "markdown")
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
        assert any(f"| {name}, choices only, all | {right} " in line for line in lines)
        assert cleared[f"{name}: choices only, all items"] == rounded(score.value, 0.05)
        assert re.search(rf"{re.escape(name)}, which voted, .*: {re.escape(right)} ", card)
        assert told.loc[f"measures.model.choices_only.{name}.all", "value"] == score.value
