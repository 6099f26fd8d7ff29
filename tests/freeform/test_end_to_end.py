"""End to end with a real model: SmolLM2 answers 20 demo items in words, rules grade, a replayed judge does the rest.

In the slow suite the answers and the verdicts come from a real OpenAI-compatible server.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from robustify.cli.free import free
from robustify.freeform.grade.graders import Grading, grade_answers
from robustify.freeform.human import UNCALIBRATED
from robustify.freeform.jsonl import read_jsonl, write_rows
from robustify.freeform.judge.judges import recording, replaying
from robustify.freeform.judge.prompting import Message
from robustify.freeform.questions import Generation, convert_item, exclusions, generate
from robustify.freeform.report import summarise
from robustify.freeform.schema import FreeItem, answer_from, grade_from
from robustify.loaders import Source, load
from robustify.report.free_page import markdown_page
from tests.engines.test_vllm_engine import PYTHON, serving
from tests.freeform.scripted import ScriptedJudge
from tests.support.model_cache import model_folder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
N = 20
JUDGED = 6


def demo_items() -> list[FreeItem]:
    loaded = load(Source(path=str(ROOT / "configs" / "data" / "benign_demo.jsonl")))
    items = [convert_item(item) for item in loaded.items]
    told = exclusions(items)
    assert told["n"] == len(loaded.items) == told["asked"] + sum(told["excluded"].values())
    return [item for item in items if not item.excluded_reason][:N]


def by_length(messages: Sequence[Message]) -> str:
    """A judge that needs no model: every third prompt by its length is right, one in seven unreadable at first."""
    size = sum(len(m.content) for m in messages if m.role != "assistant")
    if size % 7 == 0 and len(messages) == 2:
        return "I think so."
    return json.dumps({"reasoning": "by length", "verdict": "correct" if size % 3 == 0 else "incorrect"})


def open_between(entry: dict[str, Any]) -> float:
    """How many answers the bounds leave open, summed over kinds, which have no mean."""
    return sum(part["n"] * (part["upper"] - part["lower"]) for part in entry["kinds"].values())


@pytest.mark.model
def test_a_real_model_answers_and_is_graded_without_a_live_judge(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")
    from robustify.engines.local.engine import HF

    items = demo_items()
    assert len(items) == N
    with HF("smollm2-135m", model_folder("smollm2-135m")) as model:
        rows = generate(items, model, Generation(max_tokens=12), tmp_path / "answers.jsonl")
    assert [row.item_id for row in rows] == [item.id for item in items]
    assert sum(bool(row.text.strip()) for row in rows) == N
    # Twelve tokens are enough for some answers and not for others, and the engine says for which.
    assert {row.finish_reason for row in rows} == {"stop", "length"}
    plain = grade_answers(items, rows, Grading(mode="deterministic"), tmp_path / "plain.jsonl")
    left = [g for g in plain if g.status == "needs_judge"]
    assert left, "the rules decided everything: nothing is left for the judge"
    with recording(ScriptedJudge(by_length, name="by-length"), tmp_path / "judge.jsonl") as judge:
        grade_answers(items, rows, Grading(), tmp_path / "asked.jsonl", judge)
        assert judge.fresh >= len(left)
    grades = grade_answers(
        items, rows, Grading(), tmp_path / "replayed.jsonl", replaying(tmp_path / "judge.jsonl")
    )
    assert (tmp_path / "asked.jsonl").read_bytes() == (tmp_path / "replayed.jsonl").read_bytes()
    assert [g.method for g in grades].count("judge") == len(left)
    cut = {row.item_id for row in rows if row.finish_reason == "length"}
    unscored = [g for g in grades if g.score is None]
    assert {g.status for g in unscored} == {"truncated"}
    assert {g.item_id for g in unscored} <= cut
    assert len(unscored) < N
    for before, after in zip(plain, grades, strict=True):
        assert before.status == "needs_judge" or before.score == after.score
    summary = summarise(items, grades)
    told = summary["models"]["smollm2-135m"]["all"]
    n = N - len(unscored)
    assert (told["n"], told["accuracy"]["n"], told["coverage"]["value"]) == (N, n, n / N)
    assert told["by_judge"]["value"] == len(left) / n
    assert open_between(summary["models"]["smollm2-135m"]) == pytest.approx(len(unscored))
    assert summary["calibration"] == {"status": UNCALIBRATED}
    assert UNCALIBRATED in markdown_page(summary)


@pytest.mark.proof
@pytest.mark.model
@pytest.mark.skipif(not PYTHON, reason="ROBUSTIFY_TEST_VLLM_PYTHON names no interpreter that has vLLM")
def test_a_real_server_answers_and_judges_through_the_commands(tmp_path: Path) -> None:
    items, answers, grades = (tmp_path / f"{name}.jsonl" for name in ("items", "answers", "grades"))
    write_rows(items, [asdict(item) for item in demo_items()])

    def run(*words: object) -> dict[str, Any]:
        told = CliRunner().invoke(
            free, [*map(str, words), "--json"], catch_exceptions=False, standalone_mode=False
        )
        assert (told.return_value or 0) == 0, told.output
        found: dict[str, Any] = json.loads(told.stdout)
        return found

    with serving(tmp_path) as url:
        at = ("--base-url", url, "-m", "smollm2", "--max-tokens", 24)
        assert run("generate", items, *at, "-o", answers)["n"] == N
        rows = read_jsonl(answers, answer_from)
        # A judge of this size rambles: some answers show that it is asked, and all would take minutes.
        write_rows(some := tmp_path / "some.jsonl", [asdict(row) for row in rows[:JUDGED]])
        judge = ("--judge", url, "--judge-model", "smollm2", "--max-unscored", 1, "--retries", 0)
        told = run("grade", some, "--items", items, "-o", grades, *judge)
    assert {row.finish_reason for row in rows} <= {"stop", "length"}
    assert all(row.text.strip() for row in rows)
    held = read_jsonl(grades, grade_from)
    assert len(held) == JUDGED
    # So small a judge is often unreadable: that is an error of the instrument and no wrong answer.
    assert {g.status for g in held} <= {"scored", "no_answer", "truncated", "grader_error"}
    assert all((g.score is None) == (g.status in ("truncated", "grader_error")) for g in held)
    asked = [g for g in held if g.judge is not None]
    assert asked
    assert all(g.judge is not None and g.judge.self_judging for g in asked)
    assert open_between(told["models"]["smollm2"]) == pytest.approx(sum(g.score is None for g in held))
