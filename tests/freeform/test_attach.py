"""Free response beside a run's other scores: bounds, matching, and what stays when a run is judged again."""

import contextlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify import config as configs
from robustify import pipeline
from robustify.errors import AuthorisationError, DataError
from robustify.freeform.human import HumanLabel
from robustify.freeform.judge.judges import Call, Completion, HttpJudge
from robustify.freeform.judge.prompting import Message
from robustify.freeform.questions import convert_item
from robustify.freeform.report import attached
from robustify.freeform.schema import FreeItem, GradeResult, JudgeTrace, Status
from robustify.item import Item
from robustify.judge.free_response import FreeGrades, _rates
from robustify.run import Run, open_run, write_items
from tests.freeform.scripted import run, write_lines
from tests.support.fake_scorer import fake_models, finds
from tests.support.page_text import text_of_page

COLOURS = ("red", "green", "blue", "grey")
N = 24


def made_items() -> list[Item]:
    """Of the first half every key says so in its own text; two stems cannot be asked without choices."""
    stems = [f"What colour has box number {i}?" for i in range(N)]
    stems[5] = stems[17] = "Which of the following is a colour?"
    return [
        Item(
            f"q{i:02d}",
            stem,
            tuple(f"{c} right" if i < N // 2 and j == i % 4 else c for j, c in enumerate(COLOURS)),
            i % 4,
            "boxes",
        )
        for i, stem in enumerate(stems)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of these items by two fake models, made once."""
    folder = tmp_path_factory.mktemp("made")
    write_items(folder / "items.jsonl", made_items())
    path = folder / "boxes.yaml"
    path.write_text(
        "name: boxes\nsensitivity: public\ndata: items.jsonl\nmodels: [one, two]\n"
        "limits: {min_robust: 1}\nscreen: {criterion: unanimous}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        fake_models(patch, finds("right"))
        return pipeline.robustify(configs.load(path), folder / "out", folder / "cache").folder


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Run:
    shutil.copytree(made, tmp_path / "out")
    return open_run(tmp_path / "out")


def free_items(items: Sequence[Item] = ()) -> list[FreeItem]:
    return [convert_item(item) for item in items or made_items()]


def grade(
    item: str, score: float | None, status: Status = "scored", model: str = "one", judge: str = ""
) -> GradeResult:
    trace = JudgeTrace(judge, "grader/mcq@2.0", "0" * 64, (), (_word(score),), 1.0, judge == model)
    return GradeResult(
        item, model, "short_text", "mcq", status, score, _word(score), "",
        method="judge" if judge else "deterministic", judge=trace if judge else None,
        flags=("self_judging",) if judge == model else (), answer_sha256=f"{item}/{model}",
    )  # fmt: skip


def _word(score: float | None) -> str | None:
    return None if score is None else "correct" if score else "incorrect"


def graded(model: str = "one", judge: str = "big") -> list[GradeResult]:
    """22 answers: 12 right, 4 of them by a judge; 5 wrong, one of them by a judge; 3 cut off, 2 undecided."""
    ids = [item.id for item in free_items() if not item.excluded_reason]
    rows = [grade(i, 1.0, model=model, judge=judge if n < 4 else "") for n, i in enumerate(ids[:12])]
    rows += [grade(i, 0.0, model=model, judge=judge if n < 1 else "") for n, i in enumerate(ids[12:17])]
    rows += [grade(i, None, "truncated", model) for i in ids[17:20]]
    return rows + [grade(i, None, "needs_judge", model) for i in ids[20:]]


def beside(run: Run, grades: Sequence[GradeResult], labels: Sequence[HumanLabel] = ()) -> Run:
    return pipeline.attach_free(run, attached(grades, free_items(), run.items or (), labels), run.folder)


@pytest.fixture(scope="module")
def joined(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run with the grades of two models, made once; what was compared is in the grades and must not be in the run."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("joined") / "out")
    rows = [replace(g, extracted="zanzibar", reference="zanzibar") for g in [*graded(), *graded("three")]]
    return beside(open_run(folder), rows)


def entry(run: Run, model: str = "one") -> dict[str, Any]:
    found: dict[str, Any] = run.summary.tree()["accuracy"][model]["free"]
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- the numbers ----


def test_an_undecided_answer_is_never_wrong_and_opens_the_bounds(joined: Run) -> None:
    free = entry(joined)
    whole = free["all"]
    rates = [whole["value"], whole["lower"], whole["upper"]]
    rates += [whole[name]["value"] for name in ("coverage", "by_judge")]
    # 77 % have a score: the bounds are given, and no accuracy.
    assert rates[0] is None
    assert rates[1:] == pytest.approx([12 / 22, 17 / 22, 17 / 22, 5 / 17])
    assert [whole["n"], whole["asked"], whole["coverage"]["n"], whole["by_judge"]["n"]] == [17, 22, 22, 17]
    assert free["statuses"] == {"needs_judge": 2, "scored": 17, "truncated": 3}
    assert free["left_out"] == {"stem_refers_to_choices": 2}
    assert (free["judges"], free["judge_status"], free["self_judging"]) == (["big"], "uncalibrated", 0)


def test_the_splits_share_out_every_answer(joined: Run) -> None:
    splits = joined.summary.tree()["splits"]
    assert splits["shortcut"] == N // 2
    assert splits["undecided"] == 0
    free = entry(joined)
    for name in ("asked", "n"):
        assert free["shortcut"][name] + free["robust"][name] == free["all"][name]
    assert free["shortcut"]["asked"] == 11
    assert free["shortcut"]["value"] == 1.0


def test_the_gap_is_paired_on_items_that_have_both_scores(joined: Run) -> None:
    table = pq.read_table(joined.folder / "answers.parquet").to_pylist()
    credit: dict[str, float] = {}
    for row in table:
        if (row["view"], row["model"]) == ("full", "one"):
            credit.setdefault(row["item"], row["correct"])
    both = [(credit[g.item_id], g.score) for g in graded() if g.score is not None]
    gap = entry(joined)["full_gap"]
    assert gap["n"] == 17
    assert gap["value"] == pytest.approx(sum(a - b for a, b in both) / 17)


def test_a_model_that_answered_in_words_alone_has_its_own_row(joined: Run) -> None:
    accuracy = joined.summary.tree()["accuracy"]
    assert accuracy["three"]["full"] is None
    assert entry(joined, "three")["full_gap"] is None
    assert entry(joined, "three")["all"] == entry(joined)["all"]
    assert accuracy["two"]["free"] is None
    assert "three" in text_of_page((joined.folder / "report.html").read_text())


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=22))
def test_bounds_hold_whatever_was_scored(scores: list[float | None]) -> None:
    held = np.array([np.nan if s is None else s for s in scores])
    shown = _rates(held, np.ones(len(held), dtype=bool), np.zeros(len(held), dtype=bool))
    told = shown.model_dump()
    unscored = sum(s is None for s in scores)
    assert (told["value"] is None) == (5 * unscored > len(scores))
    assert told["upper"] - told["lower"] == pytest.approx(unscored / len(scores))
    assert told["n"] == told["asked"] - unscored
    if told["value"] is not None:
        assert told["lower"] <= told["value"] + 1e-12
        assert told["value"] <= told["upper"] + 1e-12


# ---- what stays ----


def test_attaching_changes_no_verdict_and_no_answer(finished: Run) -> None:
    before = contents(finished.folder)
    summary = finished.summary.tree()
    done = beside(finished, graded())
    after = contents(done.folder)
    assert set(after) - set(before) == {"free.json"}
    for name in ("answers.parquet", "verdicts.csv", "robust.jsonl", "shortcut.jsonl", "cloze.jsonl"):
        assert after[name] == before[name]
    changed = done.summary.tree()
    for entry_ in (*summary["accuracy"].values(), *changed["accuracy"].values()):
        entry_["free"] = None
    assert summary.pop("signature") != changed.pop("signature")
    assert changed == summary


@pytest.mark.slow
def test_judging_and_printing_again_keep_the_grades_to_the_byte(finished: Run, tmp_path: Path) -> None:
    done = beside(finished, graded())
    before = contents(done.folder)
    assert contents(pipeline.rejudge(done, {}, done.folder).folder) == before
    assert contents(pipeline.reprint(open_run(done.folder)).folder) == before
    assert contents(beside(open_run(done.folder), graded()).folder) == before
    other = pipeline.rejudge(open_run(done.folder), {"screen.criterion": "majority"}, tmp_path / "other")
    assert entry(other)["all"] == entry(done)["all"]
    assert not pipeline.rejudge(open_run(done.folder), {}, tmp_path / "copy").changed()


def test_grades_attached_later_take_the_place_of_earlier_ones_and_five_labels_calibrate_no_judge(
    joined: Run, tmp_path: Path
) -> None:
    rows = [g for g in graded() if g.score is not None]
    labels = [HumanLabel(g.item_id, "p", "one", str(g.verdict)) for g in rows if g.judge is not None]
    done = beside(open_run(shutil.copytree(joined.folder, tmp_path / "out")), rows, labels)
    assert (entry(done)["all"]["asked"], entry(done)["all"]["coverage"]["value"]) == (17, 1.0)
    assert done.manifest["signature"] != joined.manifest["signature"]
    assert "three" not in done.summary.tree()["accuracy"]
    assert entry(done)["judge_status"] == "uncalibrated"
    assert entry(done)["judge_kappa"]["value"] == pytest.approx(1.0)
    text = text_of_page((done.folder / "report.html").read_text())
    assert "the judge agrees with people at kappa 1.00" in text


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [("format", 2, "format 2; expected 1"), ("rows", 3, "no grades of a run"), ("calibration", None, "no grades of a run"),
     ("score", 1.5, "score 1.5; expected 0 to 1"), ("score", float("nan"), "score nan; expected 0 to 1"),
     ("score", "high", "no grades of a run"), ("mood", "good", "no grades of a run")],
)  # fmt: skip
def test_a_file_of_grades_that_is_none_is_refused(place: str, value: object, says: str) -> None:
    row = {"item": "q00", "model": "one", "kind": "text", "status": "scored", "score": 1.0}
    tree: dict[str, Any] = {"format": 1, "sha256": "", "calibration": {}, "left_out": {}, "rows": [row]}
    assert FreeGrades.of(tree).models == ("one",)
    (tree if place in tree else row)[place] = value
    with pytest.raises(DataError, match=says):
        FreeGrades.of(tree)


def test_grades_changed_on_disk_are_not_judged(joined: Run, tmp_path: Path) -> None:
    folder = shutil.copytree(joined.folder, tmp_path / "out")
    path = folder / "free.json"
    path.write_text(path.read_text().replace('"score": 0.0', '"score": 1.0', 1))
    with pytest.raises(DataError, match=r"free\.json: is not as the run left it"):
        pipeline.rejudge(open_run(folder), {}, folder)


def test_nothing_of_an_item_or_answer_stands_in_the_grades_of_a_run(joined: Run) -> None:
    assert not re.search("zanzibar|colour", (joined.folder / "free.json").read_text())


# ---- what is refused ----


def refused(grades: Sequence[GradeResult], items: Sequence[FreeItem], run_items: Sequence[Item]) -> str:
    with pytest.raises(DataError) as caught:
        attached(grades, items, run_items)
    return "\n".join(caught.value.lines)


def test_grades_of_other_items_are_refused_by_content(finished: Run) -> None:
    items, mine = list(finished.items or ()), free_items()
    for change in ({"question": "What size has it?"}, {"correct": 0}):
        other = [replace(i, **change) if i.id == "q03" else i for i in mine]
        told = refused(graded(), other, items)
        assert "q03: the run's item has another text or key" in told
        assert "colour" not in told
    assert "the run holds no such item" in refused(graded(), mine, items[:4])
    assert "no such item in --items" in refused(graded(), mine[:4], items)


def test_one_answer_told_twice_and_no_grades_are_refused(finished: Run) -> None:
    items = finished.items or ()
    assert "q00: 2 of one; expected one" in refused([*graded(), grade("q00", 0.0)], free_items(), items)
    with pytest.raises(DataError, match="grades: none"):
        attached([], free_items(), items)


def test_grades_of_a_restricted_set_are_refused(finished: Run) -> None:
    items = [replace(item, restricted=True) for item in free_items()]
    with pytest.raises(AuthorisationError) as caught:
        attached(graded(), items, finished.items or ())
    assert caught.value.exit_code == 4


# ---- the report and the command ----


def test_the_report_has_a_free_column_with_bounds_and_says_uncalibrated(made: Path, joined: Run) -> None:
    assert "| Free |" not in text_of_page((made / "report.html").read_text())
    text = text_of_page((joined.folder / "report.html").read_text())
    for words in (
        "| Cloze | Free |",
        "54.5 to 77.3 %",
        "29.4 % by a judge (uncalibrated)",
        "The judge (big) is uncalibrated",
        "Not asked in words: stem refers to choices 2.",
    ):
        assert words in text


def test_the_command_attaches_and_refuses_self_judging(finished: Run, tmp_path: Path) -> None:
    items = write_lines(tmp_path / "free.jsonl", [asdict(item) for item in free_items()])
    grades = write_lines(tmp_path / "grades.jsonl", [g.json() for g in graded()])
    own = write_lines(tmp_path / "own.jsonl", [g.json() for g in graded(judge="one")])
    rest = ("--items", items, "--run", finished.folder)
    run("attach", own, *rest, fails=2)
    line = "one: of 22 answers between 54.5 % and 77.3 % are right; 17 have a score, judge uncalibrated"
    assert line in run("attach", grades, *rest).stdout
    out = run("attach", own, *rest, "--allow-self-judging", "--json", "-o", tmp_path / "own").stdout
    assert json.loads(out)["free"]["one"]["self_judging"] == 5
    assert "judged 5 of its own answers" in (tmp_path / "own" / "report.html").read_text()


def commands() -> list[list[str]]:
    """The command lines at the head of the page."""
    page = (Path(__file__).parents[2] / "docs" / "freeform.md").read_text(encoding="utf-8")
    block = re.findall(r"```text\n(.*?)```", page, re.S)[0].replace("\\\n", " ")
    return [shlex.split(line)[2:] for line in block.splitlines()]


@pytest.mark.slow
def test_the_commands_at_the_head_of_the_page_run_as_they_stand(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        name = "smollm2-135m"

        def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
            return ["red right" if "number 0" in p else "something else" for p in prompts]

    @contextlib.contextmanager
    def opened(*_: object, **__: object) -> Iterator[Model]:
        yield Model()

    def complete(self: HttpJudge, messages: Sequence[Message], call: Call) -> Completion:
        return Completion('{"verdict": "incorrect"}', model=self.name)

    monkeypatch.setattr("robustify.freeform.session.open_writer", opened)
    monkeypatch.setattr(HttpJudge, "complete", complete)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "results" / "mine")
    write_items(tmp_path / "items.jsonl", made_items())
    write_lines(tmp_path / "labels.jsonl", [{"item_id": "q01", "annotator": "p", "verdict": "incorrect"}])
    lines = commands()
    assert [line[0] for line in lines] == ["prepare", "generate", "grade", "agree", "report", "attach"]
    for line in lines:
        run(*line)
    scores = entry(open_run(tmp_path / "results" / "mine"), "smollm2-135m")["all"]
    assert (scores["asked"], scores["coverage"]["value"], scores["value"]) == (22, 1.0, pytest.approx(1 / 22))
