"""End to end with a real model: SmolLM2 answers 20 demo items in words, rules grade, a replayed judge does the rest."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.freeform.convert import convert_item, excluded
from robustify.freeform.generate import Generation, generate
from robustify.freeform.grading import Grading, grade_answers
from robustify.freeform.human import UNCALIBRATED
from robustify.freeform.judge import ScriptedJudge, recording, replaying
from robustify.freeform.prompting import Message
from robustify.freeform.report import page, summarise
from robustify.freeform.schema import FreeItem
from robustify.loaders import Source, load
from tests.model_cache import model_folder

ROOT = Path(__file__).parent.parent
N = 20


def demo_items() -> list[FreeItem]:
    loaded = load(Source(path=str(ROOT / "configs" / "data" / "benign_demo.jsonl")))
    items = [convert_item(item) for item in loaded.items]
    told = excluded(items)
    assert told["n"] == len(loaded.items) == told["asked"] + sum(told["excluded"].values())
    return [item for item in items if not item.excluded_reason][:N]


def by_length(messages: Sequence[Message]) -> str:
    """A judge that needs no model: every third prompt by its length is right, one in seven unreadable at first."""
    size = sum(len(m.content) for m in messages if m.role != "assistant")
    if size % 7 == 0 and len(messages) == 2:
        return "I think so."
    return json.dumps({"reasoning": "by length", "verdict": "correct" if size % 3 == 0 else "incorrect"})


@pytest.mark.model
def test_a_real_model_answers_and_is_graded_without_a_live_judge(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")
    from robustify.engines.hf import HF

    items = demo_items()
    assert len(items) == N
    with HF("smollm2-135m", model_folder("smollm2-135m")) as model:
        rows = generate(items, model, Generation(max_tokens=12), tmp_path / "answers.jsonl")
    assert [row.item_id for row in rows] == [item.id for item in items]
    assert sum(bool(row.text.strip()) for row in rows) == N
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
    assert all(g.score is not None for g in grades)
    for before, after in zip(plain, grades, strict=True):
        assert before.status == "needs_judge" or before.score == after.score
    summary = summarise(items, grades)
    told = summary["models"]["smollm2-135m"]["all"]
    assert (told["n"], told["accuracy"]["n"], told["coverage"]["value"]) == (N, N, 1.0)
    assert told["by_judge"]["value"] == len(left) / N
    assert summary["calibration"] == {"status": UNCALIBRATED}
    assert UNCALIBRATED in page(summary)
